//! The configurations of these tests, and the plans between them.

use anyhow::Result;
use machineconfig::spec::NodeConfig;
use node_update::disruption::Action;
use node_update::plan::Bundle;
use serde_json::{Value, json};
use testbed::config::{Config, File, masked, service, unit, unit_with_drop_in};
use testbed::plan;

/// The pull spec of the first OS, which is never pulled.
pub(crate) const FIRST_OS: &str = "lab.invalid/os:first";

/// A file that the OS ships and a configuration has in its place.
pub(crate) const SHADOWED: &str = "/etc/managed/shadowed.conf";

/// A service that a change restarts.
pub(crate) const NOTIFIED: &str = "notified.service";

/// What a host is in that no configuration was given yet.
pub(crate) fn none() -> Result<NodeConfig> {
    Config::new().os(FIRST_OS).rendered("rendered-none")
}

/// One of everything, on this OS.
pub(crate) fn full(os: &str) -> Result<NodeConfig> {
    let files = [
        File::new("/etc/managed/secret", "secret")
            .mode(0o600)
            .owner("chrony"),
        File::new("/etc/managed/static-owner", "static")
            .mode(0o640)
            .owner("ostreesvc"),
        File::new("/etc/managed/packed", "packed content\n").compressed(),
        File::new(SHADOWED, "of the configuration").mode(0o600),
        File::new("/home/core/notes", "at home")
            .mode(0o640)
            .owner("core"),
        File::new("/usr/local/bin/tool", "#!/bin/sh").mode(0o755),
        File::new("/var/lib/managed/data", "data"),
    ];
    let units = [
        own_service(),
        masked("fstrim.timer"),
        json!({ "name": "nowhere.service", "enabled": true }),
    ];
    Config::new()
        .os(os)
        .argument("slipway.test=1")
        .files(files)
        .units(units)
        .user(json!({
            "name": "core", "passwordHash": "$6$salt$hash",
            "sshAuthorizedKeys": ["ssh-ed25519 AAAA core@lab"],
        }))
        .rendered("rendered-full")
}

/// A service with a drop-in.
pub(crate) fn own_service() -> Value {
    let more = ("10-more.conf", "[Service]\nEnvironment=MORE=1\n");
    unit_with_drop_in("own.service", &service("own"), more)
}

/// A configuration whose changes need no reboot.
pub(crate) fn quiet(name: &str, content: &str, service: &str) -> Result<NodeConfig> {
    let files = [
        File::new("/etc/managed/quiet", content)
            .mode(0o640)
            .owner("chrony"),
        File::new("/home/core/quiet", content)
            .mode(0o600)
            .owner("core"),
    ];
    Config::new()
        .os(FIRST_OS)
        .files(files)
        .units([unit(NOTIFIED, service)])
        .keys(&[&format!("ssh-ed25519 {content}")])
        .rendered(name)
}

/// Plans the update from [`none`] to [`full`].
pub(crate) fn to_full(attempt: &str, os: &str) -> Result<Bundle> {
    plan(attempt, &none()?, &full(os)?)
}

/// Plans an update. A change of files, of the notified service, or of keys needs no reboot; the
/// service is restarted then.
pub(crate) fn plan(attempt: &str, from: &NodeConfig, to: &NodeConfig) -> Result<Bundle> {
    let restart = [Action::DaemonReload, Action::Restart(NOTIFIED.to_owned())];
    let policies = plan::policies(&[], &[(NOTIFIED, &restart)]);
    plan::between(attempt, from, to, &policies)
}
