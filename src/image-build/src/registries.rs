//! Which registries nodes reach without TLS: the builder, which asks them for images, does so too.

use serde::Deserialize;

/// What is read of `registries.conf`.
///
/// Source: containers-registries.conf(5), version 2.
#[derive(Debug, Default, Deserialize)]
struct Settings {
    #[serde(default)]
    registry: Vec<Registry>,
}

#[derive(Debug, Default, Deserialize)]
struct Registry {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
}

impl Registry {
    /// How much of a repository's name the entry matches; none if it does not.
    fn matched(&self, repository: &str) -> Option<usize> {
        let prefix = if self.prefix.is_empty() {
            &self.location
        } else {
            &self.prefix
        };
        if let Some(suffix) = prefix.strip_prefix('*') {
            let host = repository.split('/').next()?.split(':').next()?;
            return host.ends_with(suffix).then_some(suffix.len());
        }
        let rest = repository.strip_prefix(prefix.as_str())?;
        let is_whole = rest.is_empty() || rest.starts_with(['/', ':', '@']);
        (is_whole && !prefix.is_empty()).then_some(prefix.len())
    }
}

/// Whether settings of pulls take the registry of an image without TLS. Settings that cannot be
/// read take none.
///
/// Shape: `image` is a pull spec or a repository; of several entries the longest prefix counts.
pub fn is_insecure(settings: Option<&str>, image: &str) -> bool {
    let settings = settings.and_then(|text| toml::from_str::<Settings>(text).ok());
    let registries = settings.unwrap_or_default().registry;
    let matching = registries
        .iter()
        .filter_map(|registry| Some((registry.matched(image)?, registry.insecure)));
    matching.max().is_some_and(|(_, insecure)| insecure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_says_whether_a_registry_has_tls() {
        let settings = r#"
            [[registry]]
            location = "plain.example:5000"
            insecure = true
            [[registry]]
            prefix = "plain.example:5000/safe"
            location = "elsewhere.example"
            [[registry]]
            prefix = "*.lab.example"
            insecure = true
        "#;
        for (image, expected) in [
            ("plain.example:5000/os@sha256:0", true),
            ("plain.example:5000/a/os:latest", true),
            ("plain.example:5000/safe/os:latest", false),
            ("plain.example:5000/safer/os:latest", true),
            ("plain.example:50001/os:latest", false),
            ("plain.example/os:latest", false),
            ("a.lab.example:443/os", true),
            ("lab.example/os", false),
            ("quay.io/os", false),
        ] {
            assert_eq!(is_insecure(Some(settings), image), expected, "{image}");
        }
        assert!(!is_insecure(None, "plain.example:5000/os"));
        assert!(!is_insecure(Some("[[registry"), "plain.example:5000/os"));
    }
}
