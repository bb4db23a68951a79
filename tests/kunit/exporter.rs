// SPDX-License-Identifier: GPL-2.0

//! A small exporter that does what a case tells it, counts what the importer does, and watches
//! whether it keeps to the dma-buf contract.
//!
//! C header: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h)

use super::{
    backing::{
        pattern,
        Backing, //
    },
    check::{
        ensure,
        eventually,
        Verdict, //
    },
    fence::{
        Fence,
        Usage, //
    },
};
use crate::{
    bindings,
    dma_buf::DmaBuf,
    dma_resv::{
        Resv,
        ResvGuard, //
    },
    window::Segment, //
};
use core::ptr::NonNull;
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    module::this_module,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full, //
        },
        new_mutex,
        Arc,
        Mutex, //
    },
};

#[path = "exporter_ops.rs"]
mod ops;

/// A number that operations count up.
pub(crate) struct Count(Atomic<u64>);

impl Count {
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    fn add_one(&self) {
        self.0.fetch_add(1, Full);
    }

    /// The number as of now.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(kernel::sync::atomic::Acquire)
    }
}

/// Operations that succeeded.
pub(crate) struct Counts {
    pub(crate) attaches: Count,
    pub(crate) detaches: Count,
    pub(crate) maps: Count,
    pub(crate) unmaps: Count,
    pub(crate) pins: Count,
    pub(crate) releases: Count,
    /// How often the importer broke the contract; the log has how.
    pub(crate) breaches: Count,
}

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
}

/// An operation from which the exporter can call the importer back.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Moment {
    Attach,
    Map,
    Unmap,
}

/// How the file of the dma-buf is opened.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Mode {
    ReadOnly = bindings::O_RDONLY,
    WriteOnly = bindings::O_WRONLY,
    ReadWrite = bindings::O_RDWR,
}

/// What was ordered and has not happened yet.
struct Plan {
    attach_error: Option<Error>,
    answer: Answer,
    call_back_in: Option<Moment>,
}

struct Memory {
    now: Backing,
    /// Taken away by moves, and poisoned.
    taken: KVec<Backing>,
}

/// What the dma-buf leads to.
#[pin_data]
struct Shared {
    counts: Counts,
    #[pin]
    plan: Mutex<Plan>,
    // Taken within the reservation lock; nobody is called within it.
    #[pin]
    memory: Mutex<Memory>,
}

impl Shared {
    fn new(now: Backing) -> impl PinInit<Self> {
        pin_init!(Self {
            counts: Counts {
                attaches: Count::new(),
                detaches: Count::new(),
                maps: Count::new(),
                unmaps: Count::new(),
                pins: Count::new(),
                releases: Count::new(),
                breaches: Count::new(),
            },
            plan <- new_mutex!(Plan {
                attach_error: None,
                answer: Answer::Pages,
                call_back_in: None,
            }),
            memory <- new_mutex!(Memory {
                now,
                taken: KVec::new(),
            }),
        })
    }

    /// Notes a breach of the contract unless `holds`.
    fn expect(&self, what: &str, holds: bool) {
        if !holds {
            pr_err!("the importer breaks the dma-buf contract: not {what}\n");
            self.counts.breaches.add_one();
        }
    }

    /// Whether the importer is to be called back now; once.
    fn is_moment(&self, moment: Moment) -> bool {
        self.plan
            .lock()
            .call_back_in
            .take_if(|planned| *planned == moment)
            .is_some()
    }
}

/// A buffer that is exported.
pub(crate) struct Exporter {
    dmabuf: DmaBuf,
    shared: Arc<Shared>,
}

impl Exporter {
    /// Exports a buffer with a run of so many pages for each number in `layout`, filled with
    /// [`pattern`].
    pub(crate) fn new(layout: &[u64]) -> Result<Arc<Self>> {
        Self::with_mode(layout, Mode::ReadWrite)
    }

    /// As [`Exporter::new`], with a file opened in `mode`.
    pub(crate) fn with_mode(layout: &[u64], mode: Mode) -> Result<Arc<Self>> {
        let backing = Backing::new(layout)?;
        let size = backing.size();
        let shared = Arc::pin_init(Shared::new(backing), GFP_KERNEL)?;
        let exporter = Arc::new(
            Self {
                dmabuf: Self::export(size, mode, shared.clone())?,
                shared,
            },
            GFP_KERNEL,
        )?;

        exporter.fill()?;
        Ok(exporter)
    }

