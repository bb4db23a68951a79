// SPDX-License-Identifier: GPL-2.0

//! The NIC's driver as one in C would be: `struct rdma_dmabuf_driver_ops` and a private pointer.
//!
//! C header: `include/rdma_dmabuf.h`

use super::{
    driver::Wish,
    fd::Fd,
    nic::Key, //
};
use crate::{
    attachment::Mode,
    bindings::{
        self,
        ib_dmabuf_region_attr,
        ib_dmabuf_view,
        rdma_dmabuf_driver_ops,
        rdma_dmabuf_mode,
        rdma_dmabuf_region, //
    },
    device::DmaDevice, //
};
use core::{
    ffi::c_void,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::c_int,
    prelude::*,
    sync::Arc, //
};

static OPS: rdma_dmabuf_driver_ops = rdma_dmabuf_driver_ops {
    map: Some(map_callback),
    unmap: Some(unmap_callback),
    revoked: Some(revoked_callback),
};

/// # Safety
///
/// `private` points to a [`Key`] that is alive.
unsafe fn key<'a>(private: *mut c_void) -> &'a Key {
    // SAFETY: By the safety requirements.
    unsafe { &*private.cast::<Key>() }
}

/// # Safety
///
/// As [`key`]; `view` is valid during the call, and so are its blocks.
unsafe extern "C" fn map_callback(private: *mut c_void, view: *const ib_dmabuf_view) -> c_int {
    // SAFETY: By the safety requirements.
    let (key, addrs, shift) = unsafe {
        let view = &*view;

        (
            key(private),
            core::slice::from_raw_parts(view.blocks, view.nr_blocks as usize),
            view.block_shift,
        )
    };

    match key.load(addrs, shift) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// # Safety
///
/// As [`key`].
unsafe extern "C" fn unmap_callback(private: *mut c_void) {
    // SAFETY: By the safety requirements.
    unsafe { key(private) }.clear();
}

/// # Safety
///
/// As [`key`].
unsafe extern "C" fn revoked_callback(private: *mut c_void) {
    // SAFETY: By the safety requirements.
    unsafe { key(private) }.kill();
}

pub(super) fn mode_to_c(mode: Mode) -> rdma_dmabuf_mode {
    match mode {
        Mode::Dynamic => bindings::rdma_dmabuf_mode_RDMA_DMABUF_DYNAMIC,
        Mode::Pinned => bindings::rdma_dmabuf_mode_RDMA_DMABUF_PINNED,
        Mode::Revocable => bindings::rdma_dmabuf_mode_RDMA_DMABUF_REVOCABLE,
    }
}

/// A region held by C.
///
/// # Invariants
///
/// `region` came from `rdma_dmabuf_get_with_ops()` with [`OPS`] and `_key`, and has not been put.
pub(super) struct CRegion {
    region: NonNull<rdma_dmabuf_region>,
    // Dropped after the region was put.
    _key: Arc<Key>,
}

// SAFETY: Regions are made for use from any task.
unsafe impl Send for CRegion {}

// SAFETY: As above.
unsafe impl Sync for CRegion {}

impl CRegion {
    pub(super) fn new(
        fd: &Fd,
        device: &DmaDevice,
        wish: Wish,
        mode: Mode,
        key: Arc<Key>,
    ) -> Result<Self> {
        let attr = ib_dmabuf_region_attr {
            dma_device: device.as_raw(),
            offset: wish.offset,
            length: wish.length,
            iova: wish.iova,
            block_sizes: wish.block_sizes,
            fd: fd.number(),
            access: wish.rights.to_c(),
        };
        let private = core::ptr::from_ref(&*key).cast_mut().cast();

        // SAFETY: The attributes are valid for reads and the device is alive; the key lives until
        // the region is put.
        let region = from_err_ptr(unsafe {
            bindings::rdma_dmabuf_get_with_ops(&attr, mode_to_c(mode), &OPS, private)
        })?;

        // INVARIANT: As just made.
        Ok(Self {
            region: NonNull::new(region).ok_or(EINVAL)?,
            _key: key,
        })
    }

    pub(super) fn map(&self) -> Result {
        // SAFETY: The region is alive by the type invariants.
        to_result(unsafe { bindings::rdma_dmabuf_map(self.region.as_ptr()) })
    }

    pub(super) fn revoke(&self) {
        // SAFETY: The region is alive by the type invariants.
        unsafe { bindings::rdma_dmabuf_revoke(self.region.as_ptr()) };
    }
}

impl Drop for CRegion {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; this is the only put.
        unsafe { bindings::rdma_dmabuf_put(self.region.as_ptr()) };
    }
}
