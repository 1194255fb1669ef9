//! Requests to the fleet manager, or to the agent that stands for it.

use std::time::Duration;

use chassis::report::Chain;
use http::StatusCode;
use reqwest::{Client, Method};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::version::ARCHITECTURE;

use super::{FleetCluster, FleetRoutes, FleetSettings, PolicyState, UpgradePolicy};

/// How long a connection may take, and how long it is kept.
const CONNECT: Duration = Duration::from_secs(30);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_mins(1);
/// Policies that are asked for at once.
const PAGE: usize = 100;
/// Pages that are read at most: a service that counts wrong is not followed forever.
const PAGES: usize = 20;
/// Largest answer that is read.
const MAX_BYTES: usize = 4 << 20;
/// Characters of an answer that are shown.
const SHOWN: usize = 200;

/// How often a question is asked again, and after which time first; each wait is twice the last.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    tries: u32,
    first: Duration,
}

impl Patience {
    /// Asks once: something else asks again.
    pub const ONCE: Self = Self {
        tries: 0,
        first: Duration::ZERO,
    };

    /// As the fleet manager's own clients ask.
    pub const fn of(routes: FleetRoutes) -> Self {
        match routes {
            FleetRoutes::Manager => Self {
                tries: 5,
                first: Duration::from_secs(4),
            },
            FleetRoutes::Agent => Self {
                tries: 2,
                first: Duration::from_secs(2),
            },
        }
    }
}

/// Requests to the fleet manager about one cluster.
#[derive(Debug)]
pub struct FleetClient<'a> {
    settings: &'a FleetSettings,
    /// The cluster's own id, and with its token what it proves itself with.
    cluster_id: &'a str,
    token: &'a str,
    client: Client,
    patience: Patience,
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    total: usize,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

/// An answer that is no success.
struct Failure {
    why: String,
    /// Whether it may pass by itself.
    is_transient: bool,
}

impl<'a> FleetClient<'a> {
    /// A client for the cluster of this id.
    ///
    /// # Errors
    /// There can be none.
    pub fn new(
        settings: &'a FleetSettings,
        cluster_id: &'a str,
        token: &'a str,
        patience: Patience,
    ) -> Result<Self, String> {
        let mut client = Client::builder()
            .user_agent(format!(
                "managed-upgrade-operator/v1.0.0 ({}/{ARCHITECTURE})",
                std::env::consts::OS
            ))
            .connect_timeout(CONNECT)
            .tcp_keepalive(CONNECT)
            .timeout(ANSWER);
        if settings.routes == FleetRoutes::Agent {
            // It is in the cluster.
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| Chain(&error).to_string())?;
        Ok(Self {
            settings,
            cluster_id,
            token,
            client,
            patience,
        })
    }

    /// The cluster.
    ///
    /// # Errors
    /// It does not answer, or knows not exactly one such cluster.
    pub async fn cluster(&self) -> Result<FleetCluster, String> {
        let cluster: FleetCluster = match self.settings.routes {
            FleetRoutes::Agent => self.read("/").await?,
            FleetRoutes::Manager => {
                let search = format!("external_id = '{}'", self.cluster_id);
                let path = format!(
                    "/api/clusters_mgmt/v1/clusters?search={}&size=1",
                    cluster::wire::escape(&search)
                );
                let found: Page<FleetCluster> = self.read(&path).await?;
                let mut items = found.items.into_iter();
                match (found.total, items.next()) {
                    (1, Some(cluster)) => cluster,
                    (total, _) => {
                        return Err(format!(
                            "it knows {total} clusters of id {}",
                            self.cluster_id
                        ));
                    }
                }
            }
        };
        if cluster.id.is_empty() {
            return Err("the cluster has no id there".to_owned());
        }
        Ok(cluster)
    }

