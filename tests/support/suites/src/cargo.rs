//! How cargo is called, so that each package is compiled once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// What every build for development begins with: all packages, and a test, which costs nothing.
/// Cargo unites the features of all that is selected; so each call has the same.
pub(crate) const DEVELOPMENT: [&str; 5] =
    ["build", "--locked", "--workspace", "--test", "suites-call"];

/// The release of all programs that run on no node. One call: cargo unites the features of what it
/// selects, and compiles each library once.
pub(crate) const SERVICES: &str = "build --locked --release --no-default-features \
    -p controller -p config-server -p cvo -p managed-upgrade -p update-service -p cli \
    --bin mcc --bin mcs --bin cvo --bin muo --bin update-service --bin slipway";

/// The release of the daemon. A call of its own: with the features of the others it would hold a
/// runtime of several threads, which it never starts, in the memory of every node.
pub(crate) const DAEMON: &str = "build --locked --release --no-default-features \
    -p mcd --features node-daemon --bin mcd";

/// The release of the helper, which alone links libostree, and no Kubernetes client.
pub(crate) const HELPER: &str = "build --locked --release --no-default-features \
    -p mcd --features host-helper --bin mcd-os";

/// The release of what the benchmark compares programs with.
pub(crate) const PEERS: &str = "build --locked --release -p http-load --bins";

/// A library that cargo compiled, or found compiled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Library {
    /// Cargo's id of the package.
    package: String,
    /// Its file, whose name has a hash of features and profile.
    file: String,
}

impl Library {
    /// Reads one line of `cargo --message-format=json`; none where it is something else.
    fn parse(line: &str) -> Option<Self> {
        const KINDS: [&str; 3] = ["lib", "rlib", "proc-macro"];
        let message: Value = serde_json::from_str(line).ok()?;
        let kinds = message.pointer("/target/kind")?.as_array()?;
        let is_library = kinds.iter().any(|kind| KINDS.iter().any(|one| kind == one));
        let is_test = message.pointer("/profile/test")?.as_bool()?;
        if !is_library || is_test {
            return None;
        }
        let text = |pointer: &str| message.pointer(pointer)?.as_str().map(str::to_owned);
        Some(Self {
            package: text("/package_id")?,
            file: text("/filenames/0")?,
        })
    }
}

/// Which libraries a run of this program had compiled, over all its calls that unite their
/// features.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<BTreeSet<Library>>>);

impl Ledger {
    /// Adds what a call printed, and counts.
    ///
    /// # Errors
    ///
    /// A package was compiled twice, and its second compilation is not that of a build script or a
    /// macro; with the packages' names.
    pub(crate) fn add(&self, messages: &str, for_builds: &ForBuilds) -> Result<Count> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(messages.lines().filter_map(Library::parse));
        count(&all, for_builds)
    }
}

/// How many libraries there are, and how often one was compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    libraries: usize,
    compilations: usize,
}

impl Count {
    /// As a run prints it.
    pub(crate) fn print(self) -> String {
        let Self {
            libraries,
            compilations,
        } = self;
        let twice = compilations - libraries;
        format!("{libraries} libraries in {compilations} compilations, {twice} for build scripts")
    }
}

fn count(all: &BTreeSet<Library>, for_builds: &ForBuilds) -> Result<Count> {
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for library in all {
        *files.entry(&library.package).or_default() += 1;
    }
    let is_extra =
        |(package, count): &(&&str, &usize)| **count > 1 + usize::from(for_builds.has(package));
    let extra: Vec<_> = files
        .iter()
        .filter(is_extra)
        .map(|(package, count)| format!("{package} ({count} times)"))
        .collect();
    ensure!(
        extra.is_empty(),
        "compiled more than once, with other features: {}",
        extra.join(", ")
    );
    Ok(Count {
        libraries: files.len(),
        compilations: all.len(),
    })
}

/// Packages that build scripts and macros use: cargo keeps their features apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForBuilds(BTreeSet<String>);

