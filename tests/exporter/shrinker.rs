// SPDX-License-Identifier: GPL-2.0

//! A shrinker: what the kernel calls when it is short of memory.
//!
//! C header: [`include/linux/shrinker.h`](srctree/include/linux/shrinker.h)

use crate::bindings;
use core::{
    ffi::c_void,
    ptr::NonNull, //
};
use kernel::prelude::*;

/// Something that can give up memory. It is called by whoever allocates, with whatever locks held.
pub(crate) trait Shrink: Send + Sync + 'static {
    /// How many objects there are to give up, as far as can be told now.
    fn count(&self) -> usize;

    /// Gives up at most so many objects. Returns how many; none, if that is not possible now.
    fn scan(&self, most: usize) -> usize;
}

/// # Safety
///
/// `data` is a valid `T` for as long as the function runs.
unsafe extern "C" fn count_callback<T: Shrink>(data: *const c_void) -> usize {
    // SAFETY: By the safety requirements.
    unsafe { &*data.cast::<T>() }.count()
}

/// # Safety
///
/// As [`count_callback`].
unsafe extern "C" fn scan_callback<T: Shrink>(data: *const c_void, most: usize) -> usize {
    // SAFETY: By the safety requirements.
    unsafe { &*data.cast::<T>() }.scan(most)
}

/// A shrinker that is registered until this is dropped.
///
/// # Invariants
///
/// `raw` was made with `what`, and has not been freed.
pub(crate) struct Shrinker<T: Shrink> {
    raw: NonNull<bindings::vram_exporter_shrinker>,
    // Not a box: callbacks have a reference to it.
    what: NonNull<T>,
}

// SAFETY: A shrinker has no tie to a task, and what it shrinks can be sent.
unsafe impl<T: Shrink> Send for Shrinker<T> {}

// SAFETY: Nothing can be done through a shared reference.
unsafe impl<T: Shrink> Sync for Shrinker<T> {}

impl<T: Shrink> Shrinker<T> {
    /// Registers a shrinker of `what`, which can be called at once.
    pub(crate) fn new(what: T) -> Result<Self> {
        let what = KBox::into_raw(KBox::new(what, GFP_KERNEL)?);

        // SAFETY: The functions get the data that they are made for, which lives until the
        // shrinker is freed.
        let raw = NonNull::new(unsafe {
            bindings::vram_exporter_shrinker_new(
                Some(count_callback::<T>),
                Some(scan_callback::<T>),
                what.cast_const().cast(),
            )
        })
        .ok_or(ENOMEM)
        .inspect_err(|_| {
            // SAFETY: There is no shrinker that uses it.
            drop(unsafe { KBox::from_raw(what) });
        })?;

        // INVARIANT: As just made.
        Ok(Self {
            raw,
            // SAFETY: The pointer of a box is not null.
            what: unsafe { NonNull::new_unchecked(what) },
        })
    }
}

impl<T: Shrink> Drop for Shrinker<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::vram_exporter_shrinker_free(self.raw.as_ptr()) };

        // SAFETY: From a box, and nobody is called with it now.
        drop(unsafe { KBox::from_raw(self.what.as_ptr()) });
    }
}
