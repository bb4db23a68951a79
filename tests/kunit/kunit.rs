// SPDX-License-Identifier: GPL-2.0

//! The KUnit suites of the importer, and the small exporter that they run against.
//!
//! ```text
//!   suites        attach   pages   moves   gate   fences   tables   errors     no `unsafe`
//!                 drivers   misuse   books
//!                   │
//!                   ▼
//!   abstractions  exporter   backing   driver   nic   hardware   fd   fence   thread   check
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

mod backing;
mod check;
mod driver;
mod exporter;
mod fd;
mod fence;
mod hardware;
mod nic;
mod nic_c;
mod probe;
mod thread;

mod attach;
mod books;
mod drivers;
mod errors;
mod fences;
mod gate;
mod misuse;
mod moves;
mod pages;
mod tables;
