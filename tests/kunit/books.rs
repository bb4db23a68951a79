// SPDX-License-Identifier: GPL-2.0

//! Counters and tracepoints: what a region went through.

#[kernel::prelude::kunit_tests(rdma_dmabuf_books)]
mod tests {
    use crate::{
        attachment::Mode,
        kunit::{
            check::{
                ensure,
                eventually,
                Verdict, //
            },
            driver::{
                Driver,
                Wish,
                BASE, //
            },
            exporter::Exporter,
            nic::Nic,
            nic_c::Told,
            probe::{
                Event,
                Probes, //
            },
            thread::Thread,
            vram::fence::Fence,
        },
        window::PAGE_SIZE, //
    };
    use kernel::{
        prelude::*,
        sync::Arc, //
    };

    const P: u64 = PAGE_SIZE;

    #[test]
    fn maps_and_moves_are_counted() -> Verdict {
        let driver = Driver::new()?;
        let exporter = Exporter::new(&[2, 1])?;
        let mr = driver.register(&exporter, Wish::new(100, 2 * P))?;
        let totals = driver.totals()?;

        exporter.move_to_new_pages()?;
        exporter.invalidate();
        mr.write(BASE + 100, &[1])?;
        ensure!(totals.regions.get() == 1);
        ensure!(totals.attaches.get() == 1);
        ensure!(totals.maps.get() == 2);
        ensure!(totals.unmaps.get() == 1);
        ensure!(totals.invalidations.get() == 2);
        ensure!(totals.faults.get() == 1);
        ensure!(totals.blocks_mapped.get() == 6);
        ensure!(totals.bytes_mapped.get() == 4 * P);
        drop(mr);
        ensure!(totals.regions.get() == 0);
        ensure!(totals.unmaps.get() == 2);
        exporter.settle()
    }

    #[test]
    fn refused_accesses_are_counted() -> Verdict {
        let driver = Driver::new()?;
        let exporter = Exporter::new(&[1])?;
        let mr = driver.register(&exporter, Wish::all_of(&exporter))?;

        ensure!(mr.write(BASE + P, &[1]) == Err(EINVAL));
        mr.shutdown();
        ensure!(mr.write(BASE, &[1]) == Err(ENODEV));
        ensure!(driver.totals()?.refused.get() == 2);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn revocations_are_counted_once_each() -> Verdict {
        let nic = Nic::new()?;
        let exporter = Exporter::new(&[1])?;
        let wish = Wish::all_of(&exporter);
        let one = nic.register(&exporter, wish, Mode::Dynamic)?;
        let other = nic.register(&exporter, wish, Mode::Dynamic)?;

        one.revoke();
        one.revoke();
        other.revoke();
        ensure!(nic.totals().revocations.get() == 2);
        drop((one, other));
        exporter.settle()
    }

    #[test]
    fn driver_in_c_is_told_of_counts_and_state() -> Verdict {
        let nic = Nic::new()?;
        let exporter = Exporter::new(&[2, 1])?;
        let mr = nic.register_by_c(&exporter, Wish::all_of(&exporter), Mode::Dynamic)?;
        let mapped = |invalidations, remaps| Told {
            invalidations,
            remaps,
            refusals: 0,
            nr_blocks: 3,
            block_size: P,
            mode: Mode::Dynamic,
            is_mapped: true,
            is_revoked: false,
        };

        ensure!(mr.told()? == mapped(0, 0));
        exporter.move_to_new_pages()?;
        let told = mr.told()?;
        ensure!(!told.is_mapped && !told.is_revoked);
        ensure!((told.invalidations, told.nr_blocks) == (1, 0));
        // An announcement counts where nothing is mapped, too.
        exporter.invalidate();
        mr.map()?;
        ensure!(mr.told()? == mapped(2, 1));
        mr.revoke();
        let told = mr.told()?;
        ensure!(told.is_revoked && !told.is_mapped);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn waits_for_fences_are_timed() -> Verdict {
        let driver = Driver::new()?;
        let exporter = Exporter::new(&[1])?;
        let mr = Arc::new(
            driver.register(&exporter, Wish::all_of(&exporter))?,
            GFP_KERNEL,
        )?;
        let fence = Fence::new()?;

        ensure!(driver.totals()?.fence_wait_ns.get() == 0);
        exporter.move_behind(&fence)?;
        let writing = {
            let mr = mr.clone();

            Thread::spawn(move || mr.write(BASE, &[1]))?
        };
        ensure!(eventually(|| fence.waits() > 1));
        fence.signal();
        writing.join()??;
        // The first slice is 10 ms long, and was over.
        ensure!(driver.totals()?.fence_wait_ns.get() >= 1_000_000);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn tracepoints_tell_the_life_of_a_region() -> Verdict {
        let nic = Nic::new()?;
        let exporter = Exporter::new(&[2, 1])?;
        let probes = Probes::new()?;
        let mr = nic.register(&exporter, Wish::all_of(&exporter), Mode::Dynamic)?;

        ensure!(probes.count(Event::Map) == 1);
        ensure!(probes.last_map() == (3, P));
        ensure!(probes.count(Event::Unmap) == 0);
        exporter.move_to_new_pages()?;
        ensure!(probes.count(Event::Invalidate) == 1);
        ensure!(probes.count(Event::Unmap) == 1);
        ensure!(probes.count(Event::Fault) == 0);
        mr.map()?;
        ensure!(probes.count(Event::Fault) == 1);
        ensure!(probes.count(Event::Map) == 2);
        mr.revoke();
        ensure!(probes.count(Event::Revoke) == 1);
        ensure!(probes.count(Event::Unmap) == 2);
        drop(mr);
        ensure!(probes.count(Event::Unmap) == 2);
        exporter.settle()
    }

    #[test]
    fn regions_are_described_while_the_exporter_holds_its_lock() -> Verdict {
        let driver = Driver::new()?;
        let exporter = Exporter::new(&[2])?;
        let mr = driver.register(&exporter, Wish::all_of(&exporter))?;
        let guard = exporter.lock();
        let reader = Thread::spawn(move || {
            driver.described().map(|text| {
                text.to_bytes()
                    .starts_with(b"region=1 exporter=rdma_dmabuf_test ")
            })
        })?;
        let is_described = reader.join();

        drop(guard);
        ensure!(is_described??);
        drop(mr);
        exporter.settle()
    }
}
