//! Why a request failed, by what the failure means to its caller.

use std::time::Duration;

use http::Method;
use kube::core::Status;

use super::REQUEST_LIMIT;
use crate::kubeconfig;

/// Longest time that a server may ask to be left alone: it is added to the time of the response.
pub(super) const LONGEST_RETRY: Duration = Duration::from_hours(1);

/// What came of a request that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The credentials could not be used.
    #[error("cannot use the credentials for the API server")]
    Access(#[from] kubeconfig::Error),
    /// The lease was not renewed in time, and another replica may lead: nothing was sent.
    #[error("{method} {path} was not sent: the lease has not been renewed in time")]
    NotLeading {
        /// HTTP method.
        method: Method,
        /// Path and query.
        path: String,
    },
    /// The API server was not reached, or the connection broke.
    #[error("cannot reach the API server for {method} {path}")]
    Unreachable {
        /// HTTP method.
        method: Method,
        /// Path and query.
        path: String,
        /// The client's word.
        source: Box<kube::Error>,
    },
    /// The response did not come within [`REQUEST_LIMIT`].
    #[error("no answer to {method} {path} within {} s", REQUEST_LIMIT.as_secs())]
    TimedOut {
        /// HTTP method.
        method: Method,
        /// Path and query.
        path: String,
    },
    /// The API server refused the request.
    #[error("{method} {path}: {}", describe(status))]
    Refused {
        /// HTTP method.
        method: Method,
        /// Path and query.
        path: String,
        /// Its response; `code` is always set.
        status: Box<Status>,
        /// When it asks to be tried again.
        retry_after: Option<Duration>,
    },
    /// The response is not what the path promises.
    #[error("cannot read the answer to {method} {path}")]
    Response {
        /// HTTP method.
        method: Method,
        /// Path and query.
        path: String,
        /// Where the reading stopped. It quotes no content.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The request could not be put together: a path or header with characters that do not belong
    /// there.
    #[error("cannot make a request of {method} {path}")]
    Request {
        /// HTTP method.
        method: Method,
        /// Path and query.
        path: String,
        /// What is wrong with it.
        source: http::Error,
    },
}

impl Error {
    /// HTTP status of the response, if there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(status.code),
            Self::Access(_)
            | Self::NotLeading { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Response { .. }
            | Self::Request { .. } => None,
        }
    }

    /// Whether the requested version is yet to come. The API server waits some seconds for
    /// it first.
    ///
    /// Source: `NewTooLargeResourceVersionError` of `k8s.io/apiserver`, and
    /// `CauseTypeResourceVersionTooLarge` of `k8s.io/apimachinery`.
    pub fn is_version_to_come(&self) -> bool {
        let Self::Refused { status, .. } = self else {
            return false;
        };
        let details = status.details.iter();
        let mut causes = details.flat_map(|details| &details.causes);
        causes.any(|cause| cause.reason == "ResourceVersionTooLarge")
    }

    /// Whether there is no such object, or the API has no such kind.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether the object has changed since it was read, or one of its name is there already.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// Whether the same request may succeed later without anybody changing anything.
    ///
    /// 401 is one of them: the credentials may just be rotating, and are read again for each
    /// attempt.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Access(_) | Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::Refused { status, .. } => {
                matches!(status.code, 401 | 408 | 409 | 429) || status.code >= 500
            }
            Self::NotLeading { .. } | Self::Response { .. } | Self::Request { .. } => false,
        }
    }

    /// How long the API server asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Access(_)
            | Self::NotLeading { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Response { .. }
            | Self::Request { .. } => None,
        }
    }
}

/// The error of a `Status` that the API server sent.
pub(super) fn of_status(
    method: &Method,
    path: &str,
    status: Status,
    retry_after: Option<Duration>,
) -> Error {
    let in_details = status
        .details
        .as_ref()
        .map(|details| details.retry_after_seconds)
        .filter(|seconds| *seconds > 0)
        .map(|seconds| Duration::from_secs(u64::from(seconds)).min(LONGEST_RETRY));
    Error::Refused {
        method: method.clone(),
        path: path.to_owned(),
        retry_after: retry_after.or(in_details),
        status: Box::new(status),
    }
}

/// The error of the client's own, on reading.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other failures of the client are one: there was no response"
)]
pub(super) fn of_client(path: &str, error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) => of_status(&Method::GET, path, *status, None),
        kube::Error::SerdeError(source) => Error::Response {
            method: Method::GET,
            path: path.to_owned(),
            source: Box::new(source),
        },
        other => Error::Unreachable {
            method: Method::GET,
            path: path.to_owned(),
            source: Box::new(other),
        },
    }
}

/// `429 TooManyRequests: message`, with the causes, which name the budget of a refused eviction.
fn describe(status: &Status) -> String {
    let mut text = format!("{} {}: {}", status.code, status.reason, status.message);
    for cause in status.details.iter().flat_map(|details| &details.causes) {
        if !cause.message.is_empty() && !text.contains(&cause.message) {
            text.push_str(" (");
            text.push_str(&cause.message);
            text.push(')');
        }
    }
    text
}
