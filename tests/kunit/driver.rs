// SPDX-License-Identifier: GPL-2.0

//! The driver's side: registers memory regions through the C contract, and copies with the CPU
//! from and to the blocks it is given, as rxe does.
//!
//! C headers: `include/rdma_dmabuf.h`,
//! [`include/rdma/ib_dmabuf_importer.h`](srctree/include/rdma/ib_dmabuf_importer.h)

use super::{
    exporter::Exporter,
    fd::Fd,
    hardware::Hardware,
    vram::memory::{
        copy_from_phys,
        copy_to_phys, //
    },
};
use crate::{
    attachment::Mode,
    bindings::{
        self,
        ib_dmabuf_region_attr,
        ib_dmabuf_view, //
    },
    c_driver::CDriver,
    device::DmaDevice,
    ffi,
    importer::{
        Importer,
        Settings, //
    },
    record::Totals, //
};
use core::{
    ffi::c_void,
    mem::MaybeUninit,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::c_int,
    prelude::*,
    str::CString,
    sync::Arc,
    types::NotThreadSafe, //
};

/// A timeout that no case waits for.
const PATIENT_MS: u32 = 10_000;

/// Where peers find the start of a buffer; a multiple of every block size used here.
pub(crate) const BASE: u64 = 0x7000_0000_0000;

/// Blocks of pages alone.
pub(crate) const PAGES: u64 = crate::window::PAGE_SIZE;

/// Blocks of any size.
pub(crate) const ANY_SIZE: u64 = u64::MAX;

/// What a region may be used for.
#[derive(Clone, Copy)]
pub(crate) struct Rights(u32);

impl Rights {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const REMOTE_READ: Self = Self(bindings::ib_access_flags_IB_ACCESS_REMOTE_READ);
    pub(crate) const LOCAL_WRITE: Self = Self(bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE);
    pub(crate) const REMOTE_WRITE: Self = Self(bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE);
    pub(crate) const REMOTE_ATOMIC: Self = Self(bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC);

    /// Whether memory is written by them.
    pub(super) fn is_writing(self) -> bool {
        self.0 & !Self::REMOTE_READ.0 != 0
    }

    pub(super) fn to_c(self) -> c_int {
        self.0 as c_int
    }
}

/// What a region is asked to be.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) iova: u64,
    /// Bit `n` stands for blocks of 2^`n` bytes.
    pub(crate) block_sizes: u64,
    pub(crate) rights: Rights,
}

impl Wish {
    /// `length` bytes at `offset`, in pages, for writing. Peers find the buffer at [`BASE`].
    pub(crate) fn new(offset: u64, length: u64) -> Self {
        Self {
            offset,
            length,
            iova: BASE.wrapping_add(offset),
            block_sizes: PAGES,
            rights: Rights::LOCAL_WRITE,
        }
    }

    /// All of a buffer.
    pub(crate) fn all_of(exporter: &Exporter) -> Self {
        Self::new(0, exporter.size())
    }
}

/// By which functions a driver reaches the importer.
#[derive(Clone)]
enum Road {
    /// The exports, with an importer that has settings of its own.
    Own(Arc<Importer>),
    /// The exports, with the module's importer.
    Exports,
    /// The registry, which leads to the module's importer.
    Registry,
}

/// A driver of an RDMA device.
pub(crate) struct Driver {
    road: Road,
    hardware: Option<Hardware>,
}

impl Driver {
    fn on(road: Road) -> Self {
        Self {
            road,
            hardware: None,
        }
    }

    fn with_settings(settings: Settings) -> Result<Self> {
        let own = ffi::importer()?.own_device().clone();

        Ok(Self::on(Road::Own(Importer::new(own, settings)?)))
    }

    /// A driver that copies with the CPU, whose accesses wait for fences as long as it takes.
    pub(crate) fn new() -> Result<Self> {
        Self::with_timeout(PATIENT_MS)
    }

