// SPDX-License-Identifier: GPL-2.0

//! What a dma-buf importer for memory regions owes its exporter, rule by rule.
//!
//! The exporter checks most of it with every operation, and [`Exporter::settle`] fails on a breach;
//! so these cases bring about the situation that a rule is for. The rules are in
//! `docs/contract.md`, by their numbers.

#[kernel::prelude::kunit_tests(rdma_dmabuf_contract)]
mod tests {
    use crate::{
        attachment::Mode,
        kunit::{
            check::{
                ensure,
                eventually,
                meanwhile,
                Verdict, //
            },
            driver::{
                Driver,
                Wish,
                BASE, //
            },
            exporter::{
                shared_resv,
                Answer,
                Exporter,
                Forgery,
                Kind,
                Moment,
                Order,
                Placement, //
            },
            lives::{
                buffer,
                live_in_each_mode,
                region,
                MODES,
                SOON_MS, //
            },
            nic::Nic,
            thread::{
                Event,
                Thread, //
            },
            vram::fence::{
                Fence,
                Usage, //
            },
        },
        window::{
            Segment,
            PAGE_SIZE, //
        },
    };
    use kernel::prelude::*;

    const P: u64 = PAGE_SIZE;
    #[test]
    fn rule_01_attach_detach_get_and_put_come_without_the_lock() -> Verdict {
        // The exporter takes a lock that is held by the caller for a breach.
        live_in_each_mode(&Nic::new()?)
    }

    #[test]
    fn rule_02_pin_unpin_map_and_unmap_come_with_the_lock() -> Verdict {
        let nic = Nic::new()?;

        live_in_each_mode(&nic)?;
        ensure!(nic.totals().maps.get() == 4);
        ensure!(nic.totals().unmaps.get() == 4);
        Ok(())
    }

