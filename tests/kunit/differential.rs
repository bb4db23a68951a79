// SPDX-License-Identifier: GPL-2.0

//! The same buffer and range through the importer of the kernel's RDMA core and through ours:
//! over thousands of generated layouts, both give the same verdict, the same block size and the
//! same blocks.
//!
//! The seed is fixed, so that a run can be compared with the last one, and printed with the number
//! of layouts and windows. Another one is set as `RDMA_DMABUF_SEED=` in the environment of the
//! build, a decimal number. A round that differs is printed with everything that makes it: seed
//! and round alone bring it back.
//!
//! Core judges in three steps what ours judges in one: `ib_umem_dmabuf_get()`, then
//! `ib_umem_dmabuf_map_pages()`, then `ib_umem_find_best_pgsz()`. Its verdict is that of the first
//! that fails, as it is for a driver of core, with `EINVAL` where there is no usable size.
//!
//! Where the two differ on purpose is listed in [`super::differences`].

/// What the dice start with if nothing else is asked for.
const DEFAULT_SEED: u64 = 7_300_426;

fn seed() -> u64 {
    option_env!("RDMA_DMABUF_SEED")
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(DEFAULT_SEED)
}

#[kernel::prelude::kunit_tests(rdma_dmabuf_differential)]
mod tests {
    use super::seed;
    use crate::{
        kunit::{
            check::{
                ensure,
                Verdict, //
            },
            core_importer::{
                Core,
                CoreMr,
                Cut, //
            },
            driver::{
                Driver,
                Mr,
                Rights,
                Wish, //
            },
            exporter::Exporter,
            fd::Fd,
            layouts::{
                Buffer,
                Cutout,
                Dice,
                Layout,
                Scale, //
            },
            phantom::{
                Books,
                Phantom, //
            },
        },
        window::{
            Segment,
            PAGE_MASK,
            PAGE_SIZE, //
        },
    };
    use kernel::{
        ffi::c_int,
        fmt,
        prelude::*, //
    };

    /// Windows of each layout.
    const WINDOWS: u64 = 3;

    fn wish(cutout: &Cutout) -> Wish {
        Wish {
            offset: cutout.offset,
            length: cutout.length,
            iova: cutout.iova,
            block_sizes: cutout.block_sizes,
            rights: Rights::LOCAL_WRITE,
        }
    }

    /// What a walk over generated layouts met with.
    #[derive(Default)]
    struct Tally {
        windows: u64,
        refusals: u64,
        blocks: u64,
        /// Windows whose blocks are larger than a page.
        large: u64,
    }

