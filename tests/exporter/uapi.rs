// SPDX-License-Identifier: GPL-2.0

//! The structures and numbers of `include/vram_exporter.h`, and what the module has once.

use super::{
    reclaimable::Reclaimable,
    vram::pool::Pool, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        global_lock,
        Arc, //
    },
    transmute::{
        AsBytes,
        FromBytes, //
    },
};

pub(crate) use crate::bindings::{
    vram_exporter_buffer as Buffer,
    vram_exporter_copy as Copy,
    vram_exporter_create as Create,
    vram_exporter_fault as Fault,
    vram_exporter_fence as Fence,
    vram_exporter_loop as Loop,
    vram_exporter_move as Move,
    vram_exporter_pair as Pair,
    vram_exporter_pin_quota as PinQuota,
    vram_exporter_revoke as Revoke,
    vram_exporter_stats as Stats,
    VRAM_EXPORTER_CREATE_ONLY_REVOCABLE as ONLY_REVOCABLE,
    VRAM_EXPORTER_CREATE_RECLAIMABLE as RECLAIMABLE,
    VRAM_EXPORTER_NEVER as NEVER, //
};

/// An argument of a command: any bytes are one, and there is none between its fields.
pub(crate) trait Argument: FromBytes + AsBytes {}

macro_rules! arguments {
    ($($name:ident),* $(,)?) => {
        $(
            // SAFETY: Integers and arrays of them, of the sizes that the header says: no padding,
            // which the sum of the fields' sizes shows.
            unsafe impl FromBytes for $name {}

            // SAFETY: As above.
            unsafe impl AsBytes for $name {}

            impl Argument for $name {}
        )*
    };
}

arguments!(Buffer, Copy, Create, Fault, Fence, Loop, Move, Pair, PinQuota, Revoke, Stats);

// Multiples of the largest field, with every byte of it named.
const _: () = {
    assert!(size_of::<Buffer>() == 16);
    assert!(size_of::<Copy>() == 40);
    assert!(size_of::<Create>() == 40);
    assert!(size_of::<Fault>() == 32);
    assert!(size_of::<Fence>() == 32);
    assert!(size_of::<Loop>() == 16);
    assert!(size_of::<Move>() == 32);
    assert!(size_of::<Pair>() == 16);
    assert!(size_of::<PinQuota>() == 16);
    assert!(size_of::<Revoke>() == 16);
    assert!(size_of::<Stats>() == 168);
};

macro_rules! constants {
    ($name:ident: $($short:ident = $long:ident),* $(,)?) => {
        /// Constants of an enumeration of the header.
        pub(crate) mod $name {
            $(pub(crate) const $short: u32 = crate::bindings::$long;)*
        }
    };
}

constants!(command:
    CREATE = vram_exporter_command_VRAM_EXPORTER_COMMAND_CREATE,
    MOVE = vram_exporter_command_VRAM_EXPORTER_COMMAND_MOVE,
    LOOP = vram_exporter_command_VRAM_EXPORTER_COMMAND_LOOP,
    REVOKE = vram_exporter_command_VRAM_EXPORTER_COMMAND_REVOKE,
    UNREVOKE = vram_exporter_command_VRAM_EXPORTER_COMMAND_UNREVOKE,
    PIN_QUOTA = vram_exporter_command_VRAM_EXPORTER_COMMAND_PIN_QUOTA,
    FENCE = vram_exporter_command_VRAM_EXPORTER_COMMAND_FENCE,
    SIGNAL = vram_exporter_command_VRAM_EXPORTER_COMMAND_SIGNAL,
    FAULT = vram_exporter_command_VRAM_EXPORTER_COMMAND_FAULT,
    STATS = vram_exporter_command_VRAM_EXPORTER_COMMAND_STATS,
    READ = vram_exporter_command_VRAM_EXPORTER_COMMAND_READ,
    WRITE = vram_exporter_command_VRAM_EXPORTER_COMMAND_WRITE,
    INVALIDATE = vram_exporter_command_VRAM_EXPORTER_COMMAND_INVALIDATE,
    SHRINK = vram_exporter_command_VRAM_EXPORTER_COMMAND_SHRINK,
    MOVE_BOTH = vram_exporter_command_VRAM_EXPORTER_COMMAND_MOVE_BOTH,
);

constants!(layout:
    SAME = vram_exporter_layout_VRAM_EXPORTER_LAYOUT_SAME,
    ONE_RUN = vram_exporter_layout_VRAM_EXPORTER_LAYOUT_ONE_RUN,
    HUGE = vram_exporter_layout_VRAM_EXPORTER_LAYOUT_HUGE,
    SCATTERED = vram_exporter_layout_VRAM_EXPORTER_LAYOUT_SCATTERED,
    UNEVEN = vram_exporter_layout_VRAM_EXPORTER_LAYOUT_UNEVEN,
    MERGED = vram_exporter_layout_VRAM_EXPORTER_LAYOUT_MERGED,
    SPLIT = vram_exporter_layout_VRAM_EXPORTER_LAYOUT_SPLIT,
    CHANGING = vram_exporter_layout_VRAM_EXPORTER_LAYOUT_CHANGING,
);

