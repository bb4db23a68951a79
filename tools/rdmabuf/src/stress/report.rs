// SPDX-License-Identifier: GPL-2.0

//! What the stress found.

use crate::{
    debugfs::{Counter, counters_table},
    exporter::{Kind, Stats},
    plan::Operation,
    report::{Column, Report, table},
};
use serde::Serialize;

/// The transfers of one operation between buffers of one exporter.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Count {
    pub(super) exporter: Kind,
    pub(super) operation: Operation,
    /// Those that succeeded, and their bytes.
    pub(super) transfers: u64,
    pub(super) bytes: u64,
    /// Those that failed, as they had to, because a buffer was revoked.
    pub(super) refused: u64,
}

impl Count {
    pub(super) fn new(exporter: Kind, operation: Operation) -> Self {
        Self {
            exporter,
            operation,
            transfers: 0,
            bytes: 0,
            refused: 0,
        }
    }

    pub(super) fn add(&mut self, bytes: u64, done: bool) {
        if done {
            self.transfers += 1;
            self.bytes += bytes;
        } else {
            self.refused += 1;
        }
    }

    fn merge(&mut self, other: &Self) {
        self.transfers += other.transfers;
        self.bytes += other.bytes;
        self.refused += other.refused;
    }

    fn cells(&self) -> [String; 5] {
        [
            self.operation.to_string(),
            self.exporter.to_string(),
            self.transfers.to_string(),
            self.bytes.to_string(),
            self.refused.to_string(),
        ]
    }
}

/// A buffer of vram at the end.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BufferRow {
    pub(super) pair: u64,
    pub(super) place: &'static str,
    #[serde(flatten)]
    pub(super) stats: Stats,
}

impl BufferRow {
    fn cells(&self) -> [String; 7] {
        let Stats {
            attaches,
            detaches,
            maps,
            unmaps,
            pins,
            unpins,
            ..
        } = self.stats;
        [
            format!("{} {}", self.pair, self.place),
            self.stats.moves.to_string(),
            self.stats.invalidations.to_string(),
            format!("{attaches} / {detaches}"),
            format!("{maps} / {unmaps}"),
            format!("{pins} / {unpins}"),
            (self.stats.late_writes + self.stats.guard_writes).to_string(),
        ]
    }
}

/// Everything that a stress found.
#[derive(Debug, Default, Serialize)]
pub(crate) struct StressReport {
    pub(super) ok: bool,
    pub(super) seed: u64,
    pub(super) devices: [String; 2],
    pub(super) seconds: f64,
    /// The signal that ended it before its time.
    pub(super) stopped_by: Option<String>,
    pub(super) rows: Vec<Count>,
    pub(super) bytes_verified: u64,
    pub(super) registered: u64,
    pub(super) deregistered: u64,
    pub(super) moves: u64,
    pub(super) revocations: u64,
    pub(super) reconnections: u64,
    pub(super) buffers: Vec<BufferRow>,
    /// The importer's, where it is loaded.
    pub(super) counters: Vec<Counter>,
    /// What is wrong.
    pub(super) faults: Vec<String>,
}

impl StressReport {
    /// Adds the transfers of a pair to those of its exporter.
    pub(super) fn add(&mut self, counts: &[Count]) {
        for count in counts {
            let same = |row: &&mut Count| {
                row.exporter == count.exporter && row.operation == count.operation
            };
            match self.rows.iter_mut().find(same) {
                Some(row) => row.merge(count),
                None => self.rows.push(count.clone()),
            }
        }
    }

    /// Draws the conclusion: something was done, and nothing is wrong.
    pub(super) fn conclude(&mut self) {
        if self.registered != self.deregistered {
            self.faults.push(format!(
                "{} regions were registered and {} deregistered",
                self.registered, self.deregistered
            ));
        }
        self.ok = self.faults.is_empty() && self.rows.iter().any(|row| row.transfers > 0);
    }

    fn rows_table(&self) -> String {
        use Column::{Number, Text};
        let columns = [
            Text("operation"),
            Text("exporter"),
            Number("transfers"),
            Number("bytes"),
            Number("refused"),
        ];
        table(columns, self.rows.iter().map(Count::cells))
    }

    fn buffers_table(&self) -> String {
        use Column::{Number, Text};
        let columns = [
            Text("buffer of vram"),
            Number("moves"),
            Number("told"),
            Number("attached"),
            Number("mapped"),
            Number("pinned"),
            Number("late writes"),
        ];
        table(columns, self.buffers.iter().map(BufferRow::cells))
    }

    fn conclusion(&self) -> String {
        let stopped = self.stopped_by.as_ref();
        format!(
            "rdmabuf stress: {}, {} bytes verified in {:.0} s{}, {} moves, {} revocations, seed {:#x}",
            if self.ok { "ok" } else { "NOT OK" },
            self.bytes_verified,
            self.seconds,
            stopped.map_or(String::new(), |signal| format!(" (ended by {signal})")),
            self.moves,
            self.revocations,
            self.seed
        )
    }
}

impl Report for StressReport {
    fn text(&self) -> String {
        let mut parts = vec![
            format!("devices  {}", self.devices.join(" ↔ ")),
            format!(
                "regions  {} registered, {} deregistered; {} reconnections",
                self.registered, self.deregistered, self.reconnections
            ),
            self.rows_table(),
        ];
        if !self.buffers.is_empty() {
            parts.push(self.buffers_table());
        }
        if !self.counters.is_empty() {
            parts.push(counters_table(&self.counters));
        }
        parts.extend(self.faults.iter().map(|fault| format!("FAILED   {fault}")));
        parts.push(self.conclusion());
        parts.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(bytes: u64) -> Count {
        let mut count = Count::new(Kind::Vram, Operation::Read);
        count.add(bytes, true);
        count
    }

    fn report() -> StressReport {
        let mut report = StressReport::default();
        report.add(&[count(3)]);
        report.conclude();
        report
    }

    #[test]
    fn pairs_of_an_exporter_share_their_rows() {
        let mut report = report();
        report.add(&[count(4), Count::new(Kind::Udmabuf, Operation::Read)]);
        assert_eq!(report.rows.len(), 2);
        assert_eq!((report.rows[0].transfers, report.rows[0].bytes), (2, 7));
    }

    #[test]
    fn nothing_done_or_something_wrong_is_not_ok() {
        assert!(report().ok);
        let mut idle = StressReport::default();
        idle.conclude();
        assert!(!idle.ok);
        let mut leaky = report();
        leaky.registered = 1;
        leaky.conclude();
        assert!(
            !leaky.ok
                && leaky
                    .text()
                    .contains("FAILED   1 regions were registered and 0")
        );
        let mut refused = StressReport::default();
        let mut count = Count::new(Kind::Vram, Operation::Read);
        count.add(3, false);
        refused.add(&[count]);
        refused.conclude();
        assert!(!refused.ok);
    }

    #[test]
    fn the_last_line_has_the_seed() {
        let mut report = report();
        report.seed = 0xabc;
        assert!(report.text().ends_with("seed 0xabc"));
    }
}
