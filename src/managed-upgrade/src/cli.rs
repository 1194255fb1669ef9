//! The command line, validated.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::ensure;
use chassis::cli::{AdminArgs, LogArgs};
use cluster::lease::Candidacy;
use operator::cli::{ClientArgs, LeaderArgs};

use crate::monitoring::MonitoringSettings;

/// Name of the lease; upstream's, so that the two never lead at once.
const LEASE: &str = "managed-upgrade-operator-lock";

/// `muo start`: upgrades the cluster on a date.
#[derive(Debug, Clone, clap::Args)]
pub struct UpgradeOperatorArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Namespace of the UpgradeConfig, of the settings, the lease and events
    #[arg(long, env = "OPERATOR_NAMESPACE", default_value = api::upgrade::NAMESPACE)]
    namespace: String,
    /// Prometheus that knows which alerts fire [default: the Service prometheus-k8s]
    #[arg(long, value_name = "URL")]
    promql_url: Option<String>,
    /// Alertmanager whose alerts are silenced [default: the Service alertmanager-main]
    #[arg(long, value_name = "URL")]
    alertmanager_url: Option<String>,
    /// Authority of both, as PEM [default: ConfigMap openshift-monitoring/serving-certs-ca-bundle]
    #[arg(long, value_name = "FILE")]
    monitoring_ca_file: Option<PathBuf>,
    /// Token that is sent to both [default: one of the service account prometheus-k8s]
    #[arg(long, value_name = "FILE")]
    monitoring_token_file: Option<PathBuf>,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    leader: LeaderArgs,
    /// The log is set up before the rest is validated.
    #[command(flatten)]
    pub log: LogArgs,
}

/// What `muo start` runs with.
#[derive(Debug, Clone)]
pub struct UpgradeOperatorOptions {
    /// Kubeconfig; without it the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the operator.
    pub namespace: String,
    /// Where metrics and health are served.
    pub metrics: SocketAddr,
    /// The lease to work under, if any.
    pub candidacy: Option<Candidacy>,
    /// Where alerts are.
    pub monitoring: MonitoringSettings,
}

impl UpgradeOperatorArgs {
    /// Validates. `identity` names this replica where the command line does not.
    ///
    /// # Errors
    /// A message that names the option.
    pub fn validate(
        self,
        identity: impl FnOnce() -> String,
    ) -> anyhow::Result<UpgradeOperatorOptions> {
        let is_label = |text: &str| {
            let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            !text.is_empty() && text.bytes().all(allowed)
        };
        ensure!(
            is_label(&self.namespace),
            "--namespace {:?} is no name of a namespace",
            self.namespace
        );
        for (option, url) in [
            ("--promql-url", &self.promql_url),
            ("--alertmanager-url", &self.alertmanager_url),
        ] {
            let url = url.as_deref().unwrap_or("https://a");
            ensure!(
                url.starts_with("http://") || url.starts_with("https://"),
                "{option} {url:?} is no http or https address"
            );
        }
        let candidacy = self.leader.candidacy(&self.namespace, LEASE, identity)?;
        let base = |url: Option<String>| url.map(|url| url.trim_end_matches('/').to_owned());
        Ok(UpgradeOperatorOptions {
            kubeconfig: self.client.kubeconfig,
            namespace: self.namespace,
            metrics: self.admin.metrics_url,
            candidacy,
            monitoring: MonitoringSettings {
                promql: base(self.promql_url),
                alertmanager: base(self.alertmanager_url),
                authority: self.monitoring_ca_file,
                token: self.monitoring_token_file,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        start: UpgradeOperatorArgs,
    }

    fn options(arguments: &[&str]) -> anyhow::Result<UpgradeOperatorOptions> {
        let arguments = [&["muo"], arguments].concat();
        Program::try_parse_from(arguments)?
            .start
            .validate(|| "me".to_owned())
    }

    #[test]
    fn defaults_are_those_of_upstream() {
        let options = options(&[]).unwrap();
        let candidacy = options.candidacy.unwrap();
        assert_eq!(options.namespace, "openshift-managed-upgrade-operator");
        assert_eq!(candidacy.name, "managed-upgrade-operator-lock");
        assert_eq!(options.monitoring.promql, None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table = [
            (["--namespace", "a/b"], "--namespace \"a/b\""),
            (["--promql-url", "a"], "--promql-url \"a\" is no http"),
            (["--alertmanager-url", "ftp://a"], "--alertmanager-url"),
        ];
        for (arguments, expected) in table {
            let error = options(&arguments).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
