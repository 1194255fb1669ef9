//! The releases, made of the components' images by `slipway release new`, and signed: each has
//! another OS, and all but the first have other images and one more manifest.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use image_builder::component::{Component, Program, ReleaseRole};
use image_builder::{Architecture, Options, Packing, build_component, push};
use jiff::Timestamp;
use kube::core::{ApiResource, GroupVersionKind};
use observer::release::{ReleaseManifest, ReleaseUpdate};
use release::order::Place;
use release::payload::Files;
use release::references::{References, Tag};
use release::{Payload, REFERENCES_FILE};
use testbed::{Cluster, Programs, ReleaseKey, SignatureServer};

/// Their versions; the demo makes the first two.
pub(crate) const VERSIONS: [&str; 3] = ["1.0.0", "1.0.1", "1.0.2"];

/// A small operator: what its ClusterOperator is named, its run level, and how long it works.
pub(crate) struct SmallOperator {
    pub(crate) name: &'static str,
    run_level: &'static str,
    work_secs: u8,
}

/// All of them.
pub(crate) const OPERATORS: [SmallOperator; 3] = [
    SmallOperator {
        name: "alpha",
        run_level: "20",
        work_secs: 5,
    },
    SmallOperator {
        name: "beta",
        run_level: "50",
        work_secs: 4,
    },
    SmallOperator {
        name: "gamma",
        run_level: "50",
        work_secs: 8,
    },
];

/// Image of the small operators. Its program lies beside this one.
const OPERATOR: Component = Component {
    name: "demo-operator",
    title: "A small operator of a demo",
    programs: &[Program {
        name: "demo-operator",
        cargo: &["-p", "demo"],
    }],
    scripts: &[],
    packages: &["gcc-12-base", "libc6", "libgcc-s1"],
    links: &[],
    user: "65532:65532",
    manifests: &[],
    role: ReleaseRole::Operator,
    references: &[],
};

const MANIFESTS: &str = include_str!("objects/operator.yaml");
const CLUSTER_OPERATOR: &str = include_str!("objects/cluster-operator.yaml");
/// What the first release has not.
const ADDED: &str = include_str!("objects/added.yaml");

/// The version operator's image by the name that releases have for it.
const BASE: (&str, &str) = ("cluster-version-operator", "slipway-cvo");

/// A release in the registry.
#[derive(Debug)]
pub(crate) struct DemoRelease {
    pub(crate) version: &'static str,
    /// Its pull spec.
    pub(crate) image: String,
    payload: Payload,
}

/// The releases, and the server of their signatures.
#[derive(Debug)]
pub(crate) struct Releases {
    pub(crate) first: DemoRelease,
    pub(crate) second: DemoRelease,
    /// Where one was asked for.
    pub(crate) third: Option<DemoRelease>,
    _signatures: SignatureServer,
}

impl Releases {
    /// Makes them. The first has the images that the cluster runs; the OSes are pull specs. There
    /// is a third if it has an OS.
    pub(crate) async fn make(
        cluster: &Cluster,
        programs: &Programs,
        out: &Path,
        [first_os, second_os]: [&str; 2],
        third_os: Option<&str>,
    ) -> Result<Self> {
        let out = out.join("releases");
        fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
        let key = ReleaseKey::make()?;
        let address = cluster.host_lab()?.lab.address();
        let signatures = SignatureServer::start_at(address.into()).await?;
        let maker = Maker {
            cluster,
            programs,
            out,
            key,
            signatures,
        };
        let [one, two, three] = VERSIONS;
        let added = [("0000_90_delta_05_added.yaml", ADDED)];
        let first = maker.make(one, &[], None, first_os, &[]).await?;
        let second = maker
            .make(two, &[one], Some(two), second_os, &added)
            .await?;
        let mut third = None;
        if let Some(os) = third_os {
            let before = [one, two];
            third = Some(maker.make(three, &before, Some(three), os, &added).await?);
        }
        Ok(Self {
            first,
            second,
            third,
            _signatures: maker.signatures,
        })
    }

    /// What the observer judges the update to the second by.
    pub(crate) fn update(&self, start: Timestamp) -> ReleaseUpdate {
        let before: BTreeMap<_, _> = self
            .first
            .payload
            .manifests
            .iter()
            .map(|manifest| (&manifest.id, &manifest.object))
            .collect();
        let manifests = self.second.payload.manifests.iter();
        let manifests = manifests.filter_map(|manifest| {
            let place = Place::of(&manifest.file)?;
            let id = &manifest.id;
            let gvk = GroupVersionKind::gvk(&id.group, &manifest.api_version, &id.kind);
            Some(ReleaseManifest {
                file: manifest.file.clone(),
                run_level: place.run_level.to_owned(),
                component: place.component.to_owned(),
                api_group: id.group.clone(),
                resource: ApiResource::from_gvk(&gvk).plural,
                namespace: id.namespace.clone(),
                name: id.name.clone(),
                is_as_before: before.get(id) == Some(&&manifest.object),
            })
        });
        ReleaseUpdate {
            version: self.second.version.to_owned(),
            image: self.second.image.clone(),
            start,
            manifests: manifests.collect(),
        }
    }
}

impl Releases {
    /// All of them, oldest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &DemoRelease> {
        [&self.first, &self.second].into_iter().chain(&self.third)
    }
}

impl DemoRelease {
    /// Pull specs of all images of the release, its own among them.
    pub(crate) fn images(&self) -> impl Iterator<Item = String> {
        let tags = self.payload.references.tags.values();
        let tags = tags.map(|tag| tag.from.clone());
        tags.chain([self.image.clone()])
    }
}

