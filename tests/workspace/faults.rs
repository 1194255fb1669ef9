//! Faults are patches below `tests/mutants`, applied to a copy: no feature brings one, and no
//! source asks for one at run time.

use crate::packages::packages;
use crate::sources::{root, sources};

#[test]
fn no_product_crate_has_a_fault() {
    for package in packages() {
        let fault = package.features.iter().find(|name| name.contains("mutant"));
        assert_eq!(fault, None, "{} has a fault", package.name);
    }
    let sources = sources(&root().join("src"), "rs");
    assert!(sources.len() > 100, "only {} sources", sources.len());
    for path in sources {
        let text = std::fs::read_to_string(&path).unwrap();
        for word in ["cfg!(feature", "mutant"] {
            assert!(!text.contains(word), "{} has {word}", path.display());
        }
    }
}

/// A mutant that no longer applies would only show in the nightly tier.
#[test]
fn every_mutant_still_applies() {
    let patches = sources(&root().join("tests/mutants"), "patch");
    assert!(patches.len() >= 10, "only {} patches", patches.len());
    for path in patches {
        let patch = std::fs::read_to_string(&path).unwrap();
        let target = patch.lines().find_map(|line| line.strip_prefix("--- a/"));
        let source = std::fs::read_to_string(root().join(target.unwrap())).unwrap();
        for hunk in patch.split("\n@@ ").skip(1) {
            let before: Vec<&str> = hunk
                .lines()
                .skip(1)
                .filter(|line| !line.starts_with('+'))
                .map(|line| line.get(1..).unwrap_or_default())
                .collect();
            let before = before.join("\n");
            assert!(!before.is_empty(), "{} has an empty hunk", path.display());
            assert!(
                source.contains(&before),
                "{} does not apply:\n{before}",
                path.display()
            );
        }
    }
}
