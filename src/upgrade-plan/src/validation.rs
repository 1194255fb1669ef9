//! Whether an UpgradeConfig may be followed: values in, a verdict out.
//!
//! Two requests go to servers: [`ConfigVerdict::AskGraph`] to the update service,
//! [`ConfigVerdict::AskImage`] to a registry. Their responses are judged by [`in_graph`] and
//! [`of_image`].

use std::collections::BTreeSet;

use api::config::ClusterVersion;
use api::upgrade::upgrade_config::LONGEST_FORCE_DRAIN_MINUTES;
use api::upgrade::{DesiredRelease, UpgradeConfigSpec};
use release::update_graph::Offers;
use release::{PullSpec, Version};

use crate::commence;
use crate::release_state::current_version;
use crate::schedule::parse_start;

/// What is wrong, with the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct InvalidUpgrade {
    /// Path in the UpgradeConfig.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
}

/// What can be judged without a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigVerdict {
    Valid,
    /// The update service has to offer this version to that one.
    AskGraph {
        current: Version,
        desired: Version,
    },
    /// A registry has to say which version the image of `spec.desired.image` is.
    AskImage {
        current: Version,
        image: PullSpec,
    },
}

const UPGRADE_AT: &str = "spec.upgradeAt";
const FORCE_DRAIN: &str = "spec.PDBForceDrainTimeout";
const VERSION: &str = "spec.desired.version";
const CHANNEL: &str = "spec.desired.channel";
const IMAGE: &str = "spec.desired.image";

const fn invalid(field: &'static str, why: String) -> InvalidUpgrade {
    InvalidUpgrade { field, why }
}

/// Judges an upgrade. `accepted` are names of risks that do not hold a conditional update;
/// `verifies_graph` has a version of another channel looked up.
///
/// # Errors
/// The first thing that is wrong.
pub fn judge(
    spec: &UpgradeConfigSpec,
    version: &ClusterVersion,
    accepted: &BTreeSet<String>,
    verifies_graph: bool,
) -> Result<ConfigVerdict, InvalidUpgrade> {
    parse_start(&spec.upgrade_at)
        .map_err(|error| invalid(UPGRADE_AT, display::Chain(&error).to_string()))?;
    let minutes = spec.pdb_force_drain_timeout;
    if !(0..=LONGEST_FORCE_DRAIN_MINUTES).contains(&minutes) {
        let why = format!("{minutes} is not between 0 and {LONGEST_FORCE_DRAIN_MINUTES} minutes");
        return Err(invalid(FORCE_DRAIN, why));
    }
    let status = version.status.clone().unwrap_or_default();
    let desired = &spec.desired;
    if desired.image.is_empty() && desired.version.is_empty() {
        let why = "neither it nor spec.desired.image is set".to_owned();
        return Err(invalid(VERSION, why));
    }
    let current = current_version(&status).map_err(|error| invalid(VERSION, error.to_string()))?;
    let current: Version = parse(VERSION, current)?;
    if !desired.image.is_empty() {
        let image = parse_image(&desired.image)?;
        return Ok(ConfigVerdict::AskImage { current, image });
    }
    if desired.channel.is_empty() {
        return Err(invalid(
            CHANNEL,
            "it is not set, but the version is".to_owned(),
        ));
    }
    let wanted: Version = parse(VERSION, &desired.version)?;
    check_direction(VERSION, &wanted, &current)?;
    if desired.channel != version.spec.channel {
        return Ok(if verifies_graph {
            ConfigVerdict::AskGraph {
                current,
                desired: wanted,
            }
        } else {
            // The step that sets it finds out.
            ConfigVerdict::Valid
        });
    }
    if let Some(update) = commence::conditional(&status, &desired.version) {
        return match commence::refusal(update, accepted) {
            Some(why) => Err(invalid(VERSION, why)),
            None => Ok(ConfigVerdict::Valid),
        };
    }
    let mut available = status.available_updates.iter().flatten();
    if available.any(|release| release.version == desired.version) {
        return Ok(ConfigVerdict::Valid);
    }
    let why = format!(
        "version {} not found in clusterversion available or conditional updates",
        desired.version
    );
    Err(invalid(VERSION, why))
}

/// Reads `<registry>/<namespace>/<name>[:tag]@sha256:<hex>`: no registry is guessed.
fn parse_image(image: &str) -> Result<PullSpec, InvalidUpgrade> {
    let parsed: Result<PullSpec, _> = image.parse();
    let parsed = parsed.map_err(|error| invalid(IMAGE, display::Chain(&error).to_string()))?;
    match image.split('/').count() {
        1 | 2 => {
            let why = format!("{image:?} has no registry, namespace and name");
            Err(invalid(IMAGE, why))
        }
        _ => Ok(parsed),
    }
}

