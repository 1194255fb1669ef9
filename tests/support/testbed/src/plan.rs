//! Plans, for suites that drive `mcd-os` without a daemon.

use anyhow::Result;
use machineconfig::spec::MachineConfig;
use node_update::disruption::Policies;
use node_update::plan::{Attempt, Bundle, Target};
use node_update::planner::{self, Facts, Request, Side};
use node_update::reconcile::Exempt;

/// Plans the way between two configurations, on a host that runs the OS of the first.
///
/// # Errors
///
/// The planner refuses.
pub fn between(
    attempt: &str,
    from: &MachineConfig,
    to: &MachineConfig,
    policies: &Policies,
) -> Result<Bundle> {
    let target = |config: &MachineConfig| Target {
        config: config.name.clone(),
        image: None,
    };
    let facts = Facts {
        booted_image: Some(from.spec.os_image_url.clone()),
        ..Facts::default()
    };
    let outcome = planner::plan(&Request {
        attempt: &Attempt(attempt.to_owned()),
        from: Side {
            target: &target(from),
            config: from,
        },
        to: Side {
            target: &target(to),
            config: to,
        },
        facts: &facts,
        policies,
        exempt: Exempt::default(),
        force: false,
    })?;
    Ok(outcome.bundle)
}
