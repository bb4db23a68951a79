// SPDX-License-Identifier: GPL-2.0

//! The tables of exporters: malformed ones, and the blocks that good ones are cut into.

#[kernel::prelude::kunit_tests(rdma_dmabuf_tables)]
mod tests {
    use crate::{
        kunit::{
            check::{
                ensure,
                Verdict, //
            },
            driver::{
                Driver,
                Wish,
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
    const K64: u64 = 64 << 10;
    const M1: u64 = 1 << 20;

    /// What an exporter does to a good table of three entries of two pages.
    type Damage = fn(&mut KVec<Segment>);

    const DAMAGES: &[(&str, Damage)] = &[
        ("no entries", |table| table.clear()),
        ("an entry too few", |table| table.truncate(2)),
        ("a page too few", |table| table[2].len = P),
        ("no byte in the first entry", |table| table[0].len = 0),
        ("no byte in a later entry", |table| table[1].len = 0),
        ("an address within a page", |table| table[1].addr += 8),
        ("a length that is no page", |table| {
            table[1].len = 2 * P - 100
        }),
        ("the end of the address space", |table| {
            table[1].addr = 0u64.wrapping_sub(P)
        }),
    ];

    /// Gives `judge` an exporter, a driver and a damage, for each damage, and for a driver that
    /// copies as well as for one with a device.
    fn for_each_damage(judge: impl Fn(&Exporter, &Driver, Damage) -> Verdict<bool>) -> Verdict {
        for driver in [Driver::new()?, Driver::with_device()?] {
            for (name, damage) in DAMAGES {
                let exporter = Exporter::new(&[2, 2, 2])?;

                ensure!(judge(&exporter, &driver, *damage)?, name);
                exporter.settle()?;
            }
        }
        Ok(())
    }

    fn damaged(exporter: &Exporter, damage: Damage) -> Result<Answer> {
        let mut table = exporter.table()?;

        damage(&mut table);
        Ok(Answer::Table(table))
    }

    #[test]
    fn malformed_table_is_einval_and_unmapped_again() -> Verdict {
        for_each_damage(|exporter, driver, damage| {
            exporter.answer_next_map(damaged(exporter, damage)?);
            let refused = driver.register(exporter, Wish::all_of(exporter));

            Ok(refused.err() == Some(EINVAL)
                && exporter.counts().maps.get() == 1
                && exporter.counts().unmaps.get() == 1
                && exporter.counts().detaches.get() == 1)
        })
    }

    #[test]
    fn malformed_table_after_a_move_is_einval_until_the_next() -> Verdict {
        for_each_damage(|exporter, driver, damage| {
            let mr = driver.register(exporter, Wish::all_of(exporter))?;

            exporter.invalidate();
            exporter.answer_next_map(damaged(exporter, damage)?);
            let refused = mr.access_all().err() == Some(EINVAL);

            Ok(refused && exporter.counts().unmaps.get() == 2 && mr.shows(exporter)?)
        })
    }

    #[test]
    fn table_may_be_longer_than_the_window() -> Verdict {
        let exporter = Exporter::new(&[1, 1])?;
        let mut table = exporter.table()?;
        let last = table[1];

        // And longer than the buffer; none of it is touched.
        table.push(last, GFP_KERNEL)?;
        exporter.answer_next_map(Answer::Table(table));
        let mr = Driver::new()?.register(&exporter, Wish::all_of(&exporter))?;
        ensure!(mr.access_all()?.blocks().len() == 2);
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn damage_behind_the_window_is_not_looked_at() -> Verdict {
        let exporter = Exporter::new(&[1, 1])?;
        let mut table = exporter.table()?;

        table[1].addr += 8;
        exporter.answer_next_map(Answer::Table(table));
        let mr = Driver::new()?.register(&exporter, Wish::new(0, P))?;
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    /// Name, table, `[offset, length, iova]`, bitmap of sizes, the size and the blocks of it.
    type Row<'a> = (&'a str, &'a [Segment], [u64; 3], u64, (u64, &'a [u64]));

    const fn seg(addr: u64, len: u64) -> Segment {
        Segment { addr, len }
    }

    const A: u64 = 16 * M1;
    const B: u64 = 64 * M1;

    /// Bytes in the buffer that the tables stand for.
    const SIZE: u64 = M1;

    const SIZES: &[Row<'_>] = &[
        (
            "the only size",
            &[seg(A, M1)],
            [0, 2 * P, BASE],
            P,
            (P, &[A, A + P]),
        ),
        (
            "the largest that fits",
            &[seg(A, M1)],
            [0, 2 * K64, BASE],
            P | K64 | (1 << 30),
            (K64, &[A, A + K64]),
        ),
        (
            "one block for all",
            &[seg(A, M1)],
            [0, M1, BASE],
            P | K64 | M1,
            (M1, &[A]),
        ),
        (
            "neighbours share a block",
            &[seg(A, P), seg(A + P, M1 - P)],
            [0, M1, BASE],
            P | M1,
            (M1, &[A]),
        ),
        (
            "a gap on a block's end",
            &[seg(A, K64), seg(B, M1 - K64)],
            [0, 2 * K64, BASE],
            P | K64 | M1,
            (K64, &[A, B]),
        ),
        (
            "an iova that is no multiple",
            &[seg(A, M1)],
            [0, 2 * P, BASE + P],
            P | K64,
            (P, &[A, A + P]),
        ),
        (
            "a window within its block",
            &[seg(A, M1)],
            [3 * P + 7, P, BASE + 3 * P + 7],
            K64,
            (K64, &[A]),
        ),
    ];

    #[test]
    fn blocks_have_the_best_of_the_drivers_sizes() -> Verdict {
        let driver = Driver::with_device()?;
        let exporter = Exporter::new(&[128, 128])?;

        ensure!(exporter.size() == SIZE);
        for (name, table, [offset, length, iova], block_sizes, (size, blocks)) in SIZES {
            let mut answer = KVec::new();
            answer.extend_from_slice(table, GFP_KERNEL)?;
            exporter.answer_next_map(Answer::Table(answer));

            let wish = Wish {
                iova: *iova,
                block_sizes: *block_sizes,
                ..Wish::new(*offset, *length)
            };
            let mr = driver.register(&exporter, wish)?;
            let access = mr.access_all()?;
            ensure!(access.block_size() == *size, name);
            ensure!(access.blocks() == *blocks, name);
            ensure!(access.first_iova() == iova & !(size - 1), name);
        }
        exporter.settle()
    }

    #[test]
    fn no_usable_size_is_einval_and_unmapped_again() -> Verdict {
        let driver = Driver::new()?;
        let exporter = Exporter::new(&[1, 1])?;

        // None, none of a page or more, and one that two runs do not fill.
        for (maps, block_sizes) in [0, PAGES - 1, 2 * P].into_iter().enumerate() {
            let wish = Wish {
                block_sizes,
                ..Wish::all_of(&exporter)
            };

            ensure!(
                driver.register(&exporter, wish).err() == Some(EINVAL),
                block_sizes
            );
            ensure!(
                exporter.counts().unmaps.get() == maps as u64 + 1,
                block_sizes
            );
        }
        exporter.settle()
    }
}
