//! `pin`: images that the host's container runtime pulls and keeps.
//!
//! Pins come first, so that the kubelet's garbage collection takes no image that is there, or that
//! comes. Then the room is judged, and what is missing is pulled. A run that is killed is resumed
//! by the next one. Nothing is deleted: images without a pin are the kubelet's to collect.
//!
//! - `pin_host`: what is needed beside the runtime
//! - `crio`, `containerd`: how each of them pins
//! - `pulls`: several at once, each several times
//! - `sizes`: the layers of what is missing

mod containerd;
mod crio;
mod pin_host;
mod pulls;
mod sizes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use chassis::report::Chain;
use cri::{ImageState, RuntimeClient, RuntimeKind};
use host::files::Root;
use node_update::one_line::one_line;
use node_update::pins::{self, DiskRoom, RoomVerdict};
use node_update::pull::{self, FileChanges, PolicyVerdict, PullSettings};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use self::pin_host::{LiveHost, PinHost};
use super::context::Context;
use super::pull_settings;
use crate::protocol::{HelperReport, PinDetails, PinRequest};

/// Where the settings of pulls are laid out; gone with the boot. A fetch has its own.
const HOME: &str = "/run/slipway/pin";

/// How long a runtime may restart.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a runtime may take to show a pin: CRI-O reads its settings after it has acknowledged
/// the reload, and containerd reads its records by events.
const SETTLE_WITHIN: Duration = Duration::from_secs(10);

/// How often it is looked for.
const SETTLE_PACE: Duration = Duration::from_millis(200);

/// Pulls and pins what a file requests.
pub(super) fn run(context: &Context, file: &str) -> anyhow::Result<HelperReport> {
    let request = match read_request(file) {
        Ok(request) => request,
        Err(fault) => return Ok(HelperReport::refused(vec![fault])),
    };
    let root = &context.root;
    let settings = if request.sets.is_empty() {
        // Pins can be dropped whatever the files of registries say.
        PullSettings::default()
    } else {
        match pull_settings::read(root, &FileChanges::new(), HOME, "pinned images")? {
            Ok(settings) => settings,
            Err(faults) => return Ok(HelperReport::refused(faults)),
        }
    };
    let live = Arc::new(LiveHost {
        puller: pull_settings::lay_out(root, HOME, &settings)?,
    });
    let pinning = Pinning {
        root,
        request: &request,
        settings: &settings,
        host: &live,
        patience: PATIENCE,
    };
    let ended = context.runtime.block_on(pinning.run());
    host::pull::remove(root, HOME)?;
    ended
}

/// Drops all pins of Slipway; what was removed.
pub(super) fn drop_all(context: &Context) -> anyhow::Result<Vec<String>> {
    let live = Arc::new(LiveHost::default());
    let dropped = drop_pins(&context.root, &live, PATIENCE);
    context.runtime.block_on(dropped)
}

async fn drop_pins<H: PinHost>(
    root: &Root,
    host: &Arc<H>,
    patience: Duration,
) -> anyhow::Result<Vec<String>> {
    let runtime = match RuntimeClient::find(root.path(), patience).await {
        Ok(runtime) => Some(runtime),
        Err(cri::Error::NoRuntime) => None,
        Err(error) => return Err(error).context("cannot drop the pins of images"),
    };
    let none = pins::RequestedPins::new();
    let mut removed = Vec::new();
    if crio::bring(root, runtime.as_ref(), &none, &**host).await? {
        removed.push(pins::PINS_DROPIN.to_owned());
    }
    if let Some(runtime) = &runtime
        && runtime.kind() == RuntimeKind::Containerd
    {
        let unpinned = containerd::unpin_others(runtime, &BTreeSet::new()).await?;
        removed.extend(unpinned.into_iter().map(|image| format!("pin of {image}")));
    }
    Ok(removed)
}

fn read_request(file: &str) -> Result<PinRequest, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("cannot read {file}: {error}"))?;
    let request: PinRequest = serde_json::from_slice(&bytes)
        .map_err(|error| format!("{file} is no request: {}", one_line(&error.to_string())))?;
    if request.at_once == 0 {
        return Err(format!(
            "{file}: at_once is 0, and no image would be pulled"
        ));
    }
    Ok(request)
}

/// One run.
struct Pinning<'a, H> {
    root: &'a Root,
    request: &'a PinRequest,
    settings: &'a PullSettings,
    host: &'a Arc<H>,
    /// How long a runtime is waited for.
    patience: Duration,
}

/// What became of the images.
#[derive(Debug, Default)]
struct Ended {
    /// Why an image is not there, or not pinned.
    failures: BTreeMap<String, String>,
    /// Why none is pulled, though not for lack of room.
    others: Vec<String>,
    /// The sets that do not fit, or the pull that filled the disk.
    lacks: Vec<String>,
    pulled: usize,
    pinned: usize,
}

