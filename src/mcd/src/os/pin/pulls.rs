//! Pulls of several images at once, each tried several times.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use chassis::backoff::Backoff;
use cri::{Error, RuntimeClient, RuntimeKind};
use node_update::pins::RegistryLogin;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{info, warn};

use super::{cause, containerd};

/// How often an image is tried.
const TRIES: u32 = 5;

/// The first wait between two tries, and the longest.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// How pulls ended.
#[derive(Debug, Default)]
pub(super) struct PullsEnd {
    pub(super) pulled: usize,
    /// Why an image was not pulled, or not pinned.
    pub(super) failures: BTreeMap<String, String>,
    /// The pull that filled the disk, which ends all others.
    pub(super) filled: Option<String>,
}

/// Pulls images, at most `at_once` beside each other, and pins each where that takes a call.
pub(super) async fn pull(
    runtime: &RuntimeClient,
    images: Vec<(String, Option<RegistryLogin>)>,
    at_once: usize,
) -> anyhow::Result<PullsEnd> {
    let mut end = PullsEnd::default();
    let mut waiting = images.into_iter();
    let mut running = JoinSet::new();
    loop {
        while running.len() < at_once
            && let Some((image, login)) = waiting.next()
        {
            let runtime = runtime.clone();
            running.spawn(async move {
                let pulled = pull_one(&runtime, &image, login.as_ref()).await;
                (image, pulled)
            });
        }
        let Some(joined) = running.join_next().await else {
            return Ok(end);
        };
        match joined.context("a pull ended without a result")? {
            (_, Ok(())) => end.pulled += 1,
            (image, Err(error)) if error.is_no_space() => {
                end.filled = Some(format!("{image}: {}", cause(&error)));
                // The runtime ends what is not waited for any more.
                running.shutdown().await;
                return Ok(end);
            }
            (image, Err(error)) => {
                end.failures.insert(image, cause(&error));
            }
        }
    }
}

async fn pull_one(
    runtime: &RuntimeClient,
    image: &str,
    login: Option<&RegistryLogin>,
) -> Result<(), Error> {
    let mut backoff = Backoff::new(WAITS.0, WAITS.1);
    loop {
        match runtime.pull(image, login).await {
            Ok(()) => break,
            Err(error) if error.is_no_space() => return Err(error),
            Err(error) => {
                let wait = backoff.next_delay();
                if backoff.failures() == TRIES {
                    return Err(error);
                }
                warn!(image, error = cause(&error), "could not pull, tries again");
                sleep(wait).await;
            }
        }
    }
    info!(image, "pulled");
    match runtime.kind() {
        // Before others are pulled: the kubelet may collect what has no pin.
        RuntimeKind::Containerd => match runtime.image_status(image).await? {
            Some(state) => containerd::pin(runtime, &state.id).await,
            // The last check names it.
            None => Ok(()),
        },
        RuntimeKind::CriO => Ok(()),
    }
}
