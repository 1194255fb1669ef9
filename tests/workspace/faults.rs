//! Faults are patches below `tests/mutants`, applied to a copy: no feature brings one, and no source asks for one at run time.

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
