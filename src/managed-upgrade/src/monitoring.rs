//! Requests to Prometheus, Alertmanager and other servers over HTTP.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use chassis::report::Chain;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use reqwest::{Certificate, Client, Method};
use serde_json::Value;

use crate::cloud_event;
use crate::release_image::{self, ImagePlace};
use crate::requests::Requests;
use crate::silence::{KnownSilence, WantedSilence};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(30);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_mins(1);
/// How long a server outside of the cluster may take to say which image something is.
const GRAPH: Duration = Duration::from_secs(30);
/// How long a registry may take.
const REGISTRY: Duration = Duration::from_secs(20);
/// How long a receiver of a `CloudEvent` may take.
const EVENT: Duration = Duration::from_secs(10);
/// Largest answer that is read.
const MAX_BYTES: usize = 64 << 20;
/// A token is asked for anew after this time; it lasts twice as long.
const TOKEN_KEPT: SignedDuration = SignedDuration::from_hours(12);
/// How often a dependency is asked, and how long is waited after each failure but the last.
const ATTEMPTS: [Duration; 3] = [
    Duration::from_millis(1250),
    Duration::from_millis(3250),
    Duration::ZERO,
];

/// What the program calls itself.
const USER_AGENT: &str = concat!("managed-upgrade-operator/", env!("CARGO_PKG_VERSION"));

const NAMESPACE: &str = "openshift-monitoring";

/// Where alerts are.
#[derive(Debug, Clone, Default)]
pub struct MonitoringSettings {
    /// Prometheus in place of the Service `prometheus-k8s`.
    pub promql: Option<String>,
    /// Alertmanager in place of the Service `alertmanager-main`.
    pub alertmanager: Option<String>,
    /// Authority in place of the cluster's.
    pub authority: Option<PathBuf>,
    /// Token in place of one of the account `prometheus-k8s`.
    pub token: Option<PathBuf>,
}

/// A client with its token, and when they were made.
#[derive(Debug, Clone)]
struct Session {
    made: Timestamp,
    client: Client,
    token: Option<String>,
}

/// Requests to servers that know about alerts.
#[derive(Debug)]
pub(crate) struct Monitoring {
    settings: MonitoringSettings,
    session: Mutex<Option<Session>>,
}

impl Monitoring {
    pub(crate) const fn new(settings: MonitoringSettings) -> Self {
        Self {
            settings,
            session: Mutex::new(None),
        }
    }

    /// What Prometheus answers to a query.
    pub(crate) async fn query(
        &self,
        requests: &Requests,
        query: &str,
        now: Timestamp,
    ) -> Result<(StatusCode, Vec<u8>), String> {
        let base = self
            .base(requests, self.settings.promql.as_ref(), "prometheus-k8s")
            .await?;
        let query = cluster::wire::escape(query);
        let whole = promql::partial::REFUSED;
        let url = format!("{base}/api/v1/query?query={query}&{whole}");
        self.send(requests, Method::GET, &url, None, now).await
    }

    /// All silences.
    pub(crate) async fn silences(
        &self,
        requests: &Requests,
        now: Timestamp,
    ) -> Result<Vec<KnownSilence>, String> {
        let url = format!("{}silences", self.silences_url(requests).await?);
        let answer = self.send(requests, Method::GET, &url, None, now).await?;
        let body = expect_success(&url, answer)?;
        KnownSilence::parse_all(&body).map_err(|why| format!("{url}: {why}"))
    }

    /// Creates a silence from now on.
    pub(crate) async fn create_silence(
        &self,
        requests: &Requests,
        silence: &WantedSilence,
        length: SignedDuration,
        now: Timestamp,
    ) -> Result<(), String> {
        let url = format!("{}silences", self.silences_url(requests).await?);
        let until = now.checked_add(length).unwrap_or(Timestamp::MAX);
        let body = silence.to_body(now, until);
        let answer = self
            .send(requests, Method::POST, &url, Some(&body), now)
            .await?;
        expect_success(&url, answer).map(|_| ())
    }

    /// Ends a silence. One that has ended is no error.
    pub(crate) async fn delete_silence(
        &self,
        requests: &Requests,
        id: &str,
        now: Timestamp,
    ) -> Result<(), String> {
        let url = self.silences_url(requests).await?;
        let one = format!("{url}silence/{}", cluster::wire::escape(id));
        let answer = self.send(requests, Method::DELETE, &one, None, now).await?;
        if answer.0 == StatusCode::NOT_FOUND {
            return Ok(());
        }
        expect_success(&one, answer).map(|_| ())
    }