    impl fmt::Display for Tally {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(
                f,
                "{} windows: {} refused by both, {} in large blocks, {} blocks",
                self.windows, self.refusals, self.large, self.blocks
            )
        }
    }

    impl Tally {
        fn add(&mut self, blocks: Option<Blocks>) {
            self.windows += 1;
            match blocks {
                Some(Blocks { count, size }) => {
                    self.blocks += count as u64;
                    self.large += u64::from(size > PAGE_SIZE);
                }
                None => self.refusals += 1,
            }
        }
    }

    /// The blocks that both cut a window into.
    #[derive(PartialEq)]
    struct Blocks {
        count: usize,
        size: u64,
    }

    /// The blocks, or nothing if both refuse with the same error; else what differs.
    type Agreement = core::result::Result<Option<Blocks>, &'static str>;

    /// Compares what both make of a window that both have registered, or failed to.
    fn agreement(cut: Result<Cut>, mr: Result<&Mr>) -> Agreement {
        let access = mr.and_then(Mr::access_all);

        match (cut, access) {
            (Ok(cut), Ok(access)) => {
                if cut.size != access.block_size() {
                    return Err("the block sizes differ");
                }
                if cut.count != access.blocks().len() {
                    return Err("the numbers of blocks differ");
                }
                if cut.blocks[..] != *access.blocks() {
                    return Err("the blocks differ");
                }
                Ok(Some(Blocks {
                    count: cut.count,
                    size: cut.size,
                }))
            }
            (Err(core), Err(ours)) if core == ours => Ok(None),
            (Err(_), Err(_)) => Err("the errors differ"),
            (Ok(_), Err(_)) => Err("only core accepts"),
            (Err(_), Ok(_)) => Err("only ours accepts"),
        }
    }

    /// A window in the hands of both.
    struct Pair<'a> {
        core: Result<CoreMr<'a>>,
        ours: Result<Mr>,
    }

    impl<'a> Pair<'a> {
        fn register(core: &'a Core, driver: &Driver, fd: &Fd, wish: Wish) -> Self {
            Self::register_number(core, driver, fd.number(), wish)
        }

        fn register_number(core: &'a Core, driver: &Driver, fd: c_int, wish: Wish) -> Self {
            Self {
                core: core.register(fd, wish),
                ours: driver.register_fd(fd, wish),
            }
        }

        fn agreement(&self) -> Agreement {
            let cut = match &self.core {
                Ok(mr) => mr.cut(),
                Err(error) => Err(*error),
            };

            agreement(cut, self.ours.as_ref().map_err(|error| *error))
        }
    }

    /// Prints a round that differs.
    fn print(what: &str, round: u64, layout: &Layout, cutout: &Cutout) {
        pr_err!("{what}: RDMA_DMABUF_SEED={} round {round}\n", seed());
        for entry in layout.entries() {
            pr_err!("  entry {:#x} + {:#x}\n", entry.addr, entry.len);
        }
        pr_err!(
            "  window {:#x} + {:#x} at iova {:#x}, sizes {:#x}\n",
            cutout.offset,
            cutout.length,
            cutout.iova,
            cutout.block_sizes,
        );
    }

    /// A kernel that checks each access takes ten times as long for a layout.
    fn rounds_of(rounds: u64) -> u64 {
        if cfg!(CONFIG_KASAN) {
            rounds / 8
        } else {
            rounds
        }
    }

    /// Judges so many rounds of layouts of that scale; each moves once if `moves`.
    fn walk(name: &str, rounds: u64, scale: Scale, moves: bool) -> Verdict {
        let rounds = rounds_of(rounds);
        let books = Books::new()?;
        let driver = Driver::with_device()?;
        let core = Core::beside(&driver)?;
        let mut tally = Tally::default();

        for round in 0..rounds {
            let mut dice = Dice::new(seed(), round);
            let buffer = Buffer::draw(&mut dice, scale);
            let moved = buffer.layout.moved(&mut dice, buffer.home);
            let entries = buffer.layout.entries();
            let phantom = Phantom::new(&books, buffer.layout.size(), entries)?;
            let fd = phantom.fd()?;

            for _ in 0..WINDOWS {
                let cutout = Cutout::draw(&mut dice, &buffer);
                let pair = Pair::register(&core, &driver, &fd, wish(&cutout));
                let mut judge = |layout: &Layout| match pair.agreement() {
                    Ok(blocks) => {
                        tally.add(blocks);
                        true
                    }
                    Err(what) => {
                        print(what, round, layout, &cutout);
                        false
                    }
                };

                ensure!(judge(&buffer.layout));
                if moves && pair.ours.is_ok() {
                    phantom.move_to(moved.entries())?;
                    ensure!(judge(&moved));
                    phantom.move_to(entries)?;
                    ensure!(judge(&buffer.layout));
                }
            }
        }

        let seed = seed();
        pr_info!("{name}: RDMA_DMABUF_SEED={seed}, {rounds} layouts, {tally}\n");
        // A walk that met with nothing would agree, too.
        ensure!(tally.refusals < tally.windows / 4 * 3);
        ensure!(tally.large > tally.windows / 8);
        books.settle()
    }

    #[test]
    fn layouts_of_pages_have_the_same_blocks() -> Verdict {
        walk("pages", 1500, Scale::Pages, false)
    }

    #[test]
    fn layouts_of_gigabytes_have_the_same_blocks() -> Verdict {
        walk("gigabytes", 800, Scale::Gigabytes, false)
    }

    #[test]
    fn moved_buffers_have_the_same_blocks_again() -> Verdict {
        walk("moves of pages", 200, Scale::Pages, true)?;
        walk("moves of gigabytes", 200, Scale::Gigabytes, true)
    }

    /// Four entries that make three blocks of 4 GiB, at an iova that agrees.
    #[test]
    fn blocks_of_4_gib_are_the_same() -> Verdict {
        const G4: u64 = 1 << 32;
        const LENGTHS: [u64; 4] = [G4 - PAGE_SIZE, PAGE_SIZE + (1 << 30), G4 - (1 << 21), 0];

        let books = Books::new()?;
        let driver = Driver::with_device()?;
        let core = Core::beside(&driver)?;
        let mut entries = KVec::new();
        let mut addr = 2 * G4;
        for len in LENGTHS {
            let len = if len == 0 { 5 * G4 - addr } else { len };
            entries.push(Segment { addr, len }, GFP_KERNEL)?;
            addr += len;
        }

        let phantom = Phantom::new(&books, 3 * G4, &entries)?;
        let wish = Wish {
            iova: 16 * G4,
            block_sizes: PAGE_SIZE | G4,
            ..Wish::new(0, 3 * G4)
        };
        let pair = Pair::register(&core, &driver, &phantom.fd()?, wish);
        ensure!(pair.agreement() == Ok(Some(Blocks { count: 3, size: G4 })));
        drop(pair);
        drop(phantom);
        books.settle()
    }

    #[test]
    fn any_range_gets_the_same_verdict() -> Verdict {
        const ROUNDS: u64 = 1500;
        const SIZE: u64 = 16 * PAGE_SIZE;

        let books = Books::new()?;
        let driver = Driver::with_device()?;
        let core = Core::beside(&driver)?;
        let entries = [Segment {
            addr: 1 << 30,
            len: SIZE,
        }];
        let phantom = Phantom::new(&books, SIZE, &entries)?;
        let (good, other) = (phantom.fd()?, Fd::of_something_else()?);
        let rounds = rounds_of(ROUNDS);
        let mut accepted = 0;

        for round in 0..rounds {
            let mut dice = Dice::new(seed(), round);
            let mut cutout = Cutout::rough(&mut dice, SIZE);
            let fd = match dice.below(4) {
                0 => other.number(),
                1 => -1,
                _ => good.number(),
            };
            if fd != good.number() {
                // Ours judges the iova before the fd; one like this is right if the offset is.
                cutout.iova = cutout.offset;
            }

            match Pair::register_number(&core, &driver, fd, wish(&cutout)).agreement() {
                Ok(blocks) => accepted += u64::from(blocks.is_some()),
                Err(what) => {
                    print(what, round, &Layout::of(&entries), &cutout);
                    ensure!(false, fd);
                }
            }
        }

        let seed = seed();
        pr_info!("ranges: RDMA_DMABUF_SEED={seed}, {rounds} ranges, {accepted} accepted by both\n");
        ensure!(accepted > rounds / 50);
        drop((good, other, phantom));
        books.settle()
    }

    /// Writes through one and reads through the other, in a buffer of real pages.
    fn exchange(pair: &Pair<'_>, exporter: &Exporter, cutout: &Cutout, mark: u8) -> Verdict {
        let core = pair.core.as_ref().map_err(|error| *error)?;
        let ours = pair.ours.as_ref().map_err(|error| *error)?;
        let (start, end) = (
            cutout.offset as usize,
            (cutout.offset + cutout.length) as usize,
        );
        let mut expected = exporter.content()?;
        let mut bytes = KVVec::from_elem(0, end - start, GFP_KERNEL)?;

        core.map()?.read(&mut bytes)?;
        ensure!(bytes[..] == expected[start..end]);

        for byte in &mut expected[start..end] {
            *byte = byte.wrapping_mul(3) ^ mark;
        }
        ours.write(cutout.iova, &expected[start..end])?;
        core.map()?.read(&mut bytes)?;
        ensure!(bytes[..] == expected[start..end]);

        bytes.reverse();
        core.map()?.write(&bytes)?;
        expected[start..end].reverse();
        ours.read(cutout.iova, &mut bytes)?;
        ensure!(bytes[..] == expected[start..end]);
        ensure!(exporter.content()?[..] == expected[..]);
        Ok(())
    }

    #[test]
    fn bytes_written_through_one_are_read_through_the_other() -> Verdict {
        const ROUNDS: u64 = 40;

        let driver = Driver::with_device()?;
        let core = Core::beside(&driver)?;

        for round in 0..rounds_of(ROUNDS) {
            let mut dice = Dice::new(seed(), round);
            let mut runs = KVec::new();
            for _ in 0..=dice.below(5) {
                runs.push(1 + dice.below(5), GFP_KERNEL)?;
            }

            let exporter = Exporter::new(&runs)?;
            let buffer = Buffer {
                layout: Layout::of(&exporter.table()?),
                home: dice.below(1 << 20) << 20,
            };
            let cutout = Cutout {
                block_sizes: PAGE_SIZE | (dice.roll() & PAGE_MASK),
                ..Cutout::draw(&mut dice, &buffer)
            };
            let pair = Pair::register(&core, &driver, &Fd::of(&exporter)?, wish(&cutout));

            for mark in 0..3 {
                if let Err(what) = pair.agreement() {
                    print(what, round, &Layout::of(&exporter.table()?), &cutout);
                    ensure!(false, what);
                }
                exchange(&pair, &exporter, &cutout, mark)?;
                exporter.move_to_new_pages()?;
            }
            drop(pair);
            exporter.settle()?;
        }

        let seed = seed();
        pr_info!("bytes: RDMA_DMABUF_SEED={seed}, {ROUNDS} layouts, each in 3 places\n");
        Ok(())
    }
}
