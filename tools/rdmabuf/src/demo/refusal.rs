// SPDX-License-Identifier: GPL-2.0

//! The demo's counterpart without the module: every dma-buf must be refused, and by the kernel.

use super::{
    Demo,
    report::{DemoReport, Outcome, Row},
};
use crate::{
    call::registration_errno,
    diagnose,
    exporter::{Kind, page_size},
    link::Side,
    region::Region,
    verbs::{Access, Mr},
};
use anyhow::{Result, bail};
use nix::errno::Errno;

impl Demo<'_> {
    /// Registers a page of each exporter on each device, and is content only if each is refused.
    pub(super) fn expect_refusal(&self) -> Result<DemoReport> {
        let mut report = self.empty_report();
        for kind in self.dmabuf_exporters()? {
            for side in [&self.source, &self.target] {
                report.rows.push(self.refused_row(kind, side)?);
            }
        }
        let refusal = diagnose::refusal(&self.source.pd);
        if !refusal.by_kernel {
            report
                .faults
                .push("it was not the kernel that refused".to_owned());
        }
        report.refusal_expected = true;
        report.refusal = Some(refusal);
        report.conclude();
        Ok(report)
    }

    fn dmabuf_exporters(&self) -> Result<Vec<Kind>> {
        let kinds = self.options.exporters.iter().copied();
        let kinds: Vec<_> = kinds.filter(|kind| kind.is_dmabuf()).collect();
        if kinds.is_empty() {
            bail!("--expect-refusal needs an --exporter that gives dma-bufs");
        }
        Ok(kinds)
    }

    fn refused_row(&self, exporter: Kind, side: &Side) -> Result<Row> {
        let page = page_size()?;
        let buffer = exporter.exporter(self.options.vram.layout).allocate(page)?;
        let region = Region::whole(page as u64);
        let outcome = match Mr::register(&side.pd, buffer.memory()?, &region, Access::LOCAL_WRITE) {
            Err(error) if registration_errno(&error) == Some(Errno::EOPNOTSUPP) => Outcome::Refused,
            Err(error) => Outcome::Failed {
                error: format!("{error:#}"),
            },
            Ok(_) => Outcome::Failed {
                error: "it was registered".to_owned(),
            },
        };
        Ok(Row {
            operation: format!("register on {}", side.device().name()),
            exporter,
            bytes: region.length,
            from: 0,
            to: 0,
            blocks: None,
            outcome,
        })
    }
}
