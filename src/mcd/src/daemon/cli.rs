//! The command line of `mcd start`, as one validated value.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use chassis::cli::{AdminArgs, LogArgs, SecureArgs};
use chassis::secure_metrics::SecureListener;
use http::Uri;
use node::drain::PodName;

/// Keeps this node in the configuration that its Node asks for.
#[derive(Debug, Clone, clap::Args)]
pub struct StartArgs {
    /// Kubeconfig of the kubelet, as a path on the host. It is read again when it, or a file that
    /// it names, changes.
    #[arg(long, default_value = "/var/lib/kubelet/kubeconfig")]
    kubeconfig: PathBuf,
    /// Name of the Node (or environment variable `NODE_NAME`)
    #[arg(long)]
    node_name: Option<String>,
    /// Where the host's root is mounted
    #[arg(long, default_value = "/rootfs")]
    root_mount: PathBuf,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    secure: SecureArgs,
    /// Authorities of clients of metrics over HTTPS, as PEM and as a path on the host; read again
    /// every 10 seconds
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/kubernetes/kubelet-ca.crt"
    )]
    client_ca_file: String,
    /// Token of the pod's service account
    #[arg(
        long,
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    )]
    token_file: PathBuf,
    /// Config server that hands the node its configurations, as https://host:port; by default the
    /// API server does, to the pod's service account
    #[arg(long, value_name = "URL", requires = "config_server_ca_file")]
    config_server: Option<String>,
    /// Bundle that vouches for the config server, PEM
    #[arg(long, value_name = "FILE", requires = "config_server")]
    config_server_ca_file: Option<PathBuf>,
    /// This pod, as namespace/name, where it is not of a DaemonSet: a drain leaves it alone
    #[arg(long)]
    pod: Option<String>,
    /// Namespace that events are kept in
    #[arg(long, default_value = "openshift-machine-config-operator")]
    events_namespace: String,
    /// Whether the kubelet is asked for its health
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    kubelet_healthz_enabled: bool,
    /// Where the kubelet tells its health
    #[arg(long, default_value = "http://localhost:10248/healthz")]
    kubelet_healthz_endpoint: Uri,
    /// Seconds over which nodes spread what they fetch before their turn; 0: they begin at once
    #[arg(long, default_value_t = 60)]
    prefetch_window_secs: u32,
    /// The helper that is put on the host
    #[arg(long, default_value = "/usr/bin/mcd-os")]
    helper: PathBuf,
    /// The log is set up before the rest is validated.
    #[command(flatten)]
    pub log: LogArgs,
}

/// What `mcd start` runs with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Kubeconfig of the kubelet, on the host.
    pub kubeconfig: PathBuf,
    /// Name of the Node.
    pub node: String,
    /// Where the host's root is mounted.
    pub root: PathBuf,
    /// Where metrics and health are served.
    pub metrics: SocketAddr,
    /// Where metrics are served over HTTPS, and to whom.
    pub secure: Option<SecureOptions>,
    /// Token of the pod's service account, in the pod.
    pub token: PathBuf,
    /// The config server and the bundle that vouches for it, in the pod.
    pub config_server: Option<(String, PathBuf)>,
    /// This pod.
    pub own: Option<PodName>,
    /// Namespace of events.
    pub events_namespace: String,
    /// Address of the kubelet's health endpoint; none if it is not checked.
    pub kubelet_health: Option<Uri>,
    /// Over which time nodes spread what they fetch before their turn.
    pub prefetch_window: Duration,
    /// The helper, in the pod.
    pub helper: PathBuf,
}

/// Metrics over HTTPS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecureOptions {
    /// Where, and with which certificate.
    pub listener: SecureListener,
    /// Bundle of the authorities that vouch for clients, on the host.
    pub clients: String,
}

impl StartArgs {
    /// Validates.
    ///
    /// # Errors
    /// A message that names the option.
    pub fn validate(self) -> anyhow::Result<Options> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the documented fallback of OpenShift's MCO, read here only"
        )]
        let from_environment = || std::env::var("NODE_NAME").ok();
        let node = self
            .node_name
            .or_else(from_environment)
            .filter(|name| !name.is_empty())
            .context("node-name is required")?;
        let plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        // It becomes part of request paths and selectors.
        anyhow::ensure!(
            node.bytes().all(plain),
            "--node-name {node:?} is no name of a Node"
        );
        let endpoint = self.kubelet_healthz_endpoint;
        anyhow::ensure!(
            endpoint.scheme_str() == Some("http") && endpoint.host().is_some(),
            "--kubelet-healthz-endpoint {endpoint} is no http:// URL"
        );
        let config_server = self.config_server.zip(self.config_server_ca_file);
        if let Some((server, _)) = &config_server {
            let authority = server.strip_prefix("https://").unwrap_or_default();
            anyhow::ensure!(
                authority.parse::<http::uri::Authority>().is_ok(),
                "--config-server {server:?} is no https:// URL of a server"
            );
        }
        let clients = self.client_ca_file;
        anyhow::ensure!(
            clients.starts_with('/'),
            "--client-ca-file {clients:?} is no absolute path"
        );
        let own = self.pod.map(|pod| parse_pod(&pod)).transpose()?;
        Ok(Options {
            kubeconfig: self.kubeconfig,
            node,
            root: self.root_mount,
            metrics: self.admin.metrics_url,
            secure: self
                .secure
                .into_listener()
                .map(|listener| SecureOptions { listener, clients }),
            token: self.token_file,
            config_server,
            own,
            events_namespace: self.events_namespace,
            kubelet_health: self.kubelet_healthz_enabled.then_some(endpoint),
            prefetch_window: Duration::from_secs(self.prefetch_window_secs.into()),
            helper: self.helper,
        })
    }
}