impl Ended {
    fn report(self) -> anyhow::Result<HelperReport> {
        let details = PinDetails {
            pinned: self.pinned,
            pulled: self.pulled,
            lacks_room: !self.lacks.is_empty(),
        };
        info!(
            pinned = details.pinned,
            pulled = details.pulled,
            "images are pinned"
        );
        let mut reasons = self.lacks;
        reasons.extend(self.others);
        let failures = self.failures.into_iter();
        let failures = failures
            .map(|(image, why)| format!("{image}: {why}"))
            .collect();
        reasons.extend(pins::first_causes(failures, "images"));
        let report = if reasons.is_empty() {
            HelperReport::done()
        } else if details.lacks_room {
            HelperReport::refused(reasons)
        } else {
            HelperReport::failed(reasons)
        };
        Ok(report.with(&details)?)
    }
}

impl<H: PinHost> Pinning<'_, H> {
    async fn run(&self) -> anyhow::Result<HelperReport> {
        let sets = &self.request.sets;
        if let Err(faults) = pins::check_request(sets) {
            return Ok(HelperReport::refused(faults));
        }
        if sets.is_empty() {
            let dropped = drop_pins(self.root, self.host, self.patience).await?;
            info!(dropped = dropped.len(), "no image is to be pinned");
            return Ended::default().report();
        }
        let runtime = match RuntimeClient::find(self.root.path(), self.patience).await {
            Ok(runtime) => runtime,
            Err(error @ cri::Error::NoRuntime) => {
                return Ok(HelperReport::refused(vec![error.to_string()]));
            }
            Err(error) => return Err(error.into()),
        };
        self.pin(&runtime).await?.report()
    }

    async fn pin(&self, runtime: &RuntimeClient) -> anyhow::Result<Ended> {
        let sets = &self.request.sets;
        let wanted: BTreeSet<&str> = sets.values().flatten().map(String::as_str).collect();
        let mut ended = Ended::default();
        let is_reloaded = crio::bring(self.root, Some(runtime), sets, &**self.host).await?;
        let mut there = states(runtime, &wanted, &mut ended.failures).await;
        match runtime.kind() {
            RuntimeKind::Containerd => {
                // An image whose id is not known could be one of those that lose their pin.
                if ended.failures.is_empty() {
                    let kept = there.values().map(|state| state.id.as_str()).collect();
                    containerd::unpin_others(runtime, &kept).await?;
                }
                for (image, state) in &there {
                    if let Err(error) = containerd::pin(runtime, &state.id).await {
                        ended.failures.insert(image.clone(), cause(&error));
                    }
                }
            }
            RuntimeKind::CriO => {
                let is_unpinned = |state: &ImageState| !state.is_pinned;
                if there.values().any(is_unpinned) {
                    // A run that was killed before the reload left a file that was not read.
                    if !is_reloaded {
                        self.host.reload_crio().await?;
                    }
                    let names = there.keys().map(String::as_str).collect();
                    there = settled(runtime, &names, &mut ended.failures).await;
                }
            }
        }
        let wants = |image: &&str| match (there.get(*image), runtime.kind()) {
            (None, _) => true,
            // It is there by another name, and CRI-O pins by name: a pull adds this one.
            (Some(state), RuntimeKind::CriO) => !state.is_pinned,
            (Some(_), RuntimeKind::Containerd) => false,
        };
        let mut pulled: Vec<String> = Vec::new();
        for image in wanted.iter().filter(|image| wants(image)) {
            if ended.failures.contains_key(*image) {
                continue;
            }
            match self.refusal_by_policy(image, runtime.kind()) {
                Some(why) => {
                    ended.failures.insert((*image).to_owned(), why);
                }
                None => pulled.push((*image).to_owned()),
            }
        }
        if !pulled.is_empty()
            && self
                .has_room(runtime, &mut pulled, &there, &mut ended)
                .await?
        {
            self.pull(runtime, pulled, &mut ended).await?;
        }
        self.verify(runtime, &wanted, &mut ended).await;
        Ok(ended)
    }

    /// Why the signature policy keeps an image from being pulled, where the runtime does not find
    /// that out.
    fn refusal_by_policy(&self, image: &str, kind: RuntimeKind) -> Option<String> {
        let policy = self.settings.policy.as_ref()?;
        let refuses = format!("the signature policy {} refuses it", pull::POLICY);
        match (pull::verdict(policy, image), kind) {
            (PolicyVerdict::Accepted, _) | (PolicyVerdict::BySignature, RuntimeKind::CriO) => None,
            (PolicyVerdict::Refused, _) => Some(refuses),
            (PolicyVerdict::BySignature, RuntimeKind::Containerd) => Some(format!(
                "{refuses}, for it asks for a signature, and containerd checks none"
            )),
        }
    }

    /// Whether what is missing fits. Images whose sizes cannot be read are left out of `pulled`.
    async fn has_room(
        &self,
        runtime: &RuntimeClient,
        pulled: &mut Vec<String>,
        there: &BTreeMap<String, ImageState>,
        ended: &mut Ended,
    ) -> anyhow::Result<bool> {
        let at_once = self.request.at_once;
        let missing = pulled.iter().filter(|image| !there.contains_key(*image));
        let read = sizes::read(self.host, missing.cloned().collect(), at_once).await?;
        pulled.retain(|image| !read.failures.contains_key(image));
        ended.failures.extend(read.failures);
        let disk = DiskRoom {
            allocatable: self.request.allocatable_bytes,
            free: self.free(runtime).await,
        };
        let sets = &self.request.sets;
        let mut present = BTreeSet::new();
        let mut verdict = pins::room(sets, &read.layers, &present, disk);
        if matches!(verdict, RoomVerdict::Lacks(_)) && !there.is_empty() {
            // What shares layers with images that are there needs less. Those whose layers cannot
            // be read share none.
            let images = there.keys().cloned().collect();
            let shared = sizes::read(self.host, images, at_once).await?.layers;
            present.extend(shared.into_values().flatten().map(|layer| layer.digest));
            verdict = pins::room(sets, &read.layers, &present, disk);
        }
        match verdict {
            RoomVerdict::Fits => return Ok(true),
            RoomVerdict::Lacks(lacks) => ended.lacks = lacks,
            RoomVerdict::Unknown(unknown) => ended.others = unknown,
        }
        Ok(false)
    }

    /// Free bytes of the fullest file system of images; `None` where one is not known.
    async fn free(&self, runtime: &RuntimeClient) -> Option<u64> {
        let places = match runtime.image_file_systems().await {
            Ok(places) => places,
            Err(error) => {
                warn!(error = %Chain(&error), "file systems of images are not known");
                return None;
            }
        };
        let mut least = None;
        for place in places {
            match self.host.free_bytes(self.root, &place) {
                Ok(free) => least = Some(least.map_or(free, |least: u64| least.min(free))),
                Err(error) => {
                    warn!(path = place, %error, "free bytes are not known");
                    return None;
                }
            }
        }
        least
    }

    async fn pull(
        &self,
        runtime: &RuntimeClient,
        images: Vec<String>,
        ended: &mut Ended,
    ) -> anyhow::Result<()> {
        let with_login = images.into_iter().map(|image| {
            // CRI-O has the host's file of credentials, and chooses by mirror.
            let credentials = match runtime.kind() {
                RuntimeKind::Containerd => self.settings.credentials.as_deref(),
                RuntimeKind::CriO => None,
            };
            let login = credentials.and_then(|file| pins::login(file, &image));
            (image, login)
        });
        let end = pulls::pull(runtime, with_login.collect(), self.request.at_once).await?;
        ended.pulled = end.pulled;
        ended.failures.extend(end.failures);
        ended.lacks.extend(end.filled);
        Ok(())
    }

    /// Reads back what is there and pinned.
    async fn verify(&self, runtime: &RuntimeClient, wanted: &BTreeSet<&str>, ended: &mut Ended) {
        let due = wanted.iter().copied();
        let due: BTreeSet<&str> = due
            .filter(|image| !ended.failures.contains_key(*image))
            .collect();
        let is_whole = ended.lacks.is_empty() && ended.others.is_empty();
        let found = settled(runtime, &due, &mut ended.failures).await;
        for image in due {
            let why = match found.get(image) {
                Some(state) if state.is_pinned => {
                    ended.pinned += 1;
                    continue;
                }
                Some(_) => format!(
                    "it is there, and {} does not show it as pinned",
                    runtime.kind()
                ),
                // The reason is there, and holds for all of them.
                None if !is_whole => continue,
                None => "it was pulled, and is not there".to_owned(),
            };
            ended.failures.entry(image.to_owned()).or_insert(why);
        }
    }
}

