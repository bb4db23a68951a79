// SPDX-License-Identifier: GPL-2.0

//! Properties of blocks: every byte in its own place, no better size left, the field's own rule.

use crate::{
    blocks::{
        best,
        for_each_block,
        locate,
        BlockError,
        BlockSize, //
    },
    core_rule, oracle,
    tables::{
        self,
        Buffer, //
    },
    window::{
        Segment,
        Window,
        PAGE_SIZE, //
    },
};
use proptest::{
    prelude::*,
    test_runner::TestCaseResult, //
};

fn best_size(buffer: &Buffer) -> Result<BlockSize, BlockError> {
    best(
        buffer.window.trim(buffer.table.iter().copied()),
        buffer.supported,
    )
}

fn blocks_of(buffer: &Buffer, size: BlockSize) -> Result<Vec<u64>, BlockError> {
    let mut blocks = Vec::new();
    let table = buffer.window.trim(buffer.table.iter().copied());
    for_each_block(table, size, |addr| {
        blocks.push(addr);
        Ok(())
    })?;
    Ok(blocks)
}

/// The size of `bytes`, whatever table it will be used on.
fn size_of(bytes: u64) -> BlockSize {
    let page = Segment {
        addr: 0,
        len: PAGE_SIZE,
    };
    let window = Window::new(0, PAGE_SIZE, 0).expect("a page");
    best(window.trim([page]), bytes).expect("a size for one page")
}

/// Checks byte `i` of the window: its place leads to its own DMA address, and so do the bytes that
/// the place says remain.
fn check_byte(buffer: &Buffer, size: BlockSize, blocks: &[u64], i: u64) -> TestCaseResult {
    let window = &buffer.window;
    let place = locate(window, size, window.iova() + i);
    let place = place.ok_or_else(|| TestCaseError::fail(format!("byte {i} has no place")))?;

    let at = u128::from(window.offset()) + u128::from(i);
    let through_block = u128::from(blocks[place.index]) + u128::from(place.offset);
    prop_assert_eq!(
        oracle::dma(&buffer.table, at),
        Some(through_block),
        "byte {}",
        i
    );

    // What the C contract tells drivers to compute.
    let index = (window.iova() + i - size.align_down(window.iova())) >> size.shift();
    prop_assert_eq!(place.index as u64, index, "byte {}", i);

    let in_block = size.bytes() - place.offset;
    let in_window = window.length() - i;
    prop_assert_eq!(place.remaining, in_block.min(in_window), "byte {}", i);
    Ok(())
}

/// Checks that the blocks are multiples of the size and as many as were announced, and that the
/// bytes next to the window have no place.
fn check_frame(buffer: &Buffer, size: BlockSize, blocks: &[u64]) -> TestCaseResult {
    let window = &buffer.window;
    prop_assert!(blocks.iter().all(|addr| addr % size.bytes() == 0));
    prop_assert_eq!(size.bytes(), 1 << size.shift());
    prop_assert_eq!(size.count(window), Ok(blocks.len()));
    prop_assert_eq!(
        oracle::count(window, size.bytes().into()),
        blocks.len() as u128
    );
    let before = window.iova().wrapping_sub(1);
    let after = window.iova().wrapping_add(window.length());
    for outside in [before, after] {
        prop_assert_eq!(locate(window, size, outside), None);
    }
    Ok(())
}

/// Bytes of the window at the edges of its entries, of its blocks and of itself.
fn edges(buffer: &Buffer, size: BlockSize) -> Vec<u64> {
    let window = &buffer.window;
    let mut starts = vec![0, window.length()];
    let mut start = 0u64;
    for entry in &buffer.table {
        starts.extend(start.checked_sub(window.offset()));
        start += entry.len;
    }
    let lead = (size.bytes() - 1) & window.iova();
    for block in [1, 2, 3, 5, 8, 13, 1 << 10, 1 << 20] {
        let start = block * u128::from(size.bytes()) - u128::from(lead);
        starts.extend(u64::try_from(start).ok());
    }
    let around = |at: u64| [at.wrapping_sub(1), at, at.wrapping_add(1)];
    let inside = |at: &u64| *at < window.length();
    starts.into_iter().flat_map(around).filter(inside).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn every_byte_of_the_window_is_in_its_own_place(buffer in tables::small()) {
        if let Ok(size) = best_size(&buffer) {
            let blocks = blocks_of(&buffer, size).expect("the table of the size");
            check_frame(&buffer, size, &blocks)?;
            for i in 0..buffer.window.length() {
                check_byte(&buffer, size, &blocks, i)?;
            }
        }
    }

    #[test]
    fn edges_of_large_buffers_are_in_their_own_place(buffer in tables::large()) {
        if let Ok(size) = best_size(&buffer) {
            let blocks = blocks_of(&buffer, size).expect("the table of the size");
            check_frame(&buffer, size, &blocks)?;
            for i in edges(&buffer, size) {
                check_byte(&buffer, size, &blocks, i)?;
            }
        }
    }
}

/// Compares verdict, size, count and addresses with the field's rule.
fn agrees_with_core(buffer: &Buffer) -> TestCaseResult {
    let (table, window) = (&buffer.table, &buffer.window);
    let Some(bytes) = core_rule::best(table, window, buffer.supported) else {
        prop_assert_eq!(best_size(buffer), Err(BlockError::NoUsableSize));
        return Ok(());
    };
    let size = best_size(buffer);
    prop_assert_eq!(size.map(|size| u128::from(size.bytes())), Ok(bytes));
    let blocks = size.and_then(|size| blocks_of(buffer, size));
    prop_assert_eq!(
        core_rule::count(window, bytes),
        blocks.as_ref().map_or(0, Vec::len) as u128
    );
    prop_assert_eq!(blocks, Ok(core_rule::blocks(table, window, bytes)));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16384))]

    #[test]
    fn no_better_size_is_left(buffer in tables::small()) {
        let pages = oracle::pages(&buffer.table, &buffer.window);
        let expected = oracle::best(&pages, &buffer.window, buffer.supported);
        let expected = expected.ok_or(BlockError::NoUsableSize);
        prop_assert_eq!(best_size(&buffer).map(|size| u128::from(size.bytes())), expected);
    }

    #[test]
    fn any_size_is_refused_unless_it_is_right(buffer in tables::small(), bit in 12u32..64) {
        let bytes = 1 << bit;
        let pages = oracle::pages(&buffer.table, &buffer.window);
        let walked = blocks_of(&buffer, size_of(bytes));
        if oracle::right(&pages, bytes.into()) {
            let blocks = core_rule::blocks(&buffer.table, &buffer.window, bytes.into());
            prop_assert_eq!(walked, Ok(blocks));
        } else {
            prop_assert_eq!(walked, Err(BlockError::OtherTable));
        }
    }

    #[test]
    fn small_buffers_agree_with_the_rule_of_core(buffer in tables::small()) {
        agrees_with_core(&buffer)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn large_buffers_agree_with_the_rule_of_core(buffer in tables::large()) {
        agrees_with_core(&buffer)?;
    }
}
