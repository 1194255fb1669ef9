//! Which failures pass by themselves, and how often a request is repeated.

use std::time::Duration;

use http::StatusCode;

use crate::client::WebClient;
use crate::request::{Error, WebRequest, WebResponse};

/// How often a request is repeated, and after which time first; each wait is twice the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Requests after the first.
    pub retries: u32,
    pub first: Duration,
}

impl RetryPolicy {
    /// Sends once: something else repeats it.
    pub const NONE: Self = Self {
        retries: 0,
        first: Duration::ZERO,
    };
}

impl WebResponse {
    /// Whether the same request may succeed later without a change.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        )
    }
}

impl Error {
    /// Whether the same request may succeed later without a change: the server was not reached,
    /// broke off, or was too slow.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Exchange { .. })
    }
}

impl WebClient {
    /// Sends a request, and repeats it where that may help. Only for what changes nothing.
    ///
    /// # Errors
    /// As of [`Self::send`], of the last.
    pub async fn send_patiently(
        &self,
        request: &WebRequest<'_>,
        policy: RetryPolicy,
    ) -> Result<WebResponse, Error> {
        let mut wait = policy.first;
        for _ in 0..policy.retries {
            let sent = self.send(request).await;
            let is_transient = match &sent {
                Ok(response) => response.is_transient(),
                Err(error) => error.is_transient(),
            };
            if !is_transient {
                return sent;
            }
            tracing::debug!(url = request.url, "a request is repeated");
            tokio::time::sleep(chassis::backoff::spread(wait)).await;
            wait *= 2;
        }
        self.send(request).await
    }
}
