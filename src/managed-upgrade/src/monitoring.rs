//! Requests to Prometheus, Alertmanager and other servers over HTTP.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use cluster::{path, wire};
use http::header::AUTHORIZATION;
use http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use serde_json::Value;
use web::{Authorities, ClientSettings, Proxies, WebClient, WebRequest, WebResponse};

use crate::requests::Requests;
use upgrade_plan::cloud_event;
use upgrade_plan::health::alerts;
use upgrade_plan::silence::{ListedSilence, WantedSilence};

/// How long a response may take.
const TIMEOUT: Duration = Duration::from_mins(1);
/// How long a receiver of a `CloudEvent` may take.
const EVENT: Duration = Duration::from_secs(10);
/// Largest response that is read.
const MAX_BYTES: usize = 64 << 20;
/// A token is renewed after this time; it lasts twice as long.
const TOKEN_KEPT: SignedDuration = SignedDuration::from_hours(12);
/// How often a dependency is tried, and how long is waited after each failure but the last.
const ATTEMPTS: [Duration; 3] = [
    Duration::from_millis(1250),
    Duration::from_millis(3250),
    Duration::ZERO,
];

/// What the program calls itself.
const USER_AGENT: &str = concat!("managed-upgrade-operator/", env!("CARGO_PKG_VERSION"));

const NAMESPACE: &str = "openshift-monitoring";
const AUTHORITIES: &str = "serving-certs-ca-bundle";

