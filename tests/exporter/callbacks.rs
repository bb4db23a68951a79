// SPDX-License-Identifier: GPL-2.0

//! The operations as core calls them: raw pointers in, the trait's methods, errno out. What any
//! exporter can see of the contract is checked here.

use super::*;
use kernel::ffi::c_int;

pub(super) const fn table<T: Exporter>() -> bindings::dma_buf_ops {
    bindings::dma_buf_ops {
        attach: Some(attach::<T>),
        detach: Some(detach::<T>),
        pin: Some(pin::<T>),
        unpin: Some(unpin::<T>),
        map_dma_buf: Some(map::<T>),
        unmap_dma_buf: Some(unmap::<T>),
        release: Some(release::<T>),
        begin_cpu_access: Some(begin_cpu_access::<T>),
        end_cpu_access: Some(end_cpu_access::<T>),
        mmap: Some(mmap_callback::<T>),
        vmap: Some(vmap::<T>),
        vunmap: Some(vunmap::<T>),
    }
}

fn to_errno(result: Result) -> c_int {
    result.map_or_else(Error::to_errno, |()| 0)
}

/// # Safety
///
/// `dmabuf` is a valid dma-buf with the operations of `T` for `'a`.
unsafe fn live<'a, T: Exporter>(dmabuf: *mut bindings::dma_buf) -> Live<'a, T> {
    // INVARIANT: By the safety requirements.
    Live {
        // SAFETY: A valid buffer is not null.
        dmabuf: unsafe { NonNull::new_unchecked(dmabuf) },
        _life: PhantomData,
    }
}

/// # Safety
///
/// As [`live`], and core calls with the reservation lock held.
unsafe fn held<'a, T: Exporter>(dmabuf: *mut bindings::dma_buf) -> Held<'a, T> {
    // SAFETY: By the safety requirements.
    let live = unsafe { live::<T>(dmabuf) };

    live.expect_locked();
    // INVARIANT: By the safety requirements.
    Held {
        live,
        _not_send: NotThreadSafe,
    }
}

/// # Safety
///
/// `attach` is a valid attachment of a dma-buf with the operations of `T` for `'a`.
unsafe fn side<'a, T: Exporter>(attach: *mut bindings::dma_buf_attachment) -> Side<'a, T> {
    // INVARIANT: By the safety requirements; `priv` is set by `attach()`, before anybody else.
    // SAFETY: By the safety requirements.
    unsafe {
        Side {
            attach: NonNull::new_unchecked(attach),
            live: live::<T>((*attach).dmabuf),
        }
    }
}

/// # Safety
///
/// As [`side`], and core calls with the reservation lock held.
unsafe fn held_side<'a, T: Exporter>(
    attach: *mut bindings::dma_buf_attachment,
) -> (Side<'a, T>, Held<'a, T>) {
    // SAFETY: By the safety requirements.
    unsafe { (side(attach), held((*attach).dmabuf)) }
}

impl<T: Exporter> Side<'_, T> {
    fn expect(&self, rule: &str, holds: bool) {
        if !holds {
            self.live.exporter().breach(rule);
        }
    }

    fn expect_both_directions(&self, direction: bindings::dma_data_direction) {
        self.expect(
            "mapped and unmapped for both directions",
            direction == bindings::dma_data_direction::DMA_BIDIRECTIONAL,
        );
    }
}

/// # Safety
///
/// Called by core for a buffer and an attachment with these operations, as all below.
unsafe extern "C" fn attach<T: Exporter>(
    _dmabuf: *mut bindings::dma_buf,
    attach: *mut bindings::dma_buf_attachment,
) -> c_int {
    let books = Books {
        table: Cell::new(null_mut()),
        pins: Cell::new(0),
    };
    let Ok(books) = KBox::new(books, GFP_KERNEL) else {
        return ENOMEM.to_errno();
    };

    // SAFETY: By the safety requirements; `priv` is the exporter's.
    unsafe { (*attach).priv_ = KBox::into_raw(books).cast() };
    // SAFETY: By the safety requirements.
    let side = unsafe { side::<T>(attach) };

    side.live.expect_unlocked();
    let result = side.live.exporter().attach(&side);
    if result.is_err() {
        // SAFETY: From the box above; core forgets the attachment.
        drop(unsafe { KBox::<Books>::from_raw((*attach).priv_.cast()) });
    }
    to_errno(result)
}

/// # Safety
///
/// As [`attach`].
unsafe extern "C" fn detach<T: Exporter>(
    _dmabuf: *mut bindings::dma_buf,
    attach: *mut bindings::dma_buf_attachment,
) {
    // SAFETY: By the safety requirements.
    let side = unsafe { side::<T>(attach) };

    side.live.expect_unlocked();
    side.expect(
        "unmapped before it is detached",
        side.books().table.get().is_null(),
    );
    side.expect("unpinned before it is detached", side.pins() == 0);
    side.live.exporter().detach(&side);

    // SAFETY: From the box that `attach()` has made; core forgets the attachment.
    drop(unsafe { KBox::<Books>::from_raw((*attach).priv_.cast()) });
}

/// # Safety
///
/// As [`attach`].
unsafe extern "C" fn pin<T: Exporter>(attach: *mut bindings::dma_buf_attachment) -> c_int {
    // SAFETY: By the safety requirements.
    let (side, held) = unsafe { held_side::<T>(attach) };
    let result = side.live.exporter().pin(&side, &held);

    if result.is_ok() {
        side.books().pins.set(side.pins().saturating_add(1));
    }
    to_errno(result)
}

