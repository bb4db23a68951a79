// SPDX-License-Identifier: GPL-2.0

//! The buffer: what a dma-buf of this exporter is, and what importers get of it.

use super::{
    backing::{
        Backing,
        Source, //
    },
    faults::{
        Action,
        Due,
        Faults,
        Op, //
    },
    fence::Fence,
    layout::Layout,
    memory::KernelMap,
    ops::{
        Exporter,
        Held,
        Link,
        Ops,
        Side, //
    },
    pool::Pool,
    stats::Stats,
    table::Table, //
};
use crate::window::{
    Segment,
    PAGE_SIZE, //
};
use core::{
    ffi::c_void,
    ptr::NonNull, //
};
use kernel::{
    new_condvar,
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        CondVar,
        Mutex, //
    },
};

/// How many places a buffer remembers that it was taken away from.
const REMEMBERED: usize = 4;

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Placement {
    /// The exporter's own memory, which only importers with peer-to-peer reach.
    Vram,
    /// Memory of the system.
    System,
}

/// Which importers a buffer takes.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Others than those that can let the memory go are refused with `EOPNOTSUPP`.
    pub(crate) only_revocable: bool,
    /// Others than those that can are a breach of the contract.
    pub(crate) expects_revocable: bool,
    /// An importer that asks for peer-to-peer is a breach of the contract.
    pub(crate) expects_no_peer2peer: bool,
    /// How many pins there may be at a time; more are refused with `ENOSPC`.
    pub(crate) pin_quota: u32,
}

impl Rules {
    /// Everybody, as often as they like.
    pub(crate) const ANY: Self = Self {
        only_revocable: false,
        expects_revocable: false,
        expects_no_peer2peer: false,
        pin_quota: u32::MAX,
    };
}

/// What changes under the reservation lock.
pub(super) struct State {
    /// [`None`] once the buffer is released.
    pub(super) now: Option<Arc<Backing>>,
    /// Taken away by moves, and poisoned; the oldest first.
    pub(super) taken: [Option<Arc<Backing>>; REMEMBERED],
    pub(super) placement: Placement,
    /// How often the buffer was laid out.
    pub(super) turn: u64,
    pub(super) pins: u32,
    pub(super) mapped: u32,
    pub(super) is_revoked: bool,
    pub(super) rules: Rules,
    kernel_map: Option<KernelMap>,
}

impl State {
    /// Forgets the oldest place that the buffer was taken away from, and remembers another.
    pub(super) fn remember(&mut self, old: Option<Arc<Backing>>) -> Option<Arc<Backing>> {
        self.taken.rotate_left(1);
        match self.taken.last_mut() {
            Some(last) => core::mem::replace(last, old),
            None => old,
        }
    }

    /// Whether the buffer has to stay where it is.
    pub(super) fn is_fixed(&self) -> bool {
        self.pins != 0 || self.kernel_map.is_some()
    }
}

/// A buffer.
#[pin_data]
pub(crate) struct Buffer {
    pub(super) size: u64,
    pub(super) layout: Layout,
    /// DMA addresses to give in place of memory.
    pub(super) hollow: KVec<Segment>,
    pub(super) pool: Option<Arc<Pool>>,
    stats: Arc<Stats>,
    #[pin]
    link: Link<Self>,
    // Taken within the reservation lock. Nothing is allocated within these two, and nobody is
    // called: they are taken to reclaim memory.
    #[pin]
    faults: Mutex<Faults>,
    #[pin]
    pub(super) state: Mutex<State>,
    /// The last mapping is gone.
    #[pin]
    pub(super) unmapped: CondVar,
    #[pin]
    pub(super) fences: Mutex<KVec<Fence>>,
}

/// What a buffer is made of.
pub(crate) struct Wish {
    /// Bytes; a multiple of the page size.
    pub(crate) size: u64,
    pub(crate) layout: Layout,
    pub(crate) placement: Placement,
    pub(crate) rules: Rules,
    /// Where video memory comes from.
    pub(crate) pool: Option<Arc<Pool>>,
    /// DMA addresses to give in place of memory, in any number but none.
    pub(crate) hollow: KVec<Segment>,
}

impl Buffer {
    /// `EINVAL` for a size that is no multiple of a page or none, `ENOSPC` and `ENOMEM` if there
    /// is no memory.
    pub(crate) fn new(wish: Wish) -> Result<Arc<Self>> {
        if wish.size == 0 || wish.size % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }

        let stats = Arc::new(Stats::new(), GFP_KERNEL)?;
        let source = Self::source(wish.placement, wish.pool.as_ref())?;
        let pages = Self::pages(wish.size, &wish.hollow);
        let plan = wish.layout.plan(pages, 0, source.longest_run())?;
        let now = Some(Backing::new(&source, &plan, &stats)?);