struct Maker<'a> {
    cluster: &'a Cluster,
    programs: &'a Programs,
    out: PathBuf,
    key: ReleaseKey,
    signatures: SignatureServer,
}

impl Maker<'_> {
    /// Makes and signs a release, to which updates lead from the versions before. Its components'
    /// images are labelled with `label`, or are those that the cluster runs.
    async fn make(
        &self,
        version: &'static str,
        previous: &[&str],
        label: Option<&str>,
        os: &str,
        added: &[(&str, &str)],
    ) -> Result<DemoRelease> {
        let mut images = self.cluster.push_components(label).await?;
        if let Some(image) = images.remove(BASE.1) {
            images.insert(BASE.0, image);
        }
        images.insert("slipway-os", os.to_owned());
        // The names by which scripts ask a release of OpenShift for its OS and its operator.
        images.insert("rhel-coreos", os.to_owned());
        if let Some(operator) = images.get("slipway-mcc").cloned() {
            images.insert("machine-config-operator", operator);
        }
        let operator = self.operator(version, added).await;
        images.insert(
            OPERATOR.name,
            operator.context("image of the small operators")?,
        );
        let registry = self.cluster.host_lab()?.registry.location();
        let place = format!("{registry}/slipway/release:{version}");
        let directory = self.out.join(version);
        let key = self.out.join("demo.asc");
        #[expect(clippy::disallowed_methods, reason = "a run's own file")]
        fs::write(&key, &self.key.public)?;
        #[expect(clippy::disallowed_methods, reason = "the program that makes releases")]
        let output = Command::new(self.programs.path("slipway")?)
            .args([
                "release",
                "new",
                "--insecure",
                "--name",
                version,
                "--to-image",
                &place,
            ])
            .arg("--to-dir")
            .arg(&directory)
            .arg("--verification-key")
            .arg(&key)
            .args(["--verification-store", &self.signatures.address])
            .args(previous.iter().map(|one| format!("--previous={one}")))
            .args(images.iter().map(|(name, image)| format!("{name}={image}")))
            .output()
            .context("cannot run slipway")?;
        ensure!(
            output.status.success(),
            "slipway release new failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let printed = String::from_utf8(output.stdout)?;
        let digest = printed.split(' ').next().unwrap_or_default();
        let digest = digest
            .parse()
            .context("slipway release new printed no digest")?;
        self.signatures.put(&digest, self.key.sign(&digest)?);
        Ok(DemoRelease {
            version,
            image: format!("{registry}/slipway/release@{digest}"),
            payload: Payload::parse(&read(&directory)?)?,
        })
    }

    /// Pushes the image of the small operators, with the manifests of all and some more.
    async fn operator(&self, version: &str, added: &[(&str, &str)]) -> Result<String> {
        let own = std::env::current_exe()?;
        let host_lab = self.cluster.host_lab()?;
        let options = Options {
            checkout: testbed::workspace(),
            architecture: Architecture::Amd64,
            programs: own
                .parent()
                .context("this program is in no folder")?
                .to_owned(),
            packages: lab::cache::dir().join("debian"),
            out: host_lab.lab.dir().join(format!("operator-{version}")),
            version: Some(version.to_owned()),
            packing: Packing::Fast,
            parts: self.programs.parts().clone(),
        };
        let mut files = manifests();
        files.extend(
            added
                .iter()
                .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())),
        );
        let built = build_component(&options, &OPERATOR, Some(files)).await?;
        let prefix = format!("{}/slipway", host_lab.registry.location());
        Ok(push::push(&options.out, &built, &prefix, true)?.to_string())
    }
}

/// Files of the small operators' `/manifests`.
fn manifests() -> Files {
    let mut files = Files::new();
    for SmallOperator {
        name,
        run_level,
        work_secs,
    } in OPERATORS
    {
        let put_in = |text: &str| {
            text.replace("NAME", name)
                .replace("SECONDS", &work_secs.to_string())
                .into_bytes()
        };
        let file = |number: &str, of: &str| format!("0000_{run_level}_{name}_{number}_{of}.yaml");
        files.insert(file("03", "operator"), put_in(MANIFESTS));
        files.insert(file("90", "cluster-operator"), put_in(CLUSTER_OPERATOR));
    }
    let tag = Tag {
        from: OPERATOR.name.to_owned(),
        ..Tag::default()
    };
    let references = References {
        tags: BTreeMap::from([(OPERATOR.name.to_owned(), tag)]),
        ..References::default()
    };
    files.insert(REFERENCES_FILE.to_owned(), references.print());
    files
}

/// Files of a directory, by name.
fn read(directory: &Path) -> Result<Files> {
    let mut files = Files::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        files.insert(name, fs::read(entry.path())?);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_small_operator_is_at_its_run_level_and_comes_before_what_reports_on_it() {
        let files = manifests();
        let parsed = files.iter().filter(|(name, _)| Place::of(name).is_some());
        let mut found = Vec::new();
        for (name, bytes) in parsed {
            let all = release::Manifest::parse(name, bytes).unwrap();
            let place = Place::of(name).unwrap();
            let last = all.last().unwrap();
            found.push(format!(
                "{} {} {} {}",
                place.run_level, place.component, last.id.kind, last.id.name
            ));
            assert!(
                all.iter()
                    .all(|one| !one.raw().contains("NAME") && !one.raw().contains("SECONDS"))
            );
        }
        assert_eq!(
            found,
            [
                "20 alpha Deployment operator",
                "20 alpha ClusterOperator alpha",
                "50 beta Deployment operator",
                "50 beta ClusterOperator beta",
                "50 gamma Deployment operator",
                "50 gamma ClusterOperator gamma",
            ]
        );
    }
}
