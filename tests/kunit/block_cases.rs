// SPDX-License-Identifier: GPL-2.0

//! Cases of `blocks.rs`: the best size, the blocks, the place of a byte.

use super::{
    expect,
    seg,
    Verdict, //
};
use crate::{
    blocks::{
        best,
        for_each_block,
        locate,
        BlockError,
        BlockSize, //
    },
    window::{
        Segment,
        TableError,
        Window,
        PAGE_SIZE, //
    },
};

const P: u64 = PAGE_SIZE;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TOP_BIT: u64 = 1 << 63;
/// The last two pages of the 64-bit address space.
const TOP: u64 = u64::MAX - 2 * P + 1;
/// A DMA address, a multiple of every size used here up to 1 GiB.
const A: u64 = GIB;

/// Size and blocks, or the error.
type Cutting<'a> = Result<(u64, &'a [u64]), BlockError>;

const NONE: Cutting<'_> = Err(BlockError::NoUsableSize);
const UNALIGNED: Cutting<'_> = Err(BlockError::Table(TableError::Misaligned));
const NO_ENTRIES: Cutting<'_> = Err(BlockError::Table(TableError::NoEntries));

/// Name, `[offset, length, iova]` of the window, what comes of it.
type Row<'a> = (&'static str, [u64; 3], Cutting<'a>);

/// How a walk over the blocks ended early.
#[derive(Clone, Copy, PartialEq)]
enum Stop {
    Refused(BlockError),
    Differs,
}

impl From<BlockError> for Stop {
    fn from(error: BlockError) -> Stop {
        Stop::Refused(error)
    }
}

/// Walks the blocks of `table`, which must be `blocks`.
fn walk(window: &Window, table: &[Segment], size: BlockSize, blocks: &[u64]) -> Option<Stop> {
    let mut expected = blocks.iter();
    let walked = for_each_block(window.trim(table.iter().copied()), size, |addr| {
        (expected.next() == Some(&addr))
            .then_some(())
            .ok_or(Stop::Differs)
    });
    let missing = expected.next().map(|_| Stop::Differs);
    walked.err().or(missing)
}

