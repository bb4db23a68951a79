// SPDX-License-Identifier: GPL-2.0

//! An importer that does with a dma-buf what a case says, by the calls of core alone.
//!
//! C header: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h)

use super::{
    exporter::Exporter,
    hardware::Hardware,
    vram::memory::copy_to_phys, //
};
use crate::{
    bindings,
    dma_buf::DmaBuf,
    window::Segment, //
};
use core::{
    cell::Cell,
    mem::MaybeUninit,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    scatterlist::SGTable,
    sync::atomic::{
        Acquire,
        Atomic,
        Full, //
    },
};

/// What an importer says of itself when it attaches.
#[derive(Clone, Copy, Default)]
pub(crate) struct Manners {
    /// It has a callback.
    pub(crate) is_revocable: bool,
    /// It unmaps in the callback.
    pub(crate) lets_go: bool,
    pub(crate) peer2peer: bool,
}

impl Manners {
    /// With a callback, in which it unmaps.
    pub(crate) const DYNAMIC: Self = Self {
        is_revocable: true,
        lets_go: true,
        peer2peer: false,
    };

    /// Without a callback.
    pub(crate) const PINNED: Self = Self {
        is_revocable: false,
        lets_go: false,
        peer2peer: false,
    };

    /// As dynamic, with peer-to-peer.
    pub(crate) const PEER2PEER: Self = Self {
        peer2peer: true,
        ..Self::DYNAMIC
    };
}

/// What the callback is given.
struct Inner {
    ops: bindings::dma_buf_attach_ops,
    lets_go: bool,
    // Under the reservation lock.
    table: Cell<*mut bindings::sg_table>,
    calls: Atomic<u64>,
}

/// # Safety
///
/// `attach` is an attachment of a [`Bare`] importer, and its reservation lock is held.
unsafe extern "C" fn invalidate_callback(attach: *mut bindings::dma_buf_attachment) {
    // SAFETY: By the safety requirements.
    let inner = unsafe { &*(*attach).importer_priv.cast::<Inner>() };

    inner.calls.fetch_add(1, Full);
    if inner.lets_go {
        // SAFETY: By the safety requirements.
        unsafe { unmap(attach, inner) };
    }
}

/// # Safety
///
/// As [`invalidate_callback`].
unsafe fn unmap(attach: *mut bindings::dma_buf_attachment, inner: &Inner) {
    if let Some(table) = NonNull::new(inner.table.replace(null_mut())) {
        // SAFETY: By the safety requirements; it is mapped.
        unsafe {
            bindings::dma_buf_unmap_attachment(
                attach,
                table.as_ptr(),
                bindings::dma_data_direction::DMA_BIDIRECTIONAL,
            );
        }
    }
}

/// An attachment; what it has taken is given back when it is dropped.
///
/// # Invariants
///
/// `attach` is attached to `dmabuf` with `inner` as its `importer_priv`.
pub(crate) struct Bare {
    attach: NonNull<bindings::dma_buf_attachment>,
    inner: NonNull<Inner>,
    dmabuf: DmaBuf,
    pins: Cell<u32>,
    _hardware: Hardware,
}

impl Bare {
    pub(crate) fn attach(exporter: &Exporter, manners: Manners) -> Result<Self> {
        let hardware = Hardware::new()?;
        let dmabuf = exporter.dma_buf();
        let callback: Option<unsafe extern "C" fn(*mut bindings::dma_buf_attachment)> =
            manners.is_revocable.then_some(invalidate_callback);
        let inner = KBox::into_raw(KBox::new(
            Inner {
                ops: bindings::dma_buf_attach_ops {
                    allow_peer2peer: manners.peer2peer,
                    invalidate_mappings: callback,
                },
                lets_go: manners.lets_go,
                table: Cell::new(null_mut()),
                calls: Atomic::new(0),
            },
            GFP_KERNEL,
        )?);

        // SAFETY: All is valid, and kept by the object this function makes.
        let attach = from_err_ptr(unsafe {
            bindings::dma_buf_dynamic_attach(
                dmabuf.as_raw(),
                hardware.device().as_raw(),
                &(*inner).ops,
                inner.cast(),
            )
        })
        .and_then(|attach| NonNull::new(attach).ok_or(EINVAL))
        .inspect_err(|_| {
            // SAFETY: From the box above, and nobody knows it any more.
            drop(unsafe { KBox::from_raw(inner) });
        })?;

        // INVARIANT: As just attached.
        Ok(Self {
            attach,
            // SAFETY: The pointer of a box is not null.
            inner: unsafe { NonNull::new_unchecked(inner) },
            dmabuf,
            pins: Cell::new(0),
            _hardware: hardware,
        })
    }

