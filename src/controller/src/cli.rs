//! The command line, validated.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use api::config::preflight::NextRelease;
use chassis::cli::{AdminArgs, LogArgs, SecureArgs};
use chassis::secure_metrics::SecureListener;
use cluster::lease::Candidacy;
use operator::cli::{ClientArgs, LeaderArgs};
use web::prometheus::MetricsServer;

use crate::decide::unused::Retention;
use crate::duties::Duties;
use crate::rendering::preview::ReleasePreview;
use crate::version::{ReleaseVersion, USER_AGENT};

/// Where a pod has the files of its service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// `mcc start`: renders the pools' configurations and moves their nodes.
#[derive(Debug, Clone, clap::Args)]
pub struct ControllerArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Which of its duties the process has; a lease each, so that two processes divide them
    #[arg(long, value_enum, default_value_t)]
    duties: Duties,
    /// Namespace of the lease and of events
    #[arg(long, default_value = api::machineconfiguration::NAMESPACE)]
    namespace: String,
    /// Version of the release that this program belongs to [default: the program's own]
    #[arg(
        long,
        env = "RELEASE_VERSION",
        default_value = "",
        hide_default_value = true
    )]
    release_version: String,
    /// Node that this program runs on: it is updated last
    #[arg(long, env = "NODE_NAME")]
    node_name: Option<String>,
    /// How many rendered configurations of each pool are kept, the newest, used or not
    #[arg(long, default_value_t = Retention::DEFAULT.count)]
    rendered_keep_count: usize,
    /// For how many hours a rendered configuration is kept that nothing uses
    #[arg(long, default_value_t = Retention::DEFAULT.age.as_secs() / 3600)]
    rendered_keep_hours: u64,
    /// Prometheus or Thanos that answers the queries of rollout policies [default: the Service
    /// thanos-querier]
    #[arg(long, value_name = "URL")]
    promql_url: Option<String>,
    /// Authority of that server, as PEM [default: for the Service, the service account's]
    #[arg(long, value_name = "FILE")]
    promql_ca_file: Option<PathBuf>,
    /// Token that is sent to it [default: for the Service, the service account's]
    #[arg(long, value_name = "FILE")]
    promql_token_file: Option<PathBuf>,
    /// Image that builds OS images [default: the release's]
    #[arg(long, value_name = "IMAGE")]
    os_builder_image: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    secure: SecureArgs,
    #[command(flatten)]
    leader: LeaderArgs,
    /// The log is set up before the rest is validated.
    #[command(flatten)]
    pub log: LogArgs,
}

/// What `mcc start` runs with.
#[derive(Debug, Clone)]
pub struct ControllerOptions {
    /// Kubeconfig; without it the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// Which of its duties the process has.
    pub duties: Duties,
    /// Namespace of events.
    pub namespace: String,
    /// Where metrics and health are served.
    pub metrics: SocketAddr,
    /// Where metrics are served over HTTPS, if anywhere.
    pub secure: Option<SecureListener>,
    /// Version of the release.
    pub version: ReleaseVersion,
    /// The node that it runs on; none where the environment does not name it.
    pub node: Option<String>,
    /// Which unused rendered configurations are kept.
    pub retention: Retention,
    /// The server for the queries of rollout policies.
    pub metrics_server: MetricsServer,
    /// Image that builds OS images, where the release names none.
    pub os_builder_image: Option<String>,
    /// The lease to work under, if any.
    pub candidacy: Option<Candidacy>,
}

impl ControllerArgs {
    /// Validates. `identity` names this replica where the command line does not.
    ///
    /// # Errors
    /// A message that names the option.
    pub fn validate(self, identity: impl FnOnce() -> String) -> anyhow::Result<ControllerOptions> {
        ensure!(
            is_label(&self.namespace),
            "--namespace {:?} is no name of a namespace",
            self.namespace
        );
        let lease = self.duties.lease();
        let candidacy = self.leader.candidacy(&self.namespace, lease, identity)?;
        // Another server has other credentials.
        let is_service = self.promql_url.is_none();
        let of_account = |file: &str| is_service.then(|| PathBuf::from(ACCOUNT).join(file));
        Ok(ControllerOptions {
            kubeconfig: self.client.kubeconfig,
            duties: self.duties,
            namespace: self.namespace,
            version: ReleaseVersion::named(&self.release_version),
            metrics: self.admin.metrics_url,
            secure: self.secure.into_listener(),
            node: self.node_name.filter(|node| !node.is_empty()),
            retention: Retention {
                count: self.rendered_keep_count,
                age: Duration::from_secs(self.rendered_keep_hours.saturating_mul(3600)),
            },
            metrics_server: MetricsServer {
                user_agent: USER_AGENT,
                url: self
                    .promql_url
                    .map(|url| url.trim_end_matches('/').to_owned()),
                authority: self.promql_ca_file.or_else(|| of_account("service-ca.crt")),
                token: self.promql_token_file.or_else(|| of_account("token")),
            },
            os_builder_image: self.os_builder_image.filter(|image| !image.is_empty()),
            candidacy,
        })
    }
}

