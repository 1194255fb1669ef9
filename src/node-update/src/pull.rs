//! How images are pulled: which files of a host say it, and what a target changes in them.
//!
//! A pull of the target's image runs under the target's settings before they are in force. They are
//! given to the puller as a private home directory, an environment and a file of credentials.
//!
//! - [`TokenBucket`]: how fast an image is pulled
//! - [`by_digest`]: the pull spec that a registry is asked for
//! - [`check`]: whether such a file can be used
//! - [`why_unusable`]: an index without an image for the host
//! - [`verdict`]: what a signature policy says of an image
//!
//! Source: containers-registries.conf(5), containers-policy.json(5), containers-registries.d(5),
//! containers-certs.d(5), containers-auth.json(5).

mod bucket;
mod check;
pub(crate) mod index;
mod policy;
mod spec;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::desired::Desired;
use crate::disruption::REGISTRIES;
use crate::paths::REGISTRY_SECRET;
use crate::plan::{Action, Bundle, Digest};
use crate::rejection::{Member, Rejection};
use crate::well_known::{OSTREE_PULL_SECRET, PROXY_ENVIRONMENT, PULL_SECRET};

pub use bucket::{Allowance, TokenBucket};
pub use check::check;
pub use index::why_unusable;
pub use policy::{PolicyVerdict, verdict};
pub use spec::by_digest;

/// Which signatures an image needs.
pub const POLICY: &str = "/etc/containers/policy.json";

/// Where rpm-ostree looks for credentials first.
pub const RUNTIME_PULL_SECRET: &str = "/run/ostree/auth.json";

/// Directories whose files say how images are pulled, and how many levels of them do.
pub const DIRECTORIES: [(&str, usize); 5] = [
    (REGISTRIES_DROPINS, 1),
    (LOOKASIDE, 1),
    (CERTIFICATES[0], 2),
    (CERTIFICATES[1], 2),
    (ANCHORS, 1),
];

/// Single files that say how images are pulled, without credentials.
pub const FILES: [&str; 3] = [REGISTRIES, POLICY, PROXY_ENVIRONMENT];

/// Files with credentials of registries. Where several name a registry, the first one counts.
pub const CREDENTIALS: [&str; 4] = [
    RUNTIME_PULL_SECRET,
    OSTREE_PULL_SECRET,
    PULL_SECRET,
    REGISTRY_SECRET,
];

const REGISTRIES_DROPINS: &str = "/etc/containers/registries.conf.d";
const LOOKASIDE: &str = "/etc/containers/registries.d";
/// In the order in which a registry's directory is looked for.
const CERTIFICATES: [&str; 2] = ["/etc/containers/certs.d", "/etc/docker/certs.d"];
/// Authorities that the host trusts.
const ANCHORS: &str = "/etc/pki/ca-trust/source/anchors";

/// Where the puller looks in its home directory.
const HOME_CONTAINERS: &str = ".config/containers";
/// The authorities in the home directory; a name of our own.
const HOME_ANCHORS: &str = "anchors";
/// Files that the policy names, in the home directory; a name of our own.
const HOME_KEYS: &str = "keys";

/// Files by absolute path. A missing one is not there.
pub type PullFiles = BTreeMap<String, Vec<u8>>;

/// What a plan does to files: their new content; `None` for one that is released to the OS.
pub type FileChanges<'a> = BTreeMap<&'a str, Option<&'a [u8]>>;

/// How one image is to be pulled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullSettings {
    /// Files of the home directory by relative path; empty where the running host's settings are
    /// the target's.
    pub home: PullFiles,
    /// Directories of the home directory that exist even without a file.
    pub directories: BTreeSet<String>,
    /// The signature policy, as it is applied.
    pub policy: Option<Vec<u8>>,
    /// Credentials of registries, a file as containers-auth.json(5) describes it.
    pub credentials: Option<Vec<u8>>,
    /// The target's proxy settings; `None` where they do not change.
    pub proxy: Option<Vec<(String, String)>>,
    /// Files that differ from the running host's, sorted.
    pub changed: Vec<String>,
    /// Files of credentials that cannot be used and are left out, each with the line.
    pub left_out: Vec<String>,
}

impl PullSettings {
    /// Path of the policy, relative to the home directory.
    pub fn policy_path() -> String {
        format!("{HOME_CONTAINERS}/policy.json")
    }

    /// Path of the registries' configuration, relative to the home directory.
    pub fn registries() -> String {
        format!("{HOME_CONTAINERS}/registries.conf")
    }

    /// Path of the directory that says where signatures are, relative to the home directory.
    pub fn lookaside() -> String {
        format!("{HOME_CONTAINERS}/registries.d")
    }

    /// Path of the directory of authorities, relative to the home directory.
    pub fn anchors() -> &'static str {
        HOME_ANCHORS
    }
}

