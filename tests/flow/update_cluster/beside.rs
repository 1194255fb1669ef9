//! A release without keyrings: whose signatures count says its ClusterImagePolicy, and they lie
//! beside the image at the mirror that nodes pull from.

use anyhow::{Context as _, Result};
use images::{Credentials, ImageLocation, Stores};
use lab::manifest;
use prebuilt::skopeo;
use release::claim::Claim;
use release::image_policy::{FILE, ImageKey};
use release::{ImageDigest, verification};
use serde_json::json;
use signatures::sigstore::{SigstoreSigner, beside};
use testbed::workspace;

use crate::env::{Cluster, IMAGE, VERSION};
use crate::release::{ReleaseTree, write};

/// The repository that images are named by; nothing but a mirror has it.
const SOURCE: &str = "nowhere.invalid/ocp";

/// A key of cosign's form, made by skopeo.
fn signer(directory: &std::path::Path, name: &str) -> Result<SigstoreSigner> {
    let password = directory.join("password");
    std::fs::write(&password, "a password\n")?;
    let prefix = directory.join(name);
    let mut command = std::process::Command::new(skopeo::find()?);
    command
        .arg("generate-sigstore-key")
        .arg("--output-prefix")
        .arg(&prefix);
    command.arg("--passphrase-file").arg(&password);
    anyhow::ensure!(command.output()?.status.success(), "no key {name}");
    let bytes = std::fs::read(prefix.with_extension("private"))?;
    Ok(SigstoreSigner::parse(&bytes, "a password")?)
}

/// Puts a signature beside an image at the mirror, under its name at the source.
async fn sign(signer: &SigstoreSigner, mirror: &str, digest: &ImageDigest) -> Result<()> {
    let stores = Stores::new(Credentials::default(), true);
    let place: ImageLocation = format!("{mirror}@{digest}").parse()?;
    let claim = Claim {
        digest: digest.clone(),
        reference: format!("{SOURCE}:x"),
        creator: None,
        timestamp_secs: None,
    };
    let signature = signer.sign(&claim)?;
    beside::add(&stores, &place, digest, &signature).await?;
    Ok(())
}

/// The same release, trusted by a policy in the place of keyrings.
fn by_policy(mut files: ReleaseTree, key: &SigstoreSigner) -> Result<ReleaseTree> {
    files.remove(&format!("release-manifests/{}", verification::FILE));
    let policy = ImageKey {
        key: key.public_key().into_bytes(),
        scopes: vec![SOURCE.to_owned()],
    };
    let text = String::from_utf8(policy.print())?;
    files.insert(format!("release-manifests/{FILE}"), text);
    Ok(files)
}

/// Says that images of the source lie at a mirror, which speaks plain HTTP.
async fn mirrored(cluster: &Cluster, registry: &str, mirror: &str) -> Result<()> {
    let client = cluster.control_plane.client().await?;
    let crds = "deploy/openshift/crds/0000_10_config-operator_01_clusterimagepolicies.crd.yaml";
    manifest::define(&client, &workspace().join(crds)).await?;
    let objects = json!({ "kind": "List", "apiVersion": "v1", "items": [
        {
            "apiVersion": "config.openshift.io/v1", "kind": "Image",
            "metadata": { "name": "cluster" },
            "spec": { "registrySources": { "insecureRegistries": [registry] } }
        },
        {
            "apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet",
            "metadata": { "name": "ocp" },
            "spec": { "imageDigestMirrors": [{
                "source": SOURCE, "mirrors": [mirror], "mirrorSourcePolicy": "NeverContactSource"
            }] }
        }
    ] });
    let file = cluster.dir.join("mirrors.json");
    std::fs::write(&file, objects.to_string())?;
    let file = file.to_str().context("a path of text")?;
    cluster
        .control_plane
        .kubectl(&["apply", "-f", file])
        .map(drop)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, docker-registry and the control-plane binary"]
async fn release_is_trusted_by_signatures_beside_it_at_its_mirror() -> Result<()> {
    let cluster = Cluster::start("beside").await?;
    let key = signer(&cluster.dir, "cosign")?;
    let foreign = signer(&cluster.dir, "foreign")?;
    let own = by_policy(cluster.release(VERSION)?, &key)?;
    let keyrings = format!("release-manifests/{}", verification::FILE);
    std::fs::remove_file(cluster.payload().join(keyrings))?;
    write(&own, &cluster.payload())?;
    let mirror = format!("{}/mirror", cluster.registry());
    mirrored(&cluster, &cluster.registry(), &mirror).await?;
    let process = cluster.settle().await?;

    // Another image of the release, which nodes pull from the mirror, too.
    let mut files = by_policy(cluster.release("4.2.1")?, &key)?;
    let (_, component) = cluster.push("mirror", &cluster.release("4.2.9")?).await?;
    let references = json!({
        "kind": "ImageStream", "apiVersion": "image.openshift.io/v1",
        "metadata": { "name": "4.2.1" },
        "spec": { "tags": [{
            "name": "alpha",
            "from": { "kind": "DockerImage", "name": format!("{SOURCE}@{component}") }
        }] }
    });
    let path = "release-manifests/image-references".to_owned();
    files.insert(path, references.to_string());
    let (_, digest) = cluster.push("mirror", &files).await?;
    let image = format!("{SOURCE}@{digest}");
    let accepted = "ReleaseAccepted";

    cluster
        .ask(json!({ "version": "4.2.1", "image": image }))
        .await?;
    let message = cluster
        .until_condition(accepted, "The update cannot be verified")
        .await?;
    for expected in [
        "False RetrievePayload: Retrieving payload failed version=\"4.2.1\"",
        &format!("unable to verify {digest} of {image} against ClusterImagePolicy openshift"),
        &format!("{mirror}:sha256-{}.sig: none", digest.hex()),
    ] {
        assert!(message.contains(expected), "{message}");
    }
    sign(&foreign, &mirror, &digest).await?;
    cluster
        .until_condition(accepted, "signature 1: it is not signed by key")
        .await?;
    sign(&key, &mirror, &digest).await?;

    // Retrieved as nodes do: by a Job. Its other image has no signature, which nodes would need.
    let (name, root) = cluster.job().await?;
    write(&files, &root)?;
    cluster.complete(&name).await?;
    let message = cluster
        .until_condition(accepted, "PreconditionChecks")
        .await?;
    for expected in [
        "Precondition \"ClusterVersionImageSignatures\" failed because of \"ImagesUnsigned\"",
        "nodes would not pull 1 of its images: alpha: unable to verify",
        &format!("{mirror}:sha256-{}.sig: none", component.hex()),
    ] {
        assert!(message.contains(expected), "{message}");
    }
    cluster.until_reconciled(VERSION).await?;
    cluster.until_own_image(IMAGE).await?;
    sign(&key, &mirror, &component).await?;
    cluster.until_own_image(&image).await?;
    let status = cluster.status().await?;
    let head = status.history.first().context("a history")?;
    assert_eq!(
        (head.version.as_str(), head.verified),
        ("4.2.1", true),
        "{head:?}"
    );
    drop(process);
    Ok(())
}
