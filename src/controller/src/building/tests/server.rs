//! An API server that keeps what it is sent, and a registry that knows tags.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::fixture::merge;

pub(super) type SharedApi = Arc<Mutex<Api>>;

/// Objects by path.
#[derive(Default)]
pub(super) struct Api {
    objects: BTreeMap<String, Value>,
    changes: u32,
    /// Requests until it stops.
    left: Option<usize>,
}

impl Api {
    pub(super) fn shared() -> SharedApi {
        Arc::new(Mutex::new(Self::default()))
    }

    /// Keeps an object below the path of its kind.
    pub(super) fn put(&mut self, kind: &str, object: &Value) -> Value {
        let mut object = object.clone();
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let metadata = &mut object["metadata"];
        self.changes += 1;
        metadata["resourceVersion"] = json!(self.changes.to_string());
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(format!("uid-{}", self.changes));
            metadata["creationTimestamp"] = json!("2026-11-21T19:16:30Z");
        }
        if let Some(texts) = object.as_object_mut().unwrap().remove("stringData") {
            use base64::Engine as _;
            for (key, text) in texts.as_object().unwrap() {
                let bytes = text.as_str().unwrap();
                let data = base64::prelude::BASE64_STANDARD.encode(bytes);
                object["data"][key] = json!(data);
            }
        }
        self.objects
            .insert(format!("{kind}/{name}"), object.clone());
        object
    }

    pub(super) fn all(&self, kind: &str) -> Vec<Value> {
        let below = format!("{kind}/");
        let objects = self.objects.iter();
        let objects = objects.filter(|(path, _)| path.starts_with(&below));
        objects.map(|(_, object)| object.clone()).collect()
    }

    pub(super) fn clear(&mut self, kind: &str) {
        let below = format!("{kind}/");
        self.objects.retain(|path, _| !path.starts_with(&below));
    }

    /// Fails each request after so many.
    pub(super) fn stop_after(&mut self, count: usize) {
        self.left = Some(count);
    }

    pub(super) fn go_on(&mut self) {
        self.left = None;
    }

    fn respond(&mut self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        if !path.ends_with("/events") {
            match &mut self.left {
                Some(0) => return failure(500),
                Some(left) => *left -= 1,
                None => {}
            }
        }
        let (object, is_status) = match path.strip_suffix("/status") {
            Some(object) => (object, true),
            None => (path, false),
        };
        let present = self.objects.get(object).cloned();
        if *method == Method::POST && path.ends_with("/events") {
            // Each recorder counts its own, so that names repeat.
            let mut event = body.clone();
            event["metadata"]["name"] = json!(format!("event-{}", self.changes));
            return (201, self.put(path, &event));
        }
        if *method == Method::POST {
            let name = body["metadata"]["name"].as_str().unwrap_or_default();
            if self.objects.contains_key(&format!("{path}/{name}")) {
                return failure(409);
            }
            return (201, self.put(path, body));
        }
        if *method == Method::GET && path.ends_with("/pods") {
            return (200, json!({ "metadata": {}, "items": self.all(path) }));
        }
        let Some(present) = present else {
            return failure(404);
        };
        if *method == Method::DELETE {
            let uid = &body["preconditions"]["uid"];
            if !uid.is_null() && *uid != present["metadata"]["uid"] {
                return failure(409);
            }
            self.objects.remove(object);
            return (200, json!({}));
        }
        if *method == Method::PATCH {
            let version = &body["metadata"]["resourceVersion"];
            if !version.is_null() && *version != present["metadata"]["resourceVersion"] {
                return failure(409);
            }
            let mut change = body.clone();
            // A status is written alone, and never with the rest.
            if is_status {
                change = json!({ "status": body["status"] });
            } else {
                change.as_object_mut().unwrap().remove("status");
            }
            let mut changed = present;
            merge(&mut changed, &change);
            let (kind, _) = object.rsplit_once('/').unwrap();
            return (200, self.put(kind, &changed));
        }
        (200, present)
    }
}

fn failure(code: u16) -> (u16, Value) {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        _ => "InternalError",
    };
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "message": reason,
        "reason": reason, "code": code,
    });
    (code, status)
}

/// A client of the server.
pub(super) fn client(api: &SharedApi) -> kube::Client {
    let api = Arc::clone(api);
    let service = tower::service_fn(move |request: Request<Body>| {
        let api = Arc::clone(&api);
        async move {
            let method = request.method().clone();
            let path = request.uri().path().to_owned();
            let bytes = request.into_body().collect_bytes().await?;
            let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let (code, object) = api.lock().unwrap().respond(&method, &path, &body);
            let body = Full::new(Bytes::from(object.to_string()));
            let response = Response::builder().status(code).body(body)?;
            Ok::<_, tower::BoxError>(response)
        }
    });
    kube::Client::new(service, "default")
}

/// A registry over plain HTTP that has these tags and digests. Returns its host.
pub(super) async fn registry(tags: Arc<Mutex<Vec<(String, String)>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = Vec::new();
            while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read_buf(&mut bytes).await {
                    // A client that tries TLS is hung up on.
                    Ok(count) if count > 0 && bytes.first() != Some(&0x16) => {}
                    _ => break,
                }
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let Some(path) = text
                .split(' ')
                .nth(1)
                .filter(|path| path.starts_with("/v2/"))
            else {
                continue;
            };
            let named = path.rsplit('/').next().unwrap_or_default();
            let found = tags
                .lock()
                .unwrap()
                .iter()
                .find(|(tag, _)| tag == named)
                .cloned();
            let head = match found {
                Some((_, digest)) => format!("200 OK\r\ndocker-content-digest: {digest}"),
                None if path == "/v2/" || path.contains("/tags/") => "200 OK".to_owned(),
                None => "404 Not Found".to_owned(),
            };
            let body = if path.contains("/tags/") {
                r#"{"name":"a/os","tags":[]}"#
            } else {
                "{}"
            };
            let body = if text.starts_with("HEAD") { "" } else { body };
            let length = body.len();
            let response = format!(
                "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            stream.write_all(response.as_bytes()).await.ok();
        }
    });
    host
}