/// What is said of an UpgradeConfig that can be followed. It names the image that was read.
pub fn valid_message(desired: &DesiredRelease) -> String {
    const VALID: &str = "the UpgradeConfig can be followed";
    if desired.image.is_empty() {
        return VALID.to_owned();
    }
    format!("{VALID}: {} is version {}", desired.image, desired.version)
}

/// Judges what the update service offers in the desired channel.
///
/// # Errors
/// The version is not among it.
pub fn in_graph(desired: &Version, offers: &Offers) -> Result<(), InvalidUpgrade> {
    let mut offers = offers.offers.iter();
    if offers.any(|offer| offer.version.is_release(desired)) {
        return Ok(());
    }
    let why = format!("cannot find version {desired} in available updates");
    Err(invalid(VERSION, why))
}

/// Judges the version that an image says of itself: its label `io.openshift.release`.
///
/// # Errors
/// It has none, or one that the cluster cannot be upgraded to.
pub fn of_image(label: Option<&str>, current: &Version) -> Result<Version, InvalidUpgrade> {
    let Some(label) = label else {
        let why = "the image has no label io.openshift.release".to_owned();
        return Err(invalid(IMAGE, why));
    };
    let wanted = parse(IMAGE, label)?;
    check_direction(IMAGE, &wanted, current)?;
    Ok(wanted)
}

fn parse(field: &'static str, text: &str) -> Result<Version, InvalidUpgrade> {
    let parsed = text.parse();
    parsed.map_err(|error| invalid(field, display::Chain(&error).to_string()))
}

