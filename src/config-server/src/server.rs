//! From request to response.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use api::machineconfiguration::MachineConfig;
use bytes::Bytes;
use chassis::http::Peer;
use chassis::report::Chain;
use cluster::access::Access;
use cluster::objects::Objects;
use cluster::{path, review};
use http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use crate::accept::negotiate;
use crate::authorize::{Authorizer, Identity, unavailable};
use crate::document::{Extras, document, kubeconfig};
use crate::flight::{NoRoom, ResponsesInFlight};
use crate::metrics::ServerMetrics;
use crate::own;
use crate::rate_limit::{self, ClosedWindow, RateLimits};
use crate::refusal::Refusal;
use crate::store::{ServedStore, Serving};

/// Prefix of the paths of pools.
const CONFIG: &str = "/config/";

/// Who a machine is where the server is open.
const ANONYMOUS: &str = "system:anonymous";

/// How a new machine gets its first token.
#[derive(Debug, Clone)]
pub(crate) struct Bootstrap {
    /// The API server, as machines reach it.
    pub(crate) server: String,
    /// Bundle that vouches for it, PEM; read for each response, because it rotates.
    pub(crate) authority: PathBuf,
    /// Namespace and name of the account whose tokens may ask for a kubelet's certificate.
    pub(crate) account: (String, String),
    /// How long a token is good for.
    pub(crate) token_secs: u64,
}

pub(crate) struct ConfigServer {
    pub(crate) store: ServedStore,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) rate_limits: Mutex<RateLimits>,
    pub(crate) in_flight: ResponsesInFlight,
    /// Bytes of the bootstrap token that was made last, 0 before the first: all are as long.
    pub(crate) token_bytes: AtomicUsize,
    pub(crate) access: Arc<Access>,
    pub(crate) bootstrap: Bootstrap,
    pub(crate) authorizer: Authorizer,
    /// Whether new machines need no credential.
    pub(crate) is_open: bool,
    pub(crate) clock: fn() -> Instant,
}

impl fmt::Debug for ConfigServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigServer")
            .field("bootstrap", &self.bootstrap)
            .field("authorizer", &self.authorizer)
            .finish_non_exhaustive()
    }
}

