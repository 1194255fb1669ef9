//! Further doors to a registry's content: HTTPS by a private CA, and a token service before it.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde_json::json;

use crate::PATIENCE;
use crate::program::{command, run};

/// How the registry and the token service name each other.
const SERVICE: &str = "lab";

/// How long a token is valid, in seconds. A pull takes less.
const TOKEN_SECS: i64 = 300;

/// A key and its self-signed certificate, PEM.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) key: PathBuf,
    pub(super) certificate: PathBuf,
}

impl Pair {
    /// Makes one; `names` is a `subjectAltName` of openssl.
    pub(super) fn make(dir: &Path, name: &str, names: &str) -> Result<Self> {
        let pair = Self {
            key: dir.join(format!("{name}.key")),
            certificate: dir.join(format!("{name}.crt")),
        };
        run(command("openssl")
            .args([
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30",
            ])
            .args(["-subj", &format!("/CN={name}"), "-addext"])
            .arg(format!("subjectAltName={names}"))
            // rustls refuses a server whose certificate is an authority's.
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-keyout")
            .arg(&pair.key)
            .arg("-out")
            .arg(&pair.certificate))?;
        Ok(pair)
    }

    /// The part of a registry's `http` settings that has it speak TLS.
    pub(super) fn tls(&self) -> String {
        format!(
            ", tls: {{certificate: '{}', key: '{}'}}",
            self.certificate.display(),
            self.key.display()
        )
    }

    fn der(&self) -> Result<String> {
        let pem = fs::read_to_string(&self.certificate)?;
        Ok(pem
            .lines()
            .filter(|line| !line.starts_with("-----"))
            .collect())
    }

    fn sign(&self, text: &str, scratch: &Path) -> Result<Vec<u8>> {
        let (input, output) = (scratch.join("text"), scratch.join("signature"));
        write(&input, text.as_bytes())?;
        run(command("openssl")
            .args(["dgst", "-sha256", "-sign"])
            .arg(&self.key)
            .arg("-out")
            .arg(&output)
            .arg(&input))?;
        Ok(fs::read(&output)?)
    }
}

/// A token service: it gives a token to a client that sends user and password.
///
/// Source: the Distribution project's "Token Authentication Specification".
#[derive(Debug)]
pub(super) struct TokenService {
    address: SocketAddrV4,
    certificate: PathBuf,
    served: Arc<AtomicU32>,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Issuer {
    pair: Pair,
    scratch: PathBuf,
    /// `user:password` in base64.
    login: String,
}

impl TokenService {
    pub(super) fn start(dir: &Path, address: SocketAddrV4, login: &str) -> Result<Self> {
        let pair = Pair::make(dir, "tokens", "DNS:tokens")?;
        let certificate = pair.certificate.clone();
        let scratch = dir.join("signing");
        fs::create_dir(&scratch)?;
        let issuer = Issuer {
            pair,
            scratch,
            login: STANDARD.encode(login),
        };
        let listener = TcpListener::bind(address)
            .with_context(|| format!("the token service cannot listen on {address}"))?;
        let (served, stops) = (
            Arc::new(AtomicU32::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let thread = std::thread::spawn({
            let (served, stops) = (Arc::clone(&served), Arc::clone(&stops));
            move || {
                for stream in listener.incoming() {
                    if stops.load(Ordering::SeqCst) {
                        return;
                    }
                    // A client that hangs up is none of the service's faults.
                    if stream.is_ok_and(|stream| issuer.respond(&stream).is_ok_and(|done| done)) {
                        served.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
        });
        Ok(Self {
            address,
            certificate,
            served,
            stops,
            thread: Some(thread),
        })
    }

    /// How many tokens it gave.
    pub(super) fn served(&self) -> u32 {
        self.served.load(Ordering::SeqCst)
    }

    /// The settings of a registry that trusts it.
    pub(super) fn auth(&self) -> String {
        format!(
            "auth: {{token: {{realm: 'http://{}/token', service: {SERVICE}, issuer: {SERVICE}, \
             rootcertbundle: '{}'}}}}\n",
            self.address,
            self.certificate.display()
        )
    }
}

impl Drop for TokenService {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::SeqCst);
        // It waits for a connection; one that fails finds it gone already.
        if TcpStream::connect_timeout(&self.address.into(), PATIENCE).is_ok()
            && let Some(thread) = self.thread.take()
        {
            thread.join().ok();
        }
    }
}

impl Issuer {
    /// Responds to one request; whether with a token.
    fn respond(&self, stream: &TcpStream) -> Result<bool> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let request = lines.next().context("the request is empty")??;
        let mut login = None;
        for line in lines {
            let line = line?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            if name.eq_ignore_ascii_case("authorization") {
                login = value.trim().strip_prefix("Basic ").map(ToOwned::to_owned);
            }
        }
        let is_known = login.as_ref() == Some(&self.login);
        let (status, body) = if is_known {
            let scopes = request.split(['?', '&', ' ']);
            let scopes = scopes.filter_map(|word| word.strip_prefix("scope="));
            let token = self.token(scopes)?;
            let body = json!({ "token": token, "expires_in": TOKEN_SECS });
            ("200 OK", body.to_string())
        } else {
            let code = json!({ "code": "UNAUTHORIZED", "message": "wrong user or password" });
            ("401 Unauthorized", json!({ "errors": [code] }).to_string())
        };
        let mut response = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\n");
        write!(
            response,
            "Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )?;
        let mut peer = stream;
        peer.write_all(response.as_bytes())?;
        Ok(is_known)
    }

    fn token<'a>(&self, scopes: impl Iterator<Item = &'a str>) -> Result<String> {
        // `repository:os:pull`, as a part of a query.
        let access: Vec<_> = scopes
            .map(|scope| {
                scope
                    .replace("%3A", ":")
                    .replace("%2F", "/")
                    .replace("%2C", ",")
            })
            .filter_map(|scope| {
                let (kind, rest) = scope.split_once(':')?;
                let (name, actions) = rest.rsplit_once(':')?;
                let actions: Vec<&str> = actions.split(',').collect();
                Some(json!({ "type": kind, "name": name, "actions": actions }))
            })
            .collect();
        let now = Timestamp::now().as_second();
        let header = json!({ "typ": "JWT", "alg": "RS256", "x5c": [self.pair.der()?] });
        let claims = json!({
            "iss": SERVICE, "aud": SERVICE, "sub": "lab", "jti": now.to_string(),
            "iat": now, "nbf": now - 60, "exp": now + TOKEN_SECS, "access": access,
        });
        let encode = |text: String| URL_SAFE_NO_PAD.encode(text);
        let text = format!(
            "{}.{}",
            encode(header.to_string()),
            encode(claims.to_string())
        );
        let signature = self.pair.sign(&text, &self.scratch)?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

#[expect(clippy::disallowed_methods, reason = "a run's own file")]
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    Ok(fs::write(path, bytes)?)
}