    /// A driver whose accesses wait for so many milliseconds.
    pub(crate) fn with_timeout(fence_timeout_ms: u32) -> Result<Self> {
        Self::with_settings(Settings {
            fence_timeout_ms,
            check_rights: true,
            mode: Mode::Dynamic,
        })
    }

    /// A driver that leaves the mode to the module.
    pub(crate) fn in_mode(mode: Mode) -> Result<Self> {
        Self::with_settings(Settings {
            fence_timeout_ms: PATIENT_MS,
            check_rights: true,
            mode,
        })
    }

    /// A driver that may register what the file does not allow.
    pub(crate) fn without_check_of_rights() -> Result<Self> {
        Self::with_settings(Settings {
            fence_timeout_ms: PATIENT_MS,
            check_rights: false,
            mode: Mode::Dynamic,
        })
    }

    /// A driver with a DMA device.
    pub(crate) fn with_device() -> Result<Self> {
        Ok(Self {
            hardware: Some(Hardware::new()?),
            ..Self::new()?
        })
    }

    /// A driver that links against the module.
    pub(crate) fn linked() -> Self {
        Self::on(Road::Exports)
    }

    /// A driver that looks for an importer in the registry.
    pub(crate) fn by_registry() -> Self {
        Self::on(Road::Registry)
    }

    /// Where the driver does DMA.
    pub(super) fn device(&self) -> Option<&DmaDevice> {
        self.hardware.as_ref().map(Hardware::device)
    }

    /// The importer, if it is not the module's.
    fn importer(&self) -> Result<&Arc<Importer>> {
        match &self.road {
            Road::Own(importer) => Ok(importer),
            Road::Exports | Road::Registry => Err(EINVAL),
        }
    }

    /// The books of the driver's own importer.
    pub(crate) fn totals(&self) -> Result<&Totals> {
        Ok(self.importer()?.totals())
    }

    /// What that importer shows of its regions.
    pub(crate) fn described(&self) -> Result<CString> {
        self.importer()?.described()
    }

    /// How many regions that importer lists.
    pub(crate) fn listed(&self) -> Result<usize> {
        Ok(self.importer()?.listed())
    }

    /// Registers a stretch of a buffer, by a file descriptor that is closed at once.
    pub(crate) fn register(&self, exporter: &Exporter, wish: Wish) -> Result<Mr> {
        self.register_fd(Fd::of(exporter)?.number(), wish)
    }

    /// Registers what is behind a number that may be a file descriptor.
    pub(crate) fn register_fd(&self, fd: c_int, wish: Wish) -> Result<Mr> {
        let attr = ib_dmabuf_region_attr {
            dma_device: self.device().map_or(null_mut(), DmaDevice::as_raw),
            offset: wish.offset,
            length: wish.length,
            iova: wish.iova,
            block_sizes: wish.block_sizes,
            fd,
            access: wish.rights.to_c(),
            stats: null_mut(),
        };

        // SAFETY: The attributes are valid for reads, and the device is held by `self`.
        let region: *mut c_void = unsafe {
            match &self.road {
                Road::Own(importer) => {
                    ffi::get(importer, &attr, importer.settings().mode, CDriver::none())?.cast()
                }
                Road::Exports => from_err_ptr(bindings::rdma_dmabuf_get(&attr))?.cast(),
                Road::Registry => from_err_ptr(bindings::ib_dmabuf_region_get(&attr))?.cast(),
            }
        };

        // INVARIANT: As just made, by that road.
        Ok(Mr {
            region: NonNull::new(region).ok_or(EINVAL)?,
            is_of_registry: matches!(self.road, Road::Registry),
            wish,
        })
    }
}

/// A registered memory region.
///
/// # Invariants
///
/// `region` came from `ib_dmabuf_region_get()` if `is_of_registry` says so, else it is what
/// `rdma_dmabuf_get()` returns; it has not been put.
pub(crate) struct Mr {
    region: NonNull<c_void>,
    is_of_registry: bool,
    wish: Wish,
}

