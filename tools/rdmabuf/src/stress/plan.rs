// SPDX-License-Identifier: GPL-2.0

//! Which transfers a pair of buffers sees, round by round: all of it follows from a seed. Pure arithmetic.

use crate::{
    plan::Operation,
    random::{Random, splitmix},
    region::Region,
};
use anyhow::{Result, ensure};

/// What transfers are made of.
pub(super) const OPERATIONS: &[Operation] =
    &[Operation::Write, Operation::Read, Operation::SendReceive];

/// The most transfers of a round, all of which are posted before the first is waited for.
const MOST_TRANSFERS: u64 = 4;
/// The fewest bytes of a buffer.
const LEAST_SIZE: u64 = 64 << 10;
/// Once in how many rounds the buffers are registered anew.
const REGISTER_EVERY: u64 = 24;
/// Once in how many rounds a buffer is revoked.
const REVOKE_EVERY: u64 = 12;
/// Once in how many rounds all of both buffers is looked at.
const LOOK_EVERY: u64 = 16;
/// A part of so much may be outside of the region at either end of a buffer.
const MARGIN: u64 = 8;
/// Addresses of programs are below this.
const ADDRESSES: u64 = 1 << 47;

/// One of the two ends of a connection, and the buffer there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Near,
    Far,
}

impl Place {
    pub(super) const BOTH: [Self; 2] = [Self::Near, Self::Far];

    pub(super) fn other(self) -> Self {
        match self {
            Self::Near => Self::Far,
            Self::Far => Self::Near,
        }
    }

    /// The one of a pair that is there.
    pub(super) fn of<T>(self, [near, far]: &[T; 2]) -> &T {
        match self {
            Self::Near => near,
            Self::Far => far,
        }
    }

    pub(super) fn of_mut<T>(self, [near, far]: &mut [T; 2]) -> &mut T {
        match self {
            Self::Near => near,
            Self::Far => far,
        }
    }

    fn draw(random: &mut Random) -> Self {
        if random.once_in(2) {
            Self::Near
        } else {
            Self::Far
        }
    }
}

/// What all rounds have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Bytes of each buffer.
    size: u64,
    /// The most bytes of a transfer.
    message: u64,
    page: u64,
    operations: &'static [Operation],
    revokes: bool,
}

impl Shape {
    /// Transfers by `operations` between buffers of `size` bytes, whole pages.
    pub(super) fn new(
        size: u64,
        message: u64,
        page: u64,
        operations: &'static [Operation],
    ) -> Result<Self> {
        ensure!(size >= LEAST_SIZE, "--size {size}: at least {LEAST_SIZE}");
        ensure!(
            (1..=size / 2).contains(&message),
            "--message {message}: from 1 to half of --size, {}",
            size / 2
        );
        Ok(Self {
            size,
            message,
            page,
            operations,
            revokes: false,
        })
    }

    /// The same with revocations, where the buffers can be revoked.
    pub(super) fn with_revocations(self, revokes: bool) -> Self {
        Self { revokes, ..self }
    }
}

/// When a buffer is revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before anything is posted: every transfer fails.
    Before,
    /// While the transfers are under way: each is done, or fails.
    Amid,
}

/// A buffer that is taken away in a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Revocation {
    pub(super) place: Place,
    pub(super) moment: Moment,
}

/// Bytes that go from one buffer to the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) operation: Operation,
    /// Where they are in the near buffer and in the far one.
    pub(super) at: [u64; 2],
    pub(super) length: u64,
    /// The pattern of the source's bytes.
    pub(super) seed: u64,
}

impl Transfer {
    /// The buffer that the bytes come from, if `requester` posts the request.
    pub(super) fn source(&self, requester: Place) -> Place {
        match self.operation {
            Operation::Write | Operation::SendReceive => requester,
            Operation::Read => requester.other(),
        }
    }
}

/// Transfers that one end posts together. No two of them touch the same bytes.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) number: u64,
    /// The regions to register anew before.
    pub(super) registration: Option<[Region; 2]>,
    pub(super) requester: Place,
    pub(super) transfers: Vec<Transfer>,
    pub(super) revocation: Option<Revocation>,
    /// Whether to look at all of both buffers afterwards.
    pub(super) look_at_all: bool,
}

/// The rounds of one pair of buffers, without an end.
pub(super) struct Plan {
    shape: Shape,
    random: Random,
    regions: [Region; 2],
    number: u64,
}

impl Plan {
    /// The plan of the pair with this number.
    pub(super) fn new(seed: u64, pair: u64, shape: Shape) -> Self {
        let mut random = Random::new(splitmix(seed, pair));
        let regions = [(); 2].map(|()| region(&mut random, &shape));
        Self {
            shape,
            random,
            regions,
            number: 0,
        }
    }

    /// The regions to begin with.
    pub(super) fn regions(&self) -> [Region; 2] {
        self.regions
    }

    fn transfers(&mut self) -> Vec<Transfer> {
        let count = 1 + self.random.below(MOST_TRANSFERS);
        // Each has a slot of its own in either buffer, but not the same one in both.
        let shift = self.random.below(count);
        let slots = self.regions.map(|region| region.length / count);
        let most = self.shape.message.min(slots[0]).min(slots[1]);
        (0..count)
            .map(|slot| {
                let (length, aligned) = length(&mut self.random, most);
                let mut at = [0; 2];
                for (side, own) in [slot, (slot + shift) % count].into_iter().enumerate() {
                    let start = self.regions[side].offset + slots[side] * own;
                    let first = start + self.random.up_to(slots[side] - length);
                    let page_start = first - first % self.shape.page;
                    at[side] = if aligned && page_start >= start {
                        page_start
                    } else {
                        first
                    };
                }
                Transfer {
                    operation: self.operation(),
                    at,
                    length,
                    seed: self.random.any(),
                }
            })
            .collect()
    }

