//! Plans, for suites that drive `mcd-os` without a daemon.

use anyhow::Result;
use machineconfig::spec::NodeConfig;
use node_update::disruption::{Action, FilePolicy, Policies, UnitPolicy};
use node_update::plan::{Attempt, Bundle, Target};
use node_update::planner::{self, Facts, Request, Side};
use node_update::reconcile::Exempt;

/// Policies by which nothing but the OS and kernel arguments asks for a reboot. A changed file or
/// unit has the actions of its entry; other files and keys have none.
pub fn policies(files: &[(&str, &[Action])], units: &[(&str, &[Action])]) -> Policies {
    let file = |(path, actions): &(&str, &[Action])| FilePolicy {
        path: (*path).to_owned(),
        actions: actions.to_vec(),
    };
    let unit = |(name, actions): &(&str, &[Action])| UnitPolicy {
        name: (*name).to_owned(),
        actions: actions.to_vec(),
    };
    let all: (&str, &[Action]) = ("/", &[Action::None]);
    Policies {
        files: std::iter::once(&all).chain(files).map(file).collect(),
        units: units.iter().map(unit).collect(),
        sshkey: vec![Action::None],
    }
}

/// Plans the update between two configurations, on a host that runs the OS of the first.
pub fn between(
    attempt: &str,
    from: &NodeConfig,
    to: &NodeConfig,
    policies: &Policies,
) -> Result<Bundle> {
    between_images(attempt, (from, None), (to, None), policies)
}

/// The same in image mode: each configuration with its built image, where it has one.
pub fn between_images(
    attempt: &str,
    (from, from_image): (&NodeConfig, Option<&str>),
    (to, to_image): (&NodeConfig, Option<&str>),
    policies: &Policies,
) -> Result<Bundle> {
    let target = |config: &NodeConfig, image: Option<&str>| Target {
        config: config.name.clone(),
        image: image.map(ToOwned::to_owned),
    };
    let facts = Facts {
        booted_image: from.image(from_image).map(ToOwned::to_owned),
        ..Facts::default()
    };
    let outcome = planner::plan(&Request {
        attempt: &Attempt(attempt.to_owned()),
        from: Side {
            target: &target(from, from_image),
            config: from,
        },
        to: Side {
            target: &target(to, to_image),
            config: to,
        },
        facts: &facts,
        policies,
        exempt: Exempt::default(),
        force: false,
    })?;
    Ok(outcome.bundle)
}
