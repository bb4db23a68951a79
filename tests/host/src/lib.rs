// SPDX-License-Identifier: GPL-2.0

//! Host tests of the importer's pure arithmetic: the module's own files, the cases that KUnit runs
//! in the kernel, and properties checked against models that are too simple to be wrong.

#![cfg(test)]
#![forbid(unsafe_code)]
#![deny(warnings)]

/// A file of the module, without what may not be in code that works on a program's numbers.
macro_rules! kernel_file {
    ($name:ident, $path:literal) => {
        #[deny(
            clippy::arithmetic_side_effects,
            clippy::as_conversions,
            clippy::expect_used,
            clippy::indexing_slicing,
            clippy::missing_docs_in_private_items,
            clippy::panic,
            clippy::unreachable,
            clippy::unwrap_used
        )]
        #[path = $path]
        mod $name;
    };
}

kernel_file!(window, "../../../rust/window.rs");
kernel_file!(blocks, "../../../rust/blocks.rs");

#[path = "../../kunit/arithmetic_cases.rs"]
mod arithmetic_cases;

mod block_properties;
mod core_rule;
mod oracle;
mod tables;
mod window_properties;
