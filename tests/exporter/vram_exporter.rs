// SPDX-License-Identifier: GPL-2.0

//! `/dev/vram_exporter`: an exporter of dma-bufs that stands in for a GPU, for programs.
//!
//! `include/vram_exporter.h` says what programs can do with it. The exporter itself is [`vram`].

#[path = "../../rust/bindings.rs"]
mod bindings;
mod control;
// The importer's own; some of it is for importers alone.
#[allow(dead_code)]
#[path = "../../rust/dma_buf.rs"]
mod dma_buf;
#[allow(dead_code)]
#[path = "../../rust/dma_resv.rs"]
mod dma_resv;
mod reclaimable;
mod shrinker;
mod uapi;
// Some of it is for the KUnit suites alone.
#[allow(dead_code)]
#[path = "vram.rs"] // Its modules are beside it.
mod vram;
#[allow(dead_code)]
#[path = "../../rust/window.rs"]
mod window;

use crate::{
    control::Control,
    reclaimable::Reclaimable,
    shrinker::Shrinker,
    uapi::{
        Card,
        InService, //
    },
    vram::pool::Pool,
};
use kernel::{
    miscdevice::{
        MiscDeviceOptions,
        MiscDeviceRegistration, //
    },
    prelude::*,
    sizes::SZ_1M,
    sync::Arc, //
};

module! {
    type: VramExporter,
    name: "vram_exporter",
    authors: ["rdma_dmabuf maintainers"],
    description: "dma-bufs that lie, move, fail and are revoked on command, as a GPU's",
    license: "GPL",
    imports_ns: ["DMA_BUF"],
    params: {
        vram_mb: u32 {
            default: 64,
            description: "Memory that is reserved as video memory, in MiB, at most 4096",
        },
        size_limit_mb: u32 {
            default: 256,
            description: "Largest size of a buffer, in MiB",
        },
    },
}

/// The most that can be reserved, in MiB.
const MAX_VRAM_MB: u32 = 4096;

/// The loaded module.
#[pin_data]
struct VramExporter {
    // Dropped in this order: no new files, then nothing for them.
    #[pin]
    _device: MiscDeviceRegistration<Control>,
    _service: InService,
    _shrinker: Shrinker<Arc<Reclaimable>>,
}

impl kernel::InPlaceModule for VramExporter {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _service: InService::new(card()?)?,
            _shrinker: Shrinker::new(uapi::card()?.reclaimable)?,
            _device <- MiscDeviceRegistration::register(MiscDeviceOptions {
                name: c"vram_exporter",
            }),
        })
    }
}

fn card() -> Result<Card> {
    let bytes = |mib: u32| u64::from(mib) * SZ_1M as u64;

    Ok(Card {
        pool: Pool::new(bytes(module_parameters::vram_mb.value().min(MAX_VRAM_MB)))?,
        reclaimable: Reclaimable::new()?,
        size_limit: bytes(module_parameters::size_limit_mb.value()),
    })
}
