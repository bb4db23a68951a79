// SPDX-License-Identifier: GPL-2.0

//! A driver in C, by the functions of `struct rdma_dmabuf_driver_ops`.
//!
//! C header: `include/rdma_dmabuf.h`

use crate::{
    bindings::{
        ib_dmabuf_view,
        rdma_dmabuf_driver_ops, //
    },
    block_list::Blocks,
    driver::Driver, //
};
use core::ffi::c_void;
use kernel::{
    error::to_result,
    prelude::*, //
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
