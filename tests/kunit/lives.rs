// SPDX-License-Identifier: GPL-2.0

//! Buffers and regions as several suites begin with them.

use super::{
    check::{
        ensure,
        Verdict, //
    },
    driver::{
        Driver,
        Mr,
        Wish, //
    },
    exporter::{
        Exporter,
        Order, //
    },
    nic::Nic,
};
use crate::attachment::Mode;
use kernel::{
    prelude::*,
    sync::Arc, //
};

pub(crate) const MODES: [Mode; 3] = [Mode::Dynamic, Mode::Pinned, Mode::Revocable];

/// Time enough for any region to let go.
pub(crate) const SOON_MS: u32 = 5000;

/// A buffer that takes importers of every mode.
pub(crate) fn buffer() -> Result<Arc<Exporter>> {
    Order::of_runs(&[2, 1])?.for_pinned().export()
}

/// A dynamic region of a driver that copies with the CPU.
pub(crate) fn region() -> Verdict<(Arc<Exporter>, Arc<Mr>)> {
    let exporter = Exporter::new(&[2, 1])?;
    let mr = Driver::new()?.register(&exporter, Wish::all_of(&exporter))?;

    Ok((exporter, Arc::new(mr, GFP_KERNEL)?))
}

/// A life in each mode, with a move where the mode allows it.
pub(crate) fn live_in_each_mode(nic: &Nic) -> Verdict {
    for mode in MODES {
        let exporter = buffer()?;
        let mr = nic.register(&exporter, Wish::all_of(&exporter), mode)?;

        ensure!(exporter.move_to_new_pages().is_ok() == (mode == Mode::Dynamic));
        ensure!(mr.shows(&exporter)?);
        drop(mr);
        exporter.settle()?;
    }
    Ok(())
}
