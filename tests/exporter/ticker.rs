// SPDX-License-Identifier: GPL-2.0

//! A kernel thread that does the same again and again.
//!
//! C header: [`include/linux/kthread.h`](srctree/include/linux/kthread.h)

use crate::bindings;
use core::{
    ffi::c_void,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    ffi::c_int,
    prelude::*, //
};

/// What is done again and again.
pub(crate) trait Tick: Send + Sync + 'static {
    fn tick(&self);
}

struct Job<T> {
    period_us: u64,
    what: T,
}

/// # Safety
///
/// `data` is a valid `Job<T>` for as long as the function runs.
unsafe extern "C" fn run_callback<T: Tick>(data: *mut c_void) -> c_int {
    // SAFETY: By the safety requirements.
    let job = unsafe { &*data.cast::<Job<T>>() };

    // SAFETY: Called in the thread that `Ticker::start()` has made.
    while unsafe { bindings::vram_exporter_helper_ticker_sleep(job.period_us) } {
        job.what.tick();
    }
    0
}

/// A thread that does something at a rate; waited for when this is dropped.
///
/// # Invariants
///
/// `task` runs, or has been made to run, `run_callback` with `job`, and has not been reaped.
pub(crate) struct Ticker<T: Tick> {
    task: NonNull<bindings::task_struct>,
    // Not a box: the thread has a reference to it.
    job: NonNull<Job<T>>,
}

// SAFETY: What is done can be sent, and the thread be stopped by any task.
unsafe impl<T: Tick> Send for Ticker<T> {}

// SAFETY: Nothing can be done through a shared reference.
unsafe impl<T: Tick> Sync for Ticker<T> {}

impl<T: Tick> Ticker<T> {
    /// Does `what` every `period_us` microseconds.
    pub(crate) fn start(period_us: u64, what: T) -> Result<Self> {
        let job = KBox::into_raw(KBox::new(Job { period_us, what }, GFP_KERNEL)?);

        // SAFETY: The function gets the data that it is made for, which lives until it is reaped.
        let task = from_err_ptr(unsafe {
            bindings::vram_exporter_helper_ticker_run(Some(run_callback::<T>), job.cast())
        })
        .and_then(|task| NonNull::new(task).ok_or(ENOMEM))
        .inspect_err(|_| {
            // SAFETY: There is no thread that uses it.
            drop(unsafe { KBox::from_raw(job) });
        })?;

        // INVARIANT: As just started.
        Ok(Self {
            task,
            // SAFETY: The pointer of a box is not null.
            job: unsafe { NonNull::new_unchecked(job) },
        })
    }
}

impl<T: Tick> Drop for Ticker<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; the thread ends when it is told to.
        unsafe { bindings::vram_exporter_helper_ticker_stop(self.task.as_ptr()) };

        // SAFETY: From a box, and the thread that used it is gone.
        drop(unsafe { KBox::from_raw(self.job.as_ptr()) });
    }
}
