// SPDX-License-Identifier: GPL-2.0

//! The memory of an exported buffer: runs of real pages, laid out as a case wants them.
//!
//! C header: [`include/linux/gfp.h`](srctree/include/linux/gfp.h)

use crate::{
    bindings,
    window::{
        Segment,
        PAGE_SIZE, //
    },
};
use core::ptr::NonNull;
use kernel::prelude::*;

/// What the pages around a run hold; nobody may write there.
const GUARD: u8 = 0xa5;

/// What memory holds that was taken away from the importer.
const POISON: u8 = 0x6b;

/// Bytes that are looked at in one go.
const CHUNK: usize = 512;

/// What the buffer holds at `offset` at first: no two pages are alike, nor two neighbours.
pub(crate) fn pattern(offset: u64) -> u8 {
    let page = offset / PAGE_SIZE;

    (offset.wrapping_mul(7) ^ page.wrapping_mul(41).wrapping_add(offset >> 8)) as u8
}

/// Reads physical memory.
///
/// # Safety
///
/// `phys` is the start of `to.len()` bytes of RAM that is in use by the tests.
pub(super) unsafe fn copy_from_phys(to: &mut [u8], phys: u64) {
    // SAFETY: By the safety requirements.
    unsafe { bindings::rdma_dmabuf_test_copy_from_phys(to.as_mut_ptr().cast(), phys, to.len()) };
}

/// Writes physical memory.
///
/// # Safety
///
/// `phys` is the start of `from.len()` bytes of RAM that is in use by the tests.
pub(super) unsafe fn copy_to_phys(phys: u64, from: &[u8]) {
    // SAFETY: By the safety requirements.
    unsafe { bindings::rdma_dmabuf_test_copy_to_phys(phys, from.as_ptr().cast(), from.len()) };
}

/// Contiguous pages, the first of an allocation twice as large: two runs are never neighbours, and
/// the rest stands guard.
///
/// # Invariants
///
/// `page` is an allocation of order `order`, owned by this object, which starts at `phys`. Its
/// second half or more is guard: `bytes` is at most half of it.
struct Run {
    page: NonNull<bindings::page>,
    order: u32,
    phys: u64,
    bytes: u64,
}

// SAFETY: Pages have no tie to a task.
unsafe impl Send for Run {}

impl Run {
    fn new(pages: u64) -> Result<Self> {
        let order = pages.next_power_of_two().trailing_zeros().wrapping_add(1);

        // SAFETY: Allocates; the result is checked.
        let page = unsafe { bindings::alloc_pages(bindings::GFP_KERNEL, order) };
        let page = NonNull::new(page).ok_or(ENOMEM)?;

        // INVARIANT: As just allocated; the order has room for twice the pages.
        let run = Self {
            page,
            order,
            // SAFETY: The page is valid.
            phys: unsafe { bindings::rdma_dmabuf_helper_page_to_phys(page.as_ptr()) },
            bytes: pages.wrapping_mul(PAGE_SIZE),
        };

        run.fill(0, run.capacity(), GUARD);
        Ok(run)
    }

    fn capacity(&self) -> u64 {
        PAGE_SIZE.wrapping_shl(self.order)
    }

    /// Calls `visit` with the address and length of each piece of `from..to`.
    fn for_each_chunk(&self, from: u64, to: u64, mut visit: impl FnMut(u64, usize)) {
        let to = to.min(self.capacity());

        for at in (from..to).step_by(CHUNK) {
            visit(
                self.phys.wrapping_add(at),
                to.wrapping_sub(at).min(CHUNK as u64) as usize,
            );
        }
    }

    fn fill(&self, from: u64, to: u64, byte: u8) {
        let bytes = [byte; CHUNK];

        self.for_each_chunk(from, to, |phys, len| {
            // SAFETY: The chunk lies within the allocation.
            unsafe { copy_to_phys(phys, &bytes[..len]) }
        });
    }

