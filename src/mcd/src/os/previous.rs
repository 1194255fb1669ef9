//! `boot-previous`: back to the deployment before the booted one, by hand, with nothing under way.

use anyhow::Context as _;
use host::files::Root;
use host::journal::{HeldTarget, SCHEMA};
use host::ostree::ListedDeployment;
use host::record::{self, Record};
use machineconfig::spec::Spec;
use node_update::diff::diff;
use node_update::paths::belongs_to_image;
use node_update::plan::Target;
use tracing::{info, warn};

use super::context::{Context, lock_deployments};
use crate::protocol::{HelperOutcome, HelperReport, PreviousDetails};

/// Below this each deployment has its own files; all others are shared by deployments.
const OF_A_DEPLOYMENT: &str = "/etc/";

/// Has the boot loader boot the previous deployment. Where it names another than the booted one
/// already, that is reverted instead.
pub(super) fn run(context: &Context) -> anyhow::Result<HelperReport> {
    let _lock = context.lock()?;
    let store = context.store();
    if let Some(journal) = store.journal_under_way()? {
        let attempt = &journal.plan.attempt.0;
        let reason = format!("attempt {attempt} is under way on this host: roll that back");
        return Ok(HelperReport::refused(vec![reason]));
    }
    let mut deployments = lock_deployments()?;
    let (booted, previous) = match choose(deployments.list()?) {
        Choice::Pending(booted) => {
            deployments.boot_next(&booted.id)?;
            info!(deployment = %booted.id, "boot loader names the booted deployment again");
            return Ok(HelperReport::done());
        }
        Choice::Refused(why) => return Ok(HelperReport::refused(vec![why])),
        Choice::Previous { booted, previous } => (booted, previous),
    };
    let (from, to) = (record_of(&booted)?, record_of(&previous)?);
    let spec = |record: &Option<Record>| -> anyhow::Result<Spec> {
        let config = record.as_ref().map(Record::machine_config).transpose()?;
        config.map_or_else(
            || Ok(Spec::parse(&serde_json::Value::Null)?.0),
            |config| Ok(config.spec),
        )
    };
    let shared = shared(&spec(&from)?, &spec(&to)?);
    if !shared.is_empty() {
        let why = format!(
            "the previous deployment's configuration differs in what deployments share: {}",
            shared.join(", ")
        );
        let report = HelperReport::refused(vec![why]);
        // A configuration is led back to by an update; what no program configured has no record.
        return match (from, to) {
            (Some(_), Some(_)) => Ok(report.with(&PreviousDetails {
                previous: previous.path,
            })?),
            _ => Ok(report),
        };
    }
    // First: a daemon that starts in the previous deployment must not lead away from it again.
    if let Some(target) = to_hold(
        from.map(Record::into_target),
        to.map(Record::into_target).as_ref(),
    ) {
        store.put_held(&HeldTarget {
            schema: SCHEMA,
            target,
            cause: "an administrator rolled the host back".to_owned(),
            since: context.moment.now,
        })?;
    }
    deployments.boot_next(&previous.id)?;
    warn!(deployment = %previous.id, "boot loader names the previous deployment");
    Ok(HelperReport::new(HelperOutcome::NeedsReboot, Vec::new()))
}

/// What a rollback leads to.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    /// Another deployment boots next: the booted one is to stay.
    Pending(Box<ListedDeployment>),
    Previous {
        booted: Box<ListedDeployment>,
        previous: Box<ListedDeployment>,
    },
    /// There is no way back, and why.
    Refused(String),
}

/// Chooses from all deployments, in the order in which they boot.
fn choose(all: Vec<ListedDeployment>) -> Choice {
    if let Some(staged) = all.iter().find(|deployment| deployment.is_staged) {
        let id = &staged.id;
        return Choice::Refused(format!("deployment {id} was staged by another program"));
    }
    let Some(index) = all.iter().position(|deployment| deployment.is_booted) else {
        return Choice::Refused("no deployment is booted".to_owned());
    };
    let mut rest = all.into_iter().skip(index);
    let Some(booted) = rest.next().map(Box::new) else {
        return Choice::Refused("no deployment is booted".to_owned());
    };
    if index > 0 {
        return Choice::Pending(booted);
    }
    match rest.find(|deployment| deployment.osname == booted.osname) {
        Some(previous) => Choice::Previous {
            booted,
            previous: Box::new(previous),
        },
        None => Choice::Refused("there is no previous deployment".to_owned()),
    }
}

