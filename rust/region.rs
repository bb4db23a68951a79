// SPDX-License-Identifier: GPL-2.0

//! A region: a stretch of a dma-buf that a memory region of an RDMA driver stands on.
//!
//! ```text
//!               access or registration            fences signalled
//!   Unmapped ─────────▶ Mapping ─────────▶ Mapped ─────────▶ Mapped, gate open
//!      ▲                                     │                     │
//!      └────────── invalidate: close the gate, then unmap ─────────┘
//! ```
//!
//! Everything but "gate open" is the state under the reservation lock. `Mapping` is there for an
//! exporter that moves the buffer for us while we map it and calls back in the middle: that is
//! the buffer being placed, and says nothing about the table the map is about to return.

use crate::{
    attachment::{
        Attachment,
        Held,
        Importer as Invalidate,
        Mapping, //
    },
    device::DmaDevice,
    dma_buf::DmaBuf,
    gate::{
        Gate,
        Pass, //
    },
    importer::{
        Importer,
        Listing, //
    },
    patience::Patience,
    record::Record,
    view::View,
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
}

/// Where a region stands; changes only under the reservation lock.
enum State {
    /// The exporter is free to move the buffer.
    Unmapped,
    /// A task is mapping; it holds the lock all the time.
    Mapping,
    /// The table is valid until the exporter calls back.
    Mapped(Mapping, Content),
}

/// Whether the memory of a valid table may be touched.
enum Content {
    /// Not yet: the exporter may still be filling it.
    Pending(View),
    /// The gate is open.
    Ready,
}

/// What the exporter can call back.
#[pin_data]
struct Body {
    window: Window,
    block_sizes: u64,
    device: DmaDevice,
    record: Arc<Record>,
    dying: Atomic<bool>,
    #[pin]
    gate: Gate<View>,
}

