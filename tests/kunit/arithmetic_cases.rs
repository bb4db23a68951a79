// SPDX-License-Identifier: GPL-2.0

//! Cases for the arithmetic of windows and blocks, shared by the KUnit suites and the host tests.
//!
//! One function a behaviour, named as a sentence, each over a table of rows. A failing function
//! returns the name of the row. `core` only: the crate that includes this file has the modules
//! `window` and `blocks` at its root.

use crate::window::Segment;

/// What a case says: nothing, or the row that failed.
pub(crate) type Verdict = Result<(), &'static str>;

/// Hands a verdict on. In the kernel it first logs the row, which KUnit would not show.
pub(crate) fn told(verdict: Verdict) -> Verdict {
    #[cfg(CONFIG_RDMA_DMABUF_KUNIT_TEST)]
    if let Err(row) = verdict {
        kernel::prelude::pr_err!("failed row: {row}\n");
    }
    verdict
}

/// Fails with the name of the row unless `holds`.
fn expect(row: &'static str, holds: bool) -> Verdict {
    holds.then_some(()).ok_or(row)
}

/// One piece of a table.
const fn seg(addr: u64, len: u64) -> Segment {
    Segment { addr, len }
}

#[path = "window_cases.rs"]
pub(crate) mod window;

#[path = "block_cases.rs"]
pub(crate) mod blocks;
