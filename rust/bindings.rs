// SPDX-License-Identifier: GPL-2.0

//! The raw layer: C interfaces, ours and the rdma headers', beside the kernel crate's.
//!
//! Only abstractions may use this module; the layer check of `make check` enforces it.

#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]

pub(crate) use kernel::bindings::*;

use kernel::ffi;
use pin_init::MaybeZeroable;

include!(concat!(
    env!("RDMA_DMABUF_OBJ"),
    "/bindings_generated.rs" //
));
