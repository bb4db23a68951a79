// SPDX-License-Identifier: GPL-2.0

//! What is counted: per region while it lives, and in total since the module was loaded.
//!
//! Both are shown in debugfs and take no lock that a driver or an exporter could hold.

use crate::{
    attachment::Mode,
    block_list::Blocks,
    c_driver::DriverStats,
    dma_buf::DmaBuf,
    trace,
    window::Window, //
};
use core::fmt::Write;
use kernel::{
    fmt,
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// A number that many tasks count up.
pub(crate) struct Counter(Atomic<u64>);

impl Counter {
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    fn add(&self, n: u64) {
        self.0.add(n, Relaxed);
    }

    /// The number as of now.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }
}

/// Sums over all regions since the module was loaded; `regions` is how many live now.
pub(crate) struct Totals {
    pub(crate) regions: Counter,
    pub(crate) attaches: Counter,
    pub(crate) maps: Counter,
    pub(crate) unmaps: Counter,
    pub(crate) invalidations: Counter,
    pub(crate) faults: Counter,
    pub(crate) revocations: Counter,
    pub(crate) refused: Counter,
    pub(crate) fence_wait_ns: Counter,
    pub(crate) bytes_mapped: Counter,
    pub(crate) blocks_mapped: Counter,
}

impl Totals {
    pub(crate) const fn new() -> Self {
        Self {
            regions: Counter::new(),
            attaches: Counter::new(),
            maps: Counter::new(),
            unmaps: Counter::new(),
            invalidations: Counter::new(),
            faults: Counter::new(),
            revocations: Counter::new(),
            refused: Counter::new(),
            fence_wait_ns: Counter::new(),
            bytes_mapped: Counter::new(),
            blocks_mapped: Counter::new(),
        }
    }

    /// A line for each, `name value`.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [
            ("regions", &self.regions),
            ("attaches", &self.attaches),
            ("maps", &self.maps),
            ("unmaps", &self.unmaps),
            ("invalidations", &self.invalidations),
            ("faults", &self.faults),
            ("revocations", &self.revocations),
            ("refused", &self.refused),
            ("fence_wait_ns", &self.fence_wait_ns),
            ("bytes_mapped", &self.bytes_mapped),
            ("blocks_mapped", &self.blocks_mapped),
        ];

        for (name, counter) in lines {
            writeln!(f, "{name} {}", counter.get())?;
        }
        Ok(())
    }
}

/// Whether a region has memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not now; the next access asks for it.
    Unmapped,
    /// Yes.
    Mapped,
    /// Never again.
    Revoked,
}

/// What is known of one region, kept apart from it so that a reader needs no lock of the region.
pub(crate) struct Record {
    id: u64,
    exporter: CString,
    inode: u64,
    window: Window,
    mode: Mode,
    driver: DriverStats,
    totals: Arc<Totals>,
    blocks: Counter,
    block_size: Counter,
    maps: Counter,
    invalidations: Counter,
    faults: Counter,
    revocations: Counter,
    refused: Counter,
    fence_wait_ns: Counter,
}

impl Record {
    /// The record of a region of `dmabuf`; `id` is unique since the module was loaded.
    pub(crate) fn new(
        id: u64,
        dmabuf: &DmaBuf,
        window: Window,
        mode: Mode,
        driver: DriverStats,
        totals: Arc<Totals>,
    ) -> Result<Arc<Self>> {
        let exporter = CString::try_from(dmabuf.exporter())?;

        Ok(Arc::new(
            Self {
                id,
                exporter,
                inode: dmabuf.inode(),
                window,
                mode,
                driver,
                totals,
                blocks: Counter::new(),
                block_size: Counter::new(),
                maps: Counter::new(),
                invalidations: Counter::new(),
                faults: Counter::new(),
                revocations: Counter::new(),
                refused: Counter::new(),
                fence_wait_ns: Counter::new(),
            },
            GFP_KERNEL_ACCOUNT,
        )?)
    }

