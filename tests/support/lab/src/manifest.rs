//! Objects as files hold them, and how an administrator brings them into a cluster.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use cluster::access::Access;
use cluster::apply::{Applier, Ownership};
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::discovery;
use kube::error::DiscoveryError;
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize;
use serde_json::Value;

use crate::PATIENCE;
use crate::wait::until;

/// Whose fields those of applied objects are.
const MANAGER: &str = "lab";

/// Namespace of objects that name none.
const NAMESPACE: &str = "default";

/// The objects of a YAML or JSON text, which may have several documents.
///
/// # Errors
///
/// It is neither, or a document is no object.
pub fn parse(text: &str) -> Result<Vec<DynamicObject>> {
    // As an API server's clients read it: of YAML 1.2's words, and no others, booleans are made.
    let options = serde_saphyr::options! { strict_booleans: true };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
        .context("cannot read an object as YAML")?;
    let objects = documents.into_iter().filter(|value| !value.is_null());
    objects
        .map(|value| serde_json::from_value(value).context("a document is no object"))
        .collect()
}

/// The objects of a folder with a `kustomization.yaml` that only lists files, in its order.
///
/// # Errors
///
/// It does more than that, which is not done here, or a file cannot be read.
pub fn component(dir: &Path) -> Result<Vec<DynamicObject>> {
    let listing = read(&dir.join("kustomization.yaml"))?;
    let listing: Kustomization = serde_saphyr::from_str(&listing).with_context(|| {
        format!(
            "{} has a kustomization.yaml that the lab cannot carry out",
            dir.display()
        )
    })?;
    let mut objects = Vec::new();
    for file in &listing.resources {
        objects.extend(load(&dir.join(file))?);
    }
    Ok(objects)
}

/// The objects of one file.
///
/// # Errors
///
/// It cannot be read.
pub fn load(path: &Path) -> Result<Vec<DynamicObject>> {
    parse(&read(path)?).with_context(|| format!("cannot use {}", path.display()))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// What a `kustomization.yaml` may have here; everything else would change the objects.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Kustomization {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    resources: Vec<String>,
}

/// Applies objects one after another, as `kubectl apply --server-side --force-conflicts` does; what
/// the API server has of them then.
///
/// # Errors
///
/// The API server knows no such kind, or refuses one.
pub async fn apply(client: &Client, objects: &[DynamicObject]) -> Result<Vec<DynamicObject>> {
    let access = Arc::new(Access::of_client(client.clone()));
    let applier = Applier::new(access, MANAGER).strict().namespace(NAMESPACE);
    let mut objects_stored = Vec::new();
    for object in objects {
        let response = applier
            .apply(&serde_json::to_value(object)?, Ownership::Take)
            .await?;
        objects_stored.push(serde_json::from_value(response.object)?);
    }
    Ok(objects_stored)
}

/// Applies the namespaces that a cluster has besides those of the components.
///
/// # Errors
///
/// They cannot be read, or one is not accepted.
pub async fn namespaces(client: &Client) -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/namespaces.yaml");
    apply(client, &load(&file)?).await.map(drop)
}

/// Applies all custom resource definitions in a folder, or in a file, and waits until the API
/// server serves them. `kubectl wait` fails where it meets one without a status.
///
/// # Errors
///
/// One is not accepted, or not served in time.
pub async fn define(client: &Client, path: &Path) -> Result<()> {
    let mut objects = Vec::new();
    if path.is_file() {
        objects.extend(load(path)?);
    } else {
        let entries = fs::read_dir(path);
        for entry in entries.with_context(|| format!("cannot list {}", path.display()))? {
            objects.extend(load(&entry?.path())?);
        }
    }
    ensure!(!objects.is_empty(), "no definitions in {}", path.display());
    let each = objects.iter().map(std::slice::from_ref);
    try_join_all(each.map(|object| apply(client, object))).await?;

    try_join_all(
        objects
            .iter()
            .map(|object| served(client, object.name_any())),
    )
    .await
    .map(drop)
}

/// Waits until the API server serves a definition.
async fn served(client: &Client, name: String) -> Result<()> {
    until(&format!("{name} to be served"), PATIENCE, async || {
        let is_served = is_served(client, &name).await?;
        Ok(is_served
            .then_some(())
            .ok_or_else(|| "it is not".to_owned()))
    })
    .await
}

/// Whether a definition is established, and each of its served versions is found and listed by
/// clients.
async fn is_served(client: &Client, name: &str) -> Result<bool> {
    let definition = Api::<CustomResourceDefinition>::all(client.clone())
        .get(name)
        .await?;
    let status = definition.status.unwrap_or_default();
    let is_established = status
        .conditions
        .iter()
        .flatten()
        .any(|condition| condition.type_ == "Established" && condition.status == "True");
    if !is_established {
        return Ok(false);
    }
    let spec = definition.spec;
    for version in spec.versions.iter().filter(|version| version.served) {
        let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
        let listed = async {
            let (resource, _) = discovery::pinned_kind(client, &kind).await?;
            let all = Api::<DynamicObject>::all_with(client.clone(), &resource);
            all.list(&ListParams::default().limit(1)).await
        };
        match listed.await {
            Ok(_) => {}
            // The group, or the version, is new: for a while the answer is a text, without a
            // reason. Then its storage is not there yet.
            Err(kube::Error::Api(status)) if [404, 429, 503].contains(&status.code) => {
                return Ok(false);
            }
            Err(kube::Error::Discovery(DiscoveryError::MissingKind(_))) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "files of a test")]
mod tests {
    use super::*;

    #[test]
    fn a_text_may_have_several_objects_or_none() {
        let objects = parse(
            "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n# none\n---\n\
             {\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"b\"}, \"spec\": {}}\n",
        )
        .unwrap();
        let names: Vec<_> = objects.iter().map(DynamicObject::name_any).collect();
        assert_eq!(names, ["a", "b"]);
        parse("- a\n").unwrap_err();
    }

    #[test]
    fn what_would_change_the_objects_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let listing = dir.path().join("kustomization.yaml");
        let begin = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n";
        fs::write(&listing, format!("{begin}resources: [a.yaml]\n")).unwrap();
        fs::write(dir.path().join("a.yaml"), "kind: A\napiVersion: v1\n").unwrap();
        assert_eq!(component(dir.path()).unwrap().len(), 1);

        fs::write(&listing, format!("{begin}resources: []\nnamePrefix: b\n")).unwrap();
        let error = format!("{:#}", component(dir.path()).unwrap_err());
        assert!(error.contains("namePrefix"), "{error}");
    }

    #[test]
    fn the_lab_can_carry_out_what_is_deployed() {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy");
        for name in ["daemon", "controller"] {
            assert!(!component(&deploy.join(name)).unwrap().is_empty());
        }
    }
}