// SAFETY: Regions are made for use from any task.
unsafe impl Send for Mr {}

// SAFETY: As above.
unsafe impl Sync for Mr {}

impl Mr {
    /// Begins an access to `length` bytes at `iova`.
    pub(crate) fn access(&self, iova: u64, length: u64) -> Result<Access<'_>> {
        let mut view = MaybeUninit::uninit();

        // SAFETY: The region is alive by the type invariants, and `Access` borrows it; the view is
        // valid for writes.
        to_result(unsafe {
            if self.is_of_registry {
                let region = self.region.cast().as_ptr();
                bindings::ib_dmabuf_access_begin(region, iova, length, view.as_mut_ptr())
            } else {
                let region = self.region.cast().as_ptr();
                bindings::rdma_dmabuf_access_begin(region, iova, length, view.as_mut_ptr())
            }
        })?;

        // INVARIANT: The access was just begun.
        Ok(Access {
            mr: self,
            // SAFETY: Filled on success.
            view: unsafe { view.assume_init() },
            iova,
            length,
            _not_send: NotThreadSafe,
        })
    }

    /// Begins an access to all of the region.
    pub(crate) fn access_all(&self) -> Result<Access<'_>> {
        self.access(self.wish.iova, self.wish.length)
    }

    /// Reads the bytes at `iova`, in an access of their own.
    pub(crate) fn read(&self, iova: u64, bytes: &mut [u8]) -> Result {
        self.access(iova, bytes.len() as u64)?.read(iova, bytes)
    }

    /// Writes the bytes at `iova`, in an access of their own.
    pub(crate) fn write(&self, iova: u64, bytes: &[u8]) -> Result {
        self.access(iova, bytes.len() as u64)?.write(iova, bytes)
    }

    /// Whether each byte of the region reads as what its place in the buffer holds.
    pub(crate) fn shows(&self, exporter: &Exporter) -> Result<bool> {
        let content = exporter.content()?;
        let start = self.wish.offset as usize;
        let length = self.wish.length as usize;
        let mut bytes = KVVec::from_elem(0, length, GFP_KERNEL)?;

        self.read(self.wish.iova, &mut bytes)?;
        Ok(content.get(start..start.saturating_add(length)) == Some(&*bytes))
    }

    /// Ends an access that nobody has begun, on a region of the exports.
    pub(crate) fn end_without_begin(&self) {
        // SAFETY: The region is alive by the type invariants; the misuse is caught.
        unsafe { bindings::rdma_dmabuf_access_end(self.region.cast().as_ptr()) };
    }

    /// Puts the region of the exports while an access is under way.
    pub(crate) fn put_early(&self) {
        // SAFETY: The region is alive by the type invariants; the misuse is caught, so it stays.
        unsafe { bindings::rdma_dmabuf_put(self.region.cast().as_ptr()) };
    }

    /// Puts the region of the exports, and again.
    pub(crate) fn put_twice(self) {
        let region = self.region.cast().as_ptr();

        drop(self);
        // SAFETY: The misuse is caught, by the address alone.
        unsafe { bindings::rdma_dmabuf_put(region) };
    }

    /// Lets no further access succeed.
    pub(crate) fn shutdown(&self) {
        // SAFETY: The region is alive by the type invariants.
        unsafe {
            if self.is_of_registry {
                bindings::ib_dmabuf_region_shutdown(self.region.cast().as_ptr());
            } else {
                bindings::rdma_dmabuf_shutdown(self.region.cast().as_ptr());
            }
        }
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; nobody has a borrow of the region, nor an access then.
        unsafe {
            if self.is_of_registry {
                bindings::ib_dmabuf_region_put(self.region.cast().as_ptr());
            } else {
                bindings::rdma_dmabuf_put(self.region.cast().as_ptr());
            }
        }
    }
}

