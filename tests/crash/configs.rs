//! The configurations between which a host is updated, and the plans of the scenarios.
//!
//! Between them is everything that a plan can do: files in `/etc` and outside, written, changed and
//! restored, one of them in the place of a file of the OS; units with links, drop-ins and masks; a
//! kernel argument, keys, a password, and another OS.

use anyhow::Result;
use lab::tree::Overlay;
use machineconfig::spec::NodeConfig;
use node_update::disruption::Action;
use node_update::plan::Bundle;
use serde_json::json;
use testbed::config::{Config, File, masked, service, unit, unit_with_drop_in};
use testbed::plan;

/// The pull spec of the origin's OS, which is never pulled.
pub(crate) const OLD_OS: &str = "lab.invalid/os:old";

/// The service that a live update reloads.
const NOTIFIED: &str = "notified.service";

/// A file of the OS that the origin's configuration has in its place.
const SHADOWED: &str = "/usr/etc/crash/shadowed";

/// The OS of the origin.
pub(crate) fn old_os() -> Overlay {
    Overlay::version("crash-old").file(SHADOWED, "of the old OS\n", 0o644)
}

/// The OS of the target, whose own version of the shadowed file has other bytes and another mode.
pub(crate) fn new_os() -> Overlay {
    Overlay::version("crash-new").file(SHADOWED, "of the new OS\n", 0o640)
}

/// Nothing: what a host is in before it has a configuration.
pub(crate) fn none() -> Result<NodeConfig> {
    Config::new().os(OLD_OS).rendered("rendered-none")
}

/// The origin.
pub(crate) fn old() -> Result<NodeConfig> {
    let files = [
        File::new("/etc/crash/changed", "old"),
        File::new("/etc/crash/gone", "gone")
            .mode(0o600)
            .owner("chrony"),
        File::new("/etc/crash/below/gone", "gone with its folder"),
        File::new("/etc/crash/kept", "kept").mode(0o640),
        File::new("/etc/crash/shadowed", "of the old configuration").mode(0o600),
        File::new("/var/lib/crash/changed", "old"),
        File::new("/var/lib/crash/gone", "gone").owner("chrony"),
    ];
    Config::new()
        .os(OLD_OS)
        .files(files)
        .units([
            unit("old.service", &service("old")),
            unit(NOTIFIED, &service("notified before")),
        ])
        .keys(&["ssh-ed25519 AAAA old"])
        .rendered("rendered-old")
}

/// The target of an update with a reboot, to the OS that this pull spec names.
pub(crate) fn rebooted(os: &str) -> Result<NodeConfig> {
    let files = [
        File::new("/etc/crash/changed", "new").mode(0o600),
        File::new("/var/lib/crash/changed", "new")
            .mode(0o600)
            .owner("chrony"),
        File::new("/var/lib/crash/far/added", "added with its folder"),
    ];
    target(&["ssh-ed25519 AAAA new", "ssh-ed25519 AAAA more"])
        .os(os)
        .argument("crash=1")
        .files(files)
        .rendered("rendered-new")
}

/// The target of a change without a reboot.
pub(crate) fn live() -> Result<NodeConfig> {
    let files = [
        File::new("/etc/crash/changed", "live").mode(0o600),
        File::new("/var/lib/crash/changed", "live")
            .mode(0o600)
            .owner("chrony"),
    ];
    target(&["ssh-ed25519 AAAA live"])
        .os(OLD_OS)
        .files(files)
        .rendered("rendered-live")
}

/// What both targets have.
fn target(keys: &[&str]) -> Config {
    let files = [
        File::new("/etc/crash/added", "added")
            .mode(0o600)
            .owner("chrony"),
        File::new("/etc/crash/far/down/added", "added with its folders"),
        File::new("/etc/crash/kept", "kept").mode(0o640),
    ];
    let more = ("10-more.conf", "[Unit]\nDescription=more\n");
    let new = unit_with_drop_in("new.service", &service("new"), more);
    let user = json!({
        "name": "core", "passwordHash": "$6$salt$hash", "sshAuthorizedKeys": keys,
    });
    Config::new()
        .files(files)
        .units([
            new,
            unit(NOTIFIED, &service("notified")),
            masked("fstrim.timer"),
        ])
        .user(user)
}

/// Plans an update. Nothing asks for a reboot but the OS and kernel arguments; a file that changes
/// reloads the service.
pub(crate) fn plan(attempt: &str, from: &NodeConfig, to: &NodeConfig) -> Result<Bundle> {
    let none: &[Action] = &[Action::None];
    let reload = [Action::Reload(NOTIFIED.to_owned())];
    let units = ["old.service", "new.service", "fstrim.timer", NOTIFIED].map(|name| (name, none));
    let policies = plan::policies(&[("/etc/crash/changed", &reload)], &units);
    plan::between(attempt, from, to, &policies)
}
