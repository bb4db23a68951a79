// SPDX-License-Identifier: GPL-2.0

//! A pair of buffers, the connection between them, and its rounds one after the other.

use super::{
    image::Image,
    judge::judge,
    plan::{Moment, OPERATIONS, Place, Plan, Revocation, Round, Shape, Transfer},
    report::Count,
};
use crate::{
    exporter::{Buffer, Exporter, Kind, Placement, Stats},
    link::{Endpoint, Link, Side},
    plan::Operation,
    region::Region,
    verbs::{Access, Mr, Scatter, Status, Target, Work},
};
use anyhow::{Context, Result, bail, ensure};
use std::time::{Duration, Instant};

/// What both buffers hold at first.
const FIRST_SEEDS: [u64; 2] = [1, 2];

/// What a pair has done.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) counts: Vec<Count>,
    pub(super) bytes_verified: u64,
    pub(super) registered: u64,
    pub(super) deregistered: u64,
    pub(super) revocations: u64,
    pub(super) reconnections: u64,
}

/// The transfers that are under way.
struct Flight {
    round: Round,
    deadline: Instant,
    statuses: Vec<Status>,
    /// How many bytes each SEND brought.
    received: Vec<u32>,
}

/// The pair. Declared in the order in which things have to go.
pub(super) struct Lane<'a> {
    link: Option<Link>,
    mrs: Option<[Mr; 2]>,
    regions: [Region; 2],
    buffers: [Box<dyn Buffer>; 2],
    images: [Image; 2],
    first_stats: [Option<Stats>; 2],
    sides: &'a [Side; 2],
    plan: Plan,
    flight: Option<Flight>,
    pub(super) number: u64,
    pub(super) kind: Kind,
    pub(super) tally: Tally,
}

impl<'a> Lane<'a> {
    /// Makes the buffers, registers them and connects the two sides.
    pub(super) fn new(
        number: u64,
        sides: &'a [Side; 2],
        (kind, exporter): (Kind, &dyn Exporter),
        length: usize,
        (seed, shape): (u64, Shape),
    ) -> Result<Self> {
        let buffers = [exporter.allocate(length)?, exporter.allocate(length)?];
        let plan = Plan::new(seed, number, shape);
        let [near, far] = &buffers;
        let mut lane = Self {
            images: [
                Image::fill(&**near, FIRST_SEEDS[0])?,
                Image::fill(&**far, FIRST_SEEDS[1])?,
            ],
            first_stats: [stats(&**near)?, stats(&**far)?],
            regions: plan.regions(),
            link: Some(Link::new(&sides[0], &sides[1])?),
            mrs: None,
            flight: None,
            tally: Tally::new(kind),
            buffers,
            sides,
            plan,
            number,
            kind,
        };
        lane.register()?;
        Ok(lane)
    }

    /// Has the buffers moved from now on: one where it is, the other back to the exporter's own memory.
    pub(super) fn move_always(&self, per_second: u32) -> Result<()> {
        for (buffer, to) in self.buffers.iter().zip([Placement::Same, Placement::Vram]) {
            if let Some(vram) = buffer.vram() {
                vram.move_always(per_second, to)?;
            }
        }
        Ok(())
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.flight.is_none()
    }

    /// Where in its plan it is.
    fn place_in_plan(&self) -> String {
        let round = self.flight.as_ref().map(|flight| flight.round.number);
        let round = round.map_or(String::new(), |number| format!(", round {number}"));
        format!("pair {} ({}){round}", self.number, self.kind)
    }

    /// Begins the next round, and posts all of it.
    pub(super) fn begin(&mut self, limit: Duration) -> Result<()> {
        let Some(round) = self.plan.next() else {
            bail!("a plan has no end");
        };
        self.flight = Some(Flight {
            statuses: Vec::new(),
            received: Vec::new(),
            deadline: Instant::now() + limit,
            round: round.clone(),
        });
        self.post(&round).with_context(|| self.place_in_plan())
    }

    fn post(&mut self, round: &Round) -> Result<()> {
        if let Some(regions) = round.registration {
            self.deregister()?;
            self.regions = regions;
            self.register()?;
        }
        for transfer in &round.transfers {
            let source = transfer.source(round.requester);
            let buffer = source.of(&self.buffers);
            let image = source.of_mut(&mut self.images);
            image.put(&**buffer, &range(transfer, source), transfer.seed)?;
        }
        self.revoke_if(round.revocation, Moment::Before)?;
        let link = self.link.as_ref().context("no connection")?;
        let (near, far) = (round.requester, round.requester.other());
        for transfer in &round.transfers {
            if transfer.operation == Operation::SendReceive {
                end(link, far)
                    .qp
                    .post_receive(self.scatter(transfer, far)?)?;
            }
        }
        for transfer in &round.transfers {
            let work = self.work(transfer, far)?;
            end(link, near)
                .qp
                .post_send(work, self.scatter(transfer, near)?)?;
        }
        self.revoke_if(round.revocation, Moment::Amid)
    }

