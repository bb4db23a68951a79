// SPDX-License-Identifier: GPL-2.0

//! Pinned and revocable regions, and what sets them apart from dynamic ones.

#[kernel::prelude::kunit_tests(rdma_dmabuf_modes)]
mod tests {
    use crate::{
        attachment::Mode,
        importer::Settings,
        kunit::{
            check::{
                ensure,
                eventually,
                meanwhile,
                Verdict, //
            },
            driver::{
                user_errno,
                Driver,
                Wish,
                BASE, //
            },
            exporter::{
                Answer,
                Exporter,
                Forgery,
                Moment,
                Order,
                Placement, //
            },
            lives::{
                buffer,
                SOON_MS, //
            },
            nic::{
                Nic,
                NicMr, //
            },
            thread::Thread,
            vram::fence::{
                Fence,
                Usage, //
            },
        },
        window::PAGE_SIZE, //
    };
    use kernel::{
        prelude::*,
        sync::Arc, //
    };

    const P: u64 = PAGE_SIZE;
    const PINNED_MODES: [Mode; 2] = [Mode::Pinned, Mode::Revocable];

    fn region(nic: &Nic, mode: Mode) -> Verdict<(Arc<Exporter>, NicMr)> {
        let exporter = buffer()?;
        let mr = nic.register(&exporter, Wish::all_of(&exporter), mode)?;

        Ok((exporter, mr))
    }

