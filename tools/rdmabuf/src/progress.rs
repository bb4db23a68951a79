// SPDX-License-Identifier: GPL-2.0

//! How far the work is, on standard error: a bar on a terminal, lines elsewhere.

use crate::cli::ProgressStyle;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle as BarStyle};
use std::{
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

/// How long lines may be silent.
const SILENCE: Duration = Duration::from_secs(5);
const TEMPLATE: &str = "{prefix} {bar:30} {bytes}/{total_bytes} {elapsed}";

/// Tells about all of the work.
pub(crate) struct Progress {
    style: ProgressStyle,
    started: Instant,
}

impl Progress {
    pub(crate) fn new(style: ProgressStyle) -> Self {
        let style = match style {
            ProgressStyle::Auto if drawable() => ProgressStyle::Bar,
            ProgressStyle::Auto => ProgressStyle::Lines,
            chosen => chosen,
        };
        Self {
            style,
            started: Instant::now(),
        }
    }

    /// Says something that is not a transfer.
    pub(crate) fn note(&self, text: &str) {
        if self.style != ProgressStyle::Off {
            eprintln!("[{:6.1} s] {text}", self.started.elapsed().as_secs_f64());
        }
    }

    /// Begins a transfer of `total` bytes.
    pub(crate) fn begin(&self, what: String, total: u64) -> Task<'_> {
        let target = match self.style {
            ProgressStyle::Bar => ProgressDrawTarget::stderr(),
            _ => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(total), target)
            .with_prefix(what.clone())
            // Where the work ends early, nothing of the bar stays behind.
            .with_finish(ProgressFinish::AndClear);
        if let Ok(style) = BarStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        Task {
            progress: self,
            what,
            bar,
            last: Instant::now(),
        }
    }
}

/// Whether standard error is a terminal that a cursor can be moved on.
fn drawable() -> bool {
    let terminal = std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb");
    terminal && io::stderr().is_terminal()
}

/// One transfer.
pub(crate) struct Task<'a> {
    progress: &'a Progress,
    what: String,
    bar: ProgressBar,
    last: Instant,
}

impl Task<'_> {
    /// So many bytes more.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.bar.inc(bytes);
        if self.progress.style == ProgressStyle::Lines && self.last.elapsed() >= SILENCE {
            self.last = Instant::now();
            let (done, total) = (self.bar.position(), self.bar.length().unwrap_or(0));
            self.progress
                .note(&format!("{}  {done} of {total} bytes", self.what));
        }
    }

    /// The end, whatever it is.
    pub(crate) fn end(self, result: &str) {
        self.bar.finish_and_clear();
        self.progress.note(&format!("{}  {result}", self.what));
    }
}
