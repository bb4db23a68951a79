// SPDX-License-Identifier: GPL-2.0

//! What an exporter does with a buffer by itself: move it, take it away, make others wait.

use super::{
    backing::Backing,
    buffer::{
        Buffer,
        Placement, //
    },
    fence::{
        Fence,
        Usage, //
    },
    layout::Layout,
    ops::{
        Exporter,
        Held,
        Live, //
    },
    reclaim::as_in_reclaim,
    resv, //
};
use kernel::{
    error::code::{
        ERESTARTSYS,
        ETIMEDOUT, //
    },
    prelude::*,
    sync::{
        Arc,
        CondVarTimeoutResult, //
    },
    time::msecs_to_jiffies,
};

/// The most fences that a buffer keeps.
const MAX_FENCES: usize = 64;

/// Where a buffer is to be moved.
#[derive(Default)]
pub(crate) struct Destination<'a> {
    /// [`None`] for where it is.
    pub(crate) placement: Option<Placement>,
    /// [`None`] for the buffer's own.
    pub(crate) layout: Option<&'a Layout>,
    /// When the content is in place.
    pub(crate) fence: Option<&'a Fence>,
}

impl Buffer {
    pub(super) fn invalidate_held(&self, held: &Held<'_, Self>) {
        self.stats().invalidations.add_one();
        held.invalidate();
    }

    /// Memory for the buffer. Places that are only remembered are given up if there is none else.
    fn new_backing(&self, placement: Placement, layout: &Layout) -> Result<Arc<Backing>> {
        let source = Self::source(placement, self.pool.as_ref())?;
        let turn = self.state.lock().turn + 1;
        let plan = layout.plan(
            Self::pages(self.size, &self.hollow),
            turn,
            source.longest_run(),
        )?;

        Backing::new(&source, &plan, self.shared_stats()).or_else(|_| {
            self.forget_taken();
            Backing::new(&source, &plan, self.shared_stats())
        })
    }

    fn forget_taken(&self) {
        let mut state = self.state.lock();
        let taken = core::mem::take(&mut state.taken);

        drop(state);
        drop(taken);
    }

    /// Moves the buffer, to the placement it is in or another.
    ///
    /// `EBUSY` if it is pinned or has a kernel mapping, `ENODEV` if it is revoked.
    pub(super) fn move_held(
        &self,
        held: &Held<'_, Self>,
        placement: Option<Placement>,
        layout: Option<&Layout>,
    ) -> Result {
        self.move_behind_held(held, placement, layout, |_| Ok(()))
    }

    /// Moves the buffer for the sake of another, whose lock is held, unless it is in use: what
    /// drivers of GPUs do with a buffer that lies where another has to be mapped.
    pub(super) fn evict(&self) {
        self.link().try_with(|live| {
            if let Some(held) = live.try_lock() {
                // One that has to stay where it is stays.
                let _ = self.move_held(&held, None, None);
            }
        });
    }

    fn move_behind_held(
        &self,
        held: &Held<'_, Self>,
        placement: Option<Placement>,
        layout: Option<&Layout>,
        add_fence: impl FnOnce(&Held<'_, Self>) -> Result,
    ) -> Result {
        let state = self.state.lock();
        let placement = placement.unwrap_or(state.placement);
        let (is_fixed, is_revoked) = (state.is_fixed(), state.is_revoked);
        drop(state);

        if is_revoked {
            return Err(ENODEV);
        }
        if is_fixed {
            return Err(EBUSY);
        }
        let new = self.new_backing(placement, layout.unwrap_or(&self.layout))?;
        add_fence(held)?;
        self.invalidate_held(held);
        self.replace_held(held, placement, new)
    }

    /// Puts `new` in the place of the memory that nobody may touch any more.
    fn replace_held(
        &self,
        held: &Held<'_, Self>,
        placement: Placement,
        new: Arc<Backing>,
    ) -> Result {
        let old = self.backing()?;

        held.zap();
        new.copy_from(&old)?;
        old.take_away();

        let mut state = self.state.lock();
        state.now = Some(new);
        state.placement = placement;
        state.turn += 1;
        let forgotten = state.remember(Some(old));
        drop(state);

        drop(forgotten);
        self.stats().moves.add_one();
        Ok(())
    }
}

/// What can be ordered of a buffer that is not gone.
impl Live<'_, Buffer> {
    /// Moves the buffer. See [`Buffer::move_held`].
    pub(crate) fn move_to(&self, to: Destination<'_>) -> Result {
        let held = self.lock();

        self.exporter()
            .move_behind_held(&held, to.placement, to.layout, |held| match to.fence {
                Some(fence) => held.add_fence(fence, Usage::Kernel),
                None => Ok(()),
            })
    }

    /// Moves both buffers while both locks are held.
    ///
    /// See [`Buffer::move_held`]; `EALREADY` if they share their lock.
    pub(crate) fn move_both(&self, other: &Self) -> Result {
        self.with_both(other, |held, other_held| {
            self.exporter().move_held(held, None, None)?;
            other.exporter().move_held(other_held, None, None)
        })
    }

