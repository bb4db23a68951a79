// SPDX-License-Identifier: GPL-2.0

//! What a case wants of a buffer.

use super::*;
use crate::{
    kunit::vram::{
        buffer::{
            Rules,
            Wish, //
        },
        pool::Pool,
    },
    window::PAGE_SIZE,
};
use kernel::module::this_module;

/// Room for a buffer of a case in two places, and some that are remembered.
const POOL_FACTOR: u64 = 6;

/// The least that a pool has.
const POOL_LEAST: u64 = 8 << 20;

/// What a case wants of a buffer; the importer is expected to have a callback and no peer-to-peer.
pub(crate) struct Order {
    size: u64,
    layout: Layout,
    mode: Mode,
    placement: Placement,
    rules: Rules,
    resv: Option<Arc<SharedResv>>,
    hollow: KVec<Segment>,
}

impl Order {
    fn new(size: u64, layout: Layout) -> Self {
        Self {
            size,
            layout,
            mode: Mode::ReadWrite,
            placement: Placement::System,
            rules: Rules {
                expects_revocable: true,
                expects_no_peer2peer: true,
                ..Rules::ANY
            },
            resv: None,
            hollow: KVec::new(),
        }
    }

    /// A buffer with a run of so many pages for each number.
    pub(crate) fn of_runs(runs: &[u64]) -> Result<Self> {
        let pages: u64 = runs.iter().sum();

        Ok(Self::new(pages * PAGE_SIZE, Layout::of_runs(runs)?))
    }

    /// A buffer of so many pages that are laid out in a certain way.
    pub(crate) fn of_kind(pages: u64, kind: Kind) -> Self {
        Self::new(pages * PAGE_SIZE, Layout::Kind(kind))
    }

    /// A buffer of any size without memory: each map gives these DMA addresses.
    pub(crate) fn of_addresses(segments: KVec<Segment>) -> Self {
        let size = segments.iter().map(|segment| segment.len).sum();

        Self {
            hollow: segments,
            ..Self::new(size, Layout::Kind(Kind::OneRun))
        }
    }

    /// A file that is opened in `mode`.
    pub(crate) fn opened(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// A buffer that lies in video memory at first.
    pub(crate) fn in_vram(self) -> Self {
        Self {
            placement: Placement::Vram,
            ..self
        }
    }

    /// A buffer that shares its reservation object.
    pub(crate) fn sharing(self, resv: &Arc<SharedResv>) -> Self {
        Self {
            resv: Some(resv.clone()),
            ..self
        }
    }

    /// Importers without a callback are no breach of the contract.
    pub(crate) fn for_pinned(mut self) -> Self {
        self.rules.expects_revocable = false;
        self
    }

    /// Importers without a callback are refused with `EOPNOTSUPP`.
    pub(crate) fn only_for_revocable(mut self) -> Self {
        self.rules.only_revocable = true;
        self
    }

    /// Importers with peer-to-peer are no breach of the contract.
    pub(crate) fn for_peer2peer(mut self) -> Self {
        self.rules.expects_no_peer2peer = false;
        self
    }

    /// So many pins at a time; more get `ENOSPC`.
    pub(crate) fn with_pin_quota(mut self, quota: u32) -> Self {
        self.rules.pin_quota = quota;
        self
    }

    /// Exports the buffer, filled with [`pattern`].
    pub(crate) fn export(self) -> Result<Arc<Exporter>> {
        let is_hollow = !self.hollow.is_empty();
        let pool = match self.placement {
            Placement::System => None,
            Placement::Vram => Some(Pool::new((self.size * POOL_FACTOR).max(POOL_LEAST))?),
        };
        let buffer = Buffer::new(Wish {
            size: self.size,
            layout: self.layout,
            placement: self.placement,
            rules: self.rules,
            pool,
            hollow: self.hollow,
        })?;
        let module = this_module::<crate::LocalModule>();
        let dmabuf = ops::export(
            buffer.clone(),
            c"rdma_dmabuf test",
            module,
            self.size,
            self.mode,
            self.resv,
        )?;
        let exporter = Arc::new(Exporter { dmabuf, buffer }, GFP_KERNEL)?;

        if !is_hollow {
            exporter.fill()?;
        }
        Ok(exporter)
    }
}
