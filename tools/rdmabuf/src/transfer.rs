// SPDX-License-Identifier: GPL-2.0

//! Moves the bytes of one step, chunk by chunk, each waited for with a time limit.

use crate::{
    link::{Endpoint, Link},
    plan::{End, Operation, Step},
    stop::Stop,
    verbs::{Completion, Mr, Scatter, Target, Work},
};
use anyhow::{Context, Result, bail, ensure};
use std::{
    thread,
    time::{Duration, Instant},
};

/// How often a completion queue is looked at.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// What a wait for a completion is bounded by.
pub(crate) struct Patience<'a> {
    pub(crate) limit: Duration,
    pub(crate) stop: &'a Stop,
}

/// The regions of a step.
pub(crate) struct Regions {
    pub(crate) source: Mr,
    pub(crate) target: Mr,
}

/// Moves all of `step`, calling `moved` with the bytes of each chunk once it has arrived.
pub(crate) fn run(
    link: &Link,
    regions: &Regions,
    step: &Step,
    patience: &Patience<'_>,
    moved: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut done = 0;
    while done < step.length {
        let length = u64::from(step.chunk).min(step.length - done);
        let chunk = Chunk::new(step, regions, done, length)?;
        chunk
            .run(link, step.operation, patience)
            .with_context(|| format!("{} of {chunk}", step.operation))?;
        done += length;
        moved(length);
    }
    Ok(())
}

/// A part of a step that one work request carries.
#[derive(Clone, Copy)]
struct Chunk {
    source: Scatter,
    target: Scatter,
    source_rkey: u32,
    target_rkey: u32,
}

impl Chunk {
    fn new(step: &Step, regions: &Regions, done: u64, length: u64) -> Result<Self> {
        let scatter = |end: &End, mr: &Mr| -> Result<Scatter> {
            let address = end.region.address(end.at + done, length);
            Ok(Scatter {
                address: address.with_context(|| format!("{step:?} leaves its region"))?,
                length: u32::try_from(length)?,
                lkey: mr.lkey(),
            })
        };
        Ok(Self {
            source: scatter(&step.source, &regions.source)?,
            target: scatter(&step.target, &regions.target)?,
            source_rkey: regions.source.rkey(),
            target_rkey: regions.target.rkey(),
        })
    }

    fn run(&self, link: &Link, operation: Operation, patience: &Patience<'_>) -> Result<()> {
        match operation {
            Operation::Write => {
                let work = Work::Write(Target {
                    address: self.target.address,
                    rkey: self.target_rkey,
                });
                link.source.qp.post_send(work, self.source)?;
                patience.wait(&link.source, "writing")?;
            }
            Operation::Read => {
                let work = Work::Read(Target {
                    address: self.source.address,
                    rkey: self.source_rkey,
                });
                link.target.qp.post_send(work, self.target)?;
                patience.wait(&link.target, "reading")?;
            }
            Operation::SendReceive => {
                link.target.qp.post_receive(self.target)?;
                link.source.qp.post_send(Work::Send, self.source)?;
                patience.wait(&link.source, "sending")?;
                let received = patience.wait(&link.target, "receiving")?.received;
                ensure!(
                    received == self.source.length,
                    "{received} bytes received of {} sent",
                    self.source.length
                );
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} bytes from {:#x} to {:#x}",
            self.source.length, self.source.address, self.target.address
        )
    }
}

impl Patience<'_> {
    /// Waits for the one request that is outstanding on `end`, and judges its completion.
    fn wait(&self, end: &Endpoint, what: &str) -> Result<Completion> {
        let deadline = Instant::now() + self.limit;
        loop {
            if let Some(completion) = end.cq.poll()? {
                return match completion.failure() {
                    Some(failure) => bail!("{what}: {failure}"),
                    None => Ok(completion),
                };
            }
            if Instant::now() >= deadline {
                bail!(
                    "{what}: no completion within {} s (--timeout)",
                    self.limit.as_secs()
                );
            }
            self.stop.check()?;
            thread::sleep(POLL_INTERVAL);
        }
    }
}