impl ForBuilds {
    /// Reads what `cargo metadata --format-version=1` prints.
    ///
    /// # Errors
    ///
    /// It is something else.
    pub(crate) fn parse(metadata: &str) -> Result<Self> {
        let metadata: Value = serde_json::from_str(metadata)?;
        let list = |pointer: &str| {
            let found = metadata.pointer(pointer).and_then(Value::as_array);
            found.with_context(|| format!("cargo metadata has no {pointer}"))
        };
        let macros = list("/packages")?.iter().filter(|package| {
            let targets = package.get("targets").and_then(Value::as_array);
            targets.into_iter().flatten().any(|target| {
                let kinds = target.get("kind").and_then(Value::as_array);
                kinds.into_iter().flatten().any(|kind| kind == "proc-macro")
            })
        });
        let id = |value: &Value| value.as_str().map(str::to_owned);
        let mut next: Vec<String> = macros
            .filter_map(|package| id(package.get("id")?))
            .collect();
        let mut below: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for node in list("/resolve/nodes")? {
            let name = node.get("id").and_then(id).context("a node without id")?;
            for dependency in node
                .get("deps")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                let Some(package) = dependency.get("pkg").and_then(id) else {
                    continue;
                };
                let kinds = dependency.get("dep_kinds").and_then(Value::as_array);
                let kinds = kinds.into_iter().flatten();
                let kinds: Vec<_> = kinds.filter_map(|kind| kind.get("kind")).collect();
                if kinds.iter().any(|kind| *kind == "build") {
                    next.push(package.clone());
                }
                if kinds.iter().any(|kind| kind.is_null()) {
                    below.entry(name.clone()).or_default().push(package);
                }
            }
        }
        let mut all = BTreeSet::new();
        while let Some(package) = next.pop() {
            if let Some(more) = below.get(&package).filter(|_| !all.contains(&package)) {
                next.extend(more.iter().cloned());
            }
            all.insert(package);
        }
        Ok(Self(all))
    }

    fn has(&self, package: &str) -> bool {
        self.0.contains(package)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(package: &str, kind: &str, is_test: bool, file: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"{package}","target":{{"kind":["{kind}"]}},"profile":{{"test":{is_test}}},"filenames":["{file}"]}}"#
        )
    }

    fn for_builds() -> ForBuilds {
        ForBuilds(BTreeSet::from(["syn".to_owned()]))
    }

    #[test]
    fn tests_programs_and_other_lines_do_not_count() {
        let lines = [
            line("a", "lib", false, "liba-1.rlib"),
            line("a", "lib", true, "a-2"),
            line("a", "bin", false, "a"),
            line("a", "custom-build", false, "build-script"),
            "   Compiling a".to_owned(),
        ];
        let counted = Ledger::default().add(&lines.join("\n"), &for_builds());
        let expected = Count {
            libraries: 1,
            compilations: 1,
        };
        assert_eq!(counted.unwrap(), expected);
    }

    #[test]
    fn what_a_later_call_compiles_with_other_features_is_named() {
        let ledger = Ledger::default();
        let first = line("tokio", "lib", false, "libtokio-1.rlib");
        ledger.add(&first, &for_builds()).unwrap();
        ledger.add(&first, &for_builds()).unwrap();
        let other = line("tokio", "lib", false, "libtokio-2.rlib");
        let error = ledger.add(&other, &for_builds()).unwrap_err().to_string();
        assert!(error.ends_with("tokio (2 times)"), "{error}");
    }

    #[test]
    fn a_second_compilation_is_for_build_scripts_and_a_third_for_nothing() {
        let syn = |number: u32| line("syn", "lib", false, &format!("libsyn-{number}.rlib"));
        let ledger = Ledger::default();
        let two = [syn(1), syn(2)].join("\n");
        let counted = ledger.add(&two, &for_builds()).unwrap();
        assert_eq!(
            counted.print(),
            "1 libraries in 2 compilations, 1 for build scripts"
        );
        assert!(ledger.add(&syn(3), &for_builds()).is_err());
    }

    #[test]
    fn macros_and_what_they_and_build_scripts_use_are_for_builds() {
        let metadata = r#"{
            "packages": [
                {"id": "derive", "targets": [{"kind": ["proc-macro"]}]},
                {"id": "lib", "targets": [{"kind": ["lib"]}]}
            ],
            "resolve": {"nodes": [
                {"id": "lib", "deps": [
                    {"pkg": "derive", "dep_kinds": [{"kind": null}]},
                    {"pkg": "cc", "dep_kinds": [{"kind": "build"}]},
                    {"pkg": "bytes", "dep_kinds": [{"kind": null}]}
                ]},
                {"id": "derive", "deps": [
                    {"pkg": "syn", "dep_kinds": [{"kind": null}]},
                    {"pkg": "trybuild", "dep_kinds": [{"kind": "dev"}]}
                ]},
                {"id": "cc", "deps": [{"pkg": "shlex", "dep_kinds": [{"kind": null}]}]}
            ]}
        }"#;
        let all = ForBuilds::parse(metadata).unwrap();
        let all: Vec<_> = all.0.iter().map(String::as_str).collect();
        assert_eq!(all, ["cc", "derive", "shlex", "syn"]);
    }

    #[test]
    fn metadata_that_is_something_else_is_an_error() {
        assert!(ForBuilds::parse("{}").is_err());
        assert!(ForBuilds::parse("").is_err());
    }
}