/// Why a server that knows about alerts was not read, or not changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request to the API server failed.
    #[error(transparent)]
    Request(#[from] wire::Error),
    /// There is no such Service.
    #[error("there is no Service {NAMESPACE}/{0}")]
    NoService(&'static str),
    /// A Service has no such port.
    #[error("Service {service} has no port {port}")]
    NoPort { service: String, port: &'static str },
    #[error("there is no ConfigMap {NAMESPACE}/{AUTHORITIES}")]
    NoAuthority,
    /// A file of the settings cannot be read.
    #[error("cannot read {path}")]
    File {
        path: String,
        source: std::io::Error,
    },
    /// No client can be made.
    #[error(transparent)]
    Client(web::Error),
    /// The server was not reached, or did not respond in time.
    #[error(transparent)]
    Unreached(web::Error),
    #[error(transparent)]
    Refused(web::Error),
    /// Prometheus refuses a query, or does not know.
    #[error(transparent)]
    Alerts(#[from] alerts::Error),
    /// What Alertmanager sends are no silences.
    #[error("{url}")]
    Silences {
        url: String,
        /// What is wrong with them.
        source: serde_json::Error,
    },
}

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
    client: WebClient,
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

    /// The response of Prometheus to a query.
    pub(crate) async fn query(
        &self,
        requests: &Requests,
        query: &str,
        now: Timestamp,
    ) -> Result<WebResponse, Error> {
        let base = self
            .base(requests, self.settings.promql.as_ref(), "prometheus-k8s")
            .await?;
        let query = cluster::wire::escape(query);
        let whole = release::prometheus::partial::REFUSED;
        let url = format!("{base}/api/v1/query?query={query}&{whole}");
        let request = WebRequest::get(&url, TIMEOUT, MAX_BYTES);
        self.send(requests, request, now).await
    }

    pub(crate) async fn silences(
        &self,
        requests: &Requests,
        now: Timestamp,
    ) -> Result<Vec<ListedSilence>, Error> {
        let url = format!("{}silences", self.silences_url(requests).await?);
        let request = WebRequest::get(&url, TIMEOUT, MAX_BYTES);
        let response = self.send(requests, request, now).await?;
        let body = response.success(&url).map_err(Error::Refused)?;
        ListedSilence::parse_all(&body).map_err(|source| Error::Silences { url, source })
    }

    /// Creates a silence from now on.
    pub(crate) async fn create_silence(
        &self,
        requests: &Requests,
        silence: &WantedSilence,
        length: SignedDuration,
        now: Timestamp,
    ) -> Result<(), Error> {
        let url = format!("{}silences", self.silences_url(requests).await?);
        let until = now.checked_add(length).unwrap_or(Timestamp::MAX);
        let body = silence.to_body(now, until).to_string();
        let request = WebRequest::get(&url, TIMEOUT, MAX_BYTES);
        let request = request.sending(Method::POST, "application/json", body);
        let response = self.send(requests, request, now).await?;
        response.success(&url).map(drop).map_err(Error::Refused)
    }

    /// Ends a silence. One that has ended is no error.
    pub(crate) async fn delete_silence(
        &self,
        requests: &Requests,
        id: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let url = self.silences_url(requests).await?;
        let one = format!("{url}silence/{}", cluster::wire::escape(id));
        let mut request = WebRequest::get(&one, TIMEOUT, MAX_BYTES);
        request.method = Method::DELETE;
        let response = self.send(requests, request, now).await?;
        if response.status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        response.success(&one).map(drop).map_err(Error::Refused)
    }

    async fn silences_url(&self, requests: &Requests) -> Result<String, Error> {
        let given = self.settings.alertmanager.as_ref();
        let base = self.base(requests, given, "alertmanager-main").await?;
        Ok(format!("{base}/api/v2/"))
    }

    /// Address of a Service of the cluster's monitoring, by its port `web`.
    async fn base(
        &self,
        requests: &Requests,
        given: Option<&String>,
        service: &'static str,
    ) -> Result<String, Error> {
        if let Some(base) = given {
            return Ok(base.clone());
        }
        let port = service_port(requests, NAMESPACE, service, "web").await?;
        let port = port.ok_or(Error::NoService(service))?;
        Ok(format!(
            "https://{service}.{NAMESPACE}.svc.cluster.local:{port}"
        ))
    }

    async fn send(
        &self,
        requests: &Requests,
        mut request: WebRequest<'_>,
        now: Timestamp,
    ) -> Result<WebResponse, Error> {
        let session = self.session(requests, now).await?;
        if let Some(token) = &session.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let response = session.client.send(&request).await;
        let is_refused = |response: &WebResponse| {
            matches!(
                response.status,
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
            )
        };
        if response.as_ref().map_or(true, is_refused) {
            // The token or the authority may have been replaced.
            *self.session.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        response.map_err(Error::Unreached)
    }

    async fn session(&self, requests: &Requests, now: Timestamp) -> Result<Session, Error> {
        {
            let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            let cached = session.as_ref();
            let is_fresh = |session: &&Session| now.duration_since(session.made).abs() < TOKEN_KEPT;
            if let Some(cached) = cached.filter(is_fresh) {
                return Ok(cached.clone());
            }
        }
        let read = |path: &PathBuf| {
            let text = std::fs::read_to_string(path);
            text.map_err(|source| Error::File {
                path: path.display().to_string(),
                source,
            })
        };
        let is_given = self.settings.promql.is_some() && self.settings.alertmanager.is_some();
        let token = match &self.settings.token {
            Some(path) => Some(read(path)?.trim().to_owned()),
            // Servers that are given by address have no account of the cluster.
            None if is_given => None,
            None => Some(requests.monitoring_token().await?),
        };
        let bundle = match &self.settings.authority {
            Some(path) => Some(read(path)?),
            None if is_given => None,
            None => {
                let path = path::namespaced::<ConfigMap>(NAMESPACE, AUTHORITIES);
                let map = requests.read(&path).await?.ok_or(Error::NoAuthority)?;
                let text = map.pointer("/data/service-ca.crt").and_then(Value::as_str);
                Some(text.unwrap_or_default().to_owned())
            }
        };
        let session = Session {
            made: now,
            client: client(bundle.as_deref().unwrap_or_default()).map_err(Error::Client)?,
            token,
        };
        let mut cached = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        *cached = Some(session.clone());
        Ok(session)
    }
}

/// Asks each address, all at once, each three times. What fails, with the reason.
pub(crate) async fn check_dependencies(urls: &[String], timeout: Duration) -> Vec<web::Error> {
    let client = match plain_client() {
        Ok(client) => client,
        Err(error) => return vec![error],
    };
    let checks = urls
        .iter()
        .map(|url| check_dependency(&client, url, timeout));
    let results = futures::future::join_all(checks).await;
    results.into_iter().flatten().collect()
}

/// Why an address does not respond with success, after all tries.
async fn check_dependency(client: &WebClient, url: &str, timeout: Duration) -> Option<web::Error> {
    let request = WebRequest::get(url, timeout, MAX_BYTES);
    let mut failure = None;
    for pause in ATTEMPTS {
        match client.status(&request).await {
            Ok(status) if status.as_u16() < 400 => return None,
            Ok(status) => {
                failure = Some(web::Error::Status {
                    url: url.to_owned(),
                    status,
                    text: String::new(),
                });
                if status.is_client_error() {
                    break;
                }
            }
            Err(error) => failure = Some(error),
        }
        tokio::time::sleep(chassis::backoff::spread(pause)).await;
    }
    failure
}

/// Sends one `CloudEvent`.
pub(crate) async fn post_event(url: &str, body: &Value) -> Result<(), web::Error> {
    let request = WebRequest::get(url, EVENT, MAX_BYTES);
    let request = request.sending(Method::POST, cloud_event::CONTENT_TYPE, body.to_string());
    let response = plain_client()?.send(&request).await?;
    response.success(url).map(drop)
}

/// What the validation operator's metrics are; none where there is no such operator.
pub(crate) async fn validation_metrics(requests: &Requests) -> Result<Option<String>, Error> {
    const NAMESPACE: &str = "openshift-deployment-validation-operator";
    const SERVICE: &str = "deployment-validation-operator-metrics";
    let Some(port) = service_port(requests, NAMESPACE, SERVICE, "http-metrics").await? else {
        return Ok(None);
    };
    let url = format!("http://{SERVICE}.{NAMESPACE}.svc.cluster.local:{port}/metrics");
    let request = WebRequest::get(&url, TIMEOUT, MAX_BYTES);
    let client = plain_client().map_err(Error::Client)?;
    let response = client.send(&request).await.map_err(Error::Unreached)?;
    let body = response.success(&url).map_err(Error::Refused)?;
    Ok(Some(String::from_utf8_lossy(&body).into_owned()))
}

/// Number of a Service's port; none where there is no such Service.
async fn service_port(
    requests: &Requests,
    namespace: &str,
    service: &str,
    port: &'static str,
) -> Result<Option<u64>, Error> {
    let path = path::namespaced::<Service>(namespace, service);
    let Some(found) = requests.read(&path).await? else {
        return Ok(None);
    };
    let ports = found.pointer("/spec/ports").and_then(Value::as_array);
    let mut ports = ports.into_iter().flatten();
    let named = ports.find(|one| one.get("name").and_then(Value::as_str) == Some(port));
    let number = named.and_then(|one| one.get("port")?.as_u64());
    let missing = || Error::NoPort {
        service: format!("{namespace}/{service}"),
        port,
    };
    number.map(Some).ok_or_else(missing)
}

/// A client for servers that only the system's authorities sign.
pub(crate) fn plain_client() -> Result<WebClient, web::Error> {
    client("")
}

/// A client that goes by the proxies of the environment, and trusts a bundle besides the system's
/// authorities.
fn client(bundle: &str) -> Result<WebClient, web::Error> {
    WebClient::new(&ClientSettings {
        user_agent: USER_AGENT,
        proxies: Proxies::Environment,
        authorities: Authorities::And {
            name: "the authorities of the cluster's monitoring",
            bundle: bundle.as_bytes(),
        },
        host: None,
    })
}