    /// Tells the importers that their mappings go stale, without a reason.
    pub(crate) fn invalidate(&self) {
        self.invalidate_after(|_| ());
    }

    /// The same, but does something else under the lock first.
    pub(crate) fn invalidate_after(&self, first: impl FnOnce(&Held<'_, Buffer>)) {
        let held = self.lock();

        first(&held);
        self.exporter().invalidate_held(&held);
    }

    /// Tells the importers the same as a shrinker does, to reclaim memory.
    ///
    /// `EBUSY` if somebody holds the reservation lock.
    pub(crate) fn shrink(&self) -> Result {
        as_in_reclaim(|| {
            let held = self.try_lock().ok_or(EBUSY)?;

            self.exporter().invalidate_held(&held);
            Ok(())
        })
    }

    /// Takes the buffer away for good, or until [`Live::unrevoke`].
    ///
    /// Waits for at most `timeout_ms`: for all fences of the buffer, then for the last mapping to
    /// go. `ETIMEDOUT` if they do not, and `EINTR` on a signal; the buffer is revoked nevertheless.
    /// If they do, the memory is another from then on, so that late accesses are seen.
    pub(crate) fn revoke(&self, timeout_ms: u32) -> Result {
        let buffer = self.exporter();
        let held = self.lock();

        buffer.state.lock().is_revoked = true;
        buffer.invalidate_held(&held);
        held.zap();
        drop(held);

        let timeout = msecs_to_jiffies(timeout_ms);
        resv::wait(self.resv(), Usage::Bookkeep, timeout).map_err(|error| {
            // Not to be called again by itself.
            if error == ERESTARTSYS {
                EINTR
            } else {
                error
            }
        })?;
        self.wait_for_unmap(timeout_ms)?;

        let held = self.lock();
        let placement = buffer.placement();
        // If there is no memory left, late accesses go unseen.
        if let Ok(new) = buffer.new_backing(placement, &buffer.layout) {
            buffer.replace_held(&held, placement, new)?;
        }
        Ok(())
    }

    fn wait_for_unmap(&self, timeout_ms: u32) -> Result {
        let buffer = self.exporter();
        let mut left = msecs_to_jiffies(timeout_ms);
        let mut state = buffer.state.lock();

        while state.mapped != 0 {
            match buffer.unmapped.wait_interruptible_timeout(&mut state, left) {
                CondVarTimeoutResult::Woken { jiffies } => left = jiffies,
                CondVarTimeoutResult::Timeout => return Err(ETIMEDOUT),
                CondVarTimeoutResult::Signal { .. } => return Err(EINTR),
            }
        }
        Ok(())
    }

    /// Gives the buffer back, and tells the importers that there is news.
    pub(crate) fn unrevoke(&self) {
        let buffer = self.exporter();
        let held = self.lock();

        buffer.state.lock().is_revoked = false;
        buffer.invalidate_held(&held);
    }

    /// Adds a fence to the buffer.
    pub(crate) fn add_fence(&self, fence: &Fence, usage: Usage) -> Result {
        self.lock().add_fence(fence, usage)
    }

    /// Adds a fence that the buffer keeps: it signals when the buffer goes, if not before.
    ///
    /// `EBUSY` if there are [`MAX_FENCES`] already.
    pub(crate) fn keep_fence(&self, fence: Fence, usage: Usage) -> Result {
        self.keeping(fence, |fence| self.add_fence(fence, usage))
    }

    /// Keeps a fence if `act` succeeds, which is not begun unless there is room.
    fn keeping(&self, fence: Fence, act: impl FnOnce(&Fence) -> Result) -> Result {
        self.make_room()?;
        act(&fence)?;
        Ok(self.exporter().fences.lock().push(fence, GFP_KERNEL)?)
    }

    fn make_room(&self) -> Result {
        let mut fences = self.exporter().fences.lock();

        if fences.len() >= MAX_FENCES {
            fences.retain(|fence| !fence.is_signaled());
        }
        if fences.len() >= MAX_FENCES {
            return Err(EBUSY);
        }
        Ok(fences.reserve(1, GFP_KERNEL)?)
    }

    /// Moves the buffer, whose content is in place when a fence signals that the buffer keeps.
    pub(crate) fn move_and_keep(&self, to: Destination<'_>, fence: Fence) -> Result {
        self.keeping(fence, |fence| {
            self.move_to(Destination {
                fence: Some(fence),
                ..to
            })
        })
    }

    /// Signals the fences that the buffer keeps, and forgets them.
    pub(crate) fn signal_fences(&self) {
        self.exporter().fences.lock().clear();
    }

    /// Reads what the buffer holds, in the exporter's own view.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result {
        let _held = self.lock();

        self.exporter().backing()?.read(offset, bytes)
    }

    /// Writes to the buffer, in the exporter's own view.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result {
        let _held = self.lock();

        self.exporter().backing()?.write(offset, bytes)
    }
}
