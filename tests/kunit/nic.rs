// SPDX-License-Identifier: GPL-2.0

//! A NIC as a driver's author has it before him: it owns a DMA device, has a translation table for
//! each memory key, and moves bytes by the addresses in that table alone.
//!
//! ```text
//!   packet ──▶ engine ──▶ Key: table of blocks ──▶ memory
//!                │             ▲ map, unmap, revoked
//!                └── fault ──▶ Region::map()
//! ```
//!
//! An example of the trait [`Driver`], and in [`Nic::register_by_c`] of the same in C.

use super::{
    driver::Wish,
    exporter::Exporter,
    fd::Fd,
    hardware::Hardware,
    nic_c::{
        CRegion,
        Told, //
    },
    vram::memory::{
        copy_from_phys,
        copy_to_phys, //
    },
};
use crate::{
    attachment::Mode,
    block_list::Blocks,
    blocks::{
        locate,
        BlockSize, //
    },
    body::Request,
    c_driver::DriverStats,
    driver::Driver,
    ffi,
    importer::{
        Importer,
        Settings, //
    },
    record::Totals,
    region::Region,
    window::Window, //
};
use core::ops::Range;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// The page sizes of the device: 4 KiB, 64 KiB, 2 MiB and 1 GiB.
pub(crate) const PAGE_SIZES: u64 = 1 << 12 | 1 << 16 | 1 << 21 | 1 << 30;

/// How often a packet is tried again after a fault, as by a retry counter of a queue pair.
const RETRIES: u32 = 1000;

/// What the device holds of a key.
enum Entry {
    /// Nothing: a packet faults.
    Empty,
    /// Where each page is.
    Loaded(KVVec<u64>, BlockSize),
    /// The key fails.
    Dead,
}

/// A memory key: what the NIC knows of a region.
#[pin_data]
pub(crate) struct Key {
    window: Window,
    // A packet holds it while it is on its way, so to change the entry is to wait for the packet.
    #[pin]
    entry: Mutex<Entry>,
    refusal: Atomic<i32>,
    maps: Atomic<u32>,
    unmaps: Atomic<u32>,
    revocations: Atomic<u32>,
}

impl Key {
    fn new(window: Window) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                window,
                entry <- new_mutex!(Entry::Empty),
                refusal: Atomic::new(0),
                maps: Atomic::new(0),
                unmaps: Atomic::new(0),
                revocations: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// How often the key was told of memory.
    pub(crate) fn maps(&self) -> u32 {
        self.maps.load(Relaxed)
    }

    /// How often memory was taken away.
    pub(crate) fn unmaps(&self) -> u32 {
        self.unmaps.load(Relaxed)
    }

    /// How often it was taken away for ever.
    pub(crate) fn revocations(&self) -> u32 {
        self.revocations.load(Relaxed)
    }

    /// Has the device run out of room for the table, the next time.
    pub(crate) fn refuse_next_map(&self, error: Error) {
        self.refusal.store(error.to_errno(), Relaxed);
    }

    /// The addresses in the table, and the size of a page; [`None`] if there is none.
    pub(crate) fn table(&self) -> Result<Option<(KVVec<u64>, u64)>> {
        match &*self.entry.lock() {
            Entry::Loaded(addrs, size) => {
                let mut copy = KVVec::new();

                copy.extend_from_slice(addrs, GFP_KERNEL)?;
                Ok(Some((copy, size.bytes())))
            }
            Entry::Empty | Entry::Dead => Ok(None),
        }
    }

    /// Fills the table with pages of 2^`shift` bytes.
    pub(super) fn load(&self, pages: &[u64], shift: u32) -> Result {
        let refusal = self.refusal.xchg(0, Full);
        if refusal != 0 {
            return Err(Error::from_errno(refusal));
        }

        let mut addrs = KVVec::new();
        addrs.extend_from_slice(pages, GFP_KERNEL)?;
        *self.entry.lock() = Entry::Loaded(addrs, BlockSize::of_shift(shift)?);
        self.maps.add(1, Relaxed);
        Ok(())
    }

    /// Empties the table, once no packet is on its way.
    pub(super) fn clear(&self) {
        let old = core::mem::replace(&mut *self.entry.lock(), Entry::Empty);

        drop(old);
        self.unmaps.add(1, Relaxed);
    }

    /// Lets the key fail from now on.
    pub(super) fn kill(&self) {
        *self.entry.lock() = Entry::Dead;
        self.revocations.add(1, Relaxed);
    }

    /// Holds a packet on its way while `meanwhile` runs.
    pub(crate) fn with_packet_on_its_way<T>(&self, meanwhile: impl FnOnce() -> T) -> T {
        let _entry = self.entry.lock();

        meanwhile()
    }

    /// Moves `len` bytes at `iova`: calls `copy` with the address and the range in `0..len` of each
    /// piece. Returns whether the table was there.
    fn transfer(
        &self,
        iova: u64,
        len: usize,
        mut copy: impl FnMut(u64, Range<usize>),
    ) -> Result<bool> {
        let entry = self.entry.lock();
        let (addrs, size) = match &*entry {
            Entry::Loaded(addrs, size) => (addrs, *size),
            Entry::Empty => return Ok(false),
            Entry::Dead => return Err(ENODEV),
        };

        let mut done = 0;
        while done < len {
            let place = locate(&self.window, size, iova.wrapping_add(done as u64)).ok_or(EFAULT)?;
            let page = addrs.get(place.index).ok_or(EFAULT)?;
            let end = len.min(done.saturating_add(place.remaining as usize));

            copy(page.wrapping_add(place.offset), done..end);
            done = end;
        }
        Ok(true)
    }
}

