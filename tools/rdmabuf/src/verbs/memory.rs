// SPDX-License-Identifier: GPL-2.0

//! Memory regions, from dma-bufs and from ordinary memory.

#![expect(unsafe_code, reason = "libibverbs")]

use super::device::{Pd, report};
use crate::{call::CallError, exporter::Memory, region::Region};
use anyhow::Result;
use rdma_mummy_sys::{ibv_access_flags, ibv_dereg_mr, ibv_mr, ibv_reg_dmabuf_mr, ibv_reg_mr_iova};
use std::{
    fmt,
    ops::BitOr,
    os::fd::{AsFd, AsRawFd, RawFd},
    ptr::{self, NonNull},
    rc::Rc,
};

/// What may be done with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access(u32);

impl Access {
    /// Reading by the device on behalf of this program only.
    pub(crate) const LOCAL_READ: Self = Self(0);
    /// Writing on behalf of this program.
    pub(crate) const LOCAL_WRITE: Self = Self(ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0);
    /// Writing on behalf of the peer.
    pub(crate) const REMOTE_WRITE: Self = Self(ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0);
    /// Reading on behalf of the peer.
    pub(crate) const REMOTE_READ: Self = Self(ibv_access_flags::IBV_ACCESS_REMOTE_READ.0);
    /// Atomic operations on behalf of the peer.
    pub(crate) const REMOTE_ATOMIC: Self = Self(ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC.0);

    pub(super) fn bits(self) -> u32 {
        self.0
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A registered memory region.
///
/// # Invariants
///
/// `mr` is from a registration, and not yet deregistered unless it is `None`.
pub(crate) struct Mr {
    mr: Option<NonNull<ibv_mr>>,
    _pd: Rc<Pd>,
}

impl Mr {
    /// Registers `region` of `memory`. A dma-buf's file descriptor is closed right after the call.
    pub(crate) fn register(
        pd: &Rc<Pd>,
        memory: Memory,
        region: &Region,
        access: Access,
    ) -> Result<Self> {
        Ok(match memory {
            Memory::DmaBuf(dmabuf) => register_fd(pd, dmabuf.as_fd().as_raw_fd(), region, access)?,
            Memory::Host(address) => register_host(pd, address, region, access)?,
        })
    }

    fn adopt(
        pd: &Rc<Pd>,
        mr: *mut ibv_mr,
        failed: impl FnOnce() -> CallError,
    ) -> Result<Self, CallError> {
        // INVARIANT: A pointer that is not NULL is the answer of a registration that succeeded.
        Ok(Self {
            mr: Some(NonNull::new(mr).ok_or_else(failed)?),
            _pd: Rc::clone(pd),
        })
    }

    /// The key for this program's own work requests.
    pub(crate) fn lkey(&self) -> u32 {
        self.mr.map_or(0, |mr| {
            // SAFETY: By the type invariant, the structure is live; the library does not change its keys.
            unsafe { ptr::addr_of!((*mr.as_ptr()).lkey).read() }
        })
    }

    /// The key for the peer.
    pub(crate) fn rkey(&self) -> u32 {
        self.mr.map_or(0, |mr| {
            // SAFETY: By the type invariant, the structure is live; the library does not change its keys.
            unsafe { ptr::addr_of!((*mr.as_ptr()).rkey).read() }
        })
    }

    /// Deregisters it and tells whether that worked; drop can only complain.
    pub(crate) fn deregister(mut self) -> Result<(), CallError> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<(), CallError> {
        let Some(mr) = self.mr.take() else {
            return Ok(());
        };
        // SAFETY: By the type invariant, it is registered, and taking it out leaves nothing behind.
        let answer = unsafe { ibv_dereg_mr(mr.as_ptr()) };
        CallError::check(answer, "ibv_dereg_mr", String::new)
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        report(self.give_back());
    }
}

/// Registers `region` of whatever `fd` is, which need not be a dma-buf, nor open.
pub(crate) fn register_fd(
    pd: &Rc<Pd>,
    fd: RawFd,
    region: &Region,
    access: Access,
) -> Result<Mr, CallError> {
    // The library's `size_t` and this one are the same number of bits.
    let length = region.length as usize;
    // SAFETY: The protection domain is live. The kernel judges every other argument, and the region that
    // it makes covers memory that this program never has a reference to.
    let mr = unsafe {
        ibv_reg_dmabuf_mr(
            pd.as_raw(),
            region.offset,
            length,
            region.iova,
            fd,
            access.bits() as i32,
        )
    };
    Mr::adopt(pd, mr, || {
        CallError::last(
            "ibv_reg_dmabuf_mr",
            format!("{}, {region}, fd={fd}, access={access}", pd.device().name()),
        )
    })
}

/// Registers `region` of the mapping that begins at `address`.
fn register_host(
    pd: &Rc<Pd>,
    address: u64,
    region: &Region,
    access: Access,
) -> Result<Mr, CallError> {
    let first = address.wrapping_add(region.offset) as usize;
    // SAFETY: The protection domain is live. The kernel judges the range and pins its pages, so they
    // outlive the mapping; this program only copies from and to them and has no reference to them.
    let mr = unsafe {
        ibv_reg_mr_iova(
            pd.as_raw(),
            ptr::without_provenance_mut(first),
            region.length as usize,
            region.iova,
            access.bits() as i32,
        )
    };
    Mr::adopt(pd, mr, || {
        CallError::last(
            "ibv_reg_mr_iova",
            format!("{}, {region}, access={access}", pd.device().name()),
        )
    })
}
