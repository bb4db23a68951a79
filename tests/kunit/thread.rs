// SPDX-License-Identifier: GPL-2.0

//! A kernel thread that runs a closure beside the case.
//!
//! C header: [`include/linux/kthread.h`](srctree/include/linux/kthread.h)

use super::check::{
    eventually,
    Failed,
    Verdict, //
};
use crate::bindings;
use core::{
    ffi::c_void,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    ffi::c_int,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc,
        Mutex, //
    },
};

/// Something that happens once, and that other threads wait for.
#[derive(Clone)]
pub(crate) struct Event(Arc<Atomic<bool>>);

impl Event {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(Arc::new(Atomic::new(false), GFP_KERNEL)?))
    }

    /// Lets it happen.
    pub(crate) fn happen(&self) {
        self.0.store(true, Release);
    }

    /// Whether it has happened.
    pub(crate) fn has_happened(&self) -> bool {
        self.0.load(Acquire)
    }

    /// Waits for it. Returns whether it has happened.
    pub(crate) fn wait(&self) -> bool {
        eventually(|| self.has_happened())
    }
}

/// What the thread leaves behind.
#[pin_data]
struct Outcome<T> {
    is_done: Atomic<bool>,
    #[pin]
    value: Mutex<Option<T>>,
}

struct Job<T, F> {
    run: F,
    outcome: Arc<Outcome<T>>,
}

/// # Safety
///
/// `data` came from [`KBox::into_raw`] of a `Job<T, F>`, and is handed over.
unsafe extern "C" fn run_callback<T: Send + Unpin, F: FnOnce() -> T>(data: *mut c_void) -> c_int {
    // SAFETY: By the safety requirements.
    let job = KBox::into_inner(unsafe { KBox::<Job<T, F>>::from_raw(data.cast()) });

    // SAFETY: Changes what the current thread does on signals.
    unsafe { bindings::rdma_dmabuf_test_thread_allow_kill() };

    let value = (job.run)();
    *job.outcome.value.lock() = Some(value);
    job.outcome.is_done.store(true, Release);
    0
}

/// A thread that was started; waited for when it is dropped.
///
/// # Invariants
///
/// `task` is a thread made by `rdma_dmabuf_test_thread_run()` that has not been reaped.
pub(crate) struct Thread<T: Send + Unpin + 'static> {
    task: NonNull<bindings::task_struct>,
    outcome: Arc<Outcome<T>>,
}

impl<T: Send + Unpin + 'static> Thread<T> {
    /// Starts a thread that runs `run`.
    pub(crate) fn spawn<F: FnOnce() -> T + Send + 'static>(run: F) -> Result<Self> {
        let outcome = Arc::pin_init(
            pin_init!(Outcome {
                is_done: Atomic::new(false),
                value <- new_mutex!(None),
            }),
            GFP_KERNEL,
        )?;
        let job = KBox::new(
            Job {
                run,
                outcome: outcome.clone(),
            },
            GFP_KERNEL,
        )?;
        let data = KBox::into_raw(job);

        // SAFETY: The function gets the data that it is made for, and runs before it is reaped.
        let task = from_err_ptr(unsafe {
            bindings::rdma_dmabuf_test_thread_run(Some(run_callback::<T, F>), data.cast())
        })
        .inspect_err(|_| {
            // SAFETY: There is no thread that has taken it over.
            drop(unsafe { KBox::from_raw(data) });
        })?;

        // INVARIANT: As just started.
        Ok(Self {
            task: NonNull::new(task).ok_or(ENOMEM)?,
            outcome,
        })
    }

    /// Whether the closure has returned.
    pub(crate) fn is_done(&self) -> bool {
        self.outcome.is_done.load(Acquire)
    }

    /// Whether the thread waits for a lock or a fence.
    pub(crate) fn is_asleep(&self) -> bool {
        // SAFETY: The task is valid by the type invariants.
        unsafe { bindings::rdma_dmabuf_test_thread_is_asleep(self.task.as_ptr()) }
    }

    /// Sends the thread a fatal signal.
    pub(crate) fn kill(&self) {
        // SAFETY: The task is valid by the type invariants.
        unsafe { bindings::rdma_dmabuf_test_thread_kill(self.task.as_ptr()) };
    }

    /// Waits for what the closure returns.
    #[track_caller]
    pub(crate) fn join(self) -> Verdict<T> {
        if !eventually(|| self.is_done()) {
            return Err(Failed::new("the thread does not end"));
        }

        let value = self.outcome.value.lock().take();
        value.ok_or_else(|| Failed::new("the thread left nothing behind"))
    }
}

impl<T: Send + Unpin + 'static> Drop for Thread<T> {
    fn drop(&mut self) {
        // A thread that hangs is leaked: the module cannot be unloaded, but the suites end.
        if !eventually(|| self.is_done()) {
            pr_err!("a thread of the tests hangs\n");
            return;
        }

        // SAFETY: By the type invariants; the function has begun, since it is done.
        unsafe { bindings::rdma_dmabuf_test_thread_reap(self.task.as_ptr()) };
    }
}
