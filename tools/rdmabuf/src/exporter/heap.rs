// SPDX-License-Identifier: GPL-2.0

//! The system dma-heap: pages of the kernel, seen by the CPU through the dma-buf's own mapping.

#![expect(unsafe_code, reason = "ioctl")]

use super::{Buffer, DmaBuf, Exporter, Memory, in_kernel, open, sync::with_sync};
use crate::{call::CallError, mapping::Mapping};
use anyhow::{Context, Result};
use nix::libc;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const DEVICE: &str = "/dev/dma_heap/system";

/// The heap of ordinary pages.
pub(super) struct SystemHeap;

impl Exporter for SystemHeap {
    fn allocate(&self, length: usize) -> Result<Box<dyn Buffer>> {
        let device = open(DEVICE, &in_kernel("CONFIG_DMABUF_HEAPS_SYSTEM"))?;
        let mut request = Allocate {
            length: length as u64,
            fd: 0,
            fd_flags: u32::try_from(libc::O_RDWR | libc::O_CLOEXEC)?,
            heap_flags: 0,
        };
        // SAFETY: `request` is the structure that this ioctl reads and writes, and it outlives the call.
        unsafe { dma_heap_alloc(device.as_raw_fd(), &mut request) }.map_err(|errno| {
            CallError::new("DMA_HEAP_IOCTL_ALLOC", format!("length={length}"), errno)
        })?;
        // SAFETY: The ioctl filled in a new file descriptor, which nobody else has.
        let fd = unsafe { OwnedFd::from_raw_fd(RawFd::try_from(request.fd)?) };
        Ok(Box::new(HeapBuffer {
            mapping: Mapping::new(&fd, length)?,
            fd,
            length,
        }))
    }
}

/// A buffer of the heap. Its own file descriptor stays open, since DMA_BUF_IOCTL_SYNC needs one.
struct HeapBuffer {
    fd: OwnedFd,
    mapping: Mapping,
    length: usize,
}

impl Buffer for HeapBuffer {
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
}

/// `struct dma_heap_allocation_data`.
#[repr(C)]
pub(crate) struct Allocate {
    length: u64,
    fd: u32,
    fd_flags: u32,
    heap_flags: u64,
}

nix::ioctl_readwrite!(
    /// `DMA_HEAP_IOCTL_ALLOC`: puts the file descriptor of a new dma-buf into the structure.
    dma_heap_alloc, b'H', 0, Allocate
);
