//! One request to the API server, or one watch.
//!
//! The typed layer of the client is left out on purpose: it reads whole objects where a few fields
//! are wanted, and its errors drop the `Retry-After` header, which evictions need.

mod error;
mod object;
pub mod protobuf;
mod refusal;

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use kube::Client;
use kube::api::WatchEvent;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::error::Error;
use self::error::{of_client, of_status};
pub use self::object::PlainObject;
use self::refusal::refused;

/// The longest a request may take from its first byte to the last of its response. The API server
/// gives up after 60 s itself.
pub const REQUEST_LIMIT: Duration = Duration::from_mins(1);

/// Form of server-side apply. JSON is YAML.
const APPLY: &str = "application/apply-patch+yaml";

/// What a request sends.
#[derive(Debug, Clone, Copy)]
pub enum RequestBody<'a> {
    /// Nothing.
    Empty,
    /// Nothing; of the object only its metadata is wanted.
    Metadata,
    /// Nothing; of the objects of a list only their metadata is wanted.
    MetadataList,
    /// An object to create.
    Object(&'a Value),
    /// A JSON merge patch: RFC 7386.
    MergePatch(&'a Value),
    /// An object with the fields that its writer owns: server-side apply.
    Apply(&'a Value),
    /// Nothing; the objects of a list are wanted in their protobuf form.
    Protobuf,
    /// Nothing; the events of a watch are wanted in that form.
    ProtobufWatch,
    /// The text of such an object; of the object as it is then only its metadata is wanted.
    ApplyForHead(&'a Bytes),
}

impl RequestBody<'_> {
    /// The form in which the response is wanted.
    const fn accept(self) -> &'static str {
        match self {
            Self::Metadata | Self::ApplyForHead(_) => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
            }
            Self::MetadataList => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            }
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
            Self::ProtobufWatch => "application/vnd.kubernetes.protobuf;stream=watch",
            Self::Empty | Self::Object(_) | Self::MergePatch(_) | Self::Apply(_) => {
                "application/json"
            }
        }
    }
}

/// All but the "unreserved characters" of RFC 3986, which stand for themselves.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Writes `text` as part of a query or path: percent-encodes what has a meaning there.
pub fn escape(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// One word of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectEvent<T> {
    /// The object is there, like this: new, changed, or simply present at the start.
    Applied(T),
    /// The object is gone; this is how it was last.
    Deleted(T),
    /// Nothing changed up to this resource version.
    Bookmark(String),
}

impl<T> ObjectEvent<T> {
    /// The same of what `read` makes of the object.
    pub fn map<U>(self, read: impl FnOnce(T) -> U) -> ObjectEvent<U> {
        match self {
            Self::Applied(object) => ObjectEvent::Applied(read(object)),
            Self::Deleted(object) => ObjectEvent::Deleted(read(object)),
            Self::Bookmark(version) => ObjectEvent::Bookmark(version),
        }
    }
}

/// What was read; nothing where the object is not there, or the API has no such kind.
///
/// # Errors
/// All others.
pub fn found<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// What was written; nothing where the object has changed since it was read, or one of its name is
/// there already.
///
/// # Errors
/// All others.
pub fn unless_conflict<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_conflict() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends one request and reads its response as `T`.
///
/// Shape: `path` starts with `/` and carries its query, escaped.
///
/// # Errors
/// All of [`Error`] but [`Error::Access`].
pub async fn send<T: DeserializeOwned>(
    client: &Client,
    method: Method,
    path: &str,
    content: RequestBody<'_>,
) -> Result<T, Error> {
    let bytes = exchange(client, &method, path, content).await?;
    serde_json::from_slice(&bytes).map_err(|source| Error::Response {
        method,
        path: path.to_owned(),
        source: Box::new(source),
    })
}

/// Sends one request and reads its response: its bytes, if it is a success.
async fn exchange(
    client: &Client,
    method: &Method,
    path: &str,
    content: RequestBody<'_>,
) -> Result<Bytes, Error> {
    let request = request(method, path, content)?;
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
            Ok(bytes)
        } else {
            Err(refused(method, path, head.status, &head.headers, &bytes))
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

/// Opens a watch: the events of `path` until the API server ends it. Reading has no deadline; the
/// caller sets one.
///
/// # Errors
/// All of [`Error`] but [`Error::Access`], for the opening and for each event. An event that says
/// `ERROR` is [`Error::Refused`].
pub async fn watch<T>(
    client: &Client,
    path: &str,
    content: RequestBody<'_>,
) -> Result<impl Stream<Item = Result<ObjectEvent<T>, Error>> + use<T>, Error>
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
        Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
            Ok(ObjectEvent::Applied(object))
        }
        Ok(WatchEvent::Deleted(object)) => Ok(ObjectEvent::Deleted(object)),
        Ok(WatchEvent::Bookmark(bookmark)) => {
            Ok(ObjectEvent::Bookmark(bookmark.metadata.resource_version))
        }
        Ok(WatchEvent::Error(status)) => Err(of_status(&Method::GET, &path, *status, None)),
        Err(error) => Err(of_client(&path, error)),
    }))
}

/// Sends the request that opens a watch; the body of its response, if it is a success.
async fn open(client: &Client, path: &str, content: RequestBody<'_>) -> Result<Body, Error> {
    let mut request = request(&Method::GET, path, content)?;
    // The client reads the first member of a compressed stream only.
    let identity = HeaderValue::from_static("identity");
    request.headers_mut().insert(ACCEPT_ENCODING, identity);
    let opening = async {
        let response = client
            .send(request)
            .await
            .map_err(|error| of_client(path, error))?;
        let (head, body) = response.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let bytes = body.collect_bytes().await;
        let bytes = bytes.map_err(|error| of_client(path, error))?;
        let (code, headers) = (head.status, &head.headers);
        Err(refused(&Method::GET, path, code, headers, &bytes))
    };
    let opened = tokio::time::timeout(REQUEST_LIMIT, opening).await;
    opened.unwrap_or_else(|_| {
        Err(Error::TimedOut {
            method: Method::GET,
            path: path.to_owned(),
        })
    })
}

fn request(method: &Method, path: &str, content: RequestBody<'_>) -> Result<Request<Body>, Error> {
    let builder = Request::builder()
        .method(method.clone())
        .uri(path)
        .header(ACCEPT, content.accept());
    let built = match content {
        RequestBody::Empty
        | RequestBody::Metadata
        | RequestBody::MetadataList
        | RequestBody::Protobuf
        | RequestBody::ProtobufWatch => builder.body(Body::empty()),
        RequestBody::Object(value) => builder
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(value.to_string().into_bytes())),
        RequestBody::MergePatch(value) => builder
            .header(CONTENT_TYPE, "application/merge-patch+json")
            .body(Body::from(value.to_string().into_bytes())),
        RequestBody::Apply(value) => builder
            .header(CONTENT_TYPE, APPLY)
            .body(Body::from(value.to_string().into_bytes())),
        RequestBody::ApplyForHead(text) => builder
            .header(CONTENT_TYPE, APPLY)
            .body(Body::from(text.clone())),
    };
    built.map_err(|source| Error::Request {
        method: method.clone(),
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn selectors_survive_in_a_query() {
        assert_eq!(
            escape("a.b/c in (d,e),!f"),
            "a.b%2Fc%20in%20%28d%2Ce%29%2C%21f"
        );
    }
}