/// What a plan does to files.
pub fn changes(bundle: &Bundle) -> FileChanges<'_> {
    let mut changes = FileChanges::new();
    for step in &bundle.plan.steps {
        match &step.action {
            Action::WriteFile { path, file } => {
                let bytes = bundle.blobs.get(&file.digest).map(Vec::as_slice);
                changes.insert(path, Some(bytes.unwrap_or_default()));
            }
            Action::ReleaseFile { path } => {
                changes.insert(path, None);
            }
            Action::MaskUnit { .. }
            | Action::UnmaskUnit { .. }
            | Action::EnableUnit { .. }
            | Action::KeepUnitEnabled { .. }
            | Action::DisableUnit { .. }
            | Action::PresetUnit { .. }
            | Action::WriteAuthorizedKeys { .. }
            | Action::SetPassword { .. }
            | Action::DaemonReload
            | Action::RestartUnit { .. }
            | Action::ReloadUnit { .. } => {}
        }
    }
    changes
}

/// The settings of a target's pull, from the running host's files, what the OS ships in their
/// place, and what the plan changes.
///
/// Shape: `home` is the absolute path that the home directory will have. `host` and `shipped` hold
/// what of [`FILES`], [`DIRECTORIES`] and [`CREDENTIALS`] is there.
///
/// # Errors
/// Files that cannot be used, each with the line. Of several files with credentials, one that is
/// usable is enough.
pub fn settings(
    host: &PullFiles,
    shipped: &PullFiles,
    changes: &FileChanges<'_>,
    home: &str,
) -> Result<PullSettings, Vec<String>> {
    let mut target = host.clone();
    for (path, change) in changes {
        if !is_setting(path) {
            continue;
        }
        match change.or_else(|| shipped.get(*path).map(Vec::as_slice)) {
            Some(bytes) => target.insert((*path).to_owned(), bytes.to_vec()),
            None => target.remove(*path),
        };
    }
    let names: BTreeSet<&String> = host.keys().chain(target.keys()).collect();
    let differing: Vec<String> = names
        .into_iter()
        .filter(|path| host.get(*path) != target.get(*path))
        .cloned()
        .collect();
    let mut faults = Vec::new();
    let mut left_out = Vec::new();
    target.retain(|path, bytes| {
        let Err(fault) = check(path, bytes) else {
            return true;
        };
        if CREDENTIALS.contains(&path.as_str()) {
            left_out.push(fault);
        } else {
            faults.push(fault);
        }
        false
    });
    let has_credentials = CREDENTIALS.iter().any(|path| target.contains_key(*path));
    if !has_credentials {
        faults.append(&mut left_out);
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut settings = PullSettings {
        credentials: merged(&target),
        policy: target.get(POLICY).cloned(),
        changed: differing,
        left_out,
        ..PullSettings::default()
    };
    let is_changed = |path: &str| settings.changed.iter().any(|changed| changed == path);
    if is_changed(PROXY_ENVIRONMENT) {
        let text = target.get(PROXY_ENVIRONMENT);
        settings.proxy = Some(text.map(|text| variables(text)).unwrap_or_default());
    }
    let is_other =
        |path: &String| path != PROXY_ENVIRONMENT && !CREDENTIALS.contains(&path.as_str());
    if settings.changed.iter().any(is_other) {
        fill_home(&mut settings, host, &target, changes, home);
    }
    Ok(settings)
}

/// Rejects files of a configuration that say how images are pulled and cannot be used, where `old`
/// has them not or otherwise.
pub(crate) fn rejections(old: &Desired, new: &Desired) -> Vec<Rejection> {
    let is_old = |path: &str, digest: &Digest| {
        let mut files = old.files.iter();
        files.any(|file| file.path == path && file.state.digest == *digest)
    };
    let mut rejections = Vec::new();
    for file in &new.files {
        let digest = &file.state.digest;
        if let Some(bytes) = new.blobs.get(digest)
            && !is_old(&file.path, digest)
            && let Err(why) = check(&file.path, bytes)
        {
            rejections.push(Rejection::of_member(file.subject, Member::Contents, why));
        }
    }
    rejections
}

/// Whether a file says how images are pulled.
fn is_setting(path: &str) -> bool {
    let is_below = |(directory, levels): &(&str, usize)| {
        let rest = path
            .strip_prefix(directory)
            .and_then(|rest| rest.strip_prefix('/'));
        rest.is_some_and(|rest| rest.split('/').count() == *levels)
    };
    FILES.contains(&path) || CREDENTIALS.contains(&path) || DIRECTORIES.iter().any(is_below)
}

/// Everything that the puller reads, in its home directory: a host's own files are read only where
/// that has none.
fn fill_home(
    settings: &mut PullSettings,
    host: &PullFiles,
    target: &PullFiles,
    changes: &FileChanges<'_>,
    home: &str,
) {
    for (path, bytes) in target {
        if path == POLICY {
            let (policy, keys) = with_own_keys(bytes, changes, home);
            settings.home.insert(PullSettings::policy_path(), policy);
            settings.home.extend(keys);
        } else if let Some(name) = name_below(path, REGISTRIES_DROPINS) {
            let at = format!("{HOME_CONTAINERS}/registries.conf.d/{name}");
            settings.home.insert(at, bytes.clone());
        } else if let Some(name) = name_below(path, LOOKASIDE) {
            let at = format!("{}/{name}", PullSettings::lookaside());
            settings.home.insert(at, bytes.clone());
        } else if let Some(name) = name_below(path, ANCHORS) {
            settings
                .home
                .insert(format!("{HOME_ANCHORS}/{name}"), bytes.clone());
        }
    }
    // Without this file the puller would read the host's, and the host's drop-ins with it.
    let registries = target.get(REGISTRIES).cloned().unwrap_or_default();
    settings.home.insert(PullSettings::registries(), registries);
    settings.directories.insert(PullSettings::lookaside());
    for registry in &registries_with_certificates(host) | &registries_with_certificates(target) {
        let at = format!("{HOME_CONTAINERS}/certs.d/{registry}");
        // One without certificates keeps the puller from those that the host still has.
        settings.directories.insert(at.clone());
        let mut first = CERTIFICATES
            .iter()
            .map(|directory| format!("{directory}/{registry}"));
        let Some(directory) = first.find(|directory| has_files(target, directory)) else {
            continue;
        };
        for (path, bytes) in target {
            if let Some(name) = name_below(path, &directory) {
                settings.home.insert(format!("{at}/{name}"), bytes.clone());
            }
        }
    }
}

fn registries_with_certificates(files: &PullFiles) -> BTreeSet<&str> {
    files
        .keys()
        .flat_map(|path| {
            CERTIFICATES.iter().filter_map(|directory| {
                let rest = path.strip_prefix(directory)?.strip_prefix('/')?;
                Some(rest.split_once('/')?.0)
            })
        })
        .collect()
}

fn has_files(files: &PullFiles, directory: &str) -> bool {
    files
        .keys()
        .any(|path| name_below(path, directory).is_some())
}

/// The name of a file that is in a directory itself.
fn name_below<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    let name = path.strip_prefix(directory)?.strip_prefix('/')?;
    (!name.contains('/')).then_some(name)
}

