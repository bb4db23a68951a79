// SPDX-License-Identifier: GPL-2.0

//! The oracle: what a window over a table means, byte by byte, in 128-bit numbers.
//!
//! It knows nothing of trimming, merging, masks or shifts.

use crate::window::{
    Segment,
    Window,
    PAGE_SIZE, //
};

const PAGE: u128 = PAGE_SIZE as u128;

/// The DMA address of byte `at` of a dma-buf; `None` past its end.
pub(crate) fn dma(table: &[Segment], at: u128) -> Option<u128> {
    let mut start = 0;
    for entry in table {
        let end = start + u128::from(entry.len);
        if at < end {
            return Some(u128::from(entry.addr) + (at - start));
        }
        start = end;
    }
    None
}

/// Bytes in a dma-buf.
pub(crate) fn size(table: &[Segment]) -> u128 {
    table.iter().map(|entry| u128::from(entry.len)).sum()
}

/// A page of a window: where the peer sees it, where it is.
#[derive(Clone, Copy)]
pub(crate) struct Page {
    pub(crate) iova: u128,
    pub(crate) dma: u128,
}

/// The pages of a window; the table must be long enough.
pub(crate) fn pages(table: &[Segment], window: &Window) -> Vec<Page> {
    let (offset, iova) = (u128::from(window.offset()), u128::from(window.iova()));
    let end = offset + u128::from(window.length());
    let mut pages = Vec::new();
    let mut at = offset - offset % PAGE;
    while at < end {
        pages.push(Page {
            iova: (iova + at) - offset,
            dma: dma(table, at).expect("the table covers the window"),
        });
        at += PAGE;
    }
    pages
}

/// Whether blocks of `bytes` lead every page of the window to its own place: each block has one
/// start, a multiple of its size, from which all of its pages are at the right distance.
pub(crate) fn right(pages: &[Page], bytes: u128) -> bool {
    let start = |page: &Page| page.dma.checked_sub(page.iova % bytes);
    let aligned = pages
        .iter()
        .all(|page| start(page).is_some_and(|start| start % bytes == 0));
    let agree = pages
        .windows(2)
        .all(|two| two[0].iova / bytes != two[1].iova / bytes || start(&two[0]) == start(&two[1]));
    aligned && agree
}

/// Blocks of `bytes` that the window touches.
pub(crate) fn count(window: &Window, bytes: u128) -> u128 {
    let first = u128::from(window.iova());
    let end = first + u128::from(window.length());
    end.div_ceil(bytes) - first / bytes
}

/// Page sizes of a bitmap that a kernel with these pages can use.
pub(crate) fn usable(supported: u64) -> impl Iterator<Item = u128> {
    (0..64)
        .filter(move |bit| supported & (1 << bit) != 0)
        .map(|bit| 1 << bit)
        .filter(|bytes| *bytes >= PAGE)
}

/// The best block size: the largest right one, but if that is one block for the whole window, the
/// smallest right one that is.
pub(crate) fn best(pages: &[Page], window: &Window, supported: u64) -> Option<u128> {
    let sizes: Vec<u128> = usable(supported).filter(|b| right(pages, *b)).collect();
    let whole = sizes.iter().find(|b| count(window, **b) == 1);
    whole.or(sizes.last()).copied()
}
