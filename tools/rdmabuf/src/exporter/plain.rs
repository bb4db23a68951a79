// SPDX-License-Identifier: GPL-2.0

//! No dma-buf: a mapped memfd, registered the ordinary way, to tell the device's faults from the importer's.

use super::{Buffer, Exporter, Memory};
use crate::{call::CallError, mapping::Mapping};
use anyhow::Result;
use nix::{
    sys::memfd::{MFdFlags, memfd_create},
    unistd::ftruncate,
};
use std::os::fd::OwnedFd;

/// The comparison that is no exporter.
pub(super) struct Plain;

impl Exporter for Plain {
    fn allocate(&self, length: usize) -> Result<Box<dyn Buffer>> {
        Ok(Box::new(memfd(length, MFdFlags::empty())?))
    }
}

/// A memfd and its mapping.
pub(super) struct Memfd {
    pub(super) fd: OwnedFd,
    pub(super) mapping: Mapping,
    pub(super) length: usize,
}

/// Makes a memfd of `length` bytes and maps it.
pub(super) fn memfd(length: usize, flags: MFdFlags) -> Result<Memfd> {
    let failed = |call| move |errno| CallError::new(call, format!("length={length}"), errno);
    let fd =
        memfd_create(c"rdmabuf", MFdFlags::MFD_CLOEXEC | flags).map_err(failed("memfd_create"))?;
    ftruncate(&fd, i64::try_from(length)?).map_err(failed("ftruncate"))?;
    Ok(Memfd {
        mapping: Mapping::new(&fd, length)?,
        fd,
        length,
    })
}

impl Buffer for Memfd {
    fn length(&self) -> usize {
        self.length
    }

    fn memory(&self) -> Result<Memory> {
        Ok(Memory::Host(self.mapping.address()))
    }

    fn with_cpu_access(&self, work: &mut dyn FnMut(&Mapping) -> Result<()>) -> Result<()> {
        work(&self.mapping)
    }
}