/// The table is copied into the device, and cleared before memory goes away.
impl Driver for Arc<Key> {
    fn map(&self, blocks: &Blocks) -> Result {
        self.load(blocks.addrs(), blocks.size().shift())
    }

    fn unmap(&self) {
        self.clear();
    }

    fn revoked(&self) {
        self.kill();
    }
}

/// How the driver of the NIC holds a region.
enum Side {
    Rust(Region<Arc<Key>>),
    C(CRegion),
}

/// The device and its driver.
pub(crate) struct Nic {
    importer: Arc<Importer>,
    hardware: Hardware,
}

impl Nic {
    pub(crate) fn new() -> Result<Self> {
        let settings = Settings {
            fence_timeout_ms: 10_000,
            check_rights: true,
            mode: Mode::Dynamic,
        };

        Ok(Self {
            importer: Importer::new(ffi::importer()?.own_device().clone(), settings)?,
            hardware: Hardware::new()?,
        })
    }

    /// The books of the importer, which are this NIC's alone but for [`Nic::register_by_c`].
    pub(crate) fn totals(&self) -> &Totals {
        self.importer.totals()
    }

    /// Registers a stretch of a buffer, by the trait.
    pub(crate) fn register(&self, exporter: &Exporter, wish: Wish, mode: Mode) -> Result<NicMr> {
        let window = Window::new(wish.offset, wish.length, wish.iova)?;
        let key = Key::new(window)?;

        self.register_key(exporter, wish, mode, key)
    }

    /// As [`Nic::register`], on a key of the caller's, who wants to see or refuse the first map.
    pub(crate) fn register_key(
        &self,
        exporter: &Exporter,
        wish: Wish,
        mode: Mode,
        key: Arc<Key>,
    ) -> Result<NicMr> {
        let request = Request {
            window: key.window,
            block_sizes: wish.block_sizes,
            device: self.hardware.device().clone(),
            is_writable: wish.rights.is_writing(),
            mode,
            stats: DriverStats::default(),
        };
        let region = Region::new(&self.importer, exporter.dma_buf(), request, key.clone())?;

        Ok(NicMr {
            side: Side::Rust(region),
            key,
        })
    }

    /// A key for a region that is not there yet.
    pub(crate) fn key_for(&self, wish: Wish) -> Result<Arc<Key>> {
        Key::new(Window::new(wish.offset, wish.length, wish.iova)?)
    }

    /// Registers a stretch of a buffer, by the functions and structures of the header.
    pub(crate) fn register_by_c(
        &self,
        exporter: &Exporter,
        wish: Wish,
        mode: Mode,
    ) -> Result<NicMr> {
        let key = self.key_for(wish)?;
        let fd = Fd::of(exporter)?;
        let device = self.hardware.device();

        Ok(NicMr {
            side: Side::C(CRegion::new(&fd, device, wish, mode, key.clone())?),
            key,
        })
    }
}

/// A memory region of the NIC.
pub(crate) struct NicMr {
    side: Side,
    key: Arc<Key>,
}

impl NicMr {
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// What the driver does when the device faults.
    pub(crate) fn map(&self) -> Result {
        match &self.side {
            Side::Rust(region) => region.map(),
            Side::C(region) => region.map(),
        }
    }

    /// Gives the memory up, as when the context of a process goes away.
    pub(crate) fn revoke(&self) {
        match &self.side {
            Side::Rust(region) => region.revoke(),
            Side::C(region) => region.revoke(),
        }
    }

    /// What a driver in C is told of the region. `EOPNOTSUPP` for one that Rust holds.
    pub(crate) fn told(&self) -> Result<Told> {
        match &self.side {
            Side::Rust(_) => Err(EOPNOTSUPP),
            Side::C(region) => region.told(),
        }
    }

    /// Stays within an access while `meanwhile` runs, as software that looks the blocks up itself.
    /// `EOPNOTSUPP` for a region that C holds.
    pub(crate) fn within_access<T>(&self, meanwhile: impl FnOnce() -> T) -> Result<T> {
        let Side::Rust(region) = &self.side else {
            return Err(EOPNOTSUPP);
        };
        let window = &self.key.window;
        let _pass = region.access(window.iova(), window.length())?;

        Ok(meanwhile())
    }

    /// Sends a packet until it gets through.
    fn send(&self, mut attempt: impl FnMut(&Key) -> Result<bool>) -> Result {
        for _ in 0..RETRIES {
            if attempt(&self.key)? {
                return Ok(());
            }
            self.map()?;
        }
        Err(EAGAIN)
    }

    /// DMA from memory.
    pub(crate) fn read(&self, iova: u64, bytes: &mut [u8]) -> Result {
        self.send(|key| {
            key.transfer(iova, bytes.len(), |phys, range| {
                // SAFETY: The device's DMA is direct, and the table holds blocks that stay where
                // they are while the packet is on its way.
                unsafe { copy_from_phys(&mut bytes[range], phys) }
            })
        })
    }

    /// DMA to memory.
    pub(crate) fn write(&self, iova: u64, bytes: &[u8]) -> Result {
        self.send(|key| {
            key.transfer(iova, bytes.len(), |phys, range| {
                // SAFETY: As for reading.
                unsafe { copy_to_phys(phys, &bytes[range]) }
            })
        })
    }

    /// Whether each byte of the region reads as what its place in the buffer holds.
    pub(crate) fn shows(&self, exporter: &Exporter) -> Result<bool> {
        let window = &self.key.window;
        let content = exporter.content()?;
        let start = window.offset() as usize;
        let length = window.length() as usize;
        let mut bytes = KVVec::from_elem(0, length, GFP_KERNEL)?;

        self.read(window.iova(), &mut bytes)?;
        Ok(content.get(start..start.saturating_add(length)) == Some(&*bytes))
    }
}
