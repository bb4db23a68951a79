// SPDX-License-Identifier: GPL-2.0

//! What a driver of an RDMA device does when the memory of a region comes and goes.

use crate::block_list::Blocks;
use kernel::prelude::*;

/// The driver's side of one region.
///
/// A NIC with a translation table fills and clears it here; `tests/kunit/nic.rs` is an example. A
/// driver that looks the blocks up with every access, as rxe does, has nothing to do here and is
/// `()`.
///
/// The calls come one at a time, with the reservation lock of the dma-buf held, and can come as
/// soon as the region is being made. Within them: no reservation lock, no fault on user memory and
/// no call of the region.
pub(crate) trait Driver: Send + Sync + 'static {
    /// The memory of the region is at `blocks`, and its content is in place.
    ///
    /// The blocks may be used until [`Driver::unmap`] returns. May sleep and allocate. An error
    /// leaves the region unmapped, and is passed on to who asked for the memory.
    fn map(&self, blocks: &Blocks) -> Result {
        let _ = blocks;
        Ok(())
    }

    /// The memory goes away: when this returns, the device does not touch it any more.
    ///
    /// Follows a [`Driver::map`] that succeeded, once. Must not allocate, nor wait for anything that
    /// user space or a peer has a say in: the exporter may be reclaiming memory.
    fn unmap(&self) {}

    /// The region will not have memory again, and its key has to fail from now on.
    ///
    /// Called once at most, after [`Driver::unmap`] if there was memory. The key stays taken until
    /// the region is given up. The rules of [`Driver::unmap`] apply.
    fn revoked(&self) {}
}

impl Driver for () {}
