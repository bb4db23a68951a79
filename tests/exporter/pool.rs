// SPDX-License-Identifier: GPL-2.0

//! Video memory: a pool of RAM that is reserved, and lent in runs of pages.
//!
//! Memory that nobody has is poisoned, and looked at before it is lent again.

use super::{
    backing::POISON,
    memory::{
        Extent,
        MAX_ORDER, //
    },
    stats::Count, //
};
use crate::window::PAGE_SIZE;
use kernel::{
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// Which pages of the pool are lent.
struct Lent {
    /// For each page of each extent.
    pages: KVec<KVVec<bool>>,
    /// Where to look first: behind what was lent last, so that memory is not lent again at once.
    next: (usize, usize),
}

impl Lent {
    fn set(&mut self, extent: usize, first: usize, count: usize, is_lent: bool) {
        let pages = self.pages.get_mut(extent);

        if let Some(pages) = pages.and_then(|pages| pages.get_mut(first..first + count)) {
            pages.fill(is_lent);
        }
    }
}

/// The pool.
#[pin_data]
pub(crate) struct Pool {
    extents: KVec<Arc<Extent>>,
    // Nothing is allocated within it: it is taken to reclaim memory.
    #[pin]
    lent: Mutex<Lent>,
    /// Pages that somebody wrote to after they were given back.
    pub(crate) late_writes: Count,
}

impl Pool {
    /// Reserves `bytes` of memory, rounded up to whole allocations.
    pub(crate) fn new(bytes: u64) -> Result<Arc<Self>> {
        let extents = Self::reserve(bytes)?;
        let mut pages = KVec::with_capacity(extents.len(), GFP_KERNEL)?;

        for extent in &extents {
            extent.fill(0..extent.bytes(), POISON);
            let count = usize::try_from(extent.bytes() / PAGE_SIZE)?;
            pages.push(KVVec::from_elem(false, count, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                extents,
                lent <- new_mutex!(Lent { pages, next: (0, 0) }, "vram_exporter::lent"),
                late_writes: Count::new(),
            }),
            GFP_KERNEL,
        )
    }

    fn reserve(bytes: u64) -> Result<KVec<Arc<Extent>>> {
        let mut blocks = KVec::new();
        let mut reserved = 0;

        while reserved < bytes {
            let left = (bytes - reserved).div_ceil(PAGE_SIZE).next_power_of_two();
            let block = Extent::new(left.trailing_zeros().min(MAX_ORDER))?;
            reserved += block.bytes();
            blocks.push(block, GFP_KERNEL)?;
        }

        // Neighbours become one, for runs longer than any allocation.
        let mut extents: KVec<Extent> = KVec::new();
        while let Some(block) = Self::take_lowest(&mut blocks) {
            let apart = match extents.last_mut() {
                Some(last) => last.append(block)?,
                None => Some(block),
            };
            if let Some(block) = apart {
                extents.push(block, GFP_KERNEL)?;
            }
        }

        let mut shared = KVec::with_capacity(extents.len(), GFP_KERNEL)?;
        for extent in extents {
            shared.push(Arc::new(extent, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(shared)
    }

    fn take_lowest(blocks: &mut KVec<Extent>) -> Option<Extent> {
        let lowest = blocks
            .iter()
            .enumerate()
            .min_by_key(|(_, block)| block.phys());
        let (index, _) = lowest?;

        blocks.remove(index).ok()
    }

    /// The longest run that the pool could ever lend, in pages.
    pub(crate) fn longest_run(&self) -> u64 {
        let longest = self.extents.iter().map(|extent| extent.bytes()).max();

        // The page behind the run is its guard.
        (longest.unwrap_or(0) / PAGE_SIZE).saturating_sub(1)
    }

    /// Lends `pages` pages in a row, of which the first has an address that is a multiple of
    /// `align` pages. `ENOSPC` if there is no such row.
    pub(crate) fn lend(self: &Arc<Self>, pages: u64, align: u64) -> Result<Loan> {
        let count = usize::try_from(pages)?;
        let mut lent = self.lent.lock();
        let (extent, first) = self.find(&lent, count, align).ok_or(ENOSPC)?;

        lent.set(extent, first, count, true);
        lent.next = (extent, first + count);
        drop(lent);

        let loan = Loan {
            pool: self.clone(),
            extent,
            first,
            pages: count,
        };
        if !loan.memory().is_all(loan.start()..loan.end(), POISON) {
            self.late_writes.add_one();
        }
        Ok(loan)
    }

    fn find(&self, lent: &Lent, pages: usize, align: u64) -> Option<(usize, usize)> {
        let (extent, page) = lent.next;
        let count = self.extents.len();

        // From where the last search ended to the end of all, then from the start.
        self.find_in(lent, extent, page, pages, align).or_else(|| {
            (1..=count).find_map(|ahead| {
                self.find_in(lent, (extent + ahead) % count.max(1), 0, pages, align)
            })
        })
    }

    /// The first row that is free in an extent, from the page `from` on.
    fn find_in(
        &self,
        lent: &Lent,
        extent: usize,
        from: usize,
        pages: usize,
        align: u64,
    ) -> Option<(usize, usize)> {
        let of_extent = lent.pages.get(extent)?;
        let base = self.extents.get(extent)?.phys() / PAGE_SIZE;
        let align_up = |page: usize| {
            let number = base.wrapping_add(page as u64);

            page + (number.next_multiple_of(align.max(1)) - number) as usize
        };
        let mut first = align_up(from);

        while let Some(row) = of_extent.get(first..first.checked_add(pages)?) {
            match row.iter().rposition(|is_lent| *is_lent) {
                None => return Some((extent, first)),
                Some(taken) => first = align_up(first + taken + 1),
            }
        }
        None
    }
}

/// Pages of the pool that are lent until this is dropped.
pub(crate) struct Loan {
    pool: Arc<Pool>,
    extent: usize,
    first: usize,
    pages: usize,
}

impl Loan {
    /// The memory that the pages are in.
    pub(crate) fn memory(&self) -> &Arc<Extent> {
        &self.pool.extents[self.extent]
    }

    /// Where they start in it.
    pub(crate) fn start(&self) -> u64 {
        self.first as u64 * PAGE_SIZE
    }

    fn end(&self) -> u64 {
        (self.first + self.pages) as u64 * PAGE_SIZE
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.memory().fill(self.start()..self.end(), POISON);

        let mut lent = self.pool.lent.lock();
        lent.set(self.extent, self.first, self.pages, false);
    }
}
