// SPDX-License-Identifier: GPL-2.0

//! The command line.

use crate::exporter::Kind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::{path::PathBuf, time::Duration};

/// Shows and probes RDMA memory regions made from dma-bufs.
///
/// Exit status: 0 if everything is as it should be, 1 if not, 2 if the command could not do its work.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Moves a file between dma-bufs by RDMA and checks every byte.
    ///
    /// It makes two network namespaces joined by veth with a soft RoCE device in each, and takes them down
    /// again; that needs root. With --device and --peer it uses devices that are there.
    Demo(DemoOptions),
    /// Tells whether a device takes dma-bufs, by the calls that UCX, NCCL and libfabric make.
    Probe(ProbeOptions),
    /// Registers one region and keeps it until its input ends or SIGTERM comes.
    ///
    /// Prints `held` and the region's keys once it is registered, and `released` once it is not: for
    /// tests of what happens to a live region.
    Hold(HoldOptions),
}

#[derive(Debug, Args)]
pub(crate) struct DemoOptions {
    /// The device that the file is read from.
    #[arg(long, value_name = "NAME", requires = "peer")]
    pub(crate) device: Option<String>,
    /// The device that it is moved to.
    #[arg(long, value_name = "NAME", requires = "device")]
    pub(crate) peer: Option<String>,
    /// Index of the device's address (GID); otherwise its first RoCE v2 one, IPv4 preferred.
    #[arg(long, value_name = "N", requires = "device")]
    pub(crate) gid_index: Option<u8>,
    /// Index of the peer's address.
    #[arg(long, value_name = "N", requires = "peer")]
    pub(crate) peer_gid_index: Option<u8>,
    /// The file to move, of at least 8 MiB; otherwise the smallest such file below /usr.
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// Where the buffers come from; may be given more than once.
    #[arg(long = "exporter", value_enum, value_delimiter = ',',
          default_values_t = [Kind::Udmabuf, Kind::SystemHeap])]
    pub(crate) exporters: Vec<Kind>,
    /// Succeed if dma-bufs are refused by the kernel (EOPNOTSUPP), as without the module, and only then.
    #[arg(long)]
    pub(crate) expect_refusal: bool,
    /// Seconds that one transfer of at most 1 MiB may take.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// How progress is shown, on standard error.
    #[arg(long, value_enum, default_value_t = ProgressStyle::Auto)]
    pub(crate) progress: ProgressStyle,
}

#[derive(Debug, Args)]
pub(crate) struct ProbeOptions {
    /// The device; may be left out if there is only one.
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Where the page for a real registration comes from.
    #[arg(long, value_enum, default_value_t = Kind::Udmabuf)]
    pub(crate) exporter: Kind,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct HoldOptions {
    /// The device; may be left out if there is only one.
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Where the buffer comes from.
    #[arg(long, value_enum, default_value_t = Kind::Udmabuf)]
    pub(crate) exporter: Kind,
    /// Bytes of the buffer, rounded up to pages. Numbers may be hexadecimal or end in K, M or G.
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = number)]
    pub(crate) size: u64,
    /// First byte of the region.
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = number)]
    pub(crate) offset: u64,
    /// Bytes of the region; otherwise all that follow the first.
    #[arg(long, value_name = "BYTES", value_parser = number)]
    pub(crate) length: Option<u64>,
    /// Address of the first byte; otherwise its offset.
    #[arg(long, value_name = "ADDRESS", value_parser = number)]
    pub(crate) iova: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressStyle {
    /// A bar on a terminal, lines elsewhere.
    Auto,
    /// A bar.
    Bar,
    /// A line for each transfer.
    Lines,
    /// Nothing.
    Off,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a whole number of seconds, 1 or more".to_owned()),
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M') => (&text[..text.len() - 1], 1 << 20),
        Some(b'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1_u64),
    };
    let parsed = match digits.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
        None => digits.parse(),
    };
    parsed
        .ok()
        .and_then(|count| count.checked_mul(unit))
        .ok_or_else(|| "a number such as 4096, 0x1000 or 4K".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn numbers_have_units_and_bases() {
        assert_eq!(number("4096"), Ok(4096));
        assert_eq!(number("0x1001"), Ok(4097));
        assert_eq!(number("3M"), Ok(3 << 20));
        for wrong in ["", "K", "-1", "4k", "0x", "99999999999G"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_device_needs_a_peer() {
        assert!(Cli::try_parse_from(["rdmabuf", "demo", "--device", "rxe0"]).is_err());
        assert!(Cli::try_parse_from(["rdmabuf", "demo", "--timeout", "0"]).is_err());
        assert!(Cli::try_parse_from(["rdmabuf", "demo"]).is_ok());
    }
}
