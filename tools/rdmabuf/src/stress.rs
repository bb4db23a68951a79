// SPDX-License-Identifier: GPL-2.0

//! `rdmabuf stress`: random pieces go between dma-bufs by RDMA while these move and are revoked, and every
//! byte is checked.

mod balance;
mod image;
mod judge;
mod lane;
mod plan;
mod report;

use crate::{
    Verdict,
    call::registration_errno,
    cli::StressOptions,
    debugfs::{Counters, Importer},
    diagnose,
    exporter::{Kind, page_size, whole_pages},
    link::Side,
    network::Network,
    progress::Progress,
    report::print,
    stop::Stop,
};
use anyhow::{Context, Result, bail, ensure};
use lane::Lane;
use nix::errno::Errno;
use plan::{OPERATIONS, Place, Shape};
use report::{BufferRow, StressReport};
use std::{
    fs::File,
    io::Read,
    thread,
    time::{Duration, Instant},
};

/// How long to rest when nothing has completed.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// Runs the command.
pub(crate) fn run(options: &StressOptions) -> Result<Verdict> {
    let stop = Stop::new()?;
    let progress = Progress::new(options.progress);
    let exporters = exporters(options)?;
    let seed = options.seed.map_or_else(any_seed, Ok)?;
    progress.note(&format!("seed {seed:#x}"));
    // Declared before the sides, so dropped after them: a device in use cannot go quietly.
    let network = match options.devices[..] {
        [] => Some(Network::new()?),
        _ => None,
    };
    let [near, far] = names(options, network.as_ref())?;
    progress.note(&format!("devices {near} and {far}"));
    let sides = [
        Side::open(&near, None, &stop)?,
        Side::open(&far, None, &stop)?,
    ];
    let importer = Importer::find()?;
    let before = counters(importer.as_ref())?;
    let mut lanes = lanes(options, &exporters, &sides, seed)?;
    let started = Instant::now();
    let mut report = StressReport {
        seed,
        devices: [near, far],
        ..StressReport::default()
    };
    if options.moves {
        lanes
            .iter()
            .try_for_each(|lane| lane.move_always(options.moves_per_second))?;
    }
    match drive(&mut lanes, options, &progress, &stop) {
        Ok(stopped_by) => report.stopped_by = stopped_by,
        Err(error) => report.faults.push(format!("{error:#}")),
    }
    report.seconds = started.elapsed().as_secs_f64();
    conclude(&mut lanes, options, &mut report)?;
    let after = counters(importer.as_ref())?;
    if importer.is_some() {
        let faults = balance::importer_faults(&before, &after, report.registered);
        report.faults.extend(faults);
    }
    report.counters = after.since(&before);
    report.conclude();
    print(&report, options.format)?;
    Ok(if report.ok {
        Verdict::Good
    } else {
        Verdict::Bad
    })
}

/// Those that were asked for, or those that can do what was asked for.
fn exporters(options: &StressOptions) -> Result<Vec<Kind>> {
    let asked = &options.exporters;
    let commanded = options.moves || options.revokes;
    let exporters = match (asked.is_empty(), commanded) {
        (false, _) => asked.clone(),
        (true, true) => vec![Kind::Vram],
        (true, false) => vec![Kind::Udmabuf, Kind::SystemHeap],
    };
    if commanded && !exporters.contains(&Kind::Vram) {
        bail!("--moves and --revokes need --exporter vram: no other moves a buffer on command");
    }
    ensure!(
        exporters.len() <= options.qps.into(),
        "--qps {}: at least one for each of {} exporters",
        options.qps,
        exporters.len()
    );
    Ok(exporters)
}

/// A seed that nobody has chosen.
fn any_seed() -> Result<u64> {
    let mut bytes = [0; 4];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("/dev/urandom: --seed gives a seed without it")?;
    Ok(u32::from_le_bytes(bytes).into())
}

/// The device of either side; the same one twice if only one is named.
fn names(options: &StressOptions, network: Option<&Network>) -> Result<[String; 2]> {
    Ok(match (network, &options.devices[..]) {
        (Some(network), _) => network.devices().map(str::to_owned),
        (None, [both]) => [both.clone(), both.clone()],
        (None, [near, far]) => [near.clone(), far.clone()],
        _ => bail!("--device: two at most"),
    })
}

/// The importer's counters; none if there is no importer.
fn counters(importer: Option<&Importer>) -> Result<Counters> {
    importer.map_or_else(|| Ok(Counters::default()), Importer::counters)
}

