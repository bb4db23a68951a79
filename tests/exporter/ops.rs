// SPDX-License-Identifier: GPL-2.0

//! `struct dma_buf_ops`: the exporter's side of a dma-buf, as a trait.
//!
//! C header: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h)
//!
//! The dma-buf owns the object that implements [`Exporter`], by a reference in its `priv`. What
//! needs the reservation lock is a method of [`Held`], or asks for one; there is one where core
//! calls with the lock held, and [`Live::lock`] makes one elsewhere.

use super::{
    fence::{
        Fence,
        Usage, //
    },
    mmap,
    resv::{
        self,
        SharedResv, //
    },
    table::{
        MapDevice,
        Table, //
    },
};
use crate::{
    bindings,
    dma_buf::DmaBuf,
    dma_resv::{
        Resv,
        ResvGuard, //
    },
};
use core::{
    cell::Cell,
    ffi::c_void,
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        Mutex, //
    },
    types::NotThreadSafe,
};

#[path = "callbacks.rs"]
mod callbacks;

/// What an exporter does for its buffers. A buffer is released when the object is dropped by the
/// last of its owners, of which the dma-buf is one.
pub(crate) trait Exporter: Send + Sync + Sized + 'static {
    /// What tables keep until they are unmapped.
    type Memory: Send;

    /// The operations: a static of the exporter's, by which its buffers are known.
    fn ops() -> &'static Ops<Self>;

    /// The way back to the dma-buf.
    fn link(&self) -> &Link<Self>;

    /// Somebody breaks the contract: `rule` does not hold.
    fn breach(&self, rule: &str);

    fn attach(&self, side: &Side<'_, Self>) -> Result;

    fn detach(&self, side: &Side<'_, Self>);

    fn pin(&self, side: &Side<'_, Self>, held: &Held<'_, Self>) -> Result;

    fn unpin(&self, side: &Side<'_, Self>, held: &Held<'_, Self>);

    /// [`None`] is neither a table nor an error, which no exporter should answer.
    fn map(
        &self,
        side: &Side<'_, Self>,
        held: &Held<'_, Self>,
    ) -> Result<Option<KBox<Table<Self::Memory>>>>;

    /// `table` is what [`Exporter::map`] has returned.
    fn unmap(
        &self,
        side: &Side<'_, Self>,
        held: &Held<'_, Self>,
        table: Option<KBox<Table<Self::Memory>>>,
    );

    fn begin_cpu_access(&self) -> Result;

    fn end_cpu_access(&self) -> Result;

    /// May user space map the buffer?
    fn mmap(&self) -> Result;

    /// The physical address of the page at `offset`, for user space.
    fn fault(&self, held: &Held<'_, Self>, offset: u64) -> Result<u64>;

    /// Core counts its users: the kernel address of the buffer, until [`Exporter::vunmap`].
    fn vmap(&self, held: &Held<'_, Self>) -> Result<NonNull<c_void>>;

    fn vunmap(&self, held: &Held<'_, Self>);

    /// The last reference to the dma-buf is gone.
    fn release(&self);
}

/// The table of operations of an exporter.
pub(crate) struct Ops<T>(bindings::dma_buf_ops, PhantomData<fn(T)>);

impl<T: Exporter> Ops<T> {
    #[allow(clippy::new_without_default)]
    pub(crate) const fn new() -> Self {
        Self(callbacks::table::<T>(), PhantomData)
    }
}

/// How the file of a dma-buf is opened.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Mode {
    ReadOnly = bindings::O_RDONLY,
    WriteOnly = bindings::O_WRONLY,
    ReadWrite = bindings::O_RDWR,
}

/// Exports `size` bytes, with a reservation object that may be shared.
pub(crate) fn export<T: Exporter>(
    exporter: Arc<T>,
    name: &'static CStr,
    module: &'static ThisModule,
    size: u64,
    mode: Mode,
    shared: Option<Arc<SharedResv>>,
) -> Result<DmaBuf> {
    let size = usize::try_from(size)?;
    let priv_ = Arc::into_raw(exporter.clone());
    let info = bindings::dma_buf_export_info {
        exp_name: name.as_char_ptr(),
        owner: module.as_ptr(),
        ops: &T::ops().0,
        size,
        flags: mode as i32,
        resv: shared
            .as_ref()
            .map_or(null_mut(), |shared| resv::raw(shared)),
        priv_: priv_.cast_mut().cast(),
    };

    // SAFETY: The operations are static and expect the private pointer they are given.
    let dmabuf = unsafe { bindings::dma_buf_export(&info) };
    let dmabuf = from_err_ptr(dmabuf)
        .and_then(|dmabuf| NonNull::new(dmabuf).ok_or(EINVAL))
        .inspect_err(|_| {
            // SAFETY: There is no buffer that has taken it over.
            drop(unsafe { Arc::from_raw(priv_) });
        })?;

    // INVARIANT: The buffer takes itself out before it is gone.
    *exporter.link().dmabuf.lock() = Some(Address {
        dmabuf,
        _resv: shared,
    });

    // SAFETY: The only reference to the new buffer, ours to hand over.
    Ok(unsafe { DmaBuf::from_raw(dmabuf) })
}

/// Another reference to `dmabuf`.
pub(crate) fn get(dmabuf: &DmaBuf) -> DmaBuf {
    let raw = dmabuf.as_raw();

    // SAFETY: The buffer is valid, and so is its file; the new reference is handed over.
    unsafe {
        bindings::get_file((*raw).file);
        DmaBuf::from_raw(NonNull::new_unchecked(raw))
    }
}

/// Opens `dmabuf` in the current task, for it alone or for what it executes too.
pub(crate) fn open(dmabuf: DmaBuf, closes_on_exec: bool) -> Result<i32> {
    let flags = if closes_on_exec {
        bindings::O_CLOEXEC
    } else {
        0
    };

    // SAFETY: The buffer is valid.
    let fd = unsafe { bindings::dma_buf_fd(dmabuf.as_raw(), flags as i32) };

    to_result(fd)?;
    // The file descriptor has taken it over.
    core::mem::forget(dmabuf);
    Ok(fd)
}

/// Where a dma-buf is, and what it uses until it is released.
struct Address {
    dmabuf: NonNull<bindings::dma_buf>,
    _resv: Option<Arc<SharedResv>>,
}

// SAFETY: An address has no tie to a task.
unsafe impl Send for Address {}

/// The way from an exporter's object to its dma-buf, which does not keep the dma-buf.
///
/// # Invariants
///
/// The address, if there is one, is of a dma-buf of `T` whose release has not returned.
#[pin_data]
pub(crate) struct Link<T> {
    #[pin]
    dmabuf: Mutex<Option<Address>>,
    _exporter: PhantomData<fn(T)>,
}

impl<T: Exporter> Link<T> {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            dmabuf <- new_mutex!(None, "vram_exporter::link"),
            _exporter: PhantomData,
        })
    }

    /// Runs `act`, unless the last reference to the dma-buf is gone. It cannot be released
    /// meanwhile, though that may have begun.
    ///
    /// Not to be called with the reservation lock held.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&Live<'_, T>) -> R) -> Option<R> {
        Self::act_on(self.dmabuf.lock().as_ref(), act)
    }

    /// As [`Link::with`], but [`None`] as well if somebody else is at it: for a task that reclaims
    /// memory, which the other may be waiting for.
    pub(crate) fn try_with<R>(&self, act: impl FnOnce(&Live<'_, T>) -> R) -> Option<R> {
        Self::act_on(self.dmabuf.try_lock()?.as_ref(), act)
    }

    /// `address` is the link's, whose lock is held meanwhile.
    fn act_on<R>(
        address: Option<&Address>,
        act: impl FnOnce(&Live<'_, T>) -> R, //
    ) -> Option<R> {
        // INVARIANT: By those of the link; the release waits for the lock.
        address.map(|address| {
            act(&Live {
                dmabuf: address.dmabuf,
                _life: PhantomData,
            })
        })
    }
}

/// A dma-buf of the exporter that is not gone.
///
/// # Invariants
///
/// The pointer is to a valid dma-buf with the operations of `T`, whose `priv` is a `T`, for `'a`.
pub(crate) struct Live<'a, T> {
    dmabuf: NonNull<bindings::dma_buf>,
    _life: PhantomData<&'a T>,
}

