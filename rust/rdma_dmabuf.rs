// SPDX-License-Identifier: GPL-2.0

//! An importer of dma-bufs for RDMA memory regions.
//!
//! A program registers memory of a dma-buf with an RDMA device; this module attaches to the
//! dma-buf, maps it, keeps the mapping right while the exporter moves the memory, and hands it to
//! the driver as uniform blocks.
//!
//! ```text
//!   logic         importer   region   body   driver   block_list    no `unsafe`, no bindings
//!                 patience   record
//!                 window   blocks                                   pure: also built on the host
//!                   │
//!                   ▼
//!   abstractions  ffi   c_driver   attachment   dma_buf   dma_resv   gate   device   signal
//!                 trace
//!                   │
//!                   ▼
//!   raw           bindings (bindgen)   helpers.c   exports.c   trace.c
//! ```
//!
//! The arrows are the only direction there is, but for `ffi` and `c_driver`, where C calls in.

mod attachment;
mod bindings;
mod block_list;
mod blocks;
mod body;
mod c_driver;
mod device;
mod dma_buf;
mod dma_resv;
mod driver;
mod ffi;
mod gate;
mod importer;
mod patience;
mod record;
mod region;
mod signal;
mod trace;
mod window;

#[cfg(CONFIG_RDMA_DMABUF_KUNIT_TEST)]
#[path = "../tests/kunit/arithmetic_cases.rs"]
mod arithmetic_cases;
#[cfg(CONFIG_RDMA_DMABUF_KUNIT_TEST)]
#[path = "../tests/kunit/kunit.rs"]
mod kunit;

use crate::{
    device::OwnDevice,
    importer::{
        DebugFiles,
        Importer,
        Settings, //
    },
};
use kernel::prelude::*;

module! {
    type: RdmaDmabuf,
    name: "rdma_dmabuf",
    authors: ["rdma_dmabuf maintainers"],
    description: "dma-bufs as memory regions of RDMA drivers",
    license: "GPL",
    imports_ns: ["DMA_BUF", "IB_DMABUF_IMPORTER"],
    params: {
        fence_timeout_ms: u32 {
            default: 100,
            description: "Longest wait of one access for the exporter's fences, at most 10000 ms",
        },
        check_rights: bool {
            default: true,
            description: "Refuse MRs with rights that the dma-buf was not opened with",
        },
        mode: u32 {
            default: 0,
            description: "Mode of MRs whose driver does not choose: 0 dynamic, 1 pinned, 2 revocable",
        },
    },
}

/// The loaded module.
struct RdmaDmabuf {
    // Dropped in this order: no new calls, then no files that show the books.
    _service: ffi::Service,
    _files: DebugFiles,
}

impl kernel::Module for RdmaDmabuf {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let settings = Settings {
            fence_timeout_ms: module_parameters::fence_timeout_ms.value(),
            check_rights: module_parameters::check_rights.value(),
            mode: Settings::mode_from(module_parameters::mode.value())?,
        };
        let importer = Importer::new(OwnDevice::new()?, settings)?;
        let files = DebugFiles::new(&importer)?;

        Ok(Self {
            _service: ffi::Service::new(module, importer)?,
            _files: files,
        })
    }
}
