//! gRPC without streams: one frame in, one frame and trailers out.
//!
//! Source: "gRPC over HTTP2", `PROTOCOL-HTTP2.md` of gRPC.

use std::convert::Infallible;
use std::future::Future;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixListener;

/// Bytes before a message: a flag, and its length in four.
const PREFIX_BYTES: usize = 5;

/// What is sent back.
pub(crate) enum Reply {
    Message(Vec<u8>),
    Fault(u32, &'static str),
}

impl Reply {
    pub(crate) fn of(message: &impl Message) -> Self {
        Self::Message(message.encode_to_vec())
    }

    pub(crate) const fn fault(code: u32, message: &'static str) -> Self {
        Self::Fault(code, message)
    }

    fn frames(self) -> Vec<Result<Frame<Bytes>, Infallible>> {
        let mut trailers = HeaderMap::new();
        let mut frames = Vec::new();
        match self {
            Self::Message(message) => {
                let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + message.len());
                bytes.put_u8(0);
                bytes.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
                bytes.put_slice(&message);
                frames.push(Ok(Frame::data(bytes.freeze())));
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
            }
            Self::Fault(code, message) => {
                trailers.insert("grpc-status", HeaderValue::from(code));
                trailers.insert("grpc-message", HeaderValue::from_static(message));
            }
        }
        frames.push(Ok(Frame::trailers(trailers)));
        frames
    }
}

/// Serves until it is aborted.
pub(crate) async fn serve<F, R>(listener: UnixListener, respond: F)
where
    F: Fn(String, Vec<u8>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Reply> + Send + 'static,
{
    while let Ok((stream, _)) = listener.accept().await {
        let respond = respond.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let respond = respond.clone();
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await?.to_bytes();
                let message = body.get(PREFIX_BYTES..).unwrap_or_default().to_vec();
                let frames = respond(path, message).await.frames();
                let mut response = Response::new(StreamBody::new(stream::iter(frames)));
                let kind = HeaderValue::from_static("application/grpc");
                response.headers_mut().insert("content-type", kind);
                Ok::<_, hyper::Error>(response)
            }
        });
        tokio::spawn(async move {
            let served = http2::Builder::new(TokioExecutor::new());
            // A client that leaves ends its connection with an error.
            served
                .serve_connection(TokioIo::new(stream), service)
                .await
                .unwrap_or_default();
        });
    }
}
