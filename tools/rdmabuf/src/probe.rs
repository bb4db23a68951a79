// SPDX-License-Identifier: GPL-2.0

//! `rdmabuf probe`: whether a device takes dma-bufs, by the calls that programs find it out with.

use crate::{
    Verdict,
    call::registration_errno,
    cli::ProbeOptions,
    diagnose::{NO_FD, Refusal, kernel_has_symbol, meaning, refusal},
    exporter::{Kind, page_size},
    region::Region,
    report::{Column, Report, print, table},
    verbs::{Access, Device, Mr, Pd, Road, kernel_answer, register_fd},
};
use anyhow::Result;
use nix::errno::Errno;
use serde::Serialize;
use std::rc::Rc;

/// What a program asks to find out.
#[derive(Debug, Serialize)]
struct Question {
    asker: &'static str,
    call: &'static str,
    arguments: String,
}

/// A question, the answer, and what the asker makes of it.
#[derive(Debug, Serialize)]
struct Finding {
    #[serde(flatten)]
    question: Question,
    answer: String,
    meaning: String,
    /// Whether the asker goes on to use dma-bufs; `None` where nobody decides by this.
    usable: Option<bool>,
}

/// Everything that a probe found.
#[derive(Debug, Serialize)]
struct ProbeReport {
    device: String,
    exporter: Kind,
    usable: bool,
    findings: Vec<Finding>,
    refusal: Option<Refusal>,
}

/// Runs the command.
pub(crate) fn run(options: &ProbeOptions) -> Result<Verdict> {
    let device = Device::open(options.device.as_deref())?;
    let pd = Pd::new(&device)?;
    let page = page_size()?;
    let (real, errno) = registration(&pd, options, page);
    let findings = vec![
        ucx(&pd, page as u64),
        nccl(&pd),
        libfabric(&pd),
        libfabric_symbol(),
        kernel(&pd, Road::RegDmabufMr, page as u64),
        kernel(&pd, Road::RegMr, page as u64),
        real,
    ];
    let report = ProbeReport {
        device: device.name().to_owned(),
        exporter: options.exporter,
        usable: findings.iter().all(|finding| finding.usable != Some(false)),
        refusal: (errno == Some(Errno::EOPNOTSUPP)).then(|| refusal(&pd)),
        findings,
    };
    print(&report, options.format)?;
    Ok(if report.usable {
        Verdict::Good
    } else {
        Verdict::Bad
    })
}

/// One page with every right; only EBADF says yes.
fn ucx(pd: &Rc<Pd>, page: u64) -> Finding {
    let access =
        Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    no_fd("UCX", pd, page, access, |errno| errno == Errno::EBADF)
}

/// Nothing with no right; two errnos say no.
fn nccl(pd: &Rc<Pd>) -> Finding {
    no_fd("NCCL", pd, 0, Access::LOCAL_READ, |errno| {
        errno != Errno::EOPNOTSUPP && errno != Errno::EPROTONOSUPPORT
    })
}

/// The same call; one errno says no.
fn libfabric(pd: &Rc<Pd>) -> Finding {
    no_fd("libfabric", pd, 0, Access::LOCAL_READ, |errno| {
        errno != Errno::EOPNOTSUPP
    })
}

/// What a program asks with a file descriptor that is none, and how it reads the errno.
fn no_fd(
    asker: &'static str,
    pd: &Rc<Pd>,
    length: u64,
    access: Access,
    usable: impl FnOnce(Errno) -> bool,
) -> Finding {
    let question = Question {
        asker,
        call: "ibv_reg_dmabuf_mr",
        arguments: format!("fd -1, {length} bytes, access {access}"),
    };
    match register_fd(pd, NO_FD, &Region::whole(length), access) {
        Err(failed) => question.refused(failed.errno, Some(usable(failed.errno))),
        Ok(_) => question.answered(
            "success",
            "a region of no file: this cannot be",
            Some(false),
        ),
    }
}