fn cut(table: &[Segment], supported: u64, rows: &[Row<'_>]) -> Verdict {
    for (name, [offset, length, iova], expected) in rows {
        let window = Window::new(*offset, *length, *iova).map_err(|_| *name)?;
        let size = best(window.trim(table.iter().copied()), supported);
        match (size, expected) {
            (Ok(size), Ok((bytes, blocks))) => {
                expect(name, size.bytes() == *bytes)?;
                expect(name, size.count(&window) == Ok(blocks.len()))?;
                expect(name, walk(&window, table, size, blocks).is_none())?;
            }
            (got, expected) => expect(name, got.err() == expected.err())?,
        }
    }
    Ok(())
}

/// One entry at `A`.
const ONE: &[Segment] = &[seg(A, 4 * MIB)];

pub(crate) fn size_is_bounded_where_dma_address_and_iova_part() -> Verdict {
    const PAGES: &[u64] = &[A, A + P, A + 2 * P, A + 3 * P];
    const HALVES: &[u64] = &[A, A + 2 * MIB];
    cut(
        ONE,
        P | (4 * P) | (2 * MIB),
        &[
            ("agree", [0, 4 * MIB, 2 * MIB], Ok((2 * MIB, HALVES))),
            ("part at a page", [0, 4 * P, P], Ok((P, PAGES))),
            ("part above a block", [0, 4 * P, 4 * P], Ok((4 * P, &[A]))),
        ],
    )?;
    cut(ONE, 4 * P, &[("no page size", [0, 4 * P, P], NONE)])
}

pub(crate) fn one_block_is_no_larger_than_it_must_be() -> Verdict {
    const OVER_AN_EDGE: [u64; 3] = [15 * P, 2 * P, A + 15 * P];
    cut(
        ONE,
        P | (16 * P) | (2 * MIB) | GIB,
        &[
            ("8 bytes", [0, 8, A], Ok((P, &[A]))),
            ("one byte", [P - 1, 1, A + P - 1], Ok((P, &[A]))),
            ("two pages", [0, 2 * P, A], Ok((16 * P, &[A]))),
            ("over an edge", OVER_AN_EDGE, Ok((2 * MIB, &[A]))),
            ("2 MiB", [0, 2 * MIB, A], Ok((2 * MIB, &[A]))),
        ],
    )
}

pub(crate) fn contiguous_neighbours_share_a_block() -> Verdict {
    const S: u64 = P | (2 * P) | (4 * P);
    cut(
        &[seg(A, P), seg(A + P, P), seg(A + 2 * P, 2 * P)],
        S,
        &[("in order", [0, 4 * P, A], Ok((4 * P, &[A])))],
    )?;
    cut(
        &[seg(A + P, P), seg(A, P)],
        S,
        &[("swapped", [0, 2 * P, A], Ok((P, &[A + P, A])))],
    )?;
    cut(
        &[seg(A, P), seg(A, P)],
        S,
        &[("the same page", [0, 2 * P, A], Ok((P, &[A, A])))],
    )
}

pub(crate) fn gap_must_fall_on_a_block_boundary() -> Verdict {
    const EVEN: &[Segment] = &[seg(A, 2 * P), seg(A + 8 * P, 2 * P)];
    const ODD: &[Segment] = &[seg(A, P), seg(A + 9 * P, 3 * P)];
    const S: u64 = P | (2 * P) | (4 * P);
    const ALL: [u64; 3] = [0, 4 * P, A];
    const PAGES: &[u64] = &[A, A + 9 * P, A + 10 * P, A + 11 * P];
    cut(EVEN, S, &[("does", ALL, Ok((2 * P, &[A, A + 8 * P])))])?;
    cut(ODD, S, &[("does not", ALL, Ok((P, PAGES)))])?;
    cut(ODD, 2 * P, &[("does not, no page size", ALL, NONE)])?;
    cut(ODD, S, &[("before it", [0, P, A], Ok((P, &[A])))])
}

pub(crate) fn first_block_may_start_before_the_window() -> Verdict {
    const INSIDE: [u64; 3] = [P + 0x10, 3 * P, 0x7000_1010];
    const PAGES: &[u64] = &[A + P, A + 2 * P, A + 3 * P, A + 4 * P];
    cut(ONE, 2 * MIB, &[("large", INSIDE, Ok((2 * MIB, &[A])))])?;
    cut(ONE, P, &[("pages", INSIDE, Ok((P, PAGES)))])
}

pub(crate) fn window_may_lie_inside_merged_entries() -> Verdict {
    const SECOND: u64 = A + 2 * MIB;
    const THIRD: u64 = A + 4 * MIB;
    const BLOCKS: &[u64] = &[A, SECOND, THIRD];
    const PAGE: [u64; 3] = [3 * MIB, P, 3 * MIB];
    cut(
        &[seg(A, 2 * MIB), seg(SECOND, 2 * MIB), seg(THIRD, 2 * MIB)],
        P | MIB | (2 * MIB),
        &[
            ("in all", [MIB, 4 * MIB, MIB], Ok((2 * MIB, BLOCKS))),
            ("in the second", PAGE, Ok((P, &[SECOND + MIB]))),
        ],
    )
}

pub(crate) fn sizes_below_the_page_are_never_used() -> Verdict {
    const PAGE: [u64; 3] = [0, P, A];
    cut(ONE, 0, &[("no size", PAGE, NONE)])?;
    cut(ONE, P - 1, &[("only small ones", PAGE, NONE)])?;
    cut(ONE, 2 * P - 1, &[("small ones too", PAGE, Ok((P, &[A])))])?;
    cut(ONE, u64::MAX, &[("every size", [0, 8, A], Ok((P, &[A])))])
}

pub(crate) fn totals_may_exceed_4_gib() -> Verdict {
    const START: u64 = 8 * GIB;
    const LONG: u64 = 4 * GIB - 2 * MIB;
    const FIVE: &[Segment] = &[seg(START, LONG), seg(START + LONG, 5 * GIB - LONG)];
    const BLOCKS: &[u64] = &[START, 9 * GIB, 10 * GIB, 11 * GIB, 12 * GIB];
    const ALL: [u64; 3] = [0, 5 * GIB, 4 * GIB];
    const AT_4_GIB: [u64; 3] = [4 * GIB + 128, 64, 128];
    cut(
        FIVE,
        P | (2 * MIB) | GIB,
        &[("all", ALL, Ok((GIB, BLOCKS)))],
    )?;
    cut(FIVE, P, &[("a page", AT_4_GIB, Ok((P, &[12 * GIB])))])
}

pub(crate) fn blocks_may_be_2_gib() -> Verdict {
    const START: u64 = 8 * GIB;
    const LONG: u64 = 4 * GIB - P;
    const BLOCKS: &[u64] = &[START, START + 2 * GIB];
    cut(
        &[seg(START, LONG), seg(START + LONG, P)],
        P | (2 * MIB) | GIB | (2 * GIB),
        &[("4 GiB", [0, 4 * GIB, 4 * GIB], Ok((2 * GIB, BLOCKS)))],
    )
}

pub(crate) fn windows_may_end_at_the_top_of_the_address_space() -> Verdict {
    const LAST: &[Segment] = &[seg(TOP, 2 * P)];
    const LOW: &[Segment] = &[seg(0, 2 * P)];
    const SPLIT: &[Segment] = &[seg(TOP + P, P), seg(0, P)];
    const W: [u64; 3] = [0, 2 * P, TOP];
    const S: u64 = P | (2 * P);
    cut(LAST, S, &[("one block", W, Ok((2 * P, &[TOP])))])?;
    cut(LAST, P, &[("pages", W, Ok((P, &[TOP, TOP + P])))])?;
    cut(LAST, TOP_BIT, &[("half", W, Ok((TOP_BIT, &[TOP_BIT])))])?;
    cut(LOW, S, &[("low memory", W, Ok((2 * P, &[0])))])?;
    cut(SPLIT, S, &[("no neighbours", W, Ok((P, &[TOP + P, 0])))])
}

pub(crate) fn malformed_tables_have_no_blocks() -> Verdict {
    const SHIFTED: &[Segment] = &[seg(A, P), seg(A + P + 8, P)];
    cut(SHIFTED, P, &[("unaligned", [0, 2 * P, A], UNALIGNED)])?;
    cut(&[], P, &[("empty table", [0, P, A], NO_ENTRIES)])?;
    cut(ONE, P, &[("empty window", [0, 0, A], NONE)])?;

    let window = Window::new(0, 2 * P, A).map_err(|_| "window")?;
    let size = size_for(&window, P).ok_or("size")?;
    let stop = walk(&window, SHIFTED, size, &[A]);
    expect("walk", stop == UNALIGNED.err().map(Stop::Refused))
}

/// A block size of `bytes`: right for any window of a table whose DMA addresses are the iovas.
fn size_for(window: &Window, bytes: u64) -> Option<BlockSize> {
    let identity = seg(window.first_page_iova(), window.pages() * P);
    best(window.trim([identity]), bytes).ok()
}

pub(crate) fn size_of_another_table_is_refused() -> Verdict {
    const REFUSED: Option<Stop> = Some(Stop::Refused(BlockError::OtherTable));
    const B: u64 = 3 * GIB;
    let window = Window::new(0, 4 * P, A).map_err(|_| "window")?;
    let size = size_for(&window, 2 * P).ok_or("size")?;
    let check = |name, table: &[Segment], blocks: &[u64], stop| {
        expect(name, walk(&window, table, size, blocks) == stop)
    };

    let moved = [seg(B, 4 * P)];
    check("moved by whole blocks", &moved, &[B, B + 2 * P], None)?;
    let moved = [seg(B + P, 4 * P)];
    check("moved by a page", &moved, &[], REFUSED)?;
    let split = [seg(A, 2 * P), seg(B, 2 * P)];
    check("split between blocks", &split, &[A, B], None)?;
    let split = [seg(A, P), seg(B + P, 3 * P)];
    check("split in the first block", &split, &[A], REFUSED)?;
    let split = [seg(A, 3 * P), seg(B + P, P)];
    check("split in the last block", &split, &[A, A + 2 * P], REFUSED)
}

pub(crate) fn failing_push_ends_the_walk() -> Verdict {
    let window = Window::new(0, 4 * P, A).map_err(|_| "window")?;
    let size = size_for(&window, P).ok_or("size")?;
    let mut pushes = 0;
    let table = window.trim([seg(A, 4 * P)]);
    let walked = for_each_block(table, size, |_| {
        pushes += 1;
        (pushes < 3).then_some(()).ok_or(Stop::Differs)
    });
    expect("error of the push", walked == Err(Stop::Differs))?;
    expect("third block", pushes == 3)
}

/// Name, iova, `[index, offset, remaining]`.
type Found = (&'static str, u64, Option<[u64; 3]>);

/// Looks bytes up in the window of `length` at `iova`, in blocks of `bytes`.
fn find([length, iova]: [u64; 2], bytes: u64, rows: &[Found]) -> Verdict {
    let window = Window::new(iova % P, length, iova).map_err(|_| "window")?;
    let size = size_for(&window, bytes).ok_or("size")?;
    for (name, at, expected) in rows {
        let place = locate(&window, size, *at).map(|place| {
            let index = place.index.try_into().unwrap_or(u64::MAX);
            [index, place.offset, place.remaining]
        });
        expect(name, place == *expected)?;
    }
    Ok(())
}

pub(crate) fn every_byte_of_the_window_has_a_place() -> Verdict {
    find(
        [3 * P, P + 16],
        P,
        &[
            ("first byte", P + 16, Some([0, 16, P - 16])),
            ("last of a block", 2 * P - 1, Some([0, P - 1, 1])),
            ("first of a block", 2 * P, Some([1, 0, P])),
            ("last byte", 4 * P + 15, Some([3, 15, 1])),
        ],
    )?;
    find(
        [P, 3 * P],
        2 * P,
        &[("half a block", 3 * P, Some([0, P, P]))],
    )
}

pub(crate) fn places_may_lie_beyond_4_gib() -> Verdict {
    const REST: u64 = 2 * MIB - 9;
    find(
        [5 * GIB, GIB],
        2 * MIB,
        &[("beyond 4 GiB", 5 * GIB + 9, Some([2048, 9, REST]))],
    )?;
    find(
        [4 * GIB, GIB],
        2 * GIB,
        &[("last byte of 4 GiB", 5 * GIB - 1, Some([2, GIB - 1, 1]))],
    )
}

pub(crate) fn places_may_lie_at_the_top_of_the_address_space() -> Verdict {
    const AT: u64 = TOP - TOP_BIT;
    find(
        [2 * P, TOP],
        P,
        &[("last byte", u64::MAX, Some([1, P - 1, 1]))],
    )?;
    find(
        [2 * P, TOP],
        TOP_BIT,
        &[("half", TOP, Some([0, AT, 2 * P]))],
    )
}

pub(crate) fn place_ends_with_the_window() -> Verdict {
    find([8, P + 16], P, &[("page", P + 16, Some([0, 16, 8]))])?;
    find([P + 8, P], P, &[("last", 2 * P + 1, Some([1, 1, 7]))])?;
    find(
        [P, 2 * MIB],
        2 * MIB,
        &[("large block", 2 * MIB + 1, Some([0, 1, P - 1]))],
    )
}

pub(crate) fn bytes_outside_the_window_have_no_place() -> Verdict {
    find(
        [P, P + 16],
        P,
        &[("before", P + 15, None), ("after", 2 * P + 16, None)],
    )?;
    find(
        [P, 2 * MIB + P],
        2 * MIB,
        &[("in the first block", 2 * MIB, None)],
    )?;
    find([2 * P, TOP], P, &[("around the top", 0, None)])
}
