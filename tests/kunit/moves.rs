// SPDX-License-Identifier: GPL-2.0

//! What becomes of a region when the exporter moves the buffer.

#[kernel::prelude::kunit_tests(rdma_dmabuf_moves)]
mod tests {
    use crate::{
        kunit::{
            check::{
                ensure,
                Verdict, //
            },
            driver::{
                Driver,
                Mr,
                Wish,
                ANY_SIZE,
                BASE, //
            },
            exporter::{
                Answer,
                Exporter,
                Moment, //
            },
            thread::{
                Event,
                Thread, //
            },
        },
        window::PAGE_SIZE, //
    };
    use kernel::{
        prelude::*,
        sync::Arc, //
    };

    const P: u64 = PAGE_SIZE;

    /// A buffer of that layout, and a region that is all of it.
    fn region(layout: &[u64]) -> Verdict<(Arc<Exporter>, Mr)> {
        let exporter = Exporter::new(layout)?;
        let mr = Driver::new()?.register(&exporter, Wish::all_of(&exporter))?;

        Ok((exporter, mr))
    }

    #[test]
    fn move_unmaps_exactly_once() -> Verdict {
        let (exporter, mr) = region(&[2])?;

        exporter.move_to_new_pages()?;
        ensure!(exporter.counts().unmaps.get() == 1);
        exporter.move_to_new_pages()?;
        ensure!(exporter.counts().unmaps.get() == 1);
        ensure!(exporter.counts().maps.get() == 1);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn next_access_maps_again_and_sees_the_new_pages() -> Verdict {
        let (exporter, mr) = region(&[2, 1])?;

        exporter.move_to_new_pages()?;
        ensure!(mr.shows(&exporter)?);
        ensure!(exporter.counts().maps.get() == 2);
        ensure!(mr.shows(&exporter)?);
        ensure!(exporter.counts().maps.get() == 2);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn writes_after_a_move_land_in_the_new_pages() -> Verdict {
        let (exporter, mr) = region(&[2, 1])?;
        let bytes = [0x5a; 100];

        exporter.move_to_new_pages()?;
        mr.write(BASE + P - 50, &bytes)?;
        ensure!(exporter.taken_pages_are_untouched());
        ensure!(exporter.content()?[P as usize - 50..][..100] == bytes);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn move_may_change_the_layout_and_the_blocks() -> Verdict {
        let exporter = Exporter::new(&[16])?;
        let wish = Wish {
            block_sizes: ANY_SIZE,
            ..Wish::all_of(&exporter)
        };
        let mr = Driver::new()?.register(&exporter, wish)?;

        ensure!(mr.access_all()?.blocks().len() == 1);
        exporter.move_to_layout(&[1; 16])?;
        ensure!(mr.access_all()?.block_size() == P);
        ensure!(mr.access_all()?.blocks().len() == 16);
        ensure!(mr.shows(&exporter)?);
        exporter.move_to_layout(&[16])?;
        ensure!(mr.access_all()?.blocks().len() == 1);
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn invalidation_of_an_unmapped_region_does_nothing() -> Verdict {
        let (exporter, mr) = region(&[2])?;

        for _ in 0..3 {
            exporter.invalidate();
        }
        ensure!(exporter.counts().unmaps.get() == 1);
        ensure!(mr.shows(&exporter)?);
        ensure!(exporter.counts().maps.get() == 2);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn one_move_unmaps_every_region_of_the_buffer() -> Verdict {
        let (exporter, first) = region(&[2, 2])?;
        let second = Driver::new()?.register(&exporter, Wish::new(P + 9, P))?;

        exporter.move_to_new_pages()?;
        ensure!(exporter.counts().unmaps.get() == 2);
        ensure!(first.shows(&exporter)?);
        ensure!(second.shows(&exporter)?);
        ensure!(exporter.counts().maps.get() == 4);
        drop((first, second));
        exporter.settle()
    }

    #[test]
    fn callback_from_inside_the_first_map_leaves_its_table_valid() -> Verdict {
        let exporter = Exporter::new(&[2])?;

        exporter.call_back_in(Moment::Map);
        let mr = Driver::new()?.register(&exporter, Wish::all_of(&exporter))?;
        ensure!(exporter.has_called_back());
        ensure!(mr.shows(&exporter)?);
        ensure!(exporter.counts().maps.get() == 1);
        ensure!(exporter.counts().unmaps.get() == 0);
        exporter.invalidate();
        ensure!(exporter.counts().unmaps.get() == 1);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn callback_from_inside_a_later_map_leaves_its_table_valid() -> Verdict {
        let (exporter, mr) = region(&[2])?;

        exporter.move_to_new_pages()?;
        exporter.call_back_in(Moment::Map);
        ensure!(mr.shows(&exporter)?);
        ensure!(exporter.has_called_back());
        ensure!(exporter.counts().maps.get() == 2);
        ensure!(exporter.counts().unmaps.get() == 1);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn callback_from_inside_a_map_that_fails_is_harmless() -> Verdict {
        let (exporter, mr) = region(&[2])?;

        exporter.move_to_new_pages()?;
        exporter.call_back_in(Moment::Map);
        exporter.answer_next_map(Answer::Refusal(ENOSPC));
        ensure!(mr.access_all().err() == Some(ENOSPC));
        ensure!(exporter.has_called_back());
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn callback_from_inside_unmap_does_not_unmap_again() -> Verdict {
        let (exporter, mr) = region(&[2])?;

        exporter.call_back_in(Moment::Unmap);
        exporter.move_to_new_pages()?;
        ensure!(exporter.has_called_back());
        ensure!(exporter.counts().unmaps.get() == 1);
        ensure!(mr.shows(&exporter)?);
        exporter.call_back_in(Moment::Unmap);
        drop(mr);
        ensure!(exporter.has_called_back());
        ensure!(exporter.counts().unmaps.get() == 2);
        exporter.settle()
    }

    #[test]
    fn map_that_fails_after_a_move_can_be_tried_again() -> Verdict {
        let (exporter, mr) = region(&[2])?;

        exporter.move_to_new_pages()?;
        for error in [ENODEV, EBUSY, ERESTARTSYS] {
            exporter.answer_next_map(Answer::Refusal(error));
            ensure!(mr.access_all().err() == Some(error), error.to_errno());
        }
        ensure!(exporter.counts().maps.get() == 1);
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn map_that_gives_nothing_is_enomem() -> Verdict {
        let (exporter, mr) = region(&[2])?;

        exporter.move_to_new_pages()?;
        exporter.answer_next_map(Answer::Nothing);
        ensure!(mr.access_all().err() == Some(ENOMEM));
        ensure!(mr.shows(&exporter)?);

        exporter.answer_next_map(Answer::Nothing);
        let refused = Driver::new()?.register(&exporter, Wish::all_of(&exporter));
        ensure!(refused.err() == Some(ENOMEM));
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn every_one_of_many_moves_is_followed() -> Verdict {
        let (exporter, mr) = region(&[1, 2])?;

        for step in 0..20 {
            mr.write(BASE + 2 * P - 2, &[step; 4])?;
            exporter.move_to_new_pages()?;
            ensure!(
                exporter.content()?[2 * P as usize - 2..][..4] == [step; 4],
                step
            );
            ensure!(mr.shows(&exporter)?, step);
        }
        ensure!(exporter.counts().maps.get() == 21);
        drop(mr);
        exporter.settle()
    }

    /// Writes ever new bytes at `iova` until the end, once at least, and reads each again. Returns
    /// the last.
    fn write_until(end: &Event, begun: &Event, mr: &Mr, iova: u64) -> Result<[u8; 64]> {
        let mut bytes = [0u8; 64];
        let mut seen = [0u8; 64];

        loop {
            bytes = [bytes[0].wrapping_add(1); 64];
            mr.write(iova, &bytes)?;
            mr.read(iova, &mut seen)?;
            if seen != bytes {
                return Err(EIO);
            }
            begun.happen();
            if end.has_happened() {
                return Ok(bytes);
            }
        }
    }

    #[test]
    fn moves_under_traffic_lose_no_byte() -> Verdict {
        let (exporter, mr) = region(&[2])?;
        let mr = Arc::new(mr, GFP_KERNEL)?;
        let end = Event::new()?;
        // In one page, and across two.
        let places = [100, P - 32];
        let mut writers = KVec::new();

        for place in places {
            let (mr, end, begun) = (mr.clone(), end.clone(), Event::new()?);
            let writer = {
                let begun = begun.clone();
                Thread::spawn(move || write_until(&end, &begun, &mr, BASE + place))?
            };

            writers.push(writer, GFP_KERNEL)?;
            // A busy machine could be done with the moves before the thread has its first turn.
            ensure!(begun.wait(), place);
        }
        for _ in 0..30 {
            exporter.move_to_new_pages()?;
        }
        end.happen();

        for (place, writer) in places.into_iter().zip(writers) {
            let last = writer.join()??;

            ensure!(exporter.content()?[place as usize..][..64] == last, place);
        }
        drop(mr);
        exporter.settle()
    }
}
