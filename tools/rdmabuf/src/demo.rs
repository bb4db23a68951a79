// SPDX-License-Identifier: GPL-2.0

//! `rdmabuf demo`: a file goes from dma-buf to dma-buf by RDMA, and every byte is checked.

mod refusal;
mod report;
mod row;

use crate::{
    Verdict,
    call::registration_errno,
    cli::DemoOptions,
    debugfs::{Counters, Importer},
    diagnose,
    exporter::{Kind, page_size},
    link::Side,
    network::Network,
    payload::Payload,
    plan::{Layout, Step},
    progress::Progress,
    report::print,
    stop::Stop,
    transfer::Patience,
    verify,
};
use anyhow::Result;
use nix::errno::Errno;
use report::{DemoReport, Outcome, Row};
use row::Buffers;

/// What all parts of a demo share.
struct Demo<'a> {
    options: &'a DemoOptions,
    stop: &'a Stop,
    progress: Progress,
    payload: Payload,
    layout: Layout,
    source: Side,
    target: Side,
    importer: Option<Importer>,
}

/// Runs the command.
pub(crate) fn run(options: &DemoOptions) -> Result<Verdict> {
    let stop = Stop::new()?;
    let progress = Progress::new(options.progress);
    let payload = Payload::load(options.file.as_deref())?;
    progress.note(&format!("file {}", payload.path.display()));
    // Declared before the sides, so dropped after them: a device in use cannot go quietly.
    let network = match options.device {
        None => Some(Network::new()?),
        Some(_) => None,
    };
    let [device, peer] = names(options, network.as_ref());
    progress.note(&format!("devices {device} and {peer}"));
    let demo = Demo {
        source: Side::open(&device, options.gid_index, &stop)?,
        target: Side::open(&peer, options.peer_gid_index, &stop)?,
        layout: Layout::new(payload.bytes.len() as u64, page_size()? as u64),
        importer: Importer::find()?,
        options,
        stop: &stop,
        progress,
        payload,
    };
    let report = if options.expect_refusal {
        demo.expect_refusal()?
    } else {
        demo.perform()?
    };
    print(&report, options.format)?;
    Ok(if report.ok {
        Verdict::Good
    } else {
        Verdict::Bad
    })
}

fn names(options: &DemoOptions, network: Option<&Network>) -> [String; 2] {
    match network {
        Some(network) => network.devices().map(str::to_owned),
        None => [&options.device, &options.peer].map(|name| name.clone().unwrap_or_default()),
    }
}

impl Demo<'_> {
    fn perform(&self) -> Result<DemoReport> {
        let before = self.counters()?;
        let mut report = self.empty_report();
        for kind in &self.options.exporters {
            report.rows.extend(self.exporter_rows(*kind)?);
        }
        let after = self.counters()?;
        report.refusal = report
            .rows
            .iter()
            .any(Row::is_refused)
            .then(|| diagnose::refusal(&self.source.pd));
        report.faults = self.faults(&report.rows, &before, &after);
        report.counters = after.since(&before);
        report.conclude();
        Ok(report)
    }

    fn empty_report(&self) -> DemoReport {
        DemoReport {
            file: self.payload.path.display().to_string(),
            bytes: self.payload.bytes.len() as u64,
            sha256: verify::sha256(&self.payload.bytes),
            devices: [&self.source, &self.target].map(|side| side.device().name().to_owned()),
            ..DemoReport::default()
        }
    }

    /// The importer's counters; none if there is no importer.
    fn counters(&self) -> Result<Counters> {
        match &self.importer {
            Some(importer) => importer.counters(),
            None => Ok(Counters::default()),
        }
    }

    /// All transfers with the buffers of one exporter, up to a refusal.
    fn exporter_rows(&self, kind: Kind) -> Result<Vec<Row>> {
        let exporter = kind.exporter(self.options.vram.layout);
        let buffers = Buffers::new(&*exporter, &self.layout, &self.payload.bytes)?;
        let mut rows = Vec::new();
        for (seed, step) in (1..).zip(self.layout.steps()) {
            let row = self.row(&buffers, kind, &step, seed)?;
            let refused = row.is_refused();
            rows.push(row);
            if refused {
                break;
            }
        }
        Ok(rows)
    }

    /// One transfer. What goes wrong is the row's outcome, except a signal, which ends everything.
    fn row(&self, buffers: &Buffers<'_>, kind: Kind, step: &Step, seed: u64) -> Result<Row> {
        let mut task = self
            .progress
            .begin(format!("{kind:<11} {:<10}", step.operation), step.length);
        let patience = Patience {
            limit: self.options.timeout,
            stop: self.stop,
        };
        let mut blocks = None;
        let moved = self.transfer(buffers, step, seed, &patience, &mut task, &mut blocks);
        self.stop.check()?;
        let outcome = match moved {
            Ok(sha256) => Outcome::Ok { sha256 },
            Err(error) if registration_errno(&error) == Some(Errno::EOPNOTSUPP) => Outcome::Refused,
            Err(error) => Outcome::Failed {
                error: format!("{error:#}"),
            },
        };
        task.end(&format!("{:>8} bytes  {outcome}", step.length));
        Ok(Row::new(step, kind, blocks, outcome))
    }

    /// What the counters say against the module having done the work.
    fn faults(&self, rows: &[Row], before: &Counters, after: &Counters) -> Vec<String> {
        let good = rows
            .iter()
            .filter(|row| row.exporter.is_dmabuf() && row.is_ok())
            .count();
        if self.importer.is_none() {
            // Devices of others may have an importer of their own.
            let ours = self.options.device.is_none() && good > 0;
            return ours
                .then(|| "dma-bufs were registered, but rdma_dmabuf is not loaded".to_owned())
                .into_iter()
                .collect();
        }
        counter_faults(before, after, 2 * good as u64)
    }
}

/// Each good row made two regions, and none is left.
fn counter_faults(before: &Counters, after: &Counters, regions: u64) -> Vec<String> {
    let grown = |name| after.grown(before, name);
    let mut faults = Vec::new();
    for name in ["attaches", "maps"] {
        if grown(name) < regions {
            faults.push(format!(
                "{regions} regions were registered, but the counter {name} grew by {} only",
                grown(name)
            ));
        }
    }
    let (was, is) = (before.value("regions"), after.value("regions"));
    if is > was {
        faults.push(format!(
            "{} regions are still there after deregistration",
            is - was
        ));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "regions 1\nattaches 5\nmaps 6\n";

    fn told(after: &str, regions: u64) -> Result<String> {
        Ok(counter_faults(&BEFORE.parse()?, &after.parse()?, regions).join("\n"))
    }

    #[test]
    fn counters_that_grew_by_the_regions_are_no_fault() -> Result<()> {
        assert_eq!(told("regions 1\nattaches 9\nmaps 12\n", 4)?, "");
        Ok(())
    }

    #[test]
    fn a_module_that_did_nothing_and_a_leak_are_told() -> Result<()> {
        let faults = told("regions 2\nattaches 5\nmaps 9\n", 4)?;
        for told in [
            "attaches grew by 0",
            "maps grew by 3",
            "1 regions are still",
        ] {
            assert!(faults.contains(told), "{faults}");
        }
        Ok(())
    }
}
