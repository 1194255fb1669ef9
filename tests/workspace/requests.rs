//! Requests to the API server go through the crate `cluster`: no other crate writes a path of the
//! Kubernetes API, or compares the code of a refusal with 404 or 409. `cluster::path` makes paths;
//! an absent object is `None`, or `is_not_found`; a changed one is `is_conflict`.

use crate::circles::Crate;
use crate::circles::naming::Naming;
use crate::packages::packages;
use crate::sources::root;

/// Resources of Prometheus, whose paths begin like those of the API server's core.
const PROMETHEUS: &[&str] = &["alerts", "query"];

/// What is wrong with the literals of a source.
fn faults(naming: &Naming) -> Vec<String> {
    let literals = naming.literals.iter();
    let faults = literals.filter_map(|literal| {
        let what = if is_path(literal) {
            "is a path of the API server: use cluster::path"
        } else if is_code(literal) {
            "is the code of a refusal: use is_not_found, is_conflict or None"
        } else {
            return None;
        };
        Some(format!("{literal} {what}"))
    });
    faults.collect()
}

fn is_path(literal: &str) -> bool {
    let text = literal.trim_start_matches(['r', '#']);
    let parts: Vec<&str> = text.trim_end_matches('#').split(['/', '?', '"']).collect();
    let is_core = |parts: &[&str]| parts[..2] == ["api", "v1"] && !PROMETHEUS.contains(&parts[2]);
    text.contains("/api") && (parts.contains(&"apis") || parts.windows(3).any(is_core))
}

fn is_code(literal: &str) -> bool {
    ["404", "409"].contains(&literal.trim_end_matches("u16").trim_end_matches('_'))
}

#[test]
fn paths_and_refusals_of_the_api_server_are_read_in_one_crate() {
    let uses = |name: &str| name == "cluster";
    let packages = packages().into_iter().filter(|package| {
        let mut dependencies = package.dependencies.iter();
        package.folder.starts_with("src") && dependencies.any(|it| uses(&it.name) && !it.is_dev)
    });
    let mut count = 0;
    let mut found = Vec::new();
    for package in packages {
        count += 1;
        let source = Crate::read(&package.folder.join("src"), |file| {
            std::fs::read_to_string(root().join(file)).unwrap()
        });
        for module in source.modules.values() {
            let faults = faults(&module.naming).into_iter();
            found.extend(faults.map(|fault| format!("{}: {fault}", module.file.display())));
        }
    }
    assert!(count > 5, "only {count} crates send requests");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn each_way_to_write_a_path_or_a_code_is_found() {
    for text in [
        r#"const A: &str = "/apis/config.openshift.io/v1/clusterversions";"#,
        r#"fn a(b: &str) -> String { format!("/api/v1/namespaces/{b}/pods") }"#,
        r#"fn a(b: &str) -> String { format!("{b}/api/v1/nodes?watch=true") }"#,
        r#"const A: &str = "/apis";"#,
        r##"const A: &str = r#"/api/v1"#;"##,
        "fn a(b: &Error) -> bool { b.code() == Some(404) }",
        "fn a(b: &Error) -> bool { matches!(b.code(), Some(403 | 409u16)) }",
    ] {
        assert_eq!(faults(&Naming::of(text)).len(), 1, "{text}");
    }
}

#[test]
fn what_is_for_tests_or_for_another_server_may_be_written() {
    for text in [
        r#"#[cfg(test)] mod tests { const A: &str = "/api/v1/nodes"; const B: u16 = 404; }"#,
        r#"/// `GET /api/v1/nodes` is refused with 404.
        const A: &str = "not found";"#,
        r#"const A: &str = "https://api.openshift.com/api/upgrades_info/v1/graph";"#,
        r#"const A: &str = "/api/clusters_mgmt/v1/clusters";"#,
        r#"fn a(b: &str) -> String { format!("{b}/api/v1/query?query=up") }"#,
        r#"const A: &str = "/api/v1/alerts";"#,
        "const A: u16 = 4040;",
    ] {
        assert_eq!(faults(&Naming::of(text)), [""; 0], "{text}");
    }
}