/// The pairs of buffers, with the exporters in turn.
fn lanes<'a>(
    options: &StressOptions,
    exporters: &[Kind],
    sides: &'a [Side; 2],
    seed: u64,
) -> Result<Vec<Lane<'a>>> {
    let length = whole_pages(usize::try_from(options.size)?)?;
    let page = page_size()? as u64;
    let shape = Shape::new(length as u64, options.message, page, OPERATIONS)?;
    (0..u64::from(options.qps))
        .zip(exporters.iter().cycle())
        .map(|(number, kind)| {
            let exporter = kind.exporter(options.vram.layout);
            let shape = shape.with_revocations(options.revokes && *kind == Kind::Vram);
            Lane::new(number, sides, (*kind, &*exporter), length, (seed, shape))
                .map_err(|error| with_remedy(error, &sides[0]))
        })
        .collect()
}

/// Says why registrations are refused, if they are.
fn with_remedy(error: anyhow::Error, side: &Side) -> anyhow::Error {
    if registration_errno(&error) != Some(Errno::EOPNOTSUPP) {
        return error;
    }
    error.context(diagnose::refusal(&side.pd).to_string())
}

/// Runs rounds until the time is over, and those under way to their end. The signal, if one came first.
fn drive(
    lanes: &mut [Lane<'_>],
    options: &StressOptions,
    progress: &Progress,
    stop: &Stop,
) -> Result<Option<String>> {
    let started = Instant::now();
    let mut clock = progress.clock(options.duration);
    loop {
        let signal = stop.come()?;
        let over = signal.is_some() || started.elapsed() >= options.duration;
        let mut advanced = false;
        for lane in &mut *lanes {
            if lane.is_idle() && !over {
                lane.begin(options.timeout)?;
            }
            advanced |= lane.advance()?;
        }
        if over && lanes.iter().all(Lane::is_idle) {
            return Ok(signal.map(|signal| signal.to_string()));
        }
        clock.tell(started.elapsed(), || state(lanes))?;
        if !advanced {
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// How things are, in a line.
fn state(lanes: &[Lane<'_>]) -> Result<String> {
    let sum = |what: fn(&Lane<'_>) -> u64| lanes.iter().map(what).sum::<u64>();
    let mut moves = 0;
    for lane in lanes {
        moves += lane
            .stats()?
            .iter()
            .map(|(_, _, now)| now.moves)
            .sum::<u64>();
    }
    Ok(format!(
        "{} bytes verified, {moves} moves, {} revocations, {} refused",
        sum(|lane| lane.tally.bytes_verified),
        sum(|lane| lane.tally.revocations),
        sum(|lane| lane.tally.counts.iter().map(|count| count.refused).sum())
    ))
}

/// Gives everything back, looks at all bytes once more, and gathers what there is to tell.
fn conclude(
    lanes: &mut [Lane<'_>],
    options: &StressOptions,
    report: &mut StressReport,
) -> Result<()> {
    for lane in lanes {
        if let Err(error) = lane.close() {
            report
                .faults
                .push(format!("giving back pair {}: {error:#}", lane.number));
        }
        if report.faults.is_empty() {
            if let Err(error) = lane.check_all() {
                report
                    .faults
                    .push(format!("at the end, pair {}: {error:#}", lane.number));
            }
        }
        for (place, before, stats) in lane.stats()? {
            let place = match place {
                Place::Near => "near",
                Place::Far => "far",
            };
            let told = |fault| format!("buffer {} {place}: {fault}", lane.number);
            let faults = balance::buffer_faults(&before, &stats);
            report.faults.extend(faults.into_iter().map(told));
            report.moves += stats.moves;
            report.buffers.push(BufferRow {
                pair: lane.number,
                place,
                stats,
            });
        }
        let tally = &lane.tally;
        report.add(&tally.counts);
        report.bytes_verified += tally.bytes_verified;
        report.registered += tally.registered;
        report.deregistered += tally.deregistered;
        report.revocations += tally.revocations;
        report.reconnections += tally.reconnections;
    }
    // What was asked for and never came says nothing.
    for (asked, what, count) in [
        (options.moves, "moved", report.moves),
        (options.revokes, "revoked", report.revocations),
    ] {
        if asked && count == 0 && report.faults.is_empty() {
            report
                .faults
                .push(format!("no buffer was {what} in this time: --duration"));
        }
    }
    Ok(())
}