/// `mcc render`: renders every pool as another release would, and stores what nodes can rehearse.
#[derive(Debug, Clone, clap::Args)]
pub struct RenderArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// File for the outcome
    #[arg(long, value_name = "FILE", default_value = "/dev/termination-log")]
    output: PathBuf,
    /// The log is set up before the rest is validated.
    #[command(flatten)]
    pub log: LogArgs,
}

/// What `mcc render` runs with.
#[derive(Debug)]
pub struct RenderOptions {
    /// Kubeconfig; without it the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// File for the outcome.
    pub output: PathBuf,
    /// The release.
    pub release: ReleasePreview,
}

impl RenderArgs {
    /// Validates. `variable` yields a variable of the environment, which has the release.
    ///
    /// # Errors
    /// A message that names the variable, or the object in it.
    pub fn validate(
        self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<RenderOptions> {
        let next = NextRelease::of_variables(variable)?;
        Ok(RenderOptions {
            kubeconfig: self.client.kubeconfig,
            output: self.output,
            release: ReleasePreview::parse(next)?,
        })
    }
}

/// A variable of the environment; none where it is no text.
#[expect(
    clippy::disallowed_methods,
    reason = "this is where configuration is read; the number of variables varies"
)]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Whether it is a DNS label: it becomes part of request paths.
fn is_label(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        start: ControllerArgs,
    }

    fn options(arguments: &[&str]) -> anyhow::Result<ControllerOptions> {
        let arguments = [&["mcc"], arguments].concat();
        Program::try_parse_from(arguments)?
            .start
            .validate(|| "me".to_owned())
    }

    #[test]
    fn defaults_are_those_of_upstream() {
        let options = options(&[]).unwrap();
        let candidacy = options.candidacy.unwrap();
        assert_eq!(options.namespace, "openshift-machine-config-operator");
        assert_eq!(options.metrics.to_string(), "127.0.0.1:8797");
        assert_eq!(candidacy.identity, "me");
        assert_eq!(candidacy.name, "machine-config-controller");
    }

    #[test]
    fn duties_are_divided_under_a_lease_each() {
        let lease = |arguments: &[&str]| options(arguments).unwrap().candidacy.unwrap().name;
        assert_eq!(options(&[]).unwrap().duties, Duties::All);
        assert_eq!(lease(&["--duties=pools"]), "machine-config-controller");
        assert_eq!(lease(&["--duties=cluster"]), "machine-config");
    }

    #[test]
    fn election_can_be_left_out_and_named() {
        assert_eq!(options(&["--leader-elect=false"]).unwrap().candidacy, None);
        let named = options(&["--identity", "a"]).unwrap().candidacy.unwrap();
        assert_eq!(named.identity, "a");
    }

    #[test]
    fn how_much_is_kept_can_be_set() {
        assert_eq!(options(&[]).unwrap().retention, Retention::DEFAULT);
        let set = ["--rendered-keep-count=3", "--rendered-keep-hours=24"];
        let retention = Retention {
            count: 3,
            age: Duration::from_hours(24),
        };
        assert_eq!(options(&set).unwrap().retention, retention);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table = [
            (vec!["--namespace", "a/b"], "--namespace \"a/b\""),
            (vec!["--lease-secs", "100"], "--renew-deadline-secs 107"),
            (vec!["--metrics-url", "x"], "--metrics-url"),
            (vec!["--duties=some"], "--duties"),
            (vec!["--listen=[::]:9001"], "--serving-cert-file"),
        ];
        for (arguments, expected) in table {
            let error = options(&arguments).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
