//! The status of the ClusterVersion is made and written, and how far the release is.

use std::collections::BTreeSet;
use std::time::Duration;

use api::config::{ClusterVersion, ClusterVersionStatus, cluster_version};
use cluster::wire::RequestBody;
use cluster::{path, wire};
use http::Method;
use operator::Next;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{TICK, VersionOperator};
use crate::progress::{CHECKPOINT, Checkpoint};
use crate::status::{self, VersionFacts};
use crate::upgradeable::{ACKS, GATES, UpgradeInputs};
use crate::watches::ClusterVersions;

/// How often it is written if nothing but the count of manifests differs.
const COUNT: Duration = Duration::from_secs(15);

impl VersionOperator {
    /// What speaks against updates to another minor release.
    fn upgrade(&self) -> UpgradeInputs {
        let operators = self.caches.operators.table();
        let operators = operators.values();
        let operators = operators.map(|one| (one.name().to_owned(), one.status.clone()));
        let (_, gates) = GATES;
        let (_, acks) = ACKS;
        UpgradeInputs {
            operators: operators.collect(),
            gates: self.caches.gates.get(gates).map(|map| map.data.clone()),
            acks: self.caches.acks.get(acks).map(|map| map.data.clone()),
        }
    }

    /// Writes the status, if it differs from the one that is written.
    pub(super) async fn report(&self) -> Result<Next, wire::Error> {
        let Some(object) = self.object() else {
            return Ok(Next::Settled);
        };
        let report = self.shared.lock().clone();
        let advised = self.advised().clone();
        let facts = VersionFacts {
            report: &report,
            own: &self.own(),
            upgrade: &self.upgrade(),
            advice: advised.advice.as_ref(),
            queries: &advised.queries,
        };
        let next = status::next(&object, &facts, (self.now)());
        let before = object.status.clone().unwrap_or_default();
        // Nothing was read yet: there is nothing to say.
        let is_silent = report.accepted.is_none() && report.unreadable.is_none();
        if !is_silent && next != before {
            let recently = self.pace().written.is_some_and(|at| at.elapsed() < COUNT);
            if !(recently && differ_in_counts_only(&next, &before)) {
                self.write(&object, &next).await?;
                self.pace().written = Some(Instant::now());
            }
        }
        self.checkpoint(&object, &report.checkpoint).await?;
        Ok(Next::After(TICK))
    }

    /// Writes the status. A field that the definition on the server does not allow is left out, so
    /// that the rest is written. Source: `docs/reference/cvo.md`, "What Slipway is to do better".
    async fn write(
        &self,
        object: &ClusterVersion,
        status: &ClusterVersionStatus,
    ) -> Result<(), wire::Error> {
        let path = format!(
            "{}/status",
            path::object::<ClusterVersion>(cluster_version::NAME)
        );
        let mut body = json!({
            "apiVersion": "config.openshift.io/v1",
            "kind": "ClusterVersion",
            "metadata": {
                "name": cluster_version::NAME,
                "resourceVersion": object.metadata.resource_version,
                "uid": object.metadata.uid,
            },
            "spec": object.spec,
            "status": status,
        });
        loop {
            let sent = self
                .access
                .send(Method::PUT, &path, RequestBody::Object(&body))
                .await;
            match sent {
                Ok(written) => {
                    self.caches
                        .versions
                        .refresh(<ClusterVersions as operator::Watched>::parse(written));
                    return Ok(());
                }
                Err(error) => {
                    let refused = refused_fields(&error);
                    let fields = body.get_mut("status").and_then(Value::as_object_mut);
                    let before = fields.as_ref().map_or(0, |fields| fields.len());
                    let after = fields.map_or(0, |fields| {
                        fields.retain(|field, _| !refused.contains(field));
                        fields.len()
                    });
                    if before == after {
                        return Err(error);
                    }
                    tracing::warn!(?refused, error = %chassis::report::Chain(&error), "status is written without some fields");
                }
            }
        }
    }

    /// Stores how far the release is, for the process after this one.
    async fn checkpoint(
        &self,
        object: &ClusterVersion,
        checkpoint: &Checkpoint,
    ) -> Result<(), wire::Error> {
        let annotations = object.metadata.annotations.as_ref();
        let stored = annotations.and_then(|all| all.get(CHECKPOINT)?.parse().ok());
        if checkpoint.version_hash.is_empty()
            || !checkpoint.is_ahead_of(&stored.unwrap_or_default())
        {
            return Ok(());
        }
        let change =
            json!({ "metadata": { "annotations": { CHECKPOINT: checkpoint.to_string() } } });
        let path = path::object::<ClusterVersion>(cluster_version::NAME);
        let written = self
            .access
            .send(Method::PATCH, &path, RequestBody::MergePatch(&change))
            .await?;
        self.caches
            .versions
            .refresh(<ClusterVersions as operator::Watched>::parse(written));
        Ok(())
    }
}

/// Whether nothing but the text of `Progressing` differs, as it does with each manifest.
fn differ_in_counts_only(one: &ClusterVersionStatus, other: &ClusterVersionStatus) -> bool {
    let without = |status: &ClusterVersionStatus| {
        let mut status = status.clone();
        for condition in &mut status.conditions {
            if condition.r#type == api::config::ClusterConditionType::Progressing {
                condition.message.clear();
            }
        }
        status
    };
    without(one) == without(other)
}

/// Fields of the status that the API server does not accept, without those that each status has.
fn refused_fields(error: &wire::Error) -> BTreeSet<String> {
    const NEEDED: [&str; 5] = [
        "desired",
        "observedGeneration",
        "versionHash",
        "conditions",
        "history",
    ];
    let wire::Error::Refused { status, .. } = error else {
        return BTreeSet::new();
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .filter_map(|cause| cause.field.strip_prefix("status."))
        .filter_map(|field| field.split(['.', '[']).next())
        .filter(|field| !NEEDED.contains(field))
        .map(str::to_owned)
        .collect()
}
