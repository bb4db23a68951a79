// SPDX-License-Identifier: GPL-2.0

//! What the kernel's code does to the obvious implementation, as far as no other suite has it;
//! `docs/contract.md` has all of it.

#[kernel::prelude::kunit_tests(rdma_dmabuf_traps)]
mod tests {
    use crate::{
        device::DmaDevice,
        ffi,
        kunit::{
            check::{
                ensure,
                eventually,
                Verdict, //
            },
            driver::{
                Driver,
                Wish, //
            },
            exporter::Exporter,
            probe::dma_segments,
            thread::Thread,
            vram::fence::{
                Fence,
                Usage, //
            },
        },
        patience::Patience,
    };
    use kernel::{
        prelude::*,
        time::{
            delay::fsleep,
            Delta, //
        },
    };

    #[test]
    fn own_device_takes_segments_of_any_size_anywhere() -> Verdict {
        let own = DmaDevice::Own(ffi::importer()?.own_device().clone());

        ensure!(dma_segments(&own) == (u32::MAX.into(), u64::MAX));
        Ok(())
    }

    #[test]
    fn accesses_wait_a_tenth_of_a_second_unless_the_user_says_more() -> Verdict {
        ensure!(ffi::importer()?.settings().fence_timeout_ms <= 100);
        Ok(())
    }

    #[test]
    fn wait_that_begins_too_late_does_not_take_place() -> Verdict {
        const TIMEOUT_MS: u32 = 50;

        let exporter = Exporter::new(&[2])?;
        let dmabuf = exporter.dma_buf();
        let patience = Patience::new(TIMEOUT_MS);
        let fence = Fence::new()?;
        let mut wait = patience.begin();

        fsleep(Delta::from_millis(i64::from(TIMEOUT_MS) + 1));
        exporter.add_fence(&fence, Usage::Kernel)?;
        ensure!(wait.for_fences(dmabuf.resv(), || false) == Err(ETIMEDOUT));
        ensure!(fence.waits() == 0);
        drop(dmabuf);
        exporter.settle()
    }

    /// Each wait of the access ends well, and there is always another.
    #[test]
    fn waits_of_one_access_add_up() -> Verdict {
        // Of five milliseconds and more each; a third of them is too much for one access.
        const ROUNDS: u32 = 200;

        let exporter = Exporter::new(&[2])?;
        let driver = Driver::with_timeout(300)?;
        let mr = driver.register(&exporter, Wish::all_of(&exporter))?;
        let mut fence = Fence::new()?;

        exporter.move_behind(&fence)?;
        let access = Thread::spawn(move || mr.access_all().map(drop))?;
        for _ in 0..ROUNDS {
            ensure!(eventually(|| fence.waits() != 0 || access.is_done()));
            if access.is_done() {
                break;
            }
            let next = Fence::new()?;
            exporter.invalidate_from(&fence, &next)?;
            fence = next;
        }
        fence.signal();
        ensure!(access.join()?.err() == Some(ETIMEDOUT));
        exporter.settle()
    }
}
