//! The rolls: what a pool is asked to become, and what must then be found on each host.

use lab::tree::Overlay;
use observer::host::Fact;
use serde_json::Value;
use testbed::config::{Config, File, first_boot_unit, masked, unit_with_drop_in};

/// A file that the OS ships and the first roll shadows.
const SHADOWED: &str = "/etc/issue";
const SHADOW: &str = "configured, not the OS's\n";
/// What later OSes ship in its place.
const ISSUE: &str = "this is the third OS's own\n";
/// Group 4 is adm.
const ISSUE_OWNER: (u32, u32) = (0, 4);
const SECRET: &str = "for its owner only\n";
const MOTD: &str = "compressed on the way\n";
const ARGUMENT: &str = "slipway.demo=1";
/// Below a path whose changes need no action.
const LIVE: &str = "/etc/nmstate/openshift/demo.yml";
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDemoDemoDemoDemoDemoDemoDemoDemoDemoDemo1 demo";
const NEXT_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDemoDemoDemoDemoDemoDemoDemoDemoDemoDemo2 demo";
const UNIT: &str = "[Unit]
Description=Says that the demo was here

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/false

[Install]
WantedBy=multi-user.target
";
/// Without it the unit fails.
const DROP_IN: &str = "[Service]\nExecStart=\nExecStart=/bin/true\n";

/// One roll of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Roll {
    pub(crate) title: &'static str,
    /// The OS it brings; none where it stays.
    pub(crate) os: Option<Overlay>,
    /// All of the MachineConfig but the OS.
    config: Config,
    /// What holds afterwards, besides the booted commit.
    pub(crate) facts: Vec<Fact>,
}

impl Roll {
    /// `spec` of the MachineConfig, with this image.
    pub(crate) fn spec(&self, image: &str) -> Value {
        self.config.clone().os(image).spec()
    }
}

/// What the workers roll to before a managed upgrade: the OS of the release that the cluster is at
/// then, and a configuration with which a new host joins.
pub(crate) fn before_managed() -> Roll {
    let third = third();
    Roll {
        title: "configuration of the pool",
        os: Some(third_os()),
        config: third.config.units([first_boot_unit()]),
        ..third
    }
}

/// The last roll, of all nodes: the cluster gets another release. The workers keep the
/// configuration of `before`, the roll before.
pub(crate) fn release(before: Roll) -> Roll {
    let Roll { config, facts, .. } = before;
    let os = Overlay::version("v4").owned_file("/usr/etc/issue", ISSUE, 0o640, ISSUE_OWNER);
    Roll {
        title: "another release, by the version operator",
        os: Some(os.file("/usr/share/demo/fourth", "v4\n", 0o644)),
        config,
        facts,
    }
}

/// The same, where a managed upgrade asks for it.
pub(crate) fn managed_release(before: Roll) -> Roll {
    Roll {
        title: "another release, by a managed upgrade",
        ..release(before)
    }
}

/// What the second roll brings, and the control plane has from the start: the OS of the release
/// that the cluster is at when it gets another.
pub(crate) fn third_os() -> Overlay {
    Overlay::version("v3").owned_file("/usr/etc/issue", ISSUE, 0o640, ISSUE_OWNER)
}

/// What the first roll brings.
fn second_os() -> Overlay {
    Overlay::version("v2").file("/usr/share/demo/second", "v2\n", 0o644)
}

/// All rolls of the workers, in order.
pub(crate) fn all() -> [Roll; 3] {
    [first(), second(), third()]
}

/// What every roll asks for, with this key.
fn config(key: &str) -> Config {
    let files = [
        File::new("/etc/demo/secret.conf", SECRET)
            .mode(0o600)
            .owner("chrony"),
        File::new("/etc/demo/motd", MOTD).compressed(),
    ];
    let demo = unit_with_drop_in("demo.service", UNIT, ("10-true.conf", DROP_IN));
    Config::new()
        .argument(ARGUMENT)
        .files(files)
        .units([demo, masked("e2scrub_all.timer")])
        .keys(&[key])
}

fn facts(key: &str) -> Vec<Fact> {
    vec![
        Fact::Argument(ARGUMENT.into()),
        file("/etc/demo/secret.conf", SECRET, 0o600, "chrony:chrony"),
        file("/etc/demo/motd", MOTD, 0o644, "root:root"),
        file("/etc/systemd/system/demo.service", UNIT, 0o644, "root:root"),
        file(
            "/etc/systemd/system/demo.service.d/10-true.conf",
            DROP_IN,
            0o644,
            "root:root",
        ),
        file(
            "/var/home/core/.ssh/authorized_keys.d/ignition",
            &format!("{key}\n"),
            0o600,
            "core:core",
        ),
        Fact::Enabled {
            unit: "demo.service".into(),
            state: "enabled".into(),
        },
        Fact::Active {
            unit: "demo.service".into(),
        },
        Fact::Enabled {
            unit: "e2scrub_all.timer".into(),
            state: "masked".into(),
        },
    ]
}

fn first() -> Roll {
    let mut facts = facts(KEY);
    facts.push(file(SHADOWED, SHADOW, 0o644, "root:root"));
    Roll {
        title: "new OS and configuration",
        os: Some(second_os()),
        config: config(KEY).files([File::new(SHADOWED, SHADOW)]),
        facts,
    }
}

fn second() -> Roll {
    let mut facts = facts(KEY);
    facts.push(file(SHADOWED, ISSUE, 0o640, "root:adm"));
    facts.push(Fact::OfOs {
        path: SHADOWED.into(),
    });
    Roll {
        title: "another OS, a file restored to it",
        os: Some(third_os()),
        config: config(KEY),
        facts,
    }
}

fn third() -> Roll {
    let text = "interfaces: []\n";
    let mut facts = facts(NEXT_KEY);
    facts.push(file(LIVE, text, 0o600, "root:root"));
    facts.push(Fact::OfOs {
        path: SHADOWED.into(),
    });
    Roll {
        title: "without a reboot",
        os: None,
        config: config(NEXT_KEY).files([File::new(LIVE, text).mode(0o600)]),
        facts,
    }
}

fn file(path: &str, content: &str, mode: u32, owner: &str) -> Fact {
    Fact::File {
        path: path.into(),
        content: content.into(),
        mode,
        owner: owner.into(),
    }
}
