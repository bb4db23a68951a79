// SPDX-License-Identifier: GPL-2.0

//! The KUnit suites of the importer, and what they run against.
//!
//! ```text
//!   suites        attach   pages   moves   gate   fences   tables   errors     no `unsafe`
//!                 drivers   modes   misuse   books
//!                   │
//!                   ▼
//!   logic         exporter
//!                   │
//!                   ▼
//!   abstractions  vram (tests/exporter)   driver   nic   hardware   bare   fd   thread   check
//!                 probe
//!                   │
//!                   ▼
//!   raw           bindings   helpers.c
//! ```
//!
//! A case returns at the first thing that is not as it should be, after it has told KUnit. KUnit's
//! own assertions would stop the thread without running a destructor, and leave locks held.
//!
//! The suites run once the module's init function has returned, so its importer is in service.

mod bare;
mod check;
mod driver;
mod exporter;
mod fd;
mod hardware;
mod nic;
mod nic_c;
mod probe;
mod thread;

// Suites use what they need of it.
#[allow(dead_code)]
#[path = "../exporter/vram.rs"]
mod vram;

mod attach;
mod books;
mod drivers;
mod errors;
mod exporter_cases;
mod fences;
mod gate;
mod misuse;
mod modes;
mod moves;
mod pages;
mod tables;
