// SPDX-License-Identifier: GPL-2.0

//! The operations of the exporter, as core calls them.

use super::{
    Answer,
    Moment,
    Resv,
    Shared, //
};
use crate::{
    bindings,
    window::Segment, //
};
use core::ptr::{
    null_mut,
    NonNull, //
};
use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*,
    sync::Arc, //
};

pub(super) static OPS: bindings::dma_buf_ops = bindings::dma_buf_ops {
    attach: Some(attach_callback),
    detach: Some(detach_callback),
    pin: Some(pin_callback),
    unpin: Some(unpin_callback),
    map_dma_buf: Some(map_callback),
    unmap_dma_buf: Some(unmap_callback),
    release: Some(release_callback),
    begin_cpu_access: None,
    end_cpu_access: None,
    mmap: None,
    vmap: None,
    vunmap: None,
};

/// The dma-buf that an operation is called for.
///
/// # Invariants
///
/// The pointer is to a valid dma-buf with [`OPS`], so its `priv` is a [`Shared`] that lives until
/// it is released.
#[derive(Clone, Copy)]
struct Buffer(NonNull<bindings::dma_buf>);

impl Buffer {
    /// # Safety
    ///
    /// `dmabuf` is a valid dma-buf with [`OPS`] for as long as the result is used.
    unsafe fn new(dmabuf: *mut bindings::dma_buf) -> Self {
        // INVARIANT: By the safety requirements.
        // SAFETY: A valid buffer is not null.
        Self(unsafe { NonNull::new_unchecked(dmabuf) })
    }

    fn shared<'a>(self) -> &'a Shared {
        // SAFETY: By the type invariants.
        unsafe { &*(*self.0.as_ptr()).priv_.cast::<Shared>() }
    }

    fn resv_raw(self) -> *mut bindings::dma_resv {
        // SAFETY: By the type invariants.
        unsafe { (*self.0.as_ptr()).resv }
    }

    /// For operations that core calls with the reservation lock held.
    fn expect_locked(self) {
        // SAFETY: A valid `dma_resv`.
        let is_locked = unsafe { bindings::rdma_dmabuf_test_resv_is_locked(self.resv_raw()) };

        self.shared().expect("called with the lock held", is_locked);
    }

    /// For operations that may take the reservation lock themselves.
    fn expect_unlocked(self) {
        // SAFETY: A valid `dma_resv`.
        let is_held = unsafe { bindings::rdma_dmabuf_test_resv_is_held(self.resv_raw()) };

        self.shared().expect("called without the lock", !is_held);
    }

    /// Calls the importers back, from an operation that is called with the reservation lock held.
    fn invalidate_held(self) {
        self.expect_locked();

        // SAFETY: The buffer is valid, and the lock held.
        unsafe { bindings::dma_buf_invalidate_mappings(self.0.as_ptr()) };
    }
}

/// The attachment that an operation is called for.
///
/// # Invariants
///
/// The pointer is to a valid attachment of `buffer`. Its `priv` is null or the table that is
/// mapped.
#[derive(Clone, Copy)]
struct Side {
    attach: NonNull<bindings::dma_buf_attachment>,
    buffer: Buffer,
}

impl Side {
    /// # Safety
    ///
    /// `attach` is a valid attachment of a dma-buf with [`OPS`] for as long as the result is used.
    unsafe fn new(attach: *mut bindings::dma_buf_attachment) -> Self {
        // INVARIANT: By the safety requirements; `priv` starts as null and is only set by us.
        // SAFETY: As above.
        unsafe {
            Self {
                attach: NonNull::new_unchecked(attach),
                buffer: Buffer::new((*attach).dmabuf),
            }
        }
    }

    fn shared<'a>(self) -> &'a Shared {
        self.buffer.shared()
    }

    fn device(self) -> *mut bindings::device {
        // SAFETY: By the type invariants.
        unsafe { (*self.attach.as_ptr()).dev }
    }

    fn table(self) -> *mut bindings::sg_table {
        // SAFETY: By the type invariants.
        unsafe { (*self.attach.as_ptr()).priv_.cast() }
    }

    fn set_table(self, table: *mut bindings::sg_table) {
        // SAFETY: By the type invariants; `priv` is the exporter's.
        unsafe { (*self.attach.as_ptr()).priv_ = table.cast() };
    }

    fn peer2peer(self) -> bool {
        // SAFETY: By the type invariants.
        unsafe { (*self.attach.as_ptr()).peer2peer }
    }

    fn is_dynamic(self) -> bool {
        // SAFETY: By the type invariants; the importer's operations are null or static.
        unsafe {
            (*self.attach.as_ptr())
                .importer_ops
                .as_ref()
                .is_some_and(|ops| ops.invalidate_mappings.is_some())
        }
    }

