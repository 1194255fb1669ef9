//! Names and texts of units and drop-ins.

use super::super::{Systemd, unit_text};
use super::{Verdict, is_unset};

/// Suffixes of units.
const SUFFIXES: [&str; 12] = [
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
    "snapshot",
    "slice",
    "scope",
];

pub(super) fn validate(systemd: &Systemd, verdict: &mut Verdict) {
    for (index, unit) in systemd.units.iter().enumerate() {
        let at = format!("systemd.units[{index}]");
        check_name(&unit.name, &at, verdict);
        let contents = unit.contents.as_deref().unwrap_or_default();
        match unit_text::parse(contents) {
            Err(why) => verdict.refuse(format!("{at}.contents"), in_unit(&unit.name, &why)),
            Ok(settings) => {
                let enabled = unit.enabled == Some(true) && unit.mask != Some(true);
                let installs = settings.iter().any(|setting| setting.section == "Install");
                if enabled && !is_unset(unit.contents.as_deref()) && !installs {
                    let text = format!(
                        "unit {:?} is enabled, but has no [Install] section",
                        unit.name
                    );
                    verdict.warn(format!("{at}.contents"), text);
                }
            }
        }
        for (drop, dropin) in unit.dropins.iter().enumerate() {
            let at = format!("{at}.dropins[{drop}]");
            if !is_file_name(&dropin.name) || extension(&dropin.name) != Some("conf") {
                let why = format!("invalid systemd drop-in name {:?}", dropin.name);
                verdict.refuse(format!("{at}.name"), why);
            }
            if let Err(why) = unit_text::parse(dropin.contents.as_deref().unwrap_or_default()) {
                verdict.refuse(format!("{at}.contents"), in_unit(&dropin.name, &why));
            }
        }
    }
}

fn in_unit(name: &str, why: &str) -> String {
    format!("invalid unit content of {name:?}: {why}")
}

fn check_name(name: &str, at: &str, verdict: &mut Verdict) {
    let field = format!("{at}.name");
    match extension(name) {
        None => verdict.refuse(field, format!("no systemd unit extension in {name:?}")),
        Some(suffix) if !SUFFIXES.contains(&suffix) => {
            verdict.refuse(field, format!("invalid systemd unit extension in {name:?}"));
        }
        Some(_) if !is_file_name(name) => {
            verdict.refuse(field, format!("invalid systemd unit name {name:?}"));
        }
        Some(_) => {}
    }
}

/// What follows the last dot.
fn extension(name: &str) -> Option<&str> {
    name.rsplit_once('.').map(|(_, extension)| extension)
}

/// Whether a name can be one of a file that systemd reads: no directory, not hidden, at most 255
/// bytes.
fn is_file_name(name: &str) -> bool {
    !name.starts_with('.')
        && name.len() <= 255
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c))
}
