//! The command line, validated.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use cluster::lease::{Candidacy, Terms};

/// Name of the lease; upstream's, so that the two never lead at once.
const LEASE: &str = "machine-config-controller";

/// `mcc start`: renders the pools' configurations and moves their nodes.
#[derive(Debug, Clone, clap::Args)]
pub struct StartArgs {
    /// Kubeconfig to use; without it the pod's service account
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Namespace of the lease and of events
    #[arg(long, default_value = api::machineconfiguration::NAMESPACE)]
    namespace: String,
    /// Where metrics and health are served
    #[arg(long, default_value = "127.0.0.1:8797")]
    metrics_url: SocketAddr,
    /// Whether to work only while holding the lease; false only where there is surely one replica
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// Name of this replica in the lease; by default host, process and a random number
    #[arg(long)]
    identity: Option<String>,
    /// Seconds that the lease holds after its last renewal
    #[arg(long, default_value_t = 137)]
    lease_secs: u64,
    /// Seconds after which a leader that cannot renew gives up
    #[arg(long, default_value_t = 107)]
    renew_deadline_secs: u64,
    /// Seconds between attempts to take or renew the lease
    #[arg(long, default_value_t = 26)]
    lease_retry_secs: u64,
    /// How much is logged: 0 errors, 1 warnings, 2 what happens, 4 decisions, 6 traffic
    #[arg(long, default_value_t = 2)]
    pub v: u8,
}

/// What `mcc start` runs with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Kubeconfig; without it the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of events.
    pub namespace: String,
    /// Where metrics and health are served.
    pub metrics: SocketAddr,
    /// The lease to work under, if any.
    pub candidacy: Option<Candidacy>,
}

impl StartArgs {
    /// Validates. `identity` names this replica where the command line does not.
    ///
    /// # Errors
    /// A message that names the option.
    pub fn validate(self, identity: impl FnOnce() -> String) -> anyhow::Result<Options> {
        ensure!(
            is_label(&self.namespace),
            "--namespace {:?} is no name of a namespace",
            self.namespace
        );
        let (lease, deadline, retry) = (
            self.lease_secs,
            self.renew_deadline_secs,
            self.lease_retry_secs,
        );
        ensure!(
            retry > 0 && retry < deadline && deadline < lease,
            "--lease-retry-secs {retry} must be above 0 and below --renew-deadline-secs {deadline}, and that below --lease-secs {lease}"
        );
        let candidacy = self.leader_elect.then(|| Candidacy {
            namespace: self.namespace.clone(),
            name: LEASE.to_owned(),
            identity: self.identity.unwrap_or_else(identity),
            terms: Terms {
                duration: Duration::from_secs(lease),
                renew_deadline: Duration::from_secs(deadline),
                retry: Duration::from_secs(retry),
            },
        });
        Ok(Options {
            kubeconfig: self.kubeconfig,
            namespace: self.namespace,
            metrics: self.metrics_url,
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
        start: StartArgs,
    }

    fn options(arguments: &[&str]) -> anyhow::Result<Options> {
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
        assert_eq!(candidacy.terms, Terms::default());
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
            (vec!["--lease-retry-secs", "0"], "--lease-retry-secs 0"),
            (vec!["--metrics-url", "x"], "--metrics-url"),
        ];
        for (arguments, expected) in table {
            let error = options(&arguments).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
