// SPDX-License-Identifier: GPL-2.0

//! Drivers that break the C contract: a warning, and nothing worse.
//!
//! It is printed once in the life of the module; KUnit counts it every time.

#[kernel::prelude::kunit_tests(rdma_dmabuf_misuse)]
mod tests {
    use crate::kunit::{
        check::{
            ensure,
            Verdict, //
        },
        driver::{
            Driver,
            Wish,
            BASE, //
        },
        exporter::Exporter,
        probe::Warnings,
        thread::{
            Event,
            Thread, //
        },
    };
    use kernel::{
        prelude::*,
        sync::Arc, //
    };

    #[test]
    fn end_without_begin_is_warned_of_and_ends_no_access() -> Verdict {
        let exporter = Exporter::new(&[1])?;
        let mr = Driver::linked().register(&exporter, Wish::all_of(&exporter))?;

        {
            let warnings = Warnings::expected("an access ends that has not begun")?;

            mr.end_without_begin();
            ensure!(warnings.count() == 1);
        }
        // The gate still works, in both directions.
        ensure!(mr.shows(&exporter)?);
        exporter.move_to_new_pages()?;
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn put_during_an_access_is_warned_of_and_can_be_done_again() -> Verdict {
        let exporter = Exporter::new(&[1])?;
        let mr = Driver::linked().register(&exporter, Wish::all_of(&exporter))?;

        {
            // Nothing may be allocated within an access.
            let warnings = Warnings::expected("a region is put during an access")?;
            let access = mr.access_all()?;

            mr.put_early();
            ensure!(warnings.count() == 1);
            mr.put_early();
            ensure!(warnings.count() == 2);
            access.write(BASE, &[0x5a; 8])?;
        }
        ensure!(exporter.content()?[..8] == [0x5a; 8]);
        ensure!(exporter.counts().detaches.get() == 0);
        drop(mr);
        ensure!(exporter.counts().detaches.get() == 1);
        exporter.settle()
    }

    #[test]
    fn second_put_is_warned_of_and_does_nothing() -> Verdict {
        let exporter = Exporter::new(&[1])?;
        let mr = Driver::linked().register(&exporter, Wish::all_of(&exporter))?;
        let another = Driver::linked().register(&exporter, Wish::all_of(&exporter))?;

        {
            let warnings = Warnings::expected("a region is put that is not there")?;

            mr.put_twice();
            ensure!(warnings.count() == 1);
        }
        ensure!(exporter.counts().detaches.get() == 1);
        ensure!(another.shows(&exporter)?);
        drop(another);
        exporter.settle()
    }

    #[test]
    fn access_of_another_task_is_no_misuse() -> Verdict {
        let exporter = Exporter::new(&[1])?;
        let mr = Arc::new(
            Driver::linked().register(&exporter, Wish::all_of(&exporter))?,
            GFP_KERNEL,
        )?;
        let begun = Event::new()?;
        let other = {
            let (mr, begun) = (mr.clone(), begun.clone());

            Thread::spawn(move || {
                begun.wait();
                mr.write(BASE, &[1])
            })?
        };
        let access = mr.access_all()?;

        begun.happen();
        other.join()??;
        drop(access);
        drop(mr);
        exporter.settle()
    }
}
