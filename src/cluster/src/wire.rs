//! One request to the API server, and errors by what they mean.
//!
//! The typed layer of the client is left out on purpose: it reads whole objects where a few fields are wanted, and its errors drop the
//! `Retry-After` header, which evictions need.

use std::time::Duration;

use futures::{Stream, StreamExt as _};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, StatusCode};
use kube::Client;
use kube::api::WatchEvent;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The longest a request may take from its first byte to the last of its answer. The API server gives up after 60 s itself.
pub const REQUEST_LIMIT: Duration = Duration::from_mins(1);

/// What a request sends.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// Nothing.
    Empty,
    /// Nothing; of each object of a watch only its metadata is wanted.
    Metadata,
    /// Nothing; of each object of a list only its metadata is wanted.
    MetadataList,
    /// An object to create.
    Object(&'a Value),
    /// A JSON merge patch: RFC 7386.
    MergePatch(&'a Value),
    /// An object with the fields that its writer owns: server-side apply.
    Apply(&'a Value),
}

impl Content<'_> {
    /// The form in which the answer is wanted.
    const fn accept(self) -> &'static str {
        match self {
            Self::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Self::MetadataList => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            }
            Self::Empty | Self::Object(_) | Self::MergePatch(_) | Self::Apply(_) => {
                "application/json"
            }
        }
    }
}

/// Writes `text` as part of a query: percent-encodes what has a meaning there.
pub fn escape(text: &str) -> String {
    use std::fmt::Write as _;
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else if write!(escaped, "%{byte:02X}").is_err() {
            // Writing to a String cannot fail.
            break;
        }
    }
    escaped
}

/// One word of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<T> {
    /// The object is there, like this: new, changed, or simply present at the start.
    Present(T),
    /// The object is gone; this is how it was last.
    Gone(T),
    /// Nothing changed up to this resource version.
    Position(String),
}

/// What came of a request that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The credentials could not be used.
    #[error("cannot use the credentials for the API server")]
    Access(#[from] crate::access::Error),
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
    /// The answer did not come within [`REQUEST_LIMIT`].
    #[error("no answer to {method} {path} within {} s", REQUEST_LIMIT.as_secs())]
    TimedOut {
        /// HTTP method.
        method: Method,
        /// Path and query.
        path: String,
    },
    /// The API server said no.
    #[error("{method} {path}: {}", describe(status))]
    Refused {
        /// HTTP method.
        method: Method,
        /// Path and query.
        path: String,
        /// Its answer; `code` is always set.
        status: Box<Status>,
        /// When it asks to be tried again.
        retry_after: Option<Duration>,
    },
    /// The answer is not what the path promises.
    #[error("cannot read the answer to {method} {path}")]
    Answer {
        /// HTTP method.
        method: Method,
        /// Path and query.
        path: String,
        /// Where the reading stopped. It quotes no content.
        source: serde_json::Error,
    },
    /// The request could not be put together: a path or header with characters that do not belong there.
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
    /// HTTP status of the answer, if there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(status.code),
            Self::Access(_)
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Answer { .. }
            | Self::Request { .. } => None,
        }
    }

    /// Whether the same request may succeed later without anybody changing anything.
    ///
    /// 401 is one of them: the credentials may just be rotating, and are read again for each attempt.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Access(_) | Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::Refused { status, .. } => {
                matches!(status.code, 401 | 408 | 409 | 429) || status.code >= 500
            }
            Self::Answer { .. } | Self::Request { .. } => false,
        }
    }

    /// How long the API server asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Access(_)
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Answer { .. }
            | Self::Request { .. } => None,
        }
    }
}

/// Sends one request and reads its answer as `T`.
///
/// Shape: `path` starts with `/` and carries its query, escaped.
///
/// # Errors
/// All of [`Error`] but [`Error::Access`].
pub async fn send<T: DeserializeOwned>(
    client: &Client,
    method: Method,
    path: &str,
    content: Content<'_>,
) -> Result<T, Error> {
    let request = request(&method, path, content)?;
    let exchange = async {
        let unreachable = |source| Error::Unreachable {
            method: method.clone(),
            path: path.to_owned(),
            source: Box::new(source),
        };
        let response = client.send(request).await.map_err(unreachable)?;
        let (head, body) = response.into_parts();
        let bytes = body.collect_bytes().await.map_err(unreachable)?;
        if head.status.is_success() {
            serde_json::from_slice(&bytes).map_err(|source| Error::Answer {
                method: method.clone(),
                path: path.to_owned(),
                source,
            })
        } else {
            Err(refused(&method, path, head.status, &head.headers, &bytes))
        }
    };
    tokio::time::timeout(REQUEST_LIMIT, exchange)
        .await
        .unwrap_or_else(|_| {
            Err(Error::TimedOut {
                method: method.clone(),
                path: path.to_owned(),
            })
        })
}

