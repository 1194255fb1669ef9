//! A commit as a native container image, by the same library that real ones are made with.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context as _, Result};
use ostree_ext::chunking::ObjectMetaSized;
use ostree_ext::container::{Config, ExportOpts, ImageReference, Transport, encapsulate};
use ostree_ext::objectsource::{ObjectMeta, ObjectSourceMeta};
use ostree_ext::{gio, ostree};

use super::LABEL_COMMIT;
use crate::program::{command, run};
use crate::tree::Commit;

/// Parts of the system that get a layer each; the rest is the last. What changes between two
/// commits of the lab is small and in the rest.
const PARTS: [&str; 6] = [
    "/usr/lib/ballast",
    "/usr/lib/modules/",
    "/usr/lib/x86_64-linux-gnu/",
    "/usr/bin/",
    "/usr/sbin/",
    "/usr/share/",
];

/// Name of the part that is everything else.
const REST: &str = "rest";

/// Writes the layout into an empty directory.
pub(super) fn write(
    commit: &Commit,
    labels: &BTreeMap<String, String>,
    layout: &Path,
) -> Result<()> {
    let listing = run(command("ostree")
        .args(["ls", "--recursive", "--checksum"])
        .arg(format!("--repo={}", commit.repo.display()))
        .arg(&commit.checksum))?;
    // A thread of its own, because the caller may be inside a runtime, where none may be entered.
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(encapsulate_commit(commit, labels, layout, &listing))
        });
        writing
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

async fn encapsulate_commit(
    commit: &Commit,
    labels: &BTreeMap<String, String>,
    layout: &Path,
    listing: &str,
) -> Result<()> {
    let repo = ostree::Repo::new(&gio::File::for_path(&commit.repo));
    repo.open(gio::Cancellable::NONE)?;
    let parts = ObjectMetaSized::compute_sizes(&repo, objects(listing))?;

    let mut labels = labels.clone();
    labels.insert(LABEL_COMMIT.to_owned(), commit.checksum.clone());
    let config = Config {
        labels: Some(labels),
        cmd: None,
    };
    let mut options = ExportOpts::default();
    options.legacy_version_label = true;
    options.contentmeta = Some(&parts);
    options.max_layers = NonZeroU32::new(64);
    let to = ImageReference {
        transport: Transport::OciDir,
        name: layout
            .to_str()
            .context("the cache's path is not UTF-8")?
            .to_owned(),
    };
    encapsulate(&repo, &commit.checksum, &config, Some(options), &to).await?;
    Ok(())
}

/// Which part each content object belongs to. An object that is in several files belongs to the
/// part of the first.
///
/// Shape of `listing`: lines of `ostree ls --recursive --checksum`, such as
/// `-00644 0 0 105 <checksum> /usr/lib/os-release` and `l00777 0 0 0 <checksum> /bin -> usr/bin`.
fn objects(listing: &str) -> ObjectMeta {
    let mut meta = ObjectMeta::default();
    let mut used = BTreeSet::new();
    for line in listing.lines().filter(|line| !line.starts_with('d')) {
        let mut fields = line.split_ascii_whitespace().skip(4);
        let (Some(checksum), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        if !meta.map.contains_key(checksum) {
            let part = PARTS
                .into_iter()
                .find(|part| path.starts_with(part))
                .unwrap_or(REST);
            used.insert(part);
            meta.map.insert(checksum.to_owned(), Rc::from(part));
        }
    }
    meta.set
        .extend(used.into_iter().map(|part| ObjectSourceMeta {
            identifier: Rc::from(part),
            name: Rc::from(part),
            srcid: Rc::from(part),
            change_time_offset: 0,
            change_frequency: u32::from(part == REST),
        }));
    meta
}
