// SPDX-License-Identifier: GPL-2.0

//! RDMA devices: found by name, opened, asked for their port and addresses.

#![expect(unsafe_code, reason = "libibverbs")]

use crate::call::CallError;
use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use rdma_mummy_sys::{
    IBV_GID_TYPE_ROCE_V2, ibv_alloc_pd, ibv_close_device, ibv_context, ibv_dealloc_pd, ibv_device,
    ibv_free_device_list, ibv_get_device_list, ibv_get_device_name, ibv_gid_entry, ibv_mtu,
    ibv_open_device, ibv_pd, ibv_port_attr, ibv_query_gid_table, ibv_query_port,
};
use std::{
    ffi::CStr,
    mem,
    net::Ipv6Addr,
    ptr::{self, NonNull},
    rc::Rc,
};

/// The port that is used: soft RoCE has one, and a two-port card has this one too.
pub(super) const PORT: u8 = 1;

/// The list of devices, as libibverbs gave it.
///
/// # Invariants
///
/// `first` is an array of `count` valid devices, from `ibv_get_device_list`, not yet freed.
struct DeviceList {
    first: NonNull<*mut ibv_device>,
    count: usize,
}

impl DeviceList {
    fn new() -> Result<Self> {
        let mut count = 0;
        // SAFETY: `count` is writable.
        let list = unsafe { ibv_get_device_list(&mut count) };
        let Some(first) = NonNull::new(list) else {
            return Err(list_failed(CallError::last("ibv_get_device_list", "")));
        };
        // INVARIANT: The call succeeded, so it told the number of devices in the array it returned.
        Ok(Self {
            first,
            count: usize::try_from(count)?,
        })
    }

    fn iter(&self) -> impl Iterator<Item = (NonNull<ibv_device>, String)> + '_ {
        (0..self.count).filter_map(|index| {
            // SAFETY: By the type invariant, `index` is inside the array.
            let device = NonNull::new(unsafe { *self.first.as_ptr().add(index) })?;
            // SAFETY: By the type invariant, the device is valid, so its name is a C string that lives
            // as long as it does.
            let name = unsafe { CStr::from_ptr(ibv_get_device_name(device.as_ptr())) };
            Some((device, name.to_string_lossy().into_owned()))
        })
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, the array is live; devices in use are counted by the library.
        unsafe { ibv_free_device_list(self.first.as_ptr()) };
    }
}

/// Says what to do when not even the list of devices could be had.
fn list_failed(failed: CallError) -> anyhow::Error {
    let remedy = match failed.errno {
        // What the stand-in answers when there is no library behind it.
        Errno::EOPNOTSUPP => {
            "libibverbs.so.1 was not found: apt-get install libibverbs1 ibverbs-providers"
        }
        Errno::ENOSYS => "the kernel has no user-space verbs: modprobe ib_uverbs",
        _ => "no list of RDMA devices",
    };
    anyhow::Error::new(failed).context(remedy)
}

/// An open RDMA device.
///
/// # Invariants
///
/// `context` is from `ibv_open_device` and not yet closed.
pub(crate) struct Device {
    context: NonNull<ibv_context>,
    name: String,
}

/// An address of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gid {
    pub(crate) index: u8,
    pub(crate) raw: [u8; 16],
}

impl Gid {
    /// Whether it is an IPv4 address in IPv6 clothes.
    pub(crate) fn is_ipv4(&self) -> bool {
        Ipv6Addr::from(self.raw).to_ipv4_mapped().is_some()
    }
}

impl Device {
    /// Opens a device by its name, or the only one if no name is given.
    pub(crate) fn open(wanted: Option<&str>) -> Result<Rc<Self>> {
        let list = DeviceList::new()?;
        let devices: Vec<_> = list.iter().collect();
        let found = match wanted {
            Some(wanted) => devices.iter().find(|(_, name)| name == wanted),
            None if devices.len() == 1 => devices.first(),
            None => None,
        };
        let Some((device, name)) = found else {
            bail!(unknown_device(wanted, &devices));
        };
        // SAFETY: The device is on the list, which lives until the end of this function.
        let context = unsafe { ibv_open_device(device.as_ptr()) };
        let context = NonNull::new(context)
            .ok_or_else(|| CallError::last("ibv_open_device", format!("device={name}")))
            .context("is /dev/infiniband/uverbs* there, and may it be opened?")?;
        // INVARIANT: The device was just opened.
        Ok(Rc::new(Self {
            context,
            name: name.clone(),
        }))
    }

