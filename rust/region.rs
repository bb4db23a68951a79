// SPDX-License-Identifier: GPL-2.0

//! A region: a stretch of a dma-buf that a memory region of an RDMA driver stands on.
//!
//! The driver's side of it. What the exporter can reach is the [`Body`], where the states are.

use crate::{
    attachment::Attachment,
    block_list::Blocks,
    body::{
        Body,
        Request,
        State, //
    },
    dma_buf::DmaBuf,
    driver::Driver,
    gate::{
        Gate,
        Pass, //
    },
    importer::{
        Importer,
        Listing, //
    },
    patience::{
        Patience,
        Wait, //
    },
    record::Record, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// A region in use by a driver.
pub(crate) struct Region<D: Driver> {
    attachment: Attachment<Body<D>>,
    patience: Patience,
    is_dying: Atomic<bool>,
    // Dropped last: the list shows a region until its dma-buf is given back.
    _listing: Listing,
}

impl<D: Driver> Region<D> {
    /// Attaches, maps, waits until the memory may be touched or a fatal signal arrives, and hands
    /// the blocks to `driver`.
    ///
    /// `EINVAL` if the window is not within the buffer or empty, `EACCES` if the file lacks a
    /// right; see [`Blocks::new`], [`Attachment::new`] and [`Driver::map`] for the rest. The
    /// reservation lock must not be held.
    pub(crate) fn new(
        importer: &Arc<Importer>,
        dmabuf: DmaBuf,
        request: Request,
        driver: D,
    ) -> Result<Self> {
        request.window.check_buffer(dmabuf.size() as u64)?;
        if importer.settings().check_rights {
            check_rights(&dmabuf, request.is_writable)?;
        }

        let record = Record::new(
            importer.next_id(),
            &dmabuf,
            request.window,
            request.mode,
            request.stats,
            importer.totals().clone(),
        )?;
        let device = request.device.clone();
        let mode = request.mode;
        let body = Body::new(request, driver, record.clone());
        let attachment = Attachment::new(dmabuf, device, mode, body, State::Unmapped)?;

        record.attached();
        let region = Self {
            attachment,
            patience: Patience::new(importer.settings().fence_timeout_ms),
            is_dying: Atomic::new(false),
            _listing: importer.list(record)?,
        };

        region.bring_up()?;
        Ok(region)
    }

    fn body(&self) -> &Body<D> {
        self.attachment.importer()
    }

    /// The first map, at registration.
    fn bring_up(&self) -> Result {
        let mut wait = Patience::until_killed();

        loop {
            let held = self.attachment.lock();
            self.body().ensure_mapped(&held)?;
            if held.is_signaled() {
                return self.body().open(&held);
            }
            drop(held);

            self.wait_for_fences(&mut wait)?;
        }
    }

    fn wait_for_fences(&self, wait: &mut Wait<'_>) -> Result {
        let before = wait.elapsed_ns();
        let result = wait.for_fences(self.attachment.resv(), || self.has_ended());

        self.body()
            .record
            .waited(wait.elapsed_ns().saturating_sub(before));
        result
    }

    /// Lets an access to `length` bytes at `iova` pass, mapping the buffer if it has moved.
    ///
    /// `EINVAL` outside the window, `ENODEV` after [`Region::shutdown`] and once revoked,
    /// `ETIMEDOUT` if the fences took too long, else the exporter's or the driver's code. The
    /// reservation lock must not be held.
    pub(crate) fn access(&self, iova: u64, length: u64) -> Result<Pass<'_, Blocks>> {
        self.try_access(iova, length)
            .inspect_err(|_| self.body().record.refused())
    }

    fn try_access(&self, iova: u64, length: u64) -> Result<Pass<'_, Blocks>> {
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

    /// Maps the buffer if it has moved, and hands the blocks to the driver: for a driver whose
    /// device has run into an unmapped region.
    ///
    /// `EINVAL` once revoked (as `ib_umem_dmabuf_map_pages()`), else as [`Region::access`].
    pub(crate) fn map(&self) -> Result {
        if self.body().is_revoked() {
            return Err(EINVAL);
        }
        self.fault().map(drop)
    }

    /// The slow path: map, wait for the content without the lock, and look again.
    ///
    /// The pass is taken before the lock is given up, so an exporter that moves the buffer in a
    /// loop can delay an access but not starve it.
    fn fault(&self) -> Result<Pass<'_, Blocks>> {
        let body = self.body();
        let mut wait = self.patience.begin();

        loop {
            if self.has_ended() {
                return Err(ENODEV);
            }

            let held = self.attachment.lock();
            if body.ensure_mapped(&held)? {
                body.record.faulted();
            }
            if held.is_signaled() {
                body.open(&held)?;
                return body.gate.pass_held(&held).ok_or(EAGAIN);
            }
            drop(held);

            self.wait_for_fences(&mut wait)?;
        }
    }

    /// For an access whose [`Pass`] was turned into a borrow of C.
    pub(crate) fn gate(&self) -> &Gate<Blocks> {
        &self.body().gate
    }

    /// What is known of the region.
    pub(crate) fn record(&self) -> &Record {
        &self.body().record
    }

    /// Whether an access is under way.
    pub(crate) fn is_accessed(&self) -> bool {
        self.gate().is_passed()
    }

    fn is_dying(&self) -> bool {
        self.is_dying.load(Relaxed)
    }

    fn has_ended(&self) -> bool {
        self.is_dying() || self.body().is_revoked()
    }

    /// Lets no further access succeed, and ends the waits of those under way.
    pub(crate) fn shutdown(&self) {
        self.is_dying.store(true, Relaxed);
    }

    /// Ends every access and gives the memory back for ever, in every mode. The second time does
    /// nothing, and the region still has to be given up. The reservation lock must not be held.
    pub(crate) fn revoke(&self) {
        let held = self.attachment.lock();

        self.body().revoke(&held);
    }
}

impl<D: Driver> Drop for Region<D> {
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
