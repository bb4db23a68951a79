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
/// How often a bar that shows time is drawn.
const REDRAW: Duration = Duration::from_millis(250);
const TEMPLATE: &str = "{prefix} {bar:30} {bytes}/{total_bytes} {elapsed}";
const CLOCK_TEMPLATE: &str = "{elapsed} {bar:30} {msg}";

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
        Task {
            progress: self,
            bar: self.bar(total, TEMPLATE).with_prefix(what.clone()),
            what,
            last: Instant::now(),
        }
    }

    /// Begins work that takes a known time.
    pub(crate) fn clock(&self, total: Duration) -> Clock<'_> {
        Clock {
            progress: self,
            bar: self.bar(total.as_secs(), CLOCK_TEMPLATE),
            last: Instant::now(),
        }
    }

    fn bar(&self, total: u64, template: &str) -> ProgressBar {
        let target = match self.style {
            ProgressStyle::Bar => ProgressDrawTarget::stderr(),
            _ => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(total), target)
            // Where the work ends early, nothing of the bar stays behind.
            .with_finish(ProgressFinish::AndClear);
        if let Ok(style) = BarStyle::with_template(template) {
            bar.set_style(style);
        }
        bar
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

/// Work that takes a known time.
pub(crate) struct Clock<'a> {
    progress: &'a Progress,
    bar: ProgressBar,
    last: Instant,
}

impl Clock<'_> {
    /// Tells how things are, if it is time to.
    pub(crate) fn tell<E>(
        &mut self,
        elapsed: Duration,
        how: impl FnOnce() -> Result<String, E>,
    ) -> Result<(), E> {
        let interval = match self.progress.style {
            ProgressStyle::Bar => REDRAW,
            ProgressStyle::Lines => SILENCE,
            ProgressStyle::Auto | ProgressStyle::Off => return Ok(()),
        };
        if self.last.elapsed() < interval {
            return Ok(());
        }
        self.last = Instant::now();
        let how = how()?;
        if self.progress.style == ProgressStyle::Lines {
            self.progress.note(&how);
        } else {
            self.bar.set_position(elapsed.as_secs());
            self.bar.set_message(how);
        }
        Ok(())
    }
}
