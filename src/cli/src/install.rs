//! `slipway install`: a release's objects on a cluster, after a check of cluster and hosts.
//!
//! What is applied and what is missing is decided in crate `install`; here are the requests.
//!
//! - `arguments`: options
//! - `adopt`: from OpenShift's operators to ours, and back
//! - `source`: the objects of a version
//! - `requests`: requests to the cluster
//! - `follow`: waits until what was applied runs
//! - `hosts`: pods that check hosts, or clean them
//! - `programs`: ends programs
//! - `remove`: `slipway uninstall`

mod adopt;
pub mod arguments;
mod follow;
mod hosts;
mod programs;
pub(crate) mod remove;
mod requests;
mod source;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use cluster::apply::{ApplyOutcome, Ownership};
use install::adoption::VERSION_OPERATOR;
use install::cluster_version;
use install::component::{InstallComponent, choose};
use install::host_pod::{self, HostVerb};
use install::manifests::InstallManifests;
use install::order;
use install::plan::InstallPlan;
use install::record::{InstallRecord, InstallStage, RecordedObject, is_daemon};
use install::rival::{Suspect, suspects};
use install::survey::{InstallSurvey, NodeCheck, Rehearsed, runs_on_hosts};
use release::Payload;
use release::manifest::{Manifest, ObjectId};
use tokio::time::{Instant, sleep};

use self::arguments::InstallArgs;
use self::requests::InstallRequests;
use crate::failure::{Ending, Usage};
use crate::output::{print, print_data, show};

/// Images of the manifests by which hosts are looked at, and which a release takes the place of.
const HOST_IMAGE: &str = "slipway-mcd";
const RELEASE_BASE: &str = "slipway-cvo";

/// How long a definition may take until its kind is served, and admission until it has noticed that
/// a policy is unbound.
const NOTICE_LIMIT: Duration = Duration::from_mins(1);

const PAUSE: Duration = Duration::from_millis(500);

pub(crate) async fn run(arguments: InstallArgs) -> anyhow::Result<Ending> {
    let manifests = source::read(arguments.manifests.as_deref())?;
    if arguments.render {
        let components = chosen(&arguments, None)?;
        return render(&wanted(&manifests, &components, &arguments)?);
    }
    let ownership = if arguments.force_conflicts || arguments.adopt {
        Ownership::Take
    } else {
        Ownership::Respect
    };
    let payload = match &arguments.release {
        Some(release) => {
            // Options that contradict each other cost no request.
            chosen(&arguments, None)?;
            let stores = arguments.registries.stores()?;
            let read = crate::payload::read(&stores, &release.as_str().parse()?).await?;
            Some(read.payload)
        }
        None => None,
    };
    let requests = InstallRequests::new(arguments.cluster.access()?, ownership);
    let former = requests.record().await?;
    if let Some(former) = &former
        && former.stage == InstallStage::Removing
    {
        bail!(
            "version {} is being removed: let slipway uninstall end first",
            former.version
        );
    }
    let components = chosen(&arguments, former.as_ref())?;
    let mut wanted = wanted(&manifests, &components, &arguments)?;
    if payload.is_some() {
        // By the UID that identifies a cluster everywhere.
        let cluster = requests.cluster_uid().await?;
        wanted.extend(cluster_version::first(&cluster)?);
        wanted.sort_by_key(|it| order::rank(&it.id));
    }
    let recorded = recorded(&wanted, payload.as_ref());
    let of_release = payload
        .as_ref()
        .and_then(|it| it.references.tags.get(HOST_IMAGE))
        .map(|tag| tag.from.as_str());
    let host_image = match (&former, of_release) {
        (_, Some(image)) => image,
        (_, None) if runs_on_hosts(&components) => image(&manifests, HOST_IMAGE)?,
        (Some(former), None) => &former.host_image,
        (None, None) => "",
    };
    let has_daemon = recorded.iter().any(|it| is_daemon(&it.id));
    let checked = has_daemon.then_some(host_image);
    let survey = survey(
        &requests,
        &arguments,
        &manifests,
        (&components, checked),
        (&wanted, &recorded),
    )
    .await?;
    let rivals: Vec<_> = survey.rivals.iter().map(|it| it.id.clone()).collect();
    let runs = |it: &Manifest| {
        let said = survey.rehearsed.get(&it.id);
        let is_new = matches!(said, None | Some(Rehearsed::Create | Rehearsed::Later));
        order::is_workload(&it.id) && !is_new && !rivals.contains(&it.id)
    };
    let has_slipway = wanted.iter().any(runs);
    let there = requests.there(&recorded, has_slipway).await?;
    let version = manifests.version.as_str();
    let mut plan = InstallPlan::new((version, &components), &wanted, former.as_ref(), survey);
    if payload.is_some() {
        plan = plan.without_removals();
    }
    show(arguments.cluster.output, &plan, || plan.text())?;
    match plan.blocks() {
        0 => {}
        1 => bail!("nothing was applied: 1 requirement is missing"),
        many => bail!("nothing was applied: {many} requirements are missing"),
    }
    if arguments.check {
        return Ok(Ending::Done);
    }
    let record = InstallRecord::begin(
        former.as_ref(),
        (version, host_image),
        &components,
        &recorded,
        &there,
    );
    if plan.adopts {
        adopt::take_over(&requests, former.as_ref(), &plan, &wanted).await?;
    }
    apply(&requests, record, &plan, &wanted).await?;
    if plan.adopts {
        adopt::hand_over(&requests, &components).await?;
    }
    follow::follow(&requests, &arguments, &plan, &wanted).await
}

