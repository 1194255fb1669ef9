//! `slipway uninstall`: takes Slipway off cluster and hosts, and touches nothing else.
//!
//! The record of the installation goes last, so that a removal which was interrupted, or which
//! could not reach each host, goes on where it was.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{bail, ensure};
use cluster::apply::Ownership;
use cluster::wire::{self, RequestBody};
use cluster::{discovery, list, path};
use http::Method;
use install::adoption::Adoption;
use install::host_pod::{HostPodEnd, HostVerb, LIMIT_SECS};
use install::record::{InstallRecord, InstallStage, RecordedObject};
use install::removal::{
    KeptObject, RemovalPlan, busy_nodes, clean_node, is_of_every_namespace, keeps_namespace,
    without_own_finalizers,
};
use k8s_openapi::api::core::v1::Node;
use node_update::host_report::HostRemoval;
use release::manifest::ObjectId;
use serde::Serialize;
use serde_json::{Value, json};

use super::adopt;
use super::arguments::UninstallArgs;
use super::hosts::{self, SeenNode};
use super::programs;
use super::requests::InstallRequests;
use crate::failure::Ending;
use crate::output::{print, show, warn};

/// How long programs may take until they are gone, and objects and namespaces after them.
const GONE_LIMIT: Duration = Duration::from_mins(11);

/// Without a record.
const NOTHING: &str = "slipway install has installed nothing on this cluster";

/// The definition of MachineConfigs.
const MACHINE_CONFIGS: &str = "machineconfigs.machineconfiguration.openshift.io";

/// API version of the kinds of pools and nodes.
const MACHINE_CONFIG: &str = "machineconfiguration.openshift.io/v1";

/// Objects that the programs make for themselves: API version and plural, and the one name if
/// others of the kind are not theirs.
const MADE: [(&str, &str, Option<&str>); 3] = [
    (MACHINE_CONFIG, "machineconfignodes", None),
    (
        MACHINE_CONFIG,
        "controllerconfigs",
        Some("machine-config-controller"),
    ),
    (
        "config.openshift.io/v1",
        "clusteroperators",
        Some("machine-config"),
    ),
];

/// Objects of people with finalizers of the programs: API version and plural.
const FINALIZED: [(&str, &str); 3] = [
    (MACHINE_CONFIG, "kubeletconfigs"),
    (MACHINE_CONFIG, "containerruntimeconfigs"),
    ("upgrade.managed.openshift.io/v1alpha1", "upgradeconfigs"),
];

/// What is removed and what stays, for programs.
#[derive(Serialize)]
struct RemovalView {
    version: String,
    remove: Vec<String>,
    keep: Vec<KeptObject>,
}

impl RemovalView {
    fn new(record: &InstallRecord, plan: &RemovalPlan) -> Self {
        let all = [
            &plan.guards,
            &plan.workloads,
            &plan.others,
            &plan.namespaces,
        ];
        let names = all.into_iter().flatten().map(|it| it.id().to_string());
        Self {
            version: record.version.clone(),
            remove: names.collect(),
            keep: plan.kept.clone(),
        }
    }

    fn text(&self) -> String {
        let (version, remove) = (&self.version, self.remove.len());
        let mut text = format!("slipway {version}\n  remove {remove:>4}\n");
        for KeptObject { object, why } in &self.keep {
            text.extend(["  keeps ", object, ": ", why, "\n"]);
        }
        text
    }
}