        Arc::pin_init(
            pin_init!(Self {
                size: wish.size,
                layout: wish.layout,
                hollow: wish.hollow,
                pool: wish.pool,
                stats,
                link <- Link::new(),
                faults <- new_mutex!(Faults::default(), "vram_exporter::faults"),
                state <- new_mutex!(State {
                    now,
                    taken: [const { None }; REMEMBERED],
                    placement: wish.placement,
                    turn: 0,
                    pins: 0,
                    mapped: 0,
                    is_revoked: false,
                    rules: wish.rules,
                    kernel_map: None,
                }, "vram_exporter::state"),
                unmapped <- new_condvar!("vram_exporter::unmapped"),
                fences <- new_mutex!(KVec::new(), "vram_exporter::fences"),
            }),
            GFP_KERNEL,
        )
    }

    /// The pages of memory that a buffer has.
    pub(super) fn pages(size: u64, hollow: &[Segment]) -> u64 {
        if hollow.is_empty() {
            size / PAGE_SIZE
        } else {
            0
        }
    }

    /// `ENOSPC` where there is no video memory at all.
    pub(super) fn source(placement: Placement, pool: Option<&Arc<Pool>>) -> Result<Source> {
        match placement {
            Placement::System => Ok(Source::System),
            Placement::Vram => pool.cloned().map(Source::Vram).ok_or(ENOSPC),
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    pub(super) fn shared_stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Changes what was ordered.
    pub(crate) fn with_faults<R>(&self, change: impl FnOnce(&mut Faults) -> R) -> R {
        change(&mut self.faults.lock())
    }

    /// Changes which importers the buffer takes.
    pub(crate) fn change_rules(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.state.lock().rules)
    }

    /// Where the buffer lies now. `ENODEV` once it is released.
    pub(crate) fn backing(&self) -> Result<Arc<Backing>> {
        self.state.lock().now.clone().ok_or(ENODEV)
    }

    pub(crate) fn placement(&self) -> Placement {
        self.state.lock().placement
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.state.lock().is_revoked
    }

    /// Pins, and tables that are mapped, as of now.
    pub(crate) fn in_use(&self) -> (u32, u32) {
        let state = self.state.lock();

        (state.pins, state.mapped)
    }

    /// Pieces of memory that somebody wrote to after they were taken away.
    pub(crate) fn late_writes(&self) -> u64 {
        let forgotten = self.stats.late_writes.get();
        let state = self.state.lock();
        let is_touched = |old: &&Arc<Backing>| !old.is_untouched();

        forgotten + state.taken.iter().flatten().filter(is_touched).count() as u64
    }

    /// Pieces of video memory that somebody wrote to while nobody had them.
    pub(crate) fn pool_late_writes(&self) -> u64 {
        self.pool.as_ref().map_or(0, |pool| pool.late_writes.get())
    }

    fn check_usable(&self) -> Result {
        (!self.is_revoked()).then_some(()).ok_or(ENODEV)
    }

    fn due(&self, op: Op) -> Due {
        self.faults.lock().due(op)
    }

    /// As [`Buffer::due`], in an operation with the lock held: calls the importers back first.
    fn due_held(&self, op: Op, held: &Held<'_, Self>) -> Due {
        let due = self.due(op);

        if due.calls_back {
            self.invalidate_held(held);
        }
        due
    }

    /// Moves the buffer to where the importer reaches it, as drivers of GPUs do.
    fn make_reachable(&self, side: &Side<'_, Self>, held: &Held<'_, Self>) -> Result {
        if side.peer2peer() || self.placement() == Placement::System {
            return Ok(());
        }
        self.move_held(held, Some(Placement::System), None)
    }

    fn table(
        &self,
        side: &Side<'_, Self>,
        answer: Option<Action>,
    ) -> Result<Option<KBox<Table<Arc<Backing>>>>> {
        let backing = self.backing()?;

        let table = match answer {
            None if self.hollow.is_empty() => {
                let entries = backing.entries();
                Table::of_pages(backing.stretches(), entries, side.device(), backing.clone())?
            }
            None => Table::forged(&self.hollow, backing)?,
            Some(Action::Fail(error)) => return Err(error),
            Some(Action::Table(segments)) => Table::forged(&segments, backing)?,
            Some(Action::Forge(forgery)) => {
                Table::forged(&forgery.segments(backing.segments())?, backing)?
            }
            Some(_) => return Ok(None),
        };
        Ok(Some(table))
    }
}

