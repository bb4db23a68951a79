// SPDX-License-Identifier: GPL-2.0

//! libibverbs, one Rust type for each of its objects: acquired by a constructor, given back by drop.
//!
//! Objects hold a counted reference on what they were made from, so the order of destruction is right
//! whatever the order of drops. The library itself is found at run time (`dlopen`).

mod device;
mod memory;
mod queue;
mod uverbs;

pub(crate) use device::{Device, Gid, Pd};
pub(crate) use memory::{Access, Mr, register_fd};
pub(crate) use queue::{Completion, Cq, Peer, Qp, Scatter, Status, Target, Work};
pub(crate) use uverbs::{Road, kernel_answer};