fn record_of(deployment: &ListedDeployment) -> anyhow::Result<Option<Record>> {
    let root = Root::open(&deployment.path, None)?;
    record::read(&root).with_context(|| format!("deployment {}", deployment.id))
}

/// What two configurations have differently outside of `/etc` and of the image.
fn shared(from: &Spec, to: &Spec) -> Vec<String> {
    let diff = diff(from, to);
    let files = &diff.files;
    let paths = files
        .added
        .iter()
        .chain(&files.removed)
        .chain(&files.changed);
    let mut shared: Vec<String> = paths
        .filter(|path| !path.starts_with(OF_A_DEPLOYMENT) && !belongs_to_image(path))
        .cloned()
        .collect();
    if diff.passwd {
        shared.push("the keys of core".to_owned());
    }
    shared
}

/// The target that is left, where it has a configuration and the previous one another.
fn to_hold(from: Option<Target>, to: Option<&Target>) -> Option<Target> {
    from.filter(|from| !from.config.is_empty() && to != Some(from))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use host::journal::DeploymentId;
    use serde_json::{Value, json};

    use super::*;

    fn deployment(name: &str) -> ListedDeployment {
        ListedDeployment {
            id: DeploymentId {
                checksum: name.to_owned(),
                serial: 0,
            },
            osname: "os".to_owned(),
            version: None,
            record: Ok(None),
            image: None,
            origin: None,
            arguments: Vec::new(),
            is_booted: name == "booted",
            is_pinned: false,
            is_staged: false,
            path: PathBuf::new(),
        }
    }

    #[test]
    fn what_is_pending_goes_first_and_then_the_previous_deployment_is_chosen() {
        let foreign = ListedDeployment {
            osname: "other".to_owned(),
            ..deployment("foreign")
        };
        let staged = ListedDeployment {
            is_staged: true,
            ..deployment("staged")
        };
        let booted = || Box::new(deployment("booted"));
        let refused = |why: &str| Choice::Refused(why.to_owned());
        let table = [
            (
                vec![deployment("next"), deployment("booted"), deployment("old")],
                Choice::Pending(booted()),
            ),
            (
                vec![deployment("booted"), foreign.clone(), deployment("old")],
                Choice::Previous {
                    booted: booted(),
                    previous: Box::new(deployment("old")),
                },
            ),
            (
                vec![deployment("booted"), foreign],
                refused("there is no previous deployment"),
            ),
            (
                vec![staged, deployment("booted")],
                refused("deployment staged.0 was staged by another program"),
            ),
            (vec![], refused("no deployment is booted")),
        ];
        for (all, expected) in table {
            let shown = format!("{all:?}");
            assert_eq!(choose(all), expected, "{shown}");
        }
    }

    fn spec(files: &[(&str, &str)], keys: &[&str]) -> Spec {
        let files: Vec<Value> = files
            .iter()
            .map(|(path, text)| {
                json!({ "path": path, "contents": { "source": format!("data:,{text}") } })
            })
            .collect();
        let users: Vec<Value> = keys
            .iter()
            .map(|key| json!({ "name": "core", "sshAuthorizedKeys": [key] }))
            .collect();
        let config = json!({
            "ignition": { "version": "3.4.0" },
            "storage": { "files": files }, "passwd": { "users": users }
        });
        Spec::parse(&json!({ "config": config })).unwrap().0
    }

    #[test]
    fn only_what_deployments_share_stays() {
        let old = spec(&[("/etc/a", "1"), ("/usr/local/bin/same", "1")], &[]);
        let new = spec(&[("/etc/a", "2"), ("/usr/local/bin/same", "1")], &[]);
        assert_eq!(shared(&new, &old), [""; 0]);
        let new = spec(
            &[("/usr/local/bin/same", "2"), ("/opt/b", "1")],
            &["ssh-rsa a"],
        );
        assert_eq!(
            shared(&new, &old),
            ["/opt/b", "/usr/local/bin/same", "the keys of core"]
        );
    }

    #[test]
    fn a_target_is_held_if_the_way_back_leads_to_another() {
        let target = |config: &str| {
            Some(Target {
                config: config.to_owned(),
                image: None,
            })
        };
        assert_eq!(to_hold(target("b"), target("a").as_ref()), target("b"));
        assert_eq!(to_hold(target("b"), None), target("b"));
        assert_eq!(to_hold(target("b"), target("b").as_ref()), None);
        assert_eq!(to_hold(target(""), target("a").as_ref()), None);
        assert_eq!(to_hold(None, target("a").as_ref()), None);
    }
}
