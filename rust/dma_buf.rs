// SPDX-License-Identifier: GPL-2.0

//! `struct dma_buf`: a reference to a buffer that somebody exports.
//!
//! C header: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h)

use crate::{
    bindings,
    dma_resv::Resv, //
};
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    ffi::c_int,
    prelude::*,
    str::CStr, //
};

/// An owned reference to a dma-buf.
///
/// # Invariants
///
/// The pointer is to a valid `struct dma_buf`, of which this object owns one reference.
pub(crate) struct DmaBuf(NonNull<bindings::dma_buf>);

// SAFETY: A dma-buf is reference counted and made for use from any task.
unsafe impl Send for DmaBuf {}

// SAFETY: What can be done through `&DmaBuf` reads fields that are constant for the life of the
// buffer, or is locked inside.
unsafe impl Sync for DmaBuf {}

impl DmaBuf {
    /// Looks the buffer up in the file table of the current task.
    ///
    /// `EBADF` if `fd` is not open, `EINVAL` if it is something else (`dma_buf_get()`).
    pub(crate) fn from_fd(fd: c_int) -> Result<Self> {
        // SAFETY: May be called with any number, from any task.
        let ptr = from_err_ptr(unsafe { bindings::rdma_dmabuf_helper_dma_buf_get(fd) })?;

        // INVARIANT: `dma_buf_get()` gives a reference to a valid buffer, which is now ours.
        Ok(Self(NonNull::new(ptr).ok_or(EINVAL)?))
    }

    /// Takes a reference over from C.
    ///
    /// # Safety
    ///
    /// `ptr` is a valid dma-buf, of which the caller gives up one reference.
    #[allow(dead_code)] // For exporters, which the importer is not.
    pub(crate) unsafe fn from_raw(ptr: NonNull<bindings::dma_buf>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(ptr)
    }

    /// The C object.
    pub(crate) fn as_raw(&self) -> *mut bindings::dma_buf {
        self.0.as_ptr()
    }

    /// Bytes in the buffer; never changes.
    pub(crate) fn size(&self) -> usize {
        // SAFETY: The buffer is valid by the type invariants, and its size is constant.
        unsafe { (*self.as_raw()).size }
    }

    /// The lock and fences of the buffer, which other buffers may share.
    pub(crate) fn resv(&self) -> &Resv {
        // SAFETY: The buffer is valid by the type invariants; its `resv` is set for life and lives
        // as long as the buffer.
        unsafe { Resv::from_raw((*self.as_raw()).resv) }
    }

    /// Whether the file was opened for reading.
    pub(crate) fn is_readable(&self) -> bool {
        // SAFETY: The buffer is valid by the type invariants.
        unsafe { bindings::rdma_dmabuf_helper_dma_buf_readable(self.as_raw()) }
    }

    /// Whether the file was opened for writing.
    pub(crate) fn is_writable(&self) -> bool {
        // SAFETY: The buffer is valid by the type invariants.
        unsafe { bindings::rdma_dmabuf_helper_dma_buf_writable(self.as_raw()) }
    }

    /// Inode number of the file: what `fstat()` shows of the file descriptor.
    pub(crate) fn inode(&self) -> u64 {
        // SAFETY: The buffer is valid by the type invariants.
        unsafe { bindings::rdma_dmabuf_helper_dma_buf_inode(self.as_raw()) }
    }

    /// Name of the exporter.
    pub(crate) fn exporter(&self) -> &CStr {
        // SAFETY: The buffer is valid by the type invariants; `exp_name` is a string set at export
        // that lives as long as the exporter's module, which the buffer keeps loaded.
        unsafe { CStr::from_char_ptr((*self.as_raw()).exp_name) }
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        self.resv().might_lock();

        // SAFETY: By the type invariants, this reference is ours to give back.
        unsafe { bindings::dma_buf_put(self.as_raw()) };
    }
}