    #[test]
    fn rule_03_there_is_a_device_with_a_mask_even_if_the_driver_has_none() -> Verdict {
        let (exporter, mr) = region()?;

        ensure!(mr.access_all()?.blocks().first().copied() == exporter.phys(0));
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn rule_04_peer_to_peer_is_not_asked_for() -> Verdict {
        let nic = Nic::new()?;

        for mode in MODES {
            // An importer that asks is a breach.
            let exporter = Order::of_runs(&[2])?.in_vram().for_pinned().export()?;
            let mr = nic.register(&exporter, Wish::all_of(&exporter), mode)?;

            ensure!(exporter.placement() == Placement::System);
            ensure!(mr.shows(&exporter)?);
            drop(mr);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn rule_05_callback_may_come_before_attach_returns() -> Verdict {
        let nic = Nic::new()?;

        for mode in [Mode::Dynamic, Mode::Revocable] {
            let exporter = buffer()?;

            exporter.call_back_in(Moment::Attach);
            let mr = nic.register(&exporter, Wish::all_of(&exporter), mode)?;
            ensure!(exporter.has_called_back());
            ensure!(mr.shows(&exporter)?);
            drop(mr);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn rule_06_callback_takes_no_lock_and_leaves_the_list_alone() -> Verdict {
        let (exporter, first) = region()?;
        let second = Driver::new()?.register(&exporter, Wish::new(P, P))?;

        exporter.invalidate();
        ensure!(exporter.can_lock());
        ensure!(exporter.counts().detaches.get() == 0);
        ensure!(exporter.counts().unmaps.get() == 2);
        exporter.invalidate();
        ensure!(first.shows(&exporter)?);
        ensure!(second.shows(&exporter)?);
        drop((first, second));
        exporter.settle()
    }

    #[test]
    fn rule_07_callback_may_come_twice_and_to_reclaim_memory() -> Verdict {
        let (exporter, mr) = region()?;

        exporter.invalidate();
        exporter.invalidate();
        ensure!(exporter.counts().unmaps.get() == 1);
        ensure!(mr.shows(&exporter)?);
        exporter.shrink()?;
        ensure!(exporter.counts().unmaps.get() == 2);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn rule_08_after_the_callback_access_maps_first() -> Verdict {
        let (exporter, mr) = region()?;

        exporter.move_to_new_pages()?;
        ensure!(exporter.counts().maps.get() == 1);
        mr.write(BASE, &[0x5a])?;
        ensure!(exporter.counts().maps.get() == 2);
        ensure!(exporter.content()?[0] == 0x5a);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn rule_09_nothing_is_written_once_the_callback_has_returned() -> Verdict {
        let (exporter, mr) = region()?;
        let begun = Event::new()?;
        let mover = {
            let (exporter, begun) = (exporter.clone(), begun.clone());

            Thread::spawn(move || {
                begun.wait();
                exporter.move_to_new_pages()
            })?
        };

        {
            let access = mr.access_all()?;

            begun.happen();
            ensure!(eventually(|| exporter.is_locked() && mover.is_asleep()));
            ensure!(!meanwhile(|| mover.is_done()));
            access.write(BASE, &[0x5a])?;
        }
        mover.join()??;
        ensure!(exporter.taken_pages_are_untouched());
        ensure!(exporter.content()?[0] == 0x5a);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn rule_10_unmap_comes_within_the_callback() -> Verdict {
        let nic = Nic::new()?;

        for mode in [Mode::Dynamic, Mode::Revocable] {
            let exporter = Order::of_runs(&[1])?.only_for_revocable().export()?;
            let mr = nic.register(&exporter, Wish::all_of(&exporter), mode)?;

            exporter.invalidate();
            ensure!(exporter.mapped() == 0);
            exporter.revoke(SOON_MS)?;
            drop(mr);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn rule_11_map_again_asks_the_exporter_again() -> Verdict {
        let (exporter, mr) = region()?;

        exporter.revoke(SOON_MS)?;
        ensure!(mr.write(BASE, &[1]) == Err(ENODEV));
        exporter.unrevoke()?;
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn rule_12_each_map_waits_for_kernel_fences_and_no_others() -> Verdict {
        let (exporter, mr) = region()?;
        let (kernel, write) = (Fence::new()?, Fence::new()?);

        exporter.add_fence(&write, Usage::Write)?;
        exporter.move_to_new_pages()?;
        ensure!(mr.shows(&exporter)?);
        ensure!(write.waits() == 0);

        exporter.move_behind(&kernel)?;
        let writer = {
            let mr = mr.clone();

            Thread::spawn(move || mr.write(BASE, &[0x5a]))?
        };
        ensure!(eventually(|| kernel.waits() != 0));
        ensure!(!meanwhile(|| writer.is_done()));
        kernel.signal();
        writer.join()??;
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn rule_13_no_fence_is_published() -> Verdict {
        let (exporter, mr) = region()?;

        mr.write(BASE, &[0x5a])?;
        // Would wait for any fence of ours, whatever its usage.
        exporter.revoke(1)?;
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn rule_14_pins_are_balanced_and_asked_for_by_two_modes_alone() -> Verdict {
        let nic = Nic::new()?;

        for mode in MODES {
            let exporter = buffer()?;
            let wish = Wish::all_of(&exporter);
            let pins = u32::from(mode != Mode::Dynamic);
            let first = nic.register(&exporter, wish, mode)?;
            let second = nic.register(&exporter, wish, mode)?;

            ensure!(exporter.pins() == 2 * pins);
            drop(first);
            ensure!(exporter.pins() == pins);
            drop(second);
            ensure!(exporter.pins() == 0);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn rule_15_addresses_and_lengths_are_all_that_is_read() -> Verdict {
        let nic = Nic::new()?;
        let mut segments = KVec::new();

        for addr in [0x1_0000_0000, 0x3_0000_0000] {
            segments.push(Segment { addr, len: 2 * P }, GFP_KERNEL)?;
        }
        let exporter = Order::of_addresses(segments).export()?;
        let mr = nic.register(&exporter, Wish::new(P, 2 * P), Mode::Dynamic)?;
        let Some((pages, P)) = mr.key().table()? else {
            return Err(EINVAL.into());
        };

        ensure!(pages[..] == [0x1_0000_0000 + P, 0x3_0000_0000]);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn rule_15_merged_entries_are_counted_by_nents() -> Verdict {
        let nic = Nic::new()?;

        for kind in [Kind::Merged, Kind::Split, Kind::Uneven, Kind::Scattered] {
            let exporter = Order::of_kind(16, kind).export()?;
            let mr = nic.register(&exporter, Wish::all_of(&exporter), Mode::Dynamic)?;

            ensure!(mr.shows(&exporter)?);
            drop(mr);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn rule_16_tables_are_checked_against_the_contract() -> Verdict {
        let nic = Nic::new()?;

        for (forgery, is_taken) in [
            (Forgery::Short, false),
            (Forgery::Empty, false),
            (Forgery::Unaligned, false),
            (Forgery::ZeroLength, false),
            (Forgery::OverLong, true),
        ] {
            for mode in MODES {
                let exporter = buffer()?;

                exporter.answer_next_map(Answer::Forged(forgery));
                let mr = nic.register(&exporter, Wish::all_of(&exporter), mode);
                ensure!(mr.as_ref().err().copied() == (!is_taken).then_some(EINVAL));
                drop(mr);
                exporter.settle()?;
            }
        }
        Ok(())
    }

    #[test]
    fn rule_17_table_goes_back_as_it_came() -> Verdict {
        let exporter = Exporter::new(&[8])?;
        let before = exporter.table()?;
        let mr = Driver::new()?.register(&exporter, Wish::new(3 * P + 1, P))?;

        ensure!(mr.shows(&exporter)?);
        exporter.invalidate();
        ensure!(exporter.table()? == before);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn rule_18_attachment_is_mapped_once_however_many_want_it() -> Verdict {
        let (exporter, mr) = region()?;
        let mut writers = KVec::new();

        exporter.move_to_new_pages()?;
        for _ in 0..4 {
            let mr = mr.clone();

            writers.push(Thread::spawn(move || mr.write(BASE, &[1]))?, GFP_KERNEL)?;
        }
        for writer in writers {
            writer.join()??;
        }
        ensure!(exporter.counts().maps.get() == 2);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn rule_19_teardown_unmaps_then_unpins_then_detaches() -> Verdict {
        let nic = Nic::new()?;

        for mode in MODES {
            let exporter = buffer()?;
            let mr = nic.register(&exporter, Wish::all_of(&exporter), mode)?;

            drop(mr);
            ensure!(exporter.counts().unmaps.get() == 1);
            ensure!(exporter.counts().detaches.get() == 1);
            // Nobody is there to be called.
            exporter.invalidate();
            ensure!(nic.totals().invalidations.get() == 0);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn rule_20_ranges_are_judged_without_overflow() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let driver = Driver::new()?;

        for (offset, length) in [
            (0, 2 * P + 1),
            (2 * P, 1),
            (u64::MAX, 2),
            (P, u64::MAX),
            (P, 0),
        ] {
            let wish = Wish::new(offset, length);

            ensure!(
                driver.register(&exporter, wish).err() == Some(EINVAL),
                length
            );
        }
        ensure!(exporter.counts().attaches.get() == 0);
        exporter.settle()
    }

    #[test]
    fn rule_21_memory_is_allocated_before_reclaim_can_want_the_lock() -> Verdict {
        let (exporter, mr) = region()?;

        // lockdep knows dma_resv before reclaim; the map allocates under the one, and the callback,
        // which comes from the other, must not.
        exporter.shrink()?;
        mr.write(BASE, &[1])?;
        exporter.shrink()?;
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn rule_22_one_reservation_is_held_at_a_time() -> Verdict {
        let resv = shared_resv()?;
        let one = Order::of_runs(&[1])?.sharing(&resv).export()?;
        let other = Order::of_runs(&[1])?.sharing(&resv).export()?;
        let driver = Driver::new()?;
        let first = driver.register(&one, Wish::all_of(&one))?;
        let second = driver.register(&other, Wish::all_of(&other))?;

        one.move_to_new_pages()?;
        ensure!(second.shows(&other)?);
        ensure!(first.shows(&one)?);
        drop(first);
        other.move_to_new_pages()?;
        ensure!(second.shows(&other)?);
        drop(second);
        one.settle()?;
        other.settle()
    }

    #[test]
    fn rule_23_revocation_is_told_once_and_put_has_nothing_left_to_do() -> Verdict {
        let nic = Nic::new()?;
        let exporter = buffer()?;
        let wish = Wish::all_of(&exporter);
        let key = nic.key_for(wish)?;
        let mr = nic.register_key(&exporter, wish, Mode::Revocable, key.clone())?;

        exporter.invalidate();
        exporter.invalidate();
        mr.revoke();
        ensure!(key.revocations() == 1);
        drop(mr);
        ensure!(key.revocations() == 1);
        ensure!(key.unmaps() == 1);
        ensure!(exporter.counts().unmaps.get() == 1);
        exporter.settle()
    }

    #[test]
    fn rule_24_errors_of_a_map_pass_and_leave_the_region_unmapped() -> Verdict {
        let (exporter, mr) = region()?;

        for error in [EINTR, ENODEV, EBUSY, ENOMEM] {
            exporter.invalidate();
            exporter.refuse(Moment::Map, error);
            ensure!(mr.write(BASE, &[1]) == Err(error));
            ensure!(exporter.mapped() == 0);
        }
        exporter.answer_next_map(Answer::Nothing);
        ensure!(mr.write(BASE, &[1]) == Err(ENOMEM));
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn rule_25_nothing_is_mapped_for_the_kernel() -> Verdict {
        let (exporter, mr) = region()?;

        mr.write(BASE, &[1])?;
        ensure!(mr.shows(&exporter)?);
        ensure!(exporter.counts().vmaps.get() == 0);
        ensure!(exporter.counts().cpu_begins.get() == 0);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn rule_26_module_stays_while_a_region_lives() -> Verdict {
        let exporter = Exporter::new(&[1])?;
        let before = crate::kunit::probe::module_references();
        let mr = Driver::by_registry().register(&exporter, Wish::all_of(&exporter))?;

        ensure!(crate::kunit::probe::module_references() == before + 1);
        drop(mr);
        ensure!(crate::kunit::probe::module_references() == before);
        exporter.settle()
    }
}
