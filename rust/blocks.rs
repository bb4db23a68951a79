// SPDX-License-Identifier: GPL-2.0

//! Blocks: a window as an array of equal, naturally aligned pieces of DMA address space.
//!
//! What a translation table in hardware wants, and what makes a look-up by address O(1). Block
//! `i` of a window stands for the I/O virtual addresses from `align_down(iova, size) + i * size`
//! on. The first block may therefore start before the window and the last end after it:
//! [`Window::contains`] says which of their bytes belong to the region.
//!
//! Sizes, counts and addresses are those of `ib_umem_find_best_pgsz()`,
//! `ib_umem_num_dma_blocks()` and `rdma_umem_for_each_dma_block()`, with one difference: sizes
//! below the page size are never used.
//!
//! Pure arithmetic on `core` alone: no `unsafe`, no panics, no allocation. All amounts are bytes.

use crate::window::{
    Segment,
    TableError,
    Trimmed,
    Window,
    PAGE_MASK, //
};

/// Why a window cannot be cut into blocks; `EINVAL` towards user space, all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockError {
    /// The exporter's table is malformed.
    Table(TableError),
    /// No size that the driver supports is right for this table, or the window is empty.
    NoUsableSize,
    /// The size was chosen for another table: its blocks would not be contiguous here.
    OtherTable,
    /// The number of blocks does not fit in a `usize`.
    TooMany,
}

/// The size of a window's blocks.
///
/// # Invariants
///
/// The number of bytes is a power of two, at least [`PAGE_SIZE`](crate::window::PAGE_SIZE), and
/// one of the sizes that the driver supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockSize(u64);

impl BlockSize {
    /// Blocks of 2^`shift` bytes, for a driver that was given the shift.
    #[cfg(CONFIG_RDMA_DMABUF_KUNIT_TEST)]
    pub(crate) fn of_shift(shift: u32) -> Result<BlockSize, BlockError> {
        // INVARIANT: One bit, not below the page size.
        1u64.checked_shl(shift)
            .filter(|bytes| bytes & PAGE_MASK != 0)
            .map(BlockSize)
            .ok_or(BlockError::NoUsableSize)
    }

    /// The size in bytes.
    pub(crate) fn bytes(self) -> u64 {
        self.0
    }

    /// The size as a power of two.
    pub(crate) fn shift(self) -> u32 {
        self.0.trailing_zeros()
    }

    /// Blocks that the window touches: `(align_up(iova + length) - align_down(iova)) / size`,
    /// computed from the last byte so that a window may end at 2^64.
    pub(crate) fn count(self, window: &Window) -> Result<usize, BlockError> {
        let Some(last) = window.last_iova() else {
            return Ok(0);
        };
        self.number(last)
            .checked_sub(self.number(window.iova()))
            .and_then(|more| more.checked_add(1))
            .and_then(|count| usize::try_from(count).ok())
            .ok_or(BlockError::TooMany)
    }

    /// The start of the block with `iova`.
    pub(crate) fn align_down(self, iova: u64) -> u64 {
        iova & !self.offset_mask()
    }

    /// The bits of an address that are the offset within a block.
    fn offset_mask(self) -> u64 {
        self.0.wrapping_sub(1)
    }

    /// The number of the block with `iova`, counted from address 0.
    fn number(self, iova: u64) -> u64 {
        // The shift is below 64, by the invariant; wrapping spares the check.
        iova.wrapping_shr(self.shift())
    }
}

