// SPDX-License-Identifier: GPL-2.0

//! `rdmabuf hold`: one region that lives until it is told to go.

use crate::{
    Verdict,
    cli::HoldOptions,
    exporter::whole_pages,
    region::Region,
    stop::Stop,
    verbs::{Access, Device, Mr, Pd},
};
use anyhow::Result;
use std::io::{self, Write};

/// Runs the command.
pub(crate) fn run(options: &HoldOptions) -> Result<Verdict> {
    let stop = Stop::new()?;
    let device = Device::open(options.device.as_deref())?;
    let pd = Pd::new(&device)?;
    let size = whole_pages(usize::try_from(options.size)?)?;
    let buffer = options
        .exporter
        .exporter(options.vram.layout)
        .allocate(size)?;
    let region = Region {
        offset: options.offset,
        length: options
            .length
            .unwrap_or((size as u64).saturating_sub(options.offset)),
        iova: options.iova.unwrap_or(options.offset),
    };
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
    let memory = buffer.memory()?;
    let inode = memory.inode()?.unwrap_or(0);
    let mr = Mr::register(&pd, memory, &region, access)?;
    say(&format!(
        "held device={} exporter={} ino={inode} offset={} length={} iova={:#x} lkey={:#x} rkey={:#x}",
        device.name(),
        options.exporter,
        region.offset,
        region.length,
        region.iova,
        mr.lkey(),
        mr.rkey(),
    ))?;
    stop.wait(io::stdin().lock())?;
    mr.deregister()?;
    say("released")?;
    Ok(Verdict::Good)
}

/// A line that whoever waits for it sees at once.
fn say(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
