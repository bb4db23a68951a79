// SPDX-License-Identifier: GPL-2.0

//! What a case says, and how it says so.

use crate::bindings;
use core::panic::Location;
use kernel::{
    prelude::*,
    time::{
        delay::fsleep,
        Delta,
        Instant,
        Monotonic, //
    },
};

/// The longest that a case waits for something that has to happen.
const LIMIT_MS: i64 = 10_000;

/// How long a case looks on while something must not happen.
const MEANWHILE_MS: i64 = 50;

/// Proof that KUnit was told of a failure.
#[derive(Debug)]
pub(crate) struct Failed(());

/// What a case or a part of it says.
pub(crate) type Verdict<T = ()> = core::result::Result<T, Failed>;

impl Failed {
    /// Reports `what` for the line of the caller.
    #[track_caller]
    pub(crate) fn new(what: &str) -> Self {
        let at = Location::caller();

        // SAFETY: Both texts are valid for the lengths given; the function copies them.
        unsafe {
            bindings::rdma_dmabuf_test_fail(
                at.file().as_ptr().cast(),
                at.file().len(),
                at.line(),
                what.as_ptr().cast(),
                what.len(),
            );
        }
        Self(())
    }
}

impl From<Error> for Failed {
    #[track_caller]
    fn from(error: Error) -> Self {
        Self::new(
            error
                .name()
                .and_then(|name| name.to_str().ok())
                .unwrap_or("an error without a name"),
        )
    }
}

impl From<kernel::alloc::AllocError> for Failed {
    #[track_caller]
    fn from(_: kernel::alloc::AllocError) -> Self {
        Self::new("out of memory")
    }
}

/// Fails unless the condition holds. The row of a table can be named behind it.
macro_rules! ensure {
    ($condition:expr $(,)?) => {
        if !$condition {
            return Err($crate::kunit::check::Failed::new(stringify!($condition)));
        }
    };
    ($condition:expr, $row:expr $(,)?) => {
        if !$condition {
            kernel::prelude::pr_err!("failed row: {}\n", $row);
            return Err($crate::kunit::check::Failed::new(stringify!($condition)));
        }
    };
}
pub(crate) use ensure;

/// Waits until `holds`. Returns whether it did within the limit.
pub(crate) fn eventually(holds: impl Fn() -> bool) -> bool {
    holds_within(LIMIT_MS, holds)
}

/// Looks on for a while. Returns whether `holds` at some time meanwhile.
///
/// A case that is right never depends on how long this is; a wrong one may go unnoticed on a slow
/// machine.
pub(crate) fn meanwhile(holds: impl Fn() -> bool) -> bool {
    holds_within(MEANWHILE_MS, holds)
}

fn holds_within(limit_ms: i64, holds: impl Fn() -> bool) -> bool {
    let started = Instant::<Monotonic>::now();

    loop {
        if holds() {
            return true;
        }
        if started.elapsed().as_millis() > limit_ms {
            return false;
        }
        fsleep(Delta::from_millis(1));
    }
}
