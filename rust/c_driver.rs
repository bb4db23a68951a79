// SPDX-License-Identifier: GPL-2.0

//! A driver in C, by the functions of `struct rdma_dmabuf_driver_ops`.
//!
//! C header: `include/rdma_dmabuf.h`

use crate::{
    bindings::{
        atomic64_t,
        ib_dmabuf_stats,
        ib_dmabuf_view,
        rdma_dmabuf_driver_ops, //
    },
    block_list::Blocks,
    driver::Driver, //
};
use core::{
    ffi::c_void,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

/// What C code sees of `blocks`, as long as those live.
pub(crate) fn to_c(blocks: &Blocks) -> ib_dmabuf_view {
    ib_dmabuf_view {
        blocks: blocks.addrs().as_ptr(),
        nr_blocks: blocks.addrs().len() as u64,
        iova: blocks.first_iova(),
        block_shift: blocks.size().shift(),
    }
}

/// The functions of a driver and its pointer for a region.
///
/// # Invariants
///
/// The functions may be called with `private` under the rules of [`Driver`].
pub(crate) struct CDriver {
    ops: rdma_dmabuf_driver_ops,
    private: *mut c_void,
}

// SAFETY: By the type invariants; the rules of `Driver` tie nothing to a task.
unsafe impl Send for CDriver {}

// SAFETY: As above.
unsafe impl Sync for CDriver {}

impl CDriver {
    /// A driver that is told nothing.
    pub(crate) fn none() -> Self {
        // INVARIANT: There are no functions.
        Self {
            ops: rdma_dmabuf_driver_ops::default(),
            private: core::ptr::null_mut(),
        }
    }

    /// # Safety
    ///
    /// `ops` is null or valid for reads. Its functions may be called with `private` under the rules
    /// of [`Driver`] until the object is dropped.
    pub(crate) unsafe fn new(ops: *const rdma_dmabuf_driver_ops, private: *mut c_void) -> Self {
        // SAFETY: By the safety requirements.
        match unsafe { ops.as_ref() } {
            // INVARIANT: By the safety requirements.
            Some(ops) => Self { ops: *ops, private },
            None => Self::none(),
        }
    }
}

impl Driver for CDriver {
    fn map(&self, blocks: &Blocks) -> Result {
        let Some(map) = self.ops.map else {
            return Ok(());
        };

        // SAFETY: By the type invariants; the view lives during the call.
        to_result(unsafe { map(self.private, &to_c(blocks)) })
    }

    fn unmap(&self) {
        if let Some(unmap) = self.ops.unmap {
            // SAFETY: By the type invariants.
            unsafe { unmap(self.private) };
        }
    }

    fn revoked(&self) {
        if let Some(revoked) = self.ops.revoked {
            // SAFETY: By the type invariants.
            unsafe { revoked(self.private) };
        }
    }
}

/// Where a driver wants to have counted what happens to a region; nowhere by default.
///
/// # Invariants
///
/// The pointer, if there is one, is valid for atomic accesses until the region is put.
#[derive(Clone, Copy, Default)]
pub(crate) struct DriverStats(Option<NonNull<ib_dmabuf_stats>>);

// SAFETY: The numbers are atomics, which have no tie to a task.
unsafe impl Send for DriverStats {}

// SAFETY: As above.
unsafe impl Sync for DriverStats {}

impl DriverStats {
    /// # Safety
    ///
    /// `stats` is null or valid for atomic accesses until the region is put that counts there.
    pub(crate) unsafe fn from_raw(stats: *mut ib_dmabuf_stats) -> Self {
        // INVARIANT: By the safety requirements.
        Self(NonNull::new(stats))
    }

    fn add_one(&self, number: impl FnOnce(*mut ib_dmabuf_stats) -> *mut atomic64_t) {
        if let Some(stats) = self.0 {
            // SAFETY: By the type invariants; an `atomic64_t` is its counter.
            let number = unsafe { Atomic::<i64>::from_ptr(number(stats.as_ptr()).cast()) };

            number.add(1, Relaxed);
        }
    }

    /// An exporter has called back.
    pub(crate) fn invalidated(&self) {
        // SAFETY: By the type invariants, the pointer is valid.
        self.add_one(|stats| unsafe { &raw mut (*stats).invalidations });
    }

    /// An access has had the memory mapped again.
    pub(crate) fn remapped(&self) {
        // SAFETY: As above.
        self.add_one(|stats| unsafe { &raw mut (*stats).remaps });
    }

    /// An access was refused.
    pub(crate) fn refused(&self) {
        // SAFETY: As above.
        self.add_one(|stats| unsafe { &raw mut (*stats).refusals });
    }
}