    fn operation(&mut self) -> Operation {
        let operations = self.shape.operations;
        operations[self.random.below(operations.len() as u64) as usize]
    }
}

/// A part of a buffer under any address: what is below a page is the same in both.
fn region(random: &mut Random, shape: &Shape) -> Region {
    let margin = shape.size / MARGIN;
    let offset = random.up_to(margin);
    let iova = random.below(ADDRESSES);
    Region {
        offset,
        length: shape.size - offset - random.up_to(margin),
        iova: iova - iova % shape.page + offset % shape.page,
    }
}

/// The length of a transfer, small ones as often as large ones, and whether it begins with a page if it can.
fn length(random: &mut Random, most: u64) -> (u64, bool) {
    if random.once_in(4) {
        return (most, true);
    }
    let bits = random.up_to(u64::from(most.ilog2()));
    let least = 1 << bits;
    ((least + random.below(least)).min(most), false)
}

impl Iterator for Plan {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        let registration = self.random.once_in(REGISTER_EVERY).then(|| {
            self.regions = [(); 2].map(|()| region(&mut self.random, &self.shape));
            self.regions
        });
        let number = self.number;
        self.number += 1;
        let transfers = self.transfers();
        let requester = Place::draw(&mut self.random);
        let revoked = self.random.once_in(REVOKE_EVERY);
        let revocation = Revocation {
            place: Place::draw(&mut self.random),
            moment: if self.random.once_in(2) {
                Moment::Before
            } else {
                Moment::Amid
            },
        };
        Some(Round {
            number,
            registration,
            requester,
            transfers,
            revocation: (revoked && self.shape.revokes).then_some(revocation),
            look_at_all: self.random.once_in(LOOK_EVERY),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 4096;

    fn plan(seed: u64, pair: u64, pages: u64, message: u64) -> Plan {
        let size = pages * PAGE;
        let shape =
            Shape::new(size, message.min(size / 2), PAGE, OPERATIONS).expect("a valid shape");
        Plan::new(seed, pair, shape.with_revocations(true))
    }

    fn shown(plan: Plan) -> String {
        format!("{:?}", plan.take(50).collect::<Vec<_>>())
    }

    #[test]
    fn a_seed_gives_its_rounds_again_and_no_others() {
        assert_eq!(shown(plan(7, 0, 64, 9000)), shown(plan(7, 0, 64, 9000)));
        assert_ne!(shown(plan(7, 0, 64, 9000)), shown(plan(8, 0, 64, 9000)));
        assert_ne!(shown(plan(7, 0, 64, 9000)), shown(plan(7, 1, 64, 9000)));
    }

    #[test]
    fn revocations_leave_the_transfers_as_they_are() {
        let shape = Shape::new(64 * PAGE, 9000, PAGE, OPERATIONS).expect("a valid shape");
        let without = Plan::new(7, 0, shape).take(50);
        for (one, other) in without.zip(plan(7, 0, 64, 9000)) {
            assert!(one.revocation.is_none());
            assert_eq!(
                format!("{:?}", one.transfers),
                format!("{:?}", other.transfers)
            );
        }
    }

    #[test]
    fn everything_comes_up() {
        let rounds: Vec<_> = plan(1, 0, 64, 9000).take(500).collect();
        let transfers = || rounds.iter().flat_map(|round| &round.transfers);
        for operation in OPERATIONS {
            assert!(transfers().any(|transfer| transfer.operation == *operation));
        }
        assert!(transfers().any(|transfer| transfer.length == 9000));
        assert!(transfers().any(|transfer| transfer.length < 8));
        assert!(rounds.iter().any(|round| round.registration.is_some()));
        assert!(rounds.iter().any(|round| round.look_at_all));
        for place in Place::BOTH {
            assert!(rounds.iter().any(|round| round.requester == place));
            for moment in [Moment::Before, Moment::Amid] {
                assert!(
                    rounds
                        .iter()
                        .filter_map(|round| round.revocation)
                        .any(|revocation| revocation.place == place && revocation.moment == moment)
                );
            }
        }
    }

    #[test]
    fn shapes_that_have_no_room_are_refused() {
        for (size, message) in [(PAGE, 1), (1 << 20, 0), (1 << 20, (1 << 19) + 1)] {
            assert!(Shape::new(size, message, PAGE, OPERATIONS).is_err());
        }
    }

    /// Whether the ranges are disjoint in the buffer of that number.
    fn disjoint(round: &Round, buffer: usize) -> bool {
        let mut ranges: Vec<_> = round
            .transfers
            .iter()
            .map(|transfer| (transfer.at[buffer], transfer.at[buffer] + transfer.length))
            .collect();
        ranges.sort_unstable();
        ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0)
    }

    proptest! {
        #[test]
        fn transfers_are_inside_the_regions_and_apart(
            seed in any::<u64>(), pair in 0_u64..8, pages in 16_u64..600, message in 1_u64..200_000
        ) {
            let plan = plan(seed, pair, pages, message);
            let mut regions = plan.regions();
            for round in plan.take(60) {
                regions = round.registration.unwrap_or(regions);
                for (buffer, region) in regions.iter().enumerate() {
                    prop_assert_eq!(region.offset % PAGE, region.iova % PAGE);
                    prop_assert!(region.offset + region.length <= pages * PAGE);
                    for transfer in &round.transfers {
                        prop_assert!(transfer.length >= 1 && transfer.length <= message);
                        prop_assert!(region.address(transfer.at[buffer], transfer.length).is_some());
                    }
                    prop_assert!(disjoint(&round, buffer));
                }
            }
        }
    }
}
