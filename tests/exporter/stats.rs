// SPDX-License-Identifier: GPL-2.0

//! What an exporter counts of a buffer.

use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full, //
};

/// A number that operations count up.
pub(crate) struct Count(Atomic<u64>);

impl Count {
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Full);
    }

    /// The number as of now.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Acquire)
    }
}

/// Operations that succeeded, and what should not have happened.
pub(crate) struct Stats {
    pub(crate) attaches: Count,
    pub(crate) detaches: Count,
    pub(crate) maps: Count,
    pub(crate) unmaps: Count,
    pub(crate) pins: Count,
    pub(crate) unpins: Count,
    pub(crate) vmaps: Count,
    pub(crate) vunmaps: Count,
    pub(crate) cpu_begins: Count,
    pub(crate) cpu_ends: Count,
    pub(crate) releases: Count,
    /// How often importers were told that their mappings go stale.
    pub(crate) invalidations: Count,
    pub(crate) moves: Count,
    /// How often the importer broke the contract; the log has how.
    pub(crate) breaches: Count,
    /// Pieces of memory that somebody wrote to after they were taken away.
    pub(crate) late_writes: Count,
    /// Pieces of memory around which somebody wrote.
    pub(crate) guard_writes: Count,
}

impl Stats {
    pub(crate) const fn new() -> Self {
        Self {
            attaches: Count::new(),
            detaches: Count::new(),
            maps: Count::new(),
            unmaps: Count::new(),
            pins: Count::new(),
            unpins: Count::new(),
            vmaps: Count::new(),
            vunmaps: Count::new(),
            cpu_begins: Count::new(),
            cpu_ends: Count::new(),
            releases: Count::new(),
            invalidations: Count::new(),
            moves: Count::new(),
            breaches: Count::new(),
            late_writes: Count::new(),
            guard_writes: Count::new(),
        }
    }
}
