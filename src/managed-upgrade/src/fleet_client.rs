//! Requests to the fleet manager, or to the agent that stands for it.

use std::time::Duration;

use http::Method;
use http::header::AUTHORIZATION;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use web::retry::RetryPolicy;
use web::{Authorities, ClientSettings, Proxies, WebClient, WebRequest, WebResponse};

use crate::architecture::ARCHITECTURE;

use upgrade_plan::fleet::{FleetCluster, FleetRoutes, FleetSettings, PolicyState, UpgradePolicy};

/// How long a response may take.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Policies in one page.
const PAGE: usize = 100;
/// Pages that are read at most: a service that counts wrong is not followed forever.
const PAGES: usize = 20;
/// Largest response that is read.
const MAX_BYTES: usize = 4 << 20;

/// How reads are repeated: as by the fleet manager's own clients.
pub const fn retry_policy(routes: FleetRoutes) -> RetryPolicy {
    let (retries, seconds) = match routes {
        FleetRoutes::Manager => (5, 4),
        FleetRoutes::Agent => (2, 2),
    };
    RetryPolicy {
        retries,
        first: Duration::from_secs(seconds),
    }
}

/// Why the fleet manager was not read, or not changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client can be made.
    #[error(transparent)]
    Client(web::Error),
    /// It was not reached, or did not respond in time.
    #[error(transparent)]
    Unreached(web::Error),
    /// It refuses. Its log has more of it under the operation.
    #[error("{response}{operation}")]
    Refused {
        /// Its response, which stands within the sentence.
        response: web::Error,
        /// ` (operation <id>)`; empty if it names none.
        operation: String,
    },
    /// What it sends has another form.
    #[error("{url}")]
    Form {
        url: String,
        /// What is wrong with the form.
        source: serde_json::Error,
    },
    /// There is not exactly one such cluster.
    #[error("it knows {total} clusters of id {id}")]
    Clusters { total: usize, id: String },
    /// The cluster has no id of the fleet manager.
    #[error("the cluster has no id there")]
    NoId,
    /// It does not stop listing policies.
    #[error("it lists more than {} policies", PAGES * PAGE)]
    TooMany,
}

/// Requests to the fleet manager about one cluster.
#[derive(Debug)]
pub struct FleetClient<'a> {
    settings: &'a FleetSettings,
    /// The cluster's own id, and with its token what it proves itself with.
    cluster_id: &'a str,
    token: &'a str,
    client: WebClient,
    retries: RetryPolicy,
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    total: usize,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
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
        retries: RetryPolicy,
    ) -> Result<Self, Error> {
        let user_agent = format!(
            "managed-upgrade-operator/v1.0.0 ({}/{ARCHITECTURE})",
            std::env::consts::OS
        );
        let client = WebClient::new(&ClientSettings {
            user_agent: &user_agent,
            proxies: match settings.routes {
                // It is in the cluster.
                FleetRoutes::Agent => Proxies::None,
                FleetRoutes::Manager => Proxies::Environment,
            },
            authorities: Authorities::System,
            host: None,
        });
        Ok(Self {
            settings,
            cluster_id,
            token,
            client: client.map_err(Error::Client)?,
            retries,
        })
    }

    /// The cluster.
    ///
    /// # Errors
    /// It does not respond, or knows not exactly one such cluster.
    pub async fn cluster(&self) -> Result<FleetCluster, Error> {
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
                        let id = self.cluster_id.to_owned();
                        return Err(Error::Clusters { total, id });
                    }
                }
            }
        };
        if cluster.id.is_empty() {
            return Err(Error::NoId);
        }
        Ok(cluster)
    }

    /// All upgrade policies of the cluster.
    ///
    /// # Errors
    /// It does not respond.
    pub async fn policies(&self, cluster: &FleetCluster) -> Result<Vec<UpgradePolicy>, Error> {
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
        Err(Error::TooMany)
    }

    /// State of a policy.
    ///
    /// # Errors
    /// It does not respond.
    pub async fn state(
        &self,
        cluster: &FleetCluster,
        policy: &UpgradePolicy,
    ) -> Result<PolicyState, Error> {
        self.read(&self.state_path(cluster, policy)).await
    }

    /// Sets the state of a policy.
    ///
    /// # Errors
    /// It does not respond, or refuses.
    pub async fn set_state(
        &self,
        cluster: &FleetCluster,
        policy: &UpgradePolicy,
        value: &str,
        description: &str,
    ) -> Result<(), Error> {
        let path = self.state_path(cluster, policy);
        let body = json!({
            "kind": "UpgradePolicyState", "value": value, "description": description
        });
        self.write(Method::PATCH, &path, &body).await
    }

    /// Writes a service log. `reference` is where a person reads more; empty for nowhere.
    ///
    /// # Errors
    /// It does not respond, or refuses.
    pub async fn log(
        &self,
        cluster: &FleetCluster,
        summary: &str,
        description: &str,
        reference: &str,
    ) -> Result<(), Error> {
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

    /// Reads, and again where that may help: nothing is changed by it.
    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let url = self.url(path);
        let request = self.request(&url);
        let response = self.client.send_patiently(&request, self.retries).await;
        let body = success(&url, response)?;
        serde_json::from_slice(&body).map_err(|source| Error::Form { url, source })
    }

    async fn write(&self, method: Method, path: &str, body: &Value) -> Result<(), Error> {
        let url = self.url(path);
        let request = self.request(&url);
        let request = request.sending(method, "application/json", body.to_string());
        success(&url, self.client.send(&request).await).map(drop)
    }

    fn request<'u>(&self, url: &'u str) -> WebRequest<'u> {
        let proof = format!("AccessToken {}:{}", self.cluster_id, self.token);
        WebRequest::get(url, TIMEOUT, MAX_BYTES).header(AUTHORIZATION, proof)
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.settings.base)
    }
}

