// SPDX-License-Identifier: GPL-2.0

//! `struct dma_buf_attachment`: an importer's side of a dma-buf.
//!
//! C header: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h)
//!
//! Everything that the dma-buf contract allows only under the reservation lock is a method of
//! [`Held`], and there are two ways to have one: [`Attachment::lock`], and being called back by
//! the exporter, which holds the lock itself.
//!
//! An exporter may call back from inside our own map and unmap, in our own task. So nothing of
//! the importer is borrowed while C code runs: the state under the lock is moved out and in, as
//! with [`core::cell::Cell`].

use crate::{
    bindings,
    device::DmaDevice,
    dma_buf::DmaBuf,
    dma_resv::{
        Resv,
        ResvGuard, //
    },
    window::Segment, //
};
use core::{
    cell::{
        Cell,
        UnsafeCell, //
    },
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    scatterlist::SGTable,
    types::NotThreadSafe, //
};

/// What an importer promises its exporter, and so what it can live with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The buffer may move at any time: it is unmapped then, and mapped again when it is needed.
    Dynamic,
    /// The buffer is pinned for the life of the attachment, and the exporter cannot call back.
    Pinned,
    /// Pinned too, but the exporter can take the memory away, and then for ever.
    Revocable,
}

impl Mode {
    /// The mode that `enum ib_dmabuf_mode` has a number for.
    pub(crate) fn from_c(number: bindings::ib_dmabuf_mode) -> Option<Self> {
        match number {
            bindings::ib_dmabuf_mode_IB_DMABUF_DYNAMIC => Some(Self::Dynamic),
            bindings::ib_dmabuf_mode_IB_DMABUF_PINNED => Some(Self::Pinned),
            bindings::ib_dmabuf_mode_IB_DMABUF_REVOCABLE => Some(Self::Revocable),
            _ => None,
        }
    }

    /// The number of the mode in `enum ib_dmabuf_mode`.
    pub(crate) fn to_c(self) -> bindings::ib_dmabuf_mode {
        match self {
            Self::Dynamic => bindings::ib_dmabuf_mode_IB_DMABUF_DYNAMIC,
            Self::Pinned => bindings::ib_dmabuf_mode_IB_DMABUF_PINNED,
            Self::Revocable => bindings::ib_dmabuf_mode_IB_DMABUF_REVOCABLE,
        }
    }

    fn is_pinned(self) -> bool {
        matches!(self, Self::Pinned | Self::Revocable)
    }

    fn has_callback(self) -> bool {
        matches!(self, Self::Dynamic | Self::Revocable)
    }
}

/// What an exporter can reach of an importer.
pub(crate) trait Importer: Send + Sync + Sized + 'static {
    /// What changes under the reservation lock.
    type State: Send;

    /// The mapping is about to go stale, or the exporter only thinks so.
    ///
    /// When it returns, the memory of the last mapping is not touched any more. Runs before
    /// [`Attachment::new`] has returned, twice in a row, and from inside [`Held::map`], the pin it
    /// begins with, and [`Held::unmap`] of the same task. Must not allocate: it may be called to
    /// reclaim memory. Never runs in [`Mode::Pinned`].
    fn invalidate(&self, held: &Held<'_, Self>);
}

/// What the exporter's callback is given: pinned, and alive until the attachment is gone.
#[pin_data]
struct Inner<T: Importer> {
    #[pin]
    importer: T,
    mode: Mode,
    state: UnsafeCell<T::State>,
    is_mapped: Cell<bool>,
}

// SAFETY: `importer` is `Sync` by the trait's bounds. `state` and `is_mapped` are only touched
// through a `Held`, whose owner is the one task that holds the reservation lock.
unsafe impl<T: Importer> Sync for Inner<T> {}

impl<T: Importer> Inner<T> {
    const OPS: bindings::dma_buf_attach_ops = bindings::dma_buf_attach_ops {
        allow_peer2peer: false,
        invalidate_mappings: Some(Self::invalidate_callback),
    };

    /// A callback is a promise to unmap (`dma_buf_attach_revocable()`), so this has none.
    const SILENT_OPS: bindings::dma_buf_attach_ops = bindings::dma_buf_attach_ops {
        allow_peer2peer: false,
        invalidate_mappings: None,
    };

