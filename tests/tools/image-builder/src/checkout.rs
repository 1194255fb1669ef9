//! Commit and version that images are labelled with.

use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::Deserialize;

use crate::run::text;

/// What images say they are built from.
#[derive(Clone, Debug)]
pub struct Checkout {
    /// Commit, and whether files differ from it.
    pub revision: String,
    /// When that commit was made: the time of all files and of the images.
    pub time: Timestamp,
    /// Version of the workspace.
    pub version: String,
    /// Address of the sources' repository, for people; none if it is not known.
    pub source: Option<String>,
}

#[derive(Deserialize)]
struct Manifest {
    workspace: Workspace,
}

#[derive(Deserialize)]
struct Workspace {
    package: Package,
}

#[derive(Deserialize)]
struct Package {
    version: String,
    repository: Option<String>,
}

impl Checkout {
    /// Asks git and reads `Cargo.toml`.
    ///
    /// # Errors
    /// It is no checkout.
    pub fn read(directory: &Path) -> anyhow::Result<Self> {
        let commit = text(directory, &["git", "rev-parse", "HEAD"])?;
        let is_clean = text(directory, &["git", "status", "--porcelain"])?.is_empty();
        let secs = text(directory, &["git", "log", "-1", "--format=%ct"])?;
        let manifest = std::fs::read_to_string(directory.join("Cargo.toml"));
        let manifest = manifest.context("cannot read Cargo.toml")?;
        let manifest: Manifest = toml::from_str(&manifest).context("Cargo.toml")?;
        let package = manifest.workspace.package;
        // It fails where there is none.
        let remote = text(directory, &["git", "config", "--get", "remote.origin.url"]).ok();
        Ok(Self {
            revision: if is_clean {
                commit
            } else {
                commit + "-modified"
            },
            time: Timestamp::from_second(secs.parse().context("time of the commit")?)?,
            version: package.version,
            source: package
                .repository
                .or(remote)
                .as_deref()
                .and_then(web_address),
        })
    }
}

/// The address of a repository for people, without names and passwords of who reads it; none where
/// it is none that others reach.
fn web_address(remote: &str) -> Option<String> {
    let (scheme, rest) = match remote.split_once("://") {
        Some((scheme @ ("https" | "http"), rest)) => (scheme, rest.to_owned()),
        // A port of ssh is none of the web's.
        Some(("ssh", rest)) => {
            let (host, path) = rest.split_once('/')?;
            let host = host.rsplit('@').next().unwrap_or_default();
            let host = host.split(':').next().unwrap_or_default();
            ("https", format!("{host}/{path}"))
        }
        Some(_) => return None,
        None => {
            let (host, path) = remote
                .split_once(':')
                .filter(|(host, _)| !host.contains('/'))?;
            ("https", format!("{host}/{}", path.trim_start_matches('/')))
        }
    };
    let (host, path) = rest.split_once('/')?;
    let host = host.rsplit('@').next().unwrap_or_default();
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    (!host.is_empty() && !path.is_empty()).then(|| format!("{scheme}://{host}/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_repositories_are_for_people_and_have_no_secret() {
        let expected = Some("https://forge.example/a/b".to_owned());
        for remote in [
            "https://forge.example/a/b",
            "https://forge.example/a/b.git",
            "https://user:token@forge.example/a/b.git/",
            "git@forge.example:a/b.git",
            "forge.example:/a/b",
            "ssh://git@forge.example:2222/a/b.git",
        ] {
            assert_eq!(web_address(remote), expected, "{remote}");
        }
        let port = Some("http://forge.example:8080/a".to_owned());
        assert_eq!(web_address("http://forge.example:8080/a"), port);
        for none in [
            "",
            "/srv/git/a.git",
            "../a",
            "file:///srv/a",
            "https://forge.example",
            "./a:b",
        ] {
            assert_eq!(web_address(none), None, "{none}");
        }
    }
}
