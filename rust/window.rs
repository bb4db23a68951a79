// SPDX-License-Identifier: GPL-2.0

//! Windows: which bytes of a dma-buf belong to a memory region.
//!
//! A [`Window`] is judged in two steps, since programs read the order of errors: [`Window::new`]
//! before the file descriptor is looked at, [`Window::check_buffer`] once the dma-buf is known.
//! [`Window::trim`] then cuts the exporter's table down to the pages of the window, without ever
//! editing the table.
//!
//! Pure arithmetic on `core` alone: no `unsafe`, no panics, no allocation. All amounts are bytes
//! unless a name says pages, and a range may end at 2^64 but not pass it.

/// Bytes in a page: the unit of every address and length in an exporter's table.
pub(crate) const PAGE_SIZE: u64 = 4096;

/// The page size as a power of two.
const PAGE_SHIFT: u32 = PAGE_SIZE.trailing_zeros();

/// The bits of an address that name a page; the others are the offset within it.
pub(crate) const PAGE_MASK: u64 = !(PAGE_SIZE - 1);

/// Why a window is refused; `EINVAL` towards user space, all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowError {
    /// `offset + length` does not fit in 64 bits, or the window would pass the end of the I/O
    /// virtual address space.
    Overflow,
    /// `offset` and `iova` disagree below the page size (uverbs has the same rule).
    Misaligned,
    /// The window ends beyond the buffer.
    BeyondBuffer,
    /// The window has no byte. Hardware that reads length 0 as "everything" makes this a rule.
    Empty,
}

/// The bytes `offset..offset + length` of a dma-buf, seen by the peer at `iova`.
///
/// # Invariants
///
/// - `offset + length` does not overflow.
/// - `iova + length` is at most 2^64.
/// - `offset` and `iova` are equal modulo [`PAGE_SIZE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    offset: u64,
    length: u64,
    iova: u64,
}

impl Window {
    /// Judges what can be judged before the file descriptor: overflow first, then alignment.
    ///
    /// A length of 0 passes, because programs probe for support with length 0 and a bad file
    /// descriptor and must be told about the latter.
    pub(crate) fn new(offset: u64, length: u64, iova: u64) -> Result<Window, WindowError> {
        if offset.checked_add(length).is_none() {
            return Err(WindowError::Overflow);
        }
        if iova.checked_add(length.saturating_sub(1)).is_none() {
            return Err(WindowError::Overflow);
        }
        if (offset ^ iova) & !PAGE_MASK != 0 {
            return Err(WindowError::Misaligned);
        }

        // INVARIANT: The three checks above are the three invariants.
        Ok(Window {
            offset,
            length,
            iova,
        })
    }

    /// Judges the window against a buffer of `size` bytes: the range first, then the length.
    pub(crate) fn check_buffer(&self, size: u64) -> Result<(), WindowError> {
        // The sum never saturates, by the invariants.
        if self.offset.saturating_add(self.length) > size {
            return Err(WindowError::BeyondBuffer);
        }
        if self.length == 0 {
            return Err(WindowError::Empty);
        }
        Ok(())
    }

    /// Whether all of `iova..iova + length` lies in the window; no sum that could wrap is formed.
    pub(crate) fn contains(&self, iova: u64, length: u64) -> bool {
        self.remaining(iova).is_some_and(|left| length <= left)
    }

    /// Bytes from `iova` to the end of the window; [`None`] if `iova` is outside. The end itself
    /// counts as inside, with 0 bytes left.
    pub(crate) fn remaining(&self, iova: u64) -> Option<u64> {
        self.length.checked_sub(iova.checked_sub(self.iova)?)
    }

    /// First byte of the window, as an offset into the dma-buf.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes in the window.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The I/O virtual address of the window's first byte.
    pub(crate) fn iova(&self) -> u64 {
        self.iova
    }

    /// The I/O virtual address of the window's last byte; [`None`] if it has none.
    pub(crate) fn last_iova(&self) -> Option<u64> {
        self.iova.checked_add(self.length.checked_sub(1)?)
    }

