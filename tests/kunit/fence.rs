// SPDX-License-Identifier: GPL-2.0

//! A fence that signals when the case says so.
//!
//! C header: [`include/linux/dma-fence.h`](srctree/include/linux/dma-fence.h)

use crate::bindings;
use core::ptr::NonNull;
use kernel::prelude::*;

/// What a fence of a reservation object stands for.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Usage {
    /// Memory management: the content is not in place before it has signalled.
    Kernel = bindings::dma_resv_usage_DMA_RESV_USAGE_KERNEL,
    /// Somebody writes.
    Write = bindings::dma_resv_usage_DMA_RESV_USAGE_WRITE,
}

/// A fence; signalled when it is dropped, so that nobody is left waiting.
///
/// # Invariants
///
/// The pointer is to a fence made by `rdma_dmabuf_test_fence_new()`, of which this object owns a
/// reference.
pub(crate) struct Fence(NonNull<bindings::dma_fence>);

// SAFETY: Fences are made for use from any task.
unsafe impl Send for Fence {}

// SAFETY: As above.
unsafe impl Sync for Fence {}

impl Fence {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Makes a new object.
        let fence = unsafe { bindings::rdma_dmabuf_test_fence_new() };

        // INVARIANT: As just made.
        Ok(Self(NonNull::new(fence).ok_or(ENOMEM)?))
    }

    pub(super) fn as_raw(&self) -> *mut bindings::dma_fence {
        self.0.as_ptr()
    }

    /// Lets the content be in place. The second time does nothing.
    pub(crate) fn signal(&self) {
        // SAFETY: The fence is valid by the type invariants.
        unsafe { bindings::dma_fence_signal(self.as_raw()) };
    }

    /// How often somebody went to sleep on the fence.
    pub(crate) fn waits(&self) -> u32 {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_dmabuf_test_fence_waits(self.as_raw()) }
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        self.signal();

        // SAFETY: The reference is ours to give back, by the type invariants.
        unsafe { bindings::rdma_dmabuf_test_fence_put(self.as_raw()) };
    }
}
