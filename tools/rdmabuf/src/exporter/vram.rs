// SPDX-License-Identifier: GPL-2.0

//! vram: buffers that move, and that are taken back and given again, by the ioctls of
//! `include/vram_exporter.h`.

#![expect(unsafe_code, reason = "ioctl")]

use super::{Buffer, DmaBuf, Exporter, Memory, open, sync::with_sync};
use crate::{call::CallError, mapping::Mapping};
use anyhow::{Context, Result};
use clap::ValueEnum;
use nix::{errno::Errno, libc};
use serde::Serialize;
use std::{
    fs::File,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

const DEVICE: &str = "/dev/vram_exporter";
/// How long a revocation may take until the last mapping is gone.
const REVOKE_TIMEOUT_MS: u32 = 5_000;

/// How the pages of a buffer follow each other: `enum vram_exporter_layout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum VramLayout {
    /// In one run, in system memory in runs of 2 MiB.
    OneRun = 1,
    /// In runs of 2 MiB at multiples of 2 MiB.
    Huge = 2,
    /// No page follows another.
    Scattered = 3,
    /// In runs of 1 to 37 pages.
    Uneven = 4,
    /// As uneven, in tables with fewer DMA addresses than entries.
    Merged = 5,
    /// As one run, in tables with an entry for each page.
    Split = 6,
    /// Another of these after each move.
    Changing = 7,
}

/// Where a buffer lies: `enum vram_exporter_placement`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Placement {
    /// Where it is.
    Same = 0,
    /// In the module's own memory, until an importer without peer-to-peer maps it.
    Vram = 1,
}

/// The movable exporter.
pub(super) struct Vram {
    pub(super) layout: VramLayout,
}

impl Exporter for Vram {
    fn allocate(&self, length: usize) -> Result<Box<dyn Buffer>> {
        let control = open(
            DEVICE,
            "the exporter is not loaded: modprobe vram_exporter, or insmod vram_exporter.ko",
        )?;
        let request = Create {
            size: length as u64,
            layout: self.layout as u32,
            placement: Placement::Vram as u32,
            open_flags: u32::try_from(libc::O_RDWR | libc::O_CLOEXEC)?,
            flags: 0,
            reserved: [0; 2],
        };
        // SAFETY: `request` is the structure that this ioctl reads, and it outlives the call.
        let fd = unsafe { vram_create(control.as_raw_fd(), &request) }.map_err(|errno| {
            let arguments = format!("size={length}, layout={:?}", self.layout);
            let failed = CallError::new("VRAM_EXPORTER_IOC_CREATE", arguments, errno);
            anyhow::Error::new(failed).context(creation_remedy(errno))
        })?;
        // SAFETY: The ioctl answered with a new file descriptor, which nobody else has.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Box::new(VramBuffer {
            mapping: Mapping::new(&fd, length)?,
            control,
            fd,
            length,
        }))
    }
}

fn creation_remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::EINVAL => "the limit is in /sys/module/vram_exporter/parameters/size_limit_mb",
        Errno::ENOSPC => "more video memory: insmod vram_exporter.ko vram_mb=…",
        _ => "no buffer of vram_exporter",
    }
}

/// A buffer of the exporter, and an open file of it, with which its moves end.
pub(crate) struct VramBuffer {
    control: File,
    fd: OwnedFd,
    mapping: Mapping,
    length: usize,
}

impl VramBuffer {
    /// Has it moved so many times a second from now on, to that placement; 0 ends it.
    pub(crate) fn move_always(&self, per_second: u32, to: Placement) -> Result<(), CallError> {
        let request = Loop {
            fd: self.fd.as_raw_fd(),
            per_second,
            placement: to as u32,
            reserved: 0,
        };
        // SAFETY: `request` is the structure that this ioctl reads, and it outlives the call.
        self.judge("VRAM_EXPORTER_IOC_LOOP", per_second.into(), unsafe {
            vram_loop(self.control.as_raw_fd(), &request)
        })
    }

    /// Takes it away from whoever has it. Then it must not be touched through the mapping.
    pub(crate) fn revoke(&self) -> Result<(), CallError> {
        let request = Revoke {
            fd: self.fd.as_raw_fd(),
            timeout_ms: REVOKE_TIMEOUT_MS,
            reserved: 0,
        };
        // SAFETY: `request` is the structure that this ioctl reads, and it outlives the call.
        self.judge("VRAM_EXPORTER_IOC_REVOKE", 0, unsafe {
            vram_revoke(self.control.as_raw_fd(), &request)
        })
    }

    /// Gives it back.
    pub(crate) fn unrevoke(&self) -> Result<(), CallError> {
        let request = Named {
            fd: self.fd.as_raw_fd(),
            reserved: [0; 3],
        };
        // SAFETY: `request` is the structure that this ioctl reads, and it outlives the call.
        self.judge("VRAM_EXPORTER_IOC_UNREVOKE", 0, unsafe {
            vram_unrevoke(self.control.as_raw_fd(), &request)
        })
    }

    /// What was done to it, and what it is like.
    pub(crate) fn stats(&self) -> Result<Stats, CallError> {
        let mut stats = Stats {
            fd: self.fd.as_raw_fd(),
            ..Stats::default()
        };
        // SAFETY: `stats` is the structure that this ioctl reads and writes, and it outlives the call.
        let answer = unsafe { vram_stats(self.control.as_raw_fd(), &mut stats) };
        self.judge("VRAM_EXPORTER_IOC_STATS", 0, answer)?;
        Ok(stats)
    }

    fn copy(&self, at: u64, length: usize, address: u64) -> Piece {
        Piece {
            fd: self.fd.as_raw_fd(),
            reserved32: 0,
            offset: at,
            length: length as u64,
            address,
            reserved: 0,
        }
    }

