// SPDX-License-Identifier: GPL-2.0

//! An exporter of dma-bufs that stands in for a GPU: buffers lie in video memory or in the
//! system's, move, make others wait, are revoked, and do wrong what they are told to do wrong.
//!
//! ```text
//!   logic         buffer   moves   loops   backing   pool   layout   faults   stats       no `unsafe`
//!                   │
//!                   ▼
//!   abstractions  ops   callbacks   table   resv   fence   memory   mmap   reclaim   ticker
//!                   │
//!                   ▼
//!   raw           bindings (bindgen)   helpers.c
//! ```
//!
//! It is part of two modules: of `vram_exporter.ko`, which offers it to programs, and of the
//! importer's KUnit suites.

pub(crate) mod backing;
pub(crate) mod buffer;
pub(crate) mod faults;
pub(crate) mod fence;
pub(crate) mod layout;
pub(crate) mod loops;
pub(crate) mod memory;
mod mmap;
pub(crate) mod moves;
pub(crate) mod ops;
pub(crate) mod pool;
mod reclaim;
pub(crate) mod resv;
pub(crate) mod stats;
pub(crate) mod table;
pub(crate) mod ticker;
