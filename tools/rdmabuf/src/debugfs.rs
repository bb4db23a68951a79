// SPDX-License-Identifier: GPL-2.0

//! What the importer tells about itself under /sys/kernel/debug/rdma_dmabuf.

use crate::{
    region::Region,
    report::{Column, table},
};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::{collections::BTreeMap, fmt, fs, io, path::Path, str::FromStr};

const FOLDER: &str = "/sys/kernel/debug/rdma_dmabuf";

/// The importer's counters, in its own order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters(Vec<(String, u64)>);

impl Counters {
    /// A counter's value; 0 where there is none of that name.
    pub(crate) fn value(&self, name: &str) -> u64 {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or(0, |(_, value)| *value)
    }

    /// By how much a counter has grown.
    pub(crate) fn grown(&self, before: &Self, name: &str) -> u64 {
        self.value(name).saturating_sub(before.value(name))
    }

    /// Each counter before and now.
    pub(crate) fn since(&self, before: &Self) -> Vec<Counter> {
        let pair = |(name, now): &(String, u64)| Counter {
            name: name.clone(),
            before: before.value(name),
            after: *now,
        };
        self.0.iter().map(pair).collect()
    }
}

impl FromStr for Counters {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        };
        text.lines()
            .map(|line| {
                parse(line).with_context(|| format!("counters: not `name value`: {line:?}"))
            })
            .collect::<Result<_>>()
            .map(Self)
    }
}

/// A counter of the importer before and after.
#[derive(Debug, Serialize)]
pub(crate) struct Counter {
    name: String,
    before: u64,
    after: u64,
}

impl Counter {
    fn cells(&self) -> [String; 4] {
        let change = i128::from(self.after) - i128::from(self.before);
        [
            self.name.clone(),
            self.before.to_string(),
            self.after.to_string(),
            format!("{change:+}"),
        ]
    }
}

/// A table of counters.
pub(crate) fn counters_table(counters: &[Counter]) -> String {
    use Column::{Number, Text};
    let columns = [
        Text("counter of rdma_dmabuf"),
        Number("before"),
        Number("after"),
        Number("change"),
    ];
    table(columns, counters.iter().map(Counter::cells))
}

/// The importer, if it is loaded.
pub(crate) struct Importer(());

impl Importer {
    /// Finds it. A loaded importer that cannot be read is an error, not an absent one.
    pub(crate) fn find() -> Result<Option<Self>> {
        if !is_loaded() {
            return Ok(None);
        }
        let remedy = match fs::metadata(FOLDER) {
            Ok(_) => return Ok(Some(Self(()))),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => "root may read it",
            Err(_) => "mount -t debugfs none /sys/kernel/debug",
        };
        bail!("{FOLDER} tells what the importer did, and is not to be seen: {remedy}");
    }

    /// Its counters now.
    pub(crate) fn counters(&self) -> Result<Counters> {
        read("counters")?.parse()
    }

    /// The live region that was registered as `region` of the dma-buf with this inode.
    pub(crate) fn find_region(&self, inode: u64, region: &Region) -> Result<Blocks> {
        let regions = parse_regions(&read("regions")?)?;
        regions
            .iter()
            .find(|live| live.inode == inode && live.region == *region)
            .map(|live| live.blocks)
            .with_context(|| format!("{FOLDER}/regions has no line with ino={inode}, {region}"))
    }
}

/// Whether the importer is loaded, or built into the kernel.
pub(crate) fn is_loaded() -> bool {
    Path::new("/sys/module/rdma_dmabuf").is_dir()
}

fn read(name: &str) -> Result<String> {
    let path = format!("{FOLDER}/{name}");
    fs::read_to_string(&path).with_context(|| path)
}

/// How the importer handed a region to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Blocks {
    pub(crate) count: u64,
    pub(crate) size: u64,
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let Self { count, size } = *self;
        let unit = UNITS
            .iter()
            .find(|(bytes, _)| size >= *bytes && size % bytes == 0);
        match unit {
            Some((bytes, name)) => write!(f, "{count} × {} {name}", size / bytes),
            None => write!(f, "{count} × {size} B"),
        }
    }
}

