//! What an image is made of, in SPDX 2.3.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::architecture::Architecture;
use crate::checkout::Checkout;
use crate::component::{Component, Program};
use crate::debian::Package;
use crate::parts::Parts;
use crate::run::text;

/// A crate in an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crate {
    name: String,
    version: String,
    licence: String,
    /// SHA-256 of its package on the registry; none of our own.
    sha256: Option<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<LockPackage>,
}

#[derive(Deserialize)]
struct LockPackage {
    name: String,
    version: String,
    #[serde(default)]
    checksum: Option<String>,
}

/// The crates that a program is compiled from, as the lock file pins them.
///
/// # Errors
/// Cargo cannot be run, or names a crate that the lock file does not.
pub fn crates(
    checkout: &Path,
    program: &Program,
    architecture: Architecture,
) -> anyhow::Result<BTreeSet<Crate>> {
    let fixed = [
        "cargo",
        "tree",
        "--locked",
        "--edges=normal",
        "--prefix=none",
        "--format={p}|{l}",
        "--target",
        architecture.triple(),
    ];
    let tree = text(checkout, &[&fixed, program.cargo].concat())?;
    let lock = std::fs::read_to_string(checkout.join("Cargo.lock"));
    let lock: Lock =
        toml::from_str(&lock.context("cannot read Cargo.lock")?).context("Cargo.lock")?;
    let checksums: BTreeMap<(&str, &str), Option<&String>> = lock
        .package
        .iter()
        .map(|one| {
            (
                (one.name.as_str(), one.version.as_str()),
                one.checksum.as_ref(),
            )
        })
        .collect();
    let lines = tree.lines().filter(|line| !line.is_empty());
    lines.map(|line| parse(line, &checksums)).collect()
}

/// One line of `cargo tree`: `name v1.2.3 (where)|licence`, and a mark where it was shown before.
fn parse(line: &str, checksums: &BTreeMap<(&str, &str), Option<&String>>) -> anyhow::Result<Crate> {
    let parsed = || {
        let (package, licence) = line.split_once('|')?;
        let (name, rest) = package.split_once(" v")?;
        let version = rest.split(' ').next()?;
        let checksum = checksums.get(&(name, version))?;
        let licence = licence.trim_end_matches("(*)").trim();
        Some(Crate {
            name: name.to_owned(),
            version: version.to_owned(),
            // The older way to write a choice.
            licence: licence.replace('/', " OR "),
            sha256: checksum.cloned(),
        })
    };
    parsed().with_context(|| format!("cargo tree says {line:?}"))
}

/// The document, as JSON that depends on nothing else.
pub(crate) fn document(
    component: &Component,
    checkout: &Checkout,
    architecture: Architecture,
    Parts {
        crates, packages, ..
    }: &Parts,
) -> Value {
    let name = component.name;
    let image = json!({
        "SPDXID": "SPDXRef-Image",
        "name": name,
        "versionInfo": checkout.version,
        "downloadLocation": "NOASSERTION",
        "licenseDeclared": "Apache-2.0",
        "primaryPackagePurpose": "CONTAINER",
    });
    let mut all = vec![image];
    all.extend(crates.iter().map(of_crate));
    all.extend(packages.iter().map(of_package));
    let contains = all.iter().skip(1).map(|package| {
        json!({
            "spdxElementId": "SPDXRef-Image",
            "relationshipType": "CONTAINS",
            "relatedSpdxElement": package["SPDXID"],
        })
    });
    let describes = json!({
        "spdxElementId": "SPDXRef-DOCUMENT",
        "relationshipType": "DESCRIBES",
        "relatedSpdxElement": "SPDXRef-Image",
    });
    let relationships: Vec<Value> = [describes].into_iter().chain(contains).collect();
    json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": format!(
            "https://slipway.dev/spdx/{name}/{}/{}/{}",
            checkout.version, checkout.revision, architecture.name()
        ),
        "creationInfo": {
            "created": checkout.time.to_string(),
            "creators": ["Tool: slipway image-builder"],
        },
        "packages": all,
        "relationships": relationships,
    })
}

fn of_crate(of: &Crate) -> Value {
    let Crate {
        name,
        version,
        licence,
        sha256,
    } = of;
    let mut package = json!({
        "SPDXID": id("Crate", name, version),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "licenseDeclared": licence,
    });
    if let Some(sha256) = sha256
        && let Some(package) = package.as_object_mut()
    {
        let address = format!("https://crates.io/api/v1/crates/{name}/{version}/download");
        package.insert("downloadLocation".to_owned(), address.into());
        package.insert("checksums".to_owned(), checksum(sha256));
        let purl = format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"));
        package.insert("externalRefs".to_owned(), reference(&purl));
    }
    package
}

fn of_package(of: &Package) -> Value {
    let Package {
        name,
        version,
        architecture,
        sha256,
        ..
    } = of;
    let escaped = version.replace('+', "%2B").replace(':', "%3A");
    json!({
        "SPDXID": id("Debian", name, version),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        // Debian says it in `/usr/share/doc/<package>/copyright`, in words.
        "licenseDeclared": "NOASSERTION",
        "checksums": checksum(sha256),
        "externalRefs": reference(&format!("pkg:deb/debian/{name}@{escaped}?arch={architecture}")),
    })
}

fn checksum(sha256: &str) -> Value {
    json!([{"algorithm": "SHA256", "checksumValue": sha256}])
}

fn reference(purl: &str) -> Value {
    json!([{
        "referenceCategory": "PACKAGE-MANAGER",
        "referenceType": "purl",
        "referenceLocator": purl,
    }])
}

/// An identifier: letters, digits, dots and dashes only.
fn id(kind: &str, name: &str, version: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let text = format!("{name}-{version}");
    let text: String = text
        .chars()
        .map(|c| if is_kept(c) { c } else { '-' })
        .collect();
    format!("SPDXRef-{kind}-{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cargo_are_read() {
        let sum = "abc".to_owned();
        let checksums =
            BTreeMap::from([(("ring", "0.17.14"), Some(&sum)), (("mcd", "0.1.0"), None)]);
        let read = |line| parse(line, &checksums);
        let ring = read("ring v0.17.14|Apache-2.0 AND ISC").unwrap();
        assert_eq!(
            (ring.version.as_str(), ring.sha256.as_deref()),
            ("0.17.14", Some("abc"))
        );
        assert_eq!(
            read("ring v0.17.14|MIT/Apache-2.0 (*)").unwrap().licence,
            "MIT OR Apache-2.0"
        );
        let own = read("mcd v0.1.0 (/work/somewhere/src/mcd)|Apache-2.0").unwrap();
        assert_eq!(own.sha256, None);
        assert!(read("other v1.0.0|MIT").is_err());
        assert!(read("nonsense").is_err());
    }

    #[test]
    fn identifiers_have_no_other_characters() {
        assert_eq!(
            id("Debian", "libc6", "2.36-9+deb12u14"),
            "SPDXRef-Debian-libc6-2.36-9-deb12u14"
        );
        assert_eq!(
            id("Crate", "serde_json", "1.0.0"),
            "SPDXRef-Crate-serde-json-1.0.0"
        );
    }
}