/// The components to install. A release's operator takes over what is installed.
fn chosen(
    arguments: &InstallArgs,
    former: Option<&InstallRecord>,
) -> anyhow::Result<BTreeSet<InstallComponent>> {
    let installed = former.map(|it| it.components.clone()).unwrap_or_default();
    let asked = &arguments.components;
    let operator = InstallComponent::VersionOperator;
    if arguments.release.is_none() {
        let chosen = choose(asked, &installed).map_err(Usage::of)?;
        if installed.contains(&operator) {
            bail!(
                "the version operator of a release applies what this cluster has: request another \
                 release by slipway upgrade, or install one by --release"
            );
        }
        if chosen.contains(&operator) {
            bail!(Usage(format!("component {operator} needs --release")));
        }
        return Ok(chosen);
    }
    if let Some(other) = asked.iter().find(|it| **it != operator) {
        bail!(Usage(format!(
            "--release cannot be used with component {other}: the release's operator applies what \
             the release has"
        )));
    }
    Ok(installed.into_iter().chain([operator]).collect())
}

/// What is recorded: what is applied here, and what the release's operator applies.
fn recorded(wanted: &[Manifest], payload: Option<&Payload>) -> Vec<Manifest> {
    let mut recorded = wanted.to_vec();
    let known: BTreeSet<ObjectId> = wanted.iter().map(|it| it.id.clone()).collect();
    let manifests = payload
        .map(|it| it.manifests.as_slice())
        .unwrap_or_default();
    let others = manifests.iter().filter(|it| !known.contains(&it.id));
    recorded.extend(others.cloned());
    recorded
}

/// The objects of the components, the version operator's with the release that is asked for.
fn wanted(
    manifests: &InstallManifests,
    components: &BTreeSet<InstallComponent>,
    arguments: &InstallArgs,
) -> anyhow::Result<Vec<Manifest>> {
    let Some(release) = &arguments.release else {
        return Ok(manifests.of(components));
    };
    let operator = BTreeSet::from([InstallComponent::VersionOperator]);
    let mut wanted = manifests.of(&operator);
    let base = image(manifests, RELEASE_BASE)?;
    for manifest in &mut wanted {
        let text = manifest.object.to_string().replace(base, release.as_str());
        manifest.object = serde_json::from_str(&text).context("the release's name is no text")?;
    }
    Ok(wanted)
}

fn image<'a>(manifests: &'a InstallManifests, name: &str) -> anyhow::Result<&'a str> {
    let image = manifests.images.get(name);
    image
        .map(String::as_str)
        .with_context(|| format!("the manifests name no image {name}"))
}

fn render(wanted: &[Manifest]) -> anyhow::Result<Ending> {
    let mut text = String::new();
    for manifest in wanted {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&manifest.object)?);
    }
    print_data(text)?;
    Ok(Ending::Done)
}

