// SPDX-License-Identifier: GPL-2.0

//! Numbers that look random and follow from a seed: the same seed, the same numbers.

/// One output of the splitmix64 generator, which can be entered anywhere.
pub(crate) fn splitmix(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The outputs one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    /// The numbers of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// Any number.
    pub(crate) fn any(&mut self) -> u64 {
        self.drawn += 1;
        splitmix(self.seed, self.drawn)
    }

    /// A number below `limit`; 0 if that is 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.any().checked_rem(limit).unwrap_or(0)
    }

    /// A number from 0 up to `most`.
    pub(crate) fn up_to(&mut self, most: u64) -> u64 {
        match most.checked_add(1) {
            Some(limit) => self.below(limit),
            None => self.any(),
        }
    }

    /// True once in so many times.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_its_numbers_again() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [(); 5].map(|()| random.any())
        };
        assert_eq!(numbers(3), numbers(3));
        assert_ne!(numbers(3), numbers(4));
    }

    #[test]
    fn numbers_stay_below_their_limit_and_reach_all_below_it() {
        let mut random = Random::new(1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[random.below(5) as usize] = true;
            assert!(random.up_to(3) <= 3);
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(
            (random.below(0), random.below(1), random.up_to(0)),
            (0, 0, 0)
        );
        random.up_to(u64::MAX);
    }
}
