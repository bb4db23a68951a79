// SPDX-License-Identifier: GPL-2.0

//! A DMA device of a driver's own.
//!
//! C header: [`include/linux/device/faux.h`](srctree/include/linux/device/faux.h)

use crate::{
    bindings,
    device::DmaDevice, //
};
use kernel::{
    device::{
        Bound,
        Device, //
    },
    error::to_result,
    faux,
    prelude::*,
    str::CString,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
    },
    types::Opaque,
};

/// Devices made so far: each has a name of its own.
static DEVICES: Atomic<u32> = Atomic::new(0);

/// A device with a 64-bit DMA mask and segments of any size, there as long as this object.
///
/// # Invariants
///
/// The `dma_parms` of the device is `_parms`.
pub(crate) struct Hardware {
    // Dropped in this order: the device points to what follows.
    device: DmaDevice,
    _registration: faux::Registration,
    _parms: KBox<Opaque<bindings::device_dma_parameters>>,
}

// SAFETY: The parameters are written by `new()` only.
unsafe impl Send for Hardware {}

// SAFETY: As above.
unsafe impl Sync for Hardware {}

impl Hardware {
    pub(crate) fn new() -> Result<Self> {
        let number = DEVICES.fetch_add(1, Relaxed);
        let name = CString::try_from_fmt(fmt!("rdma_dmabuf_test.{number}"))?;
        let registration = faux::Registration::new(&name, None)?;
        let parms = KBox::new(
            Opaque::new(bindings::device_dma_parameters::default()),
            GFP_KERNEL,
        )?;
        let faux: &faux::Device<Bound> = registration.as_ref();
        let bound: &Device<Bound> = faux.as_ref();
        let device = DmaDevice::Driver(ARef::from(&**bound));

        // SAFETY: The device is registered and ours alone; the parameters outlive it.
        to_result(unsafe {
            bindings::rdma_dmabuf_helper_dma_set_parms(device.as_raw(), parms.get());
            bindings::rdma_dmabuf_helper_dma_set_mask(device.as_raw(), u64::MAX)
        })?;

        // INVARIANT: As just set.
        Ok(Self {
            device,
            _registration: registration,
            _parms: parms,
        })
    }

    pub(crate) fn device(&self) -> &DmaDevice {
        &self.device
    }
}