    async fn silences_url(&self, requests: &Requests) -> Result<String, String> {
        let given = self.settings.alertmanager.as_ref();
        let base = self.base(requests, given, "alertmanager-main").await?;
        Ok(format!("{base}/api/v2/"))
    }

    /// Address of a Service of the cluster's monitoring, by its port `web`.
    async fn base(
        &self,
        requests: &Requests,
        given: Option<&String>,
        service: &str,
    ) -> Result<String, String> {
        if let Some(base) = given {
            return Ok(base.clone());
        }
        let port = service_port(requests, NAMESPACE, service, "web").await?;
        let port = port.ok_or_else(|| format!("there is no Service {NAMESPACE}/{service}"))?;
        Ok(format!(
            "https://{service}.{NAMESPACE}.svc.cluster.local:{port}"
        ))
    }

    async fn send(
        &self,
        requests: &Requests,
        method: Method,
        url: &str,
        body: Option<&Value>,
        now: Timestamp,
    ) -> Result<(StatusCode, Vec<u8>), String> {
        let session = self.session(requests, now).await?;
        let mut request = session.client.request(method, url).timeout(ANSWER);
        if let Some(token) = &session.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            let body = body.to_string();
            request = request
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(body);
        }
        let answer = read(url, request).await;
        let is_refused = |status: StatusCode| {
            status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN
        };
        if !answer
            .as_ref()
            .is_ok_and(|(status, _)| !is_refused(*status))
        {
            // The token or the authority may have been replaced.
            *self.session.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        answer
    }

