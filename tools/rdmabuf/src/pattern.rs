// SPDX-License-Identifier: GPL-2.0

//! Bytes that no file has: each depends on its place and on a seed, so a byte out of place is seen.

use crate::random::splitmix;

/// A pattern that fills a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    seed: u64,
}

/// How many bytes one step of the generator gives.
const WORD: u64 = 8;

impl Pattern {
    /// The pattern of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Writes the bytes that belong at `at` and after it.
    pub(crate) fn fill(&self, at: u64, into: &mut [u8]) {
        // A first part up to a word's start, then whole words.
        let skip = (at % WORD) as usize;
        let head = into.len().min((WORD as usize - skip) % WORD as usize);
        let (first, rest) = into.split_at_mut(head);
        first.copy_from_slice(&self.word(at / WORD)[skip..][..head]);
        let start = at.div_ceil(WORD);
        for (index, bytes) in (start..).zip(rest.chunks_mut(WORD as usize)) {
            bytes.copy_from_slice(&self.word(index)[..bytes.len()]);
        }
    }

    fn word(&self, index: u64) -> [u8; WORD as usize] {
        splitmix(self.seed, index).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_equals_the_same_part_of_the_whole() {
        let pattern = Pattern::new(7);
        let mut whole = [0; 64];
        pattern.fill(0, &mut whole);
        for at in 0..40 {
            for length in 0..24 {
                let mut part = vec![0; length];
                pattern.fill(at as u64, &mut part);
                assert_eq!(part, whole[at..at + length], "at {at}, length {length}");
            }
        }
    }

    #[test]
    fn seeds_and_places_give_different_bytes() {
        let (mut a, mut b, mut c) = ([0; 32], [0; 32], [0; 32]);
        Pattern::new(1).fill(0, &mut a);
        Pattern::new(2).fill(0, &mut b);
        Pattern::new(1).fill(4096, &mut c);
        assert!(a != b && a != c && b != c);
    }
}
