// SPDX-License-Identifier: GPL-2.0

//! What an errno of a registration means, and what to do about it.

use crate::{
    debugfs,
    region::Region,
    verbs::{Access, Pd, Road, kernel_answer, register_fd},
};
use nix::errno::Errno;
use serde::Serialize;
use std::{
    fmt,
    fs::File,
    io::{BufRead, BufReader},
    rc::Rc,
};

/// A file descriptor that is none.
pub(crate) const NO_FD: i32 = -1;

/// What an errno says about a registration of a dma-buf.
pub(crate) fn meaning(errno: Errno) -> &'static str {
    match errno {
        Errno::EBADF => "supported: the fd was looked at, and is not open",
        Errno::EINVAL => "supported, but the file is no dma-buf, or the range or access cannot be",
        Errno::EOPNOTSUPP => "not supported",
        Errno::EPROTONOSUPPORT => "the kernel does not know this call",
        Errno::EACCES => "the dma-buf was not opened for this access",
        Errno::EBUSY => "the device cannot reach the exporter's memory",
        Errno::ENODEV => "the exporter has taken the buffer back",
        Errno::ENOMEM => "out of memory, or the exporter could not map the buffer",
        Errno::EINTR => "a signal came first",
        Errno::EPERM => "not permitted",
        _ => "not an answer that a registration is known to give",
    }
}

/// Whether a text is among the kernel's symbols, those of its modules included.
pub(crate) fn kernel_has_symbol(text: &str) -> bool {
    File::open("/proc/kallsyms").is_ok_and(|file| {
        BufReader::new(file)
            .lines()
            .map_while(Result::ok)
            .any(|line| line.contains(text))
    })
}

/// Why a registration was refused with EOPNOTSUPP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Refusal {
    pub(crate) errno: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) remedy: &'static str,
    /// Whether it was the kernel that refused, and not the library.
    pub(crate) by_kernel: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            errno,
            meaning,
            remedy,
            ..
        } = self;
        write!(f, "{errno}: {meaning}\nremedy: {remedy}")
    }
}

/// What is known about the way from the library to the importer.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// The library's answer to a file descriptor that is none.
    library: Option<Errno>,
    /// The kernel's answer to the same, without the library.
    kernel: Option<Errno>,
    /// The kernel has a registry of importers: it is a patched one.
    registry: bool,
    /// The importer is loaded.
    importer: bool,
}

/// Finds out who refused a registration with EOPNOTSUPP, and what helps.
pub(crate) fn refusal(pd: &Rc<Pd>) -> Refusal {
    let (probe, access) = (Region::whole(4096), Access::LOCAL_WRITE);
    judge(Facts {
        library: register_fd(pd, NO_FD, &probe, access)
            .err()
            .map(|failed| failed.errno),
        kernel: kernel_answer(pd, Road::RegDmabufMr, &probe, access),
        registry: kernel_has_symbol("ib_dmabuf_region_get"),
        importer: debugfs::is_loaded(),
    })
}

fn judge(facts: Facts) -> Refusal {
    const REFUSED: Option<Errno> = Some(Errno::EOPNOTSUPP);
    let (by_kernel, meaning, remedy) = match facts {
        Facts { kernel: None, .. } => (
            false,
            "libibverbs refused, and the kernel did not answer when asked directly",
            "boot a kernel that has RDMA_VERBS_IOCTL",
        ),
        Facts {
            kernel: REFUSED,
            registry: false,
            ..
        } => (
            true,
            "the kernel refused, and has no registry of dma-buf importers",
            "boot a kernel with patches/7.3, or modprobe rdma_rxe if this is one",
        ),
        Facts {
            kernel: REFUSED,
            importer: false,
            ..
        } => (
            true,
            "the kernel refused: no importer is loaded",
            "modprobe rdma_dmabuf, or insmod rdma_dmabuf.ko",
        ),
        Facts {
            kernel: REFUSED, ..
        } => (
            true,
            "the kernel refused: an importer is there, but this device's driver does not use it",
            "take a soft RoCE device of the patched rdma_rxe",
        ),
        Facts {
            library: REFUSED, ..
        } => (
            false,
            "libibverbs refused without asking the kernel, which would accept",
            "install the rxe provider of patches/rdma-core (make guest builds it)",
        ),
        Facts { .. } => (
            true,
            "the kernel takes dma-bufs, but not this one",
            "take an exporter whose memory is system RAM",
        ),
    };
    Refusal {
        errno: "EOPNOTSUPP",
        meaning,
        remedy,
        by_kernel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: Option<Errno> = Some(Errno::EOPNOTSUPP);
    const YES: Option<Errno> = Some(Errno::EBADF);

    fn told(
        library: Option<Errno>,
        kernel: Option<Errno>,
        registry: bool,
        importer: bool,
    ) -> (&'static str, bool) {
        let refusal = judge(Facts {
            library,
            kernel,
            registry,
            importer,
        });
        (refusal.remedy, refusal.by_kernel)
    }

    #[test]
    fn a_missing_importer_is_loaded() {
        let (remedy, by_kernel) = told(NO, NO, true, false);
        assert!(remedy.contains("modprobe rdma_dmabuf") && by_kernel);
    }

    #[test]
    fn a_provider_that_does_not_ask_is_replaced() {
        for importer in [false, true] {
            let (remedy, by_kernel) = told(NO, YES, importer, importer);
            assert!(remedy.contains("patches/rdma-core") && !by_kernel);
        }
    }

    #[test]
    fn a_stock_kernel_is_patched() {
        assert!(told(NO, NO, false, false).0.contains("patches/7.3"));
    }

    #[test]
    fn another_driver_is_told_from_a_missing_importer() {
        assert!(told(NO, NO, true, true).0.contains("patched rdma_rxe"));
    }

    #[test]
    fn an_exporter_that_is_refused_is_told_from_a_missing_importer() {
        let (remedy, by_kernel) = told(YES, YES, true, true);
        assert!(remedy.contains("exporter") && by_kernel);
    }

    #[test]
    fn a_kernel_that_does_not_answer_is_not_the_one_that_refused() {
        assert!(!told(NO, None, false, false).1);
    }

    #[test]
    fn symbols_that_are_not_there_are_not_found() {
        assert!(!kernel_has_symbol("no such symbol, for it has blanks"));
    }
}
