// SPDX-License-Identifier: GPL-2.0

//! The command line.

mod values;

use crate::exporter::{Kind, VramLayout};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::{path::PathBuf, time::Duration};
use values::{duration, number, seconds};

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
    /// Moves random pieces between dma-bufs by RDMA for a while, and checks every byte of them.
    ///
    /// Each queue pair has two buffers, between which it writes, reads and sends. It makes its devices as
    /// demo does; that needs root. With --device it uses one that is there, or two. Ctrl-C ends it in order.
    Stress(StressOptions),
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct VramOptions {
    /// How the pages of the buffers of vram follow each other.
    #[arg(long, value_enum, default_value_t = VramLayout::Changing)]
    pub(crate) layout: VramLayout,
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
    #[command(flatten)]
    pub(crate) vram: VramOptions,
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
    #[command(flatten)]
    pub(crate) vram: VramOptions,
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
    #[command(flatten)]
    pub(crate) vram: VramOptions,
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

#[derive(Debug, Args)]
pub(crate) struct StressOptions {
    /// A device that is there; given twice, the transfers go between the two.
    #[arg(long = "device", value_name = "NAME")]
    pub(crate) devices: Vec<String>,
    /// Where the buffers come from; may be given more than once. Otherwise udmabuf and system-heap, or vram
    /// if they are to be moved or revoked.
    #[arg(long = "exporter", value_enum, value_delimiter = ',')]
    pub(crate) exporters: Vec<Kind>,
    #[command(flatten)]
    pub(crate) vram: VramOptions,
    /// Have the buffers of vram moved all the time.
    #[arg(long)]
    pub(crate) moves: bool,
    /// How often each is moved in a second.
    #[arg(long, value_name = "N", default_value = "50", requires = "moves",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) moves_per_second: u32,
    /// Have buffers of vram revoked now and then: transfers then must fail, and work again afterwards.
    #[arg(long)]
    pub(crate) revokes: bool,
    /// How many pairs of connected queue pairs.
    #[arg(long, value_name = "N", default_value = "2",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) qps: u16,
    /// Bytes of each buffer, rounded up to pages. Numbers may be hexadecimal or end in K, M or G.
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = number)]
    pub(crate) size: u64,
    /// The most bytes of one transfer.
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = number)]
    pub(crate) message: u64,
    /// How long: 90, 15s, 10m, 1h30m.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub(crate) duration: Duration,
    /// What the transfers follow from; otherwise one that is printed.
    #[arg(long, value_name = "S", value_parser = number)]
    pub(crate) seed: Option<u64>,
    /// Seconds that the transfers of one round may take.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// How progress is shown, on standard error.
    #[arg(long, value_enum, default_value_t = ProgressStyle::Auto)]
    pub(crate) progress: ProgressStyle,
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_device_needs_a_peer() {
        assert!(Cli::try_parse_from(["rdmabuf", "demo", "--device", "rxe0"]).is_err());
        assert!(Cli::try_parse_from(["rdmabuf", "demo", "--timeout", "0"]).is_err());
        assert!(Cli::try_parse_from(["rdmabuf", "demo"]).is_ok());
    }

    #[test]
    fn a_rate_of_moves_needs_moves() {
        let stress = |words: &[&str]| Cli::try_parse_from([&["rdmabuf", "stress"], words].concat());
        assert!(stress(&["--moves-per-second", "9"]).is_err());
        assert!(stress(&["--moves", "--moves-per-second", "0"]).is_err());
        assert!(stress(&["--moves", "--moves-per-second", "9", "--duration", "15s"]).is_ok());
    }
}
