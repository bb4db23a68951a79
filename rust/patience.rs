// SPDX-License-Identifier: GPL-2.0

//! How long to wait for an exporter's fences.
//!
//! They are waited for in slices, without the reservation lock: between two slices somebody may
//! have ended the wait. A region whose fences took too long once does not make every packet that
//! follows wait as long.

use crate::{
    dma_resv::Resv,
    signal, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    time::{
        msecs_to_jiffies,
        Instant,
        Monotonic, //
    },
};

/// Milliseconds between two looks at who wants the wait to end.
const SLICE_MS: u32 = 10;

/// After a time-out, accesses do not wait for this many times the time they had.
const TIRED_FOR: i64 = 4;

/// A region's patience with its exporter.
pub(crate) struct Patience {
    timeout_ms: i64,
    born: Instant<Monotonic>,
    /// Milliseconds after `born` until which nobody waits.
    tired_until: Atomic<i64>,
}

impl Patience {
    /// One access may wait for `timeout_ms` milliseconds in all.
    pub(crate) fn new(timeout_ms: u32) -> Self {
        Self {
            timeout_ms: timeout_ms.into(),
            born: Instant::now(),
            tired_until: Atomic::new(0),
        }
    }

    /// Starts the clock of one access.
    pub(crate) fn begin(&self) -> Wait<'_> {
        let is_tired = self.age_ms() < self.tired_until.load(Relaxed);

        Wait {
            started: Instant::now(),
            limit: Limit::Patience {
                patience: self,
                timeout_ms: if is_tired { 0 } else { self.timeout_ms },
            },
        }
    }

    /// A wait that only the death of the task ends.
    pub(crate) fn until_killed() -> Wait<'static> {
        Wait {
            started: Instant::now(),
            limit: Limit::FatalSignal,
        }
    }

    fn age_ms(&self) -> i64 {
        self.born.elapsed().as_millis()
    }

    fn tire(&self) {
        let rest_ms = self.timeout_ms.saturating_mul(TIRED_FOR);

        self.tired_until
            .store(self.age_ms().saturating_add(rest_ms), Relaxed);
    }
}

enum Limit<'a> {
    Patience {
        patience: &'a Patience,
        timeout_ms: i64,
    },
    FatalSignal,
}

/// The waits of one access, however often it has to start again.
pub(crate) struct Wait<'a> {
    started: Instant<Monotonic>,
    limit: Limit<'a>,
}

impl Wait<'_> {
    /// Nanoseconds since the access began.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        // Never negative: the clock is monotonic.
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(0)
    }

    /// Waits until the KERNEL fences of `resv` have signalled.
    ///
    /// `ENODEV` once `is_over` says so, `ETIMEDOUT` when the time is up, `EINTR` on a fatal signal
    /// if that is the limit. The lock of `resv` must not be held.
    pub(crate) fn for_fences(&mut self, resv: &Resv, is_over: impl Fn() -> bool) -> Result {
        loop {
            if is_over() {
                return Err(ENODEV);
            }
            self.check()?;
            if resv.wait(msecs_to_jiffies(SLICE_MS))? {
                return Ok(());
            }
        }
    }

    fn check(&self) -> Result {
        match self.limit {
            Limit::Patience {
                patience,
                timeout_ms,
            } => {
                if self.started.elapsed().as_millis() < timeout_ms {
                    return Ok(());
                }
                // A wait that was cut short because of an earlier one does not prolong the rest.
                if timeout_ms != 0 {
                    patience.tire();
                }
                Err(ETIMEDOUT)
            }
            Limit::FatalSignal if signal::is_fatal_pending() => Err(EINTR),
            Limit::FatalSignal => Ok(()),
        }
    }
}
