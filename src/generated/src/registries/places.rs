//! Where nodes pull an image from.

use release::scope::repository;

use super::mirrors::MirrorTable;
use super::{Error, RegistryFacts};

/// The names by which nodes pull an image that is named by digest, in their order: its mirrors,
/// then the image itself, unless its source is never contacted.
///
/// Source: `containers-registries.conf(5)`, "Remapping and Mirroring".
///
/// # Errors
/// An object of mirrors that is refused.
pub fn pull_places(image: &str, settings: &RegistryFacts<'_>) -> Result<Vec<String>, Error> {
    let table = MirrorTable::read(settings)?;
    let Some((source, mirrors)) = table.of(repository(image)) else {
        return Ok(vec![image.to_owned()]);
    };
    let below = if source.starts_with('*') {
        image.find('/').and_then(|slash| image.get(slash..))
    } else {
        image.strip_prefix(source)
    };
    let below = below.unwrap_or_default();
    let places = mirrors.by_digest().map(|mirror| format!("{mirror}{below}"));
    let source = (!mirrors.is_only_mirrored).then(|| image.to_owned());
    Ok(places.chain(source).collect())
}

#[cfg(test)]
mod tests {
    use api::config::ImageDigestMirrorSet;
    use serde_json::{Value, json};

    use super::*;

    fn places(entries: &Value, image: &str) -> Vec<String> {
        let set: ImageDigestMirrorSet = serde_json::from_value(json!({
            "metadata": { "name": "x" }, "spec": { "imageDigestMirrors": entries }
        }))
        .unwrap();
        let facts = RegistryFacts {
            digest: vec![&set],
            ..RegistryFacts::default()
        };
        pull_places(image, &facts).unwrap()
    }

    #[test]
    fn mirrors_come_before_the_source() {
        let image = "quay.io/a/b@sha256:1";
        let at = |source: &str| json!([{ "source": source, "mirrors": ["m.io/x", "n.io"] }]);
        assert_eq!(
            places(&at("quay.io/a"), image),
            ["m.io/x/b@sha256:1", "n.io/b@sha256:1", image]
        );
        assert_eq!(
            places(&at("quay.io/a/b"), image),
            ["m.io/x@sha256:1", "n.io@sha256:1", image]
        );
        assert_eq!(
            places(&at("*.io"), image),
            ["m.io/x/a/b@sha256:1", "n.io/a/b@sha256:1", image]
        );
        assert_eq!(places(&at("quay.io/ab"), image), [image]);
        assert_eq!(places(&json!([]), image), [image]);
    }

    #[test]
    fn source_that_is_never_contacted_is_no_place() {
        let entries = json!([{
            "source": "quay.io", "mirrors": ["m.io"], "mirrorSourcePolicy": "NeverContactSource"
        }]);
        assert_eq!(places(&entries, "quay.io/a@sha256:1"), ["m.io/a@sha256:1"]);
    }
}
