// SPDX-License-Identifier: GPL-2.0

//! The buffers whose mappings a shrinker takes.

use crate::{
    shrinker::Shrink,
    vram::{
        buffer::Buffer,
        ops::Exporter, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// Buffers that programs have made for it, those that are gone among them.
#[pin_data]
pub(crate) struct Reclaimable {
    // Who reclaims memory only tries to take it, so memory may be allocated within.
    #[pin]
    buffers: Mutex<KVec<Arc<Buffer>>>,
}

fn is_mapped(buffer: &Buffer) -> bool {
    buffer.in_use().1 != 0
}

impl Reclaimable {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                buffers <- new_mutex!(KVec::new(), "vram_exporter::reclaimable"),
            }),
            GFP_KERNEL,
        )
    }

    /// Lets a shrinker take the mappings of `buffer` from now on.
    pub(crate) fn add(&self, buffer: Arc<Buffer>) -> Result {
        let mut buffers = self.buffers.lock();

        buffers.retain(|other| other.stats().releases.get() == 0);
        Ok(buffers.push(buffer, GFP_KERNEL)?)
    }
}

impl Shrink for Arc<Reclaimable> {
    fn count(&self) -> usize {
        self.buffers.try_lock().map_or(0, |buffers| {
            buffers.iter().filter(|it| is_mapped(it)).count()
        })
    }

    fn scan(&self, most: usize) -> usize {
        let Some(buffers) = self.buffers.try_lock() else {
            return 0;
        };

        buffers
            .iter()
            .filter(|buffer| is_mapped(buffer))
            .filter(|buffer| buffer.link().try_with(|live| live.shrink()) == Some(Ok(())))
            .take(most)
            .count()
    }
}