    fn export(size: u64, mode: Mode, shared: Arc<Shared>) -> Result<DmaBuf> {
        let priv_ = Arc::into_raw(shared);
        let info = bindings::dma_buf_export_info {
            exp_name: c"rdma_dmabuf test".as_char_ptr(),
            owner: this_module::<crate::LocalModule>().as_ptr(),
            ops: &ops::OPS,
            size: size as usize,
            flags: mode as i32,
            resv: core::ptr::null_mut(),
            priv_: priv_.cast_mut().cast(),
        };

        // SAFETY: The operations are static and expect the private pointer they are given.
        let dmabuf = unsafe { bindings::dma_buf_export(&info) };
        let dmabuf = from_err_ptr(dmabuf).inspect_err(|_| {
            // SAFETY: There is no buffer that has taken it over.
            drop(unsafe { Arc::from_raw(priv_) });
        })?;

        // SAFETY: The only reference to the new buffer, ours to hand over.
        Ok(unsafe { DmaBuf::from_raw(NonNull::new(dmabuf).ok_or(EINVAL)?) })
    }

    fn fill(&self) -> Result {
        let mut bytes = KVVec::with_capacity(self.size() as usize, GFP_KERNEL)?;

        for offset in 0..self.size() {
            bytes.push(pattern(offset), GFP_KERNEL)?;
        }
        self.shared.memory.lock().now.write(0, &bytes)
    }

    /// Another reference to the buffer.
    pub(crate) fn dma_buf(&self) -> DmaBuf {
        let dmabuf = self.dmabuf.as_raw();

        // SAFETY: The buffer is valid, and so is its file; the new reference is handed over.
        unsafe {
            bindings::get_file((*dmabuf).file);
            DmaBuf::from_raw(NonNull::new_unchecked(dmabuf))
        }
    }

