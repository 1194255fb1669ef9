//! Objects in the API server's protobuf form. It has one for its own kinds, and none for custom
//! resources.
//!
//! What a message here does not name is passed over unread, so that a few fields of a large object
//! cost little.
//!
//! Source: `generated.proto` of `k8s.io/apimachinery`, in `pkg/runtime` and `pkg/apis/meta/v1`.

use bytes::BytesMut;
use futures::{Stream, TryStreamExt as _, future, stream};
use http::Method;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use prost::Message;
use tokio_util::codec::{Decoder as _, LengthDelimitedCodec};

use super::error::{Error, of_client, of_status};
use super::{ObjectEvent, RequestBody};

pub use bytes::Bytes;
pub use prost::DecodeError;

/// What a message in this form begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Around each object.
#[derive(Message)]
struct Unknown {
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

#[derive(Message)]
struct Event {
    #[prost(string, tag = "1")]
    r#type: String,
    #[prost(message, optional, tag = "2")]
    object: Option<RawExtension>,
}

#[derive(Message)]
struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

/// Any list: the fields have the same numbers in all of them.
#[derive(Message)]
struct List {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    items: Vec<Bytes>,
}

#[derive(Message)]
struct ListMeta {
    #[prost(string, tag = "2")]
    resource_version: String,
    #[prost(string, tag = "3")]
    r#continue: String,
}

/// Any object, of which only the version is read.
#[derive(Message)]
struct Versioned {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Version>,
}

#[derive(Message)]
struct Version {
    #[prost(string, tag = "6")]
    resource_version: String,
}

#[derive(Message)]
struct Failure {
    #[prost(string, tag = "3")]
    message: String,
    #[prost(string, tag = "4")]
    reason: String,
    #[prost(int32, tag = "6")]
    code: i32,
}

/// Why bytes in this form could not be read.
#[derive(Debug, thiserror::Error)]
enum FormError {
    #[error("it is not in the protobuf form")]
    Magic,
    #[error(transparent)]
    Message(#[from] DecodeError),
    #[error(transparent)]
    Frame(#[from] std::io::Error),
}

/// Objects of a list: one page of them.
#[derive(Debug)]
pub struct Page<T> {
    /// What was read of each.
    pub items: Vec<T>,
    /// Version of the whole list.
    pub resource_version: String,
    /// What asks for the next page; empty on the last one.
    pub r#continue: String,
}

/// Reads one page of a list.
///
/// Shape: `path` with its query, escaped.
///
/// # Errors
/// All of [`Error`] but [`Error::Access`].
pub async fn page(client: &Client, path: &str) -> Result<Page<Bytes>, Error> {
    let bytes = super::exchange(client, &Method::GET, path, RequestBody::Protobuf).await?;
    read_page(&bytes).map_err(|source| unread(path, source))
}

fn read_page(bytes: &Bytes) -> Result<Page<Bytes>, FormError> {
    let list = List::decode(unwrap(bytes)?)?;
    let metadata = list.metadata.unwrap_or_default();
    Ok(Page {
        items: list.items,
        resource_version: metadata.resource_version,
        r#continue: metadata.r#continue,
    })
}

/// Opens a watch, as [`super::watch`] does.
///
/// # Errors
/// As [`super::watch`].
pub async fn watch(
    client: &Client,
    path: &str,
) -> Result<impl Stream<Item = Result<ObjectEvent<Bytes>, Error>> + use<>, Error> {
    let body = super::open(client, path, RequestBody::ProtobufWatch).await?;
    let frames = Frames {
        body,
        buffer: BytesMut::new(),
        codec: LengthDelimitedCodec::new(),
        path: path.to_owned(),
    };
    let path = path.to_owned();
    let events = stream::try_unfold(frames, Frames::next);
    Ok(events.and_then(move |frame| {
        future::ready(match read_event(frame) {
            Ok(Ok(event)) => Ok(event),
            Ok(Err(status)) => Err(of_status(&Method::GET, &path, status, None)),
            Err(source) => Err(unread(&path, source)),
        })
    }))
}

/// A body that is cut into frames: four bytes of length, then so many.
struct Frames {
    body: Body,
    buffer: BytesMut,
    codec: LengthDelimitedCodec,
    path: String,
}

impl Frames {
    /// The next frame; none at the end of the body.
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, Error> {
        loop {
            let frame = self.codec.decode(&mut self.buffer);
            if let Some(frame) = frame.map_err(|source| unread(&self.path, source))? {
                return Ok(Some((frame.freeze(), self)));
            }
            match self.body.frame().await {
                Some(Ok(part)) => {
                    if let Some(bytes) = part.data_ref() {
                        self.buffer.extend_from_slice(bytes);
                    }
                }
                Some(Err(source)) => return Err(of_client(&self.path, source)),
                None => return Ok(None),
            }
        }
    }
}

fn read_event(frame: Bytes) -> Result<Result<ObjectEvent<Bytes>, Status>, FormError> {
    let event = Event::decode(frame)?;
    let object = unwrap(&event.object.unwrap_or_default().raw)?;
    Ok(match event.r#type.as_str() {
        "DELETED" => Ok(ObjectEvent::Deleted(object)),
        "BOOKMARK" => {
            let metadata = Versioned::decode(object)?.metadata.unwrap_or_default();
            Ok(ObjectEvent::Bookmark(metadata.resource_version))
        }
        "ERROR" => Err(Failure::decode(object)?.into()),
        _ => Ok(ObjectEvent::Applied(object)),
    })
}

/// The status in a failed request's response, where it is in this form.
pub(super) fn status(body: &Bytes) -> Option<Status> {
    let failure = Failure::decode(unwrap(body).ok()?).ok()?;
    Some(failure.into())
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        let mut status = Self::failure(&failure.message, &failure.reason);
        status.code = u16::try_from(failure.code).unwrap_or_default();
        status
    }
}

/// The object within the bytes that begin with [`MAGIC`].
fn unwrap(bytes: &Bytes) -> Result<Bytes, FormError> {
    if !bytes.starts_with(MAGIC) {
        return Err(FormError::Magic);
    }
    Ok(Unknown::decode(bytes.slice(MAGIC.len()..))?.raw)
}

/// The error of an object that cannot be read.
pub fn unread(path: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Response {
        method: Method::GET,
        path: path.to_owned(),
        source: source.into(),
    }
}

#[cfg(test)]
mod tests;
