// SPDX-License-Identifier: GPL-2.0

//! udmabuf: pages of a memfd as a dma-buf. The CPU sees them through the memfd.

#![expect(unsafe_code, reason = "ioctl")]

use super::{
    Buffer, DmaBuf, Exporter, Memory, in_kernel, open,
    plain::{Memfd, memfd},
};
use crate::{call::CallError, mapping::Mapping};
use anyhow::{Context, Result};
use nix::{
    fcntl::{FcntlArg, SealFlag, fcntl},
    sys::memfd::MFdFlags,
};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const DEVICE: &str = "/dev/udmabuf";

/// The kernel's udmabuf driver.
pub(super) struct Udmabuf;

impl Exporter for Udmabuf {
    fn allocate(&self, length: usize) -> Result<Box<dyn Buffer>> {
        let memfd = memfd(length, MFdFlags::MFD_ALLOW_SEALING)?;
        // The driver takes only memory that cannot shrink under it.
        fcntl(&memfd.fd, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK))
            .map_err(|errno| CallError::new("fcntl", "F_ADD_SEALS, F_SEAL_SHRINK", errno))?;
        Ok(Box::new(UdmabufBuffer { memfd }))
    }
}

/// A sealed memfd. Its dma-bufs are made when asked for, and none is kept.
struct UdmabufBuffer {
    memfd: Memfd,
}

impl Buffer for UdmabufBuffer {
    fn length(&self) -> usize {
        self.memfd.length
    }

    fn memory(&self) -> Result<Memory> {
        let device = open(DEVICE, &in_kernel("CONFIG_UDMABUF"))?;
        let length = self.memfd.length;
        let request = Create {
            memfd: u32::try_from(self.memfd.fd.as_raw_fd())?,
            flags: CLOEXEC,
            offset: 0,
            size: length as u64,
        };
        // SAFETY: `request` is the structure that this ioctl reads, and it outlives the call.
        let fd = unsafe { udmabuf_create(device.as_raw_fd(), &request) }
            .map_err(|errno| CallError::new("UDMABUF_CREATE", format!("size={length}"), errno))
            .context("the limit is in /sys/module/udmabuf/parameters/size_limit_mb")?;
        // SAFETY: The ioctl answered with a new file descriptor, which nobody else has.
        Ok(Memory::DmaBuf(DmaBuf(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    fn with_cpu_access(&self, work: &mut dyn FnMut(&Mapping) -> Result<()>) -> Result<()> {
        work(&self.memfd.mapping)
    }
}

/// `struct udmabuf_create`.
#[repr(C)]
struct Create {
    memfd: u32,
    flags: u32,
    offset: u64,
    size: u64,
}

/// `UDMABUF_FLAGS_CLOEXEC`.
const CLOEXEC: u32 = 1;

nix::ioctl_write_ptr!(
    /// `UDMABUF_CREATE`: answers with the file descriptor of a new dma-buf.
    udmabuf_create, b'u', 0x42, Create
);
