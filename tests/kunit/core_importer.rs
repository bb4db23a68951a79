// SPDX-License-Identifier: GPL-2.0

//! The importer of the kernel's RDMA core, used as a driver with page faults uses it: the one
//! with which ours is compared.
//!
//! C headers: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h),
//! [`include/rdma/iter.h`](srctree/include/rdma/iter.h)

use super::{
    driver::{
        Driver,
        Wish, //
    },
    vram::memory::{
        copy_from_phys,
        copy_to_phys, //
    },
};
use crate::{
    bindings,
    device::DmaDevice,
    dma_resv::{
        Resv,
        ResvGuard, //
    },
    window::Segment, //
};
use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ops::Range,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::c_int,
    prelude::*,
    scatterlist::SGTable, //
};

static OPS: bindings::dma_buf_attach_ops = bindings::dma_buf_attach_ops {
    allow_peer2peer: false,
    invalidate_mappings: Some(invalidate_callback),
};

/// # Safety
///
/// `attach` is a listed attachment with [`OPS`], whose reservation lock is held.
unsafe extern "C" fn invalidate_callback(attach: *mut bindings::dma_buf_attachment) {
    // SAFETY: By the safety requirements: `ib_umem_dmabuf_get()` attaches with itself as private
    // pointer. Without a table the structure may not be complete yet, and there is nothing to do.
    unsafe {
        let umem = (*attach).importer_priv.cast();
        if !bindings::rdma_dmabuf_test_umem_table(umem).is_null() {
            bindings::ib_umem_dmabuf_unmap_pages(umem);
        }
    }
}

/// An RDMA device of which core sees no more than where it does DMA.
///
/// # Invariants
///
/// `ibdev` was made by `rdma_dmabuf_test_ib_device_new()` for `_device`.
pub(crate) struct Core {
    ibdev: NonNull<bindings::ib_device>,
    _device: DmaDevice,
}

impl Core {
    /// A device that does DMA where the device of `driver` does. `EINVAL` if that has none.
    pub(crate) fn beside(driver: &Driver) -> Result<Self> {
        let device = driver.device().ok_or(EINVAL)?.clone();

        // SAFETY: The device is valid.
        let ibdev = unsafe { bindings::rdma_dmabuf_test_ib_device_new(device.as_raw()) };

        // INVARIANT: As just made.
        Ok(Self {
            ibdev: NonNull::new(ibdev).ok_or(ENOMEM)?,
            _device: device,
        })
    }

    /// Registers what is behind a number that may be a file descriptor; maps nothing yet.
    pub(crate) fn register(&self, fd: c_int, wish: Wish) -> Result<CoreMr<'_>> {
        // SAFETY: The device is valid by the type invariants; the operations are static and made
        // for what the function attaches.
        let umem = unsafe {
            bindings::ib_umem_dmabuf_get(
                self.ibdev.as_ptr(),
                wish.offset as usize,
                wish.length as usize,
                fd,
                wish.rights.to_c(),
                &OPS,
            )
        };

        // SAFETY: As just returned.
        unsafe { CoreMr::new(umem, wish) }
    }

    /// The same with the memory pinned and mapped for good.
    pub(crate) fn register_pinned(&self, fd: c_int, wish: Wish) -> Result<CoreMr<'_>> {
        // SAFETY: The device is valid by the type invariants.
        let umem = unsafe {
            bindings::ib_umem_dmabuf_get_pinned(
                self.ibdev.as_ptr(),
                wish.offset as usize,
                wish.length as usize,
                fd,
                wish.rights.to_c(),
            )
        };

        // SAFETY: As just returned.
        unsafe { CoreMr::new(umem, wish) }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; every MR that points to it borrows `self`.
        unsafe { bindings::rdma_dmabuf_test_ib_device_free(self.ibdev.as_ptr()) };
    }
}

/// A window of a buffer in core's hands.
///
/// # Invariants
///
/// `umem` came from `ib_umem_dmabuf_get()` or a relative and has not been released.
pub(crate) struct CoreMr<'a> {
    umem: NonNull<bindings::ib_umem_dmabuf>,
    wish: Wish,
    _core: PhantomData<&'a Core>,
}

impl CoreMr<'_> {
    /// # Safety
    ///
    /// `umem` is what `ib_umem_dmabuf_get()` or a relative has returned.
    unsafe fn new(umem: *mut bindings::ib_umem_dmabuf, wish: Wish) -> Result<Self> {
        // INVARIANT: By the safety requirements.
        Ok(Self {
            umem: NonNull::new(from_err_ptr(umem)?).ok_or(EINVAL)?,
            wish,
            _core: PhantomData,
        })
    }

    fn as_raw(&self) -> *mut bindings::ib_umem_dmabuf {
        self.umem.as_ptr()
    }

    /// Maps the buffer unless it is mapped, and waits for its fences.
    pub(crate) fn map(&self) -> Result<Mapped<'_>> {
        // SAFETY: The umem is valid by the type invariants, and its buffer and lock are for as
        // long.
        let resv = unsafe {
            Resv::from_raw(bindings::rdma_dmabuf_test_umem_resv(self.as_raw())).lock()
            //
        };

        // SAFETY: The umem is valid and the lock held.
        to_result(unsafe { bindings::ib_umem_dmabuf_map_pages(self.as_raw()) })?;

        // INVARIANT: As just mapped, and the lock is held.
        Ok(Mapped {
            mr: self,
            _resv: resv,
        })
    }

    /// Maps, picks a size and cuts: what a driver does to fill its translation table.
    pub(crate) fn cut(&self) -> Result<Cut> {
        self.map()?.cut()
    }
}

