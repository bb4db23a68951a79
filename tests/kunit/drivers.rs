// SPDX-License-Identifier: GPL-2.0

//! What a driver with a translation table is told, and when.

#[kernel::prelude::kunit_tests(rdma_dmabuf_drivers)]
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
                Wish,
                BASE, //
            },
            exporter::Exporter,
            nic::{
                Nic,
                NicMr,
                PAGE_SIZES, //
            },
            thread::{
                Event,
                Thread, //
            },
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

    /// A buffer of that layout, and a dynamic region of a NIC that is all of it.
    fn region(nic: &Nic, layout: &[u64]) -> Verdict<(Arc<Exporter>, NicMr)> {
        let exporter = Exporter::new(layout)?;
        let mr = nic.register(&exporter, Wish::all_of(&exporter), Mode::Dynamic)?;

        Ok((exporter, mr))
    }

    #[test]
    fn registration_fills_the_table_once() -> Verdict {
        let nic = Nic::new()?;
        let (exporter, mr) = region(&nic, &[2, 1])?;

        ensure!(mr.key().maps() == 1);
        ensure!(mr.key().unmaps() == 0);
        ensure!(mr.shows(&exporter)?);
        ensure!(exporter.counts().maps.get() == 1);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn move_empties_the_table_and_a_fault_fills_it_again() -> Verdict {
        let nic = Nic::new()?;
        let (exporter, mr) = region(&nic, &[2, 1])?;

        exporter.move_to_new_pages()?;
        ensure!(mr.key().unmaps() == 1);
        ensure!(mr.key().table()?.is_none());
        ensure!(mr.shows(&exporter)?);
        ensure!(mr.key().maps() == 2);
        mr.write(BASE + P - 9, &[0x5a; 20])?;
        ensure!(exporter.content()?[P as usize - 9..][..20] == [0x5a; 20]);
        ensure!(exporter.taken_pages_are_untouched());
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn map_of_a_mapped_region_does_nothing() -> Verdict {
        let nic = Nic::new()?;
        let (exporter, mr) = region(&nic, &[1])?;

        mr.map()?;
        mr.map()?;
        ensure!(mr.key().maps() == 1);
        ensure!(exporter.counts().maps.get() == 1);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn put_empties_a_table_that_is_filled_and_no_other() -> Verdict {
        let nic = Nic::new()?;
        let wish = Wish::new(0, P);

        for is_moved in [false, true] {
            let exporter = Exporter::new(&[1])?;
            let key = nic.key_for(wish)?;
            let mr = nic.register_key(&exporter, wish, Mode::Dynamic, key.clone())?;

            if is_moved {
                exporter.move_to_new_pages()?;
            }
            drop(mr);
            ensure!(key.unmaps() == 1, is_moved);
            ensure!(key.revocations() == 0, is_moved);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn driver_is_told_of_memory_only_once_the_content_is_there() -> Verdict {
        let nic = Arc::new(Nic::new()?, GFP_KERNEL)?;
        let exporter = Exporter::new(&[1])?;
        let wish = Wish::all_of(&exporter);
        let key = nic.key_for(wish)?;
        let fence = Fence::new()?;

        exporter.add_fence(&fence, Usage::Kernel)?;
        let registering = {
            let (nic, exporter, key) = (nic.clone(), exporter.clone(), key.clone());

            Thread::spawn(move || nic.register_key(&exporter, wish, Mode::Dynamic, key))?
        };
        ensure!(eventually(|| fence.waits() != 0));
        ensure!(key.maps() == 0);
        ensure!(!meanwhile(|| key.maps() != 0));
        fence.signal();
        let mr = registering.join()??;
        ensure!(key.maps() == 1);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn driver_is_not_told_of_memory_that_goes_before_its_content_came() -> Verdict {
        let nic = Arc::new(Nic::new()?, GFP_KERNEL)?;
        let (exporter, mr) = region(&nic, &[1])?;
        let mr = Arc::new(mr, GFP_KERNEL)?;
        let fence = Fence::new()?;

        exporter.move_behind(&fence)?;
        let mapping = {
            let mr = mr.clone();

            Thread::spawn(move || mr.map())?
        };
        ensure!(eventually(|| fence.waits() != 0));
        exporter.move_to_new_pages()?;
        ensure!(mr.key().unmaps() == 1);
        ensure!(mr.key().maps() == 1);
        fence.signal();
        mapping.join()??;
        ensure!(mr.key().maps() == 2);
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn packet_on_its_way_ends_before_memory_goes() -> Verdict {
        let nic = Nic::new()?;
        let (exporter, mr) = region(&nic, &[1])?;
        let mover = mr.key().with_packet_on_its_way(|| -> Verdict<_> {
            let mover = {
                let exporter = exporter.clone();

                Thread::spawn(move || exporter.move_to_new_pages())?
            };

            ensure!(eventually(|| exporter.is_locked() && mover.is_asleep()));
            ensure!(exporter.counts().unmaps.get() == 0);
            ensure!(!meanwhile(|| mover.is_done()));
            Ok(mover)
        })?;

        mover.join()??;
        ensure!(exporter.counts().unmaps.get() == 1);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn accesses_end_before_the_driver_is_told_that_memory_goes() -> Verdict {
        let nic = Nic::new()?;
        let (exporter, mr) = region(&nic, &[1])?;
        let begin = Event::new()?;
        let invalidation = {
            let (exporter, begin) = (exporter.clone(), begin.clone());

            Thread::spawn(move || {
                if begin.wait() {
                    exporter.invalidate();
                }
            })?
        };

        mr.within_access(|| -> Verdict {
            begin.happen();
            ensure!(eventually(
                || exporter.is_locked() && invalidation.is_asleep()
            ));
            ensure!(!meanwhile(|| mr.key().unmaps() != 0));
            Ok(())
        })??;
        invalidation.join()?;
        ensure!(mr.key().unmaps() == 1);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn driver_without_room_fails_the_registration_and_leaves_nothing() -> Verdict {
        let nic = Nic::new()?;
        let exporter = Exporter::new(&[1])?;
        let wish = Wish::all_of(&exporter);
        let key = nic.key_for(wish)?;

        key.refuse_next_map(ENOSPC);
        ensure!(
            nic.register_key(&exporter, wish, Mode::Dynamic, key.clone())
                .err()
                == Some(ENOSPC)
        );
        ensure!(key.unmaps() == 0);
        ensure!(exporter.counts().maps.get() == 1);
        exporter.settle()
    }

    #[test]
    fn driver_without_room_fails_a_fault_that_can_be_tried_again() -> Verdict {
        let nic = Nic::new()?;
        let (exporter, mr) = region(&nic, &[1])?;

        exporter.move_to_new_pages()?;
        mr.key().refuse_next_map(ENOSPC);
        ensure!(mr.map() == Err(ENOSPC));
        ensure!(exporter.counts().maps.get() == exporter.counts().unmaps.get());
        mr.map()?;
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn pages_are_the_largest_that_the_device_has_and_the_layout_allows() -> Verdict {
        let nic = Nic::new()?;

        // Pages in each run, offset and length in pages, by how much the addresses are apart from
        // the runs, which are aligned to twice their size, and the pages of the device then.
        for (layout, offset, length, apart, page) in [
            (&[16][..], 0, 16, 0, 64 << 10),
            (&[16, 16], 0, 32, 0, 64 << 10),
            (&[16, 1, 15], 0, 32, 0, 4 << 10),
            (&[32], 1, 31, 128 << 10, 64 << 10),
            (&[512], 0, 512, 0, 2 << 20),
            (&[512], 0, 512, 1 << 20, 64 << 10),
            (&[512], 0, 512, 32 << 10, 4 << 10),
            (&[1, 1, 1], 0, 3, 0, 4 << 10),
        ] {
            let exporter = Exporter::new(layout)?;
            let wish = Wish {
                block_sizes: PAGE_SIZES,
                iova: BASE + apart + offset * P,
                ..Wish::new(offset * P, length * P)
            };
            let mr = nic.register(&exporter, wish, Mode::Dynamic)?;
            let size = mr.key().table()?.map(|(_, size)| size);

            ensure!(size == Some(page), length * P);
            ensure!(mr.shows(&exporter)?, length * P);
            drop(mr);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn page_size_is_chosen_anew_with_every_map() -> Verdict {
        let nic = Nic::new()?;
        let exporter = Exporter::new(&[16])?;
        let wish = Wish {
            block_sizes: PAGE_SIZES,
            ..Wish::all_of(&exporter)
        };
        let mr = nic.register(&exporter, wish, Mode::Dynamic)?;

        for (layout, page) in [
            (&[1; 16][..], 4 << 10),
            (&[16], 64 << 10),
            (&[8, 8], 4 << 10),
        ] {
            exporter.move_to_layout(layout)?;
            mr.map()?;
            let size = mr.key().table()?.map(|(_, size)| size);
            ensure!(size == Some(page), page);
            ensure!(mr.shows(&exporter)?, page);
        }
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn revoke_takes_memory_once_and_the_key_fails() -> Verdict {
        let nic = Nic::new()?;
        let (exporter, mr) = region(&nic, &[1])?;

        mr.revoke();
        mr.revoke();
        ensure!(mr.key().unmaps() == 1);
        ensure!(mr.key().revocations() == 1);
        ensure!(exporter.counts().unmaps.get() == 1);
        ensure!(mr.write(BASE, &[1]) == Err(ENODEV));
        ensure!(mr.map() == Err(EINVAL));
        ensure!(exporter.counts().maps.get() == 1);
        exporter.move_to_new_pages()?;
        drop(mr);
        ensure!(exporter.counts().detaches.get() == 1);
        exporter.settle()
    }

    #[test]
    fn revoke_of_a_region_that_has_moved_still_tells_the_driver() -> Verdict {
        let nic = Nic::new()?;
        let (exporter, mr) = region(&nic, &[1])?;

        exporter.move_to_new_pages()?;
        mr.revoke();
        ensure!(mr.key().unmaps() == 1);
        ensure!(mr.key().revocations() == 1);
        ensure!(mr.map() == Err(EINVAL));
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn driver_in_c_is_told_the_same() -> Verdict {
        let nic = Nic::new()?;
        let exporter = Exporter::new(&[16, 3, 1])?;
        let wish = Wish {
            block_sizes: PAGE_SIZES,
            ..Wish::new(100, 17 * P)
        };
        let rust = nic.register(&exporter, wish, Mode::Dynamic)?;
        let c = nic.register_by_c(&exporter, wish, Mode::Dynamic)?;

        for round in 0..3 {
            ensure!(c.shows(&exporter)?, round);
            ensure!(rust.shows(&exporter)?, round);
            let (by_rust, by_c) = (rust.key().table()?, c.key().table()?);
            let (Some((by_rust, size)), Some((by_c, c_size))) = (by_rust, by_c) else {
                return Err(EINVAL.into());
            };
            ensure!(size == c_size, round);
            ensure!(by_rust[..] == by_c[..], round);
            exporter.move_to_new_pages()?;
            ensure!(c.key().table()?.is_none(), round);
        }
        c.revoke();
        ensure!(c.key().revocations() == 1);
        ensure!(c.map() == Err(EINVAL));
        drop((rust, c));
        exporter.settle()
    }

    #[test]
    fn regions_of_several_devices_overlap_in_one_buffer() -> Verdict {
        let (one, other) = (Nic::new()?, Nic::new()?);
        let exporter = Exporter::new(&[4, 4])?;
        let before = exporter.table()?;
        let all = one.register(&exporter, Wish::all_of(&exporter), Mode::Dynamic)?;
        let middle = other.register(&exporter, Wish::new(3 * P, 2 * P), Mode::Dynamic)?;
        let inner = one.register(&exporter, Wish::new(4 * P + 8, 100), Mode::Dynamic)?;

        middle.write(BASE + 4 * P + 8, &[0x77; 100])?;
        ensure!(inner.shows(&exporter)?);
        ensure!(all.shows(&exporter)?);
        ensure!(exporter.table()? == before);
        exporter.move_to_new_pages()?;
        ensure!(inner.shows(&exporter)?);
        ensure!(middle.shows(&exporter)?);
        ensure!(all.shows(&exporter)?);
        ensure!(exporter.counts().maps.get() == 6);
        drop((all, inner));
        ensure!(middle.shows(&exporter)?);
        drop(middle);
        exporter.settle()
    }
}
