//! Images that a build made of another: what of their files does not reach a host.
//!
//! The image library lays the layers of a build over the commit of its base. What they have in
//! `/etc` goes to `/usr/etc`, and by the merge of `/etc` to the host. A commit has no place for
//! files outside of `/usr` and `/etc`. Those in `/var` reach a host only with its installation, and
//! by `systemd-tmpfiles` where the image says so.

use std::collections::BTreeMap;

use ostree_ext::container::store::{LayeredImageState, META_FILTERED};
use ostree_ext::gio::{Cancellable, File};
use ostree_ext::glib::VariantDict;
use ostree_ext::ostree;
use ostree_ext::prelude::*;

use super::{ErrorContext as _, Result};

/// Label of an image that a build of the cluster made; its value is the name of the MachineOSBuild.
///
/// Source: `docs/reference/daemon.md`, "Image mode".
pub(super) const OS_BUILD: &str = "slipway.dev/os-build";

/// How many files of each directory the library left out, by layer.
type LeftOut = BTreeMap<String, BTreeMap<String, u32>>;

/// Where an image has files that do not reach an installed host; sentences' ends, for people.
///
/// # Errors
/// Those of reading the commits.
pub(super) fn left_out(repo: &ostree::Repo, state: &LayeredImageState) -> Result<Vec<String>> {
    let merged = &state.merge_commit;
    let (commit, _) = repo
        .load_commit(merged)
        .during(|| format!("read commit {merged}"))?;
    let metadata = VariantDict::new(Some(&commit.child_value(0)));
    // A value of another type counts as none.
    let filtered = metadata.lookup::<LeftOut>(META_FILTERED).ok().flatten();
    let has_var = var_of(repo, merged)? != var_of(repo, &state.base_commit)?;
    Ok(words(&filtered.unwrap_or_default(), has_var))
}

fn words(filtered: &LeftOut, has_var: bool) -> Vec<String> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for (directory, count) in filtered.values().flatten() {
        *counts.entry(directory).or_default() += count;
    }
    let filtered = counts
        .into_iter()
        .map(|(directory, count)| format!("{count} in /{directory}"));
    let var = has_var.then(|| "some in /var".to_owned());
    filtered.chain(var).collect()
}

/// Checksum of what a commit has in `/var`, or where the library puts that for an older libostree;
/// `None` if it has neither.
fn var_of(repo: &ostree::Repo, commit: &str) -> Result<Option<String>> {
    let failed = || format!("read commit {commit}");
    let (root, _) = repo.read_commit(commit, Cancellable::NONE).during(failed)?;
    let mut found = String::new();
    for path in ["var", "usr/share/factory/var"] {
        let directory = root.resolve_relative_path(path);
        let Some(file) = directory.downcast_ref::<ostree::RepoFile>() else {
            continue;
        };
        if is_there(&directory) {
            file.ensure_resolved().during(failed)?;
            found += file.tree_get_contents_checksum().as_deref().unwrap_or("");
        }
    }
    Ok((!found.is_empty()).then_some(found))
}

fn is_there(file: &File) -> bool {
    file.query_exists(Cancellable::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_counted_over_all_layers() {
        let layer = |counts: &[(&str, u32)]| -> BTreeMap<String, u32> {
            let counts = counts.iter();
            counts
                .map(|(directory, count)| ((*directory).to_owned(), *count))
                .collect()
        };
        let filtered = LeftOut::from([
            ("sha256:1".to_owned(), layer(&[("opt", 3), ("srv", 1)])),
            ("sha256:2".to_owned(), layer(&[("opt", 2)])),
        ]);
        assert_eq!(words(&filtered, false), ["5 in /opt", "1 in /srv"]);
        assert_eq!(words(&LeftOut::new(), true), ["some in /var"]);
        assert_eq!(words(&LeftOut::new(), false), Vec::<String>::new());
    }
}