static OPS: Ops<Buffer> = Ops::new();

impl Exporter for Buffer {
    type Memory = Arc<Backing>;

    fn ops() -> &'static Ops<Self> {
        &OPS
    }

    fn link(&self) -> &Link<Self> {
        &self.link
    }

    fn breach(&self, rule: &str) {
        pr_err!("the importer breaks the dma-buf contract: not {rule}\n");
        self.stats.breaches.add_one();
    }

    fn attach(&self, side: &Side<'_, Self>) -> Result {
        let rules = self.state.lock().rules;
        let due = self.due(Op::Attach);

        if rules.only_revocable && !side.is_revocable() {
            return Err(EOPNOTSUPP);
        }
        if rules.expects_revocable && !side.is_revocable() {
            self.breach("an importer with a callback");
        }
        if rules.expects_no_peer2peer && side.peer2peer() {
            self.breach("an importer without peer-to-peer");
        }
        if let Some(Action::Fail(error)) = due.answer {
            return Err(error);
        }
        self.check_usable()?;
        if due.clears_peer2peer {
            side.clear_peer2peer();
        }
        if due.calls_back {
            side.call_back_early();
        }
        self.stats.attaches.add_one();
        Ok(())
    }

    fn detach(&self, _side: &Side<'_, Self>) {
        self.stats.detaches.add_one();
    }

    fn pin(&self, side: &Side<'_, Self>, held: &Held<'_, Self>) -> Result {
        if let Some(Action::Fail(error)) = self.due_held(Op::Pin, held).answer {
            return Err(error);
        }
        self.check_usable()?;
        self.make_reachable(side, held)?;

        let mut state = self.state.lock();
        if state.pins >= state.rules.pin_quota {
            return Err(ENOSPC);
        }
        state.pins += 1;
        self.stats.pins.add_one();
        Ok(())
    }

    fn unpin(&self, _side: &Side<'_, Self>, _held: &Held<'_, Self>) {
        let mut state = self.state.lock();

        state.pins = state.pins.saturating_sub(1);
        self.stats.unpins.add_one();
    }

    fn map(
        &self,
        side: &Side<'_, Self>,
        held: &Held<'_, Self>,
    ) -> Result<Option<KBox<Table<Arc<Backing>>>>> {
        let due = self.due_held(Op::Map, held);

        if let Some(other) = due.evicts {
            other.evict();
        }
        self.check_usable()?;
        self.make_reachable(side, held)?;

        let table = self.table(side, due.answer)?;
        if table.is_some() {
            self.state.lock().mapped += 1;
            self.stats.maps.add_one();
        }
        Ok(table)
    }

    fn unmap(
        &self,
        _side: &Side<'_, Self>,
        held: &Held<'_, Self>,
        table: Option<KBox<Table<Arc<Backing>>>>,
    ) {
        self.due_held(Op::Unmap, held);
        drop(table);

        let mut state = self.state.lock();
        state.mapped = state.mapped.saturating_sub(1);
        self.stats.unmaps.add_one();
        if state.mapped == 0 {
            self.unmapped.notify_all();
        }
    }

    fn begin_cpu_access(&self) -> Result {
        self.check_usable()?;
        self.stats.cpu_begins.add_one();
        Ok(())
    }

    fn end_cpu_access(&self) -> Result {
        self.stats.cpu_ends.add_one();
        Ok(())
    }

    fn mmap(&self) -> Result {
        self.check_usable()
    }

    fn fault(&self, _held: &Held<'_, Self>, offset: u64) -> Result<u64> {
        self.check_usable()?;
        self.backing()?.phys(offset).ok_or(EINVAL)
    }

    fn vmap(&self, _held: &Held<'_, Self>) -> Result<NonNull<c_void>> {
        self.check_usable()?;

        let map = KernelMap::new(self.backing()?.stretches())?;
        let addr = map.addr();
        self.state.lock().kernel_map = Some(map);
        self.stats.vmaps.add_one();
        Ok(addr)
    }

    fn vunmap(&self, _held: &Held<'_, Self>) {
        let map = self.state.lock().kernel_map.take();

        drop(map);
        self.stats.vunmaps.add_one();
    }

    fn release(&self) {
        let mut state = self.state.lock();
        let now = state.now.take();
        let taken = core::mem::replace(&mut state.taken, [const { None }; REMEMBERED]);

        // Looked at and given back without the lock.
        drop(state);
        drop((now, taken));
        self.fences.lock().clear();
        // They may be about a buffer whose orders are about this one.
        self.with_faults(|faults| faults.forget_all());
        self.stats.releases.add_one();
    }
}