impl<'a, T: Exporter> Live<'a, T> {
    /// [`None`] if the buffer is another exporter's.
    pub(crate) fn of(dmabuf: &'a DmaBuf) -> Option<Self> {
        // SAFETY: The buffer is valid.
        let ops = unsafe { (*dmabuf.as_raw()).ops };

        // INVARIANT: Only `export()` makes buffers with these operations.
        core::ptr::eq(ops, &T::ops().0).then(|| Self {
            // SAFETY: The pointer to a valid buffer is not null.
            dmabuf: unsafe { NonNull::new_unchecked(dmabuf.as_raw()) },
            _life: PhantomData,
        })
    }

    pub(crate) fn exporter(&self) -> &'a T {
        // SAFETY: By the type invariants.
        unsafe { &*(*self.dmabuf.as_ptr()).priv_.cast::<T>() }
    }

    /// A reference of one's own to the exporter's object.
    pub(crate) fn to_exporter(&self) -> Arc<T> {
        // SAFETY: `priv` came from `Arc::into_raw()`, and its reference is not given up here.
        let owner =
            ManuallyDrop::new(unsafe { Arc::from_raw(core::ptr::from_ref(self.exporter())) });

        (*owner).clone()
    }

    pub(crate) fn resv(&self) -> &'a Resv {
        // SAFETY: By the type invariants; `resv` is set for life.
        unsafe { Resv::from_raw((*self.dmabuf.as_ptr()).resv) }
    }

    /// For who keeps a guard of the buffer's lock beside it.
    fn as_held(&self) -> Held<'a, T> {
        // INVARIANT: By what is said above.
        Held {
            live: Live {
                dmabuf: self.dmabuf,
                _life: PhantomData,
            },
            _not_send: NotThreadSafe,
        }
    }

    fn held<G>(&self, guard: G) -> Locked<'a, T, G> {
        Locked {
            held: self.as_held(),
            _guard: guard,
        }
    }

    /// Takes the reservation lock.
    pub(crate) fn lock(&self) -> Locked<'a, T, ResvGuard<'a>> {
        self.held(self.resv().lock())
    }

    /// Takes the reservation lock if nobody holds it.
    pub(crate) fn try_lock(&self) -> Option<Locked<'a, T, resv::TryGuard<'a>>> {
        resv::try_lock(self.resv()).map(|guard| self.held(guard))
    }

    /// Runs `act` with the reservation locks of both. `EALREADY` if they have one together.
    pub(crate) fn with_both<R>(
        &self,
        other: &Self,
        act: impl FnOnce(&Held<'a, T>, &Held<'a, T>) -> Result<R>,
    ) -> Result<R> {
        let _both = resv::lock_both([self.resv(), other.resv()])?;

        act(&self.as_held(), &other.as_held())
    }

    /// For operations that core calls with the reservation lock held.
    fn expect_locked(&self) {
        if !resv::is_locked(self.resv()) {
            self.exporter().breach("called with the lock held");
        }
    }

    /// For operations that may take the reservation lock themselves.
    fn expect_unlocked(&self) {
        if resv::is_held(self.resv()) {
            self.exporter().breach("called without the lock");
        }
    }
}