fn parse_pod(text: &str) -> anyhow::Result<PodName> {
    let (namespace, name) = text
        .split_once('/')
        .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
        .with_context(|| format!("--pod {text:?} is not namespace/name"))?;
    Ok(PodName {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        start: StartArgs,
    }

    fn options(arguments: &[&str]) -> anyhow::Result<Options> {
        let arguments = [&["mcd"], arguments].concat();
        Program::try_parse_from(arguments)?.start.validate()
    }

    #[test]
    fn defaults_are_those_of_upstream() {
        let options = options(&["--node-name", "worker-1"]).unwrap();
        assert_eq!(
            options.kubeconfig.to_str(),
            Some("/var/lib/kubelet/kubeconfig")
        );
        assert_eq!(options.root.to_str(), Some("/rootfs"));
        assert_eq!(options.metrics.to_string(), "127.0.0.1:8797");
        assert!(options.own.is_none() && options.secure.is_none());
        let health = options.kubelet_health.unwrap();
        assert_eq!(health.to_string(), "http://localhost:10248/healthz");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table = [
            (vec!["--node-name", "a/b"], "no name of a Node"),
            (
                vec!["--node-name", "a", "--pod", "mcd"],
                "--pod \"mcd\" is not namespace/name",
            ),
            (
                vec![
                    "--node-name",
                    "a",
                    "--kubelet-healthz-endpoint",
                    "https://a",
                ],
                "--kubelet-healthz-endpoint https://a",
            ),
            (
                vec!["--node-name", "a", "--metrics-url", "x"],
                "--metrics-url",
            ),
            (
                vec!["--node-name", "a", "--config-server", "https://a:1"],
                "--config-server-ca-file",
            ),
            (
                vec![
                    "--node-name",
                    "a",
                    "--config-server-ca-file=/ca",
                    "--config-server=http://a:1",
                ],
                "--config-server \"http://a:1\"",
            ),
            (
                vec!["--node-name", "a", "--listen=[::]:9001"],
                "--serving-cert-file",
            ),
            (
                vec!["--node-name", "a", "--client-ca-file=ca.crt"],
                "--client-ca-file \"ca.crt\" is no absolute path",
            ),
        ];
        for (arguments, expected) in table {
            let error = options(&arguments).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// The DaemonSet as it is deployed starts what is built here.
    #[test]
    fn the_daemon_set_starts_with_options_that_exist() {
        let text = include_str!("../../../../deploy/daemon/daemonset.yaml");
        let manifest: serde_json::Value = serde_saphyr::from_str(text).unwrap();
        let container = &manifest["spec"]["template"]["spec"]["containers"][0];
        let arguments: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();
        assert_eq!(arguments[0], "start");
        let expanded: Vec<String> = arguments[1..]
            .iter()
            .map(|argument| {
                argument
                    .replace("$(NODE_NAME)", "worker-1")
                    .replace("$(POD_NAMESPACE)", "mco")
            })
            .collect();
        let expanded: Vec<&str> = expanded.iter().map(String::as_str).collect();
        let options = options(&expanded).unwrap();
        assert_eq!(
            (options.node.as_str(), options.events_namespace.as_str()),
            ("worker-1", "mco")
        );
        let mount = |index: usize| container["volumeMounts"][index]["mountPath"].as_str();
        assert_eq!(mount(0), options.root.to_str());
        let SecureOptions { listener, clients } = options.secure.unwrap();
        assert_eq!(clients, "/etc/kubernetes/kubelet-ca.crt");
        let port = container["ports"][0]["containerPort"].as_u64().unwrap();
        assert_eq!(u64::from(listener.address.port()), port);
        for file in [listener.certificate, listener.key] {
            assert!(file.starts_with(mount(1).unwrap()), "{}", file.display());
        }
    }
}