/// The resource of a request.
enum Resource<'a> {
    Health,
    Pool(&'a str),
    Own(&'a str),
}

impl ConfigServer {
    /// Responds to a request; `is_plain` if it came without TLS.
    pub(crate) async fn respond<B>(
        &self,
        request: &Request<B>,
        is_plain: bool,
    ) -> Response<Full<Bytes>> {
        let began = (self.clock)();
        let (path, method) = (request.uri().path(), request.method());
        let result = match requested_resource(method, path) {
            Ok(Resource::Health) => return response_of(StatusCode::OK, None, Bytes::new()),
            Err(refusal) => Err(refusal),
            Ok(Resource::Pool(_) | Resource::Own(_)) if is_plain => Err(Refusal::Forbidden(
                "configurations are served over TLS only".to_owned(),
            )),
            Ok(resource) => {
                let headers = request.headers();
                let result = match (resource, request.extensions().get::<Peer>()) {
                    (Resource::Pool(pool), Some(peer)) => {
                        self.serve(pool, method, headers, peer).await
                    }
                    (Resource::Own(config), Some(peer)) => {
                        self.serve_own(config, headers, peer).await
                    }
                    _ => Err(Refusal::NotReady("the peer is unknown".to_owned())),
                };
                self.metrics.observe(began.elapsed().as_secs_f64());
                result
            }
        };
        match result {
            Ok(body) => response_of(StatusCode::OK, Some("application/json"), body),
            Err(refusal) => {
                self.metrics.refused(&refusal);
                let peer = request.extensions().get::<Peer>();
                let peer = peer.map(|peer| peer.address.ip().to_string());
                let status = refusal.status().as_u16();
                let error = Chain(&refusal).to_string();
                tracing::warn!(%method, path, peer, status, error, "refused");
                refuse(&refusal)
            }
        }
    }

    /// A pool's configuration, if this request may have it.
    async fn serve(
        &self,
        pool: &str,
        method: &Method,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<Bytes, Refusal> {
        let address = peer.address.ip();
        let now = (self.clock)();
        // Before anything that costs: each guess of a token is a request to the API server.
        self.count(peer, now)?;
        let identity = if self.is_open {
            Identity {
                user: ANONYMOUS.to_owned(),
                credential: format!("{ANONYMOUS} {address}"),
                ..Identity::default()
            }
        } else {
            let identity = self.authorizer.identify(headers, peer).await?;
            self.authorizer.admit(&identity, pool).await?;
            identity
        };
        let credential = identity.credential.as_str();
        let reserved = rate_limit::reserve(&self.rate_limits, credential, address, now);
        let reserved = reserved.map_err(|closed| match closed {
            ClosedWindow::Reserved => Refusal::NotReady(closed.as_str().to_owned()),
            ClosedWindow::Ended | ClosedWindow::Taken => Refusal::Closed(closed.as_str()),
        })?;
        let version = negotiate(&joined(headers))?;
        let (rendered, image) = match self.store.serving(pool) {
            Serving::Unknown => return Err(Refusal::Pool(pool.to_owned())),
            Serving::NotYet(why) => return Err(Refusal::NotReady(why)),
            Serving::Config { config, image } => (config, image),
        };
        // The configuration is translated before a token is made; HEAD needs no token.
        let bundles = self.store.bundles().unwrap_or_default();
        let extras = Extras {
            kubelet_ca: bundles.kubelet_ca.clone(),
            cloud_ca: bundles.cloud_ca.clone(),
            image,
        };
        let document = document(&rendered, &extras, version)?;
        if method == Method::HEAD {
            let token_bytes = self.token_bytes.load(Ordering::Relaxed);
            if token_bytes == 0 {
                // The length is undetermined, and none is sent.
                return Ok(Bytes::new());
            }
            // Of what GET would send only the length goes out.
            let kubeconfig = self.first_kubeconfig(&"-".repeat(token_bytes))?;
            return Ok(document.print(&kubeconfig).into());
        }
        if !self.in_flight.has_room(address) {
            return Err(Refusal::Busy);
        }
        let token = self.make_token().await?;
        self.token_bytes.store(token.len(), Ordering::Relaxed);
        let text = document.print(&self.first_kubeconfig(&token)?);
        let held = self.in_flight.hold(address, text);
        let body = held.map_err(|NoRoom| Refusal::Busy)?;
        reserved.served();
        self.metrics.answered(version);
        let config = rendered.metadata.name.as_deref();
        let (user, version) = (&identity.user, version.as_str());
        let image = extras.image.as_ref().ok();
        tracing::info!(pool, config, image, peer = %address, user, credential, version, "served");
        Ok(body)
    }

    /// One of a node's own configurations, as the API server has it.
    async fn serve_own(
        &self,
        config: &str,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<Bytes, Refusal> {
        let address = peer.address.ip();
        self.count(peer, (self.clock)())?;
        if !self.in_flight.has_room(address) {
            return Err(Refusal::Busy);
        }
        let identity = self.authorizer.identify(headers, peer).await?;
        let no_node = || Refusal::Forbidden(format!("{:?} is no node", identity.user));
        let name = identity.node().ok_or_else(no_node)?;
        let not_yet = || Refusal::NotReady("pools were not read yet".to_owned());
        let pools = self.store.views().ok_or_else(not_yet)?;
        let nodes = Objects::<Node>::of_cluster(&self.access);
        let node = nodes.get(name).await;
        let node = node
            .map_err(|error| unavailable("read the Node", &error))?
            .ok_or_else(|| Refusal::Forbidden(format!("there is no Node {name:?}")))?;
        let configs = Objects::<MachineConfig>::of_cluster(&self.access).read_as::<Value>();
        let found = configs.get(config).await;
        let found = found
            .map_err(|error| unavailable("read the MachineConfig", &error))?
            .ok_or_else(|| Refusal::Config(config.to_owned()))?;
        own::check(node, &found, &pools)
            .map_err(|why| Refusal::Forbidden(format!("node {name:?}: {why}")))?;
        let held = self.in_flight.hold(address, found.to_string());
        let body = held.map_err(|NoRoom| Refusal::Busy)?;
        tracing::info!(node = name, config, peer = %address, "served a node its own");
        Ok(body)
    }

    /// Counts a request, before anything that costs.
    fn count(&self, peer: &Peer, now: Instant) -> Result<(), Refusal> {
        let counted = rate_limit::lock(&self.rate_limits).count(peer.address.ip(), now);
        counted.map_err(|after| Refusal::TooMany { after })
    }

    /// The kubeconfig of a new machine.
    fn first_kubeconfig(&self, token: &str) -> Result<String, Refusal> {
        let Bootstrap {
            server, authority, ..
        } = &self.bootstrap;
        // A kilobyte or two of a file system in memory.
        let bundle = std::fs::read(authority).map_err(|error| {
            Refusal::NotReady(format!("cannot read {}: {error}", authority.display()))
        })?;
        Ok(kubeconfig(server, &bundle, token))
    }

    /// A token for a new machine, of its own, that ends soon.
    async fn make_token(&self) -> Result<String, Refusal> {
        let Bootstrap {
            account: (namespace, name),
            token_secs,
            ..
        } = &self.bootstrap;
        let spec = json!({"audiences": [], "expirationSeconds": token_secs});
        let made = review::account_token(&self.access, (namespace, name), &spec).await;
        let token = made.map_err(|error| unavailable("make a bootstrap token", &error))?;
        let none = || Refusal::NotReady("the answer has no bootstrap token".to_owned());
        token.ok_or_else(none)
    }
}

/// The method, and then the path; of a pool's path the last element counts.
fn requested_resource<'a>(method: &Method, path: &'a str) -> Result<Resource<'a>, Refusal> {
    if method != Method::GET && method != Method::HEAD {
        return Err(Refusal::Method);
    }
    // A node's own configurations have the paths that they have at the API server.
    let own = path::all::<MachineConfig>() + "/";
    Ok(if path == "/healthz" {
        Resource::Health
    } else if let Some(config) = path.strip_prefix(&own) {
        let config = Some(config).filter(|name| is_name(name));
        Resource::Own(config.ok_or(Refusal::Path)?)
    } else {
        let pool = path
            .strip_prefix(CONFIG)
            .map(|rest| rest.trim_end_matches('/'));
        let pool = pool.and_then(|rest| rest.rsplit('/').next());
        Resource::Pool(pool.filter(|pool| is_name(pool)).ok_or(Refusal::Path)?)
    })
}

/// Whether it may be the name of an object.
fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    !text.is_empty() && text.len() <= 253 && text.bytes().all(is_part)
}

fn joined(headers: &HeaderMap) -> String {
    let values = headers.get_all(ACCEPT).iter();
    let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    values.join(",")
}

fn refuse(refusal: &Refusal) -> Response<Full<Bytes>> {
    let mut response = response_of(refusal.status(), None, Bytes::new());
    let headers = response.headers_mut();
    if let Some(after) = refusal.retry_after() {
        // Whole seconds, and not before the time has come.
        let seconds = after.as_millis().div_ceil(1000).to_string();
        if let Ok(value) = HeaderValue::try_from(seconds) {
            headers.insert(RETRY_AFTER, value);
        }
    }
    match refusal.status() {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        StatusCode::UNAUTHORIZED => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            // A certificate is shown in the handshake only: the next try needs a new one.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
    response
}

fn response_of(
    status: StatusCode,
    content: Option<&'static str>,
    body: Bytes,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if let Some(content) = content {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content));
    }
    // It holds secrets, and a token that ends.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests;