    fn ops(mode: Mode) -> &'static bindings::dma_buf_attach_ops {
        if mode.has_callback() {
            &Self::OPS
        } else {
            &Self::SILENT_OPS
        }
    }

    /// # Safety
    ///
    /// `attach` is an attachment with [`Inner::OPS`] that is listed and not detached, and its
    /// reservation lock is held (`dma_buf_invalidate_mappings()`).
    unsafe extern "C" fn invalidate_callback(attach: *mut bindings::dma_buf_attachment) {
        let Some(attach) = NonNull::new(attach) else {
            return;
        };

        // SAFETY: The attachment is valid, and was made by `Attachment::new()`, the only user of
        // `OPS`, with a pointer to an `Inner<T>` that is freed only after it is detached.
        let inner = unsafe { &*(*attach.as_ptr()).importer_priv.cast::<Inner<T>>() };

        // INVARIANT: The caller holds the lock for as long as this function runs, and `held` does
        // not outlive it. It is the attachment's own argument, since `Attachment::new()` may not
        // have returned yet.
        let held = Held {
            attach,
            inner,
            _not_send: NotThreadSafe,
        };

        inner.importer.invalidate(&held);
    }
}

/// An attachment that core calls dynamic in every [`Mode`], without peer-to-peer.
///
/// # Invariants
///
/// - `attach` is attached to `dmabuf` with `inner` as its `importer_priv`.
/// - `inner` was made by [`KBox::into_raw`]; shared references to it are the only ones until the
///   attachment is gone.
pub(crate) struct Attachment<T: Importer> {
    attach: NonNull<bindings::dma_buf_attachment>,
    inner: NonNull<Inner<T>>,
    // Dropped in this order, after the attachment: the buffer, then the device.
    dmabuf: DmaBuf,
    _device: DmaDevice,
}

// SAFETY: `Inner` is `Sync`, its parts are `Send`, and dma-buf attachments have no tie to a task.
unsafe impl<T: Importer> Send for Attachment<T> {}

// SAFETY: As above; what needs the lock is behind `Held`.
unsafe impl<T: Importer> Sync for Attachment<T> {}

impl<T: Importer> Attachment<T> {
    /// Attaches `device` to `dmabuf`.
    ///
    /// `importer` can be called back before this function returns. The exporter's code is passed
    /// on if it refuses. The reservation lock must not be held.
    pub(crate) fn new(
        dmabuf: DmaBuf,
        device: DmaDevice,
        mode: Mode,
        importer: impl PinInit<T, Error>,
        state: T::State,
    ) -> Result<Self> {
        let inner = KBox::pin_init(
            try_pin_init!(Inner {
                importer <- importer,
                mode,
                state: UnsafeCell::new(state),
                is_mapped: Cell::new(false),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        dmabuf.resv().might_lock();

        // SAFETY:
        // - `dmabuf` and `device` are valid, and kept so by the object this function makes.
        // - The operations are statics of this module, which the attachment cannot outlive.
        // - `inner` is pinned and complete, so it may be called back at once.
        let attach = from_err_ptr(unsafe {
            bindings::rdma_dmabuf_helper_attach(
                dmabuf.as_raw(),
                device.as_raw(),
                Inner::<T>::ops(mode),
                core::ptr::from_ref(&*inner).cast_mut().cast(),
            )
        })?;
        let attach = NonNull::new(attach).ok_or(EINVAL)?;

        // SAFETY: The box stays pinned: it is only ever made whole again to be dropped.
        let inner = KBox::into_raw(unsafe { Pin::into_inner_unchecked(inner) });

        // INVARIANT: As just attached; a pointer from a box is not null.
        Ok(Self {
            attach,
            // SAFETY: `KBox::into_raw()` does not return null.
            inner: unsafe { NonNull::new_unchecked(inner) },
            dmabuf,
            _device: device,
        })
    }

    fn inner(&self) -> &Inner<T> {
        // SAFETY: By the type invariants.
        unsafe { self.inner.as_ref() }
    }

    /// The importer, without the lock.
    pub(crate) fn importer(&self) -> &T {
        &self.inner().importer
    }

    /// The lock and fences of the buffer.
    pub(crate) fn resv(&self) -> &Resv {
        self.dmabuf.resv()
    }

    /// Takes the reservation lock.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let resv = self.resv().lock();

        // INVARIANT: `resv` holds the lock of this attachment, and is dropped with `held`.
        Guard {
            held: Held {
                attach: self.attach,
                inner: self.inner(),
                _not_send: NotThreadSafe,
            },
            _resv: resv,
        }
    }
}

impl<T: Importer> Drop for Attachment<T> {
    fn drop(&mut self) {
        self.resv().might_lock();

        // SAFETY: Attached by the type invariants, and never used again. Taking the lock inside
        // ends the last callback. `self` is a set of pointers: callbacks borrow `inner`, which is
        // not part of it.
        unsafe { bindings::dma_buf_detach(self.dmabuf.as_raw(), self.attach.as_ptr()) };

        // SAFETY: Came from a box, and nobody else can reach it now.
        drop(unsafe { KBox::from_raw(self.inner.as_ptr()) });
    }
}

/// The reservation lock of an attachment, taken by [`Attachment::lock`].
pub(crate) struct Guard<'a, T: Importer> {
    held: Held<'a, T>,
    _resv: ResvGuard<'a>,
}

impl<'a, T: Importer> Deref for Guard<'a, T> {
    type Target = Held<'a, T>;

