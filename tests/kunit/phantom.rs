// SPDX-License-Identifier: GPL-2.0

//! An exporter of addresses alone: buffers of any size with no memory behind them, for drivers
//! with a device of their own. Made and moved in next to no time, so there can be thousands.

use super::{
    check::{
        ensure,
        eventually,
        Verdict, //
    },
    fd::Fd,
    vram::{
        ops::{
            self,
            Exporter,
            Held,
            Link,
            Live,
            Mode,
            Ops,
            Side, //
        },
        stats::Count,
        table::Table, //
    },
};
use crate::{
    dma_buf::DmaBuf,
    window::Segment, //
};
use core::{
    ffi::c_void,
    ptr::NonNull, //
};
use kernel::{
    module::this_module,
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// What importers did to all buffers together.
pub(crate) struct Books {
    exports: Count,
    releases: Count,
    attaches: Count,
    detaches: Count,
    /// Attachments that would take memory of a device.
    peer2peers: Count,
    maps: Count,
    unmaps: Count,
    /// How often the contract was broken, edited tables included.
    breaches: Count,
}

impl Books {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                exports: Count::new(),
                releases: Count::new(),
                attaches: Count::new(),
                detaches: Count::new(),
                peer2peers: Count::new(),
                maps: Count::new(),
                unmaps: Count::new(),
                breaches: Count::new(),
            },
            GFP_KERNEL,
        )?)
    }

    /// Maps so far.
    pub(crate) fn maps(&self) -> u64 {
        self.maps.get()
    }

    /// Attachments so far that allow peer-to-peer.
    pub(crate) fn peer2peers(&self) -> u64 {
        self.peer2peers.get()
    }

    /// Everything that was taken must have been given back by now, as it was.
    pub(crate) fn settle(&self) -> Verdict {
        // The last reference of a file is dropped by a worker.
        ensure!(eventually(|| self.releases.get() == self.exports.get()));
        ensure!(self.attaches.get() == self.detaches.get());
        ensure!(self.maps.get() == self.unmaps.get());
        ensure!(self.breaches.get() == 0);
        Ok(())
    }
}

/// What the dma-buf leads to.
#[pin_data]
struct Shared {
    books: Arc<Books>,
    #[pin]
    link: Link<Self>,
    // Taken within the reservation lock; nobody is called within it.
    #[pin]
    segments: Mutex<KVec<Segment>>,
}

static OPS: Ops<Shared> = Ops::new();

impl Exporter for Shared {
    type Memory = ();

    fn ops() -> &'static Ops<Self> {
        &OPS
    }

    fn link(&self) -> &Link<Self> {
        &self.link
    }

    fn breach(&self, rule: &str) {
        pr_err!("the importer breaks the dma-buf contract: not {rule}\n");
        self.books.breaches.add_one();
    }

    fn attach(&self, side: &Side<'_, Self>) -> Result {
        if side.peer2peer() {
            self.books.peer2peers.add_one();
        }
        self.books.attaches.add_one();
        Ok(())
    }

    fn detach(&self, _side: &Side<'_, Self>) {
        self.books.detaches.add_one();
    }

    fn pin(&self, _side: &Side<'_, Self>, _held: &Held<'_, Self>) -> Result {
        Ok(())
    }

    fn unpin(&self, _side: &Side<'_, Self>, _held: &Held<'_, Self>) {}

    fn map(
        &self,
        _side: &Side<'_, Self>,
        _held: &Held<'_, Self>,
    ) -> Result<Option<KBox<Table<()>>>> {
        let table = Table::forged(&self.segments.lock(), ())?;

        self.books.maps.add_one();
        Ok(Some(table))
    }

    fn unmap(
        &self,
        _side: &Side<'_, Self>,
        _held: &Held<'_, Self>,
        _table: Option<KBox<Table<()>>>,
    ) {
        self.books.unmaps.add_one();
    }

    fn begin_cpu_access(&self) -> Result {
        Err(EOPNOTSUPP)
    }

    fn end_cpu_access(&self) -> Result {
        Err(EOPNOTSUPP)
    }

    fn mmap(&self) -> Result {
        Err(EOPNOTSUPP)
    }

    fn fault(&self, _held: &Held<'_, Self>, _offset: u64) -> Result<u64> {
        Err(EOPNOTSUPP)
    }

    fn vmap(&self, _held: &Held<'_, Self>) -> Result<NonNull<c_void>> {
        Err(EOPNOTSUPP)
    }

    fn vunmap(&self, _held: &Held<'_, Self>) {}

    fn release(&self) {
        self.books.releases.add_one();
    }
}

/// `EINVAL` if a length does not fit into an entry.
fn copied(segments: &[Segment]) -> Result<KVec<Segment>> {
    if segments.iter().any(|it| u32::try_from(it.len).is_err()) {
        return Err(EINVAL);
    }

    let mut copy = KVec::with_capacity(segments.len(), GFP_KERNEL)?;

    copy.extend_from_slice(segments, GFP_KERNEL)?;
    Ok(copy)
}

/// A buffer that consists of a table.
pub(crate) struct Phantom(DmaBuf);

impl Phantom {
    /// Exports a buffer of `size` bytes, whose every map gives `segments`.
    pub(crate) fn new(books: &Arc<Books>, size: u64, segments: &[Segment]) -> Result<Self> {
        let segments = copied(segments)?;
        let shared = Arc::pin_init(
            pin_init!(Shared {
                books: books.clone(),
                link <- Link::new(),
                segments <- new_mutex!(segments),
            }),
            GFP_KERNEL,
        )?;
        let module = this_module::<crate::LocalModule>();
        let name = c"rdma_dmabuf phantom";
        let dmabuf = ops::export(shared, name, module, size, Mode::ReadWrite, None)?;

        books.exports.add_one();
        Ok(Self(dmabuf))
    }

    /// Opens the buffer.
    pub(crate) fn fd(&self) -> Result<Fd> {
        Fd::of_dma_buf(ops::get(&self.0))
    }

    /// Moves the buffer to other addresses.
    pub(crate) fn move_to(&self, segments: &[Segment]) -> Result {
        let segments = copied(segments)?;
        let live = Live::<Shared>::of(&self.0).ok_or(EINVAL)?;
        let held = live.lock();
        let old = core::mem::replace(&mut *live.exporter().segments.lock(), segments);

        held.invalidate();
        drop(held);
        drop(old);
        Ok(())
    }
}
