// SPDX-License-Identifier: GPL-2.0

//! `struct sg_table`: what a map hands out.
//!
//! C header: [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h)

use super::memory::{
    Keep,
    Stretch, //
};
use crate::{
    bindings,
    window::{
        Segment,
        PAGE_SIZE, //
    },
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// How pages become entries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Entries {
    /// An entry for each run.
    Runs,
    /// An entry for each page, however they lie.
    Pages,
    /// An entry for each page, of which those of a run are merged when they are mapped: there are
    /// fewer DMA addresses than entries.
    Merged,
}

/// A table that is handed out, and the memory it leads to.
///
/// # Invariants
///
/// - `sgt` was allocated by `sg_alloc_table()`. It is mapped for `mapped_for`, if there is one,
///   and `mapped` is what the entries were then; `keep` keeps the pages.
/// - `handed_out` is what the entries were when the table was handed out.
#[repr(C)]
pub(crate) struct Table<M> {
    // First: core knows the table by this.
    sgt: bindings::sg_table,
    mapped_for: Option<MapDevice>,
    mapped: KVVec<bindings::scatterlist>,
    handed_out: KVVec<bindings::scatterlist>,
    nents: u32,
    keep: Option<Keep>,
    _memory: M,
}

// SAFETY: A table has no tie to the task that made it.
unsafe impl<M: Send> Send for Table<M> {}

/// A device that tables are mapped for.
///
/// # Invariants
///
/// The pointer is to a valid device.
#[derive(Clone, Copy)]
pub(crate) struct MapDevice(*mut bindings::device);

impl MapDevice {
    /// # Safety
    ///
    /// `device` is valid for as long as the result is used, or a table that is mapped for it.
    pub(super) unsafe fn new(device: *mut bindings::device) -> Self {
        // INVARIANT: By the safety requirements.
        Self(device)
    }
}

impl<M: Send> Table<M> {
    fn new(entries: usize, memory: M) -> Result<KBox<Self>> {
        let mut table = KBox::new(
            Self {
                sgt: bindings::sg_table::default(),
                mapped_for: None,
                mapped: KVVec::new(),
                handed_out: KVVec::new(),
                nents: 0,
                keep: None,
                _memory: memory,
            },
            GFP_KERNEL,
        )?;

        // SAFETY: The table is memory of ours. One entry at least: no entries is an error.
        to_result(unsafe {
            bindings::sg_alloc_table(
                &mut table.sgt,
                u32::try_from(entries.max(1))?,
                bindings::GFP_KERNEL,
            )
        })?;
        Ok(table)
    }

    /// Calls `set` with each entry and its segment.
    fn for_each_entry(
        &mut self,
        segments: impl Iterator<Item = Segment>,
        set: impl Fn(*mut bindings::scatterlist, Segment),
    ) {
        let mut entry = self.sgt.sgl;

        for segment in segments {
            set(entry, segment);

            // SAFETY: The table has an entry for each segment; the last is followed by null.
            entry = unsafe { bindings::sg_next(entry) };
        }
    }