/// A policy whose keys are those of the target: a key that comes with it lies in the home
/// directory.
fn with_own_keys(policy: &[u8], changes: &FileChanges<'_>, home: &str) -> (Vec<u8>, PullFiles) {
    let mut keys = PullFiles::new();
    let Ok(mut value) = serde_json::from_slice::<Value>(policy) else {
        return (policy.to_vec(), keys);
    };
    replace_texts(&mut value, &mut |text| {
        let bytes = (*changes.get(text)?)?;
        let at = format!("{HOME_KEYS}/{}", keys.len());
        keys.insert(at.clone(), bytes.to_vec());
        Some(format!("{home}/{at}"))
    });
    if keys.is_empty() {
        return (policy.to_vec(), keys);
    }
    (value.to_string().into_bytes(), keys)
}

fn replace_texts(value: &mut Value, replace: &mut impl FnMut(&str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(other) = replace(text) {
                *text = other;
            }
        }
        Value::Array(values) => {
            for value in values {
                replace_texts(value, replace);
            }
        }
        Value::Object(members) => {
            for value in members.values_mut() {
                replace_texts(value, replace);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Credentials of all files in one; `None` where there are none.
fn merged(files: &PullFiles) -> Option<Vec<u8>> {
    let mut merged: Option<serde_json::Map<String, Value>> = None;
    for path in CREDENTIALS {
        let Some(bytes) = files.get(path) else {
            continue;
        };
        // Checked before: what is no object here is not there.
        let Ok(Value::Object(more)) = serde_json::from_slice(bytes) else {
            continue;
        };
        let Some(all) = &mut merged else {
            merged = Some(more);
            continue;
        };
        for (name, value) in more {
            match (all.get_mut(&name), value) {
                (Some(Value::Object(known)), Value::Object(value)) => {
                    for (registry, credentials) in value {
                        known.entry(registry).or_insert(credentials);
                    }
                }
                (Some(_), _) => {}
                (None, value) => {
                    all.insert(name, value);
                }
            }
        }
    }
    Some(Value::Object(merged?).to_string().into_bytes())
}

/// The assignments of an environment file that are proxy settings.
///
/// Source: systemd.exec(5), `EnvironmentFile=`.
fn variables(text: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(text);
    let is_proxy = |name: &str| {
        let name = name.to_ascii_lowercase();
        ["http_proxy", "https_proxy", "no_proxy", "all_proxy"].contains(&name.as_str())
    };
    text.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with(['#', ';']))
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim(), unquoted(value.trim())))
        .filter(|(name, _)| is_proxy(name))
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn unquoted(value: &str) -> String {
    let quoted = |quote: char| {
        let inner = value.strip_prefix(quote)?.strip_suffix(quote)?;
        Some(inner)
    };
    if let Some(inner) = quoted('\'') {
        return inner.to_owned();
    }
    let inner = quoted('"').unwrap_or(value);
    let mut text = String::with_capacity(inner.len());
    let mut escaped = false;
    for c in inner.chars() {
        if c == '\\' && !escaped {
            escaped = true;
            continue;
        }
        escaped = false;
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests;
