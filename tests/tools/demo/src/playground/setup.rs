//! The playground's cluster, from nothing until it is at the first of three releases.

use std::path::Path;

use anyhow::{Context as _, Result};
use lab::tree::Overlay;
use serde_json::{Value, json};
use testbed::config::{Config, first_boot_unit};
use testbed::{Cluster, DONE_WITHIN, NodeSpec, Programs, single_host};

use crate::live::Screen;
use crate::releases::{Releases, VERSIONS};
use crate::run::{self, CONTROL_PLANE, WORKERS};
use crate::services::{GraphData, Services};
use crate::{machines, rolls, update, workload};

/// What a booted target has until it must be proven: ten minutes are too long to wait for a kubelet
/// that fails.
const VERIFIED_WITHIN_SECS: u32 = 30;

/// What a host says of its disk, as capacity and free bytes, and where. Pinned images leave 16 GiB
/// of it free, which is more than the disk of a host has.
const DISK: (&str, &str) = ("/etc/lab/disk", "107374182400 96636764160\n");

/// The host that joins on request, and its node.
pub(super) const JOINS: &str = "worker-3";

/// A folder of `deploy/` with definitions and objects of a cluster's other operators.
const OTHERS: &str = "openshift";

/// MachineConfig of the workers' configuration.
const CONFIG: &str = "50-playground";

/// Has the kubelet of an OS fail on workers: [`Overlay::failing_kubelet`] would fail everywhere,
/// and the control plane could not take the release.
const FAILS_ON_WORKERS: (&str, &str) = (
    "/usr/lib/systemd/system/kubelet.service.d/50-fails-on-workers.conf",
    "[Service]\nExecStartPre=/bin/sh -c 'case %H in worker-*) exit 1;; esac'\nRestart=no\n",
);

/// A running cluster, and what runs beside it. Dropped in this order.
pub(super) struct Playground {
    pub(super) services: Services,
    pub(super) cluster: Cluster,
    pub(super) releases: Releases,
}

/// A host that joins on request, as an installer leaves it.
pub(super) fn joining() -> NodeSpec {
    NodeSpec::new(JOINS).containers().fresh()
}

/// Starts all of it.
///
/// # Errors
///
/// A part cannot be had, or is not up in time.
pub(super) async fn start(
    programs: &Programs,
    out: &Path,
    screen: &mut Screen,
) -> Result<Playground> {
    screen
        .say("starting an API server, a registry, five hosts and the components in their pods")?;
    let fresh = [joining(), machines::host()];
    let deadline = single_host::deadline(VERIFIED_WITHIN_SECS);
    let nodes = run::nodes().chain(fresh).map(|node| {
        let node = node.file(single_host::DEADLINE_FILE, &deadline);
        let (path, disk) = DISK;
        node.file(path, disk)
    });
    let cluster = run::testbed(programs, out, nodes).start().await?;
    apply_others(&cluster, screen).await?;

    screen.say("making and signing three releases, while the workers get the OS of the first")?;
    let [first, second, third] = oses().map(|os| cluster.image(&os));
    let (first, second, third) = (first?, second?, third?);
    let of_all = json!({ "spec": { "maxUnavailable": "100%" } });
    cluster.objects().patch_pool(WORKERS, &of_all).await?;
    let config = Config::new().units([first_boot_unit()]);
    let spec = config.clone().os(&first.reference).spec();
    let target = cluster.change(CONFIG, WORKERS, &spec).await?;
    let references = [first.reference.as_str(), &second.reference];
    let releases =
        Releases::make(&cluster, programs, out, references, Some(&third.reference)).await?;
    cluster.all_done(WORKERS, &target, DONE_WITHIN).await?;
    let one = json!({ "spec": { "maxUnavailable": null } });
    cluster.objects().patch_pool(WORKERS, &one).await?;
    cluster.apply(workload::OBJECTS).await?;

    screen.say("installing release 1.0.0: its version operator applies it")?;
    update::start_at(&cluster, &releases.first).await?;
    // No MachineConfig names an OS: nodes run the release's.
    let none = json!({ "osImageURL": "" });
    cluster.configure("00-worker", WORKERS, &none).await?;
    cluster.configure("00-master", CONTROL_PLANE, &none).await?;
    cluster.configure(CONFIG, WORKERS, &config.spec()).await?;

    screen.say(
        "starting the managed upgrade operator, the config server, the update service, \
         Prometheus and Alertmanager; the machine API is played",
    )?;
    let graph_data = GraphData {
        versions: &VERSIONS,
        blocked: Some(("1.0.2-KubeletFailsOnWorkers.yaml", risk())),
    };
    let services = Services::start(&cluster, programs, out, &graph_data).await?;
    run::wait_for_pods(cluster.objects()).await?;
    Ok(Playground {
        services,
        cluster,
        releases,
    })
}

/// The OS of each release. Workers and control plane have the first from the start.
fn oses() -> [Overlay; 3] {
    let (path, drop_in) = FAILS_ON_WORKERS;
    let [_, second, third] = VERSIONS.map(Overlay::version);
    [rolls::third_os(), second, third.file(path, drop_in, 0o644)]
}

/// What the update service knows of the third release. A cluster whose metrics cannot be read has
/// the risk, too.
fn risk() -> Value {
    let promql = r#"max(mco_machine_count{pool="worker"} > bool 0)"#;
    json!({
        "to": "1.0.2",
        "from": ".*",
        "url": "https://example.com/kubelet-fails-on-workers",
        "name": "KubeletFailsOnWorkers",
        "message": "The kubelet of 1.0.2 does not start on workers. Each worker that boots it \
                    returns to its OS before.",
        "matchingRules": [
            { "type": "PromQL", "promql": { "promql": promql } },
            { "type": "Always" },
        ],
    })
}

/// Applies what a cluster has of its other operators. By kubectl, under its own name: fields that
/// the testbed wrote stay, such as the OS in `00-worker`.
async fn apply_others(cluster: &Cluster, screen: &mut Screen) -> Result<()> {
    screen.say(&format!("applying deploy/{OTHERS}"))?;
    let dir = testbed::workspace().join("deploy").join(OTHERS);
    lab::manifest::define(cluster.objects().client(), &dir.join("crds")).await?;
    let apply = |arguments: &[&str]| {
        let arguments = [&["apply", "--server-side"], arguments].concat();
        let applied = cluster.control_plane().kubectl(&arguments);
        applied.with_context(|| format!("cannot apply deploy/{OTHERS}"))
    };
    apply(&["--kustomize", &dir.to_string_lossy()])?;
    let status = dir.join("status.yaml");
    apply(&[
        "--subresource=status",
        "--filename",
        &status.to_string_lossy(),
    ])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_risk_is_of_the_release_that_fails_and_keeps_the_rules_of_curators() {
        let risk = risk();
        let text = |field: &str| risk[field].as_str().unwrap().to_owned();
        assert_eq!(text("to"), VERSIONS[2]);
        assert!(text("url").starts_with("https://"));
        let name = text("name");
        assert!(name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphanumeric));
        assert!(!text("message").contains("  "), "{}", text("message"));
    }
}