fn check_direction(
    field: &'static str,
    wanted: &Version,
    current: &Version,
) -> Result<(), InvalidUpgrade> {
    let (wanted, current) = (
        wanted.without_architecture(),
        current.without_architecture(),
    );
    if wanted < current {
        let why = format!("downgrades to desired version {wanted} from {current} are unsupported");
        return Err(invalid(field, why));
    }
    if wanted == current {
        let why = format!("desired version {wanted} matches the current version {current}");
        return Err(invalid(field, why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use api::config::{ConditionalUpdate, ConditionalUpdateRisk};

    use super::*;
    use crate::fixture::{cluster_version, release, spec};

    const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn judged(
        spec: &UpgradeConfigSpec,
        version: &ClusterVersion,
        verifies_graph: bool,
    ) -> Result<ConfigVerdict, InvalidUpgrade> {
        let accepted = BTreeSet::from(["SlowDisk".to_owned()]);
        judge(spec, version, &accepted, verifies_graph)
    }

    #[test]
    fn each_fault_is_named_with_its_field() {
        let image = |text: &str| ("", "", text.to_owned());
        let of = |version: &'static str, channel: &'static str| (version, channel, String::new());
        let table = [
            (of("", ""), "spec.desired.version: neither it nor"),
            (
                of("", "stable-4.16"),
                "spec.desired.version: neither it nor",
            ),
            (of("4.16.4", ""), "spec.desired.channel: it is not set"),
            (
                of("4.16", "stable-4.16"),
                "spec.desired.version: \"4.16\" is no semantic version",
            ),
            (
                of("4.16.2", "stable-4.16"),
                "spec.desired.version: downgrades to desired version 4.16.2 from 4.16.3 are unsupported",
            ),
            (
                of("4.16.3", "stable-4.16"),
                "spec.desired.version: desired version 4.16.3 matches the current version 4.16.3",
            ),
            (
                of("4.16.9", "stable-4.16"),
                "spec.desired.version: version 4.16.9 not found in clusterversion available or \
                 conditional updates",
            ),
            (
                image("q/n/r:latest"),
                "spec.desired.image: \"q/n/r:latest\" names no digest",
            ),
            (image("q/n/r@sha256:12"), "is no pull spec"),
            (
                image(&format!("q/r@{DIGEST}")),
                "has no registry, namespace and name",
            ),
        ];
        for ((wanted, channel, image), expected) in table {
            let mut spec = spec();
            spec.desired.version = wanted.to_owned();
            spec.desired.channel = channel.to_owned();
            spec.desired.image = image;
            let error = judged(&spec, &cluster_version("4.16.3"), false).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        let mut spec = spec();
        spec.upgrade_at = "soon".to_owned();
        let error = judged(&spec, &cluster_version("4.16.3"), false).unwrap_err();
        assert_eq!(error.field, "spec.upgradeAt");
        for minutes in [-1, LONGEST_FORCE_DRAIN_MINUTES + 1] {
            let mut spec = crate::fixture::spec();
            spec.pdb_force_drain_timeout = minutes;
            let error = judged(&spec, &cluster_version("4.16.3"), false).unwrap_err();
            let expected =
                format!("spec.PDBForceDrainTimeout: {minutes} is not between 0 and 527040 minutes");
            assert_eq!(error.to_string(), expected);
        }
        let mut unknown = cluster_version("4.16.3");
        unknown.status = None;
        let error = judged(&crate::fixture::spec(), &unknown, false).unwrap_err();
        assert!(
            error.to_string().ends_with("failed to get current version"),
            "{error}"
        );
    }

    #[test]
    fn available_updates_are_valid_and_conditional_ones_without_open_risks() {
        let mut cluster = cluster_version("4.16.3");
        let mut spec = spec();
        assert_eq!(judged(&spec, &cluster, true), Ok(ConfigVerdict::Valid));
        spec.desired.version = "4.16.8".to_owned();
        assert!(judged(&spec, &cluster, true).is_err());
        let mut with = |risks: &[&str]| {
            let status = cluster.status.as_mut().unwrap();
            let risks = risks.iter().map(|name| ConditionalUpdateRisk {
                url: "https://a".to_owned(),
                name: (*name).to_owned(),
                message: "m".to_owned(),
                matching_rules: Vec::new(),
            });
            status.conditional_updates = vec![ConditionalUpdate {
                release: release("4.16.8"),
                risks: risks.collect(),
                conditions: Vec::new(),
            }];
            judged(&spec, &cluster, true).map_err(|error| error.to_string())
        };
        assert_eq!(with(&["SlowDisk"]), Ok(ConfigVerdict::Valid));
        let open = with(&["SlowDisk", "OldBoot"]).unwrap_err();
        let expected = "spec.desired.version: version 4.16.8 is a conditional update, and \
                        conditionalUpdates.acceptedRisks does not have OldBoot";
        assert_eq!(open, expected);
        assert!(
            with(&[])
                .unwrap_err()
                .ends_with("names no risk which could be accepted")
        );
    }

    #[test]
    fn version_of_another_channel_is_looked_up_if_that_is_asked_for() {
        let mut spec = spec();
        spec.desired.channel = "fast-4.17".to_owned();
        spec.desired.version = "4.17.0".to_owned();
        let cluster = cluster_version("4.16.3");
        assert_eq!(judged(&spec, &cluster, false), Ok(ConfigVerdict::Valid));
        let verdict = ConfigVerdict::AskGraph {
            current: version("4.16.3"),
            desired: version("4.17.0"),
        };
        assert_eq!(judged(&spec, &cluster, true), Ok(verdict));
        let graph = br#"{ "nodes": [
            { "version": "4.16.3", "payload": "q/r@sha256:3" },
            { "version": "4.17.0", "payload": "q/r@sha256:4" }
        ], "edges": [[0, 1]] }"#;
        let graph = release::update_graph::UpdateGraph::parse(graph).unwrap();
        let offers = graph.offers(&version("4.16.3")).unwrap();
        assert_eq!(in_graph(&version("4.17.0"), &offers), Ok(()));
        let error = in_graph(&version("4.17.1"), &offers).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("cannot find version 4.17.1 in available updates")
        );
    }

    #[test]
    fn each_part_of_an_image_is_needed() {
        for (image, expected) in [
            ("q.io/n/r:latest".to_owned(), "names no digest"),
            ("q.io/n/r@sha256:12".to_owned(), "is no pull spec"),
            (format!("n/r@{DIGEST}"), "has no registry"),
            (format!("r@{DIGEST}"), "has no registry"),
            (format!("q.io//r@{DIGEST}"), "is no pull spec"),
            (format!("/n/r@{DIGEST}"), "is no pull spec"),
            (format!("q.io/n/../r@{DIGEST}"), "is no pull spec"),
            (format!("a@b/n/r@{DIGEST}"), "is no pull spec"),
            (format!("q.io/n/r?x@{DIGEST}"), "is no pull spec"),
        ] {
            let why = parse_image(&image).unwrap_err();
            assert!(why.why.contains(expected), "{why}");
        }
        for image in ["q.io:5000/n/r:4.16.4", "q.io/a/b/c"] {
            parse_image(&format!("{image}@{DIGEST}")).unwrap();
        }
    }

    #[test]
    fn image_says_which_version_it_is_and_is_no_way_down() {
        let mut spec = spec();
        spec.desired.image = format!("quay.io/openshift/release@{DIGEST}");
        let verdict = judged(&spec, &cluster_version("4.16.3"), false).unwrap();
        let current = version("4.16.3");
        assert_eq!(
            verdict,
            ConfigVerdict::AskImage {
                current: current.clone(),
                image: spec.desired.image.parse().unwrap(),
            }
        );
        assert_eq!(of_image(Some("4.16.4"), &current), Ok(version("4.16.4")));
        for (label, expected) in [
            (None, "has no label io.openshift.release"),
            (Some("4.16.1"), "downgrades to desired version 4.16.1"),
            (Some("x"), "\"x\" is no semantic version"),
        ] {
            let error = of_image(label, &current).unwrap_err();
            assert_eq!(error.field, "spec.desired.image");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
