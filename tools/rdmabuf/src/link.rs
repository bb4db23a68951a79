// SPDX-License-Identifier: GPL-2.0

//! Two devices and a reliable connection between them.

use crate::{
    stop::Stop,
    verbs::{Cq, Device, Gid, Pd, Peer, Qp},
};
use anyhow::{Context, Result, bail};
use std::{
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

/// How long a new device may take to get the address of its interface.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(10);
const ADDRESS_INTERVAL: Duration = Duration::from_millis(20);

/// One device, ready for regions and queue pairs.
pub(crate) struct Side {
    pub(crate) pd: Rc<Pd>,
    gid: Gid,
}

impl Side {
    /// Opens a device and finds its RoCE v2 address, or the one of that index.
    pub(crate) fn open(name: &str, gid_index: Option<u8>, stop: &Stop) -> Result<Self> {
        let device = Device::open(Some(name))?;
        Ok(Self {
            gid: wait_for_gid(&device, gid_index, stop)?,
            pd: Pd::new(&device)?,
        })
    }

    pub(crate) fn device(&self) -> &Device {
        self.pd.device()
    }

    fn endpoint(&self) -> Result<Endpoint> {
        let cq = Cq::new(self.pd.device())?;
        let qp = Qp::new(&self.pd, &cq)?;
        Ok(Endpoint { qp, cq })
    }
}

fn wait_for_gid(device: &Device, wanted: Option<u8>, stop: &Stop) -> Result<Gid> {
    let deadline = Instant::now() + ADDRESS_TIMEOUT;
    loop {
        let gids = device.roce_gids()?;
        let found = match wanted {
            Some(index) => gids.iter().find(|gid| gid.index == index),
            // An IPv6 one may still be tentative, so it is second best.
            None => gids.first().filter(|gid| gid.is_ipv4() || late(deadline)),
        };
        if let Some(gid) = found {
            return Ok(*gid);
        }
        if Instant::now() >= deadline {
            bail!(
                "{} has no RoCE v2 address{}: give its interface an address and set it up \
                 (ip address add, ip link set up)",
                device.name(),
                wanted.map_or(String::new(), |index| format!(" with index {index}"))
            );
        }
        stop.check()?;
        thread::sleep(ADDRESS_INTERVAL);
    }
}

/// Whether only a second is left.
fn late(deadline: Instant) -> bool {
    Instant::now() + Duration::from_secs(1) >= deadline
}

/// A queue pair and the queue that its work completes on.
pub(crate) struct Endpoint {
    pub(crate) qp: Qp,
    pub(crate) cq: Rc<Cq>,
}

/// A connection. It does not survive a failed request: a new one is made for each transfer.
pub(crate) struct Link {
    pub(crate) source: Endpoint,
    pub(crate) target: Endpoint,
}

impl Link {
    /// Connects new queue pairs of both sides with each other.
    pub(crate) fn new(source: &Side, target: &Side) -> Result<Self> {
        let link = Self {
            source: source.endpoint()?,
            target: target.endpoint()?,
        };
        // What either port can carry.
        let mtu = source.device().mtu()?.min(target.device().mtu()?);
        for (near, near_side, far, far_side) in [
            (&link.source, source, &link.target, target),
            (&link.target, target, &link.source, source),
        ] {
            let peer = Peer {
                qp_number: far.qp.number(),
                gid: far_side.gid,
            };
            near.qp
                .connect(near_side.gid, peer, mtu)
                .with_context(|| format!("device {}", near_side.device().name()))?;
        }
        Ok(link)
    }
}