pub(crate) async fn run(arguments: UninstallArgs) -> anyhow::Result<Ending> {
    let requests = InstallRequests::new(arguments.cluster.access()?, Ownership::Respect);
    let adoption = requests.adoption().await?;
    let Some(record) = requests.record().await? else {
        return match adoption {
            Some(adoption) => undo_adoption(&requests, &adoption, arguments.check).await,
            None if arguments.purge => purge_kept(&requests, arguments.check).await,
            None => bail!(NOTHING),
        };
    };
    let adopted = adoption.as_ref().map(Adoption::ids).unwrap_or_default();
    let purges = arguments.purge;
    let plan = RemovalPlan::new(&record, &adopted, purges);
    let view = RemovalView::new(&record, &plan);
    show(arguments.cluster.output, &view, || view.text())?;
    let nodes = if record.host_image.is_empty() {
        Vec::new()
    } else {
        hosts::nodes(&requests).await?
    };
    if record.stage != InstallStage::Removing {
        refuse_busy(&nodes)?;
    }
    if arguments.check {
        return Ok(Ending::Done);
    }
    let record = record.removing(&[]);
    requests.put_record(&record).await?;
    remove_all(&requests, &plan.guards).await?;
    programs::end(&requests, &plan.workloads, "removed").await?;
    // What a node runs is OpenShift's to know, where it goes on.
    let takes_all = purges && adoption.is_none();
    let (record, dirty) = clean_hosts(&requests, record, &nodes, takes_all).await?;
    // Of a removal that only waits for hosts the cluster's part is done.
    if record.has_daemon() {
        take_finalizers(&requests, adoption.is_some()).await?;
        // OpenShift's operators make objects of the same names.
        if adoption.is_none() {
            remove_made(&requests).await?;
        }
    }
    remove_all(&requests, &plan.others).await?;
    if let Some(adoption) = &adoption {
        adopt::restore(&requests, adoption).await?;
    }
    // From here on a removal that goes on leaves alone what was restored.
    let own: Vec<ObjectId> = record.objects.iter().map(RecordedObject::id).collect();
    let record = record.reduced(&plan.namespaces);
    requests.put_record(&record).await?;
    requests.delete_adoption().await?;
    remove_namespaces(&requests, &own, &plan.namespaces).await?;
    if !dirty.is_empty() && !arguments.leave_hosts {
        for (node, why) in &dirty {
            warn(&format!("the host of node {node} is as it was: {why}"));
        }
        print(
            "the cluster is clean, and not all hosts are: run slipway uninstall again once the \
             nodes are back, or with --leave-hosts\n",
        )?;
        return Ok(Ending::NeedsAttention);
    }
    for node in nodes.iter().filter(|it| dirty.contains_key(&it.name)) {
        take_marks(&requests, node, takes_all).await?;
    }
    hosts::clear(&requests).await?;
    requests.delete_record().await?;
    print(format!("slipway {} is removed\n", record.version))?;
    Ok(Ending::Done)
}

/// Without a record: restores what an adoption had taken over when it was interrupted.
async fn undo_adoption(
    requests: &InstallRequests,
    adoption: &Adoption,
    checks: bool,
) -> anyhow::Result<Ending> {
    let count = adoption.objects.len();
    print(format!(
        "an adoption was interrupted: {count} objects are restored\n"
    ))?;
    if !checks {
        adopt::restore(requests, adoption).await?;
        requests.delete_adoption().await?;
    }
    Ok(Ending::Done)
}

/// Without a record: removes the definitions that a removal before kept, with all objects of their
/// kinds, and what nodes say of their configuration. Definitions that others have changed stay.
async fn purge_kept(requests: &InstallRequests, checks: bool) -> anyhow::Result<Ending> {
    let definitions = requests.own_definitions().await?;
    ensure!(!definitions.is_empty(), NOTHING);
    if checks {
        for definition in &definitions {
            print(format!("remove {}\n", definition.id()))?;
        }
        return Ok(Ending::Done);
    }
    remove_all(requests, &definitions).await?;
    // OpenShift's operators have the same annotations, and definitions of their own.
    if definitions.iter().any(|it| it.name == MACHINE_CONFIGS) {
        for node in hosts::nodes(requests).await? {
            take_marks(requests, &node, true).await?;
        }
    }
    Ok(Ending::Done)
}

fn refuse_busy(nodes: &[SeenNode]) -> anyhow::Result<()> {
    let objects: Vec<_> = nodes.iter().map(|it| it.object.clone()).collect();
    let busy = busy_nodes(&objects);
    ensure!(
        busy.is_empty(),
        "nothing was removed: an update is under way on {}: let it end first (slipway node NAME)",
        busy.join(", ")
    );
    Ok(())
}

/// Removes objects and waits until they are gone.
async fn remove_all(requests: &InstallRequests, objects: &[RecordedObject]) -> anyhow::Result<()> {
    for object in objects {
        if requests.remove(object).await? {
            print(format!("removed {}\n", object.id()))?;
        }
    }
    let left = requests.until_gone(objects, GONE_LIMIT).await?;
    if let Some(first) = left.first() {
        bail!(
            "{} is not gone after {} s, and {} more: run slipway uninstall again",
            first.id(),
            GONE_LIMIT.as_secs(),
            left.len() - 1
        );
    }
    Ok(())
}

