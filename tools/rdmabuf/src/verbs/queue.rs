// SPDX-License-Identifier: GPL-2.0

//! Completion queues and reliable connected queue pairs.

#![expect(unsafe_code, reason = "libibverbs")]

use super::device::{Device, Gid, PORT, Pd, report};
use crate::call::CallError;
use anyhow::{Result, bail};
use rdma_mummy_sys::{
    ibv_access_flags, ibv_ah_attr, ibv_cq, ibv_create_cq, ibv_create_qp, ibv_destroy_cq,
    ibv_destroy_qp, ibv_gid, ibv_global_route, ibv_modify_qp, ibv_mtu, ibv_poll_cq, ibv_post_recv,
    ibv_post_send, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_init_attr, ibv_qp_state,
    ibv_qp_type, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wc, ibv_wc_status,
    ibv_wc_status_str, ibv_wr_opcode, rdma_t,
};
use std::{
    ffi::CStr,
    mem,
    ptr::{self, NonNull},
    rc::Rc,
};

/// How many work requests may be outstanding in each direction.
const DEPTH: u32 = 8;
/// 4.096 µs × 2^18, about a second: a loaded emulator answers late, and nothing is really lost.
const ACK_TIMEOUT: u8 = 18;
/// The largest number of repetitions that verbs know.
const RETRIES: u8 = 7;
/// The packet sequence number that both sides begin with.
const FIRST_PSN: u32 = 0;

/// A completion queue.
///
/// # Invariants
///
/// `cq` is from `ibv_create_cq` and not yet destroyed.
pub(crate) struct Cq {
    cq: NonNull<ibv_cq>,
    _device: Rc<Device>,
}

/// What became of a work request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    status: ibv_wc_status::Type,
    /// Bytes received, where something was.
    pub(crate) received: u32,
}

/// What became of a work request, as far as it makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Success,
    /// Memory of this side could not be used.
    LocalProtection,
    /// Memory of the peer could not be used by its rkey.
    RemoteAccess,
    /// The peer could not do its part, as receiving into its own memory.
    RemoteOperation,
    /// A request before it failed.
    Flushed,
    Other,
}

impl Completion {
    pub(crate) fn status(&self) -> Status {
        match self.status {
            ibv_wc_status::IBV_WC_SUCCESS => Status::Success,
            ibv_wc_status::IBV_WC_LOC_PROT_ERR => Status::LocalProtection,
            ibv_wc_status::IBV_WC_REM_ACCESS_ERR => Status::RemoteAccess,
            ibv_wc_status::IBV_WC_REM_OP_ERR => Status::RemoteOperation,
            ibv_wc_status::IBV_WC_WR_FLUSH_ERR => Status::Flushed,
            _ => Status::Other,
        }
    }

    /// The name of the status, unless it is success.
    pub(crate) fn failure(&self) -> Option<String> {
        if self.status == ibv_wc_status::IBV_WC_SUCCESS {
            return None;
        }
        // SAFETY: Any number may be asked for, and the answer is a string constant or NULL.
        let text = unsafe { ibv_wc_status_str(self.status) };
        // SAFETY: What is not NULL is a C string that lives for ever.
        let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
        let text = text.map_or("no text".into(), CStr::to_string_lossy);
        Some(format!("completion status {} ({text})", self.status))
    }
}

impl Cq {
    /// Makes a queue that no queue pair of this module can overflow.
    pub(crate) fn new(device: &Rc<Device>) -> Result<Rc<Self>, CallError> {
        let entries = (2 * DEPTH) as i32;
        // SAFETY: The context is open as long as the device lives; NULL says "no context, no channel".
        let cq = unsafe {
            ibv_create_cq(
                device.as_raw(),
                entries,
                ptr::null_mut(),
                ptr::null_mut(),
                0,
            )
        };
        let cq = NonNull::new(cq)
            .ok_or_else(|| CallError::last("ibv_create_cq", format!("entries={entries}")))?;
        // INVARIANT: It was just created.
        Ok(Rc::new(Self {
            cq,
            _device: Rc::clone(device),
        }))
    }

    /// Takes one completion, if there is one.
    pub(crate) fn poll(&self) -> Result<Option<Completion>> {
        // SAFETY: The structure is plain numbers, for which zero is valid.
        let mut wc: ibv_wc = unsafe { mem::zeroed() };
        // SAFETY: By the type invariant, the queue is live; there is room for the one completion asked for.
        match unsafe { ibv_poll_cq(self.cq.as_ptr(), 1, &mut wc) } {
            0 => Ok(None),
            1 => Ok(Some(Completion {
                status: wc.status,
                received: wc.byte_len,
            })),
            answer => bail!("ibv_poll_cq: {answer}"),
        }
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, it is live, and no queue pair uses it any more.
        let answer = unsafe { ibv_destroy_cq(self.cq.as_ptr()) };
        report(CallError::check(answer, "ibv_destroy_cq", String::new));
    }
}

