// SPDX-License-Identifier: GPL-2.0

//! The C contract of `include/rdma_dmabuf.h`: raw pointers in, safe calls, errno out.
//!
//! C headers: `include/rdma_dmabuf.h`,
//! [`include/rdma/ib_dmabuf_importer.h`](srctree/include/rdma/ib_dmabuf_importer.h)

use crate::{
    attachment::Mode,
    bindings::{
        self,
        ib_dmabuf_mode,
        ib_dmabuf_region_attr,
        ib_dmabuf_region_info,
        ib_dmabuf_view,
        rdma_dmabuf_driver_ops,
        rdma_dmabuf_region, //
    },
    body::Request,
    c_driver::{
        to_c,
        CDriver,
        DriverStats, //
    },
    device::DmaDevice,
    dma_buf::DmaBuf,
    importer::Importer,
    record::Standing,
    region,
    window::Window, //
};
use core::ffi::c_void;
use kernel::{
    error::to_result,
    ffi::c_int,
    module::this_module,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
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

/// What the C type `struct rdma_dmabuf_region` stands for.
type Region = region::Region<CDriver>;

/// Keeps the module loaded for a region that was put too early: its driver may not hold it any more.
struct Kept(());

impl Kept {
    fn new() -> Self {
        // SAFETY: The module is running this function, so it is loaded.
        unsafe { bindings::__module_get(this_module::<crate::LocalModule>().as_ptr()) };
        Self(())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: Taken by `new()`. The driver that is calling has a hold on the module, too.
        unsafe { bindings::module_put(this_module::<crate::LocalModule>().as_ptr()) };
    }
}

/// The addresses of the regions that C code holds, and what a refused put has kept.
struct Handles(Option<RBTree<usize, Option<Kept>>>);

impl Handles {
    fn tree(&mut self) -> &mut RBTree<usize, Option<Kept>> {
        self.0.get_or_insert_with(RBTree::new)
    }
}

// SAFETY: Initialised by `Service::new()`, as `IMPORTER`.
global_lock! {
    unsafe(uninit) static HANDLES: Mutex<Handles> = Handles(None);
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
/// `attr.dma_device` is null or a valid device, with a reference held during the call; `attr.stats`
/// is null or valid for atomic accesses until the region is put.
unsafe fn make(
    importer: &Arc<Importer>,
    attr: &ib_dmabuf_region_attr,
    mode: Mode,
    driver: CDriver,
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
        mode,
        // SAFETY: By the safety requirements.
        stats: unsafe { DriverStats::from_raw(attr.stats) },
    };

    Ok(KBox::new(
        Region::new(importer, dmabuf, request, driver)?,
        GFP_KERNEL_ACCOUNT,
    )?)
}

/// As [`make`], for C code to hold.
///
/// # Safety
///
/// As [`make`].
pub(crate) unsafe fn get(
    importer: &Arc<Importer>,
    attr: &ib_dmabuf_region_attr,
    mode: Mode,
    driver: CDriver,
) -> Result<*mut rdma_dmabuf_region> {
    // SAFETY: By the safety requirements.
    let region = unsafe { make(importer, attr, mode, driver) }?;
    let address = core::ptr::from_ref(&*region).addr();
    let node = RBTreeNode::new(address, None, GFP_KERNEL_ACCOUNT)?;

    HANDLES.lock().tree().insert(node);
    Ok(KBox::into_raw(region).cast())
}

/// # Safety
///
/// `attr` is valid for reads, its `dma_device` null or a device kept by the caller, and its `stats`
/// null or kept by the caller until the region is put.
#[no_mangle]
unsafe extern "C" fn rdma_dmabuf_get(
    attr: *const ib_dmabuf_region_attr,
) -> *mut rdma_dmabuf_region {
    let region = importer().and_then(|importer| {
        let mode = importer.settings().mode;

        // SAFETY: By the safety requirements.
        unsafe { get(&importer, &*attr, mode, CDriver::none()) }
    });

    region.unwrap_or_else(|error| error.to_ptr())
}

/// # Safety
///
/// As [`rdma_dmabuf_get`]; the functions of `ops`, if it is not null, may be called with `private`
/// under the rules of the header until the region is put.
#[no_mangle]
unsafe extern "C" fn rdma_dmabuf_get_with_ops(
    attr: *const ib_dmabuf_region_attr,
    mode: ib_dmabuf_mode,
    ops: *const rdma_dmabuf_driver_ops,
    private: *mut c_void,
) -> *mut rdma_dmabuf_region {
    let region = importer().and_then(|importer| {
        // SAFETY: By the safety requirements.
        unsafe {
            get(
                &importer,
                &*attr,
                Mode::from_c(mode).ok_or(EINVAL)?,
                CDriver::new(ops, private),
            )
        }
    });

    region.unwrap_or_else(|error| error.to_ptr())
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
/// `region` came from [`rdma_dmabuf_get`] and has not been put.
#[no_mangle]
unsafe extern "C" fn rdma_dmabuf_map(region: *mut rdma_dmabuf_region) -> c_int {
    // SAFETY: By the safety requirements.
    match unsafe { borrow(region) }.map() {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// # Safety
///
/// `region` came from [`rdma_dmabuf_get`] and has not been put.
#[no_mangle]
unsafe extern "C" fn rdma_dmabuf_revoke(region: *mut rdma_dmabuf_region) {
    // SAFETY: By the safety requirements.
    unsafe { borrow(region) }.revoke();
}

/// Takes a region from C code's hands, and what a put that was refused has kept; [`None`], with a
/// warning, if the region is in use or not there.
///
/// # Safety
///
/// `region` came from [`rdma_dmabuf_get`], and no other call is under way if it has not been put.
unsafe fn take(region: *mut rdma_dmabuf_region) -> Option<(KBox<Region>, Option<Kept>)> {
    let address = region.addr();
    let Some(node) = HANDLES.lock().tree().remove_node(&address) else {
        // SAFETY: Only warns.
        unsafe { bindings::rdma_dmabuf_helper_warn_put_twice() };
        return None;
    };

    // SAFETY: The region is alive: it was listed, and nobody else can take it from there now.
    if unsafe { borrow(region) }.is_accessed() {
        // SAFETY: Only warns.
        unsafe { bindings::rdma_dmabuf_helper_warn_put_accessed() };
        refuse(address, node);
        return None;
    }

    let (_, kept) = node.to_key_value();
    // SAFETY: This is the pointer of the box, and by the safety requirements nobody else uses it.
    Some((unsafe { KBox::from_raw(region.cast()) }, kept))
}

/// Lists a region again that was put too early. It may stay for ever, and the module with it.
fn refuse(address: usize, node: RBTreeNode<usize, Option<Kept>>) {
    let kept = Kept::new();
    let node = node.into_reservation().into_node(address, Some(kept));

    HANDLES.lock().tree().insert(node);
}

/// # Safety
///
/// `region` came from [`rdma_dmabuf_get`]; this is its only put, and no other call is under way. A
/// second put, and one with an access under way, are warned of and do nothing.
#[no_mangle]
unsafe extern "C" fn rdma_dmabuf_put(region: *mut rdma_dmabuf_region) {
    // SAFETY: By the safety requirements.
    if let Some((region, kept)) = unsafe { take(region) } {
        drop(region);
        drop(kept);
    }
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

/// # Safety
///
/// `region` came from [`rdma_dmabuf_get`] and has not been put. The current task began an access
/// that has not ended, and does not use its view any more; an end without a begin is warned of and
/// does nothing.
#[no_mangle]
unsafe extern "C" fn rdma_dmabuf_access_end(region: *mut rdma_dmabuf_region) {
    // SAFETY: By the safety requirements.
    unsafe { borrow(region).gate().leave() };
}

/// # Safety
///
/// `region` came from [`rdma_dmabuf_get`] and has not been put; `info` is valid for writes.
#[no_mangle]
unsafe extern "C" fn rdma_dmabuf_query(
    region: *mut rdma_dmabuf_region,
    info: *mut ib_dmabuf_region_info,
) {
    // SAFETY: By the safety requirements.
    let record = unsafe { borrow(region) }.record();
    let (nr_blocks, block_size) = record.blocks();

    // SAFETY: By the safety requirements.
    unsafe {
        info.write(ib_dmabuf_region_info {
            nr_blocks,
            block_size,
            mode: record.mode().to_c(),
            state: match record.standing() {
                Standing::Unmapped => bindings::ib_dmabuf_state_IB_DMABUF_UNMAPPED,
                Standing::Mapped => bindings::ib_dmabuf_state_IB_DMABUF_MAPPED,
                Standing::Revoked => bindings::ib_dmabuf_state_IB_DMABUF_REVOKED,
            },
        });
    }
}

// The header and the functions above must agree.
const _: unsafe extern "C" fn(*const ib_dmabuf_region_attr) -> *mut rdma_dmabuf_region =
    bindings::rdma_dmabuf_get;
const _: unsafe extern "C" fn(
    *const ib_dmabuf_region_attr,
    ib_dmabuf_mode,
    *const rdma_dmabuf_driver_ops,
    *mut c_void,
) -> *mut rdma_dmabuf_region = bindings::rdma_dmabuf_get_with_ops;
const _: unsafe extern "C" fn(*mut rdma_dmabuf_region) -> c_int = bindings::rdma_dmabuf_map;
const _: unsafe extern "C" fn(*mut rdma_dmabuf_region) = bindings::rdma_dmabuf_revoke;
const _: unsafe extern "C" fn(*mut rdma_dmabuf_region) = bindings::rdma_dmabuf_shutdown;
const _: unsafe extern "C" fn(*mut rdma_dmabuf_region) = bindings::rdma_dmabuf_put;
const _: unsafe extern "C" fn(*mut rdma_dmabuf_region, u64, u64, *mut ib_dmabuf_view) -> c_int =
    bindings::rdma_dmabuf_access_begin;
const _: unsafe extern "C" fn(*mut rdma_dmabuf_region) = bindings::rdma_dmabuf_access_end;

const _: unsafe extern "C" fn(*mut rdma_dmabuf_region, *mut ib_dmabuf_region_info) =
    bindings::rdma_dmabuf_query;

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

    /// # Safety
    ///
    /// As [`rdma_dmabuf_query`].
    pub(super) unsafe extern "C" fn query_op(
        region: *mut c_void,
        info: *mut ib_dmabuf_region_info,
    ) {
        // SAFETY: By the safety requirements.
        unsafe { rdma_dmabuf_query(region.cast(), info) }
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
        unsafe {
            IMPORTER.init();
            HANDLES.init();
        }

        let table = KBox::new(
            bindings::ib_dmabuf_importer_ops {
                owner: module.as_ptr(),
                get: Some(ops::get_op),
                shutdown: Some(ops::shutdown_op),
                put: Some(ops::put_op),
                access_begin: Some(ops::access_begin_op),
                access_end: Some(ops::access_end_op),
                query: Some(ops::query_op),
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
