//! The configurations between which a host goes, and the plans of the ways.
//!
//! Between them is everything that a plan can do: files in `/etc` and outside, written, changed and
//! given back, one of them in the place of a file of the OS; units with links, drop-ins and masks; a
//! kernel argument, keys, a password, and another OS.

use anyhow::{Context as _, Result};
use lab::tree::Overlay;
use machineconfig::spec::MachineConfig;
use node_update::disruption::{Action, FilePolicy, Policies, UnitPolicy};
use node_update::plan::Bundle;
use serde_json::{Value, json};
use testbed::plan;

/// What the OS of the origin is said to be: nobody pulls it.
pub(crate) const OLD_OS: &str = "lab.invalid/os:old";

/// The service that is told of a live change.
const TOLD: &str = "told.service";

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
pub(crate) fn none() -> Result<MachineConfig> {
    config("rendered-none", &json!({ "osImageURL": OLD_OS }))
}

/// The origin.
pub(crate) fn old() -> Result<MachineConfig> {
    let files = [
        file("/etc/crash/changed", "old", 0o644, "root"),
        file("/etc/crash/gone", "gone", 0o600, "chrony"),
        file(
            "/etc/crash/below/gone",
            "gone with its folder",
            0o644,
            "root",
        ),
        file("/etc/crash/kept", "kept", 0o640, "root"),
        file(
            "/etc/crash/shadowed",
            "of the old configuration",
            0o600,
            "root",
        ),
        file("/var/lib/crash/changed", "old", 0o644, "root"),
        file("/var/lib/crash/gone", "gone", 0o644, "chrony"),
    ];
    let units = [
        service("old.service", "old"),
        json!({ "name": TOLD, "enabled": true, "contents":
            "[Service]\nType=oneshot\nRemainAfterExit=true\nExecStart=true\nExecReload=true\n\
             [Install]\nWantedBy=multi-user.target\n" }),
    ];
    let users = json!([{ "name": "core", "sshAuthorizedKeys": ["ssh-ed25519 AAAA old"] }]);
    config(
        "rendered-old",
        &json!({
            "osImageURL": OLD_OS,
            "config": ignition(&files, &units, &users),
        }),
    )
}

/// The target of an update with a reboot, to the OS that this pull spec names.
pub(crate) fn rebooted(os: &str) -> Result<MachineConfig> {
    let files = [
        file("/etc/crash/changed", "new", 0o600, "root"),
        file("/etc/crash/added", "added", 0o600, "chrony"),
        file(
            "/etc/crash/far/down/added",
            "added with its folders",
            0o644,
            "root",
        ),
        file("/etc/crash/kept", "kept", 0o640, "root"),
        file("/var/lib/crash/changed", "new", 0o600, "chrony"),
        file(
            "/var/lib/crash/far/added",
            "added with its folder",
            0o644,
            "root",
        ),
    ];
    let units = [
        json!({ "name": "new.service", "enabled": true, "contents": text("new"),
            "dropins": [{ "name": "10-more.conf", "contents": "[Unit]\nDescription=more\n" }] }),
        json!({ "name": TOLD, "enabled": true, "contents": text("told") }),
        json!({ "name": "fstrim.timer", "mask": true }),
    ];
    let users = json!([{ "name": "core", "passwordHash": "$6$salt$hash",
        "sshAuthorizedKeys": ["ssh-ed25519 AAAA new", "ssh-ed25519 AAAA more"] }]);
    config(
        "rendered-new",
        &json!({
            "osImageURL": os,
            "kernelArguments": ["crash=1"],
            "config": ignition(&files, &units, &users),
        }),
    )
}

/// The target of a change without a reboot.
pub(crate) fn live() -> Result<MachineConfig> {
    let files = [
        file("/etc/crash/changed", "live", 0o600, "root"),
        file("/etc/crash/added", "added", 0o600, "chrony"),
        file(
            "/etc/crash/far/down/added",
            "added with its folders",
            0o644,
            "root",
        ),
        file("/etc/crash/kept", "kept", 0o640, "root"),
        file("/var/lib/crash/changed", "live", 0o600, "chrony"),
    ];
    let units = [
        json!({ "name": "new.service", "enabled": true, "contents": text("new"),
            "dropins": [{ "name": "10-more.conf", "contents": "[Unit]\nDescription=more\n" }] }),
        json!({ "name": TOLD, "enabled": true, "contents": text("told") }),
        json!({ "name": "fstrim.timer", "mask": true }),
    ];
    let users = json!([{ "name": "core", "passwordHash": "$6$salt$hash",
        "sshAuthorizedKeys": ["ssh-ed25519 AAAA live"] }]);
    config(
        "rendered-live",
        &json!({
            "osImageURL": OLD_OS,
            "config": ignition(&files, &units, &users),
        }),
    )
}

/// Plans a way. Nothing asks for a reboot but the OS and kernel arguments; a file that changes has
/// the service told.
pub(crate) fn plan(attempt: &str, from: &MachineConfig, to: &MachineConfig) -> Result<Bundle> {
    let file = |path: &str, actions| FilePolicy {
        path: path.to_owned(),
        actions,
    };
    let units = ["old.service", "new.service", "fstrim.timer", TOLD];
    let policies = Policies {
        files: vec![
            file("/", vec![Action::None]),
            file("/etc/crash/changed", vec![Action::Reload(TOLD.to_owned())]),
        ],
        units: units
            .map(|name| UnitPolicy {
                name: name.to_owned(),
                actions: vec![Action::None],
            })
            .to_vec(),
        sshkey: vec![Action::None],
    };
    plan::between(attempt, from, to, &policies)
}

fn config(name: &str, spec: &Value) -> Result<MachineConfig> {
    let object = json!({ "metadata": { "name": name }, "spec": spec });
    let (config, _) = MachineConfig::parse(&object).context("the test's own configuration")?;
    Ok(config)
}

fn ignition(files: &[Value], units: &[Value], users: &Value) -> Value {
    json!({
        "ignition": { "version": "3.4.0" },
        "storage": { "files": files },
        "systemd": { "units": units },
        "passwd": { "users": users },
    })
}

fn file(path: &str, content: &str, mode: u32, owner: &str) -> Value {
    json!({ "path": path, "mode": mode, "overwrite": true, "user": { "name": owner },
        "group": { "name": owner }, "contents": { "source": format!("data:,{}", content.replace(' ', "%20")) } })
}

fn service(name: &str, what: &str) -> Value {
    json!({ "name": name, "enabled": true, "contents": text(what) })
}

fn text(what: &str) -> String {
    format!(
        "[Unit]\nDescription={what}\n[Service]\nType=oneshot\nRemainAfterExit=true\nExecStart=true\n\
         ExecReload=true\n[Install]\nWantedBy=multi-user.target\n"
    )
}
