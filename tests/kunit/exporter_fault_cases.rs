// SPDX-License-Identifier: GPL-2.0

//! The exporter that the suites run against fails, revokes, forges and calls back as it is told.

use kernel::prelude::*;

#[kunit_tests(rdma_dmabuf_exporter_faults)]
mod tests {
    use crate::{
        kunit::{
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
                ANY_SIZE,
                PAGES as P, //
            },
            exporter::{
                Answer,
                Exporter,
                Forgery,
                Moment,
                Order, //
            },
            thread::Thread,
            vram::fence::{
                Fence,
                Usage, //
            },
        },
        window::Segment,
    };
    use kernel::{
        error::code::ETIMEDOUT,
        prelude::*, //
    };

    /// Milliseconds that a revoke waits where it is to time out.
    const SHORT: u32 = 20;

    /// Milliseconds that a revoke may wait where it is not to.
    const LONG: u32 = 10_000;

    fn total(segments: &[Segment]) -> u64 {
        segments.iter().map(|segment| segment.len).sum()
    }

    #[test]
    fn each_operation_fails_as_ordered() -> Verdict {
        let exporter = Exporter::new(&[1])?;

        exporter.refuse(Moment::Attach, ENOTTY);
        ensure!(Bare::attach(&exporter, Manners::DYNAMIC).err() == Some(ENOTTY));
        let importer = Bare::attach(&exporter, Manners::DYNAMIC)?;
        exporter.refuse(Moment::Pin, EDOM);
        ensure!(importer.pin() == Err(EDOM));
        ensure!(importer.pin() == Ok(()));
        exporter.refuse_every(3, Moment::Map, EIO);
        for round in 1..=6 {
            let is_refused = importer.map() == Err(EIO);
            ensure!(is_refused == (round % 3 == 0));
            importer.unmap();
        }
        exporter.behave();
        for _ in 0..3 {
            ensure!(importer.map() == Ok(()));
            importer.unmap();
        }
        drop(importer);
        exporter.settle()
    }

    #[test]
    fn importer_is_called_back_from_each_operation() -> Verdict {
        let exporter = Exporter::new(&[1])?;

        exporter.call_back_in(Moment::Attach);
        let importer = Bare::attach(&exporter, Manners::DYNAMIC)?;
        ensure!(importer.calls() == 1);
        exporter.call_back_in(Moment::Pin);
        importer.pin()?;
        ensure!(importer.calls() == 2);
        exporter.call_back_in(Moment::Map);
        importer.map()?;
        ensure!(importer.calls() == 3);
        exporter.call_back_in(Moment::Unmap);
        importer.unmap();
        ensure!(importer.calls() == 4);
        ensure!(exporter.has_called_back());

        exporter.call_back_in_every(2, Moment::Map);
        for _ in 0..4 {
            importer.map()?;
            importer.unmap();
        }
        ensure!(importer.calls() == 6);
        drop(importer);
        exporter.settle()
    }

    #[test]
    fn revoked_buffer_is_enodev() -> Verdict {
        let exporter = Exporter::new(&[2, 1])?;
        let importer = Bare::attach(&exporter, Manners::DYNAMIC)?;
        let content = exporter.content()?;

        importer.map()?;
        exporter.revoke(LONG)?;
        ensure!(importer.calls() == 1 && !importer.is_mapped());
        ensure!(importer.map() == Err(ENODEV));
        ensure!(importer.pin() == Err(ENODEV));
        ensure!(Bare::attach(&exporter, Manners::DYNAMIC).err() == Some(ENODEV));
        ensure!(exporter.move_to_new_pages() == Err(ENODEV));
        exporter.unrevoke()?;
        ensure!(importer.calls() == 2);
        ensure!(importer.map() == Ok(()));
        ensure!(exporter.content()?[..] == content[..]);
        drop(importer);
        exporter.settle()
    }

    #[test]
    fn revoke_does_not_wait_for_ever() -> Verdict {
        let exporter = Order::of_runs(&[1])?.for_pinned().export()?;
        let importer = Bare::attach(&exporter, Manners::PINNED)?;
        let fence = Fence::new()?;

        importer.map()?;
        ensure!(exporter.revoke(SHORT) == Err(ETIMEDOUT));
        importer.unmap();
        ensure!(exporter.mapped() == 0);
        exporter.add_fence(&fence, Usage::Bookkeep)?;
        ensure!(exporter.revoke(SHORT) == Err(ETIMEDOUT));
        fence.signal();
        ensure!(exporter.revoke(LONG) == Ok(()));
        drop(importer);
        exporter.settle()
    }

    #[test]
    fn revoke_waits_until_the_last_mapping_is_gone() -> Verdict {
        let exporter = Order::of_runs(&[1])?.for_pinned().export()?;
        let importer = Bare::attach(&exporter, Manners::PINNED)?;

        importer.map()?;
        let other = exporter.clone();
        let thread = Thread::spawn(move || other.revoke(LONG))?;
        ensure!(eventually(|| exporter.counts().invalidations.get() == 1));
        ensure!(!thread.is_done());
        importer.unmap();
        ensure!(thread.join()? == Ok(()));
        drop(importer);
        exporter.settle()
    }

    #[test]
    fn importer_that_cannot_let_go_can_be_refused() -> Verdict {
        let exporter = Order::of_runs(&[1])?.only_for_revocable().export()?;

        ensure!(Bare::attach(&exporter, Manners::PINNED).err() == Some(EOPNOTSUPP));
        drop(Bare::attach(&exporter, Manners::DYNAMIC)?);
        exporter.settle()
    }

    #[test]
    fn importer_that_should_let_go_is_a_breach() -> Verdict {
        let exporter = Exporter::new(&[1])?;

        drop(Bare::attach(&exporter, Manners::PINNED)?);
        ensure!(exporter.counts().breaches.get() == 1);
        drop(Bare::attach(&exporter, Manners::PEER2PEER)?);
        ensure!(exporter.counts().breaches.get() == 2);
        Ok(())
    }

    #[test]
    fn forged_tables_are_as_wrong_as_ordered() -> Verdict {
        let exporter = Exporter::new(&[2, 1])?;
        let importer = Bare::attach(&exporter, Manners::DYNAMIC)?;
        let forged = |forgery| -> Result<KVec<Segment>> {
            exporter.answer_next_map(Answer::Forged(forgery));
            importer.map()?;
            let segments = importer.segments()?;
            importer.unmap();
            Ok(segments)
        };

        ensure!(total(&forged(Forgery::Short)?) == 2 * P);
        // With DMABUF_DEBUG, core does not let it through.
        ensure!(forged(Forgery::Empty).map_or_else(|error| error == EINVAL, |it| it.is_empty()));
        ensure!(total(&forged(Forgery::OverLong)?) == 4 * P);
        ensure!(forged(Forgery::Unaligned)?
            .iter()
            .any(|it| it.addr % P != 0));
        let zero = forged(Forgery::ZeroLength)?;
        ensure!(zero.len() == 4 && zero.iter().filter(|it| it.len == 0).count() == 2);
        ensure!(forged(Forgery::Huge)?
            .iter()
            .any(|it| it.len == 0xffff_f000));
        let io = forged(Forgery::Io)?;
        ensure!(total(&io) == 3 * P && io.iter().all(|it| it.addr >> 20 == 0xfee));

        exporter.answer_next_map(Answer::Nothing);
        exporter.answer_next_map(Answer::Pages);
        ensure!(importer.map() == Ok(()));
        ensure!(total(&importer.segments()?) == 3 * P);
        drop(importer);
        exporter.settle()
    }

    #[test]
    fn buffer_without_memory_has_any_size() -> Verdict {
        let mut segments = KVec::new();
        for part in 0..3 {
            segments.push(
                Segment {
                    addr: part << 40,
                    len: 0xffff_f000,
                },
                GFP_KERNEL,
            )?;
        }
        let exporter = Order::of_addresses(segments).export()?;
        let wish = Wish {
            block_sizes: ANY_SIZE,
            ..Wish::new(2 * 0xffff_f000, P)
        };
        let mr = Driver::with_device()?.register(&exporter, wish)?;
        let access = mr.access_all()?;

        ensure!(exporter.size() == 3 * 0xffff_f000);
        ensure!(access.blocks() == [2 << 40]);
        drop(access);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn fence_can_signal_by_itself() -> Verdict {
        let exporter = Exporter::new(&[1])?;
        let fence = Fence::after(SHORT, Some(EIO))?;

        exporter.add_fence(&fence, Usage::Kernel)?;
        let mr = Driver::new()?.register(&exporter, Wish::all_of(&exporter))?;
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }

    #[test]
    fn shrinker_takes_mappings_but_does_not_wait_for_the_lock() -> Verdict {
        let exporter = Exporter::new(&[3])?;
        let mr = Driver::new()?.register(&exporter, Wish::all_of(&exporter))?;

        ensure!(exporter.mapped() == 1);
        exporter.shrink()?;
        ensure!(exporter.mapped() == 0);
        let lock = exporter.lock();
        let other = exporter.clone();
        ensure!(Thread::spawn(move || other.shrink())?.join()? == Err(EBUSY));
        drop(lock);
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()
    }
}
