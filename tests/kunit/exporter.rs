// SPDX-License-Identifier: GPL-2.0

//! The exporter of `tests/exporter`, as cases use it: a buffer in system memory that is taken for
//! read and written by its pages, unless a case says otherwise.

use super::{
    check::{
        ensure,
        eventually,
        Verdict, //
    },
    vram::{
        backing::{
            pattern,
            Backing, //
        },
        buffer::Buffer,
        faults::{
            Action,
            Op, //
        },
        fence::{
            Fence,
            Usage, //
        },
        layout::Layout,
        loops::MoveLoop,
        moves::Destination,
        ops::{
            self,
            Live, //
        },
        resv::{
            self,
            SharedResv, //
        },
        stats::Stats, //
    },
};
use crate::{
    dma_buf::DmaBuf,
    dma_resv::ResvGuard,
    window::Segment, //
};
use kernel::{
    prelude::*,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    },
};

pub(crate) use {
    super::vram::{
        buffer::Placement,
        faults::{
            Forgery,
            Op as Moment, //
        },
        layout::Kind,
        ops::Mode, //
    },
    order::Order,
};

#[path = "order.rs"]
mod order;

/// What the next map gives.
pub(crate) enum Answer {
    /// The pages of the buffer.
    Pages,
    /// An error.
    Refusal(Error),
    /// Neither a table nor an error.
    Nothing,
    /// A table of these DMA addresses.
    Table(KVec<Segment>),
    /// A table that is wrong in a certain way.
    Forged(Forgery),
}

/// A reservation object for [`Order::sharing`].
pub(crate) fn shared_resv() -> Result<Arc<SharedResv>> {
    Arc::pin_init(SharedResv::new(), GFP_KERNEL)
}

/// A buffer that is exported.
pub(crate) struct Exporter {
    dmabuf: DmaBuf,
    buffer: Arc<Buffer>,
}

impl Exporter {
    /// Exports a buffer with a run of so many pages for each number in `layout`.
    pub(crate) fn new(layout: &[u64]) -> Result<Arc<Self>> {
        Order::of_runs(layout)?.export()
    }

    /// As [`Exporter::new`], with a file opened in `mode`.
    pub(crate) fn with_mode(layout: &[u64], mode: Mode) -> Result<Arc<Self>> {
        Order::of_runs(layout)?.opened(mode).export()
    }