    /// The I/O virtual address of the first byte of the page in which the window starts.
    pub(crate) fn first_page_iova(&self) -> u64 {
        self.iova & PAGE_MASK
    }

    /// Pages that the window touches, from the page of its first byte to that of its last.
    pub(crate) fn pages(&self) -> u64 {
        let Some(span) = self.length.checked_sub(1) else {
            return 0;
        };
        // Neither sum saturates: `offset + length` does not overflow, and a page index is far
        // below 2^64.
        let last = self.offset.saturating_add(span) >> PAGE_SHIFT;
        last.saturating_sub(self.offset >> PAGE_SHIFT)
            .saturating_add(1)
    }

    /// Cuts a table, given as its entries in order, down to the pages of the window.
    pub(crate) fn trim<I>(&self, table: I) -> Trimmed<I::IntoIter>
    where
        I: IntoIterator<Item = Segment>,
    {
        // INVARIANT: Nothing was read from `table` yet.
        Trimmed {
            table: table.into_iter(),
            window: *self,
            before: self.offset >> PAGE_SHIFT,
            wanted: self.pages(),
            started: false,
        }
    }
}

/// One DMA-contiguous piece of a dma-buf, as the exporter's table gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// DMA address of the first byte.
    pub(crate) addr: u64,
    /// Length in bytes.
    pub(crate) len: u64,
}

impl Segment {
    /// Checks what the dma-buf contract promises of an entry; core itself checks it only under
    /// DMA API debugging.
    fn check(self) -> Result<Segment, TableError> {
        let Some(span) = self.len.checked_sub(1) else {
            return Err(TableError::ZeroLength);
        };
        if (self.addr | self.len) & !PAGE_MASK != 0 {
            return Err(TableError::Misaligned);
        }
        if self.addr.checked_add(span).is_none() {
            return Err(TableError::Wraps);
        }
        Ok(self)
    }
}

/// How an exporter's table breaks the dma-buf contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableError {
    /// The table has no entry at all, as after a mapping that failed without an error.
    NoEntries,
    /// An entry has no byte.
    ZeroLength,
    /// An entry's address or length is no multiple of [`PAGE_SIZE`].
    Misaligned,
    /// An entry passes the end of the DMA address space.
    Wraps,
    /// The table ends before the window does.
    TooShort,
}

/// The part of a table that covers the pages of a window; see [`Window::trim`].
///
/// Yields the entries in order, the first and the last cut to the window's pages, or one error
/// and then nothing. Entries after the window are not read. One entry in is at most one out:
/// neighbours are not merged.
///
/// # Invariants
///
/// `before` and `wanted` count pages of the part of the table that was not read yet: first
/// `before` pages in front of the window, then `wanted` pages of it.
pub(crate) struct Trimmed<I> {
    table: I,
    window: Window,
    before: u64,
    wanted: u64,
    started: bool,
}

impl<I> Trimmed<I> {
    /// The window to which the table is cut.
    pub(crate) fn window(&self) -> &Window {
        &self.window
    }

    /// Cuts one checked entry; [`None`] if it lies in front of the window.
    fn cut(&mut self, entry: Segment) -> Option<Segment> {
        let pages = entry.len >> PAGE_SHIFT;
        let skipped = pages.min(self.before);
        let taken = pages.saturating_sub(skipped).min(self.wanted);

        // INVARIANT: The entry's pages leave both counts; neither `min` lets one go below 0.
        self.before = self.before.saturating_sub(skipped);
        self.wanted = self.wanted.saturating_sub(taken);

        // No bit is shifted out and the sum does not wrap: both are pages within the entry.
        (taken != 0).then(|| Segment {
            addr: entry.addr.saturating_add(skipped << PAGE_SHIFT),
            len: taken << PAGE_SHIFT,
        })
    }
}

