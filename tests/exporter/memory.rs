// SPDX-License-Identifier: GPL-2.0

//! Physical memory: stretches of pages, and what the CPU sees in them.
//!
//! C headers: [`include/linux/gfp.h`](srctree/include/linux/gfp.h),
//! [`include/linux/vmalloc.h`](srctree/include/linux/vmalloc.h)

use crate::{
    bindings,
    window::{
        Segment,
        PAGE_SIZE, //
    },
};
use core::{
    ffi::c_void,
    ops::Range,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The largest number of pages that one allocation gives, as a power of two.
pub(crate) const MAX_ORDER: u32 = 10;

/// Pages that were allocated in one go.
///
/// # Invariants
///
/// `page` is an allocation of order `order`, owned by this object.
struct Block {
    page: NonNull<bindings::page>,
    order: u32,
}

// SAFETY: Pages have no tie to a task.
unsafe impl Send for Block {}

// SAFETY: A block only says where the pages are.
unsafe impl Sync for Block {}

impl Block {
    fn new(order: u32) -> Result<Self> {
        // SAFETY: Allocates; the result is checked.
        let page = unsafe { bindings::vram_exporter_helper_alloc(order) };

        // INVARIANT: As just allocated.
        Ok(Self {
            page: NonNull::new(page).ok_or(ENOMEM)?,
            order,
        })
    }

    fn phys(&self) -> u64 {
        // SAFETY: The page is valid by the type invariants.
        unsafe { bindings::rdma_dmabuf_helper_page_to_phys(self.page.as_ptr()) }
    }

    fn bytes(&self) -> u64 {
        PAGE_SIZE.wrapping_shl(self.order)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: The allocation is ours, by the type invariants.
        unsafe { bindings::__free_pages(self.page.as_ptr(), self.order) };
    }
}

/// A stretch of physical memory.
///
/// # Invariants
///
/// The blocks follow each other without a gap, from `phys` on for `bytes`, which is not 0.
pub(crate) struct Extent {
    phys: u64,
    bytes: u64,
    blocks: KVec<Block>,
}

impl Extent {
    /// Allocates 2^`order` pages.
    pub(crate) fn new(order: u32) -> Result<Self> {
        let block = Block::new(order)?;
        let (phys, bytes) = (block.phys(), block.bytes());
        let mut blocks = KVec::with_capacity(1, GFP_KERNEL)?;
        blocks.push(block, GFP_KERNEL)?;

        // INVARIANT: One block has no gap.
        Ok(Self {
            phys,
            bytes,
            blocks,
        })
    }

    /// Takes over the memory of `next`, or gives it back if it does not follow this one's.
    pub(crate) fn append(&mut self, mut next: Self) -> Result<Option<Self>> {
        if self.phys.wrapping_add(self.bytes) != next.phys {
            return Ok(Some(next));
        }

        self.blocks.reserve(next.blocks.len(), GFP_KERNEL)?;
        while let Some(block) = next.blocks.pop() {
            // The order within the list means nothing.
            self.blocks.push(block, GFP_KERNEL)?;
        }
        // INVARIANT: `next` starts where this one ended.
        self.bytes = self.bytes.wrapping_add(next.bytes);
        Ok(None)
    }

    /// The physical address of the first byte.
    pub(crate) fn phys(&self) -> u64 {
        self.phys
    }

    /// Bytes in the stretch.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The address of `len` bytes at `at`, [`None`] unless all of them are in the stretch.
    fn place(&self, at: u64, len: u64) -> Option<u64> {
        let end = at.checked_add(len)?;

        (end <= self.bytes).then(|| self.phys.wrapping_add(at))
    }

    /// Reads the bytes at `at`.
    pub(crate) fn read(&self, at: u64, to: &mut [u8]) -> Result {
        let from = self.place(at, to.len() as u64).ok_or(EINVAL)?;

        // SAFETY: The range is within memory of ours.
        unsafe { copy_from_phys(to, from) };
        Ok(())
    }

    /// Writes the bytes at `at`.
    pub(crate) fn write(&self, at: u64, from: &[u8]) -> Result {
        let to = self.place(at, from.len() as u64).ok_or(EINVAL)?;

        // SAFETY: The range is within memory of ours.
        unsafe { copy_to_phys(to, from) };
        Ok(())
    }

    /// Copies `len` bytes at `from_at` of another stretch to `at`.
    pub(crate) fn copy(&self, at: u64, from: &Self, from_at: u64, len: u64) -> Result {
        let to = self.place(at, len).ok_or(EINVAL)?;
        let from = from.place(from_at, len).ok_or(EINVAL)?;

        // SAFETY: Both ranges are within memory of ours.
        unsafe { bindings::vram_exporter_helper_copy(to, from, len as usize) };
        Ok(())
    }

    /// Fills a range with one byte; what is beyond the end is left out.
    pub(crate) fn fill(&self, range: Range<u64>, byte: u8) {
        let len = range.end.saturating_sub(range.start);

        if let Some(to) = self.place(range.start, len) {
            // SAFETY: The range is within memory of ours.
            unsafe { bindings::vram_exporter_helper_fill(to, byte, len as usize) };
        }
    }

    /// Whether a range within the stretch holds nothing but one byte.
    pub(crate) fn is_all(&self, range: Range<u64>, byte: u8) -> bool {
        let len = range.end.saturating_sub(range.start);

        self.place(range.start, len).is_some_and(|from| {
            // SAFETY: The range is within memory of ours.
            unsafe { bindings::vram_exporter_helper_is_all(from, byte, len as usize) }
        })
    }
}

/// Whole pages of an extent, which they keep.
///
/// # Invariants
///
/// `start` and `bytes` are multiples of the page size, and lie within `memory`.
pub(crate) struct Stretch {
    memory: Arc<Extent>,
    start: u64,
    bytes: u64,
}

impl Stretch {
    /// `EINVAL` unless the range is one of whole pages of `memory`.
    pub(crate) fn new(memory: Arc<Extent>, start: u64, bytes: u64) -> Result<Self> {
        let is_of_pages = (start | bytes) % PAGE_SIZE == 0;

        memory
            .place(start, bytes)
            .filter(|_| is_of_pages)
            .ok_or(EINVAL)?;
        // INVARIANT: As checked.
        Ok(Self {
            memory,
            start,
            bytes,
        })
    }

    pub(crate) fn memory(&self) -> &Arc<Extent> {
        &self.memory
    }

    /// The bytes of the extent.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.start.wrapping_add(self.bytes)
    }

    /// Physical address and length.
    pub(crate) fn segment(&self) -> Segment {
        Segment {
            addr: self.memory.phys.wrapping_add(self.start),
            len: self.bytes,
        }
    }

    /// The physical addresses of the pages.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u64> + Clone {
        let segment = self.segment();

        (0..segment.len / PAGE_SIZE)
            .map(move |page| segment.addr.wrapping_add(page.wrapping_mul(PAGE_SIZE)))
    }
}