impl Body {
    fn new(request: Request, record: Arc<Record>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            window: request.window,
            block_sizes: request.block_sizes,
            device: request.device,
            record,
            dying: Atomic::new(false),
            gate <- Gate::new(c"rdma_dmabuf::gate", static_lock_class!()),
        })
    }

    /// Maps the buffer unless it is mapped. Returns whether it had to.
    fn ensure_mapped(&self, held: &Held<'_, Self>) -> Result<bool> {
        match held.replace_state(State::Mapping) {
            State::Unmapped => {
                let (state, result) = match self.map(held) {
                    Ok((mapping, view)) => (
                        State::Mapped(mapping, Content::Pending(view)),
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
            // Called back from inside our own map, which will do it.
            State::Mapping => Err(EBUSY),
        }
    }

    fn map(&self, held: &Held<'_, Self>) -> Result<(Mapping, View)> {
        let mapping = held.map()?;

        match View::new(&mapping, &self.window, self.block_sizes, &self.device) {
            Ok(view) => {
                self.record.mapped(&view);
                Ok((mapping, view))
            }
            Err(error) => {
                held.unmap(mapping);
                Err(error)
            }
        }
    }

    /// Opens the gate if the buffer is mapped; to be called once the fences have signalled.
    fn open(&self, held: &Held<'_, Self>) {
        let state = match held.replace_state(State::Mapping) {
            State::Mapped(mapping, Content::Pending(view)) => {
                self.gate.open(held, view);
                State::Mapped(mapping, Content::Ready)
            }
            other => other,
        };

        held.replace_state(state);
    }

    /// Ends every access, then gives the mapping back. Nothing to do if there is none.
    fn unmap(&self, held: &Held<'_, Self>) {
        match held.replace_state(State::Unmapped) {
            State::Mapped(mapping, _) => {
                drop(self.gate.close(held));
                held.unmap(mapping);
                self.record.unmapped();
            }
            other => {
                held.replace_state(other);
            }
        }
    }
}

impl Invalidate for Body {
    type State = State;

    fn invalidate(&self, held: &Held<'_, Self>) {
        self.record.invalidated();
        self.unmap(held);
    }
}

/// A region in use by a driver.
pub(crate) struct Region {
    attachment: Attachment<Body>,
    patience: Patience,
    // Dropped last: the list shows a region until its dma-buf is given back.
    _listing: Listing,
}

impl Region {
    /// Attaches, maps, and waits until the memory may be touched or a fatal signal arrives.
    ///
    /// `EINVAL` if the window is not within the buffer or empty, `EACCES` if the file lacks a
    /// right; see [`View::new`] and [`Attachment::new`] for the rest. The reservation lock must
    /// not be held.
    pub(crate) fn new(importer: &Arc<Importer>, dmabuf: DmaBuf, request: Request) -> Result<Self> {
        request.window.check_buffer(dmabuf.size() as u64)?;
        if importer.settings().check_rights {
            check_rights(&dmabuf, request.is_writable)?;
        }

        let record = Record::new(
            importer.next_id(),
            &dmabuf,
            request.window,
            importer.totals().clone(),
        )?;
        let device = request.device.clone();
        let body = Body::new(request, record.clone());
        let attachment = Attachment::new(dmabuf, device, body, State::Unmapped)?;

        record.attached();
        let region = Self {
            attachment,
            patience: Patience::new(importer.settings().fence_timeout_ms),
            _listing: importer.list(record)?,
        };

        region.bring_up()?;
        Ok(region)
    }

    fn body(&self) -> &Body {
        self.attachment.importer()
    }

    /// The first map, at registration.
    fn bring_up(&self) -> Result {
        let mut wait = Patience::until_killed();

        loop {
            let held = self.attachment.lock();
            self.body().ensure_mapped(&held)?;
            if held.is_signaled() {
                self.body().open(&held);
                return Ok(());
            }
            drop(held);

            wait.for_fences(self.attachment.resv(), || false)?;
        }
    }

    /// Lets an access to `length` bytes at `iova` pass, mapping the buffer if it has moved.
    ///
    /// `EINVAL` outside the window, `ENODEV` after [`Region::shutdown`], `ETIMEDOUT` if the fences
    /// took too long, else the exporter's code. The reservation lock must not be held.
    pub(crate) fn access(&self, iova: u64, length: u64) -> Result<Pass<'_, View>> {
        self.try_access(iova, length)
            .inspect_err(|_| self.body().record.refused())
    }

    fn try_access(&self, iova: u64, length: u64) -> Result<Pass<'_, View>> {
        if !self.body().window.contains(iova, length) {
            return Err(EINVAL);
        }
        if self.is_dying() {
            return Err(ENODEV);
        }
        if let Some(pass) = self.body().gate.try_pass() {
            return Ok(pass);
        }
        self.fault()
    }

    /// The slow path: map, wait for the content without the lock, and look again.
    ///
    /// The pass is taken before the lock is given up, so an exporter that moves the buffer in a
    /// loop can delay an access but not starve it.
    fn fault(&self) -> Result<Pass<'_, View>> {
        let body = self.body();
        let mut wait = self.patience.begin();

        loop {
            if self.is_dying() {
                return Err(ENODEV);
            }

            let held = self.attachment.lock();
            if body.ensure_mapped(&held)? {
                body.record.faulted();
            }
            if held.is_signaled() {
                body.open(&held);
                return body.gate.pass_held(&held).ok_or(EAGAIN);
            }
            drop(held);

            wait.for_fences(self.attachment.resv(), || self.is_dying())?;
        }
    }

    /// Ends an access whose [`Pass`] was turned into a borrow of C.
    pub(crate) fn gate(&self) -> &Gate<View> {
        &self.body().gate
    }

    fn is_dying(&self) -> bool {
        self.body().dying.load(Relaxed)
    }

    /// Lets no further access succeed, and ends the waits of those under way.
    pub(crate) fn shutdown(&self) {
        self.body().dying.store(true, Relaxed);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let held = self.attachment.lock();

        self.body().unmap(&held);
    }
}

/// An MR can always be read, by a local send, and is written if its access says so; core does not
/// ask whether the file allows it.
fn check_rights(dmabuf: &DmaBuf, is_writable: bool) -> Result {
    if !dmabuf.is_readable() || (is_writable && !dmabuf.is_writable()) {
        return Err(EACCES);
    }
    Ok(())
}