/// The images that are there. One whose state cannot be read is a failure.
async fn states(
    runtime: &RuntimeClient,
    images: &BTreeSet<&str>,
    failures: &mut BTreeMap<String, String>,
) -> BTreeMap<String, ImageState> {
    let mut there = BTreeMap::new();
    for image in images {
        match runtime.image_status(image).await {
            Ok(Some(state)) => {
                there.insert((*image).to_owned(), state);
            }
            Ok(None) => {}
            Err(error) => {
                failures.insert((*image).to_owned(), cause(&error));
            }
        }
    }
    there
}

/// The same, once those that are there are pinned, or have had the time for it.
async fn settled(
    runtime: &RuntimeClient,
    images: &BTreeSet<&str>,
    failures: &mut BTreeMap<String, String>,
) -> BTreeMap<String, ImageState> {
    let deadline = Instant::now() + SETTLE_WITHIN;
    let mut there = states(runtime, images, failures).await;
    loop {
        let unpinned = there.iter().filter(|(_, state)| !state.is_pinned);
        let unpinned: Vec<String> = unpinned.map(|(image, _)| image.clone()).collect();
        if unpinned.is_empty() || Instant::now() >= deadline {
            return there;
        }
        sleep(SETTLE_PACE).await;
        let images = unpinned.iter().map(String::as_str).collect();
        there.retain(|_, state| state.is_pinned);
        there.extend(states(runtime, &images, failures).await);
    }
}

fn cause(error: &cri::Error) -> String {
    Chain(error).to_string()
}

#[cfg(test)]
mod tests;
