//! Plans of whole transitions, as texts: the files of `golden/`. `UPDATE_GOLDENS=1` writes them.

use std::fmt::Write as _;

use super::*;
use crate::disruption::{Action as Policy, FilePolicy, REGISTRIES, UnitPolicy};
use crate::plan::Mode;

const UNIT: &str =
    "[Service]\nExecStart=/usr/bin/exporter\n[Install]\nWantedBy=multi-user.target\n";

/// What a worker is in before each transition.
fn worker() -> Value {
    json!({
        "osImageURL": "quay.io/os@sha256:1",
        "kernelArguments": ["nosmt"],
        "config": {
            "ignition": {"version": "3.5.0"},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 A"], "passwordHash": "$6$x"}]},
            "storage": {"files": [
                file("/etc/chrony.conf", "server a"),
                file("/etc/sysctl.d/90-net.conf", "net.core.somaxconn=1024"),
                file(REGISTRIES, r#"unqualified-search-registries = ["quay.io"]"#),
            ]},
            "systemd": {"units": [
                {"name": "exporter.service", "contents": UNIT, "enabled": true},
                {"name": "crio.service", "dropins": [
                    {"name": "10-limits.conf", "contents": "[Service]\nLimitNOFILE=65536\n"},
                ]},
                {"name": "rpcbind.service", "mask": true},
            ]},
        },
    })
}

fn file(path: &str, text: &str) -> Value {
    let mut encoded = String::new();
    for byte in text.bytes() {
        write!(encoded, "%{byte:02x}").unwrap();
    }
    json!({"path": path, "mode": 0o644, "contents": {"source": format!("data:,{encoded}")}})
}

fn files(spec: &mut Value) -> &mut Vec<Value> {
    (spec["config"]["storage"]["files"].as_array_mut()).unwrap()
}

fn units(spec: &mut Value) -> &mut Vec<Value> {
    (spec["config"]["systemd"]["units"].as_array_mut()).unwrap()
}

/// Facts about the host of [`worker`], which is a Node.
fn facts() -> Facts {
    Facts {
        booted_image: Some("quay.io/os@sha256:1".to_owned()),
        kernel_arguments: Some(kargs::split_line("rw root=UUID=1 nosmt")),
        fips: Some(false),
        single_replica: false,
        is_node: true,
    }
}

fn with_actions(path: &str, actions: &[Policy]) -> Policies {
    let mut policies = Policies::default();
    policies.files.push(FilePolicy {
        path: path.to_owned(),
        actions: actions.to_vec(),
    });
    policies
}

fn outcome(new: &Value, facts: &Facts, policies: &Policies) -> Result<Outcome, Rejections> {
    // Read as what is in force, which may hold content that cannot be decoded.
    let read = |name: &str, spec: &Value| {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        NodeConfig::in_force(&object).unwrap().0
    };
    let (old, new) = (
        read("rendered-worker-1", &worker()),
        read("rendered-worker-2", new),
    );
    plan(&Request {
        attempt: &Attempt("a1".to_owned()),
        from: Side {
            target: &target(&old),
            config: &old,
        },
        to: Side {
            target: &target(&new),
            config: &new,
        },
        facts,
        policies,
        exempt: Exempt::default(),
        force: false,
    })
}

/// A plan as [`describe`] prints it, with each expectation; or each rejection.
fn text(outcome: Result<Outcome, Rejections>) -> String {
    let mut text = String::new();
    match outcome {
        Ok(outcome) => {
            text += &describe(&outcome.bundle.plan);
            for expectation in &outcome.bundle.plan.expect {
                writeln!(text, "        {}", expected(expectation)).unwrap();
            }
        }
        Err(Rejections(rejections)) => {
            for rejection in rejections {
                writeln!(text, "reject  {rejection}").unwrap();
            }
        }
    }
    text
}

fn expected(expectation: &Expectation) -> String {
    match expectation {
        Expectation::Record { config, .. } => format!("record {config}"),
        Expectation::KernelArgument { argument, times } => format!("karg {argument} ({times})"),
        Expectation::File { path, file } => {
            let (Mode(mode), owner) = (file.mode, &file.owner);
            format!("file {path} ({mode:04o} {owner})")
        }
        Expectation::Masked { unit } => format!("masked {unit}"),
        Expectation::Enabled { unit, enabled } => format!("enabled={enabled} {unit}"),
        Expectation::Runs { unit } => format!("runs {unit}"),
        Expectation::Started { unit } => format!("started {unit}"),
        Expectation::Active { unit } => format!("active {unit}"),
    }
}

#[track_caller]
fn compare(name: &str, text: &str) {
    golden::assert(
        env!("CARGO_MANIFEST_DIR"),
        &format!("src/planner/tests/golden/{name}.txt"),
        text,
    );
}

#[test]
fn file_and_unit_change_live() {
    let mut new = worker();
    files(&mut new)[0] = file("/etc/chrony.conf", "server b");
    units(&mut new)[0]["contents"] = json!(format!("{UNIT}Alias=metrics.service\n"));
    let mut policies = with_actions(
        "/etc/chrony.conf",
        &[Policy::Restart("chronyd.service".to_owned())],
    );
    policies.units.push(UnitPolicy {
        name: "exporter.service".to_owned(),
        actions: vec![
            Policy::DaemonReload,
            Policy::Restart("exporter.service".to_owned()),
        ],
    });
    compare("live", &text(outcome(&new, &facts(), &policies)));
}

#[test]
fn os_image_and_kernel_argument_change_through_a_reboot() {
    let mut new = worker();
    new["osImageURL"] = json!("quay.io/os@sha256:2");
    new["kernelArguments"] = json!(["nosmt", "audit=1 hugepages=16"]);
    let planned = outcome(&new, &facts(), &Policies::default());
    compare("reboot", &text(planned));
}

#[test]
fn keys_change_alone() {
    let mut new = worker();
    new["config"]["passwd"]["users"][0]["sshAuthorizedKeys"] =
        json!(["ssh-ed25519 A", "ssh-ed25519 B"]);
    let planned = outcome(&new, &facts(), &Policies::default());
    compare("keys", &text(planned));
}

/// All that a configuration can hold goes, so that a rollback has all of it to restore.
#[test]
fn everything_is_removed() {
    let new = json!({"osImageURL": "quay.io/os@sha256:1"});
    let mut policies = with_actions("/etc", &[Policy::None]);
    for name in ["exporter.service", "crio.service", "rpcbind.service"] {
        policies.units.push(UnitPolicy {
            name: name.to_owned(),
            actions: vec![Policy::DaemonReload],
        });
    }
    let through_reboot = text(outcome(&new, &facts(), &policies));
    let mut new = new;
    new["kernelArguments"] = json!(["nosmt"]);
    let live = text(outcome(&new, &facts(), &policies));
    compare("removal", &format!("{through_reboot}\n{live}"));
}

#[test]
fn every_subject_of_a_rejection() {
    let new = json!({
        "osImageURL": "quay.io/os@sha256:2",
        "fips": true,
        "kernelType": "realtime",
        "extensions": ["usbguard"],
        "kernelArguments": ["a".repeat(kargs::COMMAND_LINE_SIZE)],
        "config": {
            "ignition": {"version": "3.5.0"},
            "kernelArguments": {"shouldExist": ["x"]},
            "passwd": {
                "groups": [{"name": "operators"}],
                "users": [{"name": "core", "sshAuthorizedKeys": ["a"]}, {"name": "alice"}],
            },
            "storage": {
                "directories": [{"path": "/etc/d"}],
                "disks": [{"device": "/dev/vdb"}],
                "filesystems": [{"device": "/dev/vdb1", "format": "xfs"}],
                "links": [{"path": "/etc/localtime", "target": "/usr/share/zoneinfo/UTC"}],
                "raid": [{"name": "md0", "level": "raid1", "devices": ["/dev/vdb", "/dev/vdc"]}],
                "files": [
                    file("/usr/bin/tool", "x"),
                    file("/etc/app", "x"),
                    file("/etc/app/settings", "x"),
                    file("/run/machine-config-daemon-force", ""),
                    {"path": "/etc/remote", "contents": {"source": "https://host/x?user=a"}},
                    {"path": "/etc/broken", "contents": {"source": "data:;base64,AAAA", "compression": "gzip"}},
                    {"path": "/etc/appended", "append": [{"source": "data:,x"}]},
                    file("/etc/systemd/system/masked.service", "x"),
                ],
            },
            "systemd": {"units": [
                {"name": "slipway-guard.service", "dropins": [
                    {"name": "x.conf", "contents": "[Unit]\n"},
                ]},
                {"name": "masked.service", "mask": true},
            ]},
        },
    });
    let facts = facts();
    let all = text(outcome(&new, &facts, &Policies::default()));
    let mut new = worker();
    new["kernelType"] = json!("realtime");
    files(&mut new)[2] = file(REGISTRIES, "no TOML");
    let registries = text(outcome(&new, &facts, &Policies::default()));
    compare("rejection", &format!("{all}\n{registries}"));
}

/// One change for each kind of policy: what it comes to.
#[test]
fn policy_of_each_kind() {
    let unit = || "chronyd.service".to_owned();
    let mut shown = String::new();
    let mut add = |title: &str, planned: Result<Outcome, Rejections>| {
        let plan = planned.unwrap().bundle.plan;
        let described = describe(&plan);
        // Steps that write are those of the other goldens.
        let lines = described.lines().filter(|line| {
            ["way", "because", "systemd", "reload", "restart"]
                .iter()
                .any(|kind| line.starts_with(kind))
        });
        writeln!(shown, "{title}").unwrap();
        for line in lines {
            writeln!(shown, "  {line}").unwrap();
        }
    };
    let mut new = worker();
    files(&mut new)[0] = file("/etc/chrony.conf", "server b");
    add("no policy", outcome(&new, &facts(), &Policies::default()));
    for (title, actions) in [
        ("None", vec![Policy::None]),
        ("Reload", vec![Policy::Reload(unit())]),
        ("Restart", vec![Policy::Restart(unit())]),
        (
            "DaemonReload and Restart",
            vec![Policy::DaemonReload, Policy::Restart(unit())],
        ),
        (
            "Drain and Restart",
            vec![Policy::Drain, Policy::Restart(unit())],
        ),
        ("Reboot", vec![Policy::Reboot]),
        ("Special", vec![Policy::Special]),
    ] {
        let policies = with_actions("/etc/chrony.conf", &actions);
        add(title, outcome(&new, &facts(), &policies));
    }
    let single = Facts {
        single_replica: true,
        ..facts()
    };
    for (title, action) in [
        ("Drain, one node only", Policy::Drain),
        ("Reboot, one node only", Policy::Reboot),
    ] {
        let policies = with_actions("/etc/chrony.conf", &[action]);
        add(title, outcome(&new, &single, &policies));
    }
    for (title, registries) in [
        (
            "Special, registries.conf gets one more",
            r#"unqualified-search-registries = ["quay.io", "docker.io"]"#,
        ),
        (
            "Special, registries.conf loses one",
            "unqualified-search-registries = []",
        ),
    ] {
        let mut new = worker();
        files(&mut new)[2] = file(REGISTRIES, registries);
        add(title, outcome(&new, &facts(), &Policies::default()));
    }
    compare("policies", &shown);
}
