// SPDX-License-Identifier: GPL-2.0

//! The device that a dma-buf is mapped for: the driver's, or one that the importer brings.
//!
//! C headers: [`include/linux/device/faux.h`](srctree/include/linux/device/faux.h),
//! [`include/linux/dma-direct.h`](srctree/include/linux/dma-direct.h)
//!
//! A software RDMA device has no DMA device, yet it is a bus master whose address space is
//! physical memory. [`OwnDevice`] is that bus master: a faux device with a 64-bit mask and direct
//! DMA, of which every address leads back to the physical one. That is never taken for granted:
//! the device is tested when it is made, and each piece of memory whenever it is mapped.

use crate::{
    bindings,
    window::{
        Segment,
        PAGE_SIZE, //
    },
};
use kernel::{
    device::Device,
    faux,
    page::Page,
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    },
    types::Opaque,
};

/// The C object of a device.
fn raw<Ctx: kernel::device::DeviceContext>(dev: &Device<Ctx>) -> *mut bindings::device {
    // `Device` is transparent over the C type; the kernel crate keeps its own `as_raw()` to itself.
    core::ptr::from_ref(dev).cast_mut().cast()
}

/// What a dma-buf can be mapped for.
#[derive(Clone)]
pub(crate) enum DmaDevice {
    /// The device of a driver, which gets DMA addresses for it, whatever they point to, as long as
    /// that is the memory itself.
    Driver(ARef<Device>),
    /// The importer's own, which gives physical addresses of system RAM or nothing.
    Own(Arc<OwnDevice>),
}

impl DmaDevice {
    /// Takes a reference on a driver's device.
    ///
    /// # Safety
    ///
    /// `dev` is a valid device, with a reference held during the call.
    pub(crate) unsafe fn from_raw(dev: *mut bindings::device) -> Self {
        // SAFETY: By the safety requirements.
        Self::Driver(unsafe { Device::get_device(dev) })
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::device {
        match self {
            Self::Driver(dev) => raw(dev),
            Self::Own(own) => own.as_raw(),
        }
    }

    /// Whether the driver may touch `segment` in the way it is used to.
    ///
    /// `EOPNOTSUPP` if the memory is not for a driver that copies with the CPU, or if a bounce
    /// buffer stands in for it, which no access of the device would ever be copied from.
    pub(crate) fn check_reachable(&self, segment: &Segment) -> Result {
        match self {
            Self::Driver(_) => self.check_direct(segment),
            Self::Own(own) => own.check_reachable(segment),
        }
    }

    /// An exporter maps each piece as a whole, or in place of it a bounce buffer, so its two ends tell.
    ///
    /// Exact where DMA is direct. Behind an IOMMU only devices that are not trusted are bounced, and
    /// such a one is refused everything once it has been. Until there was a bounce buffer, this is
    /// a load for each end.
    fn check_direct(&self, segment: &Segment) -> Result {
        let last = segment.len.checked_sub(1).ok_or(EINVAL)?;
        let last = segment.addr.checked_add(last).ok_or(EOVERFLOW)?;

        for addr in [segment.addr, last] {
            // SAFETY: `self` holds a reference to the device; the function looks the address up,
            // whatever it is.
            if unsafe { bindings::rdma_dmabuf_helper_may_be_bounced(self.as_raw(), addr) } {
                return Err(EOPNOTSUPP);
            }
        }
        Ok(())
    }

    /// The address by which the driver finds a byte with the DMA address `addr`.
    pub(crate) fn resolve(&self, addr: u64) -> u64 {
        match self {
            Self::Driver(_) => addr,
            Self::Own(own) => own.phys(addr),
        }
    }
}

/// A device whose DMA addresses are physical memory.
///
/// # Invariants
///
/// The device has a 64-bit DMA mask and direct DMA without forced bounce buffers, and its
/// `dma_parms` is `parms`.
#[pin_data]
pub(crate) struct OwnDevice {
    // Dropped first: the device points to what follows.
    device: faux::Registration,
    #[pin]
    parms: Opaque<bindings::device_dma_parameters>,
}

// SAFETY: `parms` is written by `new()` only, before the object is shared.
unsafe impl Send for OwnDevice {}

// SAFETY: As above.
unsafe impl Sync for OwnDevice {}

impl OwnDevice {
    /// Makes the device and tests it. `EOPNOTSUPP`, with the reason in the log, if the machine's
    /// DMA addresses do not lead to physical memory.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let own = Arc::pin_init(
            try_pin_init!(Self {
                device: faux::Registration::new(c"rdma_dmabuf", None)?,
                parms <- Opaque::ffi_init(|parms: *mut bindings::device_dma_parameters| {
                    // SAFETY: `parms` is memory for the structure, for which zero is valid.
                    unsafe { parms.write_bytes(0, 1) }
                }),
            }),
            GFP_KERNEL,
        )?;

