// SPDX-License-Identifier: GPL-2.0

//! Whether the transfers of a round ended as they have to.

use super::plan::{Moment, Round, Transfer};
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
    let allowed = refusals(&round.transfers[done..], local);
    if !allowed.contains(failed) {
        return Err(format!(
            "at a revoked buffer the transfers ended with {statuses:?}, {done} must end with {allowed:?}: {round:?}"
        ));
    }
    match statuses[done + 1..]
        .iter()
        .find(|status| **status != Status::Flushed)
    {
        Some(status) => Err(format!(
            "after transfer {done} failed, another ended with {status:?}"
        )),
        None => Ok(()),
    }
}

/// How the first of these transfers may fail when the requester's own buffer is revoked, or the other one.
fn refusals(left: &[Transfer], local: bool) -> &'static [Status] {
    let sends = |transfer: &Transfer| transfer.operation != Operation::Read;
    if local && left.iter().any(sends) {
        // rxe flushes its send queue when it cannot read what to send, and forgets the reason. READs
        // before that are flushed with it, since their answers take longer.
        return &[Status::LocalProtection, Status::Flushed];
    }
    match left.first().map(|transfer| transfer.operation) {
        _ if local => &[Status::LocalProtection],
        Some(Operation::Write | Operation::Read) => &[Status::RemoteAccess],
        // Where a SEND goes is the receiver's own choice, so there is no key that is wrong.
        Some(Operation::SendReceive) => &[Status::RemoteOperation],
        None => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stress::plan::{Place, Revocation};
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
    fn a_reason_is_forgotten_only_where_something_cannot_be_sent() {
        for (operations, place, good) in [
            (&[Write][..], Place::Near, true),
            (&[SendReceive], Place::Near, true),
            (&[Read, Write], Place::Near, true),
            (&[Read], Place::Near, false),
            (&[Read, Read], Place::Near, false),
            (&[Write], Place::Far, false),
            (&[SendReceive], Place::Far, false),
        ] {
            let round = round(operations, Some((place, Moment::Before)));
            let flushed = vec![Flushed; operations.len()];
            assert_eq!(
                judge(&round, &flushed).is_ok(),
                good,
                "{operations:?} {place:?}"
            );
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
