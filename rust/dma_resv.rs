// SPDX-License-Identifier: GPL-2.0

//! `struct dma_resv`: the lock of a dma-buf and the list of its fences.
//!
//! C header: [`include/linux/dma-resv.h`](srctree/include/linux/dma-resv.h)
//!
//! The kernel crate has no ww-mutex yet; [`ResvGuard`] stands for its guard. One reservation is
//! ever held at a time, so no acquire context is needed.

use crate::bindings;
use kernel::{
    prelude::*,
    time::Jiffies,
    types::{
        NotThreadSafe,
        Opaque, //
    },
};

/// The reservation object of one or more dma-bufs.
///
/// # Invariants
///
/// Always a valid, initialised `struct dma_resv`.
#[repr(transparent)]
pub(crate) struct Resv(Opaque<bindings::dma_resv>);

impl Resv {
    /// Borrows a C `dma_resv`.
    ///
    /// # Safety
    ///
    /// `ptr` points to an initialised `dma_resv` that lives as long as `'a`.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::dma_resv) -> &'a Self {
        // SAFETY: By the safety requirements; `Resv` is transparent over the C type.
        unsafe { &*ptr.cast() }
    }

    fn as_raw(&self) -> *mut bindings::dma_resv {
        self.0.get()
    }

    /// Takes the lock; sleeps without regard to signals.
    pub(crate) fn lock(&self) -> ResvGuard<'_> {
        // SAFETY: `self` is a valid `dma_resv`. Without an acquire context the call cannot fail,
        // so there is nothing to look at.
        unsafe { bindings::dma_resv_lock(self.as_raw(), core::ptr::null_mut()) };

        // INVARIANT: The lock was just taken, by this task.
        ResvGuard {
            resv: self,
            _not_send: NotThreadSafe,
        }
    }

    /// Tells lockdep that the lock may be taken here, whether or not it is this time.
    pub(crate) fn might_lock(&self) {
        // SAFETY: `self` is a valid `dma_resv`.
        unsafe { bindings::rdma_dmabuf_helper_might_lock_resv(self.as_raw()) };
    }

    /// Whether the content of the memory is in place: all KERNEL fences have signalled.
    ///
    /// Needs no lock, but only under it does the answer belong to the current mapping.
    pub(crate) fn is_signaled(&self) -> bool {
        // SAFETY: `self` is a valid `dma_resv`; the function walks the fences under RCU.
        unsafe {
            bindings::dma_resv_test_signaled(
                self.as_raw(),
                bindings::dma_resv_usage_DMA_RESV_USAGE_KERNEL,
            )
        }
    }

    /// Waits for the KERNEL fences for at most `timeout`, whatever signals arrive.
    ///
    /// Must not be called with the lock held: the exporter may need it to let a fence signal.
    /// Returns whether they have signalled.
    pub(crate) fn wait(&self, timeout: Jiffies) -> Result<bool> {
        // SAFETY: `self` is a valid `dma_resv`; the function takes no lock of ours.
        let left = unsafe { bindings::rdma_dmabuf_helper_wait(self.as_raw(), timeout) };

        match i32::try_from(left) {
            Ok(err) if err < 0 => Err(Error::from_errno(err)),
            _ => Ok(left != 0),
        }
    }
}

/// Proof that the current task holds the lock of a [`Resv`]; gives it up when dropped.
///
/// # Invariants
///
/// `resv` was locked by this task and has not been unlocked since.
pub(crate) struct ResvGuard<'a> {
    resv: &'a Resv,
    _not_send: NotThreadSafe,
}

impl Drop for ResvGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants, this task holds the lock.
        unsafe { bindings::dma_resv_unlock(self.resv.as_raw()) };
    }
}