        own.set_up()?;
        own.self_test()?;
        Ok(own)
    }

    fn device(&self) -> &Device<kernel::device::Bound> {
        let device: &faux::Device<kernel::device::Bound> = self.device.as_ref();

        device.as_ref()
    }

    fn as_raw(&self) -> *mut bindings::device {
        raw(self.device())
    }

    /// A 64-bit mask and segments of any size.
    fn set_up(&self) -> Result {
        // SAFETY: The device is registered and ours alone; `parms` is pinned and outlives it.
        unsafe {
            bindings::rdma_dmabuf_helper_dma_set_parms(self.as_raw(), self.parms.get());
        }

        // SAFETY: As above.
        kernel::error::to_result(unsafe {
            bindings::rdma_dmabuf_helper_dma_set_mask(self.as_raw(), u64::MAX)
        })
        .inspect_err(|_| {
            dev_err!(
                self.device(),
                "a 64-bit DMA mask was refused: use a DMA device\n"
            );
        })
    }

    /// Sends one page there and back.
    fn self_test(&self) -> Result {
        // SAFETY: The device is valid.
        if unsafe { bindings::rdma_dmabuf_helper_is_bounce_forced(self.as_raw()) } {
            dev_err!(
                self.device(),
                "bounce buffers are forced: boot without swiotlb=force\n"
            );
            return Err(EOPNOTSUPP);
        }

        let page = Page::alloc_page(GFP_KERNEL)?;
        let segment = self.map_page(&page)?;
        let result = self.check_reachable(&segment).and_then(|()| {
            // SAFETY: The page is valid while `page` lives.
            let phys = unsafe { bindings::rdma_dmabuf_helper_page_to_phys(page.as_ptr()) };

            (self.phys(segment.addr) == phys)
                .then_some(())
                .ok_or(EOPNOTSUPP)
        });
        self.unmap_page(&segment);

        result.inspect_err(|_| {
            dev_err!(
                self.device(),
                "DMA addresses are not physical memory here (paravirtual DMA or an IOMMU?)\n"
            );
        })
    }

    fn map_page(&self, page: &Page) -> Result<Segment> {
        // SAFETY: The device is valid and has a mask; the page lives until it is unmapped.
        let addr = unsafe {
            bindings::dma_map_page_attrs(
                self.as_raw(),
                page.as_ptr(),
                0,
                kernel::page::PAGE_SIZE,
                bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                0,
            )
        };

        // SAFETY: The device is valid.
        kernel::error::to_result(unsafe {
            bindings::rdma_dmabuf_helper_dma_mapping_error(self.as_raw(), addr)
        })?;
        Ok(Segment {
            addr,
            len: PAGE_SIZE,
        })
    }

    fn unmap_page(&self, segment: &Segment) {
        // SAFETY: Mapped by `map_page()` with the same device, size and direction.
        unsafe {
            bindings::dma_unmap_page_attrs(
                self.as_raw(),
                segment.addr,
                kernel::page::PAGE_SIZE,
                bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                0,
            );
        }
    }

    /// The physical address behind a DMA address.
    fn phys(&self, addr: u64) -> u64 {
        // SAFETY: The device is valid; the function only computes.
        unsafe { bindings::rdma_dmabuf_helper_dma_to_phys(self.as_raw(), addr) }
    }

    /// `EOPNOTSUPP` unless all of `segment` is ordinary memory that the CPU can copy from and to:
    /// system RAM, online, no device or peer-to-peer page, and no bounce buffer in its place.
    fn check_reachable(&self, segment: &Segment) -> Result {
        let phys = self.phys(segment.addr);
        let len = usize::try_from(segment.len)?;

        // SAFETY: The function looks the range up in the resource tree, whatever it is.
        if !unsafe { bindings::rdma_dmabuf_helper_is_system_ram(phys, len) } {
            return Err(EOPNOTSUPP);
        }

        for offset in (0..segment.len).step_by(kernel::page::PAGE_SIZE) {
            let addr = segment.addr.checked_add(offset).ok_or(EOVERFLOW)?;

            // SAFETY: The device is valid; the functions look the address up, whatever it is.
            let is_ordinary = unsafe {
                !bindings::rdma_dmabuf_helper_may_be_bounced(self.as_raw(), addr)
                    && bindings::rdma_dmabuf_helper_is_ordinary_page(self.phys(addr))
            };
            if !is_ordinary {
                return Err(EOPNOTSUPP);
            }
        }
        Ok(())
    }
}
