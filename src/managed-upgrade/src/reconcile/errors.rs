//! Why a pass, a step or an announcement fails.
//!
//! Whether a server refuses or could not be reached is in the variants of [`wire::Error`],
//! [`monitoring::Error`] and [`fleet_client::Error`].

use api::config::cluster_version;
use chassis::report::Chain;
use cluster::wire;
use upgrade_plan::notice::NoticeState;
use upgrade_plan::phase::UnexpectedEvent;
use upgrade_plan::validation::InvalidUpgrade;
use upgrade_plan::{capacity, fleet};

use crate::{fleet_client, monitoring, pull_secret};

/// Why a pass could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Request(#[from] wire::Error),
    /// There is no ClusterVersion.
    #[error("there is no ClusterVersion {}", cluster_version::NAME)]
    NoVersion,
    /// Phase and event contradict each other.
    #[error("cannot tell what comes next")]
    Phase(#[from] UnexpectedEvent),
    /// What leads to the start of an upgrade failed.
    #[error(transparent)]
    Step(#[from] CommandError),
    /// What was added for an upgrade could not be removed.
    #[error("cannot remove what was added for the upgrade")]
    CleanUp(#[source] CommandError),
}

/// Why a command or an observation failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A request to the API server failed.
    #[error(transparent)]
    Request(#[from] wire::Error),
    /// A request to Prometheus or Alertmanager failed.
    #[error(transparent)]
    Monitoring(#[from] monitoring::Error),
    /// A state could not be announced.
    #[error(transparent)]
    Notice(#[from] NoticeError),
    /// Silences could not be ended.
    #[error("{}", joined(.0))]
    Silences(Vec<monitoring::Error>),
}

/// Why a state could not be announced.
#[derive(Debug, thiserror::Error)]
pub enum NoticeError {
    /// It could not be sent to the fleet manager.
    #[error("can't send notification '{}'", .state.as_str())]
    Fleet {
        state: NoticeState,
        source: SourceError,
    },
    /// It could not be noted as announced.
    #[error("can't send notification '{}'", .state.as_str())]
    Annotate {
        state: NoticeState,
        source: wire::Error,
    },
}

/// Why the source of the UpgradeConfig was not followed, or took no state.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There is no ClusterVersion.
    #[error("there is no ClusterVersion")]
    NoVersion,
    /// A request to the API server failed.
    #[error(transparent)]
    Request(#[from] wire::Error),
    /// There is no pull secret.
    #[error("there is no Secret {}/{}", pull_secret::NAME.0, pull_secret::NAME.1)]
    NoSecret,
    /// The pull secret has no token.
    #[error("Secret {}/{}", pull_secret::NAME.0, pull_secret::NAME.1)]
    Token(#[from] pull_secret::Error),
    /// A request to the fleet manager failed.
    #[error(transparent)]
    Fleet(#[from] fleet_client::Error),
    /// What it has cannot be used.
    #[error(transparent)]
    Policy(#[from] fleet::Error),
    /// It has no policy of the upgrade.
    #[error("no policy matches the current UpgradeConfig")]
    NoPolicy,
}

/// Why a drain could not be helped.
#[derive(Debug, thiserror::Error)]
pub(super) enum DrainError {
    /// A request to the API server failed.
    #[error(transparent)]
    Request(#[from] wire::Error),
    /// A pod could not be removed.
    #[error("{strategy} of pod {pod}")]
    Remove {
        strategy: &'static str,
        /// Namespace and name.
        pod: String,
        source: wire::Error,
    },
    /// Several pods could not be removed.
    #[error("{}", joined(.0))]
    Several(Vec<Self>),
}

/// Why no machines are added.
#[derive(Debug, thiserror::Error)]
pub(super) enum CapacityError {
    /// MachineSets cannot be listed.
    #[error(transparent)]
    Request(#[from] wire::Error),
    /// None can be copied.
    #[error(transparent)]
    NoPool(#[from] capacity::NoMachinePool),
}

/// Why an UpgradeConfig is not followed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ValidationError {
    #[error(transparent)]
    Refused(#[from] InvalidUpgrade),
    /// Its image is no reference that can be read.
    #[error("spec.desired.image")]
    Reference(#[from] images::location::Error),
    /// Its image could not be read.
    #[error("spec.desired.image")]
    Image(#[from] images::Error),
    /// The request to the update service failed.
    #[error("spec.desired.version: cannot ask the update service")]
    Graph(#[from] GraphError),
}

/// Why the request to the update service failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum GraphError {
    /// The cluster has no id that the service takes.
    #[error("spec.clusterID {0:?} of ClusterVersion is no UUID")]
    ClusterId(String),
    /// It was not reached, or refuses.
    #[error(transparent)]
    Web(#[from] web::Error),
    /// What it has is no graph.
    #[error(transparent)]
    Graph(#[from] release::update_graph::Error),
    /// Its graph does not have the version that runs.
    #[error("it does not know {0}")]
    Unknown(release::Version),
}

/// Errors with their causes, in one line.
fn joined<E: std::error::Error>(errors: &[E]) -> String {
    let texts: Vec<String> = errors
        .iter()
        .map(|error| Chain(error).to_string())
        .collect();
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use upgrade_plan::capacity::NoMachinePool;

    use super::*;

    #[test]
    fn sentences_are_those_that_clients_know() {
        let notice = |source| NoticeError::Fleet {
            state: NoticeState::Started,
            source,
        };
        let web = |text: &str| web::Error::Status {
            url: "https://a".to_owned(),
            status: http::StatusCode::FORBIDDEN,
            text: text.to_owned(),
        };
        let fleet = fleet_client::Error::Refused {
            response: web("no"),
            operation: " (operation op)".to_owned(),
        };
        let state = fleet::Error::Policy {
            id: "p".to_owned(),
            source: Box::new(fleet::Error::UnknownState("ready".to_owned())),
        };
        let ended = [web(""), web("no")].map(monitoring::Error::Refused);
        let table: [(&dyn std::error::Error, &str); 8] = [
            (
                &notice(SourceError::Token(pull_secret::Error::Missing)),
                "can't send notification 'StateStarted': Secret openshift-config/pull-secret: \
                 data[.dockerconfigjson] is missing",
            ),
            (
                &notice(SourceError::NoSecret),
                "can't send notification 'StateStarted': there is no Secret \
                 openshift-config/pull-secret",
            ),
            (
                &SourceError::Fleet(fleet),
                "https://a answers 403 Forbidden: no (operation op)",
            ),
            (
                &SourceError::Policy(state),
                "policy p: state \"ready\" of a policy is unknown",
            ),
            (
                &ValidationError::Graph(web("").into()),
                "spec.desired.version: cannot ask the update service: https://a answers 403 \
                 Forbidden",
            ),
            (
                &ValidationError::Refused(InvalidUpgrade {
                    field: "spec.desired.image",
                    why: "no".to_owned(),
                }),
                "spec.desired.image: no",
            ),
            (
                &Error::CleanUp(CommandError::Silences(ended.into())),
                "cannot remove what was added for the upgrade: https://a answers 403 Forbidden; \
                 https://a answers 403 Forbidden: no",
            ),
            (
                &CapacityError::NoPool(NoMachinePool),
                "no MachineSet has the label hive.openshift.io/machine-pool=worker or that of a \
                 pool of scale.extraMachinePools, nor machines with the label \
                 machine.openshift.io/cluster-api-machine-role=worker",
            ),
        ];
        for (error, sentence) in table {
            assert_eq!(Chain(error).to_string(), sentence);
        }
    }
}