/// Bytes of a region of this side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scatter {
    pub(crate) address: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

impl Scatter {
    fn as_sge(self) -> ibv_sge {
        ibv_sge {
            addr: self.address,
            length: self.length,
            lkey: self.lkey,
        }
    }
}

/// A place in a region of the other side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) address: u64,
    pub(crate) rkey: u32,
}

/// A request for the send queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// RDMA WRITE to the target.
    Write(Target),
    /// RDMA READ from the target.
    Read(Target),
    /// SEND, into what the other side has posted to receive.
    Send,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) qp_number: u32,
    pub(crate) gid: Gid,
}

/// A reliable connected queue pair.
///
/// # Invariants
///
/// `qp` is from `ibv_create_qp` and not yet destroyed.
pub(crate) struct Qp {
    qp: NonNull<ibv_qp>,
    // Dropped after the queue pair, which uses both.
    _cq: Rc<Cq>,
    _pd: Rc<Pd>,
}

impl Qp {
    /// Makes one whose sends and receives complete on `cq`.
    pub(crate) fn new(pd: &Rc<Pd>, cq: &Rc<Cq>) -> Result<Self, CallError> {
        // SAFETY: The structure is pointers and plain numbers, for which zero is valid.
        let mut init: ibv_qp_init_attr = unsafe { mem::zeroed() };
        init.send_cq = cq.cq.as_ptr();
        init.recv_cq = cq.cq.as_ptr();
        init.qp_type = ibv_qp_type::IBV_QPT_RC;
        init.cap.max_send_wr = DEPTH;
        init.cap.max_recv_wr = DEPTH;
        init.cap.max_send_sge = 1;
        init.cap.max_recv_sge = 1;
        // SAFETY: The protection domain and the queue are live; the structure is filled in.
        let qp = unsafe { ibv_create_qp(pd.as_raw(), &mut init) };
        let qp = NonNull::new(qp)
            .ok_or_else(|| CallError::last("ibv_create_qp", format!("RC, depth={DEPTH}")))?;
        // INVARIANT: It was just created.
        Ok(Self {
            qp,
            _cq: Rc::clone(cq),
            _pd: Rc::clone(pd),
        })
    }

    /// The number by which the peer finds it.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: By the type invariant, the structure is live; the library never changes its number.
        unsafe { ptr::addr_of!((*self.qp.as_ptr()).qp_num).read() }
    }

    /// Connects it: ready to receive from `peer` and to send to it.
    pub(crate) fn connect(
        &self,
        local: Gid,
        peer: Peer,
        mtu: ibv_mtu::Type,
    ) -> Result<(), CallError> {
        self.modify("to INIT", initial())?;
        self.modify("to RTR", ready_to_receive(local, peer, mtu))?;
        self.modify("to RTS", ready_to_send())
    }

    fn modify(
        &self,
        step: &'static str,
        (mut attr, mask): (ibv_qp_attr, ibv_qp_attr_mask),
    ) -> Result<(), CallError> {
        // SAFETY: By the type invariant, the queue pair is live; every attribute of the mask is filled in.
        let answer = unsafe { ibv_modify_qp(self.qp.as_ptr(), &mut attr, mask.0 as i32) };
        CallError::check(answer, "ibv_modify_qp", || {
            format!("{step}, peer={:#x}", attr.dest_qp_num)
        })
    }

    /// Posts a request to the send queue. It will complete.
    pub(crate) fn post_send(&self, work: Work, local: Scatter) -> Result<(), CallError> {
        let mut sge = local.as_sge();
        // SAFETY: The structure is pointers and plain numbers, for which zero is valid.
        let mut request: ibv_send_wr = unsafe { mem::zeroed() };
        request.sg_list = &mut sge;
        request.num_sge = 1;
        request.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        let target = match work {
            Work::Write(target) => Some((ibv_wr_opcode::IBV_WR_RDMA_WRITE, target)),
            Work::Read(target) => Some((ibv_wr_opcode::IBV_WR_RDMA_READ, target)),
            Work::Send => None,
        };
        request.opcode = ibv_wr_opcode::IBV_WR_SEND;
        if let Some((opcode, target)) = target {
            request.opcode = opcode;
            request.wr.rdma = rdma_t {
                remote_addr: target.address,
                rkey: target.rkey,
            };
        }
        let mut rejected = ptr::null_mut();
        // SAFETY: By the type invariant, the queue pair is live. The call copies the request and its list,
        // which outlive it; the device judges keys and addresses.
        let answer = unsafe { ibv_post_send(self.qp.as_ptr(), &mut request, &mut rejected) };
        CallError::check(answer, "ibv_post_send", || format!("{work:x?}, {local:x?}"))
    }

    /// Posts a place for the next SEND of the peer.
    pub(crate) fn post_receive(&self, local: Scatter) -> Result<(), CallError> {
        let mut sge = local.as_sge();
        // SAFETY: The structure is pointers and plain numbers, for which zero is valid.
        let mut request: ibv_recv_wr = unsafe { mem::zeroed() };
        request.sg_list = &mut sge;
        request.num_sge = 1;
        let mut rejected = ptr::null_mut();
        // SAFETY: As for `post_send`.
        let answer = unsafe { ibv_post_recv(self.qp.as_ptr(), &mut request, &mut rejected) };
        CallError::check(answer, "ibv_post_recv", || format!("{local:x?}"))
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, it is live, and nothing else uses it.
        let answer = unsafe { ibv_destroy_qp(self.qp.as_ptr()) };
        report(CallError::check(answer, "ibv_destroy_qp", String::new));
    }
}

