// SPDX-License-Identifier: GPL-2.0

//! What an exporter is ordered to do wrong, or only unexpectedly.

use super::buffer::Buffer;
use crate::window::{
    Segment,
    PAGE_SIZE, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The number of orders that can be open at a time.
const MAX_ORDERS: usize = 16;

/// Where addresses of memory that is no RAM start: the local APIC's, which no bus gives to others.
const IO_BASE: u64 = 0xfee0_0000;

/// Where nothing is, within 52 bits.
const NOWHERE: u64 = 1 << 40;

/// The largest entry that a table can have.
const ALMOST_4G: u64 = (1 << 32) - PAGE_SIZE;

/// An operation of an importer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Attach,
    Pin,
    Map,
    Unmap,
}

/// A table that is not as it should be; it has no pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Forgery {
    /// The last page is missing.
    Short,
    /// No entries.
    Empty,
    /// A page more than the buffer has.
    OverLong,
    /// Neither addresses nor lengths are multiples of a page.
    Unaligned,
    /// An entry without a byte before each other.
    ZeroLength,
    /// Entries of almost 4 GiB.
    Huge,
    /// Right, but for addresses that no page is behind: memory of a device.
    Io,
}

impl Forgery {
    /// The entries, for a buffer that lies in `runs`.
    pub(crate) fn segments(self, runs: impl Iterator<Item = Segment>) -> Result<KVVec<Segment>> {
        let mut table = KVVec::new();
        let mut size = 0u64;

        if self == Self::Empty {
            return Ok(table);
        }
        for run in runs {
            let addr = match self {
                Self::Io => IO_BASE.wrapping_add(size),
                Self::Huge => NOWHERE.wrapping_add(size),
                _ => run.addr,
            };

            if self == Self::ZeroLength {
                table.push(Segment { addr, len: 0 }, GFP_KERNEL)?;
            }
            table.push(Segment { addr, ..run }, GFP_KERNEL)?;
            size = size.wrapping_add(run.len);
        }
        if let Some(last) = table.last_mut() {
            match self {
                Self::Short => last.len = last.len.saturating_sub(PAGE_SIZE),
                Self::OverLong => last.len = last.len.saturating_add(PAGE_SIZE),
                Self::Unaligned => {
                    last.addr = last.addr.wrapping_add(8);
                    last.len = last.len.saturating_sub(8);
                }
                Self::Huge => last.len = ALMOST_4G,
                Self::Empty | Self::ZeroLength | Self::Io => {}
            }
        }
        if self == Self::Short {
            table.retain(|segment| segment.len != 0);
        }
        Ok(table)
    }
}

/// What an operation does instead of, or beside, what it should.
pub(crate) enum Action {
    Fail(Error),
    /// Neither a table nor an error; for a map.
    Nothing,
    /// A table that is not as it should be; for a map.
    Forge(Forgery),
    /// A table of these DMA addresses; for a map, once.
    Table(KVec<Segment>),
    /// Calls the importers back, in their own task, before anything else.
    CallBack,
    /// Tells the importer that it cannot reach memory of a device; for an attach.
    ClearPeer2peer,
    /// Moves another buffer first; for a map.
    Evict(Arc<Buffer>),
}

/// Something that is ordered: once, or every so many operations.
struct Order {
    op: Op,
    action: Action,
    every: Option<u32>,
    seen: u32,
}

/// What is to be done in one operation.
#[derive(Default)]
pub(crate) struct Due {
    pub(crate) calls_back: bool,
    pub(crate) clears_peer2peer: bool,
    pub(crate) evicts: Option<Arc<Buffer>>,
    /// In place of what the operation would answer.
    pub(crate) answer: Option<Action>,
}

/// What was ordered. Nothing is allocated here: it is looked at to reclaim memory.
#[derive(Default)]
pub(crate) struct Faults([Option<Order>; MAX_ORDERS]);

impl Faults {
    /// Orders `action` for the next operation, or for every `every`th. `EBUSY` if too much is
    /// ordered, `EINVAL` for what the operation cannot do, or not more than once.
    pub(crate) fn order(&mut self, op: Op, action: Action, every: Option<u32>) -> Result {
        let is_possible = match &action {
            Action::Fail(_) => op != Op::Unmap,
            Action::Nothing | Action::Forge(_) | Action::Evict(_) => op == Op::Map,
            Action::Table(_) => op == Op::Map && every.is_none(),
            Action::CallBack => true,
            Action::ClearPeer2peer => op == Op::Attach,
        };
        if !is_possible || every == Some(0) {
            return Err(EINVAL);
        }

        let free = self.0.iter_mut().find(|order| order.is_none());
        *free.ok_or(EBUSY)? = Some(Order {
            op,
            action,
            every,
            seen: 0,
        });
        Ok(())
    }

    /// Forgets what was ordered for `op` and is `wanted`.
    pub(crate) fn forget(&mut self, op: Op, wanted: impl Fn(&Action) -> bool) {
        for order in &mut self.0 {
            order.take_if(|order| order.op == op && wanted(&order.action));
        }
    }

    /// Forgets everything.
    pub(crate) fn forget_all(&mut self) {
        *self = Self::default();
    }

    /// Whether something is ordered that is `wanted`.
    pub(crate) fn has(&self, wanted: impl Fn(&Action) -> bool) -> bool {
        self.0.iter().flatten().any(|order| wanted(&order.action))
    }

    /// What is to be done in an operation that begins now.
    pub(crate) fn due(&mut self, op: Op) -> Due {
        let mut due = Due::default();

        for slot in &mut self.0 {
            let Some(order) = slot.as_mut().filter(|order| order.op == op) else {
                continue;
            };
            let action = match order.every {
                None => slot.take().map(|order| order.action),
                Some(every) => {
                    order.seen = (order.seen + 1) % every;
                    (order.seen == 0).then(|| order.action.again()).flatten()
                }
            };

            match action {
                Some(Action::CallBack) => due.calls_back = true,
                Some(Action::ClearPeer2peer) => due.clears_peer2peer = true,
                Some(Action::Evict(other)) => due.evicts = Some(other),
                Some(answer) => due.answer = Some(answer),
                None => {}
            }
        }
        due
    }
}

impl Action {
    /// The same once more, if it can be.
    fn again(&self) -> Option<Self> {
        Some(match self {
            Self::Fail(error) => Self::Fail(*error),
            Self::Nothing => Self::Nothing,
            Self::Forge(forgery) => Self::Forge(*forgery),
            Self::Table(_) => return None,
            Self::CallBack => Self::CallBack,
            Self::ClearPeer2peer => Self::ClearPeer2peer,
            Self::Evict(other) => Self::Evict(other.clone()),
        })
    }
}