/// The body of a success.
fn success(url: &str, sent: Result<WebResponse, web::Error>) -> Result<Vec<u8>, Error> {
    let response = sent.map_err(Error::Unreached)?;
    let operation = response.headers.get("x-operation-id");
    let operation = operation.and_then(|id| id.to_str().ok());
    let operation = operation.map(|id| format!(" (operation {id})"));
    let operation = operation.unwrap_or_default();
    let success = response.success(url);
    success.map_err(|response| Error::Refused {
        response,
        operation,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::mpsc::{self, Receiver};

    use api::upgrade::UpgradeType;

    use super::*;

    /// A fleet manager that sends these responses, one to each request; empty breaks off. The
    /// requests, with the proof.
    fn manager(responses: &[&str], routes: FleetRoutes) -> (FleetSettings, Receiver<String>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let responses: Vec<String> = responses
            .iter()
            .map(|response| (*response).to_owned())
            .collect();
        let (sender, requests) = mpsc::channel();
        std::thread::spawn(move || {
            for response in responses {
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
                sender.send(format!("{}; {proof}", head[0])).unwrap();
                if response.is_empty() {
                    continue;
                }
                let (status, body) = response.split_once(' ').unwrap();
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

    const QUICK: RetryPolicy = RetryPolicy {
        retries: 2,
        first: Duration::from_millis(1),
    };

    fn client(settings: &FleetSettings) -> FleetClient<'_> {
        FleetClient::new(settings, "uuid", "token", QUICK).unwrap()
    }

    const CLUSTER: &str = r#"200 {"total": 1, "items": [{"id": "c1", "version": {"channel_group": "fast"}, "node_drain_grace_period": {"value": 60, "unit": "minutes"}}]}"#;

    #[tokio::test]
    async fn questions_are_asked_again_where_that_may_help_and_prove_the_cluster() {
        let (settings, requests) = manager(&["503 {}", "", CLUSTER], FleetRoutes::Manager);
        let cluster = client(&settings).cluster().await.unwrap();
        assert_eq!(cluster.id, "c1");
        assert_eq!(cluster.version.channel_group, "fast");
        let requests: Vec<String> = requests.iter().collect();
        let expected = "GET /api/clusters_mgmt/v1/clusters?search=external_id%20%3D%20%27uuid%27&size=1 HTTP/1.1; AccessToken uuid:token";
        assert_eq!(requests, [expected; 3]);

        // Refused requests are not repeated; after the last try the error has the whole response.
        let (settings, _requests) = manager(&["403 no"], FleetRoutes::Manager);
        let error = client(&settings).cluster().await.unwrap_err().to_string();
        assert!(
            error.ends_with("size=1 answers 403 Forbidden: no (operation op)"),
            "{error}"
        );
        let (settings, requests) = manager(&["429 a", "429 b", "429 c"], FleetRoutes::Manager);
        let error = client(&settings).cluster().await.unwrap_err().to_string();
        assert!(error.ends_with(": c (operation op)"), "{error}");
        assert_eq!(requests.iter().count(), 3);
        let none = r#"200 {"total": 0, "items": []}"#;
        let (settings, _requests) = manager(&[none], FleetRoutes::Manager);
        let error = client(&settings).cluster().await.unwrap_err().to_string();
        assert_eq!(error, "it knows 0 clusters of id uuid");
    }

    #[tokio::test]
    async fn all_pages_of_policies_are_read() {
        let page = |id: &str| format!(r#"200 {{"total": 2, "items": [{{"id": "{id}"}}]}}"#);
        let (settings, requests) =
            manager(&[CLUSTER, &page("a"), &page("b")], FleetRoutes::Manager);
        let client = client(&settings);
        let cluster = client.cluster().await.unwrap();
        let policies = client.policies(&cluster).await.unwrap();
        assert_eq!(policies.len(), 2);
        let last = requests.iter().last().unwrap();
        let expected = "GET /api/clusters_mgmt/v1/clusters/c1/upgrade_policies?page=2&size=100 ";
        assert!(last.starts_with(expected), "{last}");
    }

    #[tokio::test]
    async fn the_agent_has_routes_of_its_own() {
        let responses = [
            r#"200 {"id": "c1"}"#,
            r#"200 [{"id": "p1", "version": "4.16.4"}]"#,
            r#"200 {"value": "scheduled"}"#,
            "200 {}",
        ];
        let (settings, requests) = manager(&responses, FleetRoutes::Agent);
        let client = client(&settings);
        let cluster = client.cluster().await.unwrap();
        let policies = client.policies(&cluster).await.unwrap();
        let state = client.state(&cluster, &policies[0]).await.unwrap();
        assert_eq!(state.value, "scheduled");
        let set = client
            .set_state(&cluster, &policies[0], "started", "t")
            .await;
        set.unwrap();
        let requests: Vec<String> = requests
            .iter()
            .map(|line| line.split(" HTTP").next().unwrap().to_owned())
            .collect();
        let expected = [
            "GET /",
            "GET /upgrade_policies",
            "GET /upgrade_policies/p1/state",
            "PATCH /upgrade_policies/p1/state",
        ];
        assert_eq!(requests, expected);
    }

    #[tokio::test]
    async fn a_change_is_sent_once_only() {
        let (settings, requests) = manager(&["503 later"], FleetRoutes::Manager);
        let cluster: FleetCluster = serde_json::from_value(json!({ "id": "c1" })).unwrap();
        let client = client(&settings);
        let error = client.log(&cluster, "s", "d", "").await.unwrap_err();
        assert!(error.to_string().contains("503"), "{error}");
        assert_eq!(requests.iter().count(), 1);
    }
}
