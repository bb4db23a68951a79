// SPDX-License-Identifier: GPL-2.0

//! What the demo found.

use crate::{
    debugfs::{Blocks, Counter, counters_table},
    diagnose::Refusal,
    exporter::Kind,
    plan::Step,
    report::{Column, Report, table},
};
use serde::Serialize;
use std::fmt;

/// Digits of a hash that people compare.
const SHORT_HASH: usize = 8;

/// What one transfer came to.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// Every byte is where it should be, and this is the hash of those moved.
    Ok { sha256: String },
    /// The registration was refused with EOPNOTSUPP.
    Refused,
    /// Something else went wrong.
    Failed { error: String },
}

impl Outcome {
    /// What fits into a cell of the table.
    fn brief(&self) -> String {
        match self {
            Self::Ok { sha256 } => format!("ok {}…", &sha256[..SHORT_HASH]),
            Self::Refused => "EOPNOTSUPP".to_owned(),
            Self::Failed { .. } => "FAILED".to_owned(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { error } => write!(f, "FAILED: {error}"),
            Self::Ok { .. } | Self::Refused => f.write_str(&self.brief()),
        }
    }
}

/// A row of the demo.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(super) operation: String,
    pub(super) exporter: Kind,
    pub(super) bytes: u64,
    /// First byte in the source's buffer.
    pub(super) from: u64,
    /// First byte in the target's buffer.
    pub(super) to: u64,
    /// The blocks of the source's region and the target's, where the importer tells them.
    pub(super) blocks: Option<[Blocks; 2]>,
    pub(super) outcome: Outcome,
}

impl Row {
    pub(super) fn new(
        step: &Step,
        exporter: Kind,
        blocks: Option<[Blocks; 2]>,
        outcome: Outcome,
    ) -> Self {
        Self {
            operation: step.operation.to_string(),
            exporter,
            bytes: step.length,
            from: step.source.at,
            to: step.target.at,
            blocks,
            outcome,
        }
    }

    pub(super) fn is_ok(&self) -> bool {
        matches!(self.outcome, Outcome::Ok { .. })
    }

    pub(super) fn is_refused(&self) -> bool {
        matches!(self.outcome, Outcome::Refused)
    }

    fn cells(&self) -> [String; 6] {
        [
            self.operation.clone(),
            self.exporter.to_string(),
            self.bytes.to_string(),
            format!("{:#x} → {:#x}", self.from, self.to),
            self.blocks.map_or("-".to_owned(), show_blocks),
            self.outcome.brief(),
        ]
    }

    fn refusal_cells(&self) -> [String; 4] {
        [
            self.operation.clone(),
            self.exporter.to_string(),
            self.bytes.to_string(),
            self.outcome.brief(),
        ]
    }
}

/// What both sides have in common is said once.
fn show_blocks([source, target]: [Blocks; 2]) -> String {
    if source == target {
        source.to_string()
    } else if source.size == target.size {
        format!("{} → {target}", source.count)
    } else {
        format!("{source} → {target}")
    }
}

/// Everything that a demo found.
#[derive(Debug, Default, Serialize)]
pub(crate) struct DemoReport {
    pub(super) ok: bool,
    pub(super) file: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
    pub(super) devices: [String; 2],
    pub(super) rows: Vec<Row>,
    /// Whether a row is good when it was refused, and only then.
    pub(super) refusal_expected: bool,
    /// The importer's, where it is loaded.
    pub(super) counters: Vec<Counter>,
    pub(super) refusal: Option<Refusal>,
    /// What is wrong beside the rows.
    pub(super) faults: Vec<String>,
}

impl DemoReport {
    /// Whether a row came out as it should.
    fn is_good(&self, row: &Row) -> bool {
        match row.outcome {
            Outcome::Ok { .. } => !self.refusal_expected,
            Outcome::Refused => self.refusal_expected,
            Outcome::Failed { .. } => false,
        }
    }

    /// Draws the conclusion of all rows and faults.
    pub(super) fn conclude(&mut self) {
        let rows_are_good = self.rows.iter().all(|row| self.is_good(row));
        self.ok = rows_are_good && !self.rows.is_empty() && self.faults.is_empty();
    }

    fn rows_table(&self) -> String {
        use Column::{Number, Text};
        if self.refusal_expected {
            let columns = [
                Text("operation"),
                Text("exporter"),
                Number("bytes"),
                Text("answer"),
            ];
            return table(columns, self.rows.iter().map(Row::refusal_cells));
        }
        let columns = [
            Text("operation"),
            Text("exporter"),
            Number("bytes"),
            Text("in the buffers"),
            Text("blocks"),
            Text("result, sha256"),
        ];
        table(columns, self.rows.iter().map(Row::cells))
    }