    /// Does what another task could do between core listing the attachment and returning it.
    fn call_back_early(self) {
        // SAFETY: The attachment is valid. An importer has to take the call at once, and is given
        // the lock with it.
        unsafe {
            let resv = Resv::from_raw(self.buffer.resv_raw()).lock();
            if let Some(callback) = (*(*self.attach.as_ptr()).importer_ops).invalidate_mappings {
                callback(self.attach.as_ptr());
            }
            drop(resv);
        }
    }

    fn attach(self) -> Result {
        let shared = self.shared();

        self.buffer.expect_unlocked();
        shared.expect("a dynamic attachment", self.is_dynamic());
        shared.expect("without peer-to-peer", !self.peer2peer());
        if let Some(error) = shared.plan.lock().attach_error.take() {
            return Err(error);
        }
        if shared.is_moment(Moment::Attach) {
            self.call_back_early();
        }
        shared.counts.attaches.add_one();
        Ok(())
    }

    fn detach(self) {
        let shared = self.shared();

        self.buffer.expect_unlocked();
        shared.expect("unmapped before it is detached", self.table().is_null());
        shared.counts.detaches.add_one();
    }

    /// Returns null where the case wants neither table nor error.
    fn map(self) -> Result<*mut bindings::sg_table> {
        let shared = self.shared();

        self.buffer.expect_locked();
        shared.expect("unmapped before it is mapped", self.table().is_null());
        let answer = core::mem::replace(&mut shared.plan.lock().answer, Answer::Pages);
        if shared.is_moment(Moment::Map) {
            self.buffer.invalidate_held();
        }

        let table = match answer {
            Answer::Pages => Table::of_pages(
                shared.memory.lock().now.segments(),
                self.device(), //
            )?,
            Answer::Table(segments) => Table::forged(&segments)?,
            Answer::Refusal(error) => return Err(error),
            Answer::Nothing => return Ok(null_mut()),
        };
        shared.counts.maps.add_one();
        self.set_table(table);
        Ok(table)
    }

    /// # Safety
    ///
    /// `table` is nothing or what [`Side::map`] returned for any attachment, and not unmapped yet.
    unsafe fn unmap(self, table: *mut bindings::sg_table) {
        let shared = self.shared();

        self.buffer.expect_locked();
        shared.expect("the table that was mapped", table == self.table());
        if shared.is_moment(Moment::Unmap) {
            self.buffer.invalidate_held();
        }
        self.set_table(null_mut());
        shared.counts.unmaps.add_one();

        // SAFETY: By the safety requirements.
        unsafe { Table::free(table, self.device()) };
    }
}

/// A table that is handed out.
#[repr(C)]
struct Table {
    // First: core knows the table by this.
    sgt: bindings::sg_table,
    is_forged: bool,
}

impl Table {
    fn new(entries: usize, is_forged: bool) -> Result<KBox<Self>> {
        let mut table = KBox::new(
            Self {
                sgt: bindings::sg_table::default(),
                is_forged,
            },
            GFP_KERNEL,
        )?;

        // SAFETY: The table is memory of ours. One entry at least: no entries is an error.
        to_result(unsafe {
            bindings::sg_alloc_table(
                &mut table.sgt,
                entries.max(1) as u32,
                bindings::GFP_KERNEL, //
            )
        })?;
        Ok(table)
    }

    /// Calls `set` with each entry and its segment.
    fn for_each_entry(
        &mut self,
        segments: impl Iterator<Item = Segment>,
        set: impl Fn(*mut bindings::scatterlist, Segment),
    ) {
        let mut entry = self.sgt.sgl;

        for segment in segments {
            set(entry, segment);

            // SAFETY: The table has an entry for each segment; the last is followed by null.
            entry = unsafe { bindings::sg_next(entry) };
        }
    }

    /// An entry for each run of pages, mapped for the device.
    fn of_pages(
        runs: impl Iterator<Item = Segment> + Clone,
        device: *mut bindings::device,
    ) -> Result<*mut bindings::sg_table> {
        let mut table = Self::new(runs.clone().count(), false)?;

        table.for_each_entry(runs, |entry, run| {
            // SAFETY: A valid entry, and a run of valid pages.
            unsafe { bindings::rdma_dmabuf_test_set_pages(entry, run.addr, run.len as u32) }
        });

        // SAFETY: The device is the attachment's, which has a DMA mask; the table is filled.
        // Without the attribute, DMA API debugging objects to two mappings of a page.
        to_result(unsafe {
            bindings::dma_map_sgtable(
                device,
                &mut table.sgt,
                bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                bindings::DMA_ATTR_SKIP_CPU_SYNC as usize,
            )
        })
        .inspect_err(|_| {
            // SAFETY: Allocated by `new()`.
            unsafe { bindings::sg_free_table(&mut table.sgt) };
        })?;
        Ok(KBox::into_raw(table).cast())
    }