    fn inner(&self) -> &Inner {
        // SAFETY: By the type invariants.
        unsafe { self.inner.as_ref() }
    }

    /// How often the exporter has called back.
    pub(crate) fn calls(&self) -> u64 {
        self.inner().calls.load(Acquire)
    }

    /// Whether the exporter has left it peer-to-peer.
    pub(crate) fn peer2peer(&self) -> bool {
        // SAFETY: By the type invariants.
        unsafe { self.attach.as_ref() }.peer2peer
    }

    pub(crate) fn pin(&self) -> Result {
        let _resv = self.dmabuf.resv().lock();

        // SAFETY: Attached, and the lock is held.
        to_result(unsafe { bindings::dma_buf_pin(self.attach.as_ptr()) })?;
        self.pins.set(self.pins.get() + 1);
        Ok(())
    }

    pub(crate) fn unpin(&self) {
        let _resv = self.dmabuf.resv().lock();

        self.pins.set(self.pins.get().saturating_sub(1));
        // SAFETY: As above.
        unsafe { bindings::dma_buf_unpin(self.attach.as_ptr()) };
    }

    pub(crate) fn map(&self) -> Result {
        let _resv = self.dmabuf.resv().lock();

        // SAFETY: As above.
        let table = from_err_ptr(unsafe {
            bindings::dma_buf_map_attachment(
                self.attach.as_ptr(),
                bindings::dma_data_direction::DMA_BIDIRECTIONAL,
            )
        })?;
        self.inner().table.set(table);
        Ok(())
    }

    pub(crate) fn unmap(&self) {
        let _resv = self.dmabuf.resv().lock();

        // SAFETY: As above.
        unsafe { unmap(self.attach.as_ptr(), self.inner()) };
    }

    pub(crate) fn is_mapped(&self) -> bool {
        let _resv = self.dmabuf.resv().lock();

        !self.inner().table.get().is_null()
    }

    /// What the table says; nothing, if it is not mapped.
    pub(crate) fn segments(&self) -> Result<KVec<Segment>> {
        let _resv = self.dmabuf.resv().lock();
        let mut segments = KVec::new();

        if let Some(table) = NonNull::new(self.inner().table.get()) {
            // SAFETY: The table is mapped.
            for entry in unsafe { SGTable::from_raw(table.as_ptr()) }.iter() {
                segments.push(
                    Segment {
                        addr: entry.dma_address(),
                        len: entry.dma_len(),
                    },
                    GFP_KERNEL,
                )?;
            }
        }
        Ok(segments)
    }

    /// Maps the buffer for the CPU, runs `meanwhile`, and compares.
    pub(crate) fn vmap_equals(
        &self,
        bytes: &[u8],
        meanwhile: impl FnOnce() -> bool,
    ) -> Result<bool> {
        let mut map = MaybeUninit::<bindings::iosys_map>::zeroed();

        // SAFETY: The buffer is valid, and the lock not held.
        to_result(unsafe {
            bindings::dma_buf_vmap_unlocked(self.dmabuf.as_raw(), map.as_mut_ptr())
        })?;
        let is_well = meanwhile();

        // SAFETY: Filled on success, with the address of as many bytes as the buffer has.
        let is_equal = unsafe {
            let addr = map.assume_init_ref().__bindgen_anon_1.vaddr.cast::<u8>();

            bytes.len() == self.dmabuf.size()
                && core::slice::from_raw_parts(addr, bytes.len()) == bytes
        };

        // SAFETY: Mapped above.
        unsafe { bindings::dma_buf_vunmap_unlocked(self.dmabuf.as_raw(), map.as_mut_ptr()) };
        Ok(is_well && is_equal)
    }

    /// Writes to an address that the exporter has given, now or once.
    pub(crate) fn write(&self, addr: u64, bytes: &[u8]) {
        // SAFETY: The exporter has RAM there, and remembers it when it is taken away.
        unsafe { copy_to_phys(addr, bytes) };
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.unmap();
        while self.pins.get() != 0 {
            self.unpin();
        }

        // SAFETY: Attached by the type invariants, and never used again.
        unsafe { bindings::dma_buf_detach(self.dmabuf.as_raw(), self.attach.as_ptr()) };
        // SAFETY: From a box, and nobody can be called back now.
        drop(unsafe { KBox::from_raw(self.inner.as_ptr()) });
    }
}
