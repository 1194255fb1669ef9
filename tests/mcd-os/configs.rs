//! The configurations of these tests, and the plans between them.

use anyhow::{Context as _, Result};
use machineconfig::spec::MachineConfig;
use node_update::disruption::{Action, FilePolicy, Policies, UnitPolicy};
use node_update::plan::Bundle;
use serde_json::{Value, json};
use testbed::plan;

/// What the first OS is said to be: nobody pulls it.
pub(crate) const FIRST_OS: &str = "lab.invalid/os:first";

/// A file that the OS ships and a configuration has in its place.
pub(crate) const SHADOWED: &str = "/etc/managed/shadowed.conf";

/// A service that can be told of a change.
pub(crate) const TOLD: &str = "told.service";

/// A configuration of these files, units, kernel arguments, on this OS.
pub(crate) fn config(
    name: &str,
    os: &str,
    arguments: &[&str],
    files: &[Value],
    units: &[Value],
    users: &Value,
) -> Result<MachineConfig> {
    let object = json!({ "metadata": { "name": name }, "spec": {
        "osImageURL": os,
        "kernelArguments": arguments,
        "config": {
            "ignition": { "version": "3.4.0" },
            "storage": { "files": files },
            "systemd": { "units": units },
            "passwd": { "users": users },
        },
    }});
    let (config, _) = MachineConfig::parse(&object).context("the test's own configuration")?;
    Ok(config)
}

/// What a host is in that no configuration was given yet.
pub(crate) fn none() -> Result<MachineConfig> {
    config("rendered-none", FIRST_OS, &[], &[], &[], &json!([]))
}

/// One of everything, on this OS.
pub(crate) fn full(os: &str) -> Result<MachineConfig> {
    let files = [
        file("/etc/managed/secret", "secret", 0o600, "chrony"),
        file("/etc/managed/static-owner", "static", 0o640, "ostreesvc"),
        json!({ "path": "/etc/managed/packed", "mode": 0o644, "overwrite": true, "contents": {
            "source": "data:;base64,H4sIAAAAAAACAytITM5OTVFIzs8rSc0r4QIA19LbqQ8AAAA=",
            "compression": "gzip" } }),
        file(SHADOWED, "of the configuration", 0o600, "root"),
        file("/home/core/notes", "at home", 0o640, "core"),
        file("/usr/local/bin/tool", "#!/bin/sh", 0o755, "root"),
        file("/var/lib/managed/data", "data", 0o644, "root"),
    ];
    let units = [
        json!({ "name": "own.service", "enabled": true, "contents": service("own"),
            "dropins": [{ "name": "10-more.conf", "contents": "[Service]\nEnvironment=MORE=1\n" }] }),
        json!({ "name": "fstrim.timer", "mask": true }),
        json!({ "name": "nowhere.service", "enabled": true }),
    ];
    let users = json!([{ "name": "core", "passwordHash": "$6$salt$hash",
        "sshAuthorizedKeys": ["ssh-ed25519 AAAA core@lab"] }]);
    config(
        "rendered-full",
        os,
        &["slipway.test=1"],
        &files,
        &units,
        &users,
    )
}

/// A configuration whose changes need no reboot.
pub(crate) fn quiet(name: &str, content: &str, told: &str) -> Result<MachineConfig> {
    let files = [
        file("/etc/managed/quiet", content, 0o640, "chrony"),
        file("/home/core/quiet", content, 0o600, "core"),
    ];
    let units = [json!({ "name": TOLD, "enabled": true, "contents": told })];
    let users =
        json!([{ "name": "core", "sshAuthorizedKeys": [format!("ssh-ed25519 {content}")] }]);
    config(name, FIRST_OS, &[], &files, &units, &users)
}

/// Plans a way. A change of files, of the told service, or of keys needs no reboot; the service is
/// restarted then.
pub(crate) fn plan(attempt: &str, from: &MachineConfig, to: &MachineConfig) -> Result<Bundle> {
    let file = |path: &str, actions| FilePolicy {
        path: path.to_owned(),
        actions,
    };
    let told = vec![Action::DaemonReload, Action::Restart(TOLD.to_owned())];
    let policies = Policies {
        files: vec![file("/", vec![Action::None])],
        units: vec![UnitPolicy {
            name: TOLD.to_owned(),
            actions: told,
        }],
        sshkey: vec![Action::None],
    };
    plan::between(attempt, from, to, &policies)
}

pub(crate) fn file(path: &str, content: &str, mode: u32, owner: &str) -> Value {
    let source = format!("data:,{}", content.replace('#', "%23").replace(' ', "%20"));
    json!({ "path": path, "mode": mode, "overwrite": true, "user": { "name": owner },
        "group": { "name": owner }, "contents": { "source": source } })
}

/// A service that runs once and stays.
pub(crate) fn service(what: &str) -> String {
    format!(
        "[Unit]\nDescription={what}\n[Service]\nType=oneshot\nRemainAfterExit=true\n\
         ExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
    )
}
