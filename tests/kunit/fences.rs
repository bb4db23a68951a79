// SPDX-License-Identifier: GPL-2.0

//! Waits for the exporter's fences: for which, for how long, and who ends them.

#[kernel::prelude::kunit_tests(rdma_dmabuf_fences)]
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
                Driver,
                Mr,
                Wish, //
            },
            exporter::Exporter,
            thread::Thread,
            vram::fence::{
                Fence,
                Usage, //
            },
        },
    };
    use kernel::{
        prelude::*,
        sync::Arc, //
    };

    /// A buffer of two pages, and a region that is all of it.
    fn region(driver: &Driver) -> Verdict<(Arc<Exporter>, Arc<Mr>)> {
        let exporter = Exporter::new(&[2])?;
        let mr = driver.register(&exporter, Wish::all_of(&exporter))?;

        Ok((exporter, Arc::new(mr, GFP_KERNEL)?))
    }

    fn register(driver: Driver, exporter: &Arc<Exporter>) -> Result<Thread<Result<Mr>>> {
        let exporter = exporter.clone();

        Thread::spawn(move || driver.register(&exporter, Wish::all_of(&exporter)))
    }

    fn access(mr: &Arc<Mr>) -> Result<Thread<Result>> {
        let mr = mr.clone();

        Thread::spawn(move || mr.access_all().map(drop))
    }

    #[test]
    fn registration_waits_for_kernel_fences_without_the_lock() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let fence = Fence::new()?;

        exporter.add_fence(&fence, Usage::Kernel)?;
        let registration = register(Driver::new()?, &exporter)?;
        ensure!(eventually(|| fence.waits() != 0));
        ensure!(eventually(|| exporter.can_lock()));
        ensure!(!meanwhile(|| registration.is_done()));
        fence.signal();

        let mr = registration.join()??;
        ensure!(exporter.counts().maps.get() == 1);
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn registration_is_not_bound_by_the_time_out_of_accesses() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let fence = Fence::new()?;

        exporter.add_fence(&fence, Usage::Kernel)?;
        let registration = register(Driver::with_timeout(1)?, &exporter)?;
        ensure!(eventually(|| fence.waits() >= 3));
        ensure!(!registration.is_done());
        fence.signal();
        drop(registration.join()??);
        exporter.settle()
    }

    #[test]
    fn write_fences_are_not_waited_for() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let fence = Fence::new()?;

        exporter.add_fence(&fence, Usage::Write)?;
        let mr = Driver::new()?.register(&exporter, Wish::all_of(&exporter))?;
        exporter.move_to_new_pages()?;
        ensure!(mr.shows(&exporter)?);
        ensure!(fence.waits() == 0);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn access_after_a_move_waits_for_its_fence() -> Verdict {
        let (exporter, mr) = region(&Driver::new()?)?;
        let fence = Fence::new()?;

        exporter.move_behind(&fence)?;
        let access = access(&mr)?;
        ensure!(eventually(|| fence.waits() != 0));
        ensure!(eventually(|| exporter.can_lock()));
        ensure!(!meanwhile(|| access.is_done()));
        fence.signal();
        access.join()??;
        ensure!(exporter.counts().maps.get() == 2);
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn move_during_the_wait_is_followed() -> Verdict {
        let (exporter, mr) = region(&Driver::new()?)?;
        let (first, second) = (Fence::new()?, Fence::new()?);

        exporter.move_behind(&first)?;
        let access = access(&mr)?;
        ensure!(eventually(|| first.waits() != 0));
        exporter.move_behind(&second)?;
        ensure!(exporter.counts().unmaps.get() == 2);
        first.signal();
        ensure!(eventually(|| second.waits() != 0));
        ensure!(!meanwhile(|| access.is_done()));
        second.signal();
        access.join()??;
        ensure!(exporter.counts().maps.get() == 3);
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn access_gives_up_after_the_time_out() -> Verdict {
        let (exporter, mr) = region(&Driver::with_timeout(50)?)?;
        let fence = Fence::new()?;

        exporter.move_behind(&fence)?;
        ensure!(mr.access_all().err() == Some(ETIMEDOUT));
        ensure!(fence.waits() != 0);
        ensure!(exporter.can_lock());
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn time_out_is_remembered_for_a_while() -> Verdict {
        let (exporter, mr) = region(&Driver::with_timeout(500)?)?;
        let fence = Fence::new()?;

        exporter.move_behind(&fence)?;
        ensure!(mr.access_all().err() == Some(ETIMEDOUT));
        let waits = fence.waits();
        ensure!(mr.access_all().err() == Some(ETIMEDOUT));
        ensure!(fence.waits() == waits);
        // What is mapped stays so.
        ensure!(exporter.counts().maps.get() == 2);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn patience_comes_back() -> Verdict {
        // The rest that follows is longer than any pause between two accesses below.
        let (exporter, mr) = region(&Driver::with_timeout(250)?)?;
        let fence = Fence::new()?;

        exporter.move_behind(&fence)?;
        ensure!(mr.access_all().err() == Some(ETIMEDOUT));
        let waits = fence.waits();
        ensure!(eventually(
            || mr.access_all().is_err() && fence.waits() > waits
        ));
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn region_that_timed_out_works_once_its_fence_signals() -> Verdict {
        let (exporter, mr) = region(&Driver::with_timeout(500)?)?;
        let fence = Fence::new()?;

        exporter.move_behind(&fence)?;
        ensure!(mr.access_all().err() == Some(ETIMEDOUT));
        fence.signal();
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn fatal_signal_ends_the_wait_of_a_registration() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let fence = Fence::new()?;

        exporter.add_fence(&fence, Usage::Kernel)?;
        let registration = register(Driver::new()?, &exporter)?;
        ensure!(eventually(|| fence.waits() != 0));
        registration.kill();
        ensure!(registration.join()?.err() == Some(EINTR));
        exporter.settle()
    }

    #[test]
    fn shutdown_ends_the_wait_of_an_access() -> Verdict {
        let (exporter, mr) = region(&Driver::new()?)?;
        let fence = Fence::new()?;

        exporter.move_behind(&fence)?;
        let access = access(&mr)?;
        ensure!(eventually(|| fence.waits() != 0));
        mr.shutdown();
        ensure!(access.join()?.err() == Some(ENODEV));
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn region_with_an_unsignalled_fence_can_be_put() -> Verdict {
        let (exporter, mr) = region(&Driver::new()?)?;
        let fence = Fence::new()?;

        exporter.move_behind(&fence)?;
        drop(mr);
        ensure!(exporter.counts().detaches.get() == 1);
        ensure!(fence.waits() == 0);
        exporter.settle()
    }

    #[test]
    fn time_out_is_ten_seconds_at_most() -> Verdict {
        for (asked, given) in [(0, 0), (100, 100), (10_000, 10_000), (10_001, 10_000)] {
            let settings = Settings {
                fence_timeout_ms: asked,
                check_rights: true,
                mode: Mode::Dynamic,
            };

            ensure!(settings.clamped().fence_timeout_ms == given, asked);
        }
        Ok(())
    }
}
