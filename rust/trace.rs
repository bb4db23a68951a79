// SPDX-License-Identifier: GPL-2.0

//! Tracepoints: `/sys/kernel/tracing/events/rdma_dmabuf`.
//!
//! C headers: `rust/trace.h`, [`include/linux/tracepoint.h`](srctree/include/linux/tracepoint.h)
//!
//! A region goes by the id that it has in debugfs.

use crate::{
    bindings,
    blocks::BlockSize, //
};

/// A region was mapped, in so many blocks of `size`.
pub(crate) fn map(region: u64, inode: u64, blocks: u64, size: BlockSize) {
    // SAFETY: Takes any numbers.
    unsafe { bindings::rdma_dmabuf_helper_trace_map(region, inode, blocks, size.bytes()) };
}

/// A region was unmapped.
pub(crate) fn unmap(region: u64) {
    // SAFETY: Takes any number.
    unsafe { bindings::rdma_dmabuf_helper_trace_unmap(region) };
}

/// The exporter has called a region back.
pub(crate) fn invalidate(region: u64) {
    // SAFETY: Takes any number.
    unsafe { bindings::rdma_dmabuf_helper_trace_invalidate(region) };
}

/// An access has had a region mapped again.
pub(crate) fn fault(region: u64) {
    // SAFETY: Takes any number.
    unsafe { bindings::rdma_dmabuf_helper_trace_fault(region) };
}

/// The memory of a region was taken away for ever.
pub(crate) fn revoke(region: u64) {
    // SAFETY: Takes any number.
    unsafe { bindings::rdma_dmabuf_helper_trace_revoke(region) };
}
