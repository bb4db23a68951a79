// SPDX-License-Identifier: GPL-2.0

//! A buffer that moves all the time.

use super::{
    buffer::{
        Buffer,
        Placement, //
    },
    moves::Destination,
    ops::Exporter,
    ticker::{
        Tick,
        Ticker, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The most moves in a second.
pub(crate) const MAX_RATE: u32 = 10_000;

const US_PER_S: u64 = 1_000_000;

/// A move of a buffer, that does not keep the dma-buf.
struct Step {
    buffer: Arc<Buffer>,
    placement: Option<Placement>,
}

impl Tick for Step {
    fn tick(&self) {
        // A buffer that is pinned, revoked or gone stays where it is.
        let _ = self.buffer.link().with(|live| {
            live.move_to(Destination {
                placement: self.placement,
                ..Destination::default()
            })
        });
    }
}

/// Moves a buffer at a rate, until it is dropped.
pub(crate) struct MoveLoop {
    _ticker: Ticker<Step>,
}

impl MoveLoop {
    /// Moves `buffer` so many times a second, within the placement it is in or to another.
    ///
    /// `EINVAL` for no rate, or one above [`MAX_RATE`].
    pub(crate) fn start(
        buffer: Arc<Buffer>,
        per_second: u32,
        placement: Option<Placement>,
    ) -> Result<Self> {
        if per_second == 0 || per_second > MAX_RATE {
            return Err(EINVAL);
        }

        let period_us = US_PER_S / u64::from(per_second);
        Ok(Self {
            _ticker: Ticker::start(period_us, Step { buffer, placement })?,
        })
    }
}