/// The best block size for a trimmed table, out of the bitmap `supported` (bit `n`: 2^`n` bytes).
///
/// The largest size for which every block is contiguous, but no larger than the smallest that
/// holds the whole window in one block.
pub(crate) fn best<I>(table: Trimmed<I>, supported: u64) -> Result<BlockSize, BlockError>
where
    I: Iterator<Item = Segment>,
{
    let window = *table.window();
    let last = window.last_iova().ok_or(BlockError::NoUsableSize)?;
    let usable = supported & PAGE_MASK;

    // A block may not be larger than the lowest bit of `limit`. Address bits that stay the same
    // all through the window, as block sizes: each would be one block.
    let varying = u64::BITS.saturating_sub((window.iova() ^ last).leading_zeros());
    let mut limit = usable & u64::MAX.checked_shl(varying).unwrap_or(0);
    for_each_run(table, |run| {
        limit |= run.boundary();
        Ok::<(), BlockError>(())
    })?;

    // Every bit up to and including the lowest one of `limit`; all bits if it has none.
    let allowed = limit ^ limit.wrapping_sub(1);
    let shift = (usable & allowed)
        .checked_ilog2()
        .ok_or(BlockError::NoUsableSize)?;

    // INVARIANT: One bit of `usable`, which has neither bits below the page size nor bits that
    // are not in `supported`.
    1u64.checked_shl(shift)
        .map(BlockSize)
        .ok_or(BlockError::NoUsableSize)
}

/// Calls `push` with the DMA address of each block of `size`, in order, until one call fails.
///
/// The calls are [`BlockSize::count`] many. The size is checked against the table again, since a
/// block that is not contiguous would lead to memory of someone else.
pub(crate) fn for_each_block<I, E, F>(
    table: Trimmed<I>,
    size: BlockSize,
    mut push: F,
) -> Result<(), E>
where
    I: Iterator<Item = Segment>,
    E: From<BlockError>,
    F: FnMut(u64) -> Result<(), E>,
{
    for_each_run(table, |run| {
        if run.boundary() & size.offset_mask() != 0 {
            return Err(BlockError::OtherTable.into());
        }
        let mut block = Some(run.addr & !size.offset_mask());
        while let Some(addr) = block.filter(|addr| *addr <= run.last) {
            push(addr)?;
            block = addr.checked_add(size.bytes());
        }
        Ok(())
    })
}

/// Where an I/O virtual address lies in the blocks of a window.
#[cfg(any(test, CONFIG_RDMA_DMABUF_KUNIT_TEST))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Index of the block.
    pub(crate) index: usize,
    /// Bytes from the start of the block.
    pub(crate) offset: u64,
    /// Bytes from there to the end of the block or of the window, whichever comes first; never 0.
    pub(crate) remaining: u64,
}

/// Finds the byte at `iova`; [`None`] if it is not in the window.
///
/// What a driver does with the blocks, hence what their tests need. The drivers of today are C.
#[cfg(any(test, CONFIG_RDMA_DMABUF_KUNIT_TEST))]
pub(crate) fn locate(window: &Window, size: BlockSize, iova: u64) -> Option<Place> {
    let in_window = window.remaining(iova).filter(|left| *left != 0)?;
    let index = size
        .number(iova)
        .checked_sub(size.number(window.iova()))
        .and_then(|index| usize::try_from(index).ok())?;
    let offset = iova & size.offset_mask();
    let in_block = size.bytes().checked_sub(offset)?;

    Some(Place {
        index,
        offset,
        remaining: in_block.min(in_window),
    })
}

/// A longest piece of a trimmed table whose entries are neighbours in DMA address space, in order.
///
/// # Invariants
///
/// `addr` and `iova` are page-aligned; `addr` is at most `last`.
struct Run {
    /// I/O virtual address of the first byte.
    iova: u64,
    /// DMA address of the first byte.
    addr: u64,
    /// DMA address of the last byte.
    last: u64,
    /// Whether the window starts in this run.
    first: bool,
}

impl Run {
    /// The address bits in which no block of the run may have freedom: the lowest one that is set
    /// bounds the block size.
    ///
    /// Within a block, DMA address and I/O virtual address agree. Where the run does not begin
    /// with the window, a block ends, so the I/O virtual address there is a multiple of the size.
    fn boundary(&self) -> u64 {
        let joint = if self.first { 0 } else { self.iova };
        (self.addr ^ self.iova) | joint
    }

    /// Takes in the entry if it starts where the run ends.
    fn extend(&mut self, entry: Segment) -> bool {
        let neighbour = self.last.checked_add(1) == Some(entry.addr);
        if neighbour {
            // The sum does not saturate: entries of a trimmed table do not pass 2^64.
            self.last = self.last.saturating_add(entry.len);
        }
        neighbour
    }
}

