// SPDX-License-Identifier: GPL-2.0

//! The C contract of `include/rdma_dmabuf.h`: raw pointers in, safe calls, errno out.
//!
//! C headers: `include/rdma_dmabuf.h`,
//! [`include/rdma/ib_dmabuf_importer.h`](srctree/include/rdma/ib_dmabuf_importer.h)

use crate::{
    bindings::{
        self,
        ib_dmabuf_region_attr,
        ib_dmabuf_view,
        rdma_dmabuf_region, //
    },
    device::DmaDevice,
    dma_buf::DmaBuf,
    importer::Importer,
    region::{
        Region,
        Request, //
    },
    view::View,
    window::Window, //
};
use core::ffi::c_void;
use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        global_lock,
        Arc, //
    },
};

// SAFETY: Initialised by `Service::new()`, which runs once, before anybody can call in.
global_lock! {
    unsafe(uninit) static IMPORTER: Mutex<Option<Arc<Importer>>> = None;
}

/// Whether there has been a [`Service`].
static IS_IN_USE: Atomic<bool> = Atomic::new(false);

/// The importer, as long as the module offers it.
pub(crate) fn importer() -> Result<Arc<Importer>> {
    IMPORTER.lock().clone().ok_or(EOPNOTSUPP)
}

/// Access flags that write to the memory of an MR.
const WRITES: u32 = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC;

/// Makes the region that `attr` asks for; the order of the checks is part of the contract.
///
/// # Safety
///
/// `attr.dma_device` is null or a valid device, with a reference held during the call.
pub(crate) unsafe fn get(
    importer: &Arc<Importer>,
    attr: &ib_dmabuf_region_attr,
) -> Result<KBox<Region>> {
    let window = Window::new(attr.offset, attr.length, attr.iova)?;
    let dmabuf = DmaBuf::from_fd(attr.fd)?;
    let device = if attr.dma_device.is_null() {
        DmaDevice::Own(importer.own_device().clone())
    } else {
        // SAFETY: By the safety requirements.
        unsafe { DmaDevice::from_raw(attr.dma_device) }
    };
    let request = Request {
        window,
        block_sizes: attr.block_sizes,
        device,
        is_writable: attr.access as u32 & WRITES != 0,
    };

    Ok(KBox::new(
        Region::new(importer, dmabuf, request)?,
        GFP_KERNEL_ACCOUNT,
    )?)
}

/// # Safety
///
/// `attr` is valid for reads, and its `dma_device` null or a device kept by the caller.
#[no_mangle]
unsafe extern "C" fn rdma_dmabuf_get(
    attr: *const ib_dmabuf_region_attr,
) -> *mut rdma_dmabuf_region {
    // SAFETY: By the safety requirements.
    match importer().and_then(|importer| unsafe { get(&importer, &*attr) }) {
        Ok(region) => KBox::into_raw(region).cast(),
        Err(error) => error.to_ptr(),
    }
}

/// # Safety
///
/// `region` came from [`rdma_dmabuf_get`] and has not been put.
unsafe fn borrow<'a>(region: *mut rdma_dmabuf_region) -> &'a Region {
    // SAFETY: By the safety requirements; the C type stands for `Region`.
    unsafe { &*region.cast() }
}

/// # Safety
///
/// `region` came from [`rdma_dmabuf_get`] and has not been put.
#[no_mangle]
unsafe extern "C" fn rdma_dmabuf_shutdown(region: *mut rdma_dmabuf_region) {
    // SAFETY: By the safety requirements.
    unsafe { borrow(region) }.shutdown();
}

/// # Safety
///
/// `region` came from [`rdma_dmabuf_get`]; this is its only put, and no other call is under way.
#[no_mangle]
unsafe extern "C" fn rdma_dmabuf_put(region: *mut rdma_dmabuf_region) {
    // SAFETY: By the safety requirements, this is the pointer of the box, and nobody else uses it.
    drop(unsafe { KBox::<Region>::from_raw(region.cast()) });
}

/// # Safety
///
/// `region` came from [`rdma_dmabuf_get`] and is not put before the access ends; `view` is valid
/// for writes.
#[no_mangle]
unsafe extern "C" fn rdma_dmabuf_access_begin(
    region: *mut rdma_dmabuf_region,
    iova: u64,
    length: u64,
    view: *mut ib_dmabuf_view,
) -> c_int {
    // SAFETY: By the safety requirements.
    match unsafe { borrow(region) }.access(iova, length) {
        Ok(pass) => {
            // SAFETY: By the safety requirements.
            unsafe { view.write(to_c(pass.into_view())) };
            0
        }
        Err(error) => error.to_errno(),
    }
}

fn to_c(view: &View) -> ib_dmabuf_view {
    ib_dmabuf_view {
        blocks: view.addrs().as_ptr(),
        nr_blocks: view.addrs().len() as u64,
        iova: view.first_iova(),
        block_shift: view.size().shift(),
    }
}