impl Drop for CoreMr<'_> {
    fn drop(&mut self) {
        // SAFETY: The umem is valid by the type invariants, and not used again.
        unsafe { bindings::ib_umem_release(bindings::rdma_dmabuf_test_umem(self.as_raw())) };
    }
}

/// Blocks as core cuts them.
pub(crate) struct Cut {
    /// Bytes in a block.
    pub(crate) size: u64,
    /// How many blocks core says there are.
    pub(crate) count: usize,
    /// Where each block starts.
    pub(crate) blocks: KVVec<u64>,
}

/// A mapping that stays for as long as this object holds the reservation lock.
///
/// # Invariants
///
/// The reservation lock is held, and the umem mapped.
pub(crate) struct Mapped<'a> {
    mr: &'a CoreMr<'a>,
    _resv: ResvGuard<'a>,
}

impl Mapped<'_> {
    fn umem(&self) -> *mut bindings::ib_umem {
        // SAFETY: The umem is valid by the invariants of `CoreMr`.
        unsafe { bindings::rdma_dmabuf_test_umem(self.mr.as_raw()) }
    }

    /// The largest of the wished sizes that is right for the table. `EINVAL` if none is.
    fn best(&self) -> Result<u64> {
        let wish = self.mr.wish;

        // SAFETY: The umem is valid and mapped, by the invariants.
        let size = unsafe {
            bindings::ib_umem_find_best_pgsz(
                self.umem(),
                wish.block_sizes as usize,
                wish.iova, //
            )
        };

        (size != 0).then_some(size as u64).ok_or(EINVAL)
    }

    /// Cuts the window into blocks of the best of the wished sizes. `EINVAL` if none is right.
    pub(crate) fn cut(&self) -> Result<Cut> {
        let size = self.best()?;
        let mut blocks = KVVec::new();
        let mut iter = MaybeUninit::uninit();

        // SAFETY: The umem is valid and mapped; starting makes the iterator whole.
        unsafe {
            bindings::rdma_dmabuf_test_umem_block_iter_start(
                iter.as_mut_ptr(),
                self.umem(),
                size as usize,
            );
        }

        // SAFETY: The iterator has been started, and the table does not go while it is used.
        while unsafe { bindings::rdma_dmabuf_test_umem_block_iter_next(iter.as_mut_ptr()) } {
            // SAFETY: As above; it stands at a block.
            let addr =
                unsafe { bindings::rdma_dmabuf_test_block_iter_dma_address(iter.as_mut_ptr()) };
            blocks.push(addr, GFP_KERNEL)?;
        }

        Ok(Cut {
            size,
            // SAFETY: The umem is valid; the function computes.
            count: unsafe {
                bindings::rdma_dmabuf_test_umem_num_dma_blocks(self.umem(), size as usize)
            },
            blocks,
        })
    }

    /// The table that core was given, as it is now.
    pub(crate) fn table(&self) -> Result<KVec<Segment>> {
        let mut segments = KVec::new();

        // SAFETY: Mapped by the invariants, so there is a table, which does not go meanwhile.
        let table = unsafe {
            SGTable::from_raw(bindings::rdma_dmabuf_test_umem_table(self.mr.as_raw()))
            //
        };
        for entry in table.iter() {
            let segment = Segment {
                addr: entry.dma_address(),
                len: entry.dma_len(),
            };
            segments.push(segment, GFP_KERNEL)?;
        }
        Ok(segments)
    }

    /// Calls `visit` with the address and the range in the window of each piece of a block.
    fn for_each_piece(&self, mut visit: impl FnMut(u64, Range<usize>)) -> Result {
        let Cut { size, blocks, .. } = self.cut()?;
        let wish = self.mr.wish;
        let mut offset = wish.iova & (size - 1);
        let mut done = 0u64;

        for addr in &blocks {
            let end = wish.length.min(done + (size - offset));
            visit(addr + offset, done as usize..end as usize);
            (done, offset) = (end, 0);
        }
        (done == wish.length).then_some(()).ok_or(EFAULT)
    }

    /// Reads the window.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> Result {
        self.for_each_piece(|addr, range| {
            // SAFETY: A piece of the exporter's memory, which stays while the lock is held.
            unsafe { copy_from_phys(&mut bytes[range], addr) }
        })
    }

    /// Writes the window.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result {
        self.for_each_piece(|addr, range| {
            // SAFETY: As for reading.
            unsafe { copy_to_phys(addr, &bytes[range]) }
        })
    }
}
