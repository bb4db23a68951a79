// SPDX-License-Identifier: GPL-2.0

//! Ctrl-C and SIGTERM as something to ask for, so that everything set up is taken down again.

use crate::call::CallError;
use anyhow::{Result, bail};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
};
use std::{cell::Cell, io::Read, os::fd::AsFd};

/// The signals that end the program, held back until they are asked for.
pub(crate) struct Stop {
    signals: SignalFd,
    /// Once come, a signal is remembered: reading takes it away.
    come: Cell<Option<Signal>>,
}

impl Stop {
    /// From here on the signals wait. Children get them as ever: std empties their mask.
    pub(crate) fn new() -> Result<Self, CallError> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block()
            .map_err(|errno| CallError::new("pthread_sigmask", "SIG_BLOCK", errno))?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
            .map_err(|errno| CallError::new("signalfd", "", errno))?;
        Ok(Self {
            signals,
            come: Cell::new(None),
        })
    }

    /// The signal that has come, if one has.
    pub(crate) fn come(&self) -> Result<Option<Signal>> {
        match self.signals.read_signal() {
            Ok(None) => {}
            Ok(Some(info)) => {
                let number = i32::try_from(info.ssi_signo)?;
                self.come.set(Some(Signal::try_from(number)?));
            }
            Err(errno) => bail!(CallError::new("read", "of a signalfd", errno)),
        }
        Ok(self.come.get())
    }

    /// Fails if one of the signals has come.
    pub(crate) fn check(&self) -> Result<()> {
        match self.come()? {
            None => Ok(()),
            Some(signal) => bail!("stopped by {signal}"),
        }
    }

    /// Waits for one of the signals or the end of `input`, whose bytes are thrown away.
    pub(crate) fn wait(&self, mut input: impl Read + AsFd) -> Result<()> {
        loop {
            let mut fds = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(input.as_fd(), PollFlags::POLLIN),
            ];
            poll(&mut fds, PollTimeout::NONE).map_err(|errno| CallError::new("poll", "", errno))?;
            let [signalled, readable] = fds.map(|fd| fd.any().unwrap_or(false));
            if signalled || (readable && input.read(&mut [0; 256])? == 0) {
                return Ok(());
            }
        }
    }
}
