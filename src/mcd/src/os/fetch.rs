//! `fetch`: an image pulled and held, while the node works.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use host::journal::JournalStore;
use host::ostree::{Deployments, Fetched, Fetcher};
use host::process::proxy_environment;
use node_update::well_known::{OSTREE_PULL_SECRET, PULL_SECRET};
use tracing::info;

use super::context::Context;
use crate::protocol::{FetchDetails, HelperReport, RegistrySettings};

/// Where an image with a repository inside is unpacked.
const SCRATCH: &str = "/var/lib/slipway/tmp";

/// Where credentials of registries are, the first that is there: the order of rpm-ostree, then the
/// kubelet's own.
const AUTHFILES: &[&str] = &["/run/ostree/auth.json", OSTREE_PULL_SECRET, PULL_SECRET];

pub(super) fn run(context: &Context, image: &str) -> anyhow::Result<HelperReport> {
    let _lock = context.lock()?;
    let store = context.store();
    let mut deployments = Deployments::open()?;
    let mut fetcher = Fetcher {
        deployments: &mut deployments,
        runtime: &context.runtime,
        authfile: AUTHFILES
            .iter()
            .map(PathBuf::from)
            .find(|path| is_file(path)),
        environment: proxy_environment(),
        scratch: PathBuf::from(SCRATCH),
    };
    let Fetched {
        image,
        checksum,
        digest,
        version,
        fetched_bytes,
    } = fetcher.fetch(image, &needed(&store)?)?;
    info!(image, checksum, fetched_bytes, "image is held");
    let details = FetchDetails {
        image,
        checksum,
        digest,
        version,
        fetched_bytes,
        registry_settings: RegistrySettings::RunningHost,
    };
    Ok(HelperReport::done().with(&details)?)
}

/// Images that stored plans still are to deploy.
fn needed(store: &JournalStore<'_>) -> anyhow::Result<BTreeSet<String>> {
    let mut images = BTreeSet::new();
    for attempt in store.plans()? {
        // What is no whole plan cannot be applied, and needs no image.
        let Ok(bundle) = store.read_plan(&JournalStore::plan_directory(&attempt)?) else {
            continue;
        };
        images.extend(bundle.plan.deploy.and_then(|deploy| deploy.image));
    }
    let journal = store.journal()?;
    images.extend(
        journal
            .and_then(|journal| journal.plan.deploy)
            .and_then(|deploy| deploy.image),
    );
    Ok(images)
}

fn is_file(path: &Path) -> bool {
    path.is_file()
}
