// SPDX-License-Identifier: GPL-2.0

//! The KUnit suites of the importer, and what they run against.
//!
//! ```text
//!   suites        attach   pages   moves   gate   fences   tables   errors     no `unsafe`
//!                 contract   drivers   modes   misuse   books   differential   differences
//!                 races   reports   traps
//!                   │
//!                   ▼
//!   logic         exporter   layouts   lives   phantom
//!                   │
//!                   ▼
//!   abstractions  vram (tests/exporter)   driver   nic   hardware   bare   fd   thread   check
//!                 probe   core_importer
//!                   │
//!                   ▼
//!   raw           bindings   helpers.c   reference.c
//! ```
//!
//! A case returns at the first thing that is not as it should be, after it has told KUnit. KUnit's
//! own assertions would stop the thread without running a destructor, and leave locks held.
//!
//! The suites run once the module's init function has returned, so its importer is in service.

mod bare;
mod check;
mod core_importer;
mod driver;
mod exporter;
mod fd;
mod hardware;
mod layouts;
mod lives;
mod nic;
mod nic_c;
mod phantom;
mod probe;
mod thread;

// Suites use what they need of it.
#[allow(dead_code)]
#[path = "../exporter/vram.rs"]
mod vram;

mod attach;
mod books;
mod contract;
mod differences;
mod differential;
mod drivers;
mod errors;
mod exporter_cases;
mod exporter_fault_cases;
mod fences;
mod gate;
mod misuse;
mod modes;
mod moves;
mod pages;
mod races;
mod reports;
mod tables;
mod traps;
