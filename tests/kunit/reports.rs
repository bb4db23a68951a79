// SPDX-License-Identifier: GPL-2.0

//! Failures that others have had with memory regions on dma-bufs, as far as no other suite has
//! them; `docs/reports.md` has all, by the same numbers.

#[kernel::prelude::kunit_tests(rdma_dmabuf_reports)]
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
                ANY_SIZE,
                BASE, //
            },
            exporter::{
                Answer,
                Exporter,
                Kind,
                Order, //
            },
            lives::MODES,
            nic::{
                Nic,
                NicMr, //
            },
            phantom::{
                Books,
                Phantom, //
            },
            probe::with_failing_allocation,
            thread::Thread,
        },
        window::{
            Segment,
            PAGE_SIZE, //
        },
    };
    use kernel::{
        prelude::*,
        sync::Arc, //
    };

    const P: u64 = PAGE_SIZE;
    const M2: u64 = 2 << 20;
    const G1: u64 = 1 << 30;

    /// More allocations than any registration makes.
    const MANY: u32 = 200;

    /// Where a buffer is that has no memory.
    const ADDRESSES: [u64; 2] = [1 << 40, 1 << 41];

    const HINT: &str = "allocations do not fail: write N to failslab/ignore-gfp-wait in debugfs";

    /// The first and the last byte of each page that the window touches, as `(offset, value)`.
    fn edges(offset: u64, length: u64) -> impl Iterator<Item = (u64, u8)> {
        let end = offset.wrapping_add(length);

        (offset..end)
            .filter(move |at| *at == offset || *at + 1 == end || at % P == 0 || at % P == P - 1)
            .map(|at| (at, (at / 7) as u8 | 1))
    }

    #[test]
    fn e1_page_edges_are_exact_whatever_the_size_of_blocks() -> Verdict {
        let driver = Driver::new()?;
        let nic = Nic::new()?;

        for (offset, length, iova) in [
            (P + 0x10, 3 * P, BASE + P + 0x10),
            (P + 0x10, 3 * P, BASE + 0x5000_0000 + 0x3010),
            (0, 2 * M2, BASE + M2),
            (M2 - P - 1, P + 2, BASE - P - 1),
        ] {
            let exporter = Order::of_kind(2 * M2 / P, Kind::Huge).export()?;
            let wish = Wish {
                iova,
                block_sizes: ANY_SIZE,
                ..Wish::new(offset, length)
            };
            let by_cpu = driver.register(&exporter, wish)?;
            let by_nic = nic.register(&exporter, wish, Mode::Dynamic)?;
            let mut wanted = exporter.content()?;

            for (at, value) in edges(offset, length) {
                by_cpu.write(iova + (at - offset), &[value])?;
                wanted[at as usize] = value;
            }
            ensure!(exporter.content()?[..] == wanted[..], offset);
            for (at, value) in edges(offset, length) {
                by_nic.write(iova + (at - offset), &[!value])?;
                wanted[at as usize] = !value;
            }
            ensure!(exporter.content()?[..] == wanted[..], offset);
            drop((by_cpu, by_nic));
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn e3_memory_that_is_listed_twice_shows_the_same_bytes() -> Verdict {
        let exporter = Exporter::new(&[4])?;
        let start = exporter.phys(0).ok_or(EINVAL)?;
        let mut table = KVec::new();

        for _ in 0..2 {
            let half = Segment {
                addr: start,
                len: 2 * P,
            };
            table.push(half, GFP_KERNEL)?;
        }
        exporter.answer_next_map(Answer::Table(table));
        let mr = Driver::new()?.register(&exporter, Wish::all_of(&exporter))?;
        let mut seen = [0; 6];

        mr.write(BASE + P - 3, b"across")?;
        mr.read(BASE + 3 * P - 3, &mut seen)?;
        ensure!(&seen == b"across");
        ensure!(exporter.content()?[P as usize - 3..][..6] == seen);
        drop(mr);
        exporter.settle()
    }

    /// Lists of blocks that no `kmalloc()` can give.
    #[test]
    fn e8_lists_of_blocks_need_no_contiguous_memory() -> Verdict {
        let driver = Driver::with_device()?;
        let books = Books::new()?;

        for size in [G1, G1 + P, 3 * G1] {
            let mut table = KVec::new();
            let mut left = size;

            while left != 0 {
                let len = left.min(G1);
                let addr = (1 << 40) + left * 2;

                table.push(Segment { addr, len }, GFP_KERNEL)?;
                left -= len;
            }
            let phantom = Phantom::new(&books, size, &table)?;
            let mr = driver.register_fd(phantom.fd()?.number(), Wish::new(0, size))?;
            let access = mr.access_all()?;
            let last = table.last().ok_or(EINVAL)?;

            ensure!(access.blocks().len() as u64 == size / P, size);
            ensure!(
                access.blocks().last().copied() == Some(last.addr + last.len - P),
                size
            );
        }
        books.settle()
    }

    #[test]
    fn h3_callback_while_a_registration_waits_for_the_lock() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let other = Driver::new()?.register(&exporter, Wish::new(P, P))?;
        let mut registration = Err(EINVAL);
        let mut has_waited = false;

        exporter.invalidate_after(|| {
            let (exporter, driver) = (exporter.clone(), Driver::new());

            registration =
                Thread::spawn(move || driver?.register(&exporter, Wish::all_of(&exporter)));
            has_waited = registration
                .as_ref()
                .is_ok_and(|thread| eventually(|| thread.is_asleep()));
        });
        ensure!(has_waited);
        let mr = registration?.join()??;
        ensure!(mr.shows(&exporter)?);
        ensure!(other.shows(&exporter)?);
        drop((mr, other));
        exporter.settle()
    }

    /// A buffer whose maps do not go through the DMA API: its debugging has allocations of its own,
    /// and turns itself off when they fail.
    fn hollow() -> Result<Arc<Exporter>> {
        let mut table = KVec::new();

        for addr in ADDRESSES {
            table.push(Segment { addr, len: P }, GFP_KERNEL)?;
        }
        Order::of_addresses(table).for_pinned().export()
    }

    fn has_table(mr: &NicMr) -> Result<bool> {
        Ok(mr
            .key()
            .table()?
            .is_some_and(|(pages, size)| pages[..] == ADDRESSES && size == P))
    }

    #[test]
    fn i2_any_allocation_of_a_registration_can_fail() -> Verdict {
        let nic = Nic::new()?;

        for mode in MODES {
            let mut failures = 0;

            for nth in 1..=MANY {
                let exporter = hollow()?;
                let wish = Wish::all_of(&exporter);
                let (mr, has_failed) =
                    with_failing_allocation(nth, || nic.register(&exporter, wish, mode));

                match mr {
                    // Some are tried again in another way.
                    Ok(mr) => ensure!(has_table(&mr)?, nth),
                    Err(error) => ensure!(has_failed && error == ENOMEM, nth),
                }
                exporter.settle()?;
                if !has_failed {
                    break;
                }
                failures = nth;
            }
            pr_info!("{failures} allocations of a registration have failed in turn\n");
            // The record, the region, the attachment, the exporter's table, the blocks, the NIC's.
            ensure!((6..MANY).contains(&failures), HINT);
        }
        Ok(())
    }

    #[test]
    fn i2_any_allocation_of_a_map_can_fail() -> Verdict {
        let nic = Nic::new()?;
        let exporter = hollow()?;
        let mr = nic.register(&exporter, Wish::all_of(&exporter), Mode::Dynamic)?;
        let mut failures = 0;

        for nth in 1..=MANY {
            exporter.invalidate();
            let (result, has_failed) = with_failing_allocation(nth, || mr.map());

            ensure!(result.is_ok() || (has_failed && result == Err(ENOMEM)), nth);
            mr.map()?;
            ensure!(has_table(&mr)?, nth);
            if !has_failed {
                break;
            }
            failures = nth;
        }
        pr_info!("{failures} allocations of a map have failed in turn\n");
        // The exporter's table, the blocks, the NIC's.
        ensure!((3..MANY).contains(&failures), HINT);
        drop(mr);
        exporter.settle()
    }
}
