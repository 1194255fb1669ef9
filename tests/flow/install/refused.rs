//! What speaks against an installation: nothing is applied then.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use testbed::{ApiServer, Printed};

use crate::manifests::{VERSION, no_images, of, write};

/// Names of all objects that an installation could have made.
fn made(server: &ApiServer) -> Result<String> {
    let kinds = "namespaces,customresourcedefinitions,clusterroles";
    server
        .control_plane
        .kubectl(&["get", kinds, "--output=name"])
}

struct Scene {
    server: ApiServer,
    manifests: String,
}

impl Scene {
    fn install(&self, words: &[&str]) -> Result<Printed> {
        let words = ["install", "--timeout=0", "--manifests", &self.manifests]
            .into_iter()
            .chain(words.iter().copied());
        self.server.slipway(&words.collect::<Vec<_>>())
    }

    /// What contradicts itself, what an administrator makes before, and what others bring.
    fn options_and_what_is_missing(&self) -> Result<()> {
        let before = made(&self.server)?;
        self.install(&["--component=machine-config,config-server,managed-upgrade,monitoring"])?.expect(
        1,
        &[
            "ConfigMap openshift-machine-config-operator/machine-config-server: it is not there",
            "Secret openshift-machine-config-operator/machine-config-server-tls: it is not there",
            "managed-upgrade: the API server serves no kind of machine.openshift.io",
            "monitoring: the API server serves no kind of monitoring.coreos.com",
            "nothing was applied",
        ],
    );
        self.install(&["--component=config-server"])?.expect(
            2,
            &["component config-server needs component machine-config"],
        );
        self.install(&["--component=mcd"])?
            .expect(2, &["there is no component \"mcd\": machine-config"]);
        self.install(&["--component=version-operator"])?
            .expect(2, &["component version-operator needs --release"]);
        let digest = format!("registry.example/release@sha256:{}", "0".repeat(64));
        self.install(&["--release", &digest, "--component=machine-config"])?
            .expect(
                2,
                &["--release cannot be used with component machine-config"],
            );
        self.install(&["--release", &digest])?
            .expect(1, &["registry.example/release"]);
        ensure!(made(&self.server)? == before);

        // Both places of the operator's pod name the release.
        let printed = self.server.slipway(&[
            "install",
            "--render",
            "--manifests",
            &self.manifests,
            "--release",
            &digest,
        ])?;
        printed.expect(0, &[&format!("--release-image={digest}")]);
        ensure!(printed.out.matches(&digest).count() == 2, "{}", printed.out);
        Ok(())
    }

    /// A user without rights.
    fn a_user_without_rights(&self) -> Result<()> {
        self.server.control_plane.kubectl(&[
            "create",
            "serviceaccount",
            "guest",
            "--namespace=default",
        ])?;
        let token = self.server.control_plane.kubectl(&[
            "create",
            "token",
            "guest",
            "--namespace=default",
        ])?;
        let guest = self
            .server
            .kubeconfig("guest", &json!({ "token": token.trim() }))?;
        let words = ["install", "--manifests", &self.manifests];
        let denied = testbed::slipway(&guest, &words)?;
        denied.expect(1, &["error: "]);
        self.server.control_plane.kubectl(&[
            "create",
            "clusterrole",
            "reader",
            "--verb=get,list",
            "--resource=*.*",
        ])?;
        self.server.control_plane.kubectl(&[
            "create",
            "clusterrolebinding",
            "reader",
            "--clusterrole=reader",
            "--serviceaccount=default:guest",
        ])?;
        testbed::slipway(&guest, &words)?.expect(
            1,
            &[
                "rights: you may not create namespaces",
                "rights: you may not patch daemonsets.apps in openshift-machine-config-operator",
                "nothing was applied",
            ],
        );

        Ok(())
    }

    /// An operator of OpenShift, of the same name as ours.
    async fn another_operator(&self) -> Result<()> {
        self.server
            .control_plane
            .kubectl(&["create", "namespace", "openshift-cluster-version"])?;
        let before = made(&self.server)?;
        let labels = json!({ "a": "b" });
        let container =
            json!({ "name": "c", "image": "quay.io/other@sha256:1", "args": ["start"] });
        let rival = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "cluster-version-operator", "namespace": "openshift-cluster-version" },
            "spec": {
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
            },
        });
        self.server.apply(&rival.to_string()).await?;
        self.install(&[])?.expect(
            1,
            &[
                "Deployment.apps openshift-cluster-version/cluster-version-operator: it runs \
             quay.io/other@sha256:1, an operator of OpenShift",
                "nothing was applied: 1 requirement is missing",
            ],
        );
        ensure!(made(&self.server)? == before);

        Ok(())
    }

    /// A record that cannot be read is not overwritten.
    fn an_unknown_record(&self) -> Result<()> {
        let before = made(&self.server)?;
        let deleted = [
            "delete",
            "deployment",
            "cluster-version-operator",
            "--namespace=openshift-cluster-version",
        ];
        self.server.control_plane.kubectl(&deleted)?;
        let record = [
            "create",
            "configmap",
            "slipway-install",
            "--namespace=kube-system",
        ];
        self.server.control_plane.kubectl(
            &[
                &record[..],
                &["--from-literal=record.json={\"schema\":7,\"version\":\"9.0.0\"}"],
            ]
            .concat(),
        )?;
        for words in [
            &["install", "--manifests", &self.manifests][..],
            &["uninstall"],
        ] {
            let printed = self.server.slipway(words)?;
            printed.expect(1, &["schema 7", "take the slipway of version 9.0.0"]);
        }
        ensure!(made(&self.server)? == before);
        let record = self.server.control_plane.kubectl(&[
            "get",
            "configmap",
            "slipway-install",
            "--namespace=kube-system",
            "--output=json",
        ])?;
        let record: serde_json::Value = serde_json::from_str(&record).context("the record")?;
        ensure!(record["data"]["record.json"] == "{\"schema\":7,\"version\":\"9.0.0\"}");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn what_speaks_against_an_installation_is_named_and_nothing_is_applied() -> Result<()> {
    let server = ApiServer::start("install", "refused").await?;
    let manifests = write(&server.dir, &of(VERSION, &no_images()?)?)?;
    let scene = Scene {
        server,
        manifests: manifests.display().to_string(),
    };
    scene.options_and_what_is_missing()?;
    scene.a_user_without_rights()?;
    scene.another_operator().await?;
    scene.an_unknown_record()
}