    #[test]
    fn pin_lasts_as_long_as_the_region() -> Verdict {
        let nic = Nic::new()?;

        for mode in PINNED_MODES {
            let (exporter, mr) = region(&nic, mode)?;

            ensure!(exporter.pins() == 1);
            ensure!(exporter.mapped() == 1);
            ensure!(mr.shows(&exporter)?);
            drop(mr);
            ensure!(exporter.pins() == 0);
            ensure!(exporter.counts().pins.get() == 1);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn dynamic_region_pins_nothing() -> Verdict {
        let nic = Nic::new()?;
        let (exporter, mr) = region(&nic, Mode::Dynamic)?;

        ensure!(exporter.counts().pins.get() == 0);
        exporter.move_to_new_pages()?;
        ensure!(mr.shows(&exporter)?);
        ensure!(exporter.counts().pins.get() == 0);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn pinned_buffer_cannot_move() -> Verdict {
        let nic = Nic::new()?;

        for mode in PINNED_MODES {
            let (exporter, mr) = region(&nic, mode)?;

            ensure!(exporter.move_to_new_pages() == Err(EBUSY));
            ensure!(mr.key().unmaps() == 0);
            ensure!(mr.shows(&exporter)?);
            drop(mr);
            exporter.move_to_new_pages()?;
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn pinned_region_has_no_callback_to_call() -> Verdict {
        let nic = Nic::new()?;
        let (exporter, mr) = region(&nic, Mode::Pinned)?;

        exporter.invalidate();
        ensure!(nic.totals().invalidations.get() == 0);
        ensure!(mr.key().unmaps() == 0);
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn exporter_that_must_be_able_to_revoke_refuses_pinned_regions_only() -> Verdict {
        let nic = Nic::new()?;
        let exporter = Order::of_runs(&[1])?
            .for_pinned()
            .only_for_revocable()
            .export()?;
        let wish = Wish::all_of(&exporter);

        ensure!(nic.register(&exporter, wish, Mode::Pinned).err() == Some(EOPNOTSUPP));
        ensure!(exporter.counts().attaches.get() == 0);
        for mode in [Mode::Dynamic, Mode::Revocable] {
            let mr = nic.register(&exporter, wish, mode)?;

            ensure!(mr.shows(&exporter)?);
        }
        exporter.settle()
    }

    #[test]
    fn revocable_region_lets_go_before_the_revocation_returns() -> Verdict {
        let nic = Nic::new()?;
        let (exporter, mr) = region(&nic, Mode::Revocable)?;

        exporter.invalidate();
        ensure!(exporter.mapped() == 0);
        ensure!(exporter.pins() == 0);
        ensure!(mr.key().unmaps() == 1);
        ensure!(mr.key().revocations() == 1);
        drop(mr);
        ensure!(exporter.counts().unmaps.get() == 1);
        exporter.settle()
    }

    #[test]
    fn revocation_is_for_ever_and_happens_once() -> Verdict {
        let nic = Nic::new()?;
        let (exporter, mr) = region(&nic, Mode::Revocable)?;

        exporter.revoke(SOON_MS)?;
        ensure!(mr.write(BASE, &[1]) == Err(ENODEV));
        exporter.unrevoke()?;
        exporter.invalidate();
        ensure!(mr.write(BASE, &[1]) == Err(ENODEV));
        ensure!(mr.map() == Err(EINVAL));
        ensure!(mr.key().revocations() == 1);
        ensure!(nic.totals().revocations.get() == 1);
        ensure!(exporter.counts().maps.get() == 1);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn dynamic_region_lives_again_when_the_exporter_wants() -> Verdict {
        let nic = Nic::new()?;
        let (exporter, mr) = region(&nic, Mode::Dynamic)?;

        exporter.revoke(SOON_MS)?;
        ensure!(mr.write(BASE, &[1]) == Err(ENODEV));
        ensure!(mr.map() == Err(ENODEV));
        ensure!(mr.key().revocations() == 0);
        exporter.unrevoke()?;
        mr.write(BASE, &[0x5a])?;
        ensure!(exporter.content()?[0] == 0x5a);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn callback_during_the_own_pin_or_map_is_no_revocation() -> Verdict {
        let nic = Nic::new()?;

        for moment in [Moment::Attach, Moment::Pin, Moment::Map] {
            let exporter = buffer()?;

            exporter.call_back_in(moment);
            let mr = nic.register(&exporter, Wish::all_of(&exporter), Mode::Revocable)?;
            ensure!(exporter.has_called_back());
            ensure!(mr.key().revocations() == 0);
            ensure!(mr.shows(&exporter)?);
            ensure!(exporter.pins() == 1);
            drop(mr);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn buffer_that_is_placed_by_the_pin_is_no_revocation() -> Verdict {
        let nic = Nic::new()?;

        for mode in [Mode::Dynamic, Mode::Pinned, Mode::Revocable] {
            let exporter = Order::of_runs(&[2, 1])?.for_pinned().in_vram().export()?;
            let mr = nic.register(&exporter, Wish::all_of(&exporter), mode)?;

            ensure!(exporter.placement() == Placement::System);
            ensure!(mr.key().revocations() == 0);
            ensure!(mr.shows(&exporter)?);
            drop(mr);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn callback_from_the_own_unmap_is_harmless() -> Verdict {
        let nic = Nic::new()?;

        for mode in [Mode::Dynamic, Mode::Revocable] {
            let (exporter, mr) = region(&nic, mode)?;

            exporter.call_back_in(Moment::Unmap);
            drop(mr);
            ensure!(exporter.has_called_back());
            ensure!(exporter.counts().unmaps.get() == 1);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn refused_pin_leaves_nothing_behind() -> Verdict {
        let nic = Nic::new()?;

        for mode in PINNED_MODES {
            for error in [EBUSY, ENOSPC, EINTR] {
                let exporter = buffer()?;

                exporter.refuse(Moment::Pin, error);
                ensure!(
                    nic.register(&exporter, Wish::all_of(&exporter), mode).err() == Some(error)
                );
                ensure!(exporter.counts().maps.get() == 0);
                exporter.settle()?;
            }
        }
        Ok(())
    }

    #[test]
    fn refused_map_undoes_the_pin_once() -> Verdict {
        let nic = Nic::new()?;

        for mode in PINNED_MODES {
            let exporter = buffer()?;

            exporter.refuse(Moment::Map, ENOMEM);
            ensure!(nic.register(&exporter, Wish::all_of(&exporter), mode).err() == Some(ENOMEM));
            ensure!(exporter.counts().pins.get() == 1);
            ensure!(exporter.counts().unpins.get() == 1);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn bad_table_undoes_map_and_pin() -> Verdict {
        let nic = Nic::new()?;

        for mode in PINNED_MODES {
            for answer in [
                Answer::Nothing,
                Answer::Forged(Forgery::Short),
                Answer::Forged(Forgery::Empty),
            ] {
                let exporter = buffer()?;

                exporter.answer_next_map(answer);
                ensure!(nic
                    .register(&exporter, Wish::all_of(&exporter), mode)
                    .is_err());
                ensure!(exporter.counts().unpins.get() == 1);
                exporter.settle()?;
            }
        }
        Ok(())
    }

    #[test]
    fn killed_wait_for_fences_undoes_map_and_pin() -> Verdict {
        for mode in PINNED_MODES {
            let nic = Arc::new(Nic::new()?, GFP_KERNEL)?;
            let exporter = buffer()?;
            let fence = Fence::new()?;

            exporter.add_fence(&fence, Usage::Kernel)?;
            let registering = {
                let (nic, exporter) = (nic.clone(), exporter.clone());

                Thread::spawn(move || {
                    nic.register(&exporter, Wish::all_of(&exporter), mode)
                        .map(drop)
                })?
            };
            ensure!(eventually(|| fence.waits() != 0));
            registering.kill();
            ensure!(registering.join()? == Err(EINTR));
            ensure!(exporter.counts().unpins.get() == 1);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn revocation_ends_a_registration_that_waits() -> Verdict {
        let nic = Arc::new(Nic::new()?, GFP_KERNEL)?;
        let exporter = buffer()?;
        let fence = Fence::new()?;

        exporter.add_fence(&fence, Usage::Kernel)?;
        let registering = {
            let (nic, exporter) = (nic.clone(), exporter.clone());

            Thread::spawn(move || {
                nic.register(&exporter, Wish::all_of(&exporter), Mode::Revocable)
                    .map(drop)
            })?
        };
        ensure!(eventually(|| fence.waits() != 0));
        exporter.invalidate();
        ensure!(registering.join()? == Err(ENODEV));
        ensure!(exporter.pins() == 0);
        exporter.settle()
    }

    #[test]
    fn revocation_right_after_the_wait_ends_a_registration() -> Verdict {
        let nic = Arc::new(Nic::new()?, GFP_KERNEL)?;
        let exporter = buffer()?;
        let fence = Fence::new()?;
        let mut is_done = false;

        exporter.add_fence(&fence, Usage::Kernel)?;
        let registering = {
            let (nic, exporter) = (nic.clone(), exporter.clone());

            Thread::spawn(move || {
                nic.register(&exporter, Wish::all_of(&exporter), Mode::Revocable)
                    .map(drop)
            })?
        };
        ensure!(eventually(|| fence.waits() != 0));
        exporter.invalidate_after(|| {
            fence.signal();
            // The wait is over, but the lock that comes after it is not to be had yet.
            is_done = meanwhile(|| registering.is_done());
        });
        ensure!(!is_done);
        ensure!(registering.join()? == Err(ENODEV));
        ensure!(exporter.counts().maps.get() == 1);
        exporter.settle()
    }

    #[test]
    fn pins_beyond_the_quota_are_refused() -> Verdict {
        let nic = Nic::new()?;
        let exporter = Order::of_runs(&[1])?
            .for_pinned()
            .with_pin_quota(1)
            .export()?;
        let wish = Wish::all_of(&exporter);
        let first = nic.register(&exporter, wish, Mode::Pinned)?;

        ensure!(nic.register(&exporter, wish, Mode::Revocable).err() == Some(ENOSPC));
        drop(first);
        drop(nic.register(&exporter, wish, Mode::Revocable)?);
        exporter.settle()
    }

    #[test]
    fn driver_can_revoke_in_every_mode() -> Verdict {
        let nic = Nic::new()?;

        for mode in [Mode::Dynamic, Mode::Pinned, Mode::Revocable] {
            let (exporter, mr) = region(&nic, mode)?;

            mr.revoke();
            ensure!(exporter.mapped() == 0);
            ensure!(exporter.pins() == 0);
            ensure!(mr.key().revocations() == 1);
            ensure!(mr.write(BASE, &[1]) == Err(ENODEV));
            exporter.move_to_new_pages()?;
            drop(mr);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn driver_in_c_has_the_same_modes() -> Verdict {
        let nic = Nic::new()?;

        for mode in [Mode::Dynamic, Mode::Pinned, Mode::Revocable] {
            let exporter = buffer()?;
            let mr = nic.register_by_c(&exporter, Wish::all_of(&exporter), mode)?;

            ensure!(mr.shows(&exporter)?);
            ensure!(exporter.pins() == u32::from(mode != Mode::Dynamic));
            exporter.invalidate();
            ensure!(mr.key().unmaps() == u32::from(mode != Mode::Pinned));
            ensure!(mr.key().revocations() == u32::from(mode == Mode::Revocable));
            drop(mr);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn drivers_without_a_choice_get_the_mode_of_the_module() -> Verdict {
        for mode in PINNED_MODES {
            let exporter = buffer()?;
            let mr = Driver::in_mode(mode)?.register(&exporter, Wish::all_of(&exporter))?;

            ensure!(exporter.pins() == 1);
            ensure!(mr.shows(&exporter)?);
            drop(mr);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn modes_go_by_numbers() -> Verdict {
        ensure!(Settings::mode_from(0) == Ok(Mode::Dynamic));
        ensure!(Settings::mode_from(1) == Ok(Mode::Pinned));
        ensure!(Settings::mode_from(2) == Ok(Mode::Revocable));
        for unknown in [3, u32::MAX] {
            ensure!(Settings::mode_from(unknown) == Err(EINVAL), unknown);
        }
        Ok(())
    }

    #[test]
    fn access_to_a_revoked_region_is_quick() -> Verdict {
        let exporter = buffer()?;
        let mr = Driver::in_mode(Mode::Revocable)?.register(&exporter, Wish::all_of(&exporter))?;
        let fence = Fence::new()?;

        exporter.invalidate();
        exporter.add_fence(&fence, Usage::Kernel)?;
        {
            // Neither the lock nor the fence is needed to know.
            let _resv = exporter.lock();

            ensure!(mr.write(BASE, &[1]) == Err(ENODEV));
        }
        ensure!(fence.waits() == 0);
        ensure!(user_errno(ENODEV) == ENODEV.to_errno());
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn window_of_a_pinned_region_is_exact() -> Verdict {
        let nic = Nic::new()?;
        let exporter = buffer()?;
        let mr = nic.register(&exporter, Wish::new(P - 3, P + 5), Mode::Pinned)?;

        mr.write(BASE + P - 3, &[0xee; 8])?;
        ensure!(exporter.content()?[P as usize - 3..][..8] == [0xee; 8]);
        ensure!(mr.write(BASE + P - 4, &[1]) == Err(EFAULT));
        drop(mr);
        exporter.settle()
    }
}