/// Opens a watch: the events of `path` until the API server ends it. Reading has no deadline; whoever reads brings one.
///
/// # Errors
/// All of [`Error`] but [`Error::Access`], for the opening and for each event. An event that says `ERROR` is [`Error::Refused`].
pub async fn watch<T>(
    client: &Client,
    path: &str,
    content: Content<'_>,
) -> Result<impl Stream<Item = Result<Change<T>, Error>> + use<T>, Error>
where
    T: Clone + DeserializeOwned,
{
    let (parts, _) = request(&Method::GET, path, content)?.into_parts();
    let opening = client.request_events::<T>(Request::from_parts(parts, Vec::new()));
    let events = match tokio::time::timeout(REQUEST_LIMIT, opening).await {
        Ok(Ok(events)) => events,
        Ok(Err(error)) => return Err(of_client(path, error)),
        Err(_) => {
            return Err(Error::TimedOut {
                method: Method::GET,
                path: path.to_owned(),
            });
        }
    };
    let path = path.to_owned();
    Ok(events.map(move |event| match event {
        Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Ok(Change::Present(object)),
        Ok(WatchEvent::Deleted(object)) => Ok(Change::Gone(object)),
        Ok(WatchEvent::Bookmark(bookmark)) => {
            Ok(Change::Position(bookmark.metadata.resource_version))
        }
        Ok(WatchEvent::Error(status)) => Err(of_status(&Method::GET, &path, *status, None)),
        Err(error) => Err(of_client(&path, error)),
    }))
}

fn request(method: &Method, path: &str, content: Content<'_>) -> Result<Request<Body>, Error> {
    let builder = Request::builder()
        .method(method.clone())
        .uri(path)
        .header(ACCEPT, content.accept());
    let built = match content {
        Content::Empty | Content::Metadata | Content::MetadataList => builder.body(Body::empty()),
        Content::Object(value) => builder
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(value.to_string().into_bytes())),
        Content::MergePatch(value) => builder
            .header(CONTENT_TYPE, "application/merge-patch+json")
            .body(Body::from(value.to_string().into_bytes())),
        // JSON is YAML.
        Content::Apply(value) => builder
            .header(CONTENT_TYPE, "application/apply-patch+yaml")
            .body(Body::from(value.to_string().into_bytes())),
    };
    built.map_err(|source| Error::Request {
        method: method.clone(),
        path: path.to_owned(),
        source,
    })
}

fn refused(
    method: &Method,
    path: &str,
    code: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Error {
    // Priority and fairness, proxies and load balancers answer in plain text.
    let mut status: Status = serde_json::from_slice(body).unwrap_or_else(|_| {
        let text: String = String::from_utf8_lossy(body).chars().take(512).collect();
        Status::failure(text.trim(), code.canonical_reason().unwrap_or_default())
    });
    status.code = code.as_u16();
    let header = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse().ok())
        .map(Duration::from_secs);
    of_status(method, path, status, header)
}

fn of_status(method: &Method, path: &str, status: Status, retry_after: Option<Duration>) -> Error {
    let in_details = status
        .details
        .as_ref()
        .map(|details| details.retry_after_seconds)
        .filter(|seconds| *seconds > 0)
        .map(|seconds| Duration::from_secs(u64::from(seconds)));
    Error::Refused {
        method: method.clone(),
        path: path.to_owned(),
        retry_after: retry_after.or(in_details),
        status: Box::new(status),
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other failures of the client are one: no answer was had"
)]
fn of_client(path: &str, error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) => of_status(&Method::GET, path, *status, None),
        kube::Error::SerdeError(source) => Error::Answer {
            method: Method::GET,
            path: path.to_owned(),
            source,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, retry_after: Option<&str>, body: &str) -> Error {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(RETRY_AFTER, value.parse().unwrap());
        }
        let code = StatusCode::from_u16(code).unwrap();
        refused(&Method::POST, "/x", code, &headers, body.as_bytes())
    }

    #[test]
    fn classes_by_code() {
        let table = [
            (400, false),
            (401, true),
            (403, false),
            (404, false),
            (409, true),
            (410, false),
            (422, false),
            (429, true),
            (500, true),
            (503, true),
        ];
        for (code, transient) in table {
            assert_eq!(answer(code, None, "{}").is_transient(), transient, "{code}");
        }
    }

    #[test]
    fn selectors_survive_in_a_query() {
        assert_eq!(
            escape("a.b/c in (d,e),!f"),
            "a.b%2Fc%20in%20%28d%2Ce%29%2C%21f"
        );
    }

    #[test]
    fn plain_text_of_a_proxy_is_kept() {
        let error = answer(
            429,
            Some("1"),
            "Too many requests, please try again later.\n",
        );
        assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
        assert_eq!(
            error.to_string(),
            "POST /x: 429 Too Many Requests: Too many requests, please try again later."
        );
    }

    #[test]
    fn causes_are_said_once() {
        let body = r#"{"kind":"Status","reason":"TooManyRequests","code":429,"message":"Cannot evict pod as it would violate the pod's disruption budget.",
            "details":{"retryAfterSeconds":10,"causes":[{"reason":"DisruptionBudget","message":"The disruption budget web needs 5 healthy pods and has 5 currently"}]}}"#;
        let error = answer(429, None, body);
        assert_eq!(error.retry_after(), Some(Duration::from_secs(10)));
        assert!(error.to_string().ends_with(
            "disruption budget. (The disruption budget web needs 5 healthy pods and has 5 currently)"
        ));
    }
}