    /// The device's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn as_raw(&self) -> *mut ibv_context {
        self.context.as_ptr()
    }

    fn port(&self) -> Result<ibv_port_attr, CallError> {
        // SAFETY: The structure is plain numbers, for which zero is valid.
        let mut port: ibv_port_attr = unsafe { mem::zeroed() };
        // SAFETY: By the type invariant, the context is open; `port` is writable.
        let answer = unsafe { ibv_query_port(self.as_raw(), PORT, &mut port) };
        CallError::check(answer, "ibv_query_port", || format!("device={}", self.name))?;
        Ok(port)
    }

    /// The path MTU of the port, as the number that verbs use for it.
    pub(crate) fn mtu(&self) -> Result<ibv_mtu::Type, CallError> {
        Ok(self.port()?.active_mtu)
    }

    /// The RoCE v2 addresses of the port, IPv4 ones first.
    pub(crate) fn roce_gids(&self) -> Result<Vec<Gid>> {
        let capacity = usize::try_from(self.port()?.gid_tbl_len)?;
        // SAFETY: The structure is plain numbers, for which zero is valid.
        let mut entries: Vec<ibv_gid_entry> = vec![unsafe { mem::zeroed() }; capacity];
        // SAFETY: By the type invariant, the context is open; `entries` has room for `capacity`.
        let answer =
            unsafe { ibv_query_gid_table(self.as_raw(), entries.as_mut_ptr(), capacity, 0) };
        let count = usize::try_from(answer).map_err(|_| {
            // The answer is a negative errno.
            let errno = Errno::from_raw(i32::try_from(answer.unsigned_abs()).unwrap_or(0));
            CallError::new(
                "ibv_query_gid_table",
                format!("device={}", self.name),
                errno,
            )
        })?;
        let mut gids: Vec<_> = entries
            .iter()
            .take(count)
            .filter(|entry| {
                entry.port_num == u32::from(PORT) && entry.gid_type == IBV_GID_TYPE_ROCE_V2
            })
            .filter_map(|entry| {
                Some(Gid {
                    index: u8::try_from(entry.gid_index).ok()?,
                    // SAFETY: All members of the union are plain bytes.
                    raw: unsafe { entry.gid.raw },
                })
            })
            .collect();
        gids.sort_by_key(|gid| !gid.is_ipv4());
        Ok(gids)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, the context is open, and what was made from it is gone: it would
        // hold a reference on this object.
        let answer = unsafe { ibv_close_device(self.as_raw()) };
        report(CallError::check(answer, "ibv_close_device", || {
            format!("device={}", self.name)
        }));
    }
}

fn unknown_device(wanted: Option<&str>, devices: &[(NonNull<ibv_device>, String)]) -> String {
    let names: Vec<_> = devices.iter().map(|(_, name)| name.as_str()).collect();
    match (wanted, names.is_empty()) {
        (_, true) => "no RDMA device: rdma link add rxe0 type rxe netdev <interface>".to_owned(),
        (Some(wanted), _) => format!("no RDMA device {wanted}: there is {}", names.join(", ")),
        (None, _) => format!("which RDMA device? --device one of {}", names.join(", ")),
    }
}

/// A protection domain.
///
/// # Invariants
///
/// `pd` is from `ibv_alloc_pd` and not yet deallocated.
pub(crate) struct Pd {
    pd: NonNull<ibv_pd>,
    device: Rc<Device>,
}

impl Pd {
    /// Allocates one on `device`.
    pub(crate) fn new(device: &Rc<Device>) -> Result<Rc<Self>, CallError> {
        // SAFETY: The context is open as long as the device lives.
        let pd = unsafe { ibv_alloc_pd(device.as_raw()) };
        let pd = NonNull::new(pd)
            .ok_or_else(|| CallError::last("ibv_alloc_pd", format!("device={}", device.name)))?;
        // INVARIANT: It was just allocated.
        Ok(Rc::new(Self {
            pd,
            device: Rc::clone(device),
        }))
    }

    /// The device it is on.
    pub(crate) fn device(&self) -> &Rc<Device> {
        &self.device
    }

    pub(super) fn as_raw(&self) -> *mut ibv_pd {
        self.pd.as_ptr()
    }

    /// The number that the kernel knows it by.
    pub(super) fn handle(&self) -> u32 {
        // SAFETY: By the type invariant, the structure is live; the library never changes its handle.
        unsafe { ptr::addr_of!((*self.as_raw()).handle).read() }
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, it is live, and no queue pair or region of it is left.
        let answer = unsafe { ibv_dealloc_pd(self.as_raw()) };
        report(CallError::check(answer, "ibv_dealloc_pd", String::new));
    }
}

/// Says that giving something back failed: drop has no other way to tell.
pub(super) fn report(outcome: Result<(), CallError>) {
    if let Err(failed) = outcome {
        eprintln!("rdmabuf: {failed}");
    }
}