/// Cleans the hosts of all nodes that are Ready, and their Nodes; the record with those that are
/// clean, and why others are not. Each is recorded by itself: a removal that is killed again and
/// again comes to its end.
async fn clean_hosts(
    requests: &InstallRequests,
    mut record: InstallRecord,
    nodes: &[SeenNode],
    purges: bool,
) -> anyhow::Result<(InstallRecord, BTreeMap<String, String>)> {
    let is_left = |node: &&SeenNode| !record.clean.contains(&node.name) && hosts::has_daemon(node);
    let left: Vec<_> = nodes.iter().filter(is_left).collect();
    let ready: Vec<_> = left.iter().filter(|it| it.is_ready).copied().collect();
    let ends = hosts::run(requests, HostVerb::Remove, &ready, &record.host_image).await?;
    let mut dirty = BTreeMap::new();
    for node in left {
        let why = match ends.get(&node.name) {
            None => "it is not Ready".to_owned(),
            Some(HostPodEnd::Ended {
                is_success: true, ..
            }) => {
                take_marks(requests, node, purges).await?;
                record = record.removing(std::slice::from_ref(&node.name));
                requests.put_record(&record).await?;
                print(format!("cleaned the host of node {}\n", node.name))?;
                continue;
            }
            Some(HostPodEnd::Ended { report, .. }) => match HostRemoval::parse(report) {
                Ok(removal) => removal.reasons.join("; "),
                Err(_) => report.trim().to_owned(),
            },
            Some(HostPodEnd::Failed(why)) => why.clone(),
            Some(HostPodEnd::Runs) => format!("it did not end within {LIMIT_SECS} s"),
        };
        dirty.insert(node.name.clone(), why);
    }
    Ok((record, dirty))
}

/// Takes our marks off a Node, as it is now.
async fn take_marks(
    requests: &InstallRequests,
    node: &SeenNode,
    purges: bool,
) -> anyhow::Result<()> {
    const TRIES: u32 = 10;
    let at = path::object::<Node>(&wire::escape(&node.name));
    for _ in 0..TRIES {
        let Some(object) = requests.at(&at).await? else {
            return Ok(());
        };
        let Some(patch) = clean_node(&object, purges) else {
            return Ok(());
        };
        let body = RequestBody::MergePatch(&patch);
        let sent = requests
            .access
            .send::<Value>(Method::PATCH, &at, body)
            .await;
        // The kubelet writes often.
        if wire::unless_conflict(sent)?.is_some() {
            return Ok(());
        }
    }
    bail!(
        "node {} was changed at each of {TRIES} tries to take our marks off",
        node.name
    )
}

/// Takes finalizers of the programs off objects of people; `returns` is whether OpenShift's
/// operators go on.
async fn take_finalizers(requests: &InstallRequests, returns: bool) -> anyhow::Result<()> {
    for (api_version, plural) in FINALIZED {
        let all = path::untyped(api_version, None, plural);
        for object in requests.list(&all).await? {
            let Some(finalizers) = without_own_finalizers(&object, returns) else {
                continue;
            };
            let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
            let name = text("/metadata/name").unwrap_or_default();
            let namespace = text("/metadata/namespace");
            let at = path::untyped(api_version, namespace, plural) + "/" + name;
            let version = text("/metadata/resourceVersion");
            let patch = json!({
                "metadata": { "finalizers": finalizers, "resourceVersion": version },
            });
            let body = RequestBody::MergePatch(&patch);
            let sent = requests
                .access
                .send::<Value>(Method::PATCH, &at, body)
                .await;
            wire::found(sent)?;
        }
    }
    Ok(())
}

/// Removes what the programs made for themselves.
async fn remove_made(requests: &InstallRequests) -> anyhow::Result<()> {
    for (api_version, plural, only) in MADE {
        let all = path::untyped(api_version, None, plural);
        for object in requests.list(&all).await? {
            let name = object.pointer("/metadata/name").and_then(Value::as_str);
            let Some(name) = name else { continue };
            if only.is_none_or(|only| only == name) {
                requests.delete(&format!("{all}/{name}")).await?;
            }
        }
    }
    Ok(())
}

/// Removes the namespaces without objects of others; says why others stay.
async fn remove_namespaces(
    requests: &InstallRequests,
    own: &[ObjectId],
    namespaces: &[RecordedObject],
) -> anyhow::Result<()> {
    if namespaces.is_empty() {
        return Ok(());
    }
    let kinds = discovery::namespaced_kinds(&requests.access).await?;
    let mut gone = Vec::new();
    for namespace in namespaces {
        let mut others = Vec::new();
        for kind in &kinds {
            let path = path::untyped(&kind.api_version, Some(&namespace.name), &kind.plural);
            for head in list::heads(&requests.access, &path).await? {
                let id = RecordedObject {
                    api_version: kind.api_version.clone(),
                    kind: kind.kind.clone(),
                    namespace: namespace.name.clone(),
                    name: head.name,
                    was_there: false,
                }
                .id();
                let has_owner = head
                    .owner_references
                    .as_array()
                    .is_some_and(|it| !it.is_empty());
                if !own.contains(&id) && !is_of_every_namespace(&id, has_owner) {
                    others.push(id.to_string());
                }
            }
        }
        match keeps_namespace(namespace, &others) {
            Some(KeptObject { object, why }) => print(format!("keeps {object}: {why}\n"))?,
            None => gone.push(namespace.clone()),
        }
    }
    remove_all(requests, &gone).await
}