/// # Safety
///
/// The current task began an access to `region` that has not ended, and does not use its view any
/// more.
#[no_mangle]
unsafe extern "C" fn rdma_dmabuf_access_end(region: *mut rdma_dmabuf_region) {
    // SAFETY: By the safety requirements.
    unsafe { borrow(region).gate().leave() };
}

// The header and the functions above must agree.
const _: unsafe extern "C" fn(*const ib_dmabuf_region_attr) -> *mut rdma_dmabuf_region =
    bindings::rdma_dmabuf_get;
const _: unsafe extern "C" fn(*mut rdma_dmabuf_region) = bindings::rdma_dmabuf_shutdown;
const _: unsafe extern "C" fn(*mut rdma_dmabuf_region) = bindings::rdma_dmabuf_put;
const _: unsafe extern "C" fn(*mut rdma_dmabuf_region, u64, u64, *mut ib_dmabuf_view) -> c_int =
    bindings::rdma_dmabuf_access_begin;
const _: unsafe extern "C" fn(*mut rdma_dmabuf_region) = bindings::rdma_dmabuf_access_end;

/// The registry's untyped pointers stand for regions; see the functions without `_op`.
mod ops {
    use super::*;

    /// # Safety
    ///
    /// As [`rdma_dmabuf_get`].
    pub(super) unsafe extern "C" fn get_op(attr: *const ib_dmabuf_region_attr) -> *mut c_void {
        // SAFETY: By the safety requirements.
        unsafe { rdma_dmabuf_get(attr) }.cast()
    }

    /// # Safety
    ///
    /// As [`rdma_dmabuf_shutdown`].
    pub(super) unsafe extern "C" fn shutdown_op(region: *mut c_void) {
        // SAFETY: By the safety requirements.
        unsafe { rdma_dmabuf_shutdown(region.cast()) }
    }

    /// # Safety
    ///
    /// As [`rdma_dmabuf_put`].
    pub(super) unsafe extern "C" fn put_op(region: *mut c_void) {
        // SAFETY: By the safety requirements.
        unsafe { rdma_dmabuf_put(region.cast()) }
    }

    /// # Safety
    ///
    /// As [`rdma_dmabuf_access_begin`].
    pub(super) unsafe extern "C" fn access_begin_op(
        region: *mut c_void,
        iova: u64,
        length: u64,
        view: *mut ib_dmabuf_view,
    ) -> c_int {
        // SAFETY: By the safety requirements.
        unsafe { rdma_dmabuf_access_begin(region.cast(), iova, length, view) }
    }

    /// # Safety
    ///
    /// As [`rdma_dmabuf_access_end`].
    pub(super) unsafe extern "C" fn access_end_op(region: *mut c_void) {
        // SAFETY: By the safety requirements.
        unsafe { rdma_dmabuf_access_end(region.cast()) }
    }
}

/// The importer in service: reachable through the exports and registered for other drivers.
///
/// # Invariants
///
/// `table` is registered, and stays in place until it is not.
pub(crate) struct Service {
    table: KBox<bindings::ib_dmabuf_importer_ops>,
}

// SAFETY: The table is constant; registering has no tie to a task.
unsafe impl Send for Service {}

// SAFETY: As above.
unsafe impl Sync for Service {}

impl Service {
    /// Puts `importer` into service, at the one time when the module is loaded.
    ///
    /// `EBUSY` if the registry has another importer, or the module's is in service.
    pub(crate) fn new(module: &'static ThisModule, importer: Arc<Importer>) -> Result<Self> {
        if IS_IN_USE.xchg(true, Relaxed) {
            return Err(EBUSY);
        }

        // SAFETY: Only the first caller gets here, and nobody can call in before it is done: the
        // exports are the module's, which is not live yet, and the registration comes below.
        unsafe { IMPORTER.init() };

        let table = KBox::new(
            bindings::ib_dmabuf_importer_ops {
                owner: module.as_ptr(),
                get: Some(ops::get_op),
                shutdown: Some(ops::shutdown_op),
                put: Some(ops::put_op),
                access_begin: Some(ops::access_begin_op),
                access_end: Some(ops::access_end_op),
            },
            GFP_KERNEL,
        )?;

        *IMPORTER.lock() = Some(importer);

        // SAFETY: The table stays in place until it is unregistered.
        to_result(unsafe { bindings::ib_dmabuf_importer_register(&*table) }).inspect_err(|_| {
            *IMPORTER.lock() = None;
            pr_err!("another dma-buf importer is registered: unload it first\n");
        })?;

        // INVARIANT: As just registered.
        Ok(Self { table })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // SAFETY: Registered by the type invariants.
        unsafe { bindings::ib_dmabuf_importer_unregister(&*self.table) };

        let importer = IMPORTER.lock().take();

        // The device goes without the lock.
        drop(importer);
    }
}