impl<I: Iterator<Item = Segment>> Trimmed<I> {
    /// Reads the next entry of the table, which must have one.
    fn entry(&mut self) -> Result<Segment, TableError> {
        let missing = if self.started {
            TableError::TooShort
        } else {
            TableError::NoEntries
        };
        self.started = true;
        self.table.next().ok_or(missing)?.check()
    }
}

impl<I: Iterator<Item = Segment>> Iterator for Trimmed<I> {
    type Item = Result<Segment, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.wanted != 0 {
            match self.entry() {
                Ok(entry) => {
                    if let Some(piece) = self.cut(entry) {
                        return Some(Ok(piece));
                    }
                }
                Err(error) => {
                    // Nothing after a malformed entry can be trusted.
                    self.wanted = 0;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

#[cfg(any(test, CONFIG_RDMA_DMABUF_KUNIT_TEST))]
#[cfg_attr(
    CONFIG_RDMA_DMABUF_KUNIT_TEST,
    kernel::prelude::kunit_tests(rdma_dmabuf_window)
)]
mod tests {
    use crate::arithmetic_cases::{
        told,
        window as cases,
        Verdict, //
    };

    #[test]
    fn zero_length_is_einval() -> Verdict {
        told(cases::zero_length_is_einval())
    }

    #[test]
    fn zero_length_is_judged_after_the_buffer_is_known() -> Verdict {
        told(cases::zero_length_is_judged_after_the_buffer_is_known())
    }

    #[test]
    fn offset_plus_length_must_not_wrap() -> Verdict {
        told(cases::offset_plus_length_must_not_wrap())
    }

    #[test]
    fn iova_may_reach_the_top_but_not_wrap() -> Verdict {
        told(cases::iova_may_reach_the_top_but_not_wrap())
    }

    #[test]
    fn offset_and_iova_must_agree_below_the_page() -> Verdict {
        told(cases::offset_and_iova_must_agree_below_the_page())
    }

    #[test]
    fn overflow_is_judged_before_alignment() -> Verdict {
        told(cases::overflow_is_judged_before_alignment())
    }

    #[test]
    fn range_beyond_the_buffer_is_einval() -> Verdict {
        told(cases::range_beyond_the_buffer_is_einval())
    }

    #[test]
    fn windows_smaller_than_a_page_touch_whole_pages() -> Verdict {
        told(cases::windows_smaller_than_a_page_touch_whole_pages())
    }

    #[test]
    fn access_must_stay_inside_the_window() -> Verdict {
        told(cases::access_must_stay_inside_the_window())
    }

    #[test]
    fn access_check_cannot_wrap() -> Verdict {
        told(cases::access_check_cannot_wrap())
    }

    #[test]
    fn trim_skips_what_lies_before_the_window() -> Verdict {
        told(cases::trim_skips_what_lies_before_the_window())
    }

    #[test]
    fn trim_of_last_block_stops_at_the_window() -> Verdict {
        told(cases::trim_of_last_block_stops_at_the_window())
    }

    #[test]
    fn one_entry_can_be_first_and_last() -> Verdict {
        told(cases::one_entry_can_be_first_and_last())
    }

    #[test]
    fn both_ends_can_be_cut() -> Verdict {
        told(cases::both_ends_can_be_cut())
    }

    #[test]
    fn trim_finds_pages_above_4_gib() -> Verdict {
        told(cases::trim_finds_pages_above_4_gib())
    }

    #[test]
    fn entries_after_the_window_are_not_read() -> Verdict {
        told(cases::entries_after_the_window_are_not_read())
    }

    #[test]
    fn malformed_entries_are_refused() -> Verdict {
        told(cases::malformed_entries_are_refused())
    }

    #[test]
    fn malformed_entries_are_refused_wherever_they_are_read() -> Verdict {
        told(cases::malformed_entries_are_refused_wherever_they_are_read())
    }

    #[test]
    fn table_must_cover_the_window() -> Verdict {
        told(cases::table_must_cover_the_window())
    }
}
