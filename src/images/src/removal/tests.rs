use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::credentials::Credentials;

/// What a registry responds below a path.
#[derive(Clone)]
pub(crate) struct Canned {
    path: String,
    status: u16,
    body: String,
    headers: Vec<(String, String)>,
    /// Only where the request has this authorization.
    needs: Option<String>,
}

impl Canned {
    pub(crate) fn new(path: &str, status: u16, body: &str) -> Self {
        Self {
            path: path.to_owned(),
            status,
            body: body.to_owned(),
            headers: Vec::new(),
            needs: None,
        }
    }

    pub(crate) fn with(mut self, header: &str, value: &str) -> Self {
        self.headers.push((header.to_owned(), value.to_owned()));
        self
    }

    fn needs(mut self, authorization: &str) -> Self {
        self.needs = Some(authorization.to_owned());
        self
    }
}

/// A registry over plain HTTP that sends the first response that fits. Returns its host, and the
/// first lines of the requests.
pub(crate) async fn registry(responses: &[Canned]) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&seen);
    let responses: Vec<Canned> = responses
        .iter()
        .cloned()
        .map(|mut response| {
            for (_, value) in &mut response.headers {
                *value = value.replace("HOST", &host);
            }
            response
        })
        .collect();
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
            let line = text.lines().next().unwrap_or_default().to_owned();
            let path = line.split(' ').nth(1).unwrap_or_default();
            let fits = |response: &&Canned| {
                let path = path.split('?').next().unwrap_or_default();
                let needs = response.needs.as_deref();
                path == response.path && needs.is_none_or(|needs| text.contains(needs))
            };
            // What is no HTTP is a client that tries TLS.
            let Some(canned) = responses.iter().find(fits) else {
                continue;
            };
            lines.lock().unwrap().push(line.clone());
            let mut response = format!(
                "HTTP/1.1 {} X\r\nconnection: close\r\ncontent-length: {}\r\n",
                canned.status,
                canned.body.len()
            );
            for (name, value) in &canned.headers {
                response.extend([name, ": ", value, "\r\n"]);
            }
            response.push_str("\r\n");
            if !line.starts_with("HEAD") {
                response.push_str(&canned.body);
            }
            stream.write_all(response.as_bytes()).await.ok();
        }
    });
    (host, seen)
}

const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn manifest(status: u16, body: &str) -> Canned {
    Canned::new(&format!("/v2/a/os/manifests/{DIGEST}"), status, body)
}

async fn remove(responses: &[Canned], has_login: bool) -> (ImageReply<()>, Vec<String>) {
    let (host, seen) = registry(responses).await;
    let login = BASE64_STANDARD.encode("me:secret");
    let auths = format!(r#"{{"auths":{{"{host}":{{"auth":"{login}"}}}}}}"#);
    let credentials = if has_login {
        Credentials::parse(auths.as_bytes()).unwrap()
    } else {
        Credentials::default()
    };
    let stores = Stores::new(credentials, true);
    let location = format!("{host}/a/os@{DIGEST}").parse().unwrap();
    let reply = stores.remove(&location).await;
    let lines = seen.lock().unwrap().clone();
    (reply, lines)
}

#[tokio::test]
async fn each_refusal_differs_from_the_others() {
    let errors = |code: &str| format!(r#"{{"errors":[{{"code":"{code}"}}]}}"#);
    let why = |status: &str| format!("the registry responds {status}");
    for (response, expected) in [
        (manifest(202, ""), ImageReply::Done(())),
        (manifest(404, ""), ImageReply::Absent),
        (
            manifest(404, &errors("MANIFEST_UNKNOWN")),
            ImageReply::Absent,
        ),
        (
            manifest(404, &errors("NAME_UNKNOWN")),
            ImageReply::NoRepository,
        ),
        (
            manifest(403, &errors("DENIED")),
            ImageReply::NotAllowed(why("403 Forbidden")),
        ),
        (
            manifest(405, &errors("UNSUPPORTED")),
            ImageReply::NotSupported(why("405 Method Not Allowed")),
        ),
        (
            manifest(400, &errors("UNSUPPORTED")),
            ImageReply::NotSupported(why("400 Bad Request")),
        ),
        (
            manifest(503, ""),
            ImageReply::Unreachable(why("503 Service Unavailable")),
        ),
    ] {
        let (reply, _) = remove(&[response], true).await;
        assert_eq!(reply, expected);
    }
}

#[tokio::test]
async fn a_token_has_the_scope_that_the_registry_demands() {
    let bearer =
        "Bearer realm=\"http://HOST/token\",service=\"s\",scope=\"repository:a/os:delete,pull\"";
    let demand = manifest(401, "").with("www-authenticate", bearer);
    let done = manifest(202, "").needs("Bearer given");
    let login = format!("Basic {}", BASE64_STANDARD.encode("me:secret"));
    let token = Canned::new("/token", 200, r#"{"token":"given"}"#).needs(&login);
    let (reply, lines) = remove(&[done.clone(), demand.clone(), token], true).await;
    assert_eq!(reply, ImageReply::Done(()));
    let query = "service=s&scope=repository%3Aa%2Fos%3Adelete%2Cpull";
    assert!(lines.iter().any(|line| line.contains(query)), "{lines:?}");

    let refused = Canned::new("/token", 401, "");
    let (reply, _) = remove(&[demand.clone(), refused], true).await;
    assert!(matches!(reply, ImageReply::NotAllowed(_)), "{reply:?}");
    let (reply, _) = remove(std::slice::from_ref(&demand), false).await;
    assert!(matches!(reply, ImageReply::NotAllowed(_)), "{reply:?}");

    let basic = manifest(401, "").with("www-authenticate", "Basic realm=\"x\"");
    let done = manifest(202, "").needs(&login);
    let (reply, _) = remove(&[done, basic.clone()], true).await;
    assert_eq!(reply, ImageReply::Done(()));
    // Wrong credentials.
    let (reply, _) = remove(&[basic], true).await;
    assert!(matches!(reply, ImageReply::NotAllowed(_)), "{reply:?}");
}

#[tokio::test]
async fn only_an_image_by_digest_is_removed() {
    let stores = Stores::new(Credentials::default(), true);
    for location in ["quay.io/a/os:1", "oci:directory"] {
        let reply = stores.remove(&location.parse().unwrap()).await;
        assert!(matches!(reply, ImageReply::NotSupported(_)), "{reply:?}");
    }
}