/// A line of `regions`, as far as it is used here.
#[derive(Debug, PartialEq, Eq)]
struct LiveRegion {
    inode: u64,
    region: Region,
    blocks: Blocks,
}

fn parse_regions(text: &str) -> Result<Vec<LiveRegion>> {
    text.lines()
        .map(|line| line.parse().with_context(|| format!("regions: {line:?}")))
        .collect()
}

impl FromStr for LiveRegion {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let values: BTreeMap<_, _> = line
            .split_whitespace()
            .map(|pair| {
                pair.split_once('=')
                    .with_context(|| format!("not `key=value`: {pair:?}"))
            })
            .collect::<Result<_>>()?;
        let number = |key: &str| {
            let value = values.get(key).with_context(|| format!("no {key}="))?;
            parse_number(value).with_context(|| format!("{key}={value} is no number"))
        };
        Ok(Self {
            inode: number("ino")?,
            region: Region {
                offset: number("offset")?,
                length: number("length")?,
                iova: number("iova")?,
            },
            blocks: Blocks {
                count: number("blocks")?,
                size: number("block_size")?,
            },
        })
    }
}

/// A decimal number, or a hexadecimal one after `0x`.
fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "region=3 exporter=udmabuf ino=77 offset=8192 length=10000 iova=0x7f00 \
        mode=dynamic state=mapped blocks=3 block_size=4096 maps=1 invalidations=0 faults=0 refused=0";

    #[test]
    fn a_regions_line_gives_inode_range_and_blocks() -> Result<()> {
        let expected = LiveRegion {
            inode: 77,
            region: Region {
                offset: 8192,
                length: 10000,
                iova: 0x7f00,
            },
            blocks: Blocks {
                count: 3,
                size: 4096,
            },
        };
        assert_eq!(parse_regions(LINE)?, [expected]);
        assert_eq!(parse_regions("")?, []);
        Ok(())
    }

    #[test]
    fn a_line_without_a_value_is_an_error_that_names_it() {
        for (from, to, told) in [
            ("ino=77", "inode=77", "no ino="),
            ("blocks=3", "blocks=three", "blocks=three is no number"),
            ("mode=dynamic", "mode", "not `key=value`: \"mode\""),
        ] {
            let error = parse_regions(&LINE.replace(from, to)).expect_err(told);
            assert!(format!("{error:#}").contains(told), "{error:#}");
        }
    }

    #[test]
    fn counters_are_names_and_values() -> Result<()> {
        let counters: Counters = "regions 2\nattaches 14\n".parse()?;
        assert_eq!(counters.value("regions"), 2);
        assert_eq!(counters.value("attaches"), 14);
        assert_eq!(counters.value("maps"), 0);
        for wrong in ["regions\n", "regions many\n"] {
            assert!(wrong.parse::<Counters>().is_err(), "{wrong}");
        }
        Ok(())
    }

    #[test]
    fn counters_keep_their_order_and_are_paired_by_name() -> Result<()> {
        let (before, after): (Counters, Counters) = (
            "faults 1\nmaps 4".parse()?,
            "maps 5\nfaults 2\nrefused 3".parse()?,
        );
        let paired: Vec<_> = after
            .since(&before)
            .into_iter()
            .map(|counter| (counter.name, counter.before, counter.after))
            .collect();
        let wanted = [("maps", 4, 5), ("faults", 1, 2), ("refused", 0, 3)];
        assert_eq!(
            paired,
            wanted.map(|(name, was, is)| (name.to_owned(), was, is))
        );
        assert_eq!(after.grown(&before, "maps"), 1);
        Ok(())
    }

    #[test]
    fn blocks_read_as_count_times_size() {
        let shown = |count, size| Blocks { count, size }.to_string();
        assert_eq!(shown(2049, 4096), "2049 × 4 KiB");
        assert_eq!(shown(7, 2 << 20), "7 × 2 MiB");
        assert_eq!(shown(1, 0), "1 × 0 B");
    }
}
