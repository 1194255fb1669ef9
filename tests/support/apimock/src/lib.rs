//! An API server that follows a script: it checks verb, path and body of every call, in order, and
//! that no other call comes.
//!
//! It must not know: what the calls are for. It is for what a real API server cannot be made to do
//! on time: refuse, break off, be slow.

pub mod protobuf;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream;
use http::header::ACCEPT;
use http::{Method, Request, Response, StatusCode};
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::BoxError;

type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

/// A call that is expected, and what it is answered with.
#[derive(Debug, Clone)]
pub struct Call {
    method: Method,
    path: String,
    body: Option<Value>,
    accept: Option<&'static str>,
    reply: Reply,
    meanwhile: Option<Meanwhile>,
}

/// What happens elsewhere while a call is answered.
#[derive(Clone)]
struct Meanwhile(Arc<dyn Fn() + Send + Sync>);

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meanwhile")
    }
}

/// What a call is answered with.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A status and an object.
    Object(u16, Value),
    /// The same with a `Retry-After` header, in seconds.
    Later(u16, u64, Value),
    /// A watch: each event after a pause, the end after the last pause.
    Events(Vec<(Duration, Value)>, Duration),
    /// A status and bytes that come in parts, the end after a pause.
    Parts(u16, Vec<Vec<u8>>, Duration),
    /// No response at all: the connection breaks.
    Broken,
}

impl Call {
    /// A call without a body.
    ///
    /// Shape: `path` with its query, where `timeoutSeconds` is written as `timeoutSeconds=N`: its
    /// value is spread at random.
    pub fn new(method: Method, path: &str, reply: Reply) -> Self {
        Self {
            method,
            path: path.to_owned(),
            body: None,
            accept: None,
            reply,
            meanwhile: None,
        }
    }

    /// A GET.
    pub fn get(path: &str, reply: Reply) -> Self {
        Self::new(Method::GET, path, reply)
    }

    /// A PATCH with this body.
    pub fn patch(path: &str, body: Value, reply: Reply) -> Self {
        Self::new(Method::PATCH, path, reply).with_body(body)
    }

    /// A POST with this body.
    pub fn post(path: &str, body: Value, reply: Reply) -> Self {
        Self::new(Method::POST, path, reply).with_body(body)
    }

    /// A DELETE with these options.
    pub fn delete(path: &str, options: Value, reply: Reply) -> Self {
        Self::new(Method::DELETE, path, reply).with_body(options)
    }

    /// Expects that the request accepts this form of response: `Accept`, whole.
    #[must_use]
    pub const fn accepting(mut self, form: &'static str) -> Self {
        self.accept = Some(form);
        self
    }

    /// Has something happen elsewhere when the call has come, before it is answered.
    #[must_use]
    pub fn meanwhile(mut self, happens: impl Fn() + Send + Sync + 'static) -> Self {
        self.meanwhile = Some(Meanwhile(Arc::new(happens)));
        self
    }

    /// Expects this body.
    #[must_use]
    pub fn with_body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }
}

impl Reply {
    /// 200 with an object.
    pub const fn ok(object: Value) -> Self {
        Self::Object(200, object)
    }

    /// 201 with a bare success.
    pub fn created() -> Self {
        Self::Object(201, json!({"kind": "Status", "status": "Success"}))
    }

    /// A failure with reason and message, as the API server says it.
    pub fn failure(code: u16, reason: &str, message: &str) -> Self {
        Self::Object(
            code,
            json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}),
        )
    }
}

/// The script under way.
#[derive(Debug, Clone)]
pub struct Script {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    expected: Mutex<VecDeque<Call>>,
    fault: Mutex<Option<String>>,
    failed: Notify,
}

impl Script {
    /// Starts a server for these calls and makes a client of it. Must be called in a runtime.
    pub fn start(calls: Vec<Call>) -> (Self, Client) {
        let state = Arc::new(State {
            expected: Mutex::new(calls.into()),
            fault: Mutex::new(None),
            failed: Notify::new(),
        });
        let served = Arc::clone(&state);
        let service = tower::service_fn(move |request: Request<Body>| {
            let state = Arc::clone(&served);
            async move { state.respond(request).await }
        });
        (Self { state }, Client::new(service, "default"))
    }

    /// Runs what is under test to its end; ends it with a panic at the first call that is not in
    /// the script.
    ///
    /// # Panics
    /// At the first wrong call, and at the end when calls are missing.
    pub async fn drive<T>(&self, work: impl Future<Output = T>) -> T {
        let result = tokio::select! {
            biased;
            () = self.state.failed.notified() => None,
            result = work => Some(result),
        };
        if let Some(fault) = lock(&self.state.fault).take() {
            fail(&fault);
        }
        let missing = lock(&self.state.expected);
        if let Some(call) = missing.front() {
            fail(&format!(
                "the script waits for {} {} and {} more",
                call.method,
                call.path,
                missing.len() - 1
            ));
        }
        drop(missing);
        match result {
            Some(result) => result,
            None => fail("the script failed without a fault"),
        }
    }