    async fn session(&self, requests: &Requests, now: Timestamp) -> Result<Session, String> {
        {
            let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            let known = session.as_ref();
            let is_fresh = |known: &&Session| now.duration_since(known.made).abs() < TOKEN_KEPT;
            if let Some(known) = known.filter(is_fresh) {
                return Ok(known.clone());
            }
        }
        let said = |error: &dyn std::error::Error| Chain(error).to_string();
        let read = |path: &PathBuf| {
            let text = std::fs::read_to_string(path);
            text.map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let is_given = self.settings.promql.is_some() && self.settings.alertmanager.is_some();
        let token = match &self.settings.token {
            Some(path) => Some(read(path)?.trim().to_owned()),
            // Servers that are given by address have no account of the cluster.
            None if is_given => None,
            None => {
                let token = requests.monitoring_token().await;
                Some(token.map_err(|error| said(&error))?)
            }
        };
        let bundle = match &self.settings.authority {
            Some(path) => Some(read(path)?),
            None if is_given => None,
            None => {
                const MAP: &str = "serving-certs-ca-bundle";
                let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{MAP}");
                let map = requests.read(&path).await.map_err(|error| said(&error))?;
                let map = map.ok_or_else(|| format!("there is no ConfigMap {NAMESPACE}/{MAP}"))?;
                let text = map.pointer("/data/service-ca.crt").and_then(Value::as_str);
                Some(text.unwrap_or_default().to_owned())
            }
        };
        let mut authorities = Vec::new();
        if let Some(bundle) = bundle {
            let certificates = Certificate::from_pem_bundle(bundle.as_bytes());
            authorities = certificates.map_err(|error| said(&error))?;
        }
        let session = Session {
            made: now,
            client: client_with(&authorities)?,
            token,
        };
        let mut known = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(session.clone());
        Ok(session)
    }
}

/// Asks each address, all at once, each three times. What fails, with the reason.
pub(crate) async fn check_dependencies(urls: &[String], timeout: Duration) -> Vec<String> {
    let client = match plain_client() {
        Ok(client) => client,
        Err(why) => return vec![why],
    };
    let checks = urls
        .iter()
        .map(|url| check_dependency(&client, url, timeout));
    let results = futures::future::join_all(checks).await;
    results.into_iter().filter_map(Result::err).collect()
}

async fn check_dependency(client: &Client, url: &str, timeout: Duration) -> Result<(), String> {
    let mut why = String::new();
    for pause in ATTEMPTS {
        match client.get(url).timeout(timeout).send().await {
            Ok(answer) if answer.status().as_u16() < 400 => return Ok(()),
            Ok(answer) => {
                why = format!("{url} answers {}", answer.status());
                if answer.status().is_client_error() {
                    break;
                }
            }
            Err(error) => why = format!("{url}: {}", Chain(&error.without_url())),
        }
        tokio::time::sleep(chassis::backoff::spread(pause)).await;
    }
    Err(why)
}

/// What a server outside of the cluster answers.
pub(crate) async fn read_graph(url: &str) -> Result<(StatusCode, Vec<u8>), String> {
    let client = plain_client()?;
    let request = client.get(url).timeout(GRAPH);
    read(
        url,
        request.header(http::header::ACCEPT, "application/json"),
    )
    .await
}

/// The label `io.openshift.release` of an image. Its registry is asked without a login.
pub(crate) async fn read_release_label(place: &ImagePlace) -> Result<Option<String>, String> {
    let client = plain_client()?;
    let url = place.manifest_url();
    let manifest = ask_registry(&client, &url, release_image::ACCEPT).await?;
    let said = |why| format!("{url}: {why}");
    let config = place.read_manifest(&manifest).map_err(said)?;
    let url = place.config_url(&config);
    let body = ask_registry(&client, &url, "*/*").await?;
    release_image::read_label(&body, &config).map_err(|why| format!("{url}: {why}"))
}

async fn ask_registry(client: &Client, url: &str, accept: &str) -> Result<Vec<u8>, String> {
    let request = client.get(url).timeout(REGISTRY);
    let request = request.header(http::header::ACCEPT, accept);
    expect_success(url, read(url, request).await?)
}

/// Sends one `CloudEvent`.
pub(crate) async fn post_event(url: &str, body: &Value) -> Result<(), String> {
    let client = plain_client()?;
    let request = client
        .post(url)
        .timeout(EVENT)
        .header(http::header::CONTENT_TYPE, cloud_event::CONTENT_TYPE)
        .body(body.to_string());
    expect_success(url, read(url, request).await?).map(|_| ())
}

/// What the validation operator's metrics are; none where there is no such operator.
pub(crate) async fn validation_metrics(requests: &Requests) -> Result<Option<String>, String> {
    const NAMESPACE: &str = "openshift-deployment-validation-operator";
    const SERVICE: &str = "deployment-validation-operator-metrics";
    let Some(port) = service_port(requests, NAMESPACE, SERVICE, "http-metrics").await? else {
        return Ok(None);
    };
    let url = format!("http://{SERVICE}.{NAMESPACE}.svc.cluster.local:{port}/metrics");
    let client = plain_client()?;
    let body = expect_success(&url, read(&url, client.get(&url).timeout(ANSWER)).await?)?;
    Ok(Some(String::from_utf8_lossy(&body).into_owned()))
}

/// Number of a Service's port; none where there is no such Service.
async fn service_port(
    requests: &Requests,
    namespace: &str,
    service: &str,
    port: &str,
) -> Result<Option<u64>, String> {
    let path = format!("/api/v1/namespaces/{namespace}/services/{service}");
    let found = requests.read(&path).await;
    let Some(found) = found.map_err(|error| Chain(&error).to_string())? else {
        return Ok(None);
    };
    let ports = found.pointer("/spec/ports").and_then(Value::as_array);
    let mut ports = ports.into_iter().flatten();
    let named = ports.find(|known| known.get("name").and_then(Value::as_str) == Some(port));
    let number = named.and_then(|known| known.get("port")?.as_u64());
    let missing = || format!("Service {namespace}/{service} has no port {port}");
    number.map(Some).ok_or_else(missing)
}

fn plain_client() -> Result<Client, String> {
    client_with(&[])
}

/// A client that goes by the proxies of the environment, and trusts these authorities besides the
/// system's.
fn client_with(authorities: &[Certificate]) -> Result<Client, String> {
    let client = || {
        Client::builder()
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT)
            .tcp_keepalive(CONNECT)
    };
    let client = client()
        .tls_certs_merge(authorities.to_vec())
        .build()
        .or_else(|_| {
            // A pod may have no authorities at all. What needs none is asked all the same.
            client().tls_certs_only(authorities.to_vec()).build()
        });
    client.map_err(|error| Chain(&error).to_string())
}

async fn read(
    url: &str,
    request: reqwest::RequestBuilder,
) -> Result<(StatusCode, Vec<u8>), String> {
    let failed = |error: reqwest::Error| format!("{url}: {}", Chain(&error.without_url()));
    let mut answer = request.send().await.map_err(failed)?;
    let status = answer.status();
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > MAX_BYTES {
            return Err(format!("{url} answers more than {MAX_BYTES} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((status, body))
}

fn expect_success(url: &str, (status, body): (StatusCode, Vec<u8>)) -> Result<Vec<u8>, String> {
    if status.is_success() {
        return Ok(body);
    }
    let text = String::from_utf8_lossy(&body);
    let text: String = text.trim().chars().take(200).collect();
    Err(format!("{url}: {status}: {text}"))
}
