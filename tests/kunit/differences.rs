// SPDX-License-Identifier: GPL-2.0

//! Where our importer differs from that of the kernel's RDMA core on purpose. Everything else is
//! the same, which [`super::differential`] shows.
//!
//! | what | core | ours | shown by |
//! |---|---|---|---|
//! | rights of the fd | never looked at: a buffer opened for reading can be written | `EACCES`, unless `check_rights=0` | `rights_of_the_fd_are_checked_by_ours_alone` |
//! | table that ends before the window, or has no entries | accepted, with fewer blocks than it counts; `CONFIG_DMABUF_DEBUG` refuses one without entries | `EINVAL` | `short_table_is_accepted_by_core_alone` |
//! | entry without a byte, of a broken page, or past the end of the addresses | accepted | `EINVAL` | `malformed_entry_is_accepted_by_core_alone` |
//! | block sizes below the page | used | never used | `sizes_below_the_page_are_used_by_core_alone` |
//! | iova that wraps, or parts with the offset below the page | left to its callers: uverbs, and the choice of a size, both after the fd | `EINVAL`, before the fd | `iova_is_judged_before_the_fd_by_ours_alone` |
//! | first map | when the driver asks | with the registration, so that bad tables are refused there | `registration_maps_with_ours_alone` |
//! | table of the exporter | cut to the window in place, and mended before it is given back | only read | `table_is_edited_by_core_alone` |
//! | wait for fences | with the reservation lock held, for ever | without it; a fatal signal or a time-out ends it | `fences_are_waited_for_with_the_lock_by_core_alone` |
//! | memory of a device | pinned attachments allow peer-to-peer | never allowed | `peer_to_peer_is_allowed_by_pinned_core_alone` |
//! | callback before attach has returned | the driver's own to survive: core's functions read the attachment before it is set | harmless | not here: core would crash; `rdma_dmabuf_attach` has ours |
//! | driver without a DMA device | a warning and `EINVAL` | addresses of system RAM, each checked | not here: core would warn; `rdma_dmabuf_pages` has ours |

#[kernel::prelude::kunit_tests(rdma_dmabuf_differences)]
mod tests {
    use crate::{
        kunit::{
            check::{
                ensure,
                eventually,
                Verdict, //
            },
            core_importer::Core,
            driver::{
                Driver,
                Wish,
                BASE, //
            },
            exporter::{
                Exporter,
                Mode, //
            },
            fd::Fd,
            phantom::{
                Books,
                Phantom, //
            },
            thread::Thread,
            vram::fence::{
                Fence,
                Usage, //
            },
        },
        window::{
            Segment,
            PAGE_SIZE, //
        },
    };
    use kernel::prelude::*;

    const P: u64 = PAGE_SIZE;

    /// A multiple of every block size used here.
    const A: u64 = 1 << 30;

    const fn seg(addr: u64, len: u64) -> Segment {
        Segment { addr, len }
    }

    /// Both sides, with the device of one driver.
    fn sides() -> Result<(Core, Driver)> {
        let driver = Driver::with_device()?;

        Ok((Core::beside(&driver)?, driver))
    }

    #[test]
    fn rights_of_the_fd_are_checked_by_ours_alone() -> Verdict {
        let (core, driver) = sides()?;
        let exporter = Exporter::with_mode(&[1], Mode::ReadOnly)?;
        let wish = Wish::all_of(&exporter);
        let fd = Fd::of(&exporter)?;

        ensure!(core.register(fd.number(), wish)?.cut()?.count == 1);
        ensure!(driver.register_fd(fd.number(), wish).err() == Some(EACCES));
        drop(fd);
        exporter.settle()
    }

    #[test]
    fn short_table_is_accepted_by_core_alone() -> Verdict {
        let (core, driver) = sides()?;
        let books = Books::new()?;
        let phantom = Phantom::new(&books, 4 * P, &[seg(A, 3 * P)])?;
        let (fd, wish) = (phantom.fd()?, Wish::new(0, 4 * P));

        let cut = core.register(fd.number(), wish)?.cut()?;
        ensure!(cut.count == 4);
        ensure!(cut.blocks.len() == 3);
        ensure!(driver.register_fd(fd.number(), wish).err() == Some(EINVAL));
        drop((fd, phantom));
        books.settle()
    }

