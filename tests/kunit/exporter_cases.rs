// SPDX-License-Identifier: GPL-2.0

//! The exporter that the suites run against lays out, moves and holds buffers as it is told, and
//! sees what it should.

use kernel::prelude::*;

#[kunit_tests(rdma_dmabuf_exporter)]
mod tests {
    use crate::kunit::{
        bare::{
            Bare,
            Manners, //
        },
        check::{
            ensure,
            eventually,
            Verdict, //
        },
        driver::{
            Driver,
            Wish,
            PAGES as P, //
        },
        exporter::{
            shared_resv,
            Exporter,
            Kind,
            Mode,
            Order,
            Placement, //
        },
    };
    use crate::window::Segment;
    use kernel::prelude::*;

    const KINDS: [Kind; 6] = [
        Kind::OneRun,
        Kind::Huge,
        Kind::Scattered,
        Kind::Uneven,
        Kind::Merged,
        Kind::Split,
    ];

    fn total(segments: &[Segment]) -> u64 {
        segments.iter().map(|segment| segment.len).sum()
    }

    #[test]
    fn each_layout_has_all_pages() -> Verdict {
        for kind in KINDS {
            let exporter = Order::of_kind(100, kind).export()?;
            let importer = Bare::attach(&exporter, Manners::DYNAMIC)?;

            importer.map()?;
            let segments = importer.segments()?;
            ensure!(total(&segments) == exporter.size());
            ensure!(segments.first().map(|first| first.addr) == exporter.phys(0));
            match kind {
                Kind::OneRun | Kind::Huge => ensure!(segments.len() == 1),
                Kind::Scattered | Kind::Split => ensure!(segments.len() == 100),
                _ => ensure!(segments.len() > 1 && segments.len() < 50),
            }
            drop(importer);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn layout_can_change_with_every_move() -> Verdict {
        let exporter = Order::of_kind(64, Kind::Changing).export()?;
        let importer = Bare::attach(&exporter, Manners::DYNAMIC)?;
        let mut counts = [0; KINDS.len()];

        for count in &mut counts {
            importer.map()?;
            *count = importer.segments()?.len();
            exporter.move_to_new_pages()?;
            ensure!(!importer.is_mapped());
        }
        ensure!(counts.iter().filter(|count| **count == 64).count() == 2);
        ensure!(counts.iter().filter(|count| **count == 1).count() == 2);
        ensure!(importer.calls() == exporter.counts().moves.get());
        drop(importer);
        exporter.settle()
    }

    #[test]
    fn content_moves_along() -> Verdict {
        for kind in KINDS {
            let exporter = Order::of_kind(40, kind).in_vram().export()?;
            let content = exporter.content()?;

            exporter.move_to_new_pages()?;
            exporter.move_to_placement(Placement::System)?;
            exporter.move_to_layout(&[3, 30, 7])?;
            exporter.move_to_placement(Placement::Vram)?;
            ensure!(exporter.content()?[..] == content[..]);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn vram_is_moved_in_map_for_an_importer_without_peer2peer() -> Verdict {
        let exporter = Order::of_kind(8, Kind::OneRun).in_vram().export()?;
        let importer = Bare::attach(&exporter, Manners::DYNAMIC)?;

        ensure!(exporter.placement() == Placement::Vram);
        importer.map()?;
        ensure!(importer.calls() == 1);
        ensure!(exporter.placement() == Placement::System);
        drop(importer);
        exporter.settle()
    }

    #[test]
    fn vram_is_moved_in_pin_for_an_importer_without_peer2peer() -> Verdict {
        let exporter = Order::of_kind(8, Kind::OneRun)
            .in_vram()
            .for_pinned()
            .export()?;
        let other = Bare::attach(&exporter, Manners::DYNAMIC)?;
        let importer = Bare::attach(&exporter, Manners::PINNED)?;

        importer.pin()?;
        ensure!(other.calls() == 1);
        ensure!(exporter.placement() == Placement::System);
        importer.map()?;
        ensure!(other.calls() == 1);
        drop((importer, other));
        exporter.settle()
    }

    #[test]
    fn vram_stays_for_an_importer_with_peer2peer() -> Verdict {
        let exporter = Order::of_kind(8, Kind::OneRun)
            .in_vram()
            .for_peer2peer()
            .export()?;
        let importer = Bare::attach(&exporter, Manners::PEER2PEER)?;

        importer.map()?;
        ensure!(importer.calls() == 0);
        ensure!(exporter.placement() == Placement::Vram);

        // Where one cannot follow, and the other holds fast, there is no place for both.
        importer.pin()?;
        let other = Bare::attach(&exporter, Manners::DYNAMIC)?;
        ensure!(other.map() == Err(EBUSY));
        drop((importer, other));
        exporter.settle()
    }

    #[test]
    fn peer2peer_can_be_cleared_at_attach() -> Verdict {
        let exporter = Order::of_kind(8, Kind::OneRun)
            .in_vram()
            .for_peer2peer()
            .export()?;

        exporter.clear_peer2peer();
        let importer = Bare::attach(&exporter, Manners::PEER2PEER)?;
        ensure!(!importer.peer2peer());
        importer.map()?;
        ensure!(exporter.placement() == Placement::System);
        drop(importer);
        exporter.settle()
    }

    #[test]
    fn pinned_buffer_stays() -> Verdict {
        let exporter = Order::of_runs(&[4])?.for_pinned().export()?;
        let importer = Bare::attach(&exporter, Manners::PINNED)?;

        importer.pin()?;
        ensure!(exporter.pins() == 1);
        ensure!(exporter.move_to_new_pages() == Err(EBUSY));
        importer.unpin();
        ensure!(exporter.move_to_new_pages() == Ok(()));
        drop(importer);
        exporter.settle()
    }

    #[test]
    fn pin_beyond_the_quota_is_enospc() -> Verdict {
        let exporter = Order::of_runs(&[1])?
            .for_pinned()
            .with_pin_quota(1)
            .export()?;
        let first = Bare::attach(&exporter, Manners::PINNED)?;
        let second = Bare::attach(&exporter, Manners::PINNED)?;

        first.pin()?;
        ensure!(second.pin() == Err(ENOSPC));
        exporter.set_pin_quota(2);
        ensure!(second.pin() == Ok(()));
        drop((first, second));
        ensure!(exporter.counts().pins.get() == 2);
        exporter.settle()
    }

    #[test]
    fn write_to_memory_that_was_taken_away_is_seen() -> Verdict {
        let exporter = Exporter::new(&[2])?;
        let importer = Bare::attach(&exporter, Manners::DYNAMIC)?;
        let old = exporter.phys(P).unwrap_or(0);

        exporter.move_to_new_pages()?;
        ensure!(exporter.taken_pages_are_untouched());
        importer.write(old + 17, b"late");
        ensure!(!exporter.taken_pages_are_untouched());

        // Nor is it forgotten when the memory is.
        for _ in 0..8 {
            exporter.move_to_new_pages()?;
        }
        ensure!(exporter.counts().late_writes.get() == 1);
        Ok(())
    }

    #[test]
    fn write_behind_the_buffer_is_seen() -> Verdict {
        for order in [Order::of_runs(&[2])?, Order::of_runs(&[2])?.in_vram()] {
            let exporter = order.export()?;
            let importer = Bare::attach(&exporter, Manners::DYNAMIC)?;

            importer.write(exporter.phys(2 * P - 1).unwrap_or(0), b"ab");
            drop(importer);
            let remains = exporter.give_up();
            ensure!(eventually(|| remains.is_released()));
            ensure!(remains.guard_writes() == 1);
        }
        Ok(())
    }

    #[test]
    fn buffers_can_share_a_lock() -> Verdict {
        let resv = shared_resv()?;
        let one = Order::of_runs(&[1])?.sharing(&resv).export()?;
        let two = Order::of_runs(&[1])?.sharing(&resv).export()?;
        let other = Exporter::new(&[1])?;
        let lock = one.lock();

        ensure!(two.is_locked() && !two.can_lock());
        ensure!(!other.is_locked());
        drop(lock);
        ensure!(two.can_lock());
        one.settle()?;
        two.settle()?;
        other.settle()
    }

    #[test]
    fn buffer_moves_until_the_loop_ends() -> Verdict {
        let exporter = Order::of_kind(4, Kind::Changing).in_vram().export()?;
        let mr = Driver::new()?.register(&exporter, Wish::all_of(&exporter))?;
        let moves = move_in_loop(&exporter)?;

        ensure!(mr.shows(&exporter)?);
        drop(moves);
        let count = exporter.counts().moves.get();
        ensure!(mr.shows(&exporter)?);
        ensure!(exporter.counts().moves.get() == count);
        ensure!(exporter.move_in_loop(0).err() == Some(EINVAL));
        drop(mr);
        exporter.settle()
    }

    fn move_in_loop(exporter: &Exporter) -> Verdict<impl Sized> {
        let moves = exporter.move_in_loop(500)?;

        ensure!(eventually(|| exporter.counts().moves.get() > 10));
        Ok(moves)
    }

    #[test]
    fn loop_does_not_keep_the_buffer() -> Verdict {
        let exporter = Exporter::new(&[1])?;
        let moves = move_in_loop(&exporter)?;

        exporter.settle()?;
        drop(moves);
        Ok(())
    }

    #[test]
    fn vram_is_limited() -> Verdict {
        let exporter = Order::of_kind(1, Kind::OneRun).in_vram().export()?;
        let importer = Bare::attach(&exporter, Manners::DYNAMIC)?;

        // All of the pool's pages that are only remembered are had again.
        for _ in 0..3000 {
            exporter.move_to_new_pages()?;
        }
        ensure!(exporter.counts().late_writes.get() == 0);
        drop(importer);
        exporter.settle()
    }

    #[test]
    fn files_are_opened_as_ordered() -> Verdict {
        for (mode, reads, writes) in [
            (Mode::ReadOnly, true, false),
            (Mode::WriteOnly, false, true),
            (Mode::ReadWrite, true, true),
        ] {
            let exporter = Exporter::with_mode(&[1], mode)?;
            let dmabuf = exporter.dma_buf();

            ensure!(dmabuf.is_readable() == reads && dmabuf.is_writable() == writes);
            drop(dmabuf);
            exporter.settle()?;
        }
        Ok(())
    }

    #[test]
    fn kernel_mapping_shows_the_buffer_and_holds_it() -> Verdict {
        let exporter = Order::of_kind(9, Kind::Scattered).export()?;
        let importer = Bare::attach(&exporter, Manners::DYNAMIC)?;

        ensure!(importer.vmap_equals(&exporter.content()?, || {
            exporter.move_to_new_pages() == Err(EBUSY)
        })?);
        ensure!(exporter.counts().vmaps.get() == 1);
        ensure!(exporter.move_to_new_pages() == Ok(()));
        drop(importer);
        exporter.settle()
    }
}
