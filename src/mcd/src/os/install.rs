//! `guard --install`: the units that run the guard at boot, written when a node is adopted.

use std::path::Path;

use anyhow::Context as _;
use chassis::report::Chain;
use host::execute::{RunningUnits, Units as _};
use host::files::{Content, Found, Root};
use host::ostree::live_root;
use host::record;
use host::systemd::{Enablement, links};
use node_update::decode::dropins_of;
use node_update::plan::{Digest, Mode, OwnerIds};
use tracing::{info, warn};

use super::context::Context;
use crate::own_units::{UNITS, wanted_by};
use crate::program;
use crate::protocol::HelperReport;

const SELF: &str = "/proc/self/exe";

pub(super) fn run(context: &Context) -> anyhow::Result<HelperReport> {
    let root = &context.root;
    if is_installed(root)? {
        // The daemon of a host that has just booted need not wait until what was left is removed.
        return Ok(HelperReport::done());
    }
    let _lock = context.lock()?;
    place_program(root)?;
    let mut units = RunningUnits::new(&context.runtime);
    let mut is_changed = false;
    for (name, text) in UNITS {
        let at = links::unit_path(root, name)?;
        let wanted = Content {
            bytes: text.as_bytes(),
            mode: Mode(0o644),
            owner: OwnerIds::ROOT,
        };
        let is_same =
            matches!(root.look(&at)?, Found::File { bytes, .. } if bytes == text.as_bytes());
        root.replace(&at, wanted)?;
        // An earlier version's unit is enabled, too, and wanted by another target.
        let by = wanted_by(text);
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let is_enabled = links::keep_wanted(root, name, &by)?;
        if !is_enabled {
            units.set_enablement(Enablement::Enable, name)?;
        }
        is_changed |= !is_same || !is_enabled;
    }
    is_changed |= order_after_guard(root)?;
    if is_changed {
        units.reload_manager()?;
        info!("guard is installed");
    }
    Ok(HelperReport::done())
}

/// Whether all of it is in place, by this program.
fn is_installed(root: &Root) -> anyhow::Result<bool> {
    let Some(program) = placed()? else {
        return Ok(false);
    };
    if root.inspect(program::LINK)? != Found::Link(program.as_str().into()) {
        return Ok(false);
    }
    for (name, text) in UNITS {
        let there = root.look(&links::unit_path(root, name)?)?;
        let is_same = there
            == Found::File {
                bytes: text.as_bytes().to_vec(),
                mode: Mode(0o644),
                owner: OwnerIds::ROOT,
            };
        let by = wanted_by(text);
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        if !is_same || !links::is_wanted_by(root, name, &by)? {
            return Ok(false);
        }
    }
    Ok(missing_dropins(root)?.is_empty())
}

/// Writes the drop-ins of the configuration that the host is recorded to be in, which another
/// program or version put there; whether one is new.
fn order_after_guard(root: &Root) -> anyhow::Result<bool> {
    let missing = missing_dropins(root)?;
    for (path, text) in &missing {
        root.replace(
            &root.locate(path)?,
            Content {
                bytes: text.as_bytes(),
                mode: Mode(0o644),
                owner: OwnerIds::ROOT,
            },
        )?;
    }
    Ok(!missing.is_empty())
}

/// Those drop-ins that are not there, by their paths.
fn missing_dropins(root: &Root) -> anyhow::Result<Vec<(String, &'static str)>> {
    let Some(record) = record::read(root)? else {
        return Ok(Vec::new());
    };
    let config = match record.machine_config() {
        Ok(config) => config,
        Err(error) => {
            // The next update's configuration is checked before it is written.
            warn!(error = %Chain(&error), "units of this configuration are not ordered");
            return Ok(Vec::new());
        }
    };
    let mut missing = Vec::new();
    for (path, text) in dropins_of(&config) {
        if root.look(&root.locate(&path)?)? == Found::Nothing {
            missing.push((path, text));
        }
    }
    Ok(missing)
}

/// Has the link name this program, which is copied first where it is not among ours: on a host
/// without a cluster it comes from anywhere.
fn place_program(root: &Root) -> anyhow::Result<()> {
    let target = match placed()? {
        Some(placed) => placed,
        None => copy_program()?,
    };
    Ok(root.symlink(&root.locate(program::LINK)?, &target.as_str().into())?)
}

/// The path of this program beside the link, if it is among ours.
fn placed() -> anyhow::Result<Option<String>> {
    let path = std::fs::read_link(SELF).context("cannot find this program")?;
    match path.strip_prefix(program::DIRECTORY) {
        // One that lies where the link is to be is copied, too.
        Ok(inside) if inside.components().count() > 1 => {
            let inside = inside
                .to_str()
                .context("this program's path is not UTF-8")?;
            Ok(Some(inside.to_owned()))
        }
        Ok(_) | Err(_) => Ok(None),
    }
}

/// Copies this program to the directory of its digest, and returns its path beside the link.
fn copy_program() -> anyhow::Result<String> {
    let bytes = std::fs::read(Path::new(SELF)).context("cannot read this program")?;
    let digest = Digest::of(&bytes);
    program::place(live_root()?, digest.as_str(), program::NAME, &bytes)?;
    Ok(format!("{}/{}", digest.as_str(), program::NAME))
}
