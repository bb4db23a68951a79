// SPDX-License-Identifier: GPL-2.0

//! What a command found, as a table for people or JSON for programs.

use crate::cli::Format;
use anyhow::{Context, Result};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;
use std::io::{self, Write};

/// Columns of a terminal that everyone has.
const WIDTH: u16 = 100;

/// A result that can be shown.
pub(crate) trait Report: Serialize {
    /// For people.
    fn text(&self) -> String;
}

/// Prints a result to standard output.
pub(crate) fn print(report: &impl Report, format: Format) -> Result<()> {
    let text = match format {
        Format::Table => report.text(),
        Format::Json => serde_json::to_string_pretty(report)?,
    };
    // Not println!, which panics when nobody reads any more.
    writeln!(io::stdout(), "{}", text.trim_end()).context("standard output")
}

/// A column of a table.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    /// Words, and the heading.
    Text(&'static str),
    /// Numbers, which have their last digits below each other.
    Number(&'static str),
}

impl Column {
    fn heading(self) -> &'static str {
        match self {
            Self::Text(heading) | Self::Number(heading) => heading,
        }
    }

    fn alignment(self) -> CellAlignment {
        match self {
            Self::Text(_) => CellAlignment::Left,
            Self::Number(_) => CellAlignment::Right,
        }
    }
}

/// A table of text, with long cells broken into lines where it would be too wide.
pub(crate) fn table<const N: usize>(
    columns: [Column; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table
        .load_preset(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH)
        .set_header(columns.map(Column::heading))
        .add_rows(rows);
    for (shown, column) in table.column_iter_mut().zip(columns) {
        shown.set_cell_alignment(column.alignment());
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_no_wider_than_a_terminal() {
        let long = "words ".repeat(30);
        let shown = table(
            [Column::Text("what"), Column::Number("count")],
            [[long.clone(), "7".to_owned()], [long, "1234".to_owned()]],
        );
        let widths = || shown.lines().map(|line| line.chars().count());
        assert!(widths().all(|width| width <= WIDTH.into()), "{shown}");
        assert!(
            shown.contains("│ what") && shown.contains("    7 │"),
            "{shown}"
        );
        assert_eq!(shown.matches("words").count(), 60, "{shown}");
    }
}
