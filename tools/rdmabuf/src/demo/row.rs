// SPDX-License-Identifier: GPL-2.0

//! One row of the demo: register, move, look up, deregister, compare.

use super::Demo;
use crate::{
    debugfs::Blocks,
    exporter::{Buffer, Exporter},
    link::{Link, Side},
    pattern::Pattern,
    plan::{End, Layout, Operation, Step},
    progress::Task,
    transfer::{self, Patience, Regions},
    verbs::{Access, Mr},
    verify,
};
use anyhow::{Result, ensure};
use std::ops::Range;

/// The pattern around the file in the source's buffer.
const SOURCE_SEED: u64 = 0;

/// The two buffers of an exporter, and what the source's holds.
pub(super) struct Buffers<'a> {
    source: Box<dyn Buffer>,
    target: Box<dyn Buffer>,
    layout: Layout,
    file: &'a [u8],
}

impl<'a> Buffers<'a> {
    /// Allocates both and puts the file into the source's.
    pub(super) fn new(exporter: &dyn Exporter, layout: &Layout, file: &'a [u8]) -> Result<Self> {
        let length = usize::try_from(layout.buffer)?;
        let allocate = || exporter.allocate(length);
        let buffers = Self {
            source: allocate()?,
            target: allocate()?,
            layout: *layout,
            file,
        };
        verify::fill(&*buffers.source, &|at, bytes| {
            buffers.source_bytes(at, bytes)
        })?;
        Ok(buffers)
    }

    /// What the source's buffer holds: a pattern, and the file over it.
    fn source_bytes(&self, at: u64, bytes: &mut [u8]) {
        Pattern::new(SOURCE_SEED).fill(at, bytes);
        overlay(&self.layout.file_range(), self.file, at, bytes);
    }

    /// Compares the bytes that were moved, those around them, and those that they came from.
    fn verify(&self, step: &Step, pattern: Pattern) -> Result<String> {
        let moved = self.layout.moved(step);
        let wanted =
            verify::sha256(&self.file[usize::try_from(moved.start)?..usize::try_from(moved.end)?]);
        let found = verify::sha256_of(&*self.target, &step.written())?;
        ensure!(found == wanted, "sha256 {found} arrived, {wanted} was sent");
        let outside = verify::first_difference(&*self.target, &step.written(), &|at, bytes| {
            pattern.fill(at, bytes)
        })?;
        if let Some(at) = outside {
            anyhow::bail!(
                "byte {at} of the target was changed, outside {:?}",
                step.written()
            );
        }
        let source = verify::first_difference(&*self.source, &(0..0), &|at, bytes| {
            self.source_bytes(at, bytes)
        })?;
        if let Some(at) = source {
            anyhow::bail!("byte {at} of the source was changed");
        }
        Ok(found)
    }
}

/// Puts the part of `file`, which is at `range`, that falls into `bytes`, which are at `at`.
fn overlay(range: &Range<u64>, file: &[u8], at: u64, bytes: &mut [u8]) {
    let start = range.start.max(at);
    let end = range.end.min(at + bytes.len() as u64);
    if start < end {
        let length = (end - start) as usize;
        bytes[(start - at) as usize..][..length]
            .copy_from_slice(&file[(start - range.start) as usize..][..length]);
    }
}

/// What the source's region and the target's may be used for: no more than the operation needs.
fn rights(operation: Operation) -> [Access; 2] {
    match operation {
        Operation::Write => [
            Access::LOCAL_READ,
            Access::LOCAL_WRITE | Access::REMOTE_WRITE,
        ],
        Operation::Read => [Access::REMOTE_READ, Access::LOCAL_WRITE],
        Operation::SendReceive => [Access::LOCAL_READ, Access::LOCAL_WRITE],
    }
}