/// The reservation lock of a buffer, taken by [`Live::lock`] or [`Live::try_lock`].
pub(crate) struct Locked<'a, T, G> {
    held: Held<'a, T>,
    _guard: G,
}

impl<'a, T, G> Deref for Locked<'a, T, G> {
    type Target = Held<'a, T>;

    fn deref(&self) -> &Self::Target {
        &self.held
    }
}

/// Proof that the reservation lock of a buffer is held.
///
/// # Invariants
///
/// The current task holds it, for as long as this object lives.
pub(crate) struct Held<'a, T> {
    live: Live<'a, T>,
    _not_send: NotThreadSafe,
}

impl<T: Exporter> Held<'_, T> {
    /// Tells the importers that their mappings go stale.
    pub(crate) fn invalidate(&self) {
        // SAFETY: The buffer is valid, and the lock held.
        unsafe { bindings::dma_buf_invalidate_mappings(self.live.dmabuf.as_ptr()) };
    }

    /// Takes the pages away from user space, which faults them in again.
    pub(crate) fn zap(&self) {
        // SAFETY: The buffer is valid, and its file has a mapping of its own.
        unsafe { bindings::vram_exporter_helper_zap(self.live.dmabuf.as_ptr()) };
    }

    /// Adds a fence to the buffer.
    pub(crate) fn add_fence(&self, fence: &Fence, usage: Usage) -> Result {
        let resv = resv::raw(self.live.resv());

        // SAFETY: A valid `dma_resv`, whose lock is held.
        to_result(unsafe { bindings::dma_resv_reserve_fences(resv, 1) })?;

        // SAFETY: As above; room was reserved, and the list takes a reference of its own.
        unsafe { bindings::dma_resv_add_fence(resv, fence.as_raw(), usage as u32) };
        Ok(())
    }
}

