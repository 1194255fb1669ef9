//! A release that a user names by its version, or not at all.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, anyhow};
use images::ImageLocation;
use release::Version;
use release::update_graph::UpdateGraph;

use crate::cluster_version;
use crate::decide::object::{ClusterObject, text};
use crate::kubeconfig::ClusterArgs;
use crate::output::warn;
use crate::update_service::{self, ServiceArgs};

/// Kinds of channels that a version is looked for in, in this order.
const CHANNELS: [&str; 3] = ["fast", "stable", "candidate"];

/// A release's image, or its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseName {
    Image(ImageLocation),
    Version(Version),
}

impl FromStr for ReleaseName {
    type Err = images::location::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(version) => Ok(Self::Version(version)),
            Err(_) => text.parse().map(Self::Image),
        }
    }
}

impl fmt::Display for ReleaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(location) => location.fmt(f),
            Self::Version(version) => version.fmt(f),
        }
    }
}

/// Where the images of releases are found.
#[derive(Debug)]
pub(crate) struct ReleaseLookup<'a> {
    pub(crate) cluster: &'a ClusterArgs,
    pub(crate) service: &'a ServiceArgs,
}

impl ReleaseLookup<'_> {
    /// The image of a release. Without a name it is the one that the cluster is to run. A version
    /// is looked for in the cluster, if there is one, then in channels of the update service.
    ///
    /// # Errors
    /// There is no cluster, or none of them knows the version.
    pub(crate) async fn locate(&self, name: Option<&ReleaseName>) -> anyhow::Result<ImageLocation> {
        let wanted = match name {
            Some(ReleaseName::Image(location)) => return Ok(location.clone()),
            Some(ReleaseName::Version(version)) => version,
            None => {
                let version = cluster_version::read(&self.cluster.access()?).await?;
                let image = version.text("/status/desired/image");
                return image
                    .parse()
                    .context("ClusterVersion version: status.desired.image");
            }
        };
        if self.cluster.is_there() {
            match self.in_cluster(wanted).await {
                Ok(Some(image)) => return Ok(image),
                Ok(None) => {}
                Err(error) => warn(&format!(
                    "{wanted} is not looked for in the cluster: {error:#}"
                )),
            }
        }
        self.in_channels(wanted).await
    }

    async fn in_cluster(&self, wanted: &Version) -> anyhow::Result<Option<ImageLocation>> {
        let version = cluster_version::read(&self.cluster.access()?).await?;
        let image = known_image(&version, &wanted.to_string());
        let parsed = image.map(|image| {
            let context = || format!("ClusterVersion version: image {image:?} of {wanted}");
            image.parse().with_context(context)
        });
        parsed.transpose()
    }

    async fn in_channels(&self, wanted: &Version) -> anyhow::Result<ImageLocation> {
        let service = self.service.address(self.cluster).await?;
        let (major, minor) = wanted.minor();
        let channels = CHANNELS.map(|kind| format!("{kind}-{major}.{minor}"));
        for channel in &channels {
            let (url, bytes) = update_service::read(&service, channel, self.service).await?;
            let graph = UpdateGraph::parse(&bytes).with_context(|| format!("answer of {url}"))?;
            if let Some(node) = graph.nodes.get(wanted) {
                let context = || format!("answer of {url}: payload of {wanted}");
                return node.payload.parse().with_context(context);
            }
        }
        Err(anyhow!(
            "no channel of {service} has release {wanted}: looked in {}",
            channels.join(", ")
        ))
    }
}

/// The image of a version that ClusterVersion knows: the desired one, an update, or an earlier one.
fn known_image<'a>(version: &'a ClusterObject, wanted: &str) -> Option<&'a str> {
    let desired = version.0.pointer("/status/desired");
    let updates = version.list("/status/availableUpdates").iter();
    let conditional = version.list("/status/conditionalUpdates").iter();
    let conditional = conditional.filter_map(|update| update.get("release"));
    let history = version.list("/status/history").iter();
    let mut releases = desired
        .into_iter()
        .chain(updates)
        .chain(conditional)
        .chain(history);
    let found = releases.find(|release| text(release, "/version") == wanted)?;
    Some(text(found, "/image")).filter(|image| !image.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::update_service::fixture::{response, service};

    #[test]
    fn a_version_is_no_image() {
        let version = ReleaseName::from_str("4.18.9-rc.1").unwrap();
        assert_eq!(
            version,
            ReleaseName::Version("4.18.9-rc.1".parse().unwrap())
        );
        for image in ["registry.example/release:4.18.9", "oci:directory"] {
            let named = ReleaseName::from_str(image).unwrap();
            assert_eq!(named, ReleaseName::Image(image.parse().unwrap()));
        }
        ReleaseName::from_str("Not An Image").unwrap_err();
    }

    #[test]
    fn a_version_is_found_wherever_the_cluster_knows_it() {
        let release = |version: &str, image: &str| json!({"version": version, "image": image});
        let version = ClusterObject(json!({"status": {
            "desired": release("4.2.0", "desired"),
            "availableUpdates": [release("4.2.1", "update")],
            "conditionalUpdates": [{"release": release("4.3.0", "conditional")}],
            "history": [release("4.2.0", "newest"), release("4.1.0", "first"), release("4.0.0", "")],
        }}));
        for (wanted, image) in [
            ("4.2.0", Some("desired")),
            ("4.2.1", Some("update")),
            ("4.3.0", Some("conditional")),
            ("4.1.0", Some("first")),
            ("4.0.0", None),
            ("4.4.0", None),
        ] {
            assert_eq!(known_image(&version, wanted), image, "{wanted}");
        }
    }

    #[tokio::test]
    async fn a_version_is_looked_for_in_channels_in_turn() {
        let graph =
            r#"{"version":1,"nodes":[{"version":"4.18.1","payload":"q.example/r:1"}],"edges":[]}"#;
        let locate = async |address: String, version: &str| {
            let lookup = ReleaseLookup {
                cluster: &ClusterArgs {
                    kubeconfig: None,
                    output: None,
                },
                service: &ServiceArgs {
                    upstream: Some(address),
                    certificate_authority: None,
                    arch: "arm64".to_owned(),
                },
            };
            let version = version.parse().unwrap();
            lookup.in_channels(&version).await
        };
        let (address, served) = service(response("200 OK", graph), 1);
        let image = locate(address, "4.18.1").await.unwrap();
        assert_eq!(image, "q.example/r:1".parse().unwrap());
        let lines = served.join().unwrap();
        let line = |channel: &str| format!("GET /api/graph?arch=arm64&channel={channel} HTTP/1.1");
        assert_eq!(lines, [line("fast-4.18")]);

        let (address, served) = service(response("200 OK", graph), 3);
        let error = locate(address.clone(), "4.18.2").await.unwrap_err();
        let channels = ["fast-4.18", "stable-4.18", "candidate-4.18"];
        let expected = format!(
            "no channel of {address} has release 4.18.2: looked in {}",
            channels.join(", ")
        );
        assert_eq!(error.to_string(), expected);
        assert_eq!(served.join().unwrap(), channels.map(line));
    }
}
