//! containerd pins by a label of the record of an image's id.

use std::collections::BTreeSet;

use cri::{Error, RuntimeClient};
use node_update::pins::{PINNED, PinnedBy, SLIPWAYS, pinned_by};
use tracing::info;

/// Pins the image with an id. What others have pinned stays theirs.
pub(super) async fn pin(runtime: &RuntimeClient, id: &str) -> Result<(), Error> {
    let labels = runtime.record(id).await?.map(|record| record.labels);
    match labels.as_ref().map(pinned_by) {
        Some(PinnedBy::Slipway | PinnedBy::Others) => Ok(()),
        // Without a record the label fails, and names it.
        Some(PinnedBy::Unpinned) | None => runtime.label(id, &[PINNED, SLIPWAYS]).await,
    }
}

/// Drops the pins of Slipway on all images but those with these ids; the ids.
pub(super) async fn unpin_others(
    runtime: &RuntimeClient,
    kept: &BTreeSet<&str>,
) -> Result<Vec<String>, Error> {
    let mut unpinned = Vec::new();
    for record in runtime.records(SLIPWAYS).await? {
        if kept.contains(record.name.as_str()) {
            continue;
        }
        let labels = [(PINNED.0, ""), (SLIPWAYS.0, "")];
        runtime.label_if_there(&record.name, &labels).await?;
        info!(image = record.name, "dropped its pin");
        unpinned.push(record.name);
    }
    Ok(unpinned)
}
