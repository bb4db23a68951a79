// SPDX-License-Identifier: GPL-2.0

//! Looks on from outside: which tracepoints fire, what the kernel warns of, what becomes of
//! allocations that fail.
//!
//! C headers: `rust/trace.h`, [`include/kunit/test.h`](srctree/include/kunit/test.h)

use crate::{
    bindings,
    device::DmaDevice, //
};
use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*,
    types::NotThreadSafe, //
};

/// A tracepoint of the importer.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Event {
    Map = bindings::rdma_dmabuf_test_event_TEST_EVENT_MAP,
    Unmap = bindings::rdma_dmabuf_test_event_TEST_EVENT_UNMAP,
    Invalidate = bindings::rdma_dmabuf_test_event_TEST_EVENT_INVALIDATE,
    Fault = bindings::rdma_dmabuf_test_event_TEST_EVENT_FAULT,
    Revoke = bindings::rdma_dmabuf_test_event_TEST_EVENT_REVOKE,
}

/// Counts what fires until it is dropped. There is one at a time.
pub(crate) struct Probes(());

impl Probes {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: May be called at any time.
        to_result(unsafe { bindings::rdma_dmabuf_test_probes_register() })?;
        Ok(Self(()))
    }

    /// How often `event` has fired.
    pub(crate) fn count(&self, event: Event) -> u32 {
        // SAFETY: Takes any of the events.
        unsafe { bindings::rdma_dmabuf_test_probes_count(event as u32) }
    }

    /// Blocks and block size of the last map.
    pub(crate) fn last_map(&self) -> (u64, u64) {
        let (mut blocks, mut block_size) = (0, 0);

        // SAFETY: Both are valid for writes.
        unsafe { bindings::rdma_dmabuf_test_probes_last_map(&mut blocks, &mut block_size) };
        (blocks, block_size)
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        // SAFETY: Registered by `new()`.
        unsafe { bindings::rdma_dmabuf_test_probes_unregister() };
    }
}

/// Runs `act`, and lets the `nth` allocation in it fail. Returns whether there was one as well.
pub(crate) fn with_failing_allocation<R>(nth: u32, act: impl FnOnce() -> R) -> (R, bool) {
    // SAFETY: Has an effect in the current task alone, until the next call.
    unsafe { bindings::rdma_dmabuf_test_fail_nth(nth) };
    let result = act();

    // SAFETY: As above.
    let has_failed = unsafe { bindings::rdma_dmabuf_test_fail_nth(0) } == 0;
    (result, has_failed)
}

/// The longest segment that `device` takes, and the bits in which the first and the last byte of
/// one may differ.
pub(crate) fn dma_segments(device: &DmaDevice) -> (u64, u64) {
    let (mut longest, mut boundary) = (0, 0);

    // SAFETY: The device is valid, and both are valid for writes.
    unsafe {
        bindings::rdma_dmabuf_test_dma_segments(device.as_raw(), &mut longest, &mut boundary)
    };
    (longest, boundary)
}

/// References that keep the module loaded.
pub(crate) fn module_references() -> c_int {
    // SAFETY: Looks at the module of this very function.
    unsafe { bindings::rdma_dmabuf_test_module_references() }
}

/// Keeps warnings of the current task out of the log, and counts them, until it is dropped.
pub(crate) struct Warnings(NotThreadSafe);

impl Warnings {
    /// A case that provokes a warning says which.
    pub(crate) fn expected(which: &str) -> Result<Self> {
        pr_info!("a warning is provoked and kept out of the log: {which}\n");

        // SAFETY: Has an effect in the task of a case alone, which this is.
        to_result(unsafe { bindings::rdma_dmabuf_test_warnings_suppress() })?;
        Ok(Self(NotThreadSafe))
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u32 {
        // SAFETY: Suppressed since `expected()`.
        unsafe { bindings::rdma_dmabuf_test_warnings_count() }
    }
}

impl Drop for Warnings {
    fn drop(&mut self) {
        // SAFETY: Suppressed since `expected()`.
        unsafe { bindings::rdma_dmabuf_test_warnings_restore() };
    }
}
