// SPDX-License-Identifier: GPL-2.0

//! Which bytes a region leads to, and that it leads to no others.

#[kernel::prelude::kunit_tests(rdma_dmabuf_pages)]
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
                BASE,
                PAGES, //
            },
            exporter::{
                Answer,
                Exporter, //
            },
        },
        window::{
            Segment,
            PAGE_SIZE, //
        },
    };
    use kernel::prelude::*;

    const P: u64 = PAGE_SIZE;

    /// No RAM: the local APIC, the BIOS, and beyond all memory.
    const FOREIGN: [u64; 3] = [0xfee0_0000, 0xf_0000, 1 << 45];

    /// Name, layout of the buffer, `[offset, length]` of the window.
    type Row<'a> = (&'a str, &'a [u64], [u64; 2]);

    const WINDOWS: &[Row<'_>] = &[
        ("all of one run", &[4], [0, 4 * P]),
        ("all of many runs", &[1, 2, 1, 3], [0, 7 * P]),
        ("a page in the middle", &[4], [P, P]),
        ("one byte", &[1], [100, 1]),
        ("the last byte", &[2], [2 * P - 1, 1]),
        ("two bytes of two pages", &[2], [P - 1, 2]),
        ("across three runs", &[1, 1, 1], [P - 3, P + 6]),
        ("from a late run on", &[2, 3, 1], [2 * P + 5, 3 * P]),
        ("a part of the last page", &[3, 2], [7, 4 * P + 1]),
        ("up to a joint", &[3, 2], [P, 2 * P]),
        ("from a joint on", &[3, 2], [3 * P, 2 * P]),
    ];

    /// Calls `judge` with a region for each of the windows, in pages and in larger blocks.
    fn for_each_window(judge: impl Fn(&Exporter, &Mr, Wish) -> Verdict<bool>) -> Verdict {
        let driver = Driver::new()?;

        for (name, layout, [offset, length]) in WINDOWS {
            for block_sizes in [PAGES, ANY_SIZE] {
                let exporter = Exporter::new(layout)?;
                let wish = Wish {
                    block_sizes,
                    ..Wish::new(*offset, *length)
                };
                let mr = driver.register(&exporter, wish)?;

                ensure!(judge(&exporter, &mr, wish)?, name);
                drop(mr);
                exporter.settle()?;
            }
        }
        Ok(())
    }

    #[test]
    fn window_reads_as_its_bytes_of_the_buffer() -> Verdict {
        for_each_window(|exporter, mr, _| Ok(mr.shows(exporter)?))
    }

    #[test]
    fn writes_change_the_window_and_nothing_around_it() -> Verdict {
        for_each_window(|exporter, mr, wish| {
            let mut content = exporter.content()?;
            let start = wish.offset as usize;
            let end = start + wish.length as usize;

            content[start..end]
                .iter_mut()
                .for_each(|byte| *byte ^= 0xff);
            mr.write(wish.iova, &content[start..end])?;
            Ok(*exporter.content()? == *content)
        })
    }

    #[test]
    fn pieces_of_any_size_lead_to_the_same_bytes() -> Verdict {
        for_each_window(|exporter, mr, wish| {
            let content = exporter.content()?;
            let mut bytes = KVVec::from_elem(0, wish.length as usize, GFP_KERNEL)?;
            let mut at = 0;

            for size in [1usize, 13, 1000, 4095, 4097].iter().cycle() {
                let end = bytes.len().min(at + size);

                mr.read(wish.iova + at as u64, &mut bytes[at..end])?;
                at = end;
                if at == bytes.len() {
                    break;
                }
            }
            Ok(content[wish.offset as usize..][..bytes.len()] == *bytes)
        })
    }

    #[test]
    fn blocks_are_those_that_the_window_touches() -> Verdict {
        for_each_window(|_, mr, wish| {
            let access = mr.access_all()?;
            let size = access.block_size();
            let first = wish.iova - wish.iova % size;
            let last = wish.iova + wish.length - 1;

            Ok(access.first_iova() == first
                && access.blocks().len() as u64 == (last - first) / size + 1)
        })
    }

    #[test]
    fn last_block_is_the_one_of_the_last_byte() -> Verdict {
        let exporter = Exporter::new(&[2, 3])?;
        let mr = Driver::new()?.register(&exporter, Wish::new(P + 1, 2 * P))?;
        let access = mr.access_all()?;

        ensure!(access.first_iova() == BASE + P);
        ensure!(access.blocks().len() == 3);
        for (index, block) in access.blocks().iter().enumerate() {
            ensure!(exporter.phys(P + index as u64 * P) == Some(*block), index);
        }
        drop(access);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn first_block_may_start_before_the_window() -> Verdict {
        let exporter = Exporter::new(&[16])?;
        let wish = Wish {
            block_sizes: 16 * P,
            ..Wish::new(5 * P + 7, 2 * P)
        };
        let mr = Driver::new()?.register(&exporter, wish)?;
        let access = mr.access_all()?;

        ensure!(access.block_size() == 16 * P);
        ensure!(access.first_iova() == BASE);
        ensure!(access.blocks().len() == 1);
        ensure!(access.blocks().first().copied() == exporter.phys(0));
        drop(access);
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn dma_addresses_alone_lead_to_the_pages() -> Verdict {
        let exporter = Exporter::new(&[2, 1, 1])?;

        // The same memory, in a table whose entries have no page.
        exporter.answer_next_map(Answer::Table(exporter.table()?));
        let mr = Driver::new()?.register(&exporter, Wish::new(100, 3 * P))?;
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn memory_that_is_no_ram_is_eopnotsupp() -> Verdict {
        let driver = Driver::new()?;

        for addr in FOREIGN {
            let exporter = Exporter::new(&[1, 1])?;
            let mut table = exporter.table()?;

            table[1].addr = addr;
            exporter.answer_next_map(Answer::Table(table));
            let refused = driver.register(&exporter, Wish::all_of(&exporter));
            ensure!(refused.err() == Some(EOPNOTSUPP), addr);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn every_page_of_an_entry_must_be_ram() -> Verdict {
        let exporter = Exporter::new(&[16])?;
        let mut table = KVec::new();

        // The last pages of conventional memory, and the first that are no RAM.
        table.push(
            Segment {
                addr: 0xa_0000 - 8 * P,
                len: 16 * P,
            },
            GFP_KERNEL,
        )?;
        exporter.answer_next_map(Answer::Table(table));
        let refused = Driver::new()?.register(&exporter, Wish::all_of(&exporter));
        ensure!(refused.err() == Some(EOPNOTSUPP));
        exporter.settle()
    }

    #[test]
    fn memory_outside_the_window_may_be_anything() -> Verdict {
        let exporter = Exporter::new(&[1, 1, 1])?;
        let mut table = exporter.table()?;

        table[0].addr = FOREIGN[0];
        table[2].addr = FOREIGN[2];
        exporter.answer_next_map(Answer::Table(table));
        let mr = Driver::new()?.register(&exporter, Wish::new(P, P))?;
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn drivers_own_device_is_given_addresses_unchecked() -> Verdict {
        let exporter = Exporter::new(&[1, 1, 1])?;
        let mut table = exporter.table()?;

        for (segment, addr) in table.iter_mut().zip(FOREIGN) {
            segment.addr = addr;
        }
        exporter.answer_next_map(Answer::Table(table));
        let mr = Driver::with_device()?.register(&exporter, Wish::all_of(&exporter))?;
        let access = mr.access_all()?;
        ensure!(access.blocks() == FOREIGN);
        drop(access);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn foreign_memory_after_a_move_is_eopnotsupp_until_the_next() -> Verdict {
        let exporter = Exporter::new(&[1])?;
        let mr = Driver::new()?.register(&exporter, Wish::all_of(&exporter))?;
        let mut table = exporter.table()?;

        exporter.invalidate();
        table[0].addr = FOREIGN[0];
        exporter.answer_next_map(Answer::Table(table));
        ensure!(mr.access_all().err() == Some(EOPNOTSUPP));
        ensure!(exporter.counts().unmaps.get() == 2);
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }
}