    /// Bytes in the buffer.
    pub(crate) fn size(&self) -> u64 {
        self.dmabuf.size() as u64
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// The physical address of the byte at `offset`.
    pub(crate) fn phys(&self, offset: u64) -> Option<u64> {
        let memory = self.shared.memory.lock();

        memory.now.place(offset).map(|(phys, _)| phys)
    }

    /// The table that a map gives: a segment for each run.
    pub(crate) fn table(&self) -> Result<KVec<Segment>> {
        let memory = self.shared.memory.lock();
        let mut table = KVec::new();

        for segment in memory.now.segments() {
            table.push(segment, GFP_KERNEL)?;
        }
        Ok(table)
    }

    /// What the buffer holds.
    pub(crate) fn content(&self) -> Result<KVVec<u8>> {
        let mut bytes = KVVec::from_elem(0, self.size() as usize, GFP_KERNEL)?;

        self.shared.memory.lock().now.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Has the next attach fail.
    pub(crate) fn refuse_attach(&self, error: Error) {
        self.shared.plan.lock().attach_error = Some(error);
    }

    /// Has the next map give `answer`.
    pub(crate) fn answer_next_map(&self, answer: Answer) {
        self.shared.plan.lock().answer = answer;
    }

    /// Calls the importer back from inside the next operation of that kind.
    pub(crate) fn call_back_in(&self, moment: Moment) {
        self.shared.plan.lock().call_back_in = Some(moment);
    }

    /// Whether the exporter has called back where it was told to.
    pub(crate) fn has_called_back(&self) -> bool {
        self.shared.plan.lock().call_back_in.is_none()
    }

    /// Takes the reservation lock.
    pub(crate) fn lock(&self) -> ResvGuard<'_> {
        self.dmabuf.resv().lock()
    }

    fn resv_raw(&self) -> *mut bindings::dma_resv {
        // SAFETY: The buffer is valid, and its `resv` is set for life.
        unsafe { (*self.dmabuf.as_raw()).resv }
    }

    /// Whether somebody holds the reservation lock.
    pub(crate) fn is_locked(&self) -> bool {
        // SAFETY: A valid `dma_resv`.
        unsafe { bindings::rdma_dmabuf_test_resv_is_locked(self.resv_raw()) }
    }

    /// Whether the reservation lock is free to be taken, which it is afterwards again.
    pub(crate) fn can_lock(&self) -> bool {
        // SAFETY: A valid `dma_resv`, unlocked by the task that has locked it.
        unsafe {
            let is_taken = bindings::rdma_dmabuf_test_resv_trylock(self.resv_raw());
            if is_taken {
                bindings::dma_resv_unlock(self.resv_raw());
            }
            is_taken
        }
    }

    fn invalidate_held(&self, _resv: &ResvGuard<'_>) {
        // SAFETY: The buffer is valid and its reservation lock held.
        unsafe { bindings::dma_buf_invalidate_mappings(self.dmabuf.as_raw()) };
    }

    /// Tells the importers that their mappings go stale.
    pub(crate) fn invalidate(&self) {
        self.invalidate_held(&self.lock());
    }

    /// Moves the buffer to new pages of the same layout, and poisons the old ones.
    pub(crate) fn move_to_new_pages(&self) -> Result {
        self.move_to(None, None)
    }

    /// Moves the buffer to new pages, laid out anew.
    pub(crate) fn move_to_layout(&self, layout: &[u64]) -> Result {
        self.move_to(Some(layout), None)
    }

    /// Moves the buffer to new pages, whose content is in place once `fence` has signalled.
    pub(crate) fn move_behind(&self, fence: &Fence) -> Result {
        self.move_to(None, Some(fence))
    }

    fn move_to(&self, layout: Option<&[u64]>, fence: Option<&Fence>) -> Result {
        let resv = self.lock();
        let new = match layout {
            Some(layout) => Backing::new(layout)?,
            None => self.shared.memory.lock().now.again()?,
        };

        if let Some(fence) = fence {
            self.add_fence_held(&resv, fence, Usage::Kernel)?;
        }
        self.invalidate_held(&resv);

        let content = self.content()?;
        let mut memory = self.shared.memory.lock();
        memory.taken.reserve(1, GFP_KERNEL)?;
        new.write(0, &content)?;
        let old = core::mem::replace(&mut memory.now, new);
        old.poison();
        Ok(memory.taken.push(old, GFP_KERNEL)?)
    }

    /// Whether nobody has written to the memory that moves have taken away.
    pub(crate) fn taken_pages_are_untouched(&self) -> bool {
        self.shared.taken_pages_are_untouched()
    }

    fn add_fence_held(&self, _resv: &ResvGuard<'_>, fence: &Fence, usage: Usage) -> Result {
        // SAFETY: A valid `dma_resv`, whose lock is held.
        to_result(unsafe { bindings::dma_resv_reserve_fences(self.resv_raw(), 1) })?;

        // SAFETY: As above; room was reserved, and the list takes a reference of its own.
        unsafe {
            bindings::dma_resv_add_fence(self.resv_raw(), fence.as_raw(), usage as u32);
        }
        Ok(())
    }

    /// Adds a fence to the buffer.
    pub(crate) fn add_fence(&self, fence: &Fence, usage: Usage) -> Result {
        self.add_fence_held(&self.lock(), fence, usage)
    }

    /// Gives up the exporter's own reference to the buffer.
    pub(crate) fn give_up(self: Arc<Self>) -> Remains {
        Remains(self.shared.clone())
    }

    /// Gives the buffer up; everything that was taken must have been given back by then.
    pub(crate) fn settle(self: Arc<Self>) -> Verdict {
        self.give_up().settle()
    }
}

/// What is left of an exporter whose buffer others may still hold.
pub(crate) struct Remains(Arc<Shared>);

impl Remains {
    /// Whether the last reference to the buffer is gone.
    pub(crate) fn is_released(&self) -> bool {
        self.0.counts.releases.get() != 0
    }

    /// Everything that was taken must have been given back by now.
    pub(crate) fn settle(self) -> Verdict {
        self.0.check_balance()
    }
}

impl Shared {
    fn taken_pages_are_untouched(&self) -> bool {
        self.memory.lock().taken.iter().all(Backing::is_poison)
    }

    fn check_balance(&self) -> Verdict {
        let counts = &self.counts;

        // The last reference of a file is dropped by a worker, when a kernel thread gives it up.
        ensure!(eventually(|| counts.releases.get() != 0));
        ensure!(counts.releases.get() == 1);
        ensure!(counts.attaches.get() == counts.detaches.get());
        ensure!(counts.maps.get() == counts.unmaps.get());
        ensure!(counts.pins.get() == 0);
        ensure!(counts.breaches.get() == 0);
        ensure!(self.taken_pages_are_untouched());
        ensure!(self.memory.lock().now.is_guarded());
        ensure!(self.memory.lock().taken.iter().all(Backing::is_guarded));
        Ok(())
    }
}
