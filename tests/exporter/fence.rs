// SPDX-License-Identifier: GPL-2.0

//! A fence that signals when it is told to, after a while, or not before it is dropped.
//!
//! C header: [`include/linux/dma-fence.h`](srctree/include/linux/dma-fence.h)

use crate::bindings;
use core::ptr::NonNull;
use kernel::prelude::*;

/// What a fence of a reservation object stands for.
#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
pub(crate) enum Usage {
    /// Memory management: the content is not in place before it has signalled.
    Kernel = bindings::dma_resv_usage_DMA_RESV_USAGE_KERNEL,
    /// Somebody writes.
    Write = bindings::dma_resv_usage_DMA_RESV_USAGE_WRITE,
    /// Somebody reads.
    Read = bindings::dma_resv_usage_DMA_RESV_USAGE_READ,
    /// Somebody has the memory in use, without regard to its content.
    Bookkeep = bindings::dma_resv_usage_DMA_RESV_USAGE_BOOKKEEP,
}

/// A fence; signalled when it is dropped, so that nobody is left waiting.
///
/// # Invariants
///
/// The pointer is to a fence made by `vram_exporter_helper_fence_new()`, of which this object owns
/// a reference.
pub(crate) struct Fence(NonNull<bindings::dma_fence>);

// SAFETY: Fences are made for use from any task.
unsafe impl Send for Fence {}

// SAFETY: As above.
unsafe impl Sync for Fence {}

impl Fence {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Makes a new object.
        let fence = unsafe { bindings::vram_exporter_helper_fence_new() };

        // INVARIANT: As just made.
        Ok(Self(NonNull::new(fence).ok_or(ENOMEM)?))
    }

    /// A fence that signals after so many milliseconds, with an error if there is one.
    pub(crate) fn after(ms: u32, error: Option<Error>) -> Result<Self> {
        let fence = Self::new()?;

        // SAFETY: The fence is valid, and its timer has not been started.
        unsafe {
            bindings::vram_exporter_helper_fence_signal_after(fence.as_raw(), ms, errno(error));
        }
        Ok(fence)
    }

    pub(super) fn as_raw(&self) -> *mut bindings::dma_fence {
        self.0.as_ptr()
    }

    /// Lets the content be in place. The second time does nothing.
    pub(crate) fn signal(&self) {
        self.signal_with(None);
    }

    /// Signals the fence, with an error if what it stands for has failed.
    pub(crate) fn signal_with(&self, error: Option<Error>) {
        // SAFETY: The fence is valid by the type invariants.
        unsafe { bindings::vram_exporter_helper_fence_signal(self.as_raw(), errno(error)) };
    }

    /// Whether it has signalled.
    pub(crate) fn is_signaled(&self) -> bool {
        // SAFETY: By the type invariants.
        unsafe { bindings::vram_exporter_helper_fence_is_signaled(self.as_raw()) }
    }

    /// How often somebody went to sleep on the fence.
    pub(crate) fn waits(&self) -> u32 {
        // SAFETY: By the type invariants.
        unsafe { bindings::vram_exporter_helper_fence_waits(self.as_raw()) }
    }
}

fn errno(error: Option<Error>) -> i32 {
    error.map_or(0, Error::to_errno)
}

impl Drop for Fence {
    fn drop(&mut self) {
        // SAFETY: The reference is ours to give back, by the type invariants.
        unsafe { bindings::vram_exporter_helper_fence_release(self.as_raw()) };
    }
}