    /// A table of `runs`, each below 4 GiB, mapped for `device`.
    pub(crate) fn of_pages<'a>(
        runs: impl Iterator<Item = &'a Stretch> + Clone,
        entries: Entries,
        device: MapDevice,
        memory: M,
    ) -> Result<KBox<Self>> {
        let pages = runs.clone().flat_map(Stretch::pages).map(|addr| Segment {
            addr,
            len: PAGE_SIZE,
        });
        let segments = runs.clone().map(Stretch::segment);
        let mut table = match entries {
            Entries::Runs => Self::with_pages(segments, memory)?,
            Entries::Pages | Entries::Merged => Self::with_pages(pages, memory)?,
        };

        // INVARIANT: Kept before they are mapped.
        table.keep = Some(Keep::new(runs)?);
        table.map(device)?;
        if entries == Entries::Merged {
            table.merge();
        }
        table.hand_out()?;
        Ok(table)
    }

    fn with_pages(
        segments: impl Iterator<Item = Segment> + Clone,
        memory: M,
    ) -> Result<KBox<Self>> {
        let mut table = Self::new(segments.clone().count(), memory)?;

        table.for_each_entry(segments, |entry, run| {
            // SAFETY: A valid entry; `of_pages()` gives runs of valid pages.
            unsafe { bindings::vram_exporter_helper_set_pages(entry, run.addr, run.len as u32) }
        });
        Ok(table)
    }

    fn map(&mut self, device: MapDevice) -> Result {
        // SAFETY: The device is valid; the table is filled. Without the attribute, DMA API
        // debugging objects to two mappings of a page.
        to_result(unsafe {
            bindings::dma_map_sgtable(
                device.0,
                &mut self.sgt,
                bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                bindings::DMA_ATTR_SKIP_CPU_SYNC as usize,
            )
        })?;

        // INVARIANT: As just mapped; nothing has been changed if the copy fails.
        self.mapped_for = Some(device);
        self.mapped = self.copy_entries()?;
        Ok(())
    }

    /// Entries with no pages behind them.
    pub(crate) fn forged(segments: &[Segment], memory: M) -> Result<KBox<Self>> {
        let mut table = Self::new(segments.len(), memory)?;

        table.for_each_entry(segments.iter().copied(), |entry, segment| {
            // SAFETY: A valid entry.
            unsafe {
                bindings::vram_exporter_helper_set_dma(entry, segment.addr, segment.len as u32)
            }
        });
        table.sgt.nents = u32::try_from(segments.len())?;
        table.hand_out()?;
        Ok(table)
    }

    /// Joins DMA addresses that follow each other, in the first entries of the table.
    fn merge(&mut self) {
        let mut last = self.sgt.sgl;
        let mut count = 1u32;

        for entry in self.mapped.iter().take(self.sgt.nents as usize).skip(1) {
            // SAFETY: `last` is never behind the entry that is read, so it is one of the table.
            let into = unsafe { &mut *last };
            let joined = into.dma_length.checked_add(entry.dma_length);
            let follows =
                into.dma_address.wrapping_add(into.dma_length.into()) == entry.dma_address;
            match joined {
                Some(length) if follows => into.dma_length = length,
                _ => {
                    // SAFETY: As above; there is a next one, since there is one to read.
                    last = unsafe { bindings::sg_next(last) };
                    // SAFETY: As above.
                    unsafe {
                        (*last).dma_address = entry.dma_address;
                        (*last).dma_length = entry.dma_length;
                    }
                    count = count.wrapping_add(1);
                }
            }
        }
        self.sgt.nents = count;
    }

    fn copy_entries(&self) -> Result<KVVec<bindings::scatterlist>> {
        let mut entries = KVVec::with_capacity(self.sgt.orig_nents as usize, GFP_KERNEL)?;
        let mut entry = self.sgt.sgl;

        while let Some(valid) = NonNull::new(entry) {
            // SAFETY: An entry of the table, which is followed by another or by null.
            unsafe {
                entries.push(valid.read(), GFP_KERNEL)?;
                entry = bindings::sg_next(entry);
            }
        }
        Ok(entries)
    }

    /// Remembers what the table looks like.
    fn hand_out(&mut self) -> Result {
        self.nents = self.sgt.nents;
        // INVARIANT: The table is not changed by us after this.
        self.handed_out = self.copy_entries()?;
        Ok(())
    }

    /// Whether nobody has changed the table since it was handed out.
    pub(crate) fn is_unchanged(&self) -> bool {
        let mut entry = self.sgt.sgl;

        self.sgt.nents == self.nents
            && self.handed_out.iter().all(|old| {
                // SAFETY: The table has as many entries as were copied.
                let (now, next) = unsafe { (entry.read(), bindings::sg_next(entry)) };

                entry = next;
                (now.page_link, now.offset, now.length) == (old.page_link, old.offset, old.length)
                    && (now.dma_address, now.dma_length) == (old.dma_address, old.dma_length)
            })
    }

    /// The form in which core is given the table.
    pub(super) fn into_raw(table: KBox<Self>) -> *mut bindings::sg_table {
        KBox::into_raw(table).cast()
    }

    /// # Safety
    ///
    /// `table` came from [`Table::into_raw`] and is not used after this.
    pub(super) unsafe fn from_raw(table: *mut bindings::sg_table) -> KBox<Self> {
        // SAFETY: By the safety requirements; the structure starts with the C one.
        unsafe { KBox::from_raw(table.cast()) }
    }
}

impl<M> Drop for Table<M> {
    fn drop(&mut self) {
        if let Some(device) = self.mapped_for {
            let mut entry = self.sgt.sgl;

            // What was merged, or changed by somebody, is as it was mapped again.
            for old in &self.mapped {
                // SAFETY: The table has as many entries as were copied.
                unsafe {
                    (*entry).dma_address = old.dma_address;
                    (*entry).dma_length = old.dma_length;
                    entry = bindings::sg_next(entry);
                }
            }

            // SAFETY: Mapped with the same arguments, by the type invariants.
            unsafe {
                bindings::dma_unmap_sgtable(
                    device.0,
                    &mut self.sgt,
                    bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                    bindings::DMA_ATTR_SKIP_CPU_SYNC as usize,
                );
            }
        }

        // SAFETY: Allocated by `new()`, or empty if that failed.
        unsafe { bindings::sg_free_table(&mut self.sgt) };
    }
}
