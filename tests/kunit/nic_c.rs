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
        atomic64_t,
        ib_dmabuf_region_attr,
        ib_dmabuf_stats,
        ib_dmabuf_view,
        rdma_dmabuf_driver_ops,
        rdma_dmabuf_region, //
    },
    device::DmaDevice, //
};
use core::{
    ffi::c_void,
    mem::MaybeUninit,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::c_int,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    types::Opaque, //
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

/// What C is told of a region.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) invalidations: i64,
    pub(crate) remaps: i64,
    pub(crate) refusals: i64,
    pub(crate) nr_blocks: u64,
    pub(crate) block_size: u64,
    pub(crate) mode: Mode,
    pub(crate) is_mapped: bool,
    pub(crate) is_revoked: bool,
}

/// A region held by C.
///
/// # Invariants
///
/// `region` came from `rdma_dmabuf_get_with_ops()` with [`OPS`], `stats` and `_key`, and has not been
/// put. `stats` is accessed by atomics alone.
pub(super) struct CRegion {
    region: NonNull<rdma_dmabuf_region>,
    // Both are dropped after the region was put.
    stats: KBox<Opaque<ib_dmabuf_stats>>,
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
        let stats = KBox::new(Opaque::zeroed(), GFP_KERNEL)?;
        let attr = ib_dmabuf_region_attr {
            dma_device: device.as_raw(),
            stats: stats.get(),
            offset: wish.offset,
            length: wish.length,
            iova: wish.iova,
            block_sizes: wish.block_sizes,
            fd: fd.number(),
            access: wish.rights.to_c(),
        };
        let private = core::ptr::from_ref(&*key).cast_mut().cast();

        // SAFETY: The attributes are valid for reads and the device is alive; the key and
        // the numbers live until the region is put.
        let region = from_err_ptr(unsafe {
            bindings::rdma_dmabuf_get_with_ops(&attr, mode.to_c(), &OPS, private)
        })?;

        // INVARIANT: As just made.
        Ok(Self {
            region: NonNull::new(region).ok_or(EINVAL)?,
            stats,
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

    pub(super) fn told(&self) -> Result<Told> {
        let mut info = MaybeUninit::uninit();

        // SAFETY: The region is alive by the type invariants, and `info` is filled.
        let info = unsafe {
            bindings::rdma_dmabuf_query(self.region.as_ptr(), info.as_mut_ptr());
            info.assume_init()
        };
        let stats = self.stats.get();
        let count = |number: *mut atomic64_t| {
            // SAFETY: A number of `stats`, which are alive and accessed by atomics alone.
            unsafe { Atomic::<i64>::from_ptr(number.cast()) }.load(Relaxed)
        };

        // SAFETY: `stats` are alive.
        let [invalidations, remaps, refusals] = unsafe {
            [
                &raw mut (*stats).invalidations,
                &raw mut (*stats).remaps,
                &raw mut (*stats).refusals,
            ]
        }
        .map(count);

        Ok(Told {
            invalidations,
            remaps,
            refusals,
            nr_blocks: info.nr_blocks,
            block_size: info.block_size,
            mode: Mode::from_c(info.mode).ok_or(EINVAL)?,
            is_mapped: info.state == bindings::ib_dmabuf_state_IB_DMABUF_MAPPED,
            is_revoked: info.state == bindings::ib_dmabuf_state_IB_DMABUF_REVOKED,
        })
    }
}

impl Drop for CRegion {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; this is the only put.
        unsafe { bindings::rdma_dmabuf_put(self.region.as_ptr()) };
    }
}