/// Calls `visit` with each run of the table, in order, until one call fails.
fn for_each_run<I, E, F>(table: Trimmed<I>, mut visit: F) -> Result<(), E>
where
    I: Iterator<Item = Segment>,
    E: From<BlockError>,
    F: FnMut(&Run) -> Result<(), E>,
{
    let mut iova = table.window().first_page_iova();
    let mut open: Option<Run> = None;

    for entry in table {
        let entry = entry.map_err(BlockError::Table)?;
        if !open.as_mut().is_some_and(|run| run.extend(entry)) {
            let begun = Run {
                iova,
                addr: entry.addr,
                last: entry.addr.saturating_add(entry.len.saturating_sub(1)),
                first: open.is_none(),
            };
            if let Some(ended) = open.replace(begun) {
                visit(&ended)?;
            }
        }
        // Wraps only after the last entry of a window that ends at 2^64.
        iova = iova.wrapping_add(entry.len);
    }
    open.map_or(Ok(()), |run| visit(&run))
}

#[cfg(any(test, CONFIG_RDMA_DMABUF_KUNIT_TEST))]
#[cfg_attr(
    CONFIG_RDMA_DMABUF_KUNIT_TEST,
    kernel::prelude::kunit_tests(rdma_dmabuf_blocks)
)]
mod tests {
    use crate::arithmetic_cases::{
        blocks as cases,
        told,
        Verdict, //
    };

    #[test]
    fn size_is_bounded_where_dma_address_and_iova_part() -> Verdict {
        told(cases::size_is_bounded_where_dma_address_and_iova_part())
    }

    #[test]
    fn one_block_is_no_larger_than_it_must_be() -> Verdict {
        told(cases::one_block_is_no_larger_than_it_must_be())
    }

    #[test]
    fn contiguous_neighbours_share_a_block() -> Verdict {
        told(cases::contiguous_neighbours_share_a_block())
    }

    #[test]
    fn gap_must_fall_on_a_block_boundary() -> Verdict {
        told(cases::gap_must_fall_on_a_block_boundary())
    }

    #[test]
    fn first_block_may_start_before_the_window() -> Verdict {
        told(cases::first_block_may_start_before_the_window())
    }

    #[test]
    fn window_may_lie_inside_merged_entries() -> Verdict {
        told(cases::window_may_lie_inside_merged_entries())
    }

    #[test]
    fn sizes_below_the_page_are_never_used() -> Verdict {
        told(cases::sizes_below_the_page_are_never_used())
    }

    #[test]
    fn totals_may_exceed_4_gib() -> Verdict {
        told(cases::totals_may_exceed_4_gib())
    }

    #[test]
    fn blocks_may_be_2_gib() -> Verdict {
        told(cases::blocks_may_be_2_gib())
    }

    #[test]
    fn windows_may_end_at_the_top_of_the_address_space() -> Verdict {
        told(cases::windows_may_end_at_the_top_of_the_address_space())
    }

    #[test]
    fn malformed_tables_have_no_blocks() -> Verdict {
        told(cases::malformed_tables_have_no_blocks())
    }

    #[test]
    fn size_of_another_table_is_refused() -> Verdict {
        told(cases::size_of_another_table_is_refused())
    }

    #[test]
    fn failing_push_ends_the_walk() -> Verdict {
        told(cases::failing_push_ends_the_walk())
    }

    #[test]
    fn every_byte_of_the_window_has_a_place() -> Verdict {
        told(cases::every_byte_of_the_window_has_a_place())
    }

    #[test]
    fn places_may_lie_beyond_4_gib() -> Verdict {
        told(cases::places_may_lie_beyond_4_gib())
    }

    #[test]
    fn places_may_lie_at_the_top_of_the_address_space() -> Verdict {
        told(cases::places_may_lie_at_the_top_of_the_address_space())
    }

    #[test]
    fn place_ends_with_the_window() -> Verdict {
        told(cases::place_ends_with_the_window())
    }

    #[test]
    fn bytes_outside_the_window_have_no_place() -> Verdict {
        told(cases::bytes_outside_the_window_have_no_place())
    }
}