    /// The key of the region among all that live.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn attached(&self) {
        self.totals.attaches.add(1);
    }

    pub(crate) fn mapped(&self, blocks: &Blocks) {
        let count = blocks.addrs().len() as u64;

        self.maps.add(1);
        self.blocks.set(count);
        self.block_size.set(blocks.size().bytes());
        self.totals.maps.add(1);
        self.totals.blocks_mapped.add(count);
        self.totals.bytes_mapped.add(self.window.length());
        trace::map(self.id, self.inode, count, blocks.size());
    }

    pub(crate) fn unmapped(&self) {
        self.blocks.set(0);
        self.totals.unmaps.add(1);
        trace::unmap(self.id);
    }

    pub(crate) fn invalidated(&self) {
        self.invalidations.add(1);
        self.totals.invalidations.add(1);
        self.driver.invalidated();
        trace::invalidate(self.id);
    }

    pub(crate) fn faulted(&self) {
        self.faults.add(1);
        self.totals.faults.add(1);
        self.driver.remapped();
        trace::fault(self.id);
    }

    pub(crate) fn revoked(&self) {
        self.revocations.add(1);
        self.totals.revocations.add(1);
        trace::revoke(self.id);
    }

    /// An access, or the registration, has waited for fences.
    pub(crate) fn waited(&self, ns: u64) {
        self.fence_wait_ns.add(ns);
        self.totals.fence_wait_ns.add(ns);
    }

    pub(crate) fn refused(&self) {
        self.refused.add(1);
        self.totals.refused.add(1);
        self.driver.refused();
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// How many blocks are mapped, and the bytes in one, now or at last.
    pub(crate) fn blocks(&self) -> (u64, u64) {
        (self.blocks.get(), self.block_size.get())
    }

    /// Whether there is memory, as of now.
    pub(crate) fn standing(&self) -> Standing {
        if self.revocations.get() != 0 {
            Standing::Revoked
        } else if self.blocks.get() == 0 {
            Standing::Unmapped
        } else {
            Standing::Mapped
        }
    }

    fn mode_name(&self) -> &'static str {
        match self.mode {
            Mode::Dynamic => "dynamic",
            Mode::Pinned => "pinned",
            Mode::Revocable => "revocable",
        }
    }

    fn state_name(&self) -> &'static str {
        match self.standing() {
            Standing::Unmapped => "unmapped",
            Standing::Mapped => "mapped",
            Standing::Revoked => "revoked",
        }
    }

    /// Bytes of the region that are mapped.
    fn bytes(&self) -> u64 {
        if self.blocks.get() == 0 {
            0
        } else {
            self.window.length()
        }
    }

    /// One line of `key=value` pairs.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "region={} exporter=", self.id)?;
        for &byte in self.exporter.to_bytes() {
            // A value has no spaces, whatever the exporter calls itself.
            let is_plain = byte.is_ascii_graphic();
            f.write_char(if is_plain { byte.into() } else { '_' })?;
        }
        write!(
            f,
            " ino={} offset={} length={} iova={:#x} mode={} state={} ",
            self.inode,
            self.window.offset(),
            self.window.length(),
            self.window.iova(),
            self.mode_name(),
            self.state_name(),
        )?;
        writeln!(
            f,
            "blocks={} block_size={} maps={} invalidations={} faults={} refused={} revocations={} \
             fence_wait_ns={} bytes={}",
            self.blocks.get(),
            self.block_size.get(),
            self.maps.get(),
            self.invalidations.get(),
            self.faults.get(),
            self.refused.get(),
            self.revocations.get(),
            self.fence_wait_ns.get(),
            self.bytes(),
        )
    }
}

/// Counts a region for as long as it lives.
pub(crate) struct Presence(Arc<Totals>);

impl Presence {
    pub(crate) fn new(totals: Arc<Totals>) -> Self {
        totals.regions.add(1);
        Self(totals)
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.regions.0.fetch_sub(1, Relaxed);
    }
}
