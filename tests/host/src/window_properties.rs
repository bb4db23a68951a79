// SPDX-License-Identifier: GPL-2.0

//! Properties of windows and of the trim, against 128-bit numbers and lists of pages.

use crate::{
    oracle, tables,
    window::{
        Segment,
        TableError,
        Window,
        WindowError,
        PAGE_SIZE, //
    },
};
use proptest::prelude::*;

const PAGE: u128 = PAGE_SIZE as u128;
const SPACE: u128 = 1 << 64;

/// Numbers around the places where 64-bit and page arithmetic break.
fn edge() -> impl Strategy<Value = u64> {
    let near = (0u32..64, 0u64..3, 0u64..3)
        .prop_map(|(bit, up, down)| (1u64 << bit).wrapping_add(up).wrapping_sub(down));
    let page = (0u64..8, 0u64..PAGE_SIZE).prop_map(|(page, low)| page * PAGE_SIZE + low);
    let top = (0u64..3 * PAGE_SIZE).prop_map(|down| u64::MAX - down);
    prop_oneof![4 => page, 3 => near, 3 => top, 1 => any::<u64>()]
}

/// An iova for a window at `offset`: mostly one that agrees below the page size.
fn iova(offset: u64) -> impl Strategy<Value = u64> {
    let low = offset % PAGE_SIZE;
    prop_oneof![
        4 => edge().prop_map(move |at| at - at % PAGE_SIZE + low),
        1 => edge(),
    ]
}

/// Offset, length, iova.
fn numbers() -> impl Strategy<Value = (u64, u64, u64)> {
    edge().prop_flat_map(|offset| (Just(offset), edge(), iova(offset)))
}

/// The first check that the numbers fail, in the order of the contract.
fn verdict(offset: u128, length: u128, iova: u128, size: u128) -> Result<(), WindowError> {
    match () {
        () if offset + length >= SPACE => Err(WindowError::Overflow),
        () if iova + length > SPACE => Err(WindowError::Overflow),
        () if offset % PAGE != iova % PAGE => Err(WindowError::Misaligned),
        () if offset + length > size => Err(WindowError::BeyondBuffer),
        () if length == 0 => Err(WindowError::Empty),
        () => Ok(()),
    }
}

/// Pages of a table, by DMA address.
fn flat(table: impl IntoIterator<Item = Segment>) -> Vec<u128> {
    let pages = |entry: Segment| {
        let first = u128::from(entry.addr);
        (first..first + u128::from(entry.len)).step_by(PAGE_SIZE as usize)
    };
    table.into_iter().flat_map(pages).collect()
}

/// What is wrong with an entry by itself.
fn fault(entry: &Segment) -> Option<TableError> {
    let (addr, len) = (u128::from(entry.addr), u128::from(entry.len));
    match () {
        () if len == 0 => Some(TableError::ZeroLength),
        () if addr % PAGE != 0 || len % PAGE != 0 => Some(TableError::Misaligned),
        () if addr + len > SPACE => Some(TableError::Wraps),
        () => None,
    }
}

/// What is wrong with a table, as far as a window that ends at `end` has to read it.
fn first_fault(table: &[Segment], end: u128) -> Option<TableError> {
    let mut read = 0;
    for entry in table {
        if read >= end {
            return None;
        }
        if let Some(error) = fault(entry) {
            return Some(error);
        }
        read += u128::from(entry.len);
    }
    match (read < end, table.is_empty()) {
        (false, _) => None,
        (true, true) => Some(TableError::NoEntries),
        (true, false) => Some(TableError::TooShort),
    }
}

/// One way to spoil a table.
#[derive(Clone, Debug)]
enum Spoil {
    Replace(prop::sample::Index, Segment),
    Truncate(prop::sample::Index),
}

fn spoil() -> impl Strategy<Value = Spoil> {
    let index = any::<prop::sample::Index>();
    let entry = (edge(), edge()).prop_map(|(addr, len)| Segment { addr, len });
    prop_oneof![
        3 => (index.clone(), entry).prop_map(|(at, entry)| Spoil::Replace(at, entry)),
        1 => index.prop_map(Spoil::Truncate),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16384))]

    #[test]
    fn window_is_judged_in_the_order_of_the_contract(
        (offset, length, iova) in numbers(),
        size in edge(),
    ) {
        let judged = Window::new(offset, length, iova).and_then(|w| w.check_buffer(size));
        let wide = [offset, length, iova, size].map(u128::from);
        prop_assert_eq!(judged, verdict(wide[0], wide[1], wide[2], wide[3]));
    }

    #[test]
    fn pages_are_those_that_the_window_touches((offset, length, iova) in numbers()) {
        if let Ok(window) = Window::new(offset, length, iova) {
            let end = u128::from(offset) + u128::from(length);
            let pages = end.div_ceil(PAGE) - u128::from(offset) / PAGE;
            let pages = if length == 0 { 0 } else { pages };
            prop_assert_eq!(u128::from(window.pages()), pages);
        }
    }

    #[test]
    fn access_is_inside_when_all_of_its_bytes_are(
        (offset, length, iova) in numbers(),
        near in (any::<bool>(), 0u64..6, edge()),
        bytes in edge(),
    ) {
        if let Ok(window) = Window::new(offset, length, iova) {
            let from = match near {
                (true, step, _) => iova.wrapping_add(length).wrapping_add(step).wrapping_sub(3),
                (false, _, anywhere) => anywhere,
            };
            let (start, end) = (u128::from(iova), u128::from(iova) + u128::from(length));
            let (at, stop) = (u128::from(from), u128::from(from) + u128::from(bytes));
            prop_assert_eq!(window.contains(from, bytes), start <= at && stop <= end);
            let left = (start..=end).contains(&at).then(|| end - at);
            prop_assert_eq!(window.remaining(from).map(u128::from), left);
        }
    }

    #[test]
    fn trim_keeps_the_pages_of_the_window(buffer in tables::small()) {
        let (table, window) = (&buffer.table, &buffer.window);
        let pieces: Result<Vec<_>, _> = window.trim(table.iter().copied()).collect();
        let pieces = pieces.expect("a well-formed table");

        let first = (u128::from(window.offset()) / PAGE) as usize;
        let expected = &flat(table.iter().copied())[first..][..window.pages() as usize];
        prop_assert_eq!(flat(pieces.iter().copied()), expected);

        // No piece spans two entries, even where they are neighbours.
        let last = window.offset() + window.length() - 1;
        let mut start = 0;
        let touched = table.iter().filter(|entry| {
            let from = start;
            start += entry.len;
            from <= last && window.offset() < start
        });
        prop_assert_eq!(pieces.len(), touched.count());
    }

    #[test]
    fn malformed_table_is_refused_as_far_as_it_is_read(
        buffer in tables::small(),
        spoil in spoil(),
    ) {
        let (mut table, window) = (buffer.table, buffer.window);
        match spoil {
            Spoil::Replace(at, entry) => {
                let at = at.index(table.len());
                table[at] = entry;
            }
            Spoil::Truncate(at) => table.truncate(at.index(table.len())),
        }
        // A window reads on until its last page is there.
        let end = (u128::from(window.offset()) + u128::from(window.length())).next_multiple_of(PAGE);
        let mut pieces = window.trim(table.iter().copied());
        let error = pieces.by_ref().find_map(Result::err);
        prop_assert_eq!(error, first_fault(&table, end));
        prop_assert!(pieces.next().is_none());
        prop_assert!(error.is_some() || oracle::size(&table) >= end);
    }
}
