// SPDX-License-Identifier: GPL-2.0

//! Strategies: tables in which neighbours touch and blocks fit often enough to matter.

use crate::window::{
    Segment,
    Window,
    PAGE_SIZE, //
};
use proptest::{
    collection::vec,
    prelude::*,
    sample::select, //
};

/// Where an entry lies.
#[derive(Clone, Copy, Debug)]
enum Site {
    /// After the entry before it.
    Next,
    /// Where its DMA address and the window's addresses agree in the low `order` bits.
    Agreeing { order: u32, high: u64 },
    /// At any page.
    Anywhere { page: u64 },
    /// At the top of the DMA address space.
    Top,
}

fn site() -> impl Strategy<Value = Site> {
    prop_oneof![
        6 => Just(Site::Next),
        6 => (12u32..34, 0u64..1 << 20).prop_map(|(order, high)| Site::Agreeing { order, high }),
        2 => (1u64..1 << 30).prop_map(|page| Site::Anywhere { page }),
        1 => Just(Site::Top),
    ]
}

/// A well-formed table, a window that lies in it, sizes that a driver might support.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pub(crate) table: Vec<Segment>,
    pub(crate) window: Window,
    pub(crate) supported: u64,
}

/// Lays out the entries; `base` is the iova that byte 0 of the dma-buf would have.
fn lay_out(entries: &[(u64, Site)], base: u64) -> Vec<Segment> {
    let mut table: Vec<Segment> = Vec::new();
    let mut position = base;
    for (len, site) in entries.iter().copied() {
        let after = table
            .last()
            .and_then(|last| last.addr.checked_add(last.len));
        let addr = match (site, after) {
            (Site::Next, Some(after)) => Some(after),
            (Site::Next, None) => Some(1 << 40),
            (Site::Agreeing { order, high }, _) => {
                Some((high << order) | (position & ((1 << order) - 1)))
            }
            (Site::Anywhere { page }, _) => Some(page * PAGE_SIZE),
            (Site::Top, _) => None,
        };
        let top = (u64::MAX - len) + 1;
        table.push(Segment {
            addr: addr.unwrap_or(top).min(top),
            len,
        });
        position = position.wrapping_add(len);
    }
    table
}

/// Buffers whose entries have lengths out of `lengths`; sizes of the driver out of `orders`.
fn buffers(
    lengths: impl Strategy<Value = u64>,
    entries: core::ops::Range<usize>,
    orders: core::ops::Range<u32>,
) -> impl Strategy<Value = Buffer> {
    let base = prop_oneof![
        (0u64..64).prop_map(|page| page * PAGE_SIZE),
        (12u32..40, 0u64..1 << 20).prop_map(|(order, high)| high << order),
        // Down from the top: see below.
        (0u64..4).prop_map(|pages| u64::MAX - pages),
    ];
    let sizes = vec(orders, 1..5).prop_map(|bits| bits.iter().fold(0, |all, bit| all | (1 << bit)));
    let odd = prop_oneof![8 => Just(0), 1 => any::<u64>(), 1 => 0..PAGE_SIZE];
    let entries = vec((lengths, site()), entries);
    let ends = (any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let snap = (any::<bool>(), any::<bool>());

    (entries, base, sizes, odd, ends, snap).prop_map(|(entries, base, sizes, odd, ends, snap)| {
        let total: u64 = entries.iter().map(|(len, _)| len).sum();
        // A base at the top means: as many pages below the highest place that the buffer fits.
        let base = match u64::MAX - base {
            pages @ 0..4 => (u64::MAX - total - pages * PAGE_SIZE) + 1,
            _ => base,
        };
        let (mut from, mut to) = (pick(ends.0, total), pick(ends.1, total));
        if from > to {
            (from, to) = (to, from);
        }
        if snap.0 {
            from -= from % PAGE_SIZE;
        }
        if snap.1 {
            to = to.next_multiple_of(PAGE_SIZE) - 1;
        }
        Buffer {
            table: lay_out(&entries, base),
            window: Window::new(from, to - from + 1, base + from).expect("a window in the table"),
            supported: sizes | odd,
        }
    })
}

/// A byte below `total`.
fn pick(index: prop::sample::Index, total: u64) -> u64 {
    index.index(total as usize) as u64
}

/// Buffers of up to 36 pages: small enough to look at every byte.
pub(crate) fn small() -> impl Strategy<Value = Buffer> {
    buffers((1u64..7).prop_map(|pages| pages * PAGE_SIZE), 1..7, 12..19)
}

/// Buffers of up to some 24 GiB, with blocks up to 2 GiB.
pub(crate) fn large() -> impl Strategy<Value = Buffer> {
    const LENGTHS: [u64; 9] = [
        PAGE_SIZE,
        1 << 16,
        1 << 21,
        (1 << 21) - PAGE_SIZE,
        1 << 22,
        1 << 30,
        (1 << 30) + (1 << 21),
        1 << 31,
        (1 << 32) - PAGE_SIZE,
    ];
    buffers(select(&LENGTHS[..]), 1..7, 16..32)
}
