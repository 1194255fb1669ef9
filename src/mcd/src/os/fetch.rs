//! `fetch`: an image pulled and held, while the node works.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use chassis::report::Chain;
use host::journal::JournalStore;
use host::ostree::{Deployments, Fetched, Fetcher};
use host::process::skopeo_version;
use host::pull::Puller;
use host::throttle::read_limit;
use node_update::pull::{self, PolicyVerdict, PullSettings};
use tracing::info;

use super::context::Context;
use super::{limited_skopeo, pull_settings};
use crate::protocol::{FetchDetails, HelperReport, RegistrySettings};

/// Where an image with a repository inside is unpacked.
const SCRATCH: &str = "/var/lib/slipway/tmp";

/// Where the settings of a pull are laid out; gone with the boot.
const HOME: &str = "/run/slipway/pull";

/// The first version of skopeo that applies the signature policy in a pull of the image library.
const POLICY_SINCE: (u32, u32) = (1, 11);

pub(super) fn run(
    context: &Context,
    image: &str,
    plan: Option<&str>,
    limit_file: Option<&str>,
) -> anyhow::Result<HelperReport> {
    // A broken limit is no reason to fetch without one.
    let limit = match limit_file.map(|file| read_limit(Path::new(file))) {
        Some(Err(invalid)) => {
            return Ok(HelperReport::refused(vec![Chain(&invalid).to_string()]));
        }
        Some(Ok(limit)) => limit.zip(limit_file),
        None => None,
    };
    let _lock = context.lock()?;
    let store = context.store();
    let bundle = plan.map(|plan| store.read_plan(plan)).transpose()?;
    let changes = bundle.as_ref().map(pull::changes).unwrap_or_default();
    let settings = match pull_settings::read(&context.root, &changes, HOME, image)? {
        Ok(settings) => settings,
        Err(faults) => return Ok(HelperReport::refused(faults)),
    };
    if let Some(why) = refused_by_policy(&settings, image)? {
        return Ok(HelperReport::refused(vec![why]));
    }
    if !settings.changed.is_empty() {
        info!(
            image,
            files = settings.changed.join(" "),
            "pulls by the target's settings"
        );
    }
    let puller = pull_settings::lay_out(&context.root, HOME, &settings)?;
    if let Some((bytes_per_second, _)) = limit {
        info!(image, bytes_per_second, "fetches under a limit");
    }
    let limit_file = limit.map(|(_, file)| file);
    let fetched = pull_by(context, image, puller, limit_file);
    host::pull::remove(&context.root, HOME)?;
    let fetched = fetched?;
    info!(
        image,
        checksum = fetched.checksum,
        fetched_bytes = fetched.fetched_bytes,
        "image is held"
    );
    let details = FetchDetails {
        image: fetched.image,
        checksum: fetched.checksum,
        digest: fetched.digest,
        version: fetched.version,
        fetched_bytes: fetched.fetched_bytes,
        registry_settings: if settings.changed.is_empty() {
            RegistrySettings::RunningHost
        } else {
            RegistrySettings::Target
        },
    };
    Ok(HelperReport::done().with(&details)?)
}

/// Why the signature policy refuses an image, where skopeo does not find that out.
fn refused_by_policy(settings: &PullSettings, image: &str) -> anyhow::Result<Option<String>> {
    let Some(policy) = &settings.policy else {
        return Ok(None);
    };
    let refuses = format!("the signature policy {} refuses it", pull::POLICY);
    Ok(match pull::verdict(policy, image) {
        PolicyVerdict::Accepted => None,
        PolicyVerdict::Refused => Some(format!("cannot fetch {image}: {refuses}")),
        PolicyVerdict::BySignature => {
            let version = skopeo_version()?;
            let is_blind = version < POLICY_SINCE;
            is_blind.then(|| {
                let (major, minor) = version;
                format!(
                    "cannot fetch {image}: {refuses}, for it asks for a signature, \
                     and skopeo {major}.{minor} of this host checks none in a pull"
                )
            })
        }
    })
}

fn pull_by(
    context: &Context,
    image: &str,
    puller: Puller,
    limit_file: Option<&str>,
) -> anyhow::Result<Fetched> {
    let mut deployments = Deployments::open()?;
    let mut fetcher = Fetcher {
        deployments: &mut deployments,
        runtime: &context.runtime,
        puller,
        relay: limited_skopeo::command(limit_file),
        is_limited: limit_file.is_some(),
        scratch: PathBuf::from(SCRATCH),
    };
    Ok(fetcher.fetch(image, &needed(&context.store())?)?)
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
