//! Whether a change of the registries' configuration can break pods that run.
//!
//! Harmless is what only adds places for images named by digest: nothing that was found before is
//! found elsewhere, or not at all.
//!
//! Source: `docs/reference/daemon.md`, "Registries and drains"; containers-registries.conf(5).

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::one_line::one_line;

/// `registries.conf`, as far as it is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Registries {
    #[serde(rename = "unqualified-search-registries")]
    search: Vec<String>,
    #[serde(rename = "registry")]
    entries: Vec<Registry>,
    /// The lists of version 1, which are compared as a whole.
    #[serde(rename = "registries")]
    lists: BTreeMap<String, List>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct List {
    registries: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Registry {
    prefix: String,
    location: String,
    blocked: bool,
    insecure: bool,
    mirror_by_digest_only: bool,
    #[serde(rename = "mirror")]
    mirrors: Vec<Mirror>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Mirror {
    location: String,
    insecure: bool,
    #[serde(rename = "pull-from-mirror")]
    pulled_for: String,
}

/// The configuration is no TOML: the parser's message in one line, without the text.
#[derive(Debug, thiserror::Error)]
#[error("invalid TOML: {0}")]
pub(super) struct InvalidToml(String);

/// Reads the configuration.
///
/// # Errors
/// [`InvalidToml`].
pub(super) fn parse(text: &str) -> Result<Registries, InvalidToml> {
    toml::from_str(text).map_err(|error| InvalidToml(one_line(error.message())))
}

/// Why pods must go before the change; none where it is harmless.
pub(super) fn why_unsafe(old: &Registries, new: &Registries) -> Option<String> {
    let (before, after) = (&old.search, &new.search);
    if !after.starts_with(before) {
        return Some(
            "unqualified-search-registries is no longer what it was, perhaps with more after it"
                .to_owned(),
        );
    }
    if old.lists != new.lists {
        return Some("the lists of version 1 change".to_owned());
    }
    for registry in &old.entries {
        let key = registry.key();
        let Some(now) = new.find(key) else {
            return Some(format!("registry {key:?} is removed"));
        };
        if let Some(why) = now.why_unsafe_after(registry) {
            return Some(format!("registry {key:?}: {why}"));
        }
    }
    for registry in &new.entries {
        let key = registry.key();
        if old.find(key).is_none() && !registry.is_harmless_when_new() {
            return Some(format!(
                "registry {key:?} is added, and not for digests only"
            ));
        }
    }
    None
}

impl Registries {
    fn find(&self, key: &str) -> Option<&Registry> {
        self.entries.iter().find(|registry| registry.key() == key)
    }
}

impl Mirror {
    fn is_for_digests_only(&self) -> bool {
        self.pulled_for == "digest-only"
    }
}

impl Registry {
    /// What a registry is known by: the prefix of the names it serves, or else where it is.
    fn key(&self) -> &str {
        if self.prefix.is_empty() {
            &self.location
        } else {
            &self.prefix
        }
    }

    /// What the mirror says counts for it; the registry's word is for mirrors that say nothing.
    fn is_for_digests_only(&self, mirror: &Mirror) -> bool {
        mirror.is_for_digests_only() || mirror.pulled_for.is_empty() && self.mirror_by_digest_only
    }

    /// Each mirror has to say so itself: what the registry says of all of them does not count when
    /// both are new.
    fn is_harmless_when_new(&self) -> bool {
        let mirrors = self.mirrors.iter().all(Mirror::is_for_digests_only);
        mirrors && !self.blocked && (!self.mirrors.is_empty() || self.mirror_by_digest_only)
    }

    fn why_unsafe_after(&self, old: &Self) -> Option<String> {
        for (member, differs) in [
            ("prefix", self.prefix != old.prefix),
            ("location", self.location != old.location),
            ("blocked", self.blocked != old.blocked),
            ("insecure", self.insecure != old.insecure),
        ] {
            if differs {
                return Some(format!("{member} changes"));
            }
        }
        for mirror in &old.mirrors {
            let location = &mirror.location;
            let Some(now) = self.mirrors.iter().find(|now| now.location == *location) else {
                return Some(format!("mirror {location:?} is removed"));
            };
            if now.insecure != mirror.insecure {
                return Some(format!("mirror {location:?}: insecure changes"));
            }
            let was = old.is_for_digests_only(mirror);
            let changes = now.pulled_for != mirror.pulled_for;
            if !self.is_for_digests_only(now) && (changes || was) {
                return Some(format!("mirror {location:?}: pull-from-mirror changes"));
            }
        }
        let known = |mirror: &&Mirror| {
            old.mirrors
                .iter()
                .any(|was| was.location == mirror.location)
        };
        let added = self
            .mirrors
            .iter()
            .find(|mirror| !known(mirror) && !self.is_for_digests_only(mirror));
        added.map(|mirror| {
            format!(
                "mirror {:?} is added, and not for digests only",
                mirror.location
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = r#"
        unqualified-search-registries = ["a.io", "b.io"]
        [[registry]]
        prefix = "quay.io/x"
        location = "quay.io/x"
        [[registry.mirror]]
        location = "mirror.io/x"
        pull-from-mirror = "digest-only"
        [[registry.mirror]]
        location = "tags.io/x"
        pull-from-mirror = "tag-only"
    "#;

    fn why(old: &str, new: &str) -> Option<String> {
        why_unsafe(&parse(old).unwrap(), &parse(new).unwrap())
    }

    #[test]
    fn what_only_adds_places_for_digests_is_harmless() {
        let digests =
            "[[registry.mirror]]\nlocation = \"new.io/x\"\npull-from-mirror = \"digest-only\"\n";
        let new = "[[registry]]\nlocation = \"new.io\"\n[[registry.mirror]]\nlocation = \"m.io\"\n";
        for now in [
            BASE.to_owned(),
            BASE.replace("\"b.io\"]", "\"b.io\", \"c.io\"]"),
            format!("{BASE}{digests}"),
            BASE.replace("tag-only", "digest-only"),
            format!("{BASE}{new}pull-from-mirror = \"digest-only\"\n"),
            format!("{BASE}[[registry]]\nlocation = \"n\"\nmirror-by-digest-only = true\n"),
        ] {
            assert_eq!(why(BASE, &now), None, "{now}");
        }
    }

    #[test]
    fn all_else_needs_a_drain_and_says_why() {
        let new = "[[registry]]\nlocation = \"new.io\"\n";
        for (now, said) in [
            (
                format!("{BASE}[registries.block]\nregistries = [\"c.io\"]\n"),
                "the lists of version 1 change",
            ),
            (
                BASE.replace(", \"b.io\"", ""),
                "unqualified-search-registries is no longer what it was, perhaps with more after it",
            ),
            (
                BASE.replace("\"a.io\", \"b.io\"", "\"b.io\", \"a.io\""),
                "unqualified-search-registries is no longer what it was, perhaps with more after it",
            ),
            (
                BASE.replace("prefix = \"quay.io/x\"", "prefix = \"q\""),
                "registry \"quay.io/x\" is removed",
            ),
            (
                BASE.replace("location = \"quay.io/x\"", "location = \"q\""),
                "registry \"quay.io/x\": location changes",
            ),
            (
                BASE.replace(
                    "location = \"quay.io/x\"",
                    "location = \"quay.io/x\"\nblocked = true",
                ),
                "registry \"quay.io/x\": blocked changes",
            ),
            (
                BASE.replace(
                    "location = \"quay.io/x\"",
                    "location = \"quay.io/x\"\ninsecure = true",
                ),
                "registry \"quay.io/x\": insecure changes",
            ),
            (
                BASE.replace("mirror.io/x", "other.io/x"),
                "registry \"quay.io/x\": mirror \"mirror.io/x\" is removed",
            ),
            (
                BASE.replace("digest-only", "all"),
                "registry \"quay.io/x\": mirror \"mirror.io/x\": pull-from-mirror changes",
            ),
            (
                format!("{BASE}[[registry.mirror]]\nlocation = \"new.io/x\"\n"),
                "registry \"quay.io/x\": mirror \"new.io/x\" is added, and not for digests only",
            ),
            (
                format!("{BASE}{new}"),
                "registry \"new.io\" is added, and not for digests only",
            ),
            // A mirror that serves tags does so whatever is said of its registry.
            (
                format!(
                    "{BASE}{new}mirror-by-digest-only = true\n\
                     [[registry.mirror]]\nlocation = \"m.io\"\npull-from-mirror = \"tag-only\"\n"
                ),
                "registry \"new.io\" is added, and not for digests only",
            ),
            (
                format!(
                    "{BASE}{new}mirror-by-digest-only = true\n\
                     [[registry.mirror]]\nlocation = \"m.io\"\n"
                ),
                "registry \"new.io\" is added, and not for digests only",
            ),
            (
                format!("{BASE}{new}blocked = true\nmirror-by-digest-only = true\n"),
                "registry \"new.io\" is added, and not for digests only",
            ),
        ] {
            assert_eq!(why(BASE, &now).as_deref(), Some(said));
        }
    }

    #[test]
    fn a_registry_that_stops_being_for_digests_needs_a_drain() {
        let old = "[[registry]]\nlocation = \"a\"\nmirror-by-digest-only = true\n[[registry.mirror]]\nlocation = \"m\"\n";
        let new = old.replace("mirror-by-digest-only = true\n", "");
        assert_eq!(
            why(old, &new).as_deref(),
            Some("registry \"a\": mirror \"m\": pull-from-mirror changes")
        );
        assert_eq!(why(&new, old), None);
    }
}
