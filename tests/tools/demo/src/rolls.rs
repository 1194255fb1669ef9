//! The three rolls: what the pool is asked to become, and what must then be found on each host.

use std::io::Write as _;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use lab::tree::Overlay;
use observer::host::Fact;
use serde_json::{Value, json};

/// A file that the OS ships and the first roll shadows.
const SHADOWED: &str = "/etc/issue";
const SHADOW: &str = "configured, not the OS's\n";
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

/// One roll of the pool.
#[derive(Clone, Debug)]
pub(crate) struct Roll {
    pub(crate) title: &'static str,
    /// The OS it brings; none where it stays.
    pub(crate) os: Option<Overlay>,
    /// `spec.config` of the MachineConfig.
    pub(crate) ignition: Value,
    /// What holds afterwards, besides the booted commit.
    pub(crate) facts: Vec<Fact>,
}

impl Roll {
    /// `spec` of the MachineConfig, with this image.
    pub(crate) fn spec(&self, image: &str) -> Value {
        json!({
            "osImageURL": image,
            "kernelArguments": [ARGUMENT],
            "config": self.ignition,
        })
    }
}

/// All rolls, in order.
pub(crate) fn all() -> Result<Vec<Roll>> {
    Ok(vec![first()?, second()?, third()?])
}

/// What every roll asks for.
fn files() -> Result<Vec<Value>> {
    Ok(vec![
        json!({
            "path": "/etc/demo/secret.conf",
            "mode": 0o600,
            "user": { "name": "chrony" },
            "group": { "name": "chrony" },
            "contents": { "source": data_url(SECRET.as_bytes()) },
        }),
        json!({
            "path": "/etc/demo/motd",
            "mode": 0o644,
            "contents": { "source": data_url(&gzip(MOTD)?), "compression": "gzip" },
        }),
    ])
}

fn ignition(files: &[Value], key: &str) -> Value {
    json!({
        "ignition": { "version": "3.4.0" },
        "passwd": { "users": [{ "name": "core", "sshAuthorizedKeys": [key] }] },
        "storage": { "files": files },
        "systemd": { "units": [
            {
                "name": "demo.service",
                "enabled": true,
                "contents": UNIT,
                "dropins": [{ "name": "10-true.conf", "contents": DROP_IN }],
            },
            { "name": "e2scrub_all.timer", "mask": true },
        ] },
    })
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
            answer: "enabled".into(),
        },
        Fact::Active {
            unit: "demo.service".into(),
        },
        Fact::Enabled {
            unit: "e2scrub_all.timer".into(),
            answer: "masked".into(),
        },
    ]
}

fn first() -> Result<Roll> {
    let mut files = files()?;
    files.push(json!({
        "path": SHADOWED,
        "mode": 0o644,
        "contents": { "source": data_url(SHADOW.as_bytes()) },
    }));
    let mut facts = facts(KEY);
    facts.push(file(SHADOWED, SHADOW, 0o644, "root:root"));
    Ok(Roll {
        title: "new OS and configuration",
        os: Some(Overlay::version("v2").file("/usr/share/demo/second", "v2\n", 0o644)),
        ignition: ignition(&files, KEY),
        facts,
    })
}

fn second() -> Result<Roll> {
    let issue = "this is the third OS's own\n";
    let mut facts = facts(KEY);
    facts.push(file(SHADOWED, issue, 0o640, "root:adm"));
    facts.push(Fact::OfOs {
        path: SHADOWED.into(),
    });
    Ok(Roll {
        title: "another OS, a file given back to it",
        // Group 4 is adm.
        os: Some(Overlay::version("v3").owned_file("/usr/etc/issue", issue, 0o640, (0, 4))),
        ignition: ignition(&files()?, KEY),
        facts,
    })
}

fn third() -> Result<Roll> {
    let text = "interfaces: []\n";
    let mut files = files()?;
    files.push(json!({
        "path": LIVE,
        "mode": 0o600,
        "contents": { "source": data_url(text.as_bytes()) },
    }));
    let mut facts = facts(NEXT_KEY);
    facts.push(file(LIVE, text, 0o600, "root:root"));
    facts.push(Fact::OfOs {
        path: SHADOWED.into(),
    });
    Ok(Roll {
        title: "without a reboot",
        os: None,
        ignition: ignition(&files, NEXT_KEY),
        facts,
    })
}

fn file(path: &str, content: &str, mode: u32, owner: &str) -> Fact {
    Fact::File {
        path: path.into(),
        content: content.into(),
        mode,
        owner: owner.into(),
    }
}

fn data_url(bytes: &[u8]) -> String {
    format!("data:;base64,{}", BASE64.encode(bytes))
}

fn gzip(text: &str) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes())?;
    Ok(encoder.finish()?)
}
