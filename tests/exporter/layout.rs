// SPDX-License-Identifier: GPL-2.0

//! Layouts: how a buffer lies in memory, and how its tables tell.

use super::table::Entries;
use crate::window::PAGE_SIZE;
use kernel::prelude::*;

/// Pages in 2 MiB.
const HUGE_PAGES: u64 = (2 << 20) / PAGE_SIZE;

/// The longest run of [`Kind::Uneven`] and [`Kind::Merged`], in pages.
const LONGEST_UNEVEN: u64 = 37;

/// How pages of a buffer follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// All pages in one run, if the placement has such a run; system memory has none over 2 MiB.
    OneRun,
    /// Runs of 2 MiB, at addresses that are multiples of it.
    Huge,
    /// Pages none of which follows another.
    Scattered,
    /// Runs of 1 to 37 pages.
    Uneven,
    /// As uneven, in tables with an entry for each page, fewer of which have a DMA address.
    Merged,
    /// As one run, in tables with an entry and a DMA address for each page.
    Split,
    /// Each of the others in turn, one after each move.
    Changing,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Scattered,
        Self::OneRun,
        Self::Merged,
        Self::Uneven,
        Self::Split,
        Self::Huge,
    ];
}

/// The layout of a buffer.
pub(crate) enum Layout {
    Kind(Kind),
    /// A run of so many pages for each number.
    Runs(KVec<u64>),
}

/// A layout for a size: pages in each run, and the entries that tell of them.
pub(crate) struct Plan {
    pub(crate) runs: KVVec<u64>,
    pub(crate) entries: Entries,
}

impl Layout {
    /// A run of so many pages for each number.
    pub(crate) fn of_runs(runs: &[u64]) -> Result<Self> {
        let mut copy = KVec::with_capacity(runs.len(), GFP_KERNEL)?;

        copy.extend_from_slice(runs, GFP_KERNEL)?;
        Ok(Self::Runs(copy))
    }

    /// The runs of a buffer of `pages` pages, the `turn`th time that it is laid out.
    ///
    /// A run has at most `longest` pages. `EINVAL` if the runs do not add up to the size.
    pub(crate) fn plan(&self, pages: u64, turn: u64, longest: u64) -> Result<Plan> {
        let kind = match self {
            Self::Runs(runs) => return Self::plan_of_runs(runs, pages),
            Self::Kind(Kind::Changing) => Kind::ALL[(turn % Kind::ALL.len() as u64) as usize],
            Self::Kind(kind) => *kind,
        };
        let entries = match kind {
            Kind::Merged => Entries::Merged,
            Kind::Split => Entries::Pages,
            _ => Entries::Runs,
        };
        let mut runs = KVVec::new();
        let mut left = pages;

        while left != 0 {
            let run = match kind {
                Kind::OneRun | Kind::Split | Kind::Changing => longest,
                Kind::Huge => HUGE_PAGES,
                Kind::Scattered => 1,
                Kind::Uneven | Kind::Merged => uneven(left.wrapping_add(turn)),
            }
            .min(left)
            .min(longest)
            // Where no run can be had, this one is refused later.
            .max(1);

            runs.push(run, GFP_KERNEL)?;
            left = left.saturating_sub(run);
        }
        Ok(Plan { runs, entries })
    }

    fn plan_of_runs(runs: &[u64], pages: u64) -> Result<Plan> {
        let mut copy = KVVec::with_capacity(runs.len(), GFP_KERNEL)?;

        copy.extend_from_slice(runs, GFP_KERNEL)?;
        if runs.contains(&0)
            || runs.iter().try_fold(0u64, |sum, run| sum.checked_add(*run)) != Some(pages)
        {
            return Err(EINVAL);
        }
        Ok(Plan {
            runs: copy,
            entries: Entries::Runs,
        })
    }
}

/// A number of pages that looks random.
fn uneven(seed: u64) -> u64 {
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % LONGEST_UNEVEN + 1
}