    /// Entries with no pages behind them.
    fn forged(segments: &[Segment]) -> Result<*mut bindings::sg_table> {
        let mut table = Self::new(segments.len(), true)?;

        table.for_each_entry(segments.iter().copied(), |entry, segment| {
            // SAFETY: A valid entry.
            unsafe { bindings::rdma_dmabuf_test_set_dma(entry, segment.addr, segment.len as u32) }
        });
        table.sgt.nents = segments.len() as u32;
        Ok(KBox::into_raw(table).cast())
    }

    /// # Safety
    ///
    /// `table` came from [`Table::of_pages`] for `device` or from [`Table::forged`]; or it is null.
    unsafe fn free(table: *mut bindings::sg_table, device: *mut bindings::device) {
        if table.is_null() {
            return;
        }

        // SAFETY: By the safety requirements, a box of a `Table`, which starts with this field.
        let mut table = unsafe { KBox::<Self>::from_raw(table.cast()) };

        // SAFETY: Mapped with the same arguments unless it is forged; allocated by `new()`.
        unsafe {
            if !table.is_forged {
                bindings::dma_unmap_sgtable(
                    device,
                    &mut table.sgt,
                    bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                    bindings::DMA_ATTR_SKIP_CPU_SYNC as usize,
                );
            }
            bindings::sg_free_table(&mut table.sgt);
        }
    }
}

/// # Safety
///
/// Called by core for a buffer and an attachment with [`OPS`].
unsafe extern "C" fn attach_callback(
    _dmabuf: *mut bindings::dma_buf,
    attach: *mut bindings::dma_buf_attachment,
) -> c_int {
    // SAFETY: By the safety requirements.
    match unsafe { Side::new(attach) }.attach() {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// # Safety
///
/// As [`attach_callback`].
unsafe extern "C" fn detach_callback(
    _dmabuf: *mut bindings::dma_buf,
    attach: *mut bindings::dma_buf_attachment,
) {
    // SAFETY: By the safety requirements.
    unsafe { Side::new(attach) }.detach();
}

/// # Safety
///
/// As [`attach_callback`].
unsafe extern "C" fn pin_callback(attach: *mut bindings::dma_buf_attachment) -> c_int {
    // SAFETY: By the safety requirements.
    let side = unsafe { Side::new(attach) };

    side.buffer.expect_locked();
    side.shared().counts.pins.add_one();
    0
}

/// # Safety
///
/// As [`attach_callback`].
unsafe extern "C" fn unpin_callback(attach: *mut bindings::dma_buf_attachment) {
    // SAFETY: By the safety requirements.
    unsafe { Side::new(attach) }.buffer.expect_locked();
}

/// # Safety
///
/// As [`attach_callback`].
unsafe extern "C" fn map_callback(
    attach: *mut bindings::dma_buf_attachment,
    direction: bindings::dma_data_direction,
) -> *mut bindings::sg_table {
    // SAFETY: By the safety requirements.
    let side = unsafe { Side::new(attach) };

    side.shared().expect(
        "mapped for both directions",
        direction == bindings::dma_data_direction::DMA_BIDIRECTIONAL,
    );
    side.map().unwrap_or_else(|error| error.to_ptr())
}

/// # Safety
///
/// As [`attach_callback`]; `table` is what `map_dma_buf` returned.
unsafe extern "C" fn unmap_callback(
    attach: *mut bindings::dma_buf_attachment,
    table: *mut bindings::sg_table,
    direction: bindings::dma_data_direction,
) {
    // SAFETY: By the safety requirements.
    let side = unsafe { Side::new(attach) };

    side.shared().expect(
        "unmapped in the direction of the map",
        direction == bindings::dma_data_direction::DMA_BIDIRECTIONAL,
    );
    // SAFETY: By the safety requirements.
    unsafe { side.unmap(table) };
}

/// # Safety
///
/// As [`attach_callback`]; nobody uses the buffer any more.
unsafe extern "C" fn release_callback(dmabuf: *mut bindings::dma_buf) {
    // SAFETY: By the safety requirements.
    let buffer = unsafe { Buffer::new(dmabuf) };

    buffer.expect_unlocked();
    buffer.shared().counts.releases.add_one();

    // SAFETY: The reference that the export has handed over; the last use of it.
    drop(unsafe { Arc::from_raw(core::ptr::from_ref(buffer.shared())) });
}
