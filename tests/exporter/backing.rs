// SPDX-License-Identifier: GPL-2.0

//! The memory of a buffer: runs of real pages, laid out as somebody wants them.

use super::{
    layout::Plan,
    memory::{
        Extent,
        Stretch,
        MAX_ORDER, //
    },
    pool::{
        Loan,
        Pool, //
    },
    stats::Stats,
    table::Entries, //
};
use crate::window::{
    Segment,
    PAGE_SIZE, //
};
use core::ops::Range;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc,
    },
};

/// What the pages behind a run hold; nobody may write there.
const GUARD: u8 = 0xa5;

/// What memory holds that was taken away from the importers.
pub(crate) const POISON: u8 = 0x6b;

/// Pages of the largest alignment that runs have: 2 MiB.
const MAX_ALIGN: u64 = 512;

/// What the buffer holds at `offset` at first: no two pages are alike, nor two neighbours.
pub(crate) fn pattern(offset: u64) -> u8 {
    let page = offset / PAGE_SIZE;

    (offset.wrapping_mul(7) ^ page.wrapping_mul(41).wrapping_add(offset >> 8)) as u8
}

/// Where memory is taken from.
#[derive(Clone)]
pub(crate) enum Source {
    System,
    Vram(Arc<Pool>),
}

impl Source {
    /// The longest run that it has, in pages.
    pub(crate) fn longest_run(&self) -> u64 {
        match self {
            // Half of an allocation is guard.
            Self::System => 1 << (MAX_ORDER - 1),
            Self::Vram(pool) => pool.longest_run(),
        }
    }
}

/// Contiguous pages, behind which others stand guard: two runs are never neighbours.
struct Run {
    stretch: Stretch,
    guard: u64,
    // Only held: the memory is lent.
    _loan: Option<Loan>,
}

impl Run {
    fn new(source: &Source, pages: u64) -> Result<Self> {
        let bytes = pages.checked_mul(PAGE_SIZE).ok_or(EINVAL)?;
        let run = match source {
            Source::System => {
                let order = pages.next_power_of_two().trailing_zeros() + 1;
                if order > MAX_ORDER {
                    return Err(ENOMEM);
                }
                let memory = Arc::new(Extent::new(order)?, GFP_KERNEL)?;

                Self {
                    guard: memory.bytes() - bytes,
                    stretch: Stretch::new(memory, 0, bytes)?,
                    _loan: None,
                }
            }
            Source::Vram(pool) => {
                let loan = pool.lend(pages + 1, pages.next_power_of_two().min(MAX_ALIGN))?;

                Self {
                    guard: PAGE_SIZE,
                    stretch: Stretch::new(loan.memory().clone(), loan.start(), bytes)?,
                    _loan: Some(loan),
                }
            }
        };

        run.fill(0);
        run.memory().fill(run.guards(), GUARD);
        Ok(run)
    }

    fn memory(&self) -> &Extent {
        self.stretch.memory()
    }

    fn bytes(&self) -> u64 {
        self.stretch.segment().len
    }

    fn guards(&self) -> Range<u64> {
        let end = self.stretch.range().end;

        end..end + self.guard
    }

    fn fill(&self, byte: u8) {
        self.memory().fill(self.stretch.range(), byte);
    }
}

/// All memory of a buffer, while it is at one place.
pub(crate) struct Backing {
    runs: KVVec<Run>,
    entries: Entries,
    is_taken: Atomic<bool>,
    stats: Arc<Stats>,
}

impl Backing {
    /// Allocates the runs of a plan. The content is zero.
    pub(crate) fn new(source: &Source, plan: &Plan, stats: &Arc<Stats>) -> Result<Arc<Self>> {
        let mut runs = KVVec::with_capacity(plan.runs.len(), GFP_KERNEL)?;

        for pages in &plan.runs {
            runs.push(Run::new(source, *pages)?, GFP_KERNEL)?;
        }
        Ok(Arc::new(
            Self {
                runs,
                entries: plan.entries,
                is_taken: Atomic::new(false),
                stats: stats.clone(),
            },
            GFP_KERNEL,
        )?)
    }

    /// How tables tell of the runs.
    pub(crate) fn entries(&self) -> Entries {
        self.entries
    }

    /// Bytes in the buffer.
    pub(crate) fn size(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes()).sum()
    }

    /// The runs.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = &Stretch> + Clone {
        self.runs.iter().map(|run| &run.stretch)
    }

    /// The runs by their physical addresses.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment> + Clone + '_ {
        self.stretches().map(Stretch::segment)
    }

    /// The physical address of the byte at `offset`.
    pub(crate) fn phys(&self, offset: u64) -> Option<u64> {
        let mut rest = offset;

        for segment in self.segments() {
            if rest < segment.len {
                return Some(segment.addr + rest);
            }
            rest -= segment.len;
        }
        None
    }

    /// Calls `visit` with each run, a place in it, and the range of `0..len` that is there, of the
    /// bytes at `offset`. `EINVAL` beyond the end.
    fn for_each_piece(
        &self,
        offset: u64,
        len: usize,
        mut visit: impl FnMut(&Run, u64, Range<usize>) -> Result,
    ) -> Result {
        let end = offset.checked_add(len as u64).ok_or(EINVAL)?;
        let mut base = 0;

        if end > self.size() {
            return Err(EINVAL);
        }
        for run in &self.runs {
            let from = offset.max(base);
            let to = end.min(base + run.bytes());

            if from < to {
                let range = (from - offset) as usize..(to - offset) as usize;
                visit(run, run.stretch.range().start + (from - base), range)?;
            }
            base += run.bytes();
        }
        Ok(())
    }

    /// Reads the bytes at `offset`.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result {
        self.for_each_piece(offset, bytes.len(), |run, at, range| {
            run.memory().read(at, &mut bytes[range])
        })
    }

    /// Writes the bytes at `offset`.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result {
        self.for_each_piece(offset, bytes.len(), |run, at, range| {
            run.memory().write(at, &bytes[range])
        })
    }

    /// Copies all of the content of another place.
    pub(crate) fn copy_from(&self, other: &Self) -> Result {
        let mut base = 0;

        for run in &other.runs {
            self.for_each_piece(base, run.bytes() as usize, |to, at, range| {
                let from = run.stretch.range().start + range.start as u64;

                to.memory().copy(at, run.memory(), from, range.len() as u64)
            })?;
            base += run.bytes();
        }
        Ok(())
    }

    /// Overwrites all of it, as an exporter that gives the memory to somebody else. Nobody may
    /// write to it from now on.
    pub(crate) fn take_away(&self) {
        for run in &self.runs {
            run.fill(POISON);
        }
        self.is_taken.store(true, Release);
    }

    /// Whether nobody has written to it since it was taken away, or it was not.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.is_taken.load(Acquire)
            || self
                .runs
                .iter()
                .all(|run| run.memory().is_all(run.stretch.range(), POISON))
    }

    /// Whether nobody has written around it.
    pub(crate) fn is_guarded(&self) -> bool {
        self.runs
            .iter()
            .all(|run| run.memory().is_all(run.guards(), GUARD))
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        if !self.is_untouched() {
            self.stats.late_writes.add_one();
        }
        if !self.is_guarded() {
            self.stats.guard_writes.add_one();
        }
    }
}
