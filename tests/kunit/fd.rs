// SPDX-License-Identifier: GPL-2.0

//! File descriptors, which a kernel thread has as any task does.
//!
//! C header: [`include/linux/file.h`](srctree/include/linux/file.h)

use super::{
    exporter::Exporter,
    vram::ops, //
};
use crate::{
    bindings,
    dma_buf::DmaBuf, //
};
use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*,
    types::NotThreadSafe, //
};

/// A file descriptor of the current task; closed when it is dropped.
///
/// # Invariants
///
/// The number is an open file descriptor of the task's, which nobody else closes.
pub(crate) struct Fd {
    number: c_int,
    _not_send: NotThreadSafe,
}

impl Fd {
    fn new(number: c_int) -> Result<Self> {
        to_result(number)?;

        // INVARIANT: As just opened.
        Ok(Self {
            number,
            _not_send: NotThreadSafe,
        })
    }

    /// Opens the buffer of an exporter.
    pub(crate) fn of(exporter: &Exporter) -> Result<Self> {
        Self::of_dma_buf(exporter.dma_buf())
    }

    /// Opens a buffer.
    pub(crate) fn of_dma_buf(dmabuf: DmaBuf) -> Result<Self> {
        Self::new(ops::open(dmabuf, true)?)
    }

    /// Opens something that is no dma-buf.
    pub(crate) fn of_something_else() -> Result<Self> {
        // SAFETY: Opens a new file.
        Self::new(unsafe { bindings::rdma_dmabuf_test_other_fd() })
    }

    pub(crate) fn number(&self) -> c_int {
        self.number
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: By the type invariants, the number is ours to close.
        unsafe { bindings::close_fd(self.number as u32) };
    }
}
