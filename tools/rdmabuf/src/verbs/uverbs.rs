// SPDX-License-Identifier: GPL-2.0

//! The kernel's own answer to a dma-buf registration, without libibverbs between.
//!
//! A provider that lacks `reg_dmabuf_mr` makes libibverbs answer EOPNOTSUPP without asking the kernel.
//! Only the ioctl tells the two refusals apart. It is asked with a file descriptor that cannot be one,
//! so no region comes of it.

#![expect(unsafe_code, reason = "ioctl")]

use super::{device::Pd, memory::Access};
use crate::region::Region;
use nix::{errno::Errno, libc};
use rdma_mummy_sys::rdma_driver_id;
use std::{mem, ptr, rc::Rc};

/// The two ways into the driver's `reg_user_mr_dmabuf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Road {
    /// UVERBS_METHOD_REG_DMABUF_MR.
    RegDmabufMr,
    /// UVERBS_METHOD_REG_MR with a file descriptor.
    RegMr,
}

/// `struct ib_uverbs_ioctl_hdr`, and the attributes that follow it.
#[repr(C)]
struct Request {
    length: u16,
    object: u16,
    method: u16,
    count: u16,
    reserved1: u64,
    driver: u32,
    reserved2: u32,
    attributes: [Attribute; ATTRIBUTES],
}

/// `struct ib_uverbs_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Attribute {
    id: u16,
    length: u16,
    flags: u16,
    reserved: u16,
    data: u64,
}

/// Both methods take nine attributes here.
const ATTRIBUTES: usize = 9;
/// The header alone: the ioctl's number has its size.
const HEADER: usize = mem::size_of::<Request>() - ATTRIBUTES * mem::size_of::<Attribute>();
/// `UVERBS_ATTR_F_MANDATORY`.
const MANDATORY: u16 = 1;
/// `UVERBS_OBJECT_MR`.
const OBJECT_MR: u16 = 7;
/// `UVERBS_METHOD_REG_DMABUF_MR`.
const METHOD_REG_DMABUF_MR: u16 = 4;
/// `UVERBS_METHOD_REG_MR`.
const METHOD_REG_MR: u16 = 5;
/// `RDMA_VERBS_IOCTL`.
const RDMA_VERBS_IOCTL: libc::c_ulong = nix::request_code_readwrite!(0x1b, 1, HEADER);

impl Attribute {
    fn new(id: u16, length: u16, data: u64) -> Self {
        Self {
            id,
            length,
            flags: MANDATORY,
            reserved: 0,
            data,
        }
    }

    /// Up to eight bytes are carried in the attribute itself.
    fn u64(id: u16, data: u64) -> Self {
        Self::new(id, 8, data)
    }

    fn u32(id: u16, data: u32) -> Self {
        Self::new(id, 4, data.into())
    }

    /// An object's number, or room for one.
    fn handle(id: u16, handle: u32) -> Self {
        Self::new(id, 0, handle.into())
    }

    /// A file descriptor as such, sign-extended.
    fn raw_fd(id: u16, fd: i32) -> Self {
        Self::new(id, 0, i64::from(fd) as u64)
    }

    fn out(id: u16, place: *mut u32) -> Self {
        Self::new(id, 4, place as u64)
    }
}

/// What the kernel answers to a registration of `region` with the file descriptor -1.
///
/// `None` if it answered nothing that tells anything, as a kernel without this ioctl does.
pub(crate) fn kernel_answer(
    pd: &Rc<Pd>,
    road: Road,
    region: &Region,
    access: Access,
) -> Option<Errno> {
    // uverbs wants the driver's number, and no verb tells it: a wrong one is EINVAL before anything is
    // looked at.
    (rdma_driver_id::RDMA_DRIVER_UNKNOWN..=rdma_driver_id::RDMA_DRIVER_MANA)
        .map(|driver| ask(pd, road, region, access, driver))
        .find(|errno| *errno != Errno::EINVAL)
        .filter(|errno| *errno != Errno::ENOTTY)
}

fn ask(pd: &Rc<Pd>, road: Road, region: &Region, access: Access, driver: u32) -> Errno {
    let mut keys = [0_u32; 2];
    let [lkey, rkey] = &mut keys;
    let (method, attributes) = match road {
        Road::RegDmabufMr => (
            METHOD_REG_DMABUF_MR,
            [
                Attribute::handle(0, 0),
                Attribute::handle(1, pd.handle()),
                Attribute::u64(2, region.offset),
                Attribute::u64(3, region.length),
                Attribute::u64(4, region.iova),
                Attribute::u32(5, u32::MAX),
                Attribute::u32(6, access.bits()),
                Attribute::out(7, lkey),
                Attribute::out(8, rkey),
            ],
        ),
        Road::RegMr => (
            METHOD_REG_MR,
            [
                Attribute::handle(0, 0),
                Attribute::handle(1, pd.handle()),
                Attribute::u64(3, region.iova),
                Attribute::u64(5, region.length),
                Attribute::u32(6, access.bits()),
                Attribute::raw_fd(7, -1),
                Attribute::u64(8, region.offset),
                Attribute::out(9, lkey),
                Attribute::out(10, rkey),
            ],
        ),
    };
    let mut request = Request {
        // The size is a small constant.
        length: mem::size_of::<Request>() as u16,
        object: OBJECT_MR,
        method,
        count: ATTRIBUTES as u16,
        reserved1: 0,
        driver,
        reserved2: 0,
        attributes,
    };
    // SAFETY: The context is open as long as the protection domain lives.
    let fd = unsafe { ptr::addr_of!((*pd.device().as_raw()).cmd_fd).read() };
    // SAFETY: `request` is the structure that this ioctl reads and writes, its length is told, and the two
    // places for keys that it points to outlive the call.
    match unsafe { libc::ioctl(fd, RDMA_VERBS_IOCTL, ptr::addr_of_mut!(request)) } {
        -1 => Errno::last(),
        // No region can come of a file descriptor that is none.
        _ => Errno::UnknownErrno,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_kernels_sizes() {
        assert_eq!(HEADER, 24);
        assert_eq!(mem::size_of::<Attribute>(), 16);
    }
}
