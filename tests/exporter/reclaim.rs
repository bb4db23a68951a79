// SPDX-License-Identifier: GPL-2.0

//! The state of a task that reclaims memory, as a shrinker is called in.
//!
//! C headers: [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h),
//! [`mm/page_alloc.c`](srctree/mm/page_alloc.c)

use crate::bindings;

/// Runs `shrink` as the allocator runs a shrinker: lockdep takes every lock in it for one that
/// reclaim needs, and an allocation in it for one that must not reclaim again.
pub(crate) fn as_in_reclaim<R>(shrink: impl FnOnce() -> R) -> R {
    // SAFETY: Changes the state of the current task, which is restored below.
    let flags = unsafe { bindings::vram_exporter_helper_reclaim_begin() };
    let result = shrink();

    // SAFETY: In the same task, with what the begin has returned.
    unsafe { bindings::vram_exporter_helper_reclaim_end(flags) };
    result
}
