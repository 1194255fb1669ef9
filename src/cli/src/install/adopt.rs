//! From OpenShift's operators to ours, one component at a time, and back.
//!
//! What is taken over is stored as it was before it is touched; an adoption that was interrupted
//! goes on, and one that is not wanted any more is undone by `slipway uninstall`.

use std::collections::BTreeSet;

use anyhow::ensure;
use install::adoption::{Adoption, VERSION_OPERATOR, absent, overrides};
use install::component::InstallComponent;
use install::order;
use install::plan::InstallPlan;
use install::record::{InstallRecord, RecordedObject};
use release::manifest::{Manifest, ObjectId};
use serde_json::Value;

use super::programs;
use super::requests::InstallRequests;
use crate::output::print;

/// How long an object may take until it is gone.
const GONE_LIMIT: std::time::Duration = std::time::Duration::from_mins(2);

/// Stores what is taken over, has OpenShift's version operator leave it alone, and removes what
/// cannot be changed into ours.
pub(super) async fn take_over(
    requests: &InstallRequests,
    former: Option<&InstallRecord>,
    plan: &InstallPlan,
    wanted: &[Manifest],
) -> anyhow::Result<()> {
    let own: BTreeSet<ObjectId> = former
        .map(|it| it.objects.iter().map(RecordedObject::id).collect())
        .unwrap_or_default();
    let is_foreign = |it: &&Manifest| {
        !own.contains(&it.id) && !order::is_definition(&it.id) && it.id.kind != "Namespace"
    };
    let mut objects: Vec<Value> = Vec::new();
    for manifest in wanted.iter().filter(is_foreign) {
        let version = manifest.full_api_version();
        objects.extend(requests.find(&manifest.id, &version).await?);
    }
    let has_operator = requests
        .find(&version_operator(), "apps/v1")
        .await?
        .is_some();
    let replaces_operator = plan.replaced.contains(&version_operator());
    let adoption = requests.adoption().await?.unwrap_or_default();
    let new = if has_operator && !replaces_operator {
        let present = requests.overrides().await?;
        absent(&present, overrides(wanted.iter().map(|it| &it.id)))
    } else {
        Vec::new()
    };
    let adoption = adoption.with(&objects, new);
    requests.put_adoption(&adoption).await?;
    requests.change_overrides(&adoption.overrides, &[]).await?;
    let replaced: Vec<RecordedObject> = wanted
        .iter()
        .filter(|it| plan.replaced.contains(&it.id) && !own.contains(&it.id))
        .map(|it| RecordedObject {
            api_version: it.full_api_version(),
            kind: it.id.kind.clone(),
            namespace: it.id.namespace.clone(),
            name: it.id.name.clone(),
            was_there: true,
        })
        .collect();
    let (workloads, others): (Vec<_>, Vec<_>) = replaced
        .into_iter()
        .partition(|it| order::is_workload(&it.id()));
    programs::end(requests, &workloads, "took over").await?;
    for object in &others {
        if requests.remove(object).await? {
            print(format!("took over {}\n", object.id()))?;
        }
    }
    let left = requests.until_gone(&others, GONE_LIMIT).await?;
    let first = left.first().map(|it| it.id().to_string());
    ensure!(
        left.is_empty(),
        "{} is not gone after {} s",
        first.unwrap_or_default(),
        GONE_LIMIT.as_secs()
    );
    Ok(())
}

/// Takes the overrides away once the version operator is ours: it applies the same objects.
pub(super) async fn hand_over(
    requests: &InstallRequests,
    components: &BTreeSet<InstallComponent>,
) -> anyhow::Result<()> {
    if !components.contains(&InstallComponent::VersionOperator) {
        return Ok(());
    }
    if let Some(mut adoption) = requests.adoption().await? {
        requests.change_overrides(&[], &adoption.overrides).await?;
        adoption.overrides.clear();
        requests.put_adoption(&adoption).await?;
    }
    Ok(())
}

/// Restores what was taken over: objects as they were, and overrides away. What was stored of it
/// stays until [`InstallRequests::delete_adoption`].
pub(super) async fn restore(requests: &InstallRequests, adoption: &Adoption) -> anyhow::Result<()> {
    for object in &adoption.objects {
        requests.restore(object).await?;
        if let Some(id) = install::adoption::id(object) {
            print(format!("restored {id}\n"))?;
        }
    }
    requests.change_overrides(&[], &adoption.overrides).await
}

fn version_operator() -> ObjectId {
    let (namespace, name) = VERSION_OPERATOR;
    ObjectId {
        group: "apps".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
