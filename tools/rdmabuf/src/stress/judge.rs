// SPDX-License-Identifier: GPL-2.0

//! Whether the transfers of a round ended as they have to.

use super::plan::{Moment, Round};
use crate::{plan::Operation, verbs::Status};

/// What is wrong with the ends of a round's transfers, if something is.
pub(super) fn judge(round: &Round, statuses: &[Status]) -> Result<(), String> {
    let done = statuses
        .iter()
        .take_while(|status| **status == Status::Success)
        .count();
    let Some(failed) = statuses.get(done) else {
        return match round.revocation {
            Some(revocation) if revocation.moment == Moment::Before => {
                Err("all transfers succeeded, though a buffer was revoked".to_owned())
            }
            _ => Ok(()),
        };
    };
    let Some(revocation) = round.revocation else {
        return Err(format!(
            "transfer {done} failed: {failed:?}, {:?}",
            round.transfers[done]
        ));
    };
    if done > 0 && revocation.moment == Moment::Before {
        return Err(format!(
            "transfer 0 succeeded, though a buffer was revoked: {:?}",
            round.transfers[0]
        ));
    }
    let local = revocation.place == round.requester;
    let flushed = statuses[done..]
        .iter()
        .take_while(|status| **status == Status::Flushed)
        .count();
    let refused = done + flushed;
    let Some(reason) = statuses.get(refused) else {
        return Err(format!("no transfer tells why it failed: {statuses:?}"));
    };
    let operation = round.transfers[refused].operation;
    // rxe flushes what is on its way when it cannot read what to send next.
    if flushed > 0 && !(local && operation != Operation::Read) {
        return Err(format!(
            "transfer {done} was flushed before {refused} failed: {statuses:?}, {round:?}"
        ));
    }
    let allowed = refusal(operation, local);
    if *reason != allowed {
        return Err(format!(
            "at a revoked buffer the transfers ended with {statuses:?}, {refused} must end with {allowed:?}: {round:?}"
        ));
    }
    match statuses[refused + 1..]
        .iter()
        .find(|status| **status != Status::Flushed)
    {
        Some(status) => Err(format!(
            "after transfer {refused} failed, another ended with {status:?}"
        )),
        None => Ok(()),
    }
}

/// How a transfer fails when the requester's own buffer is revoked, or the other one.
fn refusal(operation: Operation, local: bool) -> Status {
    match operation {
        _ if local => Status::LocalProtection,
        Operation::Write | Operation::Read => Status::RemoteAccess,
        // Where a SEND goes is the receiver's own choice, so there is no key that is wrong.
        Operation::SendReceive => Status::RemoteOperation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stress::plan::{Place, Revocation, Transfer};
    use Operation::{Read, SendReceive, Write};
    use Status::{Flushed, LocalProtection, RemoteAccess, RemoteOperation, Success};

    fn round(operations: &[Operation], revoked: Option<(Place, Moment)>) -> Round {
        let transfer = |operation: &Operation| Transfer {
            operation: *operation,
            at: [0, 0],
            length: 1,
            seed: 0,
        };
        Round {
            number: 0,
            registration: None,
            requester: Place::Near,
            transfers: operations.iter().map(transfer).collect(),
            revocation: revoked.map(|(place, moment)| Revocation { place, moment }),
            look_at_all: false,
        }
    }

    #[test]
    fn without_a_revocation_everything_succeeds() {
        let round = round(&[Write, Read], None);
        assert_eq!(judge(&round, &[Success, Success]), Ok(()));
        for wrong in [LocalProtection, RemoteAccess, Flushed, Status::Other] {
            assert!(judge(&round, &[Success, wrong]).is_err());
        }
    }

    #[test]
    fn a_buffer_that_is_revoked_before_fails_the_first_and_flushes_the_others() {
        for (operation, place, wanted) in [
            (Write, Place::Near, LocalProtection),
            (Read, Place::Near, LocalProtection),
            (SendReceive, Place::Near, LocalProtection),
            (Write, Place::Far, RemoteAccess),
            (Read, Place::Far, RemoteAccess),
            (SendReceive, Place::Far, RemoteOperation),
        ] {
            let round = round(&[operation, Write], Some((place, Moment::Before)));
            assert_eq!(judge(&round, &[wanted, Flushed]), Ok(()));
            for wrong in [
                [Success, Success],
                [Success, wanted],
                [wanted, wanted],
                [wanted, Success],
                [Status::Other, Flushed],
            ] {
                assert!(
                    judge(&round, &wrong).is_err(),
                    "{operation:?} {place:?} {wrong:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_on_its_way_is_flushed_only_where_something_cannot_be_sent() {
        for (operations, place, good) in [
            (&[Read, Write][..], Place::Near, true),
            (&[Write, SendReceive], Place::Near, true),
            (&[Read, Read], Place::Near, false),
            (&[Read, Write], Place::Far, false),
        ] {
            let round = round(operations, Some((place, Moment::Amid)));
            let reason = refusal(operations[1], place == Place::Near);
            assert_eq!(
                judge(&round, &[Flushed, reason]).is_ok(),
                good,
                "{operations:?} {place:?}"
            );
            assert!(judge(&round, &[Flushed, Flushed]).is_err());
            assert!(judge(&round, &[Flushed, Success]).is_err());
        }
    }

    #[test]
    fn a_buffer_that_is_revoked_amid_fails_from_some_transfer_on() {
        let round = round(&[Write, Write, Read], Some((Place::Far, Moment::Amid)));
        for good in [
            [Success, Success, Success],
            [Success, Success, RemoteAccess],
            [Success, RemoteAccess, Flushed],
            [RemoteAccess, Flushed, Flushed],
        ] {
            assert_eq!(judge(&round, &good), Ok(()));
        }
        assert!(judge(&round, &[Success, RemoteAccess, Success]).is_err());
        assert!(judge(&round, &[Success, LocalProtection, Flushed]).is_err());
    }
}
