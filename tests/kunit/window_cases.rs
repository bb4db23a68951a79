// SPDX-License-Identifier: GPL-2.0

//! Cases of `window.rs`: the judgement of a window, the access check, the trim of a table.

use super::{
    expect,
    seg,
    Verdict, //
};
use crate::window::{
    Segment,
    TableError,
    Window,
    WindowError,
    PAGE_SIZE, //
};

const P: u64 = PAGE_SIZE;
const GIB: u64 = 1 << 30;
const MAX: u64 = u64::MAX;
/// The last page of the 64-bit address space.
const TOP: u64 = MAX - P + 1;
/// DMA addresses, far apart.
const A: u64 = 8 * GIB;
const B: u64 = 16 * GIB;
const C: u64 = 24 * GIB;

/// Name, `[offset, length, iova, size of the buffer]`, verdict after both steps.
type Judged = (&'static str, [u64; 4], Result<(), WindowError>);

const FINE: Result<(), WindowError> = Ok(());
const OVERFLOW: Result<(), WindowError> = Err(WindowError::Overflow);
const MISALIGNED: Result<(), WindowError> = Err(WindowError::Misaligned);
const BEYOND_BUFFER: Result<(), WindowError> = Err(WindowError::BeyondBuffer);
const EMPTY: Result<(), WindowError> = Err(WindowError::Empty);

fn judge(rows: &[Judged]) -> Verdict {
    for (name, [offset, length, iova, size], verdict) in rows {
        let window = Window::new(*offset, *length, *iova);
        expect(name, window.and_then(|w| w.check_buffer(*size)) == *verdict)?;
    }
    Ok(())
}

pub(crate) fn zero_length_is_einval() -> Verdict {
    judge(&[
        ("start of the buffer", [0, 0, 0, P], EMPTY),
        ("end of the buffer", [P, 0, 0, P], EMPTY),
        ("in a page", [100, 0, 100, P], EMPTY),
        ("last iova", [P - 1, 0, MAX, P], EMPTY),
        ("empty buffer", [0, 0, 0, 0], EMPTY),
    ])
}

pub(crate) fn zero_length_is_judged_after_the_buffer_is_known() -> Verdict {
    expect("probing call", Window::new(0, 0, 0).is_ok())?;
    judge(&[("range", [2 * P, 0, 0, P], BEYOND_BUFFER)])
}

pub(crate) fn offset_plus_length_must_not_wrap() -> Verdict {
    judge(&[
        ("by one byte", [1, MAX, 1, P], OVERFLOW),
        ("to zero", [TOP, P, 0, P], OVERFLOW),
        ("to the middle", [TOP, 2 * P, 0, P], OVERFLOW),
        ("not quite", [TOP, P - 1, 0, P], BEYOND_BUFFER),
        ("everything", [0, MAX, 0, P], BEYOND_BUFFER),
    ])
}

pub(crate) fn iova_may_reach_the_top_but_not_wrap() -> Verdict {
    judge(&[
        ("last page", [0, P, TOP, P], FINE),
        ("last byte", [P - 1, 1, MAX, P], FINE),
        ("one byte too many", [0, P + 1, TOP, 2 * P], OVERFLOW),
        ("one page too many", [0, 2 * P, TOP, 2 * P], OVERFLOW),
    ])
}

pub(crate) fn offset_and_iova_must_agree_below_the_page() -> Verdict {
    judge(&[
        ("iova 0", [0x200, P, 0, 16 * P], MISALIGNED),
        ("offset 0", [0, P, 0x200, 16 * P], MISALIGNED),
        ("by one byte", [P, P, P + 1, 16 * P], MISALIGNED),
        ("low bits agree", [0x200, P, 0x1000_0200, 16 * P], FINE),
        ("plain offsets as addresses", [0, 16 * P, 0, 16 * P], FINE),
    ])
}

pub(crate) fn overflow_is_judged_before_alignment() -> Verdict {
    judge(&[
        ("offset", [1, MAX, 2, P], OVERFLOW),
        ("iova", [0, P, MAX, P], OVERFLOW),
        ("alignment before range", [1, P, 2, 0], MISALIGNED),
    ])
}

pub(crate) fn range_beyond_the_buffer_is_einval() -> Verdict {
    judge(&[
        ("one byte too long", [0, P + 1, 0, P], BEYOND_BUFFER),
        ("one page too far", [P, 4 * P, 0, 4 * P], BEYOND_BUFFER),
        ("an address", [0x7f33_7260_0000, P, 0, P], BEYOND_BUFFER),
        ("empty buffer", [0, 1, 0, 0], BEYOND_BUFFER),
        ("exactly the buffer", [0, 4 * P, 0, 4 * P], FINE),
        ("its last byte", [4 * P - 1, 1, P - 1, 4 * P], FINE),
        ("beyond 4 GiB", [4 * GIB + 128, 64, 128, 5 * GIB], FINE),
    ])
}

pub(crate) fn windows_smaller_than_a_page_touch_whole_pages() -> Verdict {
    for (name, [offset, length], pages) in [
        ("no byte", [100, 0], 0),
        ("one byte", [0, 1], 1),
        ("8 bytes in a page", [100, 8], 1),
        ("2 bytes over an edge", [P - 1, 2], 2),
        ("a page, shifted", [1, P], 2),
        ("up to the edge", [P - 8, 8], 1),
        ("all there could be", [0, MAX], MAX / P + 1),
    ] {
        let window = Window::new(offset, length, offset);
        expect(name, window.is_ok_and(|w| w.pages() == pages))?;
    }
    Ok(())
}

/// Name, `[iova, length]` of the window, `[iova, length]` of the access, whether it may run.
type Access = (&'static str, [u64; 2], [u64; 2], bool);

fn access(rows: &[Access]) -> Verdict {
    for (name, [iova, length], [from, bytes], allowed) in rows {
        let window = Window::new(iova % P, *length, *iova);
        let inside = window.is_ok_and(|w| w.contains(*from, *bytes));
        expect(name, inside == *allowed)?;
    }
    Ok(())
}

pub(crate) fn access_must_stay_inside_the_window() -> Verdict {
    access(&[
        ("all of it", [0x1010, 100], [0x1010, 100], true),
        ("first byte", [0x1010, 100], [0x1010, 1], true),
        ("last byte", [0x1010, 100], [0x1073, 1], true),
        ("byte before", [0x1010, 100], [0x100f, 1], false),
        ("from the byte before", [0x1010, 100], [0x100f, 100], false),
        ("byte after", [0x1010, 100], [0x1074, 1], false),
        ("one byte too long", [0x1010, 100], [0x1010, 101], false),
        ("over the end", [0x1010, 100], [0x1073, 2], false),
        ("nothing, at the end", [0x1010, 100], [0x1074, 0], true),
        ("nothing, after the end", [0x1010, 100], [0x1075, 0], false),
        ("empty window", [0x1010, 0], [0x1010, 1], false),
    ])
}

pub(crate) fn access_check_cannot_wrap() -> Verdict {
    access(&[
        ("length wraps to the end", [P, P], [P + 1, MAX], false),
        ("sum is zero", [0, P], [MAX, 1], false),
        ("window at the top", [TOP, P], [TOP, P], true),
        ("last byte of all", [TOP, P], [MAX, 1], true),
        ("past the top", [TOP, P], [MAX, 2], false),
        ("after the top", [TOP, P], [0, 1], false),
    ])
}

/// The pieces that a window leaves of a table, or the error that ends them.
type Pieces<'a> = Result<&'a [Segment], TableError>;

const NO_ENTRIES: Pieces<'_> = Err(TableError::NoEntries);
const NO_LENGTH: Pieces<'_> = Err(TableError::ZeroLength);
const UNALIGNED: Pieces<'_> = Err(TableError::Misaligned);
const WRAPS: Pieces<'_> = Err(TableError::Wraps);
const TOO_SHORT: Pieces<'_> = Err(TableError::TooShort);

/// Name, `[offset, length]` of the window, what is left of the table.
type Cut<'a> = (&'static str, [u64; 2], Pieces<'a>);

fn trim(table: &[Segment], rows: &[Cut<'_>]) -> Verdict {
    for (name, [offset, length], expected) in rows {
        let window = Window::new(*offset, *length, *offset).map_err(|_| *name)?;
        let mut pieces = window.trim(table.iter().copied());
        match expected {
            Ok(expected) => {
                let same = expected.iter().all(|e| pieces.next() == Some(Ok(*e)));
                expect(name, same)?;
            }
            Err(error) => {
                expect(name, pieces.find(Result::is_err) == Some(Err(*error)))?;
            }
        }
        expect(name, pieces.next().is_none())?;
    }
    Ok(())
}

/// Two entries of 3 and 5 pages, no neighbours, at `A` and `B`.
const TWO: &[Segment] = &[seg(A, 3 * P), seg(B, 5 * P)];
/// One entry of 1 MiB.
const ONE: &[Segment] = &[seg(A, 256 * P)];

pub(crate) fn trim_skips_what_lies_before_the_window() -> Verdict {
    trim(
        TWO,
        &[
            ("one entry", [3 * P, 5 * P], Ok(&[seg(B, 5 * P)])),
            ("one page", [P, 2 * P], Ok(&[seg(A + P, 2 * P)])),
            ("an entry and a page", [4 * P, P], Ok(&[seg(B + P, P)])),
            ("all but a byte", [8 * P - 1, 1], Ok(&[seg(B + 4 * P, P)])),
        ],
    )?;
    trim(
        &[seg(A, P), seg(B, P), seg(C, P)],
        &[("two entries", [2 * P, P], Ok(&[seg(C, P)]))],
    )
}

pub(crate) fn trim_of_last_block_stops_at_the_window() -> Verdict {
    const BOTH: Pieces<'_> = Ok(&[seg(A, 3 * P), seg(B, P)]);
    trim(
        TWO,
        &[
            ("in the first entry", [0, P], Ok(&[seg(A, P)])),
            ("at the end of an entry", [0, 3 * P], Ok(&[seg(A, 3 * P)])),
            ("in the second entry", [0, 4 * P], BOTH),
            ("within a page", [0, 3 * P + 1], BOTH),
            ("at the end of the table", [0, 8 * P], Ok(TWO)),
        ],
    )
}

pub(crate) fn one_entry_can_be_first_and_last() -> Verdict {
    trim(
        ONE,
        &[
            ("one page", [3 * P, P], Ok(&[seg(A + 3 * P, P)])),
            ("one byte", [3 * P + 7, 1], Ok(&[seg(A + 3 * P, P)])),
            ("over an edge", [3 * P - 1, 2], Ok(&[seg(A + 2 * P, 2 * P)])),
            ("no byte", [3 * P, 0], Ok(&[])),
        ],
    )
}

pub(crate) fn both_ends_can_be_cut() -> Verdict {
    const PIECES: &[Segment] = &[seg(A + 2 * P, P), seg(B, P)];
    trim(TWO, &[("both ends", [2 * P, 2 * P], Ok(PIECES))])
}

pub(crate) fn trim_finds_pages_above_4_gib() -> Verdict {
    const FIRST: Segment = seg(A, 4 * GIB - P);
    trim(
        &[FIRST, seg(C, 4 * GIB - P)],
        &[
            ("5 GiB", [0, 5 * GIB], Ok(&[FIRST, seg(C, GIB + P)])),
            ("at 4 GiB", [4 * GIB + 128, 64], Ok(&[seg(C + P, P)])),
            ("at 4 GiB - 1", [4 * GIB - 1, 1], Ok(&[seg(C, P)])),
        ],
    )
}

pub(crate) fn entries_after_the_window_are_not_read() -> Verdict {
    trim(
        &[seg(A, 2 * P), seg(1, 0)],
        &[
            ("entry used up", [0, 2 * P], Ok(&[seg(A, 2 * P)])),
            ("entry cut", [0, 1], Ok(&[seg(A, P)])),
            ("a byte more", [0, 2 * P + 1], NO_LENGTH),
        ],
    )
}

pub(crate) fn malformed_entries_are_refused() -> Verdict {
    trim(&[seg(A, 0)], &[("no byte", [0, P], NO_LENGTH)])?;
    trim(&[seg(A + 8, P)], &[("address", [0, P], UNALIGNED)])?;
    trim(&[seg(A, P + 8)], &[("length", [0, P], UNALIGNED)])?;
    trim(&[seg(A, 8)], &[("below a page", [0, 8], UNALIGNED)])?;
    trim(&[seg(TOP, 2 * P)], &[("wraps", [0, P], WRAPS)])?;
    trim(
        &[seg(TOP, P)],
        &[("ends at the top", [0, P], Ok(&[seg(TOP, P)]))],
    )
}

pub(crate) fn malformed_entries_are_refused_wherever_they_are_read() -> Verdict {
    const EMPTY_FIRST: &[Segment] = &[seg(A, 0), seg(B, P)];
    const ODD_LAST: &[Segment] = &[seg(A, P), seg(B + 1, P)];
    trim(EMPTY_FIRST, &[("skipped", [0, P], NO_LENGTH)])?;
    trim(ODD_LAST, &[("last", [P, P], UNALIGNED)])?;
    trim(ODD_LAST, &[("not read", [0, P], Ok(&[seg(A, P)]))])
}

pub(crate) fn table_must_cover_the_window() -> Verdict {
    trim(&[], &[("no entries", [0, 1], NO_ENTRIES)])?;
    trim(
        TWO,
        &[
            ("one byte short", [0, 8 * P + 1], TOO_SHORT),
            ("all before the window", [8 * P, 1], TOO_SHORT),
            ("all there could be", [0, MAX], TOO_SHORT),
        ],
    )
}