/// Checks the cluster first: where it cannot be installed anyway, no pod is started on hosts.
async fn survey(
    requests: &InstallRequests,
    arguments: &InstallArgs,
    manifests: &InstallManifests,
    (components, host_image): (&BTreeSet<InstallComponent>, Option<&str>),
    (wanted, recorded): (&[Manifest], &[Manifest]),
) -> anyhow::Result<InstallSurvey> {
    let mut survey = InstallSurvey {
        server: requests.server().await?,
        groups: requests.groups().await?,
        denied: requests.denied(wanted).await?,
        ..InstallSurvey::default()
    };
    // An adopted cluster is updated without asking again.
    survey.adopts = arguments.adopt || requests.adoption().await?.is_some();
    survey.rivals = requests.rivals(&suspects(wanted)).await?;
    let first = BTreeSet::from([InstallComponent::MachineConfig]);
    if components.contains(&InstallComponent::VersionOperator) && !first.is_subset(components) {
        let first = suspects(&manifests.of(&first)).into_iter();
        let others = first.filter(|it| !wanted.iter().any(|wanted| wanted.id == it.id));
        let operator = |it: &Suspect| it.id.namespace == VERSION_OPERATOR.0;
        survey.before = requests
            .rivals(&others.filter(|it| !operator(it)).collect())
            .await?;
    }
    if survey.denied.is_empty() {
        survey.lacking = requests.lacking(components, recorded).await?;
        survey.rehearsed = requests.rehearse(wanted).await?;
    }
    let is_rivalled = !survey.rivals.is_empty() && !survey.adopts;
    let is_lost = is_rivalled || !survey.denied.is_empty();
    let Some(image) = host_image.filter(|_| !arguments.skip_host_check && !is_lost) else {
        return Ok(survey);
    };
    let nodes = hosts::nodes(requests).await?;
    let nodes: Vec<_> = nodes.iter().filter(|it| hosts::has_daemon(it)).collect();
    let ready: Vec<_> = nodes.iter().filter(|it| it.is_ready).copied().collect();
    let ends = hosts::run(requests, HostVerb::Check, &ready, image).await?;
    survey.nodes = nodes
        .iter()
        .map(|node| {
            let check = match ends.get(&node.name) {
                Some(end) => host_pod::judge(end),
                None => NodeCheck::Away,
            };
            (node.name.clone(), check)
        })
        .collect();
    Ok(survey)
}

/// Applies all objects in their order, then removes what the version has not any more.
async fn apply(
    requests: &InstallRequests,
    record: InstallRecord,
    plan: &InstallPlan,
    wanted: &[Manifest],
) -> anyhow::Result<()> {
    requests.put_record(&record).await?;
    unbind(requests, plan, wanted).await?;
    for (index, manifest) in wanted.iter().enumerate() {
        let done = requests.apply(manifest).await?;
        let name = manifest.id.to_string();
        match done {
            ApplyOutcome::Created => print(format!("created {name}\n"))?,
            // Who owns which fields may be all that changes.
            ApplyOutcome::Changed if !plan.keep.contains(&name) => {
                print(format!("changed {name}\n"))?;
            }
            ApplyOutcome::Changed | ApplyOutcome::Unchanged => {}
        }
        // The last definition: others need the kinds.
        let next = wanted.get(index + 1);
        if order::is_definition(&manifest.id)
            && !next.is_some_and(|it| order::is_definition(&it.id))
        {
            until_served(requests, wanted).await?;
        }
    }
    for object in &plan.stale {
        if requests.remove(object).await? {
            print(format!("removed {}\n", object.id()))?;
        }
    }
    let stale = plan.stale.iter().map(RecordedObject::id).collect();
    requests.put_record(&record.finished(&stale)).await
}

/// Unbinds our own admission policies where they refuse what is changed; they are applied again
/// after it.
async fn unbind(
    requests: &InstallRequests,
    plan: &InstallPlan,
    wanted: &[Manifest],
) -> anyhow::Result<()> {
    if plan.unbound.is_empty() {
        return Ok(());
    }
    let bindings = wanted.iter().filter(|it| plan.unbound.contains(&it.id));
    for binding in bindings {
        if let Some(path) = requests.path_of(binding).await? {
            requests.delete(&path).await?;
        }
    }
    let policies: Vec<_> = wanted
        .iter()
        .filter(|it| it.id.kind == "NetworkPolicy")
        .cloned()
        .collect();
    let deadline = Instant::now() + NOTICE_LIMIT;
    loop {
        let said = requests.rehearse(&policies).await?;
        let is_refused = |it: &(&ObjectId, &Rehearsed)| matches!(it.1, Rehearsed::Refused(_));
        let Some((id, why)) = said.iter().find(is_refused) else {
            return Ok(());
        };
        ensure!(Instant::now() < deadline, "cannot apply {id}: {why:?}");
        sleep(PAUSE).await;
    }
}

/// Waits until each kind that was defined is served.
async fn until_served(requests: &InstallRequests, wanted: &[Manifest]) -> anyhow::Result<()> {
    let definitions = wanted.iter().filter(|it| order::is_definition(&it.id));
    let deadline = Instant::now() + NOTICE_LIMIT;
    for definition in definitions {
        loop {
            let object = requests
                .find(&definition.id, &definition.full_api_version())
                .await?;
            let conditions = object
                .as_ref()
                .and_then(|it| it.pointer("/status/conditions")?.as_array());
            let is_served = conditions
                .into_iter()
                .flatten()
                .any(|it| it["type"] == "Established" && it["status"] == "True");
            if is_served {
                break;
            }
            ensure!(
                Instant::now() < deadline,
                "{} is not established after {} s",
                definition.id,
                NOTICE_LIMIT.as_secs()
            );
            sleep(PAUSE / 4).await;
        }
    }
    Ok(())
}
