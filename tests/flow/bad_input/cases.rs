//! What is wrong, and what is to be reported of it.

use anyhow::Result;
use api::machineconfiguration::{NodeState, annotation};
use lab::tree::Overlay;
use serde_json::{Value, json};
use testbed::Cluster;

use super::{NODE, OTHER};

/// How what is in force is named.
const CONFIG: &str = "MachineConfig rendered-edge";

/// How the field of an image is named.
const OS_IMAGE: &str = ", spec.osImageURL: ";

/// What is wrong.
pub(super) enum Bad {
    /// A MachineConfig of pool `edge`, by its `spec`.
    Config(Value),
    /// One that only the first node's host cannot follow.
    Host(Value),
    /// The pool's `maxUnavailable`, while a good change waits.
    Budget(Value),
    /// The node's `desiredConfig`.
    Target(&'static str),
    /// Another role of the node, for which there is a custom pool too.
    Role(&'static str),
}

pub(super) struct Case {
    /// Also the name of the MachineConfig, so that a report of it is no report of another.
    pub(super) name: &'static str,
    pub(super) bad: Bad,
    /// All in one text: the object and the field.
    pub(super) says: Vec<String>,
}

fn case(name: &'static str, bad: Bad, says: &[&str]) -> Case {
    Case {
        name,
        bad,
        says: says.iter().map(ToString::to_string).collect(),
    }
}

impl Bad {
    /// Nodes that are to stay as they are. The others of the pool go on.
    pub(super) const fn stays(&self) -> &'static [&'static str] {
        match self {
            Self::Config(_) | Self::Budget(_) => &[NODE, OTHER],
            Self::Host(_) | Self::Target(_) | Self::Role(_) => &[NODE],
        }
    }
}

impl Bad {
    /// What a node shows that cannot follow it.
    pub(super) const fn state(&self) -> NodeState {
        match self {
            // Another try may find the configuration, or what its host lacks: a node gets nothing
            // that the rules reject, as that is not rendered.
            Self::Target(_) | Self::Config(_) | Self::Host(_) => NodeState::Degraded,
            Self::Budget(_) | Self::Role(_) => NodeState::Unreconcilable,
        }
    }

    /// Whether a node is to say what is wrong, and not the pool: it got so far.
    pub(super) fn is_reported_by_node(&self, says: &[String]) -> bool {
        match self {
            Self::Host(_) | Self::Target(_) => true,
            // Of a configuration, what its host finds wrong.
            Self::Config(_) => says.iter().any(|part| part == CONFIG),
            Self::Budget(_) | Self::Role(_) => false,
        }
    }

    /// Whether the pool's other node follows it, out of service for a while.
    pub(super) const fn reboots_other(&self) -> bool {
        matches!(self, Self::Host(_))
    }
}

fn file(path: &str, mode: u32, user: &str, group: &str) -> Bad {
    let files = json!([{
        "path": path,
        "mode": mode,
        "user": { "name": user },
        "group": { "name": group },
        "contents": { "source": "data:,x" },
    }]);
    Bad::Config(ignition("storage", &json!({ "files": files })))
}

pub(super) fn ignition(section: &str, value: &Value) -> Value {
    json!({ "config": { "ignition": { "version": "3.4.0" }, (section): value } })
}

/// The whole list.
pub(super) fn cases(cluster: &Cluster) -> Result<Vec<Case>> {
    let registry = &cluster.host_lab()?.registry;
    let nothing = format!("os@sha256:{}", "0".repeat(64));
    let missing = format!("{}/{nothing}", registry.location());
    let closed = format!("{}/{nothing}", registry.closed_location());
    let os = |os: &Overlay| anyhow::Ok(cluster.image(os)?.reference);
    let no_kernel = os(&Overlay::version("no-kernel").without_kernel())?;
    let conflict =
        os(&Overlay::version("conflict").file("/usr/etc/conflict/file", "of the OS\n", 0o644))?;
    let big = os(&Overlay::version("big").another_kernel())?;
    let image = |name, reference: &str, says: &[&str]| {
        case(name, Bad::Config(json!({ "osImageURL": reference })), says)
    };
    Ok(vec![
        case(
            "60-ignition",
            Bad::Config(ignition("storage", &json!({ "files": "none" }))),
            &["60-ignition", "storage.files"],
        ),
        case(
            "60-relative",
            file("etc/bad", 0o644, "root", "root"),
            &["60-relative", "files[0].path", "etc/bad"],
        ),
        case(
            "60-dots",
            file("/etc/../bad", 0o644, "root", "root"),
            &["60-dots", "files[0].path", "/etc/../bad"],
        ),
        case(
            "60-mode",
            file("/etc/bad", 0o1777, "root", "root"),
            &["60-mode", "files[0].mode"],
        ),
        case(
            "60-owner",
            file("/etc/bad", 0o644, "absent-user", "root"),
            &[CONFIG, "/etc/bad", "user", "absent-user"],
        ),
        case(
            "60-group",
            file("/etc/bad", 0o644, "root", "nogroup-here"),
            &[CONFIG, "/etc/bad", "group", "nogroup-here"],
        ),
        image("60-missing", &missing, &[CONFIG, OS_IMAGE, &missing]),
        image(
            "60-closed",
            &closed,
            &[CONFIG, OS_IMAGE, &closed, "bearer token"],
        ),
        image(
            "60-kernel",
            &no_kernel,
            &[CONFIG, OS_IMAGE, &no_kernel, "kernel"],
        ),
        image("60-room", &big, &[CONFIG, OS_IMAGE, "/boot"]),
        case(
            "60-conflict",
            Bad::Host(json!({ "osImageURL": conflict })),
            &[CONFIG, OS_IMAGE, "/etc", "conflict"],
        ),
        case(
            "no-such-config",
            Bad::Target("rendered-edge-none"),
            &[annotation::DESIRED_CONFIG, "rendered-edge-none"],
        ),
        case(
            "minus-one",
            Bad::Budget(json!(-1)),
            &["edge", "maxUnavailable", "-1"],
        ),
        case(
            "abc",
            Bad::Budget(json!("abc")),
            &["edge", "maxUnavailable", "abc"],
        ),
        case(
            "two-pools",
            Bad::Role("good"),
            &[NODE, "edge", "good", "nodeSelector"],
        ),
    ])
}
