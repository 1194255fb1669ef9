//! What a host is while certificates of its cluster are brought to it: each file is as it was or as
//! it is to be, and nothing else is touched.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::annotation;
use lab::host::Host;
use serde_json::json;
use testbed::{Cluster, objects};

use super::super::points::TEMPORARY;
use super::End;
use testbed::files::{self, Files, Tree};

/// Directories of certificates below `/etc`.
const DIRECTORIES: [&str; 2] = [
    "kubernetes/static-pod-resources/configmaps/cloud-config",
    "docker/certs.d",
];

/// What may change in `/etc`: files, and the directories of registries that come and go.
const OWN: [&str; 6] = [
    "/kubernetes/kubelet-ca.crt",
    "/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem",
    "/docker/certs.d/zero.test",
    "/docker/certs.d/zero.test/ca.crt",
    "/docker/certs.d/one.test:5000",
    "/docker/certs.d/one.test:5000/ca.crt",
];

/// Where the kubelet's kubeconfig is, in `/var`. What else is there is the kubelet's own.
const KUBELET: &str = "lib/kubelet";

/// Certificates that the cluster rotates on a host.
#[derive(Debug)]
pub(super) struct Rotation {
    /// Version of the ControllerConfig that publishes them.
    version: String,
    before: Seen,
    /// What the host was after each kill.
    seen: Vec<(String, Seen)>,
}

/// What is looked at.
#[derive(Debug, Clone)]
struct Seen {
    etc: Tree,
    /// The kubelet's.
    kubeconfig: Vec<u8>,
}

impl Rotation {
    /// Has the cluster publish others than in the round before.
    pub(super) async fn begin(cluster: &Cluster, node: &str, round: usize) -> Result<Self> {
        let host = cluster.host(node)?;
        for directory in DIRECTORIES {
            fs::create_dir_all(host.etc_of_booted()?.join(directory))?;
        }
        let control_plane = cluster.control_plane();
        let own = String::from_utf8(control_plane.ca_pem().to_vec())?;
        let other = String::from_utf8(control_plane.another_authority()?)?;
        let none = json!({ "metadata": { "annotations": { (annotation::LAST_OBSERVED_SERVER_CA): "false" } } });
        cluster.objects().patch_node(node, &none).await?;
        cluster.publish_authority(&format!("{other}{own}")).await?;
        let registry = if round.is_multiple_of(2) {
            "zero.test"
        } else {
            "one.test..5000"
        };
        let before = Seen::of(host)?;
        let version = cluster
            .rotate_certificates([&other, &other], &[(registry, &other)], true)
            .await?
            .named;
        Ok(Self {
            version,
            before,
            seen: Vec::new(),
        })
    }

    /// Whether nothing is left to do: the Node says that it follows.
    pub(super) fn end_of_lives(&self) -> End {
        let version = self.version.clone();
        Arc::new(move |node| {
            let says = |key| objects::annotation(node, key);
            says(annotation::LAST_SYNCED_CONTROLLER_CONFIG) == version
                && says(annotation::LAST_OBSERVED_SERVER_CA) == "true"
        })
    }

    /// Checks the host after a kill.
    pub(super) fn check(&mut self, host: &Host, killed: &str) -> Result<()> {
        let now = Seen::of(host)?;
        let differences = files::differences("/etc", &now.others(), &self.before.others());
        ensure!(differences.is_empty(), "{}", differences.join("\n  "));
        self.seen.push((killed.to_owned(), now));
        Ok(())
    }

    /// The host follows now: what it was in between was of before or of now, and nothing is left
    /// over.
    pub(super) fn end(&self, host: &Host) -> Result<()> {
        let end = Seen::of(host)?;
        for entry in fs::read_dir(host.var().join(KUBELET))? {
            let name = entry?.file_name();
            let is_left = name.to_string_lossy().ends_with(TEMPORARY);
            ensure!(!is_left, "{} is left over", name.display());
        }
        // The kubelet reads its kubeconfig at its start only.
        let since = [
            "systemctl",
            "show",
            "--timestamp=unix",
            "--value",
            "--property=ExecMainStartTimestamp",
            "kubelet.service",
        ];
        let since: i64 = host.run(since)?.trim().trim_start_matches('@').parse()?;
        let written = fs::metadata(host.var().join(KUBELET).join("kubeconfig"))?.mtime();
        ensure!(since >= written, "the kubelet was not restarted");
        let left = end.etc.keys().find(|path| path.ends_with(TEMPORARY));
        ensure!(
            left.is_none(),
            "/etc{} is left over",
            left.map_or("", String::as_str)
        );
        for (killed, seen) in &self.seen {
            for path in OWN {
                let of = |seen: &Seen| seen.etc.get(path).cloned();
                let is_whole = [of(&self.before), of(&end)].contains(&of(seen));
                ensure!(is_whole, "killed {killed}, /etc{path} was torn");
            }
            let is_whole = [&self.before, &end]
                .iter()
                .any(|whole| whole.kubeconfig == seen.kubeconfig);
            ensure!(is_whole, "killed {killed}, the kubeconfig was torn");
        }
        let [first, ..] = OWN;
        ensure!(
            self.before.etc.get(first) != end.etc.get(first)
                && self.before.kubeconfig != end.kubeconfig,
            "nothing was changed"
        );
        Ok(())
    }
}

impl Seen {
    fn of(host: &Host) -> Result<Self> {
        let kubeconfig = host.var().join(KUBELET).join("kubeconfig");
        Ok(Self {
            etc: files::read(&host.etc_of_booted()?, Files::Whole, &[])?,
            kubeconfig: fs::read(kubeconfig).context("the kubeconfig")?,
        })
    }

    /// What of `/etc` must not change.
    fn others(&self) -> Tree {
        let mut others = self.etc.clone();
        others.retain(|path, _| !OWN.contains(&path.as_str()) && !path.ends_with(TEMPORARY));
        others
    }
}
