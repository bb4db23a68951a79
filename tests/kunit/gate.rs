// SPDX-License-Identifier: GPL-2.0

//! Accesses against moves: who waits for whom.

#[kernel::prelude::kunit_tests(rdma_dmabuf_gate)]
mod tests {
    use crate::{
        kunit::{
            check::{
                ensure,
                eventually,
                meanwhile,
                Verdict, //
            },
            driver::{
                Driver,
                Mr,
                Wish,
                BASE, //
            },
            exporter::Exporter,
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

    /// A buffer of two pages, and a region that is all of it.
    fn region() -> Verdict<(Arc<Exporter>, Arc<Mr>)> {
        let exporter = Exporter::new(&[2])?;
        let mr = Driver::new()?.register(&exporter, Wish::all_of(&exporter))?;

        Ok((exporter, Arc::new(mr, GFP_KERNEL)?))
    }

    /// A task that is within an access until this is dropped.
    struct Visitor {
        leave: Event,
        _thread: Thread<Result>,
    }

    impl Visitor {
        /// Lets a task begin an access, and returns once it has.
        fn enter(mr: &Arc<Mr>) -> Verdict<Self> {
            let (entered, leave, mr) = (Event::new()?, Event::new()?, mr.clone());
            let visitor = Self {
                leave: leave.clone(),
                _thread: {
                    let entered = entered.clone();
                    Thread::spawn(move || {
                        let access = mr.access_all()?;

                        entered.happen();
                        leave.wait();
                        drop(access);
                        Ok(())
                    })?
                },
            };

            ensure!(entered.wait());
            Ok(visitor)
        }
    }

    impl Drop for Visitor {
        fn drop(&mut self) {
            // Then the thread is dropped, which waits for its end.
            self.leave.happen();
        }
    }

    fn invalidate(exporter: &Arc<Exporter>) -> Result<Thread<()>> {
        let exporter = exporter.clone();

        Thread::spawn(move || exporter.invalidate())
    }

    fn access(mr: &Arc<Mr>) -> Result<Thread<Result>> {
        let mr = mr.clone();

        Thread::spawn(move || mr.access_all().map(drop))
    }

    #[test]
    fn invalidation_waits_for_an_access_in_flight() -> Verdict {
        let (exporter, mr) = region()?;
        let visitor = Visitor::enter(&mr)?;
        let invalidation = invalidate(&exporter)?;

        ensure!(eventually(
            || exporter.is_locked() && invalidation.is_asleep()
        ));
        ensure!(!meanwhile(|| invalidation.is_done()));
        ensure!(exporter.counts().unmaps.get() == 0);
        drop(visitor);
        invalidation.join()?;
        ensure!(exporter.counts().unmaps.get() == 1);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn invalidation_waits_for_every_access_in_flight() -> Verdict {
        let (exporter, mr) = region()?;
        let (first, second) = (Visitor::enter(&mr)?, Visitor::enter(&mr)?);
        let invalidation = invalidate(&exporter)?;

        ensure!(eventually(
            || exporter.is_locked() && invalidation.is_asleep()
        ));
        drop(first);
        ensure!(!meanwhile(|| exporter.counts().unmaps.get() != 0));
        drop(second);
        invalidation.join()?;
        ensure!(exporter.counts().unmaps.get() == 1);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn invalidation_does_not_wait_for_another_region() -> Verdict {
        let (exporter, mr) = region()?;
        let (other_exporter, other) = region()?;
        let visitor = Visitor::enter(&other)?;

        exporter.invalidate();
        ensure!(exporter.counts().unmaps.get() == 1);
        drop(visitor);
        drop((mr, other));
        exporter.settle()?;
        other_exporter.settle()
    }

    #[test]
    fn access_waits_while_the_buffer_is_being_moved() -> Verdict {
        let (exporter, mr) = region()?;

        exporter.invalidate();
        let resv = exporter.lock();
        let access = access(&mr)?;
        ensure!(eventually(|| access.is_asleep()));
        ensure!(!meanwhile(|| access.is_done()));
        ensure!(exporter.counts().maps.get() == 1);
        drop(resv);
        access.join()??;
        ensure!(exporter.counts().maps.get() == 2);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn no_access_begins_while_an_invalidation_waits() -> Verdict {
        let (exporter, mr) = region()?;
        let visitor = Visitor::enter(&mr)?;
        let invalidation = invalidate(&exporter)?;

        ensure!(eventually(
            || exporter.is_locked() && invalidation.is_asleep()
        ));
        let access = access(&mr)?;
        ensure!(eventually(|| access.is_asleep()));
        ensure!(!meanwhile(|| access.is_done()));
        drop(visitor);
        invalidation.join()?;
        access.join()??;
        ensure!(exporter.counts().unmaps.get() == 1);
        ensure!(exporter.counts().maps.get() == 2);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn many_accesses_pass_at_once() -> Verdict {
        let (exporter, mr) = region()?;
        let mut visitors = KVec::new();

        for _ in 0..5 {
            visitors.push(Visitor::enter(&mr)?, GFP_KERNEL)?;
        }
        ensure!(mr.shows(&exporter)?);
        drop(visitors);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn access_to_a_mapped_region_needs_no_lock() -> Verdict {
        let (exporter, mr) = region()?;
        let resv = exporter.lock();
        let access = access(&mr)?;

        ensure!(eventually(|| access.is_done()));
        drop(resv);
        access.join()??;
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn exporter_that_moves_in_a_loop_does_not_starve_an_access() -> Verdict {
        let (exporter, mr) = region()?;
        let end = Event::new()?;
        let mover: Thread<()> = {
            let (exporter, end) = (exporter.clone(), end.clone());
            Thread::spawn(move || {
                while !end.has_happened() {
                    exporter.invalidate();
                }
            })?
        };
        let accesses: Thread<Result> = {
            let mr = mr.clone();
            Thread::spawn(move || (0..50).try_for_each(|_| mr.access_all().map(drop)))?
        };
        let result = accesses.join();

        end.happen();
        result??;
        mover.join()?;
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn access_after_shutdown_is_enodev() -> Verdict {
        let (exporter, mr) = region()?;

        mr.shutdown();
        ensure!(mr.access_all().err() == Some(ENODEV));
        mr.shutdown();
        ensure!(mr.access(BASE, 1).err() == Some(ENODEV));
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn unmapped_region_is_not_mapped_after_shutdown() -> Verdict {
        let (exporter, mr) = region()?;

        exporter.invalidate();
        mr.shutdown();
        ensure!(mr.access_all().err() == Some(ENODEV));
        ensure!(exporter.counts().maps.get() == 1);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn access_in_flight_outlasts_shutdown() -> Verdict {
        let (exporter, mr) = region()?;
        let content = exporter.content()?;
        let mut bytes = [0; 100];
        let access = mr.access_all()?;

        mr.shutdown();
        access.read(BASE + 5, &mut bytes)?;
        ensure!(content[5..105] == bytes);
        drop(access);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn range_outside_the_region_is_einval() -> Verdict {
        let exporter = Exporter::new(&[4])?;
        let mr = Driver::new()?.register(&exporter, Wish::new(P + 100, P))?;
        let start = BASE + P + 100;
        let outside = [
            (start - 1, 1),
            (start - 1, 2),
            (BASE, 1),
            (start + P, 1),
            (start + P - 1, 2),
            (start, P + 1),
            (start + 2 * P, 0),
            (0, 1),
            (0, u64::MAX),
        ];

        for (row, (iova, length)) in outside.into_iter().enumerate() {
            ensure!(mr.access(iova, length).err() == Some(EINVAL), row);
        }
        for (iova, length) in [(start, P), (start, 1), (start + P - 1, 1), (start, 0)] {
            ensure!(mr.access(iova, length).is_ok(), length);
        }
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn range_that_wraps_is_einval() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let top = Wish {
            // The last two pages of the address space.
            iova: 0u64.wrapping_sub(2 * P),
            ..Wish::all_of(&exporter)
        };
        let mr = Driver::new()?.register(&exporter, top)?;

        ensure!(mr.shows(&exporter)?);
        for (iova, length) in [
            (u64::MAX, 2),
            (top.iova, 2 * P + 1),
            (top.iova + P, u64::MAX),
        ] {
            ensure!(mr.access(iova, length).err() == Some(EINVAL), iova);
        }
        ensure!(mr.access(u64::MAX, 1).is_ok());
        drop(mr);
        exporter.settle()
    }
}