/// Memory in use, which is not freed before this is dropped.
pub(crate) struct Keep(KVVec<Arc<Extent>>);

impl Keep {
    pub(crate) fn new<'a>(stretches: impl Iterator<Item = &'a Stretch>) -> Result<Self> {
        let mut extents: KVVec<Arc<Extent>> = KVVec::new();

        for stretch in stretches {
            let is_kept = extents
                .last()
                .is_some_and(|last| Arc::ptr_eq(last, &stretch.memory));

            if !is_kept {
                extents.push(stretch.memory.clone(), GFP_KERNEL)?;
            }
        }
        Ok(Self(extents))
    }
}

/// Reads physical memory.
///
/// # Safety
///
/// `phys` is the start of `to.len()` bytes of RAM that is in use by an exporter.
pub(crate) unsafe fn copy_from_phys(to: &mut [u8], phys: u64) {
    // SAFETY: By the safety requirements.
    unsafe { bindings::vram_exporter_helper_read(to.as_mut_ptr().cast(), phys, to.len()) };
}

/// Writes physical memory.
///
/// # Safety
///
/// `phys` is the start of `from.len()` bytes of RAM that is in use by an exporter.
pub(crate) unsafe fn copy_to_phys(phys: u64, from: &[u8]) {
    // SAFETY: By the safety requirements.
    unsafe { bindings::vram_exporter_helper_write(phys, from.as_ptr().cast(), from.len()) };
}

/// Memory as one piece of kernel addresses; until it is dropped.
///
/// # Invariants
///
/// `addr` came from `vmap()` of pages that `_keep` keeps.
pub(crate) struct KernelMap {
    addr: NonNull<c_void>,
    _keep: Keep,
}

// SAFETY: Kernel addresses are the same in every task.
unsafe impl Send for KernelMap {}

impl KernelMap {
    pub(crate) fn new<'a>(stretches: impl Iterator<Item = &'a Stretch> + Clone) -> Result<Self> {
        let keep = Keep::new(stretches.clone())?;
        let mut pages = KVVec::new();

        for phys in stretches.flat_map(Stretch::pages) {
            // SAFETY: There is a page, by the invariants of stretches.
            let page = unsafe { bindings::vram_exporter_helper_phys_to_page(phys) };

            pages.push(page, GFP_KERNEL)?;
        }

        // SAFETY: An array of so many valid pages.
        let addr = unsafe {
            bindings::vram_exporter_helper_vmap(pages.as_mut_ptr(), u32::try_from(pages.len())?)
        };

        // INVARIANT: As just mapped.
        Ok(Self {
            addr: NonNull::new(addr).ok_or(ENOMEM)?,
            _keep: keep,
        })
    }

    /// Where the first byte is.
    pub(crate) fn addr(&self) -> NonNull<c_void> {
        self.addr
    }
}

impl Drop for KernelMap {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::vram_exporter_helper_vunmap(self.addr.as_ptr()) };
    }
}