impl Demo<'_> {
    /// Moves one step's bytes and answers with their hash, once everything else was found right too.
    pub(super) fn transfer(
        &self,
        buffers: &Buffers<'_>,
        step: &Step,
        seed: u64,
        patience: &Patience<'_>,
        task: &mut Task<'_>,
        blocks: &mut Option<[Blocks; 2]>,
    ) -> Result<String> {
        let pattern = Pattern::new(seed);
        verify::fill(&*buffers.target, &|at, bytes| pattern.fill(at, bytes))?;
        let [source_rights, target_rights] = rights(step.operation);
        let (source, source_inode) =
            register(&self.source, &*buffers.source, &step.source, source_rights)?;
        let (target, target_inode) =
            register(&self.target, &*buffers.target, &step.target, target_rights)?;
        let regions = Regions { source, target };
        let link = Link::new(&self.source, &self.target)?;
        transfer::run(&link, &regions, step, patience, &mut |bytes| {
            task.advance(bytes);
        })?;
        drop(link);
        *blocks = self.blocks([(source_inode, &step.source), (target_inode, &step.target)])?;
        regions.source.deregister()?;
        regions.target.deregister()?;
        buffers.verify(step, pattern)
    }

    /// What the importer tells about both regions; nothing where they are no dma-bufs or it is not there.
    fn blocks(&self, ends: [(Option<u64>, &End); 2]) -> Result<Option<[Blocks; 2]>> {
        let [(Some(source), source_end), (Some(target), target_end)] = ends else {
            return Ok(None);
        };
        let Some(importer) = &self.importer else {
            return Ok(None);
        };
        Ok(Some([
            importer.find_region(source, &source_end.region)?,
            importer.find_region(target, &target_end.region)?,
        ]))
    }
}

/// Registers one side's region. The file descriptor is closed when this returns; the inode stays its name.
fn register(
    side: &Side,
    buffer: &dyn Buffer,
    end: &End,
    access: Access,
) -> Result<(Mr, Option<u64>)> {
    let memory = buffer.memory()?;
    let inode = memory.inode()?;
    Ok((Mr::register(&side.pd, memory, &end.region, access)?, inode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exporter::{Kind, VramLayout};

    #[test]
    fn a_file_lies_over_the_pattern_wherever_it_is_cut() {
        let (range, file) = (3..7, *b"file");
        let mut whole = *b"..........";
        overlay(&range, &file, 0, &mut whole);
        assert_eq!(&whole, b"...file...");
        for cut in 0..=10 {
            let mut parts = *b"..........";
            let (first, second) = parts.split_at_mut(cut);
            overlay(&range, &file, 0, first);
            overlay(&range, &file, cut as u64, second);
            assert_eq!(parts, whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_row_fails_on_a_changed_byte_of_either_buffer() -> Result<()> {
        let file: Vec<u8> = (0..crate::payload::MINIMUM).map(|n| n as u8).collect();
        let layout = Layout::new(file.len() as u64, 4096);
        let exporter = Kind::Plain.exporter(VramLayout::Changing);
        let buffers = Buffers::new(&*exporter, &layout, &file)?;
        let step = layout.steps()[1];
        let pattern = Pattern::new(9);
        let at = |n: u64| usize::try_from(n);
        let write = |buffer: &dyn Buffer, place: usize, bytes: &[u8]| {
            buffer.with_cpu_access(&mut |mapping| mapping.write(place, bytes))
        };
        let moved = layout.moved(&step);
        let arrive = || {
            verify::fill(&*buffers.target, &|at, bytes| pattern.fill(at, bytes))?;
            let bytes = &file[at(moved.start)?..at(moved.end)?];
            write(&*buffers.target, at(step.target.at)?, bytes)
        };

        arrive()?;
        assert_eq!(
            buffers.verify(&step, pattern)?,
            verify::sha256(&file[at(moved.start)?..at(moved.end)?])
        );
        for (place, told) in [
            (step.written().start, "arrived"),
            (step.written().start - 1, "outside"),
            (step.written().end, "outside"),
        ] {
            arrive()?;
            write(&*buffers.target, at(place)?, b"\xa5\x5a"[..1].as_ref())?;
            let error = buffers.verify(&step, pattern).expect_err(told).to_string();
            assert!(error.contains(told), "{error}");
        }
        arrive()?;
        write(&*buffers.source, 0, b"?")?;
        let error = buffers
            .verify(&step, pattern)
            .expect_err("source")
            .to_string();
        assert_eq!(error, "byte 0 of the source was changed");
        Ok(())
    }
}
