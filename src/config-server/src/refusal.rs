//! Why a request is refused, and the status that says so.
//!
//! A refusal has no body: Ignition prints the status only, and what is refused is no one's to read.
//! The log has the reason.

use std::time::Duration;

use http::StatusCode;

use crate::accept::NotAcceptable;

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// Neither GET nor HEAD.
    #[error("method is not allowed")]
    Method,
    /// Nothing is at that path.
    #[error("there is no such path")]
    Path,
    /// There is no such pool.
    #[error("there is no pool {0:?}")]
    Pool(String),
    /// There is no such configuration.
    #[error("there is no MachineConfig {0:?}")]
    Config(String),
    /// The version cannot be served at all.
    #[error(transparent)]
    Version(#[from] NotAcceptable),
    /// That version cannot express the configuration.
    #[error("MachineConfig {config:?} cannot be said in the version asked for")]
    Inexpressible {
        config: String,
        /// Each field that cannot.
        source: ignition::Error,
    },
    /// No credential, or one that no authority vouches for.
    #[error("no valid credential: {0}")]
    Unauthenticated(String),
    /// A credential that may not have this.
    #[error("{0}")]
    Forbidden(String),
    /// The credential's window has closed, or another machine has used it.
    #[error("{0}")]
    Closed(&'static str),
    /// The network of the address sends too many requests.
    #[error("the address or its network asks too often")]
    TooMany {
        /// When it may send the next request.
        after: Duration,
    },
    /// Other responses have to be sent first.
    #[error("too many bytes of answers are not sent yet")]
    Busy,
    /// The pool has no configuration to serve yet, or the API server does not respond.
    #[error("{0}")]
    NotReady(String),
    /// The configuration cannot be read.
    #[error("MachineConfig {config:?} cannot be served")]
    Broken {
        config: String,
        source: ignition::Error,
    },
}

/// How long a machine waits that came too early: pools are rendered within seconds.
const SOON: Duration = Duration::from_secs(5);

impl Refusal {
    /// The status. What may succeed later without a change of the machine is 5xx: its only client,
    /// Ignition, tries again after these and gives up after 4xx.
    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Path | Self::Pool(_) | Self::Config(_) => StatusCode::NOT_FOUND,
            // No change here makes another version.
            Self::Version(_) => StatusCode::NOT_ACCEPTABLE,
            Self::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) | Self::Closed(_) => StatusCode::FORBIDDEN,
            Self::TooMany { .. } | Self::Busy | Self::NotReady(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            // The configuration may be repaired.
            Self::Inexpressible { .. } | Self::Broken { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The word for metrics: a closed set.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Method => "Method",
            Self::Path => "Path",
            Self::Pool(_) => "UnknownPool",
            Self::Config(_) => "UnknownConfig",
            Self::Version(_) => "Version",
            Self::Inexpressible { .. } => "Inexpressible",
            Self::Unauthenticated(_) => "Unauthenticated",
            Self::Forbidden(_) => "Forbidden",
            Self::Closed(_) => "WindowClosed",
            Self::TooMany { .. } => "RateLimit",
            Self::Busy => "Busy",
            Self::NotReady(_) => "NotReady",
            Self::Broken { .. } => "Broken",
        }
    }

    /// When the same request may succeed.
    pub(crate) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::TooMany { after } => Some(*after),
            Self::Busy | Self::NotReady(_) => Some(SOON),
            Self::Method
            | Self::Path
            | Self::Pool(_)
            | Self::Config(_)
            | Self::Version(_)
            | Self::Inexpressible { .. }
            | Self::Unauthenticated(_)
            | Self::Forbidden(_)
            | Self::Closed(_)
            | Self::Broken { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_comes_again_unless_it_has_to_change() {
        let source = || ignition::parse(&serde_json::json!("x")).unwrap_err();
        let config = String::new;
        let after = Duration::from_secs(1);
        let table = [
            (Refusal::TooMany { after }, 503, Some(after)),
            (Refusal::Busy, 503, Some(SOON)),
            (Refusal::NotReady(String::new()), 503, Some(SOON)),
            (
                Refusal::Inexpressible {
                    config: config(),
                    source: source(),
                },
                500,
                None,
            ),
            (
                Refusal::Broken {
                    config: config(),
                    source: source(),
                },
                500,
                None,
            ),
            (Refusal::Closed("taken"), 403, None),
            (Refusal::Unauthenticated(String::new()), 401, None),
        ];
        for (refusal, status, retry_after) in table {
            assert_eq!(refusal.status().as_u16(), status, "{refusal}");
            assert_eq!(refusal.retry_after(), retry_after, "{refusal}");
        }
    }
}