    fn judge(
        &self,
        call: &'static str,
        value: u64,
        answer: nix::Result<libc::c_int>,
    ) -> Result<(), CallError> {
        let arguments = || format!("fd={}, value={value}", self.fd.as_raw_fd());
        answer
            .map(drop)
            .map_err(|errno| CallError::new(call, arguments(), errno))
    }
}

impl Buffer for VramBuffer {
    fn length(&self) -> usize {
        self.length
    }

    fn memory(&self) -> Result<Memory> {
        let duplicate = self.fd.try_clone().context("dup of a dma-buf")?;
        Ok(Memory::DmaBuf(DmaBuf(duplicate)))
    }

    fn with_cpu_access(&self, work: &mut dyn FnMut(&Mapping) -> Result<()>) -> Result<()> {
        with_sync(&self.fd, || work(&self.mapping))
    }

    /// As the exporter sees it, revoked or not.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let request = self.copy(at, into.len(), into.as_mut_ptr() as u64);
        // SAFETY:
        // - `request` is the structure that this ioctl reads, and it outlives the call.
        // - It writes `into.len()` bytes at the address, which are `into`, borrowed exclusively.
        let answer = unsafe { vram_read(self.control.as_raw_fd(), &request) };
        Ok(self.judge("VRAM_EXPORTER_IOC_READ", at, answer)?)
    }

    /// As the exporter sees it, revoked or not.
    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        let request = self.copy(at, from.len(), from.as_ptr() as u64);
        // SAFETY:
        // - `request` is the structure that this ioctl reads, and it outlives the call.
        // - It reads `from.len()` bytes at the address, which are `from`.
        let answer = unsafe { vram_write(self.control.as_raw_fd(), &request) };
        Ok(self.judge("VRAM_EXPORTER_IOC_WRITE", at, answer)?)
    }

    fn vram(&self) -> Option<&VramBuffer> {
        Some(self)
    }
}

/// `struct vram_exporter_create`.
#[repr(C)]
pub(crate) struct Create {
    size: u64,
    layout: u32,
    placement: u32,
    open_flags: u32,
    flags: u32,
    reserved: [u64; 2],
}

/// `struct vram_exporter_buffer`.
#[repr(C)]
pub(crate) struct Named {
    fd: i32,
    reserved: [u32; 3],
}

/// `struct vram_exporter_loop`.
#[repr(C)]
pub(crate) struct Loop {
    fd: i32,
    per_second: u32,
    placement: u32,
    reserved: u32,
}

/// `struct vram_exporter_revoke`.
#[repr(C)]
pub(crate) struct Revoke {
    fd: i32,
    timeout_ms: u32,
    reserved: u64,
}

/// `struct vram_exporter_copy`.
#[repr(C)]
pub(crate) struct Piece {
    fd: i32,
    reserved32: u32,
    offset: u64,
    length: u64,
    address: u64,
    reserved: u64,
}

/// `struct vram_exporter_stats`.
#[repr(C)]
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Stats {
    #[serde(skip)]
    fd: i32,
    pub(crate) placement: u32,
    pub(crate) is_revoked: u32,
    pub(crate) pinned: u32,
    pub(crate) mapped: u32,
    #[serde(skip)]
    reserved32: u32,
    pub(crate) attaches: u64,
    pub(crate) detaches: u64,
    pub(crate) maps: u64,
    pub(crate) unmaps: u64,
    pub(crate) pins: u64,
    pub(crate) unpins: u64,
    pub(crate) vmaps: u64,
    pub(crate) vunmaps: u64,
    pub(crate) cpu_begins: u64,
    pub(crate) cpu_ends: u64,
    pub(crate) invalidations: u64,
    pub(crate) moves: u64,
    pub(crate) breaches: u64,
    pub(crate) late_writes: u64,
    pub(crate) guard_writes: u64,
    pub(crate) vram_late_writes: u64,
    #[serde(skip)]
    reserved: [u64; 2],
}

nix::ioctl_write_ptr!(
    /// `VRAM_EXPORTER_IOC_CREATE`: answers with the file descriptor of a new dma-buf.
    vram_create, b'V', 0xe0, Create
);
nix::ioctl_write_ptr!(
    /// `VRAM_EXPORTER_IOC_LOOP`: moves a buffer again and again.
    vram_loop, b'V', 0xe2, Loop
);
nix::ioctl_write_ptr!(
    /// `VRAM_EXPORTER_IOC_REVOKE`: takes a buffer away.
    vram_revoke, b'V', 0xe3, Revoke
);
nix::ioctl_write_ptr!(
    /// `VRAM_EXPORTER_IOC_UNREVOKE`: gives it back.
    vram_unrevoke, b'V', 0xe4, Named
);
nix::ioctl_readwrite!(
    /// `VRAM_EXPORTER_IOC_STATS`: what was done to a buffer.
    vram_stats, b'V', 0xe9, Stats
);
nix::ioctl_write_ptr!(
    /// `VRAM_EXPORTER_IOC_READ`: copies out of a buffer.
    vram_read, b'V', 0xea, Piece
);
nix::ioctl_write_ptr!(
    /// `VRAM_EXPORTER_IOC_WRITE`: copies into a buffer.
    vram_write, b'V', 0xeb, Piece
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_long_as_in_the_header() {
        assert_eq!(size_of::<Create>(), 40);
        assert_eq!(size_of::<Named>(), 16);
        assert_eq!(size_of::<Loop>(), 16);
        assert_eq!(size_of::<Revoke>(), 16);
        assert_eq!(size_of::<Piece>(), 40);
        assert_eq!(size_of::<Stats>(), 24 + 18 * 8);
    }
}