    /// All upgrade policies of the cluster.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn policies(&self, cluster: &FleetCluster) -> Result<Vec<UpgradePolicy>, String> {
        if self.settings.routes == FleetRoutes::Agent {
            return self.read("/upgrade_policies").await;
        }
        let base = self.policies_path(cluster);
        let mut policies = Vec::new();
        for number in 1..=PAGES {
            let path = format!("{base}?page={number}&size={PAGE}");
            let page: Page<UpgradePolicy> = self.read(&path).await?;
            let is_last = page.items.is_empty();
            policies.extend(page.items);
            if is_last || policies.len() >= page.total {
                return Ok(policies);
            }
        }
        Err(format!("it lists more than {} policies", PAGES * PAGE))
    }

    /// State of a policy.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn state(
        &self,
        cluster: &FleetCluster,
        policy: &UpgradePolicy,
    ) -> Result<PolicyState, String> {
        self.read(&self.state_path(cluster, policy)).await
    }

    /// Sets the state of a policy.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub async fn set_state(
        &self,
        cluster: &FleetCluster,
        policy: &UpgradePolicy,
        value: &str,
        description: &str,
    ) -> Result<(), String> {
        let path = self.state_path(cluster, policy);
        let body = json!({
            "kind": "UpgradePolicyState", "value": value, "description": description
        });
        self.write(Method::PATCH, &path, &body).await
    }

    /// Writes a service log. `reference` is where a person reads more; empty for nowhere.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub async fn log(
        &self,
        cluster: &FleetCluster,
        summary: &str,
        description: &str,
        reference: &str,
    ) -> Result<(), String> {
        let references: Vec<&str> = Some(reference)
            .filter(|reference| !reference.is_empty())
            .into_iter()
            .collect();
        let body = json!({
            "kind": "LogEntry", "severity": "Info",
            "service_name": "RedHat Managed Upgrade Notifications",
            "log_type": "Cluster Updates", "internal_only": false,
            "cluster_id": cluster.id, "summary": summary, "description": description,
            "doc_references": references,
        });
        let path = "/api/service_logs/v1/cluster_logs";
        self.write(Method::POST, path, &body).await
    }

    fn policies_path(&self, cluster: &FleetCluster) -> String {
        match self.settings.routes {
            FleetRoutes::Agent => "/upgrade_policies".to_owned(),
            FleetRoutes::Manager => {
                let id = cluster::wire::escape(&cluster.id);
                format!("/api/clusters_mgmt/v1/clusters/{id}/upgrade_policies")
            }
        }
    }

    fn state_path(&self, cluster: &FleetCluster, policy: &UpgradePolicy) -> String {
        let id = cluster::wire::escape(&policy.id);
        format!("{}/{id}/state", self.policies_path(cluster))
    }

    /// Asks, and again where that may help: nothing is changed by it.
    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let mut wait = self.patience.first;
        let mut left = self.patience.tries;
        let body = loop {
            match self.send(Method::GET, path, None).await {
                Ok(body) => break body,
                Err(failure) if failure.is_transient && left > 0 => {
                    tracing::debug!(reason = failure.why, "the fleet manager is asked again");
                    left -= 1;
                    tokio::time::sleep(chassis::backoff::spread(wait)).await;
                    wait *= 2;
                }
                Err(failure) => return Err(failure.why),
            }
        };
        serde_json::from_slice(&body).map_err(|error| format!("{}: {error}", self.url(path)))
    }

    async fn write(&self, method: Method, path: &str, body: &Value) -> Result<(), String> {
        let sent = self.send(method, path, Some(body)).await;
        sent.map(|_| ()).map_err(|failure| failure.why)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Vec<u8>, Failure> {
        let url = self.url(path);
        let proof = format!("AccessToken {}:{}", self.cluster_id, self.token);
        let mut request = self
            .client
            .request(method, &url)
            .header(http::header::AUTHORIZATION, proof);
        if let Some(body) = body {
            request = request
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(body.to_string());
        }
        let failed = |error: reqwest::Error| Failure {
            // It was refused, broken off, or too slow.
            is_transient: true,
            why: format!("{url}: {}", Chain(&error.without_url())),
        };
        let mut answer = request.send().await.map_err(failed)?;
        let status = answer.status();
        let operation = answer
            .headers()
            .get("x-operation-id")
            .and_then(|id| id.to_str().ok())
            .map(|id| format!(" (operation {id})"));
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > MAX_BYTES {
                return Err(Failure {
                    is_transient: false,
                    why: format!("{url} answers more than {MAX_BYTES} bytes"),
                });
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(body);
        }
        let text = String::from_utf8_lossy(&body);
        let text: String = text.trim().chars().take(SHOWN).collect();
        Err(Failure {
            is_transient: [
                StatusCode::TOO_MANY_REQUESTS,
                StatusCode::SERVICE_UNAVAILABLE,
            ]
            .contains(&status),
            why: format!("{url}: {status}{}: {text}", operation.unwrap_or_default()),
        })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.settings.base)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::mpsc::{self, Receiver};

    use api::upgrade::UpgradeType;

    use super::*;

    /// A fleet manager that gives these answers, one to each request; empty breaks off. What it
    /// was asked, with the proof.
    fn manager(answers: &[&str], routes: FleetRoutes) -> (FleetSettings, Receiver<String>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
        let (asked, requests) = mpsc::channel();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let head: Vec<String> = std::iter::repeat_with(|| {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    line.trim_end().to_owned()
                })
                .take_while(|line| !line.is_empty())
                .collect();
                let value = |name: &str| head.iter().find_map(|line| line.strip_prefix(name));
                let length = value("content-length: ").map_or(0, |text| text.parse().unwrap());
                reader.read_exact(&mut vec![0; length]).unwrap();
                let proof = value("authorization: ").unwrap();
                asked.send(format!("{}; {proof}", head[0])).unwrap();
                if answer.is_empty() {
                    continue;
                }
                let (status, body) = answer.split_once(' ').unwrap();
                let length = body.len();
                let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\n");
                let rest = format!("X-Operation-Id: op\r\nConnection: close\r\n\r\n{body}");
                stream
                    .write_all(format!("{head}{rest}").as_bytes())
                    .unwrap();
            }
        });
        let settings = FleetSettings {
            base,
            routes,
            upgrade_type: UpgradeType::Osd,
            has_service_logs: false,
        };
        (settings, requests)
    }

    const QUICK: Patience = Patience {
        tries: 2,
        first: Duration::from_millis(1),
    };

    fn client(settings: &FleetSettings) -> FleetClient<'_> {
        drop(rustls::crypto::ring::default_provider().install_default());
        FleetClient::new(settings, "uuid", "token", QUICK).unwrap()
    }

    const CLUSTER: &str = r#"200 {"total": 1, "items": [{"id": "c1", "version": {"channel_group": "fast"}, "node_drain_grace_period": {"value": 60, "unit": "minutes"}}]}"#;

    #[tokio::test]
    async fn questions_are_asked_again_where_that_may_help_and_prove_the_cluster() {
        let (settings, asked) = manager(&["503 {}", "", CLUSTER], FleetRoutes::Manager);
        let cluster = client(&settings).cluster().await.unwrap();
        assert_eq!(cluster.id, "c1");
        assert_eq!(cluster.version.channel_group, "fast");
        let asked: Vec<String> = asked.iter().collect();
        let expected = "GET /api/clusters_mgmt/v1/clusters?search=external_id%20%3D%20%27uuid%27&size=1 HTTP/1.1; AccessToken uuid:token";
        assert_eq!(asked, [expected; 3]);

        // Refusals are not asked again; after the last try the error has all that was said.
        let (settings, _asked) = manager(&["403 no"], FleetRoutes::Manager);
        let error = client(&settings).cluster().await.unwrap_err();
        assert!(
            error.ends_with("size=1: 403 Forbidden (operation op): no"),
            "{error}"
        );
        let (settings, asked) = manager(&["429 a", "429 b", "429 c"], FleetRoutes::Manager);
        let error = client(&settings).cluster().await.unwrap_err();
        assert!(error.ends_with(": c"), "{error}");
        assert_eq!(asked.iter().count(), 3);
        let none = r#"200 {"total": 0, "items": []}"#;
        let (settings, _asked) = manager(&[none], FleetRoutes::Manager);
        let error = client(&settings).cluster().await.unwrap_err();
        assert_eq!(error, "it knows 0 clusters of id uuid");
    }

    #[tokio::test]
    async fn all_pages_of_policies_are_read() {
        let page = |id: &str| format!(r#"200 {{"total": 2, "items": [{{"id": "{id}"}}]}}"#);
        let (settings, asked) = manager(&[CLUSTER, &page("a"), &page("b")], FleetRoutes::Manager);
        let client = client(&settings);
        let cluster = client.cluster().await.unwrap();
        let policies = client.policies(&cluster).await.unwrap();
        assert_eq!(policies.len(), 2);
        let last = asked.iter().last().unwrap();
        let expected = "GET /api/clusters_mgmt/v1/clusters/c1/upgrade_policies?page=2&size=100 ";
        assert!(last.starts_with(expected), "{last}");
    }

    #[tokio::test]
    async fn the_agent_has_routes_of_its_own() {
        let answers = [
            r#"200 {"id": "c1"}"#,
            r#"200 [{"id": "p1", "version": "4.16.4"}]"#,
            r#"200 {"value": "scheduled"}"#,
            "200 {}",
        ];
        let (settings, asked) = manager(&answers, FleetRoutes::Agent);
        let client = client(&settings);
        let cluster = client.cluster().await.unwrap();
        let policies = client.policies(&cluster).await.unwrap();
        let state = client.state(&cluster, &policies[0]).await.unwrap();
        assert_eq!(state.value, "scheduled");
        let set = client
            .set_state(&cluster, &policies[0], "started", "t")
            .await;
        assert_eq!(set, Ok(()));
        let asked: Vec<String> = asked
            .iter()
            .map(|line| line.split(" HTTP").next().unwrap().to_owned())
            .collect();
        let expected = [
            "GET /",
            "GET /upgrade_policies",
            "GET /upgrade_policies/p1/state",
            "PATCH /upgrade_policies/p1/state",
        ];
        assert_eq!(asked, expected);
    }

    #[tokio::test]
    async fn a_change_is_sent_once_only() {
        let (settings, asked) = manager(&["503 later"], FleetRoutes::Manager);
        let cluster: FleetCluster = serde_json::from_value(json!({ "id": "c1" })).unwrap();
        let client = client(&settings);
        let error = client.log(&cluster, "s", "d", "").await.unwrap_err();
        assert!(error.contains("503"), "{error}");
        assert_eq!(asked.iter().count(), 1);
    }
}
