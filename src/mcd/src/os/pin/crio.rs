//! CRI-O pins by a file of its settings, which it reads when it is reloaded.

use cri::{RuntimeClient, RuntimeKind};
use host::files::{Content, Root};
use node_update::pins::{PINS_DROPIN, RequestedPins, dropin};
use node_update::plan::{Mode, OwnerIds};

use super::pin_host::PinHost;

/// Has the file name the images of these sets, and CRI-O read it where that changed it; whether it
/// did. Images that are still to come are in it, too: each is pinned from when it is there. On a
/// host of another runtime there is no file.
///
/// A file that was not read is put back as it was, so that the next run reloads.
pub(super) async fn bring(
    root: &Root,
    runtime: Option<&RuntimeClient>,
    sets: &RequestedPins,
    host: &impl PinHost,
) -> anyhow::Result<bool> {
    let is_crio = runtime.is_some_and(|runtime| runtime.kind() == RuntimeKind::CriO);
    let before = root.read(PINS_DROPIN)?;
    let wanted = dropin(sets).filter(|_| is_crio);
    if before.as_deref() == wanted.as_deref().map(str::as_bytes) {
        return Ok(false);
    }
    write(root, wanted.as_deref().map(str::as_bytes))?;
    // One that does not run reads it when it starts.
    if is_crio && let Err(error) = host.reload_crio().await {
        write(root, before.as_deref())?;
        return Err(error);
    }
    Ok(true)
}

fn write(root: &Root, bytes: Option<&[u8]>) -> anyhow::Result<()> {
    let at = root.locate(PINS_DROPIN)?;
    match bytes {
        Some(bytes) => root.replace(
            &at,
            Content {
                bytes,
                mode: Mode(0o644),
                owner: OwnerIds::ROOT,
            },
        )?,
        None => root.remove(&at)?,
    }
    Ok(())
}