    fn work(&self, transfer: &Transfer, peer: Place) -> Result<Work> {
        let target = Target {
            address: self.address(transfer, peer)?,
            rkey: self.mr(peer)?.rkey(),
        };
        Ok(match transfer.operation {
            Operation::Write => Work::Write(target),
            Operation::Read => Work::Read(target),
            Operation::SendReceive => Work::Send,
        })
    }

    fn scatter(&self, transfer: &Transfer, place: Place) -> Result<Scatter> {
        Ok(Scatter {
            address: self.address(transfer, place)?,
            length: u32::try_from(transfer.length)?,
            lkey: self.mr(place)?.lkey(),
        })
    }

    fn address(&self, transfer: &Transfer, place: Place) -> Result<u64> {
        place
            .of(&self.regions)
            .address(*place.of(&transfer.at), transfer.length)
            .with_context(|| format!("{transfer:?} leaves its region"))
    }

    fn mr(&self, place: Place) -> Result<&Mr> {
        Ok(place.of(self.mrs.as_ref().context("no regions")?))
    }

    /// Takes what has completed, and ends the round once all has. True if something has.
    pub(super) fn advance(&mut self) -> Result<bool> {
        let advanced = self.poll().with_context(|| self.place_in_plan())?;
        if self.flight.as_ref().is_some_and(Flight::is_over) {
            self.finish().with_context(|| self.place_in_plan())?;
            self.flight = None;
        }
        Ok(advanced)
    }

    fn poll(&mut self) -> Result<bool> {
        let (Some(flight), Some(link)) = (&mut self.flight, &self.link) else {
            return Ok(false);
        };
        let mut advanced = false;
        while let Some(completion) = end(link, flight.round.requester).cq.poll()? {
            flight.statuses.push(completion.status());
            advanced = true;
        }
        while let Some(completion) = end(link, flight.round.requester.other()).cq.poll()? {
            if completion.status() == Status::Success {
                flight.received.push(completion.received);
            }
            advanced = true;
        }
        ensure!(
            Instant::now() < flight.deadline || flight.is_over(),
            "completed in time (--timeout): {:?}, of {:?}",
            flight.statuses,
            flight.round
        );
        Ok(advanced)
    }

    fn finish(&mut self) -> Result<()> {
        let Some(flight) = &self.flight else {
            return Ok(());
        };
        let (round, statuses) = (flight.round.clone(), flight.statuses.clone());
        judge(&round, &statuses).map_err(anyhow::Error::msg)?;
        flight.check_received()?;
        let failed = statuses.iter().any(|status| *status != Status::Success);
        if failed {
            // What may still be under way ends with the queue pairs.
            self.link = None;
        }
        for (transfer, status) in round.transfers.iter().zip(&statuses) {
            self.take_over(&round, transfer, *status)?;
        }
        for transfer in &round.transfers {
            let target = transfer.source(round.requester).other();
            let (buffer, image) = (target.of(&self.buffers), target.of(&self.images));
            self.tally.bytes_verified += image
                .check(&**buffer, &range(transfer, target))
                .with_context(|| format!("the target of {transfer:?}"))?;
        }
        if let Some(Revocation { place, .. }) = round.revocation {
            self.unrevoke(place)?;
        }
        if failed {
            self.link = Some(Link::new(&self.sides[0], &self.sides[1])?);
            self.tally.reconnections += 1;
        }
        if round.look_at_all {
            self.check_all()?;
        }
        Ok(())
    }

    /// Expects the transfer's bytes, or after a failure whatever of them has arrived.
    fn take_over(&mut self, round: &Round, transfer: &Transfer, status: Status) -> Result<()> {
        let source = transfer.source(round.requester);
        let target = source.other();
        let new = source
            .of(&self.images)
            .part(&range(transfer, source))?
            .to_vec();
        let (buffer, at) = (target.of(&self.buffers), *target.of(&transfer.at));
        let image = target.of_mut(&mut self.images);
        let done = status == Status::Success;
        if done {
            image.expect(at, &new)?;
        } else {
            image.settle(&**buffer, at, &new)?;
        }
        self.tally.count(transfer, done);
        Ok(())
    }

