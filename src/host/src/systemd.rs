//! The host's systemd: units of the running system over D-Bus, unit files of a deployment.

mod bus;
pub mod links;
mod manager;
mod offline;

use std::io;

pub use bus::{Job, Property};
pub use manager::SystemdClient;
pub use offline::Offline;
pub use zbus::Variant;

/// Active states of a unit that runs, starts or stops.
pub const RUNNING: &[&str] = &["active", "activating", "deactivating", "reloading"];

/// A change of a unit's links in `/etc/systemd/system`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enablement {
    /// `systemctl enable`.
    Enable,
    /// `systemctl disable`.
    Disable,
    /// `systemctl preset`.
    Preset,
}

impl Enablement {
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Preset => "preset",
        }
    }
}

/// Why an operation of systemd failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// systemd cannot be reached.
    #[error("cannot reach systemd {by}")]
    Connect {
        /// The way: `on the system bus` or `over its own socket`.
        by: &'static str,
        #[source]
        source: Box<zbus::Error>,
    },
    /// systemd could not be reached a moment ago, and is not tried again yet.
    #[error("systemd was not to be reached a moment ago")]
    Unreached,
    /// A call was refused or failed.
    #[error("cannot {operation} {unit}")]
    Call {
        /// The operation: `restart`, `enable`, `read the state of`.
        operation: &'static str,
        /// The unit, or another object of the call.
        unit: String,
        #[source]
        source: Box<zbus::Error>,
    },
    /// A job of a unit failed.
    #[error("{operation} of {unit} ended as {result:?}")]
    Job {
        /// `start`, `stop`, `restart` or `reload`.
        operation: &'static str,
        unit: String,
        /// systemd's result: `failed`, `canceled`, `timeout`, `dependency`, …
        result: String,
    },
    /// A job did not end in time.
    #[error("{operation} of {unit} did not end in {seconds} s")]
    Late {
        /// `start`, `stop`, `restart` or `reload`.
        operation: &'static str,
        unit: String,
        seconds: u64,
    },
    /// `systemctl --root` failed.
    #[error(transparent)]
    Offline(#[from] Box<crate::process::Error>),
}

impl Error {
    /// Whether the connection broke after the call was sent: the operation may have been done.
    pub fn is_answer_lost(&self) -> bool {
        let Self::Call { source, .. } = self else {
            return false;
        };
        // Not a call that timed out: a server that did not answer in that time does not do it
        // either.
        matches!(&**source, zbus::Error::InputOutput(error) if error.kind() != io::ErrorKind::TimedOut)
    }

    /// Whether the host is already shutting down, at the request of another program.
    pub fn is_in_progress(&self) -> bool {
        matches!(self, Self::Call { source, .. } if manager::is_in_progress(source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_took_too_long_is_no_lost_answer() {
        for (kind, is_lost) in [
            (io::ErrorKind::UnexpectedEof, true),
            (io::ErrorKind::BrokenPipe, true),
            (io::ErrorKind::TimedOut, false),
        ] {
            let source = zbus::Error::InputOutput(io::Error::from(kind).into());
            let error = Error::Call {
                operation: "Reboot",
                unit: String::new(),
                source: Box::new(source),
            };
            assert_eq!(error.is_answer_lost(), is_lost, "{kind}");
        }
    }
}
