//! Why a call of the runtime failed.

use std::fmt;

use node_update::one_line::one_line;
use tonic::{Code, Status};

use crate::kind::RuntimeKind;

/// What Linux says of a full disk, in the words that a Go program passes on.
const NO_SPACE: &str = "no space left on device";

/// A call failed, or there is no runtime to call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No socket of a runtime exists.
    #[error("no container runtime is on this host: it has neither {} nor {}",
        RuntimeKind::CriO.socket(), RuntimeKind::Containerd.socket())]
    NoRuntime,
    /// There are sockets, and no runtime responds on them.
    #[error("no container runtime responds: {}", causes.join("; "))]
    NoResponse {
        /// Of each socket, why.
        causes: Vec<String>,
    },
    /// The runtime refused a call, or could not do it.
    #[error("{runtime} cannot {operation}")]
    Call {
        runtime: RuntimeKind,
        /// With its object: `pull quay.io/a@sha256:…`.
        operation: String,
        source: RuntimeFault,
    },
    /// It did not respond in time.
    #[error("{runtime} did not {operation} within {seconds} s")]
    Late {
        runtime: RuntimeKind,
        operation: String,
        seconds: u64,
    },
}

/// What a runtime responded instead of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeFault {
    /// The code of gRPC.
    pub code: Code,
    /// One line, never empty.
    pub message: String,
}

impl fmt::Display for RuntimeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RuntimeFault {}

impl From<&Status> for RuntimeFault {
    fn from(status: &Status) -> Self {
        let message = if status.message().is_empty() {
            status.code().description()
        } else {
            status.message()
        };
        Self {
            code: status.code(),
            message: one_line(message),
        }
    }
}

impl Error {
    /// Whether the disk of the runtime is full.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::Call { source, .. } => source.message.to_ascii_lowercase().contains(NO_SPACE),
            Self::NoRuntime | Self::NoResponse { .. } | Self::Late { .. } => false,
        }
    }

    /// Whether the runtime has not what the call names.
    pub(crate) fn is_not_found(&self) -> bool {
        match self {
            Self::Call { source, .. } => source.code == Code::NotFound,
            Self::NoRuntime | Self::NoResponse { .. } | Self::Late { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_known_by_its_words() {
        let of = |message: &str| Error::Call {
            runtime: RuntimeKind::CriO,
            operation: "pull a".to_owned(),
            source: RuntimeFault::from(&Status::unknown(message)),
        };
        let full = "writing blob: write /var/lib/x: No space left on device\n";
        assert!(of(full).is_no_space());
        assert!(!of("manifest unknown").is_no_space());
        assert!(!Error::NoRuntime.is_no_space());
        assert_eq!(
            of(full).to_string(),
            "CRI-O cannot pull a",
            "the printer adds the source"
        );
    }

    #[test]
    fn a_fault_without_a_message_has_that_of_its_code() {
        let fault = RuntimeFault::from(&Status::new(Code::Unavailable, ""));
        assert_eq!(fault.to_string(), "The service is currently unavailable");
    }
}