    /// Name, entries of four pages together, and the blocks of pages that core makes of them.
    type Row<'a> = (&'a str, &'a [Segment], &'a [u64]);

    const MALFORMED: &[Row<'_>] = &[
        (
            "no byte",
            &[seg(A, 2 * P), seg(2 * A, 0), seg(A + 2 * P, 2 * P)],
            &[A, A + P, A + 2 * P, A + 3 * P],
        ),
        (
            "neighbours that meet within a page",
            &[seg(A, 2 * P - 100), seg(A + 2 * P - 100, 2 * P + 100)],
            &[A, A + P, A + 2 * P, A + 3 * P],
        ),
        (
            "past the end of the addresses",
            &[seg(0u64.wrapping_sub(2 * P), 4 * P)],
            &[0u64.wrapping_sub(2 * P), 0u64.wrapping_sub(P), 0, P],
        ),
    ];

    #[test]
    fn malformed_entry_is_accepted_by_core_alone() -> Verdict {
        let (core, driver) = sides()?;
        let books = Books::new()?;

        for (name, entries, blocks) in MALFORMED {
            let phantom = Phantom::new(&books, 4 * P, entries)?;
            let (fd, wish) = (phantom.fd()?, Wish::new(0, 4 * P));

            let cut = core.register(fd.number(), wish)?.cut()?;
            ensure!(cut.blocks[..] == **blocks, name);
            let refused = driver.register_fd(fd.number(), wish);
            ensure!(refused.err() == Some(EINVAL), name);
        }
        books.settle()
    }

    #[test]
    fn sizes_below_the_page_are_used_by_core_alone() -> Verdict {
        let (core, driver) = sides()?;
        let books = Books::new()?;
        let phantom = Phantom::new(&books, P, &[seg(A, P)])?;
        let fd = phantom.fd()?;
        let wish = Wish {
            block_sizes: P / 2,
            ..Wish::new(0, P)
        };

        let cut = core.register(fd.number(), wish)?.cut()?;
        ensure!(cut.blocks[..] == [A, A + P / 2]);
        ensure!(driver.register_fd(fd.number(), wish).err() == Some(EINVAL));

        // One that is not below does for both.
        let wish = Wish {
            block_sizes: (P / 2) | P,
            ..wish
        };
        ensure!(core.register(fd.number(), wish)?.cut()?.blocks[..] == [A]);
        let mr = driver.register_fd(fd.number(), wish)?;
        ensure!(*mr.access_all()?.blocks() == [A]);
        drop((mr, fd, phantom));
        books.settle()
    }

    #[test]
    fn iova_is_judged_before_the_fd_by_ours_alone() -> Verdict {
        let (core, driver) = sides()?;

        for iova in [BASE + 8, 0u64.wrapping_sub(P)] {
            let wish = Wish {
                iova,
                ..Wish::new(0, 2 * P)
            };

            ensure!(core.register(-1, wish).err() == Some(EBADF), iova);
            ensure!(driver.register_fd(-1, wish).err() == Some(EINVAL), iova);
        }
        Ok(())
    }

    #[test]
    fn registration_maps_with_ours_alone() -> Verdict {
        let (core, driver) = sides()?;
        let books = Books::new()?;
        let phantom = Phantom::new(&books, P, &[seg(A, P)])?;
        let (fd, wish) = (phantom.fd()?, Wish::new(0, P));

        let theirs = core.register(fd.number(), wish)?;
        ensure!(books.maps() == 0);
        let ours = driver.register_fd(fd.number(), wish)?;
        ensure!(books.maps() == 1);
        drop((theirs, ours, fd, phantom));
        books.settle()
    }

    #[test]
    fn table_is_edited_by_core_alone() -> Verdict {
        let (core, driver) = sides()?;
        let books = Books::new()?;
        let phantom = Phantom::new(&books, 4 * P, &[seg(A, 4 * P)])?;
        let (fd, wish) = (phantom.fd()?, Wish::new(P, 2 * P));

        let theirs = core.register(fd.number(), wish)?;
        ensure!(theirs.map()?.table()?[..] == [seg(A + P, 2 * P)]);
        let ours = driver.register_fd(fd.number(), wish)?;
        ensure!(*ours.access_all()?.blocks() == [A + P, A + 2 * P]);
        drop((theirs, ours, fd, phantom));

        // Each table came back as it was given.
        books.settle()
    }

    #[test]
    fn fences_are_waited_for_with_the_lock_by_core_alone() -> Verdict {
        let exporter = Exporter::new(&[1])?;
        let fence = Fence::new()?;
        exporter.add_fence(&fence, Usage::Kernel)?;

        let theirs = exporter.clone();
        let theirs = Thread::spawn(move || -> Result {
            let (core, _driver) = sides()?;
            let fd = Fd::of(&theirs)?;

            core.register(fd.number(), Wish::all_of(&theirs))?.map()?;
            Ok(())
        })?;
        ensure!(eventually(|| fence.waits() != 0));
        ensure!(!exporter.can_lock());
        fence.signal();
        theirs.join()??;

        let fence = Fence::new()?;
        exporter.add_fence(&fence, Usage::Kernel)?;
        let ours = exporter.clone();
        let ours = Thread::spawn(move || -> Result {
            let driver = Driver::with_device()?;

            driver.register(&ours, Wish::all_of(&ours)).map(drop)
        })?;
        ensure!(eventually(|| fence.waits() != 0));
        ensure!(eventually(|| exporter.can_lock()));
        ensure!(!ours.is_done());
        fence.signal();
        ours.join()??;
        exporter.settle()
    }

    #[test]
    fn peer_to_peer_is_allowed_by_pinned_core_alone() -> Verdict {
        let (core, driver) = sides()?;
        let books = Books::new()?;
        let phantom = Phantom::new(&books, P, &[seg(A, P)])?;
        let (fd, wish) = (phantom.fd()?, Wish::new(0, P));

        let dynamic = core.register(fd.number(), wish)?;
        let ours = driver.register_fd(fd.number(), wish)?;
        ensure!(books.peer2peers() == 0);
        let pinned = core.register_pinned(fd.number(), wish)?;
        ensure!(books.peer2peers() == 1);
        drop((dynamic, ours, pinned, fd, phantom));
        books.settle()
    }
}
