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

/// A kernel argument, on this OS: nothing that deployments share.
pub(crate) fn argument(os: &str) -> Result<NodeConfig> {
    let config = Config::new().os(os).argument("slipway.test=1");
    config.rendered("rendered-argument")
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

/// Where the units of [`early`] say which version of them runs: a line has the boot, the unit, the
/// version of its file and that of its script.
pub(crate) const EARLY_LOG: &str = "/var/log/early";

/// The units of [`early`] that run its script.
const EARLY_UNITS: [&str; 3] = ["free", "timed", "unordered"];

/// Their files.
pub(crate) const EARLY_FILES: [&str; 3] = [
    "early-free.service",
    "early-timed.service",
    "early-unordered.service",
];

/// The script outside `/etc` whose version units log, and three units that run it at boot: one that
/// nothing orders, one without default dependencies, and one by a timer.
pub(crate) fn early(version: &str) -> (File, [Value; 4]) {
    let script = format!(
        "#!/bin/sh\necho \"$(cat /proc/sys/kernel/random/boot_id) $1 $2 {version}\" >>{EARLY_LOG}\n"
    );
    let runs = |unit: &str, of_unit: &str, install: &str| {
        format!(
            "[Unit]\nDescription={unit}\n{of_unit}\n[Service]\nType=oneshot\n\
             RemainAfterExit=yes\nExecStart=/usr/local/bin/early {unit} {version}\n{install}"
        )
    };
    let wanted = |by: &str| format!("[Install]\nWantedBy={by}\n");
    let timer = format!("[Timer]\nOnActiveSec=0\n{}", wanted("timers.target"));
    let units = [
        unit(
            "early-unordered.service",
            &runs("unordered", "", &wanted("multi-user.target")),
        ),
        unit(
            "early-free.service",
            &runs("free", "DefaultDependencies=no", &wanted("sysinit.target")),
        ),
        json!({ "name": "early-timed.service", "contents": runs("timed", "", "") }),
        unit("early-timed.timer", &timer),
    ];
    let script = File::new("/usr/local/bin/early", script).mode(0o755);
    (script, units)
}

/// A configuration of [`early`] alone.
pub(crate) fn only_early(version: &str, os: &str) -> Result<NodeConfig> {
    let (script, units) = early(version);
    let name = format!("rendered-{version}");
    Config::new()
        .os(os)
        .files([script])
        .units(units)
        .rendered(&name)
}

/// A shell's command for the lines of this boot.
pub(crate) fn early_in_this_boot() -> String {
    format!(
        "grep \"^$(cat /proc/sys/kernel/random/boot_id) \" {EARLY_LOG} | cut -d' ' -f2- | sort -u"
    )
}

/// What that prints if every unit ran this version alone.
pub(crate) fn all_early(version: &str) -> String {
    EARLY_UNITS
        .map(|unit| format!("{unit} {version} {version}"))
        .join("\n")
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
/// service is restarted then. Other units need one.
pub(crate) fn plan(attempt: &str, from: &NodeConfig, to: &NodeConfig) -> Result<Bundle> {
    plan_by(attempt, from, to, &[NOTIFIED])
}

/// The same, where a change of these units restarts the notified service and needs no reboot.
pub(crate) fn plan_by(
    attempt: &str,
    from: &NodeConfig,
    to: &NodeConfig,
    units: &[&str],
) -> Result<Bundle> {
    let restart = [Action::DaemonReload, Action::Restart(NOTIFIED.to_owned())];
    let units: Vec<(&str, &[Action])> = units.iter().map(|unit| (*unit, &restart[..])).collect();
    plan::between(attempt, from, to, &plan::policies(&[], &units))
}