/// An access under way; ended when it is dropped.
///
/// # Invariants
///
/// The current task has begun the access, and `view` is what it was given.
pub(crate) struct Access<'a> {
    mr: &'a Mr,
    view: ib_dmabuf_view,
    iova: u64,
    length: u64,
    _not_send: NotThreadSafe,
}

impl Access<'_> {
    /// Where each block starts.
    pub(crate) fn blocks(&self) -> &[u64] {
        // SAFETY: By the type invariants, the blocks stay until the access ends.
        unsafe { core::slice::from_raw_parts(self.view.blocks, self.view.nr_blocks as usize) }
    }

    /// Bytes in a block.
    pub(crate) fn block_size(&self) -> u64 {
        1u64.wrapping_shl(self.view.block_shift)
    }

    /// The address of the first block's first byte.
    pub(crate) fn first_iova(&self) -> u64 {
        self.view.iova
    }

    /// Calls `visit` with the address and the range in `0..len` of the bytes at `iova`, block by
    /// block. `EINVAL` beyond the access, `EFAULT` where there is no block.
    fn for_each_piece(
        &self,
        iova: u64,
        len: usize,
        mut visit: impl FnMut(u64, core::ops::Range<usize>),
    ) -> Result {
        let start = iova.checked_sub(self.iova).ok_or(EINVAL)?;
        if start.saturating_add(len as u64) > self.length {
            return Err(EINVAL);
        }

        let mut done = 0;
        while done < len {
            let at = iova
                .wrapping_add(done as u64)
                .checked_sub(self.first_iova())
                .ok_or(EFAULT)?;
            let block = (at / self.block_size()) as usize;
            let offset = at % self.block_size();
            let left = self.block_size().wrapping_sub(offset) as usize;
            let end = len.min(done.saturating_add(left));
            let phys = self.blocks().get(block).ok_or(EFAULT)?;

            visit(phys.wrapping_add(offset), done..end);
            done = end;
        }
        Ok(())
    }

    /// Reads the bytes at `iova`.
    pub(crate) fn read(&self, iova: u64, bytes: &mut [u8]) -> Result {
        self.for_each_piece(iova, bytes.len(), |phys, range| {
            // SAFETY: A piece of a block of the exporter's memory, which stays where it is until
            // the access ends.
            unsafe { copy_from_phys(&mut bytes[range], phys) }
        })
    }

    /// Writes the bytes at `iova`.
    pub(crate) fn write(&self, iova: u64, bytes: &[u8]) -> Result {
        self.for_each_piece(iova, bytes.len(), |phys, range| {
            // SAFETY: As for reading.
            unsafe { copy_to_phys(phys, &bytes[range]) }
        })
    }
}

impl Drop for Access<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; the view goes with `self`.
        unsafe {
            if self.mr.is_of_registry {
                bindings::ib_dmabuf_access_end(self.mr.region.cast().as_ptr());
            } else {
                bindings::rdma_dmabuf_access_end(self.mr.region.cast().as_ptr());
            }
        }
    }
}

/// Tries to register another importer, and undoes it should that succeed.
pub(crate) fn register_another_importer() -> Result {
    const TABLE: &bindings::ib_dmabuf_importer_ops = &bindings::ib_dmabuf_importer_ops {
        owner: null_mut(),
        get: None,
        shutdown: None,
        put: None,
        access_begin: None,
        access_end: None,
        query: None,
    };

    // SAFETY: The table is static, and gone from the registry before anybody can be led to it.
    unsafe {
        to_result(bindings::ib_dmabuf_importer_register(TABLE))?;
        bindings::ib_dmabuf_importer_unregister(TABLE);
    }
    Ok(())
}

/// What user space sees of an error.
pub(crate) fn user_errno(error: Error) -> c_int {
    // SAFETY: Takes any number.
    unsafe { bindings::ib_dmabuf_user_errno(error.to_errno()) }
}
