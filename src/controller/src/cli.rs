//! The command line, validated.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::ensure;
use chassis::cli::{AdminArgs, LogArgs};
use cluster::lease::Candidacy;
use operator::cli::{ClientArgs, LeaderArgs};

use crate::release::ReleaseVersion;

/// Name of the lease; upstream's, so that the two never lead at once.
const LEASE: &str = "machine-config-controller";

/// `mcc start`: renders the pools' configurations and moves their nodes.
#[derive(Debug, Clone, clap::Args)]
pub struct ControllerArgs {
    #[command(flatten)]
    client: ClientArgs,
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
    #[command(flatten)]
    admin: AdminArgs,
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
    /// Namespace of events.
    pub namespace: String,
    /// Where metrics and health are served.
    pub metrics: SocketAddr,
    /// Version of the release.
    pub version: ReleaseVersion,
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
        let candidacy = self.leader.candidacy(&self.namespace, LEASE, identity)?;
        Ok(ControllerOptions {
            kubeconfig: self.client.kubeconfig,
            namespace: self.namespace,
            version: ReleaseVersion::named(&self.release_version),
            metrics: self.admin.metrics_url,
            candidacy,
        })
    }
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
    fn election_can_be_left_out_and_named() {
        assert_eq!(options(&["--leader-elect=false"]).unwrap().candidacy, None);
        let named = options(&["--identity", "a"]).unwrap().candidacy.unwrap();
        assert_eq!(named.identity, "a");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table = [
            (vec!["--namespace", "a/b"], "--namespace \"a/b\""),
            (vec!["--lease-secs", "100"], "--renew-deadline-secs 107"),
            (vec!["--metrics-url", "x"], "--metrics-url"),
        ];
        for (arguments, expected) in table {
            let error = options(&arguments).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