/// What the exporter keeps for an attachment.
struct Books {
    /// The table that is mapped, or null.
    table: Cell<*mut bindings::sg_table>,
    pins: Cell<u32>,
}

/// An attachment, as the exporter sees it.
///
/// # Invariants
///
/// `attach` is valid, of the buffer `live`; its `priv` is a box of [`Books`].
pub(crate) struct Side<'a, T> {
    attach: NonNull<bindings::dma_buf_attachment>,
    live: Live<'a, T>,
}

impl<T: Exporter> Side<'_, T> {
    fn books(&self) -> &Books {
        // SAFETY: By the type invariants. The cells are used under the reservation lock, or while
        // nobody else knows the attachment.
        unsafe { &*(*self.attach.as_ptr()).priv_.cast::<Books>() }
    }

    /// The device to map for.
    pub(crate) fn device(&self) -> MapDevice {
        // SAFETY: The device outlives the attachment, and what is mapped is unmapped before.
        unsafe { MapDevice::new((*self.attach.as_ptr()).dev) }
    }

    /// Whether the importer can reach memory of the exporter's device.
    pub(crate) fn peer2peer(&self) -> bool {
        // SAFETY: By the type invariants.
        unsafe { (*self.attach.as_ptr()).peer2peer }
    }

    /// Tells the importer that it cannot, in [`Exporter::attach`].
    pub(crate) fn clear_peer2peer(&self) {
        // SAFETY: By the type invariants; the importer reads it when attach has returned.
        unsafe { (*self.attach.as_ptr()).peer2peer = false };
    }

    /// Whether the importer pins and maps under the reservation lock by itself.
    pub(crate) fn is_dynamic(&self) -> bool {
        // SAFETY: By the type invariants.
        unsafe { !(*self.attach.as_ptr()).importer_ops.is_null() }
    }

    /// Whether the importer lets the memory go when it is told to.
    pub(crate) fn is_revocable(&self) -> bool {
        // SAFETY: By the type invariants.
        unsafe { bindings::dma_buf_attach_revocable(self.attach.as_ptr()) }
    }

    /// How often the importer has pinned.
    pub(crate) fn pins(&self) -> u32 {
        self.books().pins.get()
    }

    /// Does what another task could do between core listing the attachment and returning it.
    pub(crate) fn call_back_early(&self) {
        let held = self.live.lock();

        // SAFETY: The attachment is valid and the lock held. An importer has to take the call at
        // once.
        unsafe {
            let ops = (*self.attach.as_ptr()).importer_ops.as_ref();
            if let Some(callback) = ops.and_then(|ops| ops.invalidate_mappings) {
                callback(self.attach.as_ptr());
            }
        }
        drop(held);
    }
}
