// SPDX-License-Identifier: GPL-2.0

//! The brackets around an access of the CPU to a mapped dma-buf.

#![expect(unsafe_code, reason = "ioctl")]

use crate::call::CallError;
use anyhow::Result;
use std::os::fd::{AsFd, AsRawFd};

/// Runs `work` between the beginning and the end of an access to the dma-buf.
pub(super) fn with_sync(fd: &impl AsFd, work: impl FnOnce() -> Result<()>) -> Result<()> {
    sync(fd, SYNC_READ_WRITE)?;
    let outcome = work();
    // The access ends even where the work failed; the first error is the one that matters.
    let ended = sync(fd, SYNC_READ_WRITE | SYNC_END);
    outcome?;
    Ok(ended?)
}

fn sync(fd: &impl AsFd, flags: u64) -> Result<(), CallError> {
    let request = Sync { flags };
    // SAFETY: `request` is the structure that this ioctl reads, and it outlives the call.
    unsafe { dma_buf_sync(fd.as_fd().as_raw_fd(), &request) }
        .map(drop)
        .map_err(|errno| CallError::new("DMA_BUF_IOCTL_SYNC", format!("flags={flags}"), errno))
}

/// `struct dma_buf_sync`.
#[repr(C)]
pub(crate) struct Sync {
    flags: u64,
}

/// `DMA_BUF_SYNC_RW`, with `DMA_BUF_SYNC_START` being no bit at all.
const SYNC_READ_WRITE: u64 = 3;
/// `DMA_BUF_SYNC_END`.
const SYNC_END: u64 = 4;

nix::ioctl_write_ptr!(
    /// `DMA_BUF_IOCTL_SYNC`: begins or ends an access of the CPU.
    dma_buf_sync, b'b', 0, Sync
);
