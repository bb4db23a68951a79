// SPDX-License-Identifier: GPL-2.0

//! Memory that others write too: mapped, and only ever copied from and to.

#![expect(unsafe_code, reason = "mmap, and copies through its pointer")]

use crate::call::CallError;
use anyhow::{Result, ensure};
use nix::{
    errno::Errno,
    sys::mman::{MapFlags, ProtFlags, mmap, munmap},
};
use std::{
    ffi::c_void,
    num::NonZeroUsize,
    os::fd::{AsFd, AsRawFd},
    ptr::{self, NonNull},
};

/// A shared mapping of a file or dma-buf.
///
/// # Invariants
///
/// `base..base + length` is mapped for reading and writing until drop, and no reference to any byte of
/// it is ever made: RDMA changes the bytes without this program's doing.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

impl Mapping {
    /// Maps the first `length` bytes behind `fd`.
    pub(crate) fn new(fd: impl AsFd, length: usize) -> Result<Self, CallError> {
        let raw = fd.as_fd().as_raw_fd();
        let failed = |errno| CallError::new("mmap", format!("fd={raw}, length={length}"), errno);
        let size = NonZeroUsize::new(length).ok_or_else(|| failed(Errno::EINVAL))?;
        // SAFETY: The kernel chooses a free address range, so that no other mapping is replaced.
        let base = unsafe {
            mmap(
                None,
                size,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED,
                fd,
                0,
            )
        }
        .map_err(failed)?;
        // INVARIANT: mmap() made the range readable and writable; `base` leaves this type as a number only.
        Ok(Self {
            base: base.cast(),
            length,
        })
    }

    /// The address of the first byte, as a number.
    pub(crate) fn address(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    /// Copies bytes out, beginning at `at`.
    pub(crate) fn read(&self, at: usize, into: &mut [u8]) -> Result<()> {
        self.check(at, into.len())?;
        // SAFETY:
        // - By the check and the type invariant, the source range is mapped and readable.
        // - `into` is an exclusive reference to memory of the program's own, so they do not overlap.
        unsafe {
            ptr::copy_nonoverlapping(self.base.as_ptr().add(at), into.as_mut_ptr(), into.len())
        };
        Ok(())
    }

    /// Copies bytes in, beginning at `at`.
    pub(crate) fn write(&self, at: usize, from: &[u8]) -> Result<()> {
        self.check(at, from.len())?;
        // SAFETY:
        // - By the check and the type invariant, the target range is mapped and writable.
        // - By the type invariant, no reference to it exists, so `from` does not overlap it.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.base.as_ptr().add(at), from.len()) };
        Ok(())
    }

    fn check(&self, at: usize, length: usize) -> Result<()> {
        ensure!(
            at.checked_add(length).is_some_and(|end| end <= self.length),
            "bytes {at} + {length} are not inside a mapping of {} bytes",
            self.length
        );
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, the range is a mapping of this object, and nothing refers to it.
        if let Err(errno) = unsafe { munmap(self.base.cast::<c_void>(), self.length) } {
            eprintln!("rdmabuf: {}", CallError::new("munmap", "", errno));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::unistd::ftruncate;

    fn page() -> Result<Mapping> {
        let fd = memfd_create(c"test", MFdFlags::MFD_CLOEXEC)?;
        ftruncate(&fd, 4096)?;
        Ok(Mapping::new(&fd, 4096)?)
    }

    #[test]
    fn what_is_written_is_read_back() -> Result<()> {
        let (mapping, mut bytes) = (page()?, [0; 3]);
        mapping.write(4093, b"abc")?;
        mapping.read(4093, &mut bytes)?;
        assert_eq!(&bytes, b"abc");
        Ok(())
    }

    #[test]
    fn nothing_is_copied_past_the_end() -> Result<()> {
        let (mapping, mut bytes) = (page()?, [0; 3]);
        assert!(mapping.write(4094, b"abc").is_err());
        assert!(mapping.read(usize::MAX, &mut bytes).is_err());
        Ok(())
    }
}
