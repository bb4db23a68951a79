// SPDX-License-Identifier: GPL-2.0

//! What an exporter does with reservation objects, beyond what an importer does.
//!
//! C header: [`include/linux/dma-resv.h`](srctree/include/linux/dma-resv.h)

use super::fence::Usage;
use crate::{
    bindings,
    dma_resv::Resv, //
};
use core::ops::Deref;
use kernel::{
    error::{
        code,
        to_result, //
    },
    prelude::*,
    time::Jiffies,
    types::{
        NotThreadSafe,
        Opaque, //
    },
};

/// A reservation object that several buffers share, in a reference counted place of its own.
///
/// # Invariants
///
/// `inner` is initialised.
#[pin_data(PinnedDrop)]
pub(crate) struct SharedResv {
    #[pin]
    inner: Opaque<bindings::dma_resv>,
}

// SAFETY: A `dma_resv` is a lock, made for use from any task.
unsafe impl Send for SharedResv {}

// SAFETY: As above.
unsafe impl Sync for SharedResv {}

impl SharedResv {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // INVARIANT: Initialised here.
            // SAFETY: `slot` is memory for the structure.
            inner <- Opaque::ffi_init(|slot| unsafe { bindings::dma_resv_init(slot) }),
        })
    }
}

impl Deref for SharedResv {
    type Target = Resv;

    fn deref(&self) -> &Resv {
        // SAFETY: By the type invariants.
        unsafe { Resv::from_raw(self.inner.get()) }
    }
}

#[pinned_drop]
impl PinnedDrop for SharedResv {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Initialised by the type invariants; the last user is gone.
        unsafe { bindings::dma_resv_fini(self.inner.get()) };
    }
}

/// The C object.
pub(super) fn raw(resv: &Resv) -> *mut bindings::dma_resv {
    // `Resv` is transparent over the C type.
    core::ptr::from_ref(resv).cast_mut().cast()
}

/// Whether somebody holds the lock.
pub(crate) fn is_locked(resv: &Resv) -> bool {
    // SAFETY: A valid `dma_resv`.
    unsafe { bindings::vram_exporter_helper_resv_is_locked(raw(resv)) }
}

/// Whether the current task holds the lock; never, if lockdep is off.
pub(crate) fn is_held(resv: &Resv) -> bool {
    // SAFETY: A valid `dma_resv`.
    unsafe { bindings::vram_exporter_helper_resv_is_held(raw(resv)) }
}

/// Takes the lock if nobody holds it, as reclaim has to.
pub(crate) fn try_lock(resv: &Resv) -> Option<TryGuard<'_>> {
    // SAFETY: A valid `dma_resv`.
    let is_taken = unsafe { bindings::vram_exporter_helper_resv_trylock(raw(resv)) };

    // INVARIANT: Just taken, by this task.
    is_taken.then(|| TryGuard {
        resv,
        _not_send: NotThreadSafe,
    })
}

/// Takes both locks, in whatever order others take them.
///
/// `EALREADY` if they are one, `ENOMEM` without memory for the context.
pub(crate) fn lock_both<'a>(both: [&'a Resv; 2]) -> Result<BothGuard<'a>> {
    let context = KBox::pin(Opaque::uninit(), GFP_KERNEL)?;

    // SAFETY: Valid objects, and memory for the context that the call initialises.
    to_result(unsafe {
        bindings::vram_exporter_helper_resv_lock_both(raw(both[0]), raw(both[1]), context.get())
    })?;

    // INVARIANT: Just taken, by this task, and with this context.
    Ok(BothGuard {
        both,
        context,
        _not_send: NotThreadSafe,
    })
}

/// Waits for at most `timeout` until all fences up to `usage` have signalled.
///
/// `ETIMEDOUT` if they do not, `ERESTARTSYS` on a signal.
pub(crate) fn wait(resv: &Resv, usage: Usage, timeout: Jiffies) -> Result {
    // SAFETY: A valid `dma_resv`.
    let left = unsafe { bindings::dma_resv_wait_timeout(raw(resv), usage as u32, true, timeout) };

    match left {
        0 => Err(code::ETIMEDOUT),
        err if err < 0 => Err(Error::from_errno(err as i32)),
        _ => Ok(()),
    }
}

/// The lock, taken by [`try_lock`].
///
/// # Invariants
///
/// `resv` was locked by this task and has not been unlocked since.
pub(crate) struct TryGuard<'a> {
    resv: &'a Resv,
    _not_send: NotThreadSafe,
}

impl Drop for TryGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::dma_resv_unlock(raw(self.resv)) };
    }
}

/// Two locks, taken by [`lock_both`].
///
/// # Invariants
///
/// Both were locked by this task, with `context`, and have not been unlocked since.
pub(crate) struct BothGuard<'a> {
    both: [&'a Resv; 2],
    context: Pin<KBox<Opaque<bindings::ww_acquire_ctx>>>,
    _not_send: NotThreadSafe,
}

impl Drop for BothGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe {
            bindings::vram_exporter_helper_resv_unlock_both(
                raw(self.both[0]),
                raw(self.both[1]),
                self.context.get(),
            )
        };
    }
}
