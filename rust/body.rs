// SPDX-License-Identifier: GPL-2.0

//! The part of a region that an exporter can call back, and its states.
//!
//! ```text
//!              access or registration              fences signalled
//!   Unmapped ─────────▶ Mapping ─────────▶ Mapped, pending ─────────▶ Mapped, gate open
//!      ▲                                     │                          │       │
//!      └──────── dynamic: close the gate, then unmap, then unpin ───────┘       │
//!                                                                              ▼
//!              revocable, or the driver's wish: the same, and for ever ─────▶ Revoked
//! ```
//!
//! Everything but "gate open" is the state under the reservation lock. `Mapping` covers the pin as
//! well, and is there for an exporter that moves the buffer for us in the middle of either, and
//! calls back: that is the buffer being placed. It says nothing about the table that the map is
//! about to return, and is no revocation.

use crate::{
    attachment::{
        Held,
        Importer as Invalidate,
        Mapping,
        Mode, //
    },
    block_list::Blocks,
    c_driver::DriverStats,
    device::DmaDevice,
    driver::Driver,
    gate::Gate,
    record::Record,
    window::Window, //
};
use kernel::{
    prelude::*,
    static_lock_class,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// What a driver asks for, apart from the dma-buf.
pub(crate) struct Request {
    /// The bytes, and the address by which they are reached.
    pub(crate) window: Window,
    /// Bit `n` stands for blocks of 2^`n` bytes.
    pub(crate) block_sizes: u64,
    /// Whose addresses are wanted.
    pub(crate) device: DmaDevice,
    /// Whether the memory will be written through the region.
    pub(crate) is_writable: bool,
    /// What becomes of the region when the exporter wants to move the buffer.
    pub(crate) mode: Mode,
    /// Where the driver counts.
    pub(crate) stats: DriverStats,
}

/// Where a region stands; changes only under the reservation lock.
pub(crate) enum State {
    /// The exporter is free to move the buffer.
    Unmapped,
    /// A task pins, maps, or has the driver take the blocks; it holds the lock all the time.
    Mapping,
    /// The table is valid until the exporter calls back.
    Mapped(Mapping, Content),
    /// There will be no memory again.
    Revoked,
}

/// Whether the memory of a valid table may be touched.
pub(crate) enum Content {
    /// Not yet: the exporter may still be filling it.
    Pending(Blocks),
    /// The driver has the blocks, and the gate is open.
    Ready,
}

/// What the exporter can call back.
#[pin_data]
pub(crate) struct Body<D> {
    pub(crate) window: Window,
    block_sizes: u64,
    device: DmaDevice,
    mode: Mode,
    driver: D,
    pub(crate) record: Arc<Record>,
    is_revoked: Atomic<bool>,
    #[pin]
    pub(crate) gate: Gate<Blocks>,
}

impl<D: Driver> Body<D> {
    pub(crate) fn new(
        request: Request,
        driver: D,
        record: Arc<Record>,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            window: request.window,
            block_sizes: request.block_sizes,
            device: request.device,
            mode: request.mode,
            driver,
            record,
            is_revoked: Atomic::new(false),
            gate <- Gate::new(c"rdma_dmabuf::gate", static_lock_class!()),
        })
    }

    /// Whether the memory is gone for ever.
    pub(crate) fn is_revoked(&self) -> bool {
        self.is_revoked.load(Relaxed)
    }

    /// Maps the buffer unless it is mapped. Returns whether it had to.
    ///
    /// `ENODEV` once revoked, `EBUSY` from inside a map of the same region, else as
    /// [`Held::map`] and [`Blocks::new`].
    pub(crate) fn ensure_mapped(&self, held: &Held<'_, Self>) -> Result<bool> {
        match held.replace_state(State::Mapping) {
            State::Unmapped => {
                let (state, result) = match self.map(held) {
                    Ok((mapping, blocks)) => (
                        State::Mapped(mapping, Content::Pending(blocks)),
                        Ok(true), //
                    ),
                    Err(error) => (State::Unmapped, Err(error)),
                };

                held.replace_state(state);
                result
            }
            mapped @ State::Mapped(..) => {
                held.replace_state(mapped);
                Ok(false)
            }
            State::Revoked => {
                held.replace_state(State::Revoked);
                Err(ENODEV)
            }
            // Called back from inside our own map, which will do it.
            State::Mapping => Err(EBUSY),
        }
    }

    fn map(&self, held: &Held<'_, Self>) -> Result<(Mapping, Blocks)> {
        let mapping = held.map()?;

        match Blocks::new(&mapping, &self.window, self.block_sizes, &self.device) {
            Ok(blocks) => {
                self.record.mapped(&blocks);
                Ok((mapping, blocks))
            }
            Err(error) => {
                held.unmap(mapping);
                Err(error)
            }
        }
    }

    /// Hands the blocks to the driver and opens the gate if the buffer is mapped; to be called once
    /// the fences have signalled. The buffer is unmapped if the driver cannot take the blocks.
    pub(crate) fn open(&self, held: &Held<'_, Self>) -> Result {
        match held.replace_state(State::Mapping) {
            State::Mapped(mapping, Content::Pending(blocks)) => {
                let (state, result) = match self.driver.map(&blocks) {
                    Ok(()) => {
                        self.gate.open(held, blocks);
                        (State::Mapped(mapping, Content::Ready), Ok(()))
                    }
                    Err(error) => {
                        self.give_back(held, mapping);
                        (State::Unmapped, Err(error))
                    }
                };

                held.replace_state(state);
                result
            }
            other => {
                held.replace_state(other);
                Ok(())
            }
        }
    }

    fn give_back(&self, held: &Held<'_, Self>, mapping: Mapping) {
        held.unmap(mapping);
        self.record.unmapped();
    }

    /// Ends every access, then gives the mapping back, and leaves the region in `next`. Nothing to
    /// do if there is none. Returns whether there was one.
    fn leave_mapped(&self, held: &Held<'_, Self>, next: State) -> bool {
        match held.replace_state(next) {
            State::Mapped(mapping, content) => {
                drop(self.gate.close(held));
                if matches!(content, Content::Ready) {
                    self.driver.unmap();
                }
                self.give_back(held, mapping);
                true
            }
            other => {
                held.replace_state(other);
                false
            }
        }
    }

    /// Ends every access and unmaps; the next access maps again.
    pub(crate) fn unmap(&self, held: &Held<'_, Self>) {
        self.leave_mapped(held, State::Unmapped);
    }

    /// Takes the memory away for ever. The second time does nothing.
    pub(crate) fn revoke(&self, held: &Held<'_, Self>) {
        if self.revoke_mapped(held) {
            return;
        }
        match held.replace_state(State::Revoked) {
            State::Unmapped => self.note_revoked(),
            other => {
                held.replace_state(other);
            }
        }
    }

    /// Takes memory away for ever that has been pinned and mapped. Returns whether there was any.
    fn revoke_mapped(&self, held: &Held<'_, Self>) -> bool {
        let was_mapped = self.leave_mapped(held, State::Revoked);

        if was_mapped {
            self.note_revoked();
        }
        was_mapped
    }

    fn note_revoked(&self) {
        self.is_revoked.store(true, Relaxed);
        self.record.revoked();
        self.driver.revoked();
    }
}

impl<D: Driver> Invalidate for Body<D> {
    type State = State;

    fn invalidate(&self, held: &Held<'_, Self>) {
        self.record.invalidated();
        match self.mode {
            Mode::Revocable => {
                self.revoke_mapped(held);
            }
            Mode::Dynamic | Mode::Pinned => self.unmap(held),
        }
    }
}