/// # Safety
///
/// As [`attach`].
unsafe extern "C" fn unpin<T: Exporter>(attach: *mut bindings::dma_buf_attachment) {
    // SAFETY: By the safety requirements.
    let (side, held) = unsafe { held_side::<T>(attach) };
    let Some(left) = side.pins().checked_sub(1) else {
        return side.expect("pinned before it is unpinned", false);
    };

    // Static importers unpin after each unmap, dynamic ones as they like, but not before the last.
    side.expect(
        "unmapped before it is unpinned",
        left != 0 || side.books().table.get().is_null(),
    );
    side.books().pins.set(left);
    side.live.exporter().unpin(&side, &held);
}

/// # Safety
///
/// As [`attach`].
unsafe extern "C" fn map<T: Exporter>(
    attach: *mut bindings::dma_buf_attachment,
    direction: bindings::dma_data_direction,
) -> *mut bindings::sg_table {
    // SAFETY: By the safety requirements.
    let (side, held) = unsafe { held_side::<T>(attach) };

    side.expect_both_directions(direction);
    side.expect(
        "unmapped before it is mapped",
        side.books().table.get().is_null(),
    );
    match side.live.exporter().map(&side, &held) {
        Ok(table) => {
            let table = table.map_or(null_mut(), Table::into_raw);
            side.books().table.set(table);
            table
        }
        Err(error) => error.to_ptr(),
    }
}

/// # Safety
///
/// As [`attach`]; `table` is what [`map`] has returned, for any attachment, and not unmapped yet.
unsafe extern "C" fn unmap<T: Exporter>(
    attach: *mut bindings::dma_buf_attachment,
    table: *mut bindings::sg_table,
    direction: bindings::dma_data_direction,
) {
    // SAFETY: By the safety requirements.
    let (side, held) = unsafe { held_side::<T>(attach) };

    side.expect_both_directions(direction);
    side.expect(
        "the table that was mapped",
        table == side.books().table.get(),
    );
    side.books().table.set(null_mut());

    let table = NonNull::new(table).map(|table| {
        // SAFETY: By the safety requirements.
        unsafe { Table::<T::Memory>::from_raw(table.as_ptr()) }
    });
    side.expect(
        "a table that nobody has changed",
        table.as_ref().is_some_and(|table| table.is_unchanged()),
    );
    side.live.exporter().unmap(&side, &held, table);
}

/// # Safety
///
/// As [`attach`]; nobody uses the buffer any more.
unsafe extern "C" fn release<T: Exporter>(dmabuf: *mut bindings::dma_buf) {
    // SAFETY: By the safety requirements.
    let live = unsafe { live::<T>(dmabuf) };
    let exporter = live.exporter();

    live.expect_unlocked();
    let address = exporter.link().dmabuf.lock().take();
    exporter.release();
    drop(address);

    // SAFETY: The reference that the export has handed over; the last use of it.
    drop(unsafe { Arc::from_raw(core::ptr::from_ref(exporter)) });
}

/// # Safety
///
/// As [`attach`].
unsafe extern "C" fn begin_cpu_access<T: Exporter>(
    dmabuf: *mut bindings::dma_buf,
    _direction: bindings::dma_data_direction,
) -> c_int {
    // SAFETY: By the safety requirements.
    let live = unsafe { live::<T>(dmabuf) };

    live.expect_unlocked();
    to_errno(live.exporter().begin_cpu_access())
}

/// # Safety
///
/// As [`attach`].
unsafe extern "C" fn end_cpu_access<T: Exporter>(
    dmabuf: *mut bindings::dma_buf,
    _direction: bindings::dma_data_direction,
) -> c_int {
    // SAFETY: By the safety requirements.
    let live = unsafe { live::<T>(dmabuf) };

    live.expect_unlocked();
    to_errno(live.exporter().end_cpu_access())
}

/// # Safety
///
/// As [`attach`]; `vma` is being set up for the file of the buffer.
unsafe extern "C" fn mmap_callback<T: Exporter>(
    dmabuf: *mut bindings::dma_buf,
    vma: *mut bindings::vm_area_struct,
) -> c_int {
    // SAFETY: By the safety requirements.
    let live = unsafe { live::<T>(dmabuf) };

    to_errno(live.exporter().mmap().and_then(|()| {
        // SAFETY: By the safety requirements; `fault()` expects what it is given.
        unsafe { mmap::set_up(vma, &const { mmap::operations(fault::<T>) }, dmabuf) }
    }))
}

/// # Safety
///
/// Called for a mapping that [`mmap_callback`] has set up: it keeps the file, and so the buffer.
unsafe extern "C" fn fault<T: Exporter>(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
    // SAFETY: By the safety requirements.
    unsafe {
        mmap::fault(vmf, |dmabuf, offset| {
            let live = live::<T>(dmabuf);
            let held = live.lock();
            let phys = live.exporter().fault(&held, offset)?;

            Ok((phys, held))
        })
    }
}

/// # Safety
///
/// As [`attach`]; `map` is valid for writes.
unsafe extern "C" fn vmap<T: Exporter>(
    dmabuf: *mut bindings::dma_buf,
    map: *mut bindings::iosys_map,
) -> c_int {
    // SAFETY: By the safety requirements.
    let held = unsafe { held::<T>(dmabuf) };

    to_errno(held.live.exporter().vmap(&held).map(|addr| {
        // SAFETY: By the safety requirements.
        unsafe {
            (*map).__bindgen_anon_1.vaddr = addr.as_ptr();
            (*map).is_iomem = false;
        }
    }))
}

/// # Safety
///
/// As [`attach`].
unsafe extern "C" fn vunmap<T: Exporter>(
    dmabuf: *mut bindings::dma_buf,
    _map: *mut bindings::iosys_map,
) {
    // SAFETY: By the safety requirements.
    let held = unsafe { held::<T>(dmabuf) };

    held.live.exporter().vunmap(&held);
}
