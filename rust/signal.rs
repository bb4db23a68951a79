// SPDX-License-Identifier: GPL-2.0

//! Signals of the current task.
//!
//! C header: [`include/linux/sched/signal.h`](srctree/include/linux/sched/signal.h)

use crate::bindings;

/// Whether the current task is being killed.
pub(crate) fn is_fatal_pending() -> bool {
    // SAFETY: Looks at the current task, which is always there.
    unsafe { bindings::rdma_dmabuf_helper_fatal_signal_pending() }
}
