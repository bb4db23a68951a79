// SPDX-License-Identifier: GPL-2.0

//! Where dma-bufs come from: one trait for the exporters, one module for each.

mod heap;
mod plain;
mod sync;
mod udmabuf;
mod vram;

pub(crate) use vram::{Placement, Stats, VramBuffer, VramLayout};

use crate::{call::CallError, mapping::Mapping};
use anyhow::{Context, Result};
use clap::ValueEnum;
use nix::sys::stat::fstat;
use serde::Serialize;
use std::{
    fmt,
    fs::{self, File},
    os::fd::{AsFd, OwnedFd},
};

/// The exporters that the command knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Pages of a memfd, through /dev/udmabuf.
    Udmabuf,
    /// Pages of the kernel's system heap, through /dev/dma_heap/system.
    SystemHeap,
    /// Memory that the exporter moves and takes back on command, through /dev/vram_exporter.
    Vram,
    /// No dma-buf: a mapped memfd, registered with ibv_reg_mr, for comparison.
    Plain,
}

impl Kind {
    /// The exporter itself; the layout is for the buffers of vram.
    pub(crate) fn exporter(self, layout: VramLayout) -> Box<dyn Exporter> {
        match self {
            Self::Udmabuf => Box::new(udmabuf::Udmabuf),
            Self::SystemHeap => Box::new(heap::SystemHeap),
            Self::Vram => Box::new(vram::Vram { layout }),
            Self::Plain => Box::new(plain::Plain),
        }
    }

    /// Whether its memory is registered as a dma-buf.
    pub(crate) fn is_dmabuf(self) -> bool {
        self != Self::Plain
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Udmabuf => "udmabuf",
            Self::SystemHeap => "system-heap",
            Self::Vram => "vram",
            Self::Plain => "plain",
        })
    }
}

/// Something that makes buffers.
pub(crate) trait Exporter {
    /// Makes a buffer of `length` bytes, a multiple of the page size.
    fn allocate(&self, length: usize) -> Result<Box<dyn Buffer>>;
}

/// A buffer, seen from the CPU by the exporter's own mapping and from RDMA by what `memory` gives.
pub(crate) trait Buffer {
    /// Number of bytes.
    fn length(&self) -> usize;

    /// What a registration takes. Whoever gets a dma-buf may close it at once.
    fn memory(&self) -> Result<Memory>;

    /// Runs `work` while the CPU may touch the bytes.
    fn with_cpu_access(&self, work: &mut dyn FnMut(&Mapping) -> Result<()>) -> Result<()>;

    /// Copies bytes out, beginning at `at`.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let at = usize::try_from(at)?;
        self.with_cpu_access(&mut |mapping| mapping.read(at, into))
    }

    /// Copies bytes in, beginning at `at`.
    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        let at = usize::try_from(at)?;
        self.with_cpu_access(&mut |mapping| mapping.write(at, from))
    }

    /// The buffer as one that moves on command, if it is.
    fn vram(&self) -> Option<&VramBuffer> {
        None
    }
}

/// What a memory region is made of.
pub(crate) enum Memory {
    /// A file descriptor of a dma-buf.
    DmaBuf(DmaBuf),
    /// Memory of the program, by its address.
    Host(u64),
}

impl Memory {
    /// The dma-buf's inode, by which the kernel's lists name it.
    pub(crate) fn inode(&self) -> Result<Option<u64>, CallError> {
        match self {
            Self::DmaBuf(dmabuf) => dmabuf.inode().map(Some),
            Self::Host(_) => Ok(None),
        }
    }
}

/// A file descriptor of a dma-buf.
pub(crate) struct DmaBuf(OwnedFd);

impl DmaBuf {
    fn inode(&self) -> Result<u64, CallError> {
        let failed = |errno| CallError::new("fstat", "of a dma-buf", errno);
        Ok(fstat(&self.0).map_err(failed)?.st_ino)
    }
}

impl AsFd for DmaBuf {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Opens the device that an exporter is reached through; `remedy` is for one that is not there.
fn open(path: &str, remedy: &str) -> Result<File> {
    File::options()
        .read(true)
        .write(true)
        .open(path)
        .with_context(|| match fs::exists(path) {
            Ok(true) => format!("{path}: root may open it"),
            _ => format!("{path}: {remedy}"),
        })
}

/// The remedy for an exporter that the kernel has by a configuration option.
fn in_kernel(option: &str) -> String {
    format!("needs a kernel with {option}=y")
}

/// The size of a page.
pub(crate) fn page_size() -> Result<usize> {
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?;
    size.and_then(|bytes| usize::try_from(bytes).ok())
        .context("sysconf does not tell the page size")
}

/// `length`, rounded up to whole pages.
pub(crate) fn whole_pages(length: usize) -> Result<usize> {
    length
        .checked_next_multiple_of(page_size()?)
        .with_context(|| format!("{length} bytes are too many"))
}
