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
            vram::fence::Fence,
        },
    };
    use kernel::{
        prelude::*,
        sync::Arc, //
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

    /// Each wait is short, and there is always another.
    #[test]
    fn waits_of_one_access_add_up() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let driver = Driver::with_timeout(300)?;
        let mr = Arc::new(
            driver.register(&exporter, Wish::all_of(&exporter))?,
            GFP_KERNEL,
        )?;
        let mut fence = Fence::new()?;

        exporter.move_behind(&fence)?;
        let access = {
            let mr = mr.clone();

            Thread::spawn(move || mr.access_all().map(drop))?
        };
        while eventually(|| fence.waits() != 0 || access.is_done()) && !access.is_done() {
            let next = Fence::new()?;

            exporter.move_behind(&next)?;
            fence.signal();
            fence = next;
        }
        ensure!(access.join()?.err() == Some(ETIMEDOUT));
        drop(mr);
        exporter.settle()
    }
}