constants!(placement:
    SAME = vram_exporter_placement_VRAM_EXPORTER_PLACEMENT_SAME,
    VRAM = vram_exporter_placement_VRAM_EXPORTER_PLACEMENT_VRAM,
    SYSTEM = vram_exporter_placement_VRAM_EXPORTER_PLACEMENT_SYSTEM,
);

constants!(usage:
    KERNEL = vram_exporter_usage_VRAM_EXPORTER_USAGE_KERNEL,
    WRITE = vram_exporter_usage_VRAM_EXPORTER_USAGE_WRITE,
    READ = vram_exporter_usage_VRAM_EXPORTER_USAGE_READ,
    BOOKKEEP = vram_exporter_usage_VRAM_EXPORTER_USAGE_BOOKKEEP,
);

constants!(op:
    ATTACH = vram_exporter_op_VRAM_EXPORTER_OP_ATTACH,
    PIN = vram_exporter_op_VRAM_EXPORTER_OP_PIN,
    MAP = vram_exporter_op_VRAM_EXPORTER_OP_MAP,
    UNMAP = vram_exporter_op_VRAM_EXPORTER_OP_UNMAP,
);

constants!(action:
    CLEAR = vram_exporter_action_VRAM_EXPORTER_ACTION_CLEAR,
    FAIL = vram_exporter_action_VRAM_EXPORTER_ACTION_FAIL,
    INVALIDATE = vram_exporter_action_VRAM_EXPORTER_ACTION_INVALIDATE,
    NO_P2P = vram_exporter_action_VRAM_EXPORTER_ACTION_NO_P2P,
    NULL = vram_exporter_action_VRAM_EXPORTER_ACTION_NULL,
    SHORT = vram_exporter_action_VRAM_EXPORTER_ACTION_SHORT,
    EMPTY = vram_exporter_action_VRAM_EXPORTER_ACTION_EMPTY,
    OVER_LONG = vram_exporter_action_VRAM_EXPORTER_ACTION_OVER_LONG,
    UNALIGNED = vram_exporter_action_VRAM_EXPORTER_ACTION_UNALIGNED,
    ZERO_LENGTH = vram_exporter_action_VRAM_EXPORTER_ACTION_ZERO_LENGTH,
    HUGE = vram_exporter_action_VRAM_EXPORTER_ACTION_HUGE,
    IO = vram_exporter_action_VRAM_EXPORTER_ACTION_IO,
    EVICT = vram_exporter_action_VRAM_EXPORTER_ACTION_EVICT,
);

/// Flags of `open()`.
pub(crate) mod open {
    pub(crate) const ACCESS: u32 = crate::bindings::O_ACCMODE;
    pub(crate) const READ_ONLY: u32 = crate::bindings::O_RDONLY;
    pub(crate) const WRITE_ONLY: u32 = crate::bindings::O_WRONLY;
    pub(crate) const READ_WRITE: u32 = crate::bindings::O_RDWR;
    pub(crate) const CLOEXEC: u32 = crate::bindings::O_CLOEXEC;
}

/// What all buffers of the module have in common.
#[derive(Clone)]
pub(crate) struct Card {
    pub(crate) pool: Arc<Pool>,
    /// The buffers that a shrinker takes mappings of.
    pub(crate) reclaimable: Arc<Reclaimable>,
    /// The most bytes of a buffer.
    pub(crate) size_limit: u64,
}

// SAFETY: Initialised by `InService::new()`, which runs once, before anybody can open the device.
global_lock! {
    unsafe(uninit) static CARD: Mutex<Option<Card>> = None;
}

/// The card of the module.
pub(crate) fn card() -> Result<Card> {
    CARD.lock().clone().ok_or(ENODEV)
}

/// Whether there has been a card.
static IS_IN_USE: Atomic<bool> = Atomic::new(false);

/// The card, as long as files can ask for it.
pub(crate) struct InService(());

impl InService {
    /// Puts `card` into service, at the one time when the module is loaded.
    pub(crate) fn new(card: Card) -> Result<Self> {
        if IS_IN_USE.xchg(true, Relaxed) {
            return Err(EBUSY);
        }

        // SAFETY: Only the first caller gets here; the device comes after that.
        unsafe { CARD.init() };
        *CARD.lock() = Some(card);
        Ok(Self(()))
    }
}

impl Drop for InService {
    fn drop(&mut self) {
        let card = CARD.lock().take();

        drop(card);
    }
}