    fn is_all(&self, from: u64, to: u64, byte: u8) -> bool {
        let mut bytes = [0; CHUNK];
        let mut is_all = true;

        self.for_each_chunk(from, to, |phys, len| {
            // SAFETY: The chunk lies within the allocation.
            unsafe { copy_from_phys(&mut bytes[..len], phys) };
            is_all &= bytes[..len].iter().all(|it| *it == byte);
        });
        is_all
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // SAFETY: The allocation is ours, by the type invariants.
        unsafe { bindings::__free_pages(self.page.as_ptr(), self.order) };
    }
}

/// All memory of a buffer.
pub(super) struct Backing {
    runs: KVec<Run>,
}

impl Backing {
    /// Allocates a run of so many pages for each number in `layout`.
    pub(super) fn new(layout: &[u64]) -> Result<Self> {
        let mut runs = KVec::with_capacity(layout.len(), GFP_KERNEL)?;

        for pages in layout {
            runs.push(Run::new(*pages)?, GFP_KERNEL)?;
        }
        Ok(Self { runs })
    }

    /// Other memory of the same layout.
    pub(super) fn again(&self) -> Result<Self> {
        let mut runs = KVec::with_capacity(self.runs.len(), GFP_KERNEL)?;

        for run in &self.runs {
            runs.push(Run::new(run.bytes / PAGE_SIZE)?, GFP_KERNEL)?;
        }
        Ok(Self { runs })
    }

    /// Bytes in the buffer.
    pub(super) fn size(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    /// The runs by their physical addresses.
    pub(super) fn segments(&self) -> impl Iterator<Item = Segment> + Clone + '_ {
        self.runs.iter().map(|run| Segment {
            addr: run.phys,
            len: run.bytes,
        })
    }

    /// Where the byte at `offset` is, and how many follow it in its run.
    pub(super) fn place(&self, offset: u64) -> Option<(u64, u64)> {
        let mut rest = offset;

        for run in &self.runs {
            if rest < run.bytes {
                return Some((run.phys.wrapping_add(rest), run.bytes.wrapping_sub(rest)));
            }
            rest = rest.wrapping_sub(run.bytes);
        }
        None
    }

    /// Calls `visit` with the address and the range in `0..len` of each piece of the bytes at
    /// `offset`. `EINVAL` beyond the end.
    fn for_each_piece(
        &self,
        offset: u64,
        len: usize,
        mut visit: impl FnMut(u64, core::ops::Range<usize>),
    ) -> Result {
        let mut done = 0;

        while done < len {
            let (phys, left) = self.place(offset.wrapping_add(done as u64)).ok_or(EINVAL)?;
            let end = len.min(done.saturating_add(left as usize));

            visit(phys, done..end);
            done = end;
        }
        Ok(())
    }

    /// Reads the bytes at `offset`.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result {
        self.for_each_piece(offset, bytes.len(), |phys, range| {
            // SAFETY: The piece lies within a run.
            unsafe { copy_from_phys(&mut bytes[range], phys) }
        })
    }

    /// Writes the bytes at `offset`.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result {
        self.for_each_piece(offset, bytes.len(), |phys, range| {
            // SAFETY: The piece lies within a run.
            unsafe { copy_to_phys(phys, &bytes[range]) }
        })
    }

    /// Overwrites all of it, as an exporter that gives the memory to somebody else.
    pub(super) fn poison(&self) {
        for run in &self.runs {
            run.fill(0, run.bytes, POISON);
        }
    }

    /// Whether nobody has written to it since it was poisoned.
    pub(super) fn is_poison(&self) -> bool {
        self.runs.iter().all(|run| run.is_all(0, run.bytes, POISON))
    }

    /// Whether nobody has written around it.
    pub(super) fn is_guarded(&self) -> bool {
        self.runs
            .iter()
            .all(|run| run.is_all(run.bytes, run.capacity(), GUARD))
    }
}
