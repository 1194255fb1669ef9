//! The status of the ClusterVersion is made and written, and how far the release is.

use std::collections::BTreeSet;
use std::time::Duration;

use api::config::{ClusterVersion, ClusterVersionStatus, cluster_version};
use cluster::wire::RequestBody;
use cluster::{path, wire};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use operator::Next;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{TICK, VersionOperator};
use crate::metrics::{Installer, MetricsFacts};
use crate::watches::ClusterVersions;
use version_update::advised::Advised;
use version_update::builder;
use version_update::progress::{CHECKPOINT, Checkpoint};
use version_update::release_state::ReleaseState;
use version_update::report::Report;
use version_update::status::{self, VersionFacts};
use version_update::upgradeable::{ACKS, GATES, UpgradeInputs, UpgradeRisk};

/// How often it is written if nothing but the count of manifests differs.
const COUNT: Duration = Duration::from_secs(15);

impl VersionOperator {
    /// What speaks against updates to another minor release.
    pub(super) fn upgradeable_risks(
        &self,
        object: &ClusterVersion,
        current: (&Report, &ReleaseState),
    ) -> Vec<UpgradeRisk> {
        let (own, now) = (self.own(), (self.now)());
        status::upgradeable_risks(object, current, &own, &self.upgrade_inputs(), now)
    }

    fn upgrade_inputs(&self) -> UpgradeInputs {
        let operators = self.caches.operators.table();
        let operators = operators.values();
        let operators = operators.map(|one| (one.name.clone(), one.status.clone()));
        let (_, gates) = GATES;
        let (_, acks) = ACKS;
        let loaded = self.loaded();
        let mut entries = loaded
            .iter()
            .flat_map(|loaded| &loaded.files.inventory.entries);
        UpgradeInputs {
            operators: operators.collect(),
            has_operators: entries.any(|entry| builder::is_operator(&entry.id)),
            gates: self.caches.gates.get(gates).map(|map| map.data.clone()),
            acks: self.caches.acks.get(acks).map(|map| map.data.clone()),
        }
    }

    /// Writes the status, if it differs from the one that is written.
    pub(super) async fn report(&self) -> Result<Next, wire::Error> {
        let Some(object) = self.object() else {
            return Ok(Next::Settled);
        };
        let report = self.engine.report().clone();
        let state = self.releases().state.clone();
        let own = self.own();
        let upgradeable_risks = self.upgradeable_risks(&object, (&report, &state));
        let advised = self.advised_with(&upgradeable_risks, &state.release(&own).version);
        self.measure(&object, &advised).await?;
        let loaded = self.loaded();
        let entries = loaded
            .as_ref()
            .map(|loaded| loaded.files.inventory.entries.as_slice());
        let facts = VersionFacts {
            report: &report,
            state: &state,
            own: &own,
            upgradeable_risks: &upgradeable_risks,
            updates: advised.updates.as_ref(),
            queries: &advised.queries,
            manifests: entries,
        };
        let next = status::next(&object, &facts, (self.now)());
        let before = object.status.clone().unwrap_or_default();
        // Nothing was read yet: there is nothing to say.
        let is_silent = report.accepted.is_none() && report.unreadable.is_none();
        if !is_silent && next != before {
            let recently = self.written().status.is_some_and(|at| at.elapsed() < COUNT);
            if !(recently && status::differ_in_counts_only(&next, &before)) {
                self.write(&object, &next).await?;
                self.written().status = Some(Instant::now());
            }
        }
        self.checkpoint(&object, &report.checkpoint).await?;
        self.record(&report).await;
        Ok(Next::After(TICK))
    }

    /// Renews what metrics say besides objects.
    async fn measure(&self, object: &ClusterVersion, advised: &Advised) -> Result<(), wire::Error> {
        let installer = match self.metrics.installer() {
            Some(installer) => installer,
            None => self.read_installer().await?,
        };
        let found = advised.updates.as_ref();
        let found = found.and_then(|updates| updates.found.as_ref());
        let offers = found.iter().flat_map(|(_, offers)| &offers.offers);
        let risks = offers.flat_map(|offer| &offer.risks);
        let risks = risks.map(|risk| (risk.name.clone(), advised.queries.exposure(risk)));
        let service = self.settings.advice.service.as_ref();
        self.metrics.set(MetricsFacts {
            retrieved: found.map(|(at, _)| *at),
            upstream: service.unwrap_or(&object.spec.upstream).clone(),
            risks: risks.collect(),
            installer: Some(installer),
        });
        Ok(())
    }

    /// What installed the cluster, by the ConfigMap that it left. Once a process.
    async fn read_installer(&self) -> Result<Installer, wire::Error> {
        const MAPS: [(&str, &str); 2] = [
            ("openshift-install", "openshift-install"),
            ("openshift-install-manifests", "other"),
        ];
        for (name, kind) in MAPS {
            let path = path::namespaced::<ConfigMap>("openshift-config", name);
            let Some(map) = self.access.find::<ConfigMap>(&path).await? else {
                continue;
            };
            let mut data = map.data.unwrap_or_default();
            return Ok(Installer {
                kind,
                version: data.remove("version").unwrap_or_default(),
                invoker: data.remove("invoker").unwrap_or_default(),
            });
        }
        Ok(Installer {
            kind: "other",
            ..Installer::default()
        })
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
        let text = checkpoint.to_string();
        self.annotate(CHECKPOINT, Some(&text)).await
    }
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

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    /// A field that the definition rejects does not keep the rest from being written. Row 8 of
    /// `docs/reference/known-weaknesses.md`, "Version operator".
    #[test]
    fn refused_fields_are_named_but_for_those_that_each_status_has() {
        let fields = [
            "status.conditionalUpdates[0].risks[0].name",
            "status.capabilities.enabledCapabilities[2]",
            "status.history[0].state",
            "spec.channel",
        ];
        let causes = fields.map(
            |field| json!({ "reason": "FieldValueNotSupported", "field": field, "message": "" }),
        );
        let details =
            json!({ "name": "version", "group": "", "kind": "", "uid": "", "causes": causes });
        let error = wire::Error::Refused {
            method: Method::PUT,
            path: "/x".to_owned(),
            status: Box::new(Status {
                code: 422,
                details: serde_json::from_value(details).unwrap(),
                ..Status::failure("no", "Invalid")
            }),
            retry_after: None,
        };
        let refused: Vec<String> = refused_fields(&error).into_iter().collect();
        assert_eq!(refused, ["capabilities", "conditionalUpdates"]);
    }
}
