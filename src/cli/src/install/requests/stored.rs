//! What an installation stores of itself on the cluster, and what it makes again of others.

use api::config::ClusterVersion;
use cluster::apply::Ownership;
use cluster::path;
use cluster::wire::{self, RequestBody};
use http::Method;
use install::adoption::{self, Adoption, Override};
use install::record::{CONFIG_MAP, InstallRecord, KEY};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::{APPLY_PAUSE, APPLY_TRIES, Error, InstallRequests};

/// Status of a request whose object is not valid.
const UNPROCESSABLE: u16 = 422;

impl InstallRequests {
    /// What is installed; nothing where there is no record.
    pub(in crate::install) async fn record(&self) -> Result<Option<InstallRecord>, Error> {
        let found: Option<ConfigMap> = self.access.find(&record_path()).await?;
        let data = found.map(|it| it.data.unwrap_or_default());
        Ok(data.map(|data| InstallRecord::read(&data)).transpose()?)
    }

    /// Stores what is installed.
    pub(in crate::install) async fn put_record(
        &self,
        record: &InstallRecord,
    ) -> anyhow::Result<()> {
        let (namespace, name) = CONFIG_MAP;
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": namespace },
            "data": { KEY: serde_json::to_string(record)? },
        });
        self.applier.apply(&object, Ownership::Take).await?;
        Ok(())
    }

    pub(in crate::install) async fn delete_record(&self) -> Result<(), Error> {
        self.delete(&record_path()).await?;
        Ok(())
    }

    /// What was taken over from OpenShift's operators; nothing where nothing was.
    pub(in crate::install) async fn adoption(&self) -> Result<Option<Adoption>, Error> {
        let found: Option<ConfigMap> = self.access.find(&adoption_path()).await?;
        let data = found.map(|it| it.data.unwrap_or_default());
        Ok(data.map(|data| Adoption::read(&data)).transpose()?)
    }

    /// Stores what is taken over; before it is.
    pub(in crate::install) async fn put_adoption(&self, adoption: &Adoption) -> anyhow::Result<()> {
        let (namespace, name) = adoption::CONFIG_MAP;
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": namespace },
            "data": { adoption::KEY: adoption.text()? },
        });
        self.applier.apply(&object, Ownership::Take).await?;
        Ok(())
    }

    pub(in crate::install) async fn delete_adoption(&self) -> Result<(), Error> {
        self.delete(&adoption_path()).await?;
        Ok(())
    }

    /// The overrides of ClusterVersion; null without any.
    pub(in crate::install) async fn overrides(&self) -> Result<Value, Error> {
        let path = path::object::<ClusterVersion>("version");
        let version: Option<Value> = self.access.find(&path).await?;
        let overrides = version.and_then(|it| it.pointer("/spec/overrides").cloned());
        Ok(overrides.unwrap_or(Value::Null))
    }

    /// Changes the overrides of ClusterVersion, where there is one.
    pub(in crate::install) async fn change_overrides(
        &self,
        add: &[Override],
        remove: &[Override],
    ) -> anyhow::Result<()> {
        const TRIES: u32 = 20;
        let at = path::object::<ClusterVersion>("version");
        for _ in 0..TRIES {
            let Some(version) = self.at(&at).await? else {
                return Ok(());
            };
            let present = version.pointer("/spec/overrides").unwrap_or(&Value::Null);
            let Some(merged) = adoption::merge(present, add, remove) else {
                return Ok(());
            };
            let read = version.pointer("/metadata/resourceVersion");
            let patch = json!({
                "metadata": { "resourceVersion": read }, "spec": { "overrides": merged },
            });
            let body = RequestBody::MergePatch(&patch);
            let sent = self.access.send::<Value>(Method::PATCH, &at, body).await;
            // The version operator writes often.
            if wire::unless_conflict(sent)?.is_some() {
                return Ok(());
            }
        }
        anyhow::bail!(
            "ClusterVersion version was changed at each of {TRIES} tries to set overrides"
        )
    }

    /// Makes an object what it was, or makes it again.
    pub(in crate::install) async fn restore(&self, was: &Value) -> anyhow::Result<()> {
        let Some(id) = adoption::id(was) else {
            return Ok(());
        };
        let api_version = was
            .get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let Some(path) = self.path(&id, api_version).await? else {
            anyhow::bail!("cannot restore {id}: the API server does not serve its kind");
        };
        let body = RequestBody::Object(was);
        let Some(present) = self.at(&path).await? else {
            let (all, _) = path.rsplit_once('/').unwrap_or_default();
            self.access.send::<Value>(Method::POST, all, body).await?;
            return Ok(());
        };
        let mut object = was.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            let read = present.pointer("/metadata/resourceVersion").cloned();
            metadata.extend(read.map(|read| ("resourceVersion".to_owned(), read)));
        }
        let body = RequestBody::Object(&object);
        let sent = self.access.send::<Value>(Method::PUT, &path, body).await;
        match sent {
            Ok(_) => Ok(()),
            // A field that only a new object may have with another value.
            Err(error) if error.code() == Some(UNPROCESSABLE) => self.make_again(&path, was).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Removes what is at a path and makes an object in its place.
    async fn make_again(&self, path: &str, object: &Value) -> anyhow::Result<()> {
        self.delete(path).await?;
        let (all, _) = path.rsplit_once('/').unwrap_or_default();
        let mut tries = 0;
        loop {
            let body = RequestBody::Object(object);
            match self.access.send::<Value>(Method::POST, all, body).await {
                // What was there has not gone yet.
                Err(error) if error.is_conflict() && tries < APPLY_TRIES => {
                    tries += 1;
                    tokio::time::sleep(APPLY_PAUSE).await;
                }
                sent => return Ok(sent.map(drop)?),
            }
        }
    }
}

fn adoption_path() -> String {
    let (namespace, name) = adoption::CONFIG_MAP;
    path::namespaced::<ConfigMap>(namespace, name)
}

fn record_path() -> String {
    let (namespace, name) = CONFIG_MAP;
    path::namespaced::<ConfigMap>(namespace, name)
}
