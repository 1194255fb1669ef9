//! Whether a file that says how images are pulled can be used.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, Deserializer, IgnoredAny};
use serde::{Deserialize, de::DeserializeOwned};
use toml::Spanned;

use super::{CREDENTIALS, POLICY, REGISTRIES_DROPINS, name_below};
use crate::disruption::REGISTRIES;
use crate::one_line::one_line;

/// Whether a file can be used. Files that say nothing of pulls always can.
///
/// # Errors
/// A sentence that begins with the path and, where it is known, the line. It holds no secret.
pub fn check(path: &str, bytes: &[u8]) -> Result<(), String> {
    let is_dropin =
        || name_below(path, REGISTRIES_DROPINS).is_some_and(|name| has_extension(name, "conf"));
    let checked = if path == REGISTRIES {
        check_registries(bytes, VersionOne::Allowed)
    } else if is_dropin() {
        check_registries(bytes, VersionOne::Refused)
    } else if path == POLICY {
        check_policy(bytes)
    } else if CREDENTIALS.contains(&path) {
        check_credentials(bytes)
    } else {
        Ok(())
    };
    checked.map_err(|Fault { line, why }| match line {
        Some(line) => format!("{path}, line {line}: {why}"),
        None => format!("{path}: {why}"),
    })
}

fn has_extension(name: &str, wanted: &str) -> bool {
    let extension = Path::new(name).extension();
    extension.is_some_and(|extension| extension == wanted)
}

struct Fault {
    line: Option<usize>,
    why: String,
}

/// Whether lists of version 1 may be in a file: in a drop-in they may not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VersionOne {
    Allowed,
    Refused,
}

/// `registries.conf`, as far as it is checked.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Registries {
    #[serde(default, rename = "registry")]
    entries: Vec<Spanned<Registry>>,
    #[serde(default)]
    short_name_mode: Option<Spanned<String>>,
    #[serde(default, rename = "unqualified-search-registries")]
    search: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    credential_helpers: Option<IgnoredAny>,
    #[serde(default)]
    aliases: Option<IgnoredAny>,
    /// Those of version 1.
    #[serde(default, rename = "registries")]
    lists: Lists,
}

/// The tables of version 1.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Lists {
    search: List,
    insecure: List,
    block: List,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct List {
    registries: Option<Spanned<Vec<String>>>,
}

impl Registries {
    /// Whether it has a member of version 2.
    const fn is_version_2(&self) -> bool {
        !self.entries.is_empty()
            || self.short_name_mode.is_some()
            || self.search.is_some()
            || self.credential_helpers.is_some()
            || self.aliases.is_some()
    }
}

