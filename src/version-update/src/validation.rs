//! What of a ClusterVersion contradicts itself. The release goes on being reconciled beside it.

use api::config::{ClusterVersion, Release, Update};
use http::Uri;
use release::Version;

/// Which release a ClusterVersion asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedRelease {
    /// The one that is applied.
    Own,
    Other(Release),
}

/// Faults of a ClusterVersion, each with its field, and the requested release.
///
/// A desired update with a fault asks for nothing. Source: `docs/reference/cvo.md`, "Choosing a
/// release".
pub fn validate(object: &ClusterVersion, own: &Release) -> (Vec<String>, WantedRelease) {
    let mut faults = Vec::new();
    let mut invalid = |path: &str, value: &str, detail: &str| {
        faults.push(format!("{path}: Invalid value: {value:?}: {detail}"));
    };
    let spec = &object.spec;
    if !is_url_or_empty(&spec.upstream) {
        invalid(
            "spec.upstream",
            &spec.upstream,
            "must be a valid URL or empty",
        );
    }
    if let Err(detail) = check_uuid(&spec.cluster_id) {
        invalid("spec.clusterID", &spec.cluster_id, detail);
    }
    let Some(update) = &spec.desired_update else {
        return (faults, WantedRelease::Own);
    };
    if update.architecture.is_empty() && update.version.is_empty() && update.image.is_empty() {
        if !update.accept_risks.is_empty() {
            // For the advice, ahead of a request.
            return (faults, WantedRelease::Own);
        }
        faults.push(
            "spec.desiredUpdate: Required value: must specify architecture, version, or image"
                .to_owned(),
        );
        return (faults, WantedRelease::Own);
    }
    if !update.version.is_empty()
        && let Err(error) = update.version.parse::<Version>()
    {
        invalid(
            "spec.desiredUpdate.version",
            &update.version,
            &error.to_string(),
        );
        return (faults, WantedRelease::Own);
    }
    match select(object, update, own) {
        Ok(release) if release.image == own.image => (faults, WantedRelease::Own),
        Ok(release) => (faults, WantedRelease::Other(release)),
        Err(detail) => {
            invalid("spec.desiredUpdate.version", &update.version, detail);
            (faults, WantedRelease::Own)
        }
    }
}

/// The release of an update: its image as given, else the one of its version.
pub(crate) fn select(
    object: &ClusterVersion,
    update: &Update,
    own: &Release,
) -> Result<Release, &'static str> {
    if !update.image.is_empty() {
        return Ok(Release {
            version: update.version.clone(),
            image: update.image.clone(),
            ..Release::default()
        });
    }
    let status = object.status.as_ref();
    let matching = status.and_then(|status| status.available_updates.as_ref());
    let matching = matching.into_iter().flatten();
    let mut matching =
        matching.filter(|release| release.version == update.version && !release.image.is_empty());
    match (matching.next(), matching.next()) {
        (Some(release), None) => Ok(release.clone()),
        (Some(_), Some(_)) => {
            Err("there are multiple possible payloads for this version, specify the exact image")
        }
        (None, _) if update.version == own.version => Ok(own.clone()),
        // A version that the cluster had has the image that it had.
        (None, _) => status
            .into_iter()
            .flat_map(|status| &status.history)
            .find(|entry| entry.version == update.version && !entry.image.is_empty())
            .map(|entry| Release {
                version: entry.version.clone(),
                image: entry.image.clone(),
                ..Release::default()
            })
            .ok_or("when image is empty the update must be an available update"),
    }
}

fn is_url_or_empty(text: &str) -> bool {
    text.is_empty() || is_url(text)
}

/// Whether a text is an address with scheme and host.
pub(crate) fn is_url(text: &str) -> bool {
    let is_url = |uri: Uri| uri.scheme().is_some() && uri.host().is_some();
    text.parse().is_ok_and(is_url)
}

