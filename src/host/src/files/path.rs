//! Resolves a configuration's path below a root.

use std::collections::VecDeque;
use std::fmt;

use super::{Error, Result};

/// Links followed before a path counts as a loop; the kernel's limit.
const LINKS_MAX: u32 = 40;

/// A path with every link of its parents resolved below the root: absolute, clean, without `..`.
///
/// Only [`Root::locate`](super::Root::locate) resolves one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location(String);

/// What shares a location: one deployment, all of them, or the OS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathScope {
    /// Below `/etc`: each deployment has its own.
    Deployment,
    /// Below `/var`: all deployments share it.
    Shared,
    /// Below `/run` or `/tmp`: removed at the next boot.
    Volatile,
    /// Any other path: it belongs to the OS and is read-only.
    ReadOnly,
}

impl Location {
    /// A path that was resolved before and is not resolved again: [`Self::as_str`] of a location.
    ///
    /// # Errors
    /// [`Error::Path`] for a path that is not allowed.
    pub(crate) fn of_resolved(path: &str) -> Result<Self> {
        components(path)?;
        Ok(Self(path.to_owned()))
    }

    /// The path as text, with its leading `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn scope(&self) -> PathScope {
        match self.0.split('/').nth(1) {
            Some("etc") => PathScope::Deployment,
            Some("var") => PathScope::Shared,
            Some("run" | "tmp") => PathScope::Volatile,
            Some(_) | None => PathScope::ReadOnly,
        }
    }

    /// Its directory, and its name there.
    pub(super) fn split(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or(("", &self.0))
    }

    /// Its name in its directory.
    pub(crate) fn name(&self) -> &str {
        self.split().1
    }

    /// The same directory, another name.
    pub(super) fn beside(&self, name: &str) -> Self {
        Self(format!("{}/{name}", self.split().0))
    }

    /// One component further down; `name` must be one component.
    pub(crate) fn below(&self, name: &str) -> Self {
        Self(format!("{}/{name}", self.0.trim_end_matches('/')))
    }

    /// Its directory; `None` for an entry of the root directory.
    pub(crate) fn parent(&self) -> Option<Self> {
        let parent = self.split().0;
        (!parent.is_empty()).then(|| Self(parent.to_owned()))
    }

    /// The path without its leading `/`, for system calls relative to a root.
    pub(super) fn relative(&self) -> &str {
        self.0.get(1..).unwrap_or("")
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The components of an absolute path.
///
/// Errors: [`Error::Path`] where it is not absolute, names no file, or has `.`, `..`, an empty
/// component or a NUL byte: such a path is refused, never repaired.
pub(super) fn components(path: &str) -> Result<Vec<&str>> {
    let refuse = |why| Error::Path {
        path: path.to_owned(),
        why,
    };
    let rest = path
        .strip_prefix('/')
        .ok_or_else(|| refuse("is not absolute"))?;
    if path.contains('\0') {
        return Err(refuse("holds a NUL byte"));
    }
    let parts: Vec<&str> = rest.split('/').collect();
    if parts.iter().any(|part| matches!(*part, "" | ".")) {
        return Err(refuse("is not clean"));
    }
    if parts.contains(&"..") {
        return Err(refuse("goes up with `..`"));
    }
    Ok(parts)
}

/// Whether a link at the path itself is followed; links of its parents always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastComponent {
    /// The path names the link.
    Kept,
    /// The path names the link's target.
    Followed,
}

/// Resolves the links of a path.
///
/// `link` returns the target of a link; `None` for another kind of entry or a missing one.
pub(super) fn resolve(
    path: &str,
    last: LastComponent,
    mut link: impl FnMut(&Location) -> Result<Option<String>>,
) -> Result<Location> {
    let mut pending: VecDeque<String> = components(path)?.into_iter().map(str::to_owned).collect();
    let mut resolved: Vec<String> = Vec::new();
    let mut links = 0;
    while let Some(part) = pending.pop_front() {
        match part.as_str() {
            "" | "." => continue,
            ".." => {
                resolved.pop();
                continue;
            }
            _ => resolved.push(part),
        }
        if pending.is_empty() && last == LastComponent::Kept {
            break;
        }
        let Some(target) = link(&join(&resolved))? else {
            continue;
        };
        links += 1;
        if links > LINKS_MAX {
            return Err(Error::Path {
                path: path.to_owned(),
                why: "goes through too many links",
            });
        }
        if target.starts_with('/') {
            resolved.clear();
        } else {
            resolved.pop();
        }
        for part in target.split('/').rev() {
            pending.push_front(part.to_owned());
        }
    }
    if resolved.is_empty() {
        return Err(Error::Path {
            path: path.to_owned(),
            why: "leads to the root",
        });
    }
    Ok(join(&resolved))
}

fn join(parts: &[String]) -> Location {
    Location(format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::unnecessary_wraps,
        reason = "stands in for a read of a file system"
    )]
    fn os(location: &Location) -> Result<Option<String>> {
        Ok(match location.as_str() {
            "/home" => Some("var/home".to_owned()),
            "/usr/local" => Some("../var/usrlocal".to_owned()),
            "/etc/out" => Some("../../../../var/out".to_owned()),
            "/etc/loop" => Some("/etc/loop".to_owned()),
            "/etc/last" => Some("elsewhere".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn links_of_parents_are_followed_below_the_root() {
        for (path, real, scope) in [
            ("/etc/hosts", "/etc/hosts", PathScope::Deployment),
            (
                "/home/core/.ssh/x",
                "/var/home/core/.ssh/x",
                PathScope::Shared,
            ),
            (
                "/usr/local/bin/tool",
                "/var/usrlocal/bin/tool",
                PathScope::Shared,
            ),
            ("/etc/out/x", "/var/out/x", PathScope::Shared),
            ("/usr/bin/tool", "/usr/bin/tool", PathScope::ReadOnly),
            ("/run/x", "/run/x", PathScope::Volatile),
            ("/etcetera", "/etcetera", PathScope::ReadOnly),
            ("/etc/last", "/etc/last", PathScope::Deployment),
        ] {
            let location = resolve(path, LastComponent::Kept, os).unwrap();
            assert_eq!(location.as_str(), real);
            assert_eq!(location.scope(), scope, "{path}");
        }
    }

    #[test]
    fn a_link_at_the_path_itself_is_followed_only_when_asked() {
        let follow = |path| resolve(path, LastComponent::Followed, os).unwrap();
        assert_eq!(follow("/etc/last").as_str(), "/etc/elsewhere");
        assert_eq!(follow("/home").as_str(), "/var/home");
        assert!(resolve("/etc/loop", LastComponent::Followed, os).is_err());
    }

    #[test]
    fn paths_that_could_leave_the_root_are_refused() {
        for path in [
            "",
            "/",
            "etc/x",
            "/etc/../x",
            "/etc//x",
            "/etc/./x",
            "/etc/x/",
            "/e\0",
            "/etc/loop/x",
        ] {
            assert!(resolve(path, LastComponent::Kept, os).is_err(), "{path:?}");
        }
    }
}
