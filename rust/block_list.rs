// SPDX-License-Identifier: GPL-2.0

//! What a driver sees of a mapped region: uniform blocks.

use crate::{
    attachment::Mapping,
    blocks::{
        self,
        BlockError,
        BlockSize, //
    },
    device::DmaDevice,
    window::{
        TableError,
        Window,
        WindowError, //
    },
};
use kernel::{
    alloc::flags::__GFP_NOWARN,
    prelude::*, //
};

impl From<WindowError> for Error {
    fn from(_: WindowError) -> Error {
        EINVAL
    }
}

impl From<TableError> for Error {
    fn from(_: TableError) -> Error {
        EINVAL
    }
}

impl From<BlockError> for Error {
    fn from(_: BlockError) -> Error {
        EINVAL
    }
}

/// The blocks of a region, rebuilt as one with every map: a move can change all of it.
pub(crate) struct Blocks {
    addrs: KVVec<u64>,
    size: BlockSize,
    first_iova: u64,
}

impl Blocks {
    /// Cuts what the exporter mapped into blocks of the best of `block_sizes`.
    ///
    /// `EINVAL` if the table is malformed or no size fits, `EOPNOTSUPP` if the device cannot
    /// reach the memory, `ENOMEM`.
    pub(crate) fn new(
        mapping: &Mapping,
        window: &Window,
        block_sizes: u64,
        device: &DmaDevice,
    ) -> Result<Self> {
        for segment in window.trim(mapping.segments()) {
            device.check_reachable(&segment?)?;
        }

        let size = blocks::best(window.trim(mapping.segments()), block_sizes)?;
        // How long it is, is up to the user, who is told if there is no memory; the log is not.
        let mut addrs =
            KVVec::with_capacity(size.count(window)?, GFP_KERNEL_ACCOUNT | __GFP_NOWARN)?;
        blocks::for_each_block(window.trim(mapping.segments()), size, |addr| {
            addrs
                .push(device.resolve(addr), GFP_KERNEL_ACCOUNT)
                .map_err(Error::from)
        })?;

        Ok(Self {
            addrs,
            size,
            first_iova: size.align_down(window.iova()),
        })
    }

    /// Address of each block.
    pub(crate) fn addrs(&self) -> &[u64] {
        &self.addrs
    }

    /// The size of the blocks.
    pub(crate) fn size(&self) -> BlockSize {
        self.size
    }

    /// I/O virtual address of the first byte of the first block.
    pub(crate) fn first_iova(&self) -> u64 {
        self.first_iova
    }
}
