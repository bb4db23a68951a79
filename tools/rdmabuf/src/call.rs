// SPDX-License-Identifier: GPL-2.0

//! A failed call: its name, its arguments and its errno, kept together until someone reads them.

use nix::errno::Errno;
use thiserror::Error;

/// A system call or a verb that failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{call}({arguments}): {errno:?} ({}), {}", *errno as i32, errno.desc())]
pub(crate) struct CallError {
    /// The name a manual page has.
    pub(crate) call: &'static str,
    /// The arguments that matter, as `name=value`.
    pub(crate) arguments: String,
    /// Why it failed.
    pub(crate) errno: Errno,
}

impl CallError {
    /// A failure whose errno is known.
    pub(crate) fn new(call: &'static str, arguments: impl Into<String>, errno: Errno) -> Self {
        Self {
            call,
            arguments: arguments.into(),
            errno,
        }
    }

    /// A failure whose errno the thread's `errno` holds.
    pub(crate) fn last(call: &'static str, arguments: impl Into<String>) -> Self {
        Self::new(call, arguments, Errno::last())
    }

    /// Judges the answer of a verb that returns an errno, or -1 with `errno` set.
    pub(crate) fn check(
        answer: i32,
        call: &'static str,
        arguments: impl FnOnce() -> String,
    ) -> Result<(), Self> {
        match answer {
            0 => Ok(()),
            // Some return the errno with a minus sign, and -1 says that `errno` has it.
            -1 => Err(Self::last(call, arguments())),
            other => Err(Self::new(
                call,
                arguments(),
                Errno::from_raw(other.saturating_abs()),
            )),
        }
    }
}

/// The errno of the registration that an error came from, where it came from one.
pub(crate) fn registration_errno(error: &anyhow::Error) -> Option<Errno> {
    let failed: &CallError = error.downcast_ref()?;
    failed.call.starts_with("ibv_reg").then_some(failed.errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_call_arguments_and_errno() {
        let failed = CallError::new("ibv_reg_dmabuf_mr", "fd=7, offset=12", Errno::EBADF);
        assert_eq!(
            failed.to_string(),
            "ibv_reg_dmabuf_mr(fd=7, offset=12): EBADF (9), Bad file number"
        );
    }

    #[test]
    fn only_a_registration_has_the_errno_of_one() {
        let errno = |call| {
            let failed = CallError::new(call, "", Errno::EOPNOTSUPP);
            registration_errno(&anyhow::Error::new(failed).context("what was to be done"))
        };
        assert_eq!(errno("ibv_reg_dmabuf_mr"), Some(Errno::EOPNOTSUPP));
        assert_eq!(errno("ibv_modify_qp"), None);
        assert_eq!(registration_errno(&anyhow::anyhow!("no call")), None);
    }

    #[test]
    fn a_verb_answers_zero_or_an_errno() {
        assert_eq!(CallError::check(0, "verb", String::new), Ok(()));
        let errno = |answer| CallError::check(answer, "verb", String::new).map_err(|f| f.errno);
        assert_eq!(errno(22), Err(Errno::EINVAL));
        assert_eq!(errno(-22), Err(Errno::EINVAL));
    }
}
