// SPDX-License-Identifier: GPL-2.0

//! The field's rule for the best page size and its blocks, restated from what
//! `ib_umem_find_best_pgsz()` and the DMA block iterator promise; entries are not merged and
//! nothing is masked.

use crate::{
    oracle::usable,
    window::{
        Segment,
        Window,
        PAGE_SIZE, //
    },
};

/// An entry within the window's pages, in 128-bit numbers.
struct Piece {
    iova: u128,
    addr: u128,
    len: u128,
    /// Whether it begins where the entry before it ends. An entry that ends at 2^64 has no such
    /// neighbour.
    follows: bool,
}

/// The entries of a table, cut to the window's pages.
fn pieces(table: &[Segment], window: &Window) -> Vec<Piece> {
    let page = u128::from(PAGE_SIZE);
    let offset = u128::from(window.offset());
    let from = offset / page * page;
    let to = (offset + u128::from(window.length())).next_multiple_of(page);
    let mut pieces: Vec<Piece> = Vec::new();
    let mut start = 0;
    for entry in table {
        let end = start + u128::from(entry.len);
        let (first, last) = (from.max(start), to.min(end));
        if first < last {
            let addr = u128::from(entry.addr) + (first - start);
            let before = pieces.last().map(|piece| piece.addr + piece.len);
            pieces.push(Piece {
                iova: u128::from(window.iova()) + first - offset,
                addr,
                len: last - first,
                follows: before == Some(addr),
            });
        }
        start = end;
    }
    pieces
}

/// The best size: the largest for which
/// - it is no larger than the smallest supported size that holds the whole range,
/// - address and iova agree below it wherever an entry does not follow the one before,
/// - the iova there is a multiple of it, except at the start of the range.
pub(crate) fn best(table: &[Segment], window: &Window, supported: u64) -> Option<u128> {
    let first = u128::from(window.iova());
    let last = first + u128::from(window.length()) - 1;
    let cap = usable(supported).find(|size| first / size == last / size);
    let pieces = pieces(table, window);
    let page = u128::from(PAGE_SIZE);
    let fits = |size: u128| {
        pieces.iter().enumerate().all(|(i, piece)| {
            let iova = piece.iova / page * page;
            let agree = piece.addr % size == iova % size;
            piece.follows || (agree && (i == 0 || iova % size == 0))
        })
    };
    usable(supported)
        .filter(|size| cap.is_none_or(|cap| *size <= cap))
        .filter(|size| fits(*size))
        .last()
}

/// The blocks: one each time the walk over the bytes enters a new multiple of the size, with the
/// address there rounded down.
pub(crate) fn blocks(table: &[Segment], window: &Window, size: u128) -> Vec<u64> {
    let mut blocks = Vec::new();
    let mut covered = 0;
    for piece in pieces(table, window) {
        let end = piece.iova + piece.len;
        let mut at = piece.iova.max(covered);
        while at < end {
            let addr = piece.addr + (at - piece.iova);
            blocks.push((addr / size * size) as u64);
            covered = (at / size + 1) * size;
            at = covered;
        }
    }
    blocks
}

/// `ALIGN(iova + length)` less `ALIGN_DOWN(iova)`, in blocks.
pub(crate) fn count(window: &Window, size: u128) -> u128 {
    let iova = u128::from(window.iova());
    let end = (iova + u128::from(window.length())).next_multiple_of(size);
    (end - iova / size * size) / size
}