    /// Compares all of both buffers.
    pub(super) fn check_all(&mut self) -> Result<()> {
        for place in Place::BOTH {
            let (buffer, image) = (place.of(&self.buffers), place.of(&self.images));
            let checked = image.check_all(&**buffer);
            self.tally.bytes_verified +=
                checked.with_context(|| format!("all of the buffer {place:?}"))?;
        }
        Ok(())
    }

    fn revoke_if(&mut self, revocation: Option<Revocation>, moment: Moment) -> Result<()> {
        let Some(revocation) = revocation.filter(|revocation| revocation.moment == moment) else {
            return Ok(());
        };
        if let Some(vram) = revocation.place.of(&self.buffers).vram() {
            vram.revoke()?;
            self.tally.revocations += 1;
        }
        Ok(())
    }

    fn unrevoke(&self, place: Place) -> Result<()> {
        if let Some(vram) = place.of(&self.buffers).vram() {
            vram.unrevoke()?;
        }
        Ok(())
    }

    fn register(&mut self) -> Result<()> {
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let register = |place: Place| {
            let side = place.of(self.sides);
            let memory = place.of(&self.buffers).memory()?;
            Mr::register(&side.pd, memory, place.of(&self.regions), access)
        };
        self.mrs = Some([register(Place::Near)?, register(Place::Far)?]);
        self.tally.registered += 2;
        Ok(())
    }

    fn deregister(&mut self) -> Result<()> {
        for mr in self.mrs.take().into_iter().flatten() {
            mr.deregister()?;
            self.tally.deregistered += 1;
        }
        Ok(())
    }

    /// Gives back all but the buffers, which stand still afterwards.
    pub(super) fn close(&mut self) -> Result<()> {
        self.link = None;
        let revoked = self
            .flight
            .take()
            .and_then(|flight| flight.round.revocation);
        if let Some(Revocation { place, .. }) = revoked {
            self.unrevoke(place)?;
        }
        // While they still move.
        self.deregister()?;
        self.move_always(0)
    }

    /// The exporter's statistics of both buffers, before and now, where it has any.
    pub(super) fn stats(&self) -> Result<Vec<(Place, Stats, Stats)>> {
        let mut all = Vec::new();
        for place in Place::BOTH {
            let now = stats(&**place.of(&self.buffers))?;
            let before = place.of(&self.first_stats).clone();
            all.extend(before.zip(now).map(|(before, now)| (place, before, now)));
        }
        Ok(all)
    }
}

impl Flight {
    /// Whether nothing more will come: with a failure, what is left of the receives does not.
    fn is_over(&self) -> bool {
        self.statuses.len() == self.round.transfers.len()
            && self.received.len() >= self.sent().count()
    }

    /// The SENDs that succeeded.
    fn sent(&self) -> impl Iterator<Item = &Transfer> {
        let pairs = self.round.transfers.iter().zip(&self.statuses);
        pairs.filter_map(|(transfer, status)| {
            let sent = transfer.operation == Operation::SendReceive;
            (sent && *status == Status::Success).then_some(transfer)
        })
    }

    fn check_received(&self) -> Result<()> {
        for (transfer, received) in self.sent().zip(&self.received) {
            ensure!(
                u64::from(*received) == transfer.length,
                "{received} bytes received of {transfer:?}"
            );
        }
        Ok(())
    }
}

impl Tally {
    fn new(kind: Kind) -> Self {
        Self {
            counts: OPERATIONS
                .iter()
                .map(|operation| Count::new(kind, *operation))
                .collect(),
            bytes_verified: 0,
            registered: 0,
            deregistered: 0,
            revocations: 0,
            reconnections: 0,
        }
    }

    fn count(&mut self, transfer: &Transfer, done: bool) {
        let of_kind = |count: &&mut Count| count.operation == transfer.operation;
        if let Some(count) = self.counts.iter_mut().find(of_kind) {
            count.add(transfer.length, done);
        }
    }
}

fn end(link: &Link, place: Place) -> &Endpoint {
    match place {
        Place::Near => &link.source,
        Place::Far => &link.target,
    }
}

fn range(transfer: &Transfer, place: Place) -> std::ops::Range<u64> {
    let at = *place.of(&transfer.at);
    at..at + transfer.length
}

fn stats(buffer: &dyn Buffer) -> Result<Option<Stats>> {
    Ok(buffer.vram().map(|vram| vram.stats()).transpose()?)
}