    fn deref(&self) -> &Self::Target {
        &self.held
    }
}

/// Proof that the reservation lock of an attachment is held, by us or by who called us back.
///
/// # Invariants
///
/// - The current task holds the reservation lock for as long as this object lives.
/// - `attach` is listed, not detached, and `inner` is its `importer_priv`.
pub(crate) struct Held<'a, T: Importer> {
    attach: NonNull<bindings::dma_buf_attachment>,
    inner: &'a Inner<T>,
    _not_send: NotThreadSafe,
}

impl<T: Importer> Held<'_, T> {
    /// Moves `state` in and what was there out.
    pub(crate) fn replace_state(&self, state: T::State) -> T::State {
        // SAFETY: The lock is held, so no other task is here. No reference to the state is ever
        // given out, so this task has none either, however deep it was called back.
        unsafe { core::ptr::replace(self.inner.state.get(), state) }
    }

    /// Whether the KERNEL fences have signalled.
    pub(crate) fn is_signaled(&self) -> bool {
        // SAFETY: The attachment is valid by the type invariants, and holds its dma-buf, whose
        // `resv` is set for life.
        unsafe { Resv::from_raw((*(*self.attach.as_ptr()).dmabuf).resv) }.is_signaled()
    }

    /// Has the exporter map the buffer for the device, for both directions, and pin it first if
    /// that is the mode.
    ///
    /// `EBUSY` if it is mapped already; else the exporter's code.
    pub(crate) fn map(&self) -> Result<Mapping> {
        if self.inner.is_mapped.replace(true) {
            return Err(EBUSY);
        }

        self.pin()
            .and_then(|()| self.map_table().inspect_err(|_| self.unpin()))
            .inspect_err(|_| self.inner.is_mapped.set(false))
    }

    fn pin(&self) -> Result {
        if !self.inner.mode.is_pinned() {
            return Ok(());
        }

        // SAFETY: The attachment is valid, has operations, and the lock is held by the type
        // invariants.
        to_result(unsafe { bindings::rdma_dmabuf_helper_pin(self.attach.as_ptr()) })
    }

    /// Undoes [`Held::pin`], which has succeeded.
    fn unpin(&self) {
        if self.inner.mode.is_pinned() {
            // SAFETY: As for the pin.
            unsafe { bindings::dma_buf_unpin(self.attach.as_ptr()) };
        }
    }

    fn map_table(&self) -> Result<Mapping> {
        // SAFETY: The attachment is valid and the lock held by the type invariants.
        let table = from_err_ptr(unsafe {
            bindings::rdma_dmabuf_helper_map(self.attach.as_ptr()) //
        })
        .and_then(|table| NonNull::new(table).ok_or(ENOMEM))?;

        // INVARIANT: As just mapped.
        Ok(Mapping {
            table,
            attach: self.attach,
        })
    }

    /// Gives the mapping back to the exporter, and then the pin.
    ///
    /// A mapping of another attachment is leaked with a warning: there is no lock to undo it with.
    pub(crate) fn unmap(&self, mapping: Mapping) {
        if kernel::warn_on!(mapping.attach != self.attach) {
            return core::mem::forget(mapping);
        }

        let mapping = ManuallyDrop::new(mapping);

        // SAFETY: The lock is held and the attachment valid by the type invariants; the table is
        // the one that its map returned, unchanged and not unmapped, by those of `Mapping`.
        unsafe {
            bindings::dma_buf_unmap_attachment(
                self.attach.as_ptr(),
                mapping.table.as_ptr(),
                bindings::dma_data_direction::DMA_BIDIRECTIONAL,
            );
        }
        self.unpin();
        self.inner.is_mapped.set(false);
    }
}

/// The sg_table of a mapped buffer. It can only be given back by [`Held::unmap`].
///
/// # Invariants
///
/// `table` was returned by the map of `attach`, has not been edited, and not been unmapped.
pub(crate) struct Mapping {
    table: NonNull<bindings::sg_table>,
    attach: NonNull<bindings::dma_buf_attachment>,
}

// SAFETY: The table has no tie to the task that mapped it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// The DMA addresses and lengths of the table: all that an importer may look at.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        // SAFETY: The table is valid until it is unmapped, which consumes `self`, and the exporter
        // does not change it meanwhile.
        unsafe { SGTable::from_raw(self.table.as_ptr()) }
            .iter()
            .map(|entry| Segment {
                addr: entry.dma_address(),
                len: entry.dma_len(),
            })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // The lock is not known to be held here, so all that can be done is to tell.
        kernel::warn_on!(true);
    }
}