    /// How many calls of the script have not come yet.
    pub fn remaining(&self) -> usize {
        lock(&self.state.expected).len()
    }
}

#[expect(clippy::panic, reason = "a wrong call fails the test that made it")]
fn fail(why: &str) -> ! {
    panic!("{why}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    async fn respond(&self, request: Request<Body>) -> Result<Response<AnyBody>, BoxError> {
        let (head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("", |path| path.as_str());
        let path = without_timeout(path);
        let bytes = body.collect_bytes().await?;
        let body: Option<Value> = if bytes.is_empty() {
            None
        } else {
            Some(serde_json::from_slice(&bytes)?)
        };
        let Some(call) = lock(&self.expected).pop_front() else {
            return self.reject(format!(
                "no more calls are expected: {} {path}",
                head.method
            ));
        };
        if call.method != head.method || call.path != path || call.body != body {
            let mut fault = String::from("wrong call\n");
            for (what, method, path, body) in [
                ("expected", &call.method, &call.path, &call.body),
                ("came", &head.method, &path, &body),
            ] {
                let body = body.as_ref().map_or_else(String::new, Value::to_string);
                if writeln!(fault, "{what:>9}: {method} {path} {body}").is_err() {
                    break;
                }
            }
            return self.reject(fault);
        }
        let accept = head.headers.get(ACCEPT);
        if let Some(form) = call.accept
            && accept.is_none_or(|accept| accept != form)
        {
            return self.reject(format!("{path} is wanted as {accept:?}, and not as {form}"));
        }
        if let Some(Meanwhile(happens)) = call.meanwhile {
            happens();
        }
        reply(call.reply)
    }

    fn reject(&self, fault: String) -> Result<Response<AnyBody>, BoxError> {
        lock(&self.fault).get_or_insert(fault);
        self.failed.notify_one();
        Err("not in the script".into())
    }
}

fn reply(reply: Reply) -> Result<Response<AnyBody>, BoxError> {
    let (code, retry_after, body) = match reply {
        Reply::Object(code, object) => (code, None, whole(&object)),
        Reply::Later(code, seconds, object) => (code, Some(seconds), whole(&object)),
        Reply::Events(events, end) => (200, None, watch(events, end)),
        Reply::Parts(code, parts, end) => (code, None, in_parts(parts, end)),
        Reply::Broken => return Err("connection reset by peer".into()),
    };
    let mut response = Response::builder().status(StatusCode::from_u16(code)?);
    if let Some(seconds) = retry_after {
        response = response.header(http::header::RETRY_AFTER, seconds);
    }
    Ok(response.body(body)?)
}

fn whole(object: &Value) -> AnyBody {
    Full::new(Bytes::from(object.to_string())).boxed_unsync()
}

fn watch(events: Vec<(Duration, Value)>, end: Duration) -> AnyBody {
    let events = events.into_iter().map(Some).chain([None]);
    let frames = stream::unfold(events, move |mut events| async move {
        if let Some((pause, event)) = events.next()? {
            tokio::time::sleep(pause).await;
            let line = format!("{event}\n");
            Some((Ok(Frame::data(Bytes::from(line))), events))
        } else {
            tokio::time::sleep(end).await;
            None
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

fn in_parts(parts: Vec<Vec<u8>>, end: Duration) -> AnyBody {
    let parts = parts.into_iter().map(Some).chain([None]);
    let frames = stream::unfold(parts, move |mut parts| async move {
        if let Some(part) = parts.next()? {
            Some((Ok(Frame::data(Bytes::from(part))), parts))
        } else {
            tokio::time::sleep(end).await;
            None
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Writes `timeoutSeconds=N` for any number of seconds.
fn without_timeout(path: &str) -> String {
    const KEY: &str = "timeoutSeconds=";
    match path.split_once(KEY) {
        Some((before, rest)) => {
            let after = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
            format!("{before}{KEY}N{after}")
        }
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_timeout_is_left_out_of_the_comparison() {
        assert_eq!(
            without_timeout("/x?timeoutSeconds=2911&a=b"),
            "/x?timeoutSeconds=N&a=b"
        );
        assert_eq!(without_timeout("/x"), "/x");
    }

    #[tokio::test]
    #[should_panic(expected = "expected: GET /a")]
    async fn another_path_fails_the_test() {
        let (script, client) = Script::start(vec![Call::get("/a", Reply::ok(json!({})))]);
        let request = Request::get("/b").body(Vec::new()).unwrap();
        let _unused = script.drive(client.request_text(request)).await;
    }

    #[tokio::test]
    #[should_panic(expected = "waits for GET /a and 0 more")]
    async fn a_missing_call_fails_the_test() {
        let (script, _client) = Script::start(vec![Call::get("/a", Reply::ok(json!({})))]);
        script.drive(async {}).await;
    }
}
