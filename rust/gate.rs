// SPDX-License-Identifier: GPL-2.0

//! The gate between those who touch the pages of a region and those who take them away.
//!
//! C header: [`include/linux/rwsem.h`](srctree/include/linux/rwsem.h)
//!
//! An access passes the gate without the reservation lock; an invalidation, which holds that lock,
//! closes it and so waits until every access in flight has ended. Both directions are the two
//! sides of one rw_semaphore, which makes the order reservation lock before gate known to lockdep:
//! whoever took the reservation lock from within an access would be reported. So would be who
//! allocates memory there, since a shrinker may close the gate.
//!
//! Why this primitive, measured on the test kernel (lockdep on, one reader): passing costs the same
//! with an rw_semaphore, an rwlock and SRCU, and twice as much with a percpu rwsem; closing costs
//! 60 to 250 times as much with SRCU and a percpu rwsem, and the exporter waits for it.

use crate::{
    attachment::{
        Held,
        Importer, //
    },
    bindings, //
};
use core::{
    cell::UnsafeCell,
    ops::Deref, //
};
use kernel::{
    prelude::*,
    str::CStr,
    sync::LockClassKey,
    time::{
        delay::fsleep,
        Delta, //
    },
    types::{
        NotThreadSafe,
        Opaque, //
    },
};

/// Milliseconds that closing the gate takes at most if nobody is in it.
const CLOSING_MS: u32 = 1000;

/// Holds what an access needs while the gate is open; closed means there is nothing.
///
/// # Invariants
///
/// `view` is written only with `sem` held for writing, and read only with `sem` held.
#[pin_data]
pub(crate) struct Gate<V> {
    #[pin]
    sem: Opaque<bindings::rw_semaphore>,
    view: UnsafeCell<Option<V>>,
}

// SAFETY: `V` is moved in and out by any task that holds the semaphore.
unsafe impl<V: Send> Send for Gate<V> {}

// SAFETY: `V` is shared between readers and handed from writer to writer; the semaphore keeps
// them apart by the type invariants.
unsafe impl<V: Send + Sync> Sync for Gate<V> {}

impl<V> Gate<V> {
    /// A closed gate, with the lock class `key` for lockdep.
    pub(crate) fn new(
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            sem <- Opaque::ffi_init(|sem| {
                // SAFETY: `sem` is memory for a semaphore that stays in place; name and key are
                // static.
                unsafe {
                    bindings::__init_rwsem(sem, name.as_char_ptr(), key.as_ptr());
                    bindings::rdma_dmabuf_helper_might_lock_in_reclaim(sem);
                }
            }),
            view: UnsafeCell::new(None),
        })
    }

    /// Passes the gate if it is open and nobody is about to close it.
    pub(crate) fn try_pass(&self) -> Option<Pass<'_, V>> {
        // SAFETY: `sem` is initialised by `new()`.
        if unsafe { bindings::down_read_trylock(self.sem.get()) } == 0 {
            return None;
        }

        // SAFETY: The semaphore was just taken for reading.
        unsafe { self.pass() }
    }

    /// Passes the gate if it is open. Whoever could close it waits for the reservation lock.
    pub(crate) fn pass_held<T: Importer>(&self, _held: &Held<'_, T>) -> Option<Pass<'_, V>> {
        // SAFETY: `sem` is initialised by `new()`.
        unsafe { bindings::down_read(self.sem.get()) };

        // SAFETY: The semaphore was just taken for reading.
        unsafe { self.pass() }
    }

    /// Makes a [`Pass`] of the semaphore, or gives it up if the gate is closed.
    ///
    /// # Safety
    ///
    /// The current task has taken `sem` for reading and hands that over.
    unsafe fn pass(&self) -> Option<Pass<'_, V>> {
        // SAFETY: By the type invariants, nobody writes `view` while we read it.
        if let Some(view) = unsafe { &*self.view.get() } {
            // INVARIANT: The semaphore is held for reading, and `view` is what it protects.
            return Some(Pass {
                gate: self,
                view,
                _not_send: NotThreadSafe,
            });
        }

        // SAFETY: Handed over by the caller.
        unsafe { bindings::up_read(self.sem.get()) };
        None
    }

    /// Gives up a pass that was turned into a borrow of C by [`Pass::into_view`].
    ///
    /// A driver that has no pass gets a warning, once, and nothing else happens. With lock
    /// debugging that is the current task's own pass; without, anybody's: a second load and a
    /// branch are all that the fast path can afford.
    ///
    /// # Safety
    ///
    /// The view of the pass is not used any more.
    pub(crate) unsafe fn leave(&self) {
        // SAFETY: `sem` is initialised by `new()`.
        if unsafe { bindings::rdma_dmabuf_helper_warn_unless_passed(self.sem.get()) } {
            // SAFETY: The forgotten pass held the semaphore for reading.
            unsafe { bindings::up_read(self.sem.get()) };
        }
    }

    /// Whether an access is in flight, as far as can be told without the reservation lock: whoever
    /// asks may be that access.
    ///
    /// Somebody may be closing the gate instead, and be gone before it is known who it was. So it is
    /// tried until it takes longer than that can.
    pub(crate) fn is_passed(&self) -> bool {
        for _ in 0..CLOSING_MS {
            if self.try_write() {
                return false;
            }
            fsleep(Delta::from_millis(1));
        }
        true
    }

    /// Whether nobody is in the gate.
    fn try_write(&self) -> bool {
        // SAFETY: `sem` is initialised by `new()`, and given up at once if it was taken.
        unsafe {
            let is_taken = bindings::down_write_trylock(self.sem.get()) != 0;
            if is_taken {
                bindings::up_write(self.sem.get());
            }
            is_taken
        }
    }

    /// Opens the gate on `view`. There must be nobody in it, which the reservation lock and an
    /// earlier [`Gate::close`] see to.
    pub(crate) fn open<T: Importer>(&self, _held: &Held<'_, T>, view: V) {
        drop(self.exchange(Some(view)));
    }

    /// Closes the gate and waits until every access in flight has ended.
    ///
    /// Returns what it was open on. The wait is short: within the gate, accesses only copy.
    pub(crate) fn close<T: Importer>(&self, _held: &Held<'_, T>) -> Option<V> {
        self.exchange(None)
    }

    fn exchange(&self, view: Option<V>) -> Option<V> {
        // SAFETY: `sem` is initialised by `new()`.
        unsafe { bindings::down_write(self.sem.get()) };

        // SAFETY: By the type invariants, nobody else reads or writes `view` meanwhile.
        let old = unsafe { core::ptr::replace(self.view.get(), view) };

        // SAFETY: Taken above.
        unsafe { bindings::up_write(self.sem.get()) };
        old
    }
}

/// An access under way: the gate stays open, and what it protects in place, until this is dropped.
///
/// Within it: no allocation, no fault, no sleep, no reservation lock and no second pass.
///
/// # Invariants
///
/// The current task holds the gate's semaphore for reading, and `view` is what it protects.
pub(crate) struct Pass<'a, V> {
    gate: &'a Gate<V>,
    view: &'a V,
    _not_send: NotThreadSafe,
}

impl<'a, V> Pass<'a, V> {
    /// Keeps the gate open for C code, until [`Gate::leave`].
    pub(crate) fn into_view(self) -> &'a V {
        let view = self.view;

        core::mem::forget(self);
        view
    }
}

impl<V> Deref for Pass<'_, V> {
    type Target = V;

    fn deref(&self) -> &V {
        self.view
    }
}

impl<V> Drop for Pass<'_, V> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::up_read(self.gate.sem.get()) };
    }
}