    /// What a cell of the table has no room for.
    fn failures(&self) -> impl Iterator<Item = String> {
        let of_rows = (1..)
            .zip(&self.rows)
            .filter_map(|(number, row)| match &row.outcome {
                Outcome::Failed { error } => Some(format!("row {number}: {error}")),
                Outcome::Ok { .. } | Outcome::Refused => None,
            });
        of_rows.chain(self.faults.iter().cloned())
    }

    fn conclusion(&self) -> String {
        let good = self.rows.iter().filter(|row| self.is_good(row)).count();
        format!(
            "rdmabuf demo: {}, {good} of {} rows {}",
            if self.ok { "ok" } else { "NOT OK" },
            self.rows.len(),
            if self.refusal_expected {
                "refused, as expected"
            } else {
                "ok"
            }
        )
    }
}

impl Report for DemoReport {
    fn text(&self) -> String {
        let mut parts = vec![
            format!("file     {}, {} bytes", self.file, self.bytes),
            format!("sha256   {}", self.sha256),
            format!("devices  {}", self.devices.join(" → ")),
            self.rows_table(),
        ];
        if !self.counters.is_empty() {
            parts.push(counters_table(&self.counters));
        }
        parts.extend(self.refusal.as_ref().map(ToString::to_string));
        parts.extend(self.failures().map(|failure| format!("FAILED   {failure}")));
        parts.push(self.conclusion());
        parts.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Layout;

    const HASH: &str = "7e57ab1e00000000000000000000000000000000000000000000000000000000";

    fn ok() -> Outcome {
        Outcome::Ok {
            sha256: HASH.to_owned(),
        }
    }

    fn failed() -> Outcome {
        Outcome::Failed {
            error: "byte 7 of the target was changed, outside 8..9".to_owned(),
        }
    }

    /// A report of all steps, with the last one's outcome as given.
    fn report(last: Outcome, refusal_expected: bool) -> DemoReport {
        let blocks = |count| Blocks { count, size: 4096 };
        let steps = Layout::new(15 << 20, 4096).steps();
        let row = |step, outcome| {
            let blocks = Some([blocks(3870), blocks(3872)]);
            Row::new(step, Kind::SystemHeap, blocks, outcome)
        };
        let mut rows: Vec<_> = steps.iter().map(|step| row(step, ok())).collect();
        rows.extend(steps.last().map(|step| row(step, last)));
        let mut report = DemoReport {
            rows,
            refusal_expected,
            ..DemoReport::default()
        };
        report.conclude();
        report
    }

    #[test]
    fn one_bad_row_or_fault_or_no_row_at_all_is_not_ok() {
        assert!(report(ok(), false).ok);
        for bad in [report(Outcome::Refused, false), report(failed(), false)] {
            assert!(!bad.ok && bad.text().ends_with("NOT OK, 7 of 8 rows ok"));
        }
        let mut faulty = report(ok(), false);
        faulty.faults.push("a region is left".to_owned());
        faulty.conclude();
        assert!(!faulty.ok && faulty.text().contains("FAILED   a region is left"));
        let mut empty = DemoReport::default();
        empty.conclude();
        assert!(!empty.ok);
    }

    #[test]
    fn a_refusal_is_good_only_where_it_is_expected() {
        let mut refused = report(Outcome::Refused, true);
        assert!(!refused.ok, "the other rows were not refused");
        refused.rows.retain(Row::is_refused);
        refused.conclude();
        assert!(refused.ok);
        assert!(
            refused
                .text()
                .ends_with("ok, 1 of 1 rows refused, as expected")
        );
    }

    #[test]
    fn a_failure_is_told_beside_the_table() {
        let text = report(failed(), false).text();
        assert!(
            text.contains("FAILED   row 8: byte 7 of the target"),
            "{text}"
        );
    }

    #[test]
    fn no_cell_of_a_good_demo_is_broken_into_lines() {
        let good = report(ok(), false);
        let text = good.rows_table();
        assert_eq!(text.lines().count(), good.rows.len() + 4, "{text}");
        assert!(
            text.contains("┆ 3870 → 3872 × 4 KiB ┆ ok 7e57ab1e…"),
            "{text}"
        );
    }

    #[test]
    fn blocks_of_two_sizes_are_both_told() {
        let (small, large) = (
            Blocks {
                count: 9,
                size: 4096,
            },
            Blocks {
                count: 2,
                size: 2 << 20,
            },
        );
        assert_eq!(show_blocks([small, small]), "9 × 4 KiB");
        assert_eq!(show_blocks([small, large]), "9 × 4 KiB → 2 × 2 MiB");
    }
}