    fn live(&self) -> Result<Live<'_, Buffer>> {
        Live::of(&self.dmabuf).ok_or(EINVAL)
    }

    fn fill(&self) -> Result {
        let mut bytes = KVVec::with_capacity(self.size() as usize, GFP_KERNEL)?;

        for offset in 0..self.size() {
            bytes.push(pattern(offset), GFP_KERNEL)?;
        }
        self.backing()?.write(0, &bytes)
    }

    fn backing(&self) -> Result<Arc<Backing>> {
        self.buffer.backing()
    }

    /// Another reference to the buffer.
    pub(crate) fn dma_buf(&self) -> DmaBuf {
        ops::get(&self.dmabuf)
    }

    /// Bytes in the buffer.
    pub(crate) fn size(&self) -> u64 {
        self.buffer.size()
    }

    pub(crate) fn counts(&self) -> &Stats {
        self.buffer.stats()
    }

    /// Where the buffer lies.
    pub(crate) fn placement(&self) -> Placement {
        self.buffer.placement()
    }

    /// Pins as of now.
    pub(crate) fn pins(&self) -> u32 {
        self.buffer.in_use().0
    }

    /// Tables that are mapped as of now.
    pub(crate) fn mapped(&self) -> u32 {
        self.buffer.in_use().1
    }

    /// The physical address of the byte at `offset`.
    pub(crate) fn phys(&self, offset: u64) -> Option<u64> {
        self.backing().ok()?.phys(offset)
    }

    /// The runs of the buffer: what a map gives, unless the layout splits them.
    pub(crate) fn table(&self) -> Result<KVec<Segment>> {
        let mut table = KVec::new();

        for segment in self.backing()?.segments() {
            table.push(segment, GFP_KERNEL)?;
        }
        Ok(table)
    }

    /// What the buffer holds.
    pub(crate) fn content(&self) -> Result<KVVec<u8>> {
        let mut bytes = KVVec::from_elem(0, self.size() as usize, GFP_KERNEL)?;

        self.backing()?.read(0, &mut bytes)?;
        Ok(bytes)
    }

    fn order(&self, op: Op, action: Action, every: Option<u32>) {
        if let Err(error) = self
            .buffer
            .with_faults(|faults| faults.order(op, action, every))
        {
            pr_err!("the exporter cannot do that: {error:?}\n");
            self.counts().breaches.add_one();
        }
    }

    /// Has the next attach fail.
    pub(crate) fn refuse_attach(&self, error: Error) {
        self.refuse(Op::Attach, error);
    }

    /// Has the next operation of that kind fail.
    pub(crate) fn refuse(&self, moment: Moment, error: Error) {
        self.order(moment, Action::Fail(error), None);
    }

    /// Has every `every`th operation of that kind fail, until [`Exporter::behave`].
    pub(crate) fn refuse_every(&self, every: u32, moment: Moment, error: Error) {
        self.order(moment, Action::Fail(error), Some(every));
    }

    /// Has the next map give `answer`.
    pub(crate) fn answer_next_map(&self, answer: Answer) {
        let action = match answer {
            Answer::Pages => None,
            Answer::Refusal(error) => Some(Action::Fail(error)),
            Answer::Nothing => Some(Action::Nothing),
            Answer::Table(segments) => Some(Action::Table(segments)),
            Answer::Forged(forgery) => Some(Action::Forge(forgery)),
        };

        self.buffer.with_faults(|faults| {
            faults.forget(Op::Map, |action| !matches!(action, Action::CallBack));
        });
        if let Some(action) = action {
            self.order(Op::Map, action, None);
        }
    }

    /// Calls the importer back from inside the next operation of that kind.
    pub(crate) fn call_back_in(&self, moment: Moment) {
        self.order(moment, Action::CallBack, None);
    }

    /// Calls the importer back from inside every `every`th operation of that kind.
    pub(crate) fn call_back_in_every(&self, every: u32, moment: Moment) {
        self.order(moment, Action::CallBack, Some(every));
    }

    /// Whether the exporter has called back where it was told to.
    pub(crate) fn has_called_back(&self) -> bool {
        self.buffer
            .with_faults(|faults| !faults.has(|action| matches!(action, Action::CallBack)))
    }

    /// Tells the next importer that attaches that it has no peer-to-peer.
    pub(crate) fn clear_peer2peer(&self) {
        self.order(Op::Attach, Action::ClearPeer2peer, None);
    }

    /// Moves `other`, if it is not in use, in every `every`th map.
    pub(crate) fn evict_in_every(&self, every: u32, other: &Self) {
        let action = Action::Evict(other.buffer.clone());

        self.order(Op::Map, action, Some(every));
    }

    /// Forgets all that was ordered.
    pub(crate) fn behave(&self) {
        self.buffer.with_faults(|faults| faults.forget_all());
    }

    /// From now on, so many pins at a time.
    pub(crate) fn set_pin_quota(&self, quota: u32) {
        self.buffer.change_rules(|rules| rules.pin_quota = quota);
    }

    /// Takes the reservation lock.
    pub(crate) fn lock(&self) -> ResvGuard<'_> {
        self.dmabuf.resv().lock()
    }

    /// Whether somebody holds the reservation lock.
    pub(crate) fn is_locked(&self) -> bool {
        resv::is_locked(self.dmabuf.resv())
    }

    /// Whether the reservation lock is free to be taken, which it is afterwards again.
    pub(crate) fn can_lock(&self) -> bool {
        resv::try_lock(self.dmabuf.resv()).is_some()
    }

    /// Tells the importers that their mappings go stale.
    pub(crate) fn invalidate(&self) {
        self.invalidate_after(|| ());
    }

    /// The same, but does something else under the reservation lock first.
    pub(crate) fn invalidate_after(&self, first: impl FnOnce()) {
        if let Ok(live) = self.live() {
            live.invalidate_after(|_| first());
        }
    }

    /// Lets `old` signal, and calls the importers back behind `new`, all under the reservation lock:
    /// who waited for the one finds that there is another.
    pub(crate) fn invalidate_from(&self, old: &Fence, new: &Fence) -> Result {
        let mut added = Ok(());

        self.live()?.invalidate_after(|held| {
            old.signal();
            // Who waited for it comes as far as to want the lock.
            fsleep(Delta::from_millis(5));
            added = held.add_fence(new, Usage::Kernel);
        });
        added
    }

    /// Tells them as a shrinker does. `EBUSY` if somebody holds the reservation lock.
    pub(crate) fn shrink(&self) -> Result {
        self.live()?.shrink()
    }

    /// Moves the buffer to new pages of the same layout, and poisons the old ones.
    ///
    /// `EBUSY` if it is pinned, `ENODEV` if it is revoked.
    pub(crate) fn move_to_new_pages(&self) -> Result {
        self.live()?.move_to(Destination::default())
    }

    /// The same, and `other` too, while both reservation locks are held.
    pub(crate) fn move_with(&self, other: &Self) -> Result {
        self.live()?.move_both(&other.live()?)
    }

    /// Moves the buffer to new pages, laid out anew.
    pub(crate) fn move_to_layout(&self, layout: &[u64]) -> Result {
        self.live()?.move_to(Destination {
            layout: Some(&Layout::of_runs(layout)?),
            ..Destination::default()
        })
    }

    /// Moves the buffer to other memory.
    pub(crate) fn move_to_placement(&self, placement: Placement) -> Result {
        self.live()?.move_to(Destination {
            placement: Some(placement),
            ..Destination::default()
        })
    }

    /// Moves the buffer to new pages, whose content is in place once `fence` has signalled.
    pub(crate) fn move_behind(&self, fence: &Fence) -> Result {
        self.live()?.move_to(Destination {
            fence: Some(fence),
            ..Destination::default()
        })
    }

    /// Moves the buffer so many times a second, until the result is dropped.
    pub(crate) fn move_in_loop(&self, per_second: u32) -> Result<MoveLoop> {
        MoveLoop::start(self.buffer.clone(), per_second, None)
    }

    /// Takes the buffer away. See [`Live::revoke`].
    pub(crate) fn revoke(&self, timeout_ms: u32) -> Result {
        self.live()?.revoke(timeout_ms)
    }

    /// Gives it back.
    pub(crate) fn unrevoke(&self) -> Result {
        self.live()?.unrevoke();
        Ok(())
    }

    /// Whether nobody has written to the memory that moves have taken away.
    pub(crate) fn taken_pages_are_untouched(&self) -> bool {
        self.buffer.late_writes() == 0
    }

    /// Adds a fence to the buffer.
    pub(crate) fn add_fence(&self, fence: &Fence, usage: Usage) -> Result {
        self.live()?.add_fence(fence, usage)
    }

    /// Gives up the exporter's own reference to the buffer.
    pub(crate) fn give_up(self: Arc<Self>) -> Remains {
        Remains(self.buffer.clone())
    }

    /// Gives the buffer up; everything that was taken must have been given back by then.
    pub(crate) fn settle(self: Arc<Self>) -> Verdict {
        self.give_up().settle()
    }
}

/// What is left of an exporter whose buffer others may still hold.
pub(crate) struct Remains(Arc<Buffer>);

impl Remains {
    /// Whether the last reference to the buffer is gone.
    pub(crate) fn is_released(&self) -> bool {
        self.0.stats().releases.get() != 0
    }

    /// Pieces of memory behind which somebody wrote.
    pub(crate) fn guard_writes(&self) -> u64 {
        self.0.stats().guard_writes.get()
    }

    /// Everything that was taken must have been given back by now.
    pub(crate) fn settle(self) -> Verdict {
        let stats = self.0.stats();

        // The last reference of a file is dropped by a worker, when a kernel thread gives it up.
        ensure!(eventually(|| stats.releases.get() != 0));
        ensure!(stats.releases.get() == 1);
        ensure!(stats.attaches.get() == stats.detaches.get());
        ensure!(stats.maps.get() == stats.unmaps.get());
        ensure!(stats.pins.get() == stats.unpins.get());
        ensure!(stats.vmaps.get() == stats.vunmaps.get());
        ensure!(stats.breaches.get() == 0);
        ensure!(self.0.late_writes() == 0);
        ensure!(stats.guard_writes.get() == 0);
        Ok(())
    }
}