impl Lists {
    /// Where the first list begins that has an entry.
    fn start(&self) -> Option<usize> {
        let lists = [&self.search, &self.insecure, &self.block].into_iter();
        let filled = lists
            .filter_map(|list| list.registries.as_ref())
            .filter(|list| !list.get_ref().is_empty());
        filled.map(|list| list.span().start).min()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Registry {
    #[serde(default)]
    prefix: Option<Spanned<String>>,
    #[serde(default)]
    location: Option<Spanned<String>>,
    #[serde(default)]
    pull_from_mirror: Option<Spanned<String>>,
    #[serde(default)]
    mirror_by_digest_only: bool,
    #[serde(default, rename = "mirror")]
    mirrors: Vec<Spanned<Mirror>>,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    insecure: bool,
}

impl Registry {
    fn prefix(&self) -> &str {
        let prefix = self.prefix.as_ref();
        prefix.map_or("", |prefix| prefix.get_ref().trim_end_matches('/'))
    }

    /// What image tools compare registries by: where they are, or else which names they serve.
    fn key(&self) -> &str {
        let location = self.location.as_ref();
        let location = location.map_or("", |location| location.get_ref().trim_end_matches('/'));
        if location.is_empty() {
            self.prefix()
        } else {
            location
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Mirror {
    #[serde(default)]
    location: Option<Spanned<String>>,
    #[serde(default, rename = "pull-from-mirror")]
    pulls: Option<Spanned<String>>,
    #[serde(default, rename = "insecure")]
    _insecure: bool,
}

/// A fault at a byte of the text.
type FaultAt = (usize, String);

fn check_registries(bytes: &[u8], version_1: VersionOne) -> Result<(), Fault> {
    let text = std::str::from_utf8(bytes).map_err(|error| Fault {
        line: Some(line_at(bytes, error.valid_up_to())),
        why: "it is not UTF-8".to_owned(),
    })?;
    let read: Registries = toml::from_str(text).map_err(|error| Fault {
        line: error.span().map(|span| line_at(bytes, span.start)),
        why: format!("invalid TOML: {}", one_line(error.message())),
    })?;
    check_settings(&read, version_1).map_err(|(offset, why)| Fault {
        line: Some(line_at(bytes, offset)),
        why,
    })
}

fn check_settings(read: &Registries, version_1: VersionOne) -> Result<(), FaultAt> {
    if let Some(start) = read.lists.start() {
        let why = if version_1 == VersionOne::Refused {
            "a drop-in has lists of version 1 (registries.search, registries.insecure, \
             registries.block): it needs version 2"
        } else {
            "lists of version 1 (registries.search, registries.insecure, registries.block) are \
             mixed with settings of version 2"
        };
        if version_1 == VersionOne::Refused || read.is_version_2() {
            return Err((start, why.to_owned()));
        }
    }
    for name in read.search.iter().flatten() {
        check_location("an entry of unqualified-search-registries", name)?;
    }
    for (number, registry) in read.entries.iter().enumerate() {
        check_registry(registry)?;
        let start = registry.span().start;
        let registry = registry.get_ref();
        let before = read.entries.iter().take(number).map(Spanned::get_ref);
        for other in before.filter(|other| other.key() == registry.key()) {
            for (member, differs) in [
                ("insecure", other.insecure != registry.insecure),
                ("blocked", other.blocked != registry.blocked),
            ] {
                if differs {
                    let key = registry.key();
                    let why = format!("registry {key:?} is there before with another {member}");
                    return Err((start, why));
                }
            }
        }
    }
    if let Some(mode) = &read.short_name_mode {
        let word = mode.get_ref().as_str();
        if !["", "enforcing", "permissive", "disabled"].contains(&word) {
            let why = format!("short-name-mode is {word:?}, not enforcing, permissive or disabled");
            return Err((mode.span().start, why));
        }
    }
    Ok(())
}

fn check_registry(registry: &Spanned<Registry>) -> Result<(), FaultAt> {
    let start = registry.span().start;
    let registry = registry.get_ref();
    if let Some(prefix) = &registry.prefix {
        check_prefix(prefix)?;
    }
    if let Some(pulls) = &registry.pull_from_mirror
        && !pulls.get_ref().is_empty()
    {
        let why = "a registry has pull-from-mirror, which is a setting of its mirrors";
        return Err((pulls.span().start, why.to_owned()));
    }
    match &registry.location {
        Some(location) => check_location("the location of a registry", location)?,
        None if registry.prefix().is_empty() => {
            return Err((
                start,
                "a registry has neither prefix nor location".to_owned(),
            ));
        }
        None if !registry.prefix().starts_with("*.") => {
            let why = format!(
                "registry {:?} has no location, which only a prefix such as *.example.com allows",
                registry.prefix()
            );
            return Err((start, why));
        }
        None => {}
    }
    for mirror in &registry.mirrors {
        check_mirror(mirror, registry.mirror_by_digest_only)?;
    }
    Ok(())
}

fn check_mirror(mirror: &Spanned<Mirror>, by_digest_only: bool) -> Result<(), FaultAt> {
    let start = mirror.span().start;
    let mirror = mirror.get_ref();
    let Some(location) = &mirror.location else {
        return Err((start, "a mirror has no location".to_owned()));
    };
    check_location("the location of a mirror", location)?;
    let Some(pulled_for) = &mirror.pulls else {
        return Ok(());
    };
    let start = pulled_for.span().start;
    let word = pulled_for.get_ref().as_str();
    if !["", "all", "digest-only", "tag-only"].contains(&word) {
        let why = format!("pull-from-mirror is {word:?}, not all, digest-only or tag-only");
        return Err((start, why));
    }
    if !word.is_empty() && by_digest_only {
        let why = "a mirror has pull-from-mirror, and its registry mirror-by-digest-only";
        return Err((start, why.to_owned()));
    }
    Ok(())
}

/// A wildcard serves the names of hosts: image tools compare no more with it.
fn check_prefix(prefix: &Spanned<String>) -> Result<(), FaultAt> {
    let text = prefix.get_ref().trim_end_matches('/');
    let fault = if text.contains("://") {
        "it must not begin with a scheme"
    } else if text.starts_with("*.") && text.contains(['/', '@', ':']) {
        "a wildcard is followed by the name of a host alone, without /, @ or :"
    } else {
        return Ok(());
    };
    let why = format!("the prefix of a registry is {text:?}: {fault}");
    Err((prefix.span().start, why))
}

fn check_location(what: &str, location: &Spanned<String>) -> Result<(), FaultAt> {
    let text = location.get_ref().trim_end_matches('/');
    let fault = if text.is_empty() {
        "is empty".to_owned()
    } else if text.contains("://") {
        format!("is {text:?}: it must not begin with a scheme")
    } else if text.contains(char::is_whitespace) {
        format!("is {text:?}, which has blanks")
    } else {
        return Ok(());
    };
    Err((location.span().start, format!("{what} {fault}")))
}

/// A policy, as far as it is checked.
#[derive(Deserialize)]
struct Policy {
    #[serde(rename = "default")]
    _default: Requirements,
    #[serde(default, rename = "transports")]
    _transports: BTreeMap<String, BTreeMap<String, Requirements>>,
}

/// At least one requirement.
struct Requirements {
    _all: Vec<Requirement>,
}

/// Which kinds there are is known to the version of skopeo on the host.
#[derive(Deserialize)]
struct Requirement {
    #[serde(rename = "type")]
    _kind: String,
}

impl<'de> Deserialize<'de> for Requirements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let requirements = Vec::<Requirement>::deserialize(deserializer)?;
        if requirements.is_empty() {
            return Err(de::Error::custom("a list of requirements is empty"));
        }
        Ok(Self { _all: requirements })
    }
}

fn check_policy(bytes: &[u8]) -> Result<(), Fault> {
    parse_json::<Policy>(bytes).map(|_| ())
}

/// A file of credentials, as far as it is checked.
#[derive(Deserialize)]
struct Credentials {
    #[serde(default, rename = "auths")]
    _auths: BTreeMap<String, Login>,
}

#[derive(Deserialize)]
struct Login {
    #[serde(default, rename = "auth")]
    _auth: Base64,
}

/// Text in base64, not kept.
#[derive(Default)]
struct Base64 {
    _length: usize,
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Base64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("user and password in base64")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Base64, E> {
                // The text is a secret: it is not part of the message.
                STANDARD
                    .decode(text)
                    .map(|bytes| Base64 {
                        _length: bytes.len(),
                    })
                    .map_err(|_| E::custom("auth of a registry is not base64"))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

fn check_credentials(bytes: &[u8]) -> Result<(), Fault> {
    parse_json::<Credentials>(bytes).map(|_| ())
}

/// Reads JSON; the fault has serde's words without their position, which is beside it.
fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        let position = format!(" at line {} column {}", error.line(), error.column());
        let what = if error.is_data() {
            ""
        } else {
            "it is not JSON: "
        };
        Fault {
            line: (error.line() > 0).then(|| error.line()),
            why: format!("{what}{}", one_line(text.trim_end_matches(&position))),
        }
    })
}

/// The line, from 1, of a byte.
fn line_at(bytes: &[u8], offset: usize) -> usize {
    let before = bytes.get(..offset).unwrap_or(bytes);
    before.split(|byte| *byte == b'\n').count()
}
