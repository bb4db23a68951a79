// SPDX-License-Identifier: GPL-2.0

//! `rdmabuf`: RDMA memory regions made from dma-bufs, shown and probed from user space.
//!
//! Three layers, one direction. `unsafe` lives in the lowest one only:
//!
//! ```text
//! commands   demo  probe  stress  hold  what a person asks for
//!               │
//! logic      plan  transfer  verify  debugfs  diagnose  report  …
//!               │
//! calls      verbs  exporter  mapping   libibverbs, ioctls, mmap
//! ```

mod call;
mod cli;
mod debugfs;
mod demo;
mod diagnose;
mod exporter;
mod hold;
mod link;
mod mapping;
mod network;
mod pattern;
mod payload;
mod plan;
mod probe;
mod progress;
mod random;
mod region;
mod report;
mod stop;
mod stress;
mod transfer;
mod verbs;
mod verify;

use clap::Parser;
use std::process::ExitCode;

/// What a command found out, as an exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything is as it should be: 0.
    Good,
    /// The command ran, and what it looked at is not as it should be: 1.
    Bad,
}

/// The exit status of a command that could not do its work at all.
const COULD_NOT_RUN: u8 = 2;

fn main() -> ExitCode {
    let outcome = match cli::Cli::parse().command {
        cli::Command::Demo(options) => demo::run(&options),
        cli::Command::Probe(options) => probe::run(&options),
        cli::Command::Hold(options) => hold::run(&options),
        cli::Command::Stress(options) => stress::run(&options),
    };
    match outcome {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::FAILURE,
        Err(error) => {
            complain(&error);
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}

/// The error and its remedy, and below it what it came from.
fn complain(error: &anyhow::Error) {
    eprintln!("rdmabuf: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("    {cause}");
    }
}