/// libfabric wants this text among the kernel's symbols before it asks anything.
fn libfabric_symbol() -> Finding {
    let question = Question {
        asker: "libfabric",
        call: "ib_umem_dmabuf_get",
        arguments: "in /proc/kallsyms".to_owned(),
    };
    let found = kernel_has_symbol(question.call);
    let (answer, meaning) = if found {
        ("found", "libfabric goes on to ask")
    } else {
        (
            "missing",
            "libfabric does not even ask: the kernel needs CONFIG_KALLSYMS=y",
        )
    };
    question.answered(answer, meaning, Some(found))
}

/// The same without libibverbs, which may have answered by itself.
fn kernel(pd: &Rc<Pd>, road: Road, page: u64) -> Finding {
    let access = Access::LOCAL_WRITE;
    let question = Question {
        asker: "rdmabuf",
        call: match road {
            Road::RegDmabufMr => "ioctl REG_DMABUF_MR",
            Road::RegMr => "ioctl REG_MR",
        },
        arguments: format!("fd -1, {page} bytes, access {access}"),
    };
    match kernel_answer(pd, road, &Region::whole(page), access) {
        Some(errno) => question.refused(errno, None),
        None => question.answered("none", "the kernel does not know this call", None),
    }
}

/// A page of the exporter, registered and deregistered.
fn registration(pd: &Rc<Pd>, options: &ProbeOptions, page: usize) -> (Finding, Option<Errno>) {
    let exporter = options.exporter;
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
    let registered = || -> Result<()> {
        let buffer = exporter.exporter(options.vram.layout).allocate(page)?;
        let mr = Mr::register(pd, buffer.memory()?, &Region::whole(page as u64), access)?;
        Ok(mr.deregister()?)
    };
    let question = Question {
        asker: "rdmabuf",
        call: if exporter.is_dmabuf() {
            "ibv_reg_dmabuf_mr"
        } else {
            "ibv_reg_mr_iova"
        },
        arguments: format!("{exporter}, {page} bytes, access {access}"),
    };
    let Err(error) = registered() else {
        let meaning = "registered and deregistered";
        return (question.answered("success", meaning, Some(true)), None);
    };
    let errno = registration_errno(&error);
    let finding = match errno {
        Some(errno) => question.refused(errno, Some(false)),
        // Something before the registration: the exporter is missing, say.
        None => question.answered("error", format!("{error:#}"), Some(false)),
    };
    (finding, errno)
}

impl Question {
    fn answered(
        self,
        answer: impl Into<String>,
        meaning: impl Into<String>,
        usable: Option<bool>,
    ) -> Finding {
        Finding {
            question: self,
            answer: answer.into(),
            meaning: meaning.into(),
            usable,
        }
    }

    fn refused(self, errno: Errno, usable: Option<bool>) -> Finding {
        let answer = format!("{errno:?} ({})", errno as i32);
        self.answered(answer, meaning(errno), usable)
    }
}

impl Finding {
    fn cells(&self) -> [String; 5] {
        let Question {
            asker,
            call,
            arguments,
        } = &self.question;
        let usable = match self.usable {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "-",
        };
        [
            (*asker).to_owned(),
            format!("{call}\n{arguments}"),
            self.answer.clone(),
            self.meaning.clone(),
            usable.to_owned(),
        ]
    }
}

impl Report for ProbeReport {
    fn text(&self) -> String {
        let columns = ["asked by", "call", "answer", "meaning", "usable"].map(Column::Text);
        let refusal = self
            .refusal
            .as_ref()
            .map_or(String::new(), |refusal| format!("{refusal}\n"));
        format!(
            "{}\n{refusal}rdmabuf probe: {} with {} is {}",
            table(columns, self.findings.iter().map(Finding::cells)),
            self.device,
            self.exporter,
            if self.usable { "usable" } else { "NOT usable" }
        )
    }
}