/// Whether a text is a UUID of a cluster, or empty; else why not.
pub(crate) fn check_uuid(text: &str) -> Result<(), &'static str> {
    const VARIANT: &str = "must be an RFC4122-variant UUID";
    if text.is_empty() {
        return Ok(());
    }
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let is_hex = groups
        .iter()
        .all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if lengths != [8, 4, 4, 4, 12] || !is_hex {
        return Err(VARIANT);
    }
    let first = |group: usize| groups.get(group).and_then(|group| group.chars().next());
    if !first(3).is_some_and(|digit| "89abAB".contains(digit)) {
        return Err(VARIANT);
    }
    if first(2) == Some('4') {
        Ok(())
    } else {
        Err("must be a version-4 UUID")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "json! makes values")]
    fn check(spec: Value, available: Value) -> (Vec<String>, WantedRelease) {
        let own = Release {
            version: "4.1.0".to_owned(),
            image: "q/own".to_owned(),
            ..Release::default()
        };
        let status = json!({ "availableUpdates": available });
        let object = json!({ "metadata": {}, "spec": spec, "status": status });
        validate(&serde_json::from_value(object).unwrap(), &own)
    }

    #[test]
    fn faults_name_field_and_value() {
        let id = "4f1d3c3e-2b3b-4c8e-9c1d-6a3b1e0f9a11";
        for (spec, expected) in [
            (
                json!({ "clusterID": id, "upstream": "https://a.example/g" }),
                None,
            ),
            (json!({ "clusterID": "" }), None),
            (
                json!({ "upstream": "nonsense" }),
                Some("spec.upstream: Invalid value: \"nonsense\": must be a valid URL or empty"),
            ),
            (
                json!({ "clusterID": "4f1d3c3e" }),
                Some(
                    "spec.clusterID: Invalid value: \"4f1d3c3e\": must be an RFC4122-variant UUID",
                ),
            ),
            (
                json!({ "clusterID": id.replace("-4c", "-1c") }),
                Some(
                    "spec.clusterID: Invalid value: \"4f1d3c3e-2b3b-1c8e-9c1d-6a3b1e0f9a11\": must be a version-4 UUID",
                ),
            ),
            (
                json!({ "desiredUpdate": { "force": true } }),
                Some(
                    "spec.desiredUpdate: Required value: must specify architecture, version, or image",
                ),
            ),
            (
                json!({ "desiredUpdate": { "version": "4" } }),
                Some(
                    "spec.desiredUpdate.version: Invalid value: \"4\": \"4\" is no semantic version",
                ),
            ),
            (
                json!({ "desiredUpdate": { "version": "4.3.0" } }),
                Some(
                    "spec.desiredUpdate.version: Invalid value: \"4.3.0\": when image is empty the update must be an available update",
                ),
            ),
        ] {
            let (faults, request) = check(spec, Value::Null);
            assert_eq!(faults.first().map(String::as_str), expected);
            assert_eq!(request, WantedRelease::Own);
        }
    }

    #[test]
    fn risks_may_be_accepted_ahead_of_a_request() {
        let update = json!({ "acceptRisks": [{ "name": "A" }] });
        let found = check(json!({ "desiredUpdate": update }), Value::Null);
        assert_eq!(found, (vec![], WantedRelease::Own));
    }

    /// A version that only the history has is applied. Row 20 of
    /// `docs/reference/known-weaknesses.md`, "Version operator".
    #[test]
    fn version_of_the_history_has_the_image_that_it_had() {
        let own = Release {
            image: "q/own".to_owned(),
            ..Release::default()
        };
        let entry = json!({ "state": "Completed", "version": "4.0.0", "image": "q/old", "startedTime": "2025-01-01T00:00:00Z", "verified": true });
        let object = json!({ "metadata": {}, "spec": { "desiredUpdate": { "version": "4.0.0" } }, "status": { "history": [entry] } });
        let (faults, wanted) = validate(&serde_json::from_value(object).unwrap(), &own);
        assert_eq!(faults, Vec::<String>::new());
        assert!(matches!(wanted, WantedRelease::Other(release) if release.image == "q/old"));
    }

    #[test]
    fn release_is_the_image_or_the_available_one_of_the_version() {
        let available = json!([{ "version": "4.2.0", "image": "q/two" }]);
        let other = |image: &str, version: &str| {
            WantedRelease::Other(Release {
                version: version.to_owned(),
                image: image.to_owned(),
                ..Release::default()
            })
        };
        for (update, expected) in [
            (json!({ "version": "4.2.0" }), other("q/two", "4.2.0")),
            (json!({ "image": "q/x" }), other("q/x", "")),
            (json!({ "image": "q/own" }), WantedRelease::Own),
            (json!({ "version": "4.1.0" }), WantedRelease::Own),
        ] {
            let (faults, request) = check(json!({ "desiredUpdate": update }), available.clone());
            assert_eq!((faults, request), (vec![], expected));
        }
        let twice =
            json!([{ "version": "4.2.0", "image": "a" }, { "version": "4.2.0", "image": "b" }]);
        let (faults, _) = check(json!({ "desiredUpdate": { "version": "4.2.0" } }), twice);
        assert!(faults[0].contains("multiple possible payloads"));
    }
}