fn attributes(state: ibv_qp_state::Type) -> ibv_qp_attr {
    // SAFETY: The structure is plain numbers, for which zero is valid.
    let mut attr: ibv_qp_attr = unsafe { mem::zeroed() };
    attr.qp_state = state;
    attr
}

fn initial() -> (ibv_qp_attr, ibv_qp_attr_mask) {
    let mut attr = attributes(ibv_qp_state::IBV_QPS_INIT);
    attr.port_num = PORT;
    attr.qp_access_flags =
        (ibv_access_flags::IBV_ACCESS_REMOTE_WRITE | ibv_access_flags::IBV_ACCESS_REMOTE_READ).0;
    let mask = ibv_qp_attr_mask::IBV_QP_STATE
        | ibv_qp_attr_mask::IBV_QP_PKEY_INDEX
        | ibv_qp_attr_mask::IBV_QP_PORT
        | ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS;
    (attr, mask)
}

fn ready_to_receive(local: Gid, peer: Peer, mtu: ibv_mtu::Type) -> (ibv_qp_attr, ibv_qp_attr_mask) {
    let mut attr = attributes(ibv_qp_state::IBV_QPS_RTR);
    attr.ah_attr = route(local, peer);
    attr.path_mtu = mtu;
    attr.dest_qp_num = peer.qp_number;
    attr.rq_psn = FIRST_PSN;
    attr.max_dest_rd_atomic = 1;
    // 0.64 ms: how long the peer waits when nothing is posted to receive.
    attr.min_rnr_timer = 12;
    let mask = ibv_qp_attr_mask::IBV_QP_STATE
        | ibv_qp_attr_mask::IBV_QP_AV
        | ibv_qp_attr_mask::IBV_QP_PATH_MTU
        | ibv_qp_attr_mask::IBV_QP_DEST_QPN
        | ibv_qp_attr_mask::IBV_QP_RQ_PSN
        | ibv_qp_attr_mask::IBV_QP_MAX_DEST_RD_ATOMIC
        | ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER;
    (attr, mask)
}

fn route(local: Gid, peer: Peer) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: peer.gid.raw },
            flow_label: 0,
            sgid_index: local.index,
            hop_limit: 64,
            traffic_class: 0,
        },
        dlid: 0,
        sl: 0,
        src_path_bits: 0,
        static_rate: 0,
        is_global: 1,
        port_num: PORT,
    }
}

fn ready_to_send() -> (ibv_qp_attr, ibv_qp_attr_mask) {
    let mut attr = attributes(ibv_qp_state::IBV_QPS_RTS);
    attr.timeout = ACK_TIMEOUT;
    attr.retry_cnt = RETRIES;
    attr.rnr_retry = RETRIES;
    attr.sq_psn = FIRST_PSN;
    attr.max_rd_atomic = 1;
    let mask = ibv_qp_attr_mask::IBV_QP_STATE
        | ibv_qp_attr_mask::IBV_QP_TIMEOUT
        | ibv_qp_attr_mask::IBV_QP_RETRY_CNT
        | ibv_qp_attr_mask::IBV_QP_RNR_RETRY
        | ibv_qp_attr_mask::IBV_QP_SQ_PSN
        | ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC;
    (attr, mask)
}
