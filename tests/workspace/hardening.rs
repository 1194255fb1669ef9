//! What the boot units leave open is listed with its reason.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::sources::root;

const UNITS: [&str; 2] = ["guard", "verify"];

/// Settings that `systemd-analyze security` names as open.
fn open(unit: &str) -> BTreeSet<String> {
    let file = root().join(format!("systemd/slipway-{unit}.service"));
    #[expect(clippy::disallowed_methods, reason = "a test that runs a program")]
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--json=short"])
        .arg(file)
        .output()
        .unwrap();
    let found: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        found.len() > 50,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let is_open = |setting: &&Value| setting["set"] == false && !setting["exposure"].is_null();
    let open = found.iter().filter(is_open);
    open.map(|setting| setting["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Settings that the page lists for a unit.
fn listed(unit: &str) -> BTreeSet<String> {
    let page = std::fs::read_to_string(root().join("docs/hardening.md")).unwrap();
    // A bar within a name is escaped in a table.
    let page = page.replace("\\|", "\u{1}");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let mut listed = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 5, "{row}");
        let [names, units, why] = [cells[1], cells[2], cells[3]];
        assert!(!why.is_empty(), "{row}");
        if [unit, "both"].contains(&units) {
            let names = names.split('`').skip(1).step_by(2);
            listed.extend(names.map(|name| name.replace('\u{1}', "|")));
        }
    }
    listed
}

#[test]
fn each_open_setting_of_the_boot_units_has_its_reason() {
    for unit in UNITS {
        let (open, listed) = (open(unit), listed(unit));
        let unlisted: Vec<_> = open.difference(&listed).collect();
        let closed: Vec<_> = listed.difference(&open).collect();
        assert!(
            unlisted.is_empty() && closed.is_empty(),
            "docs/hardening.md, {unit}: without a reason: {unlisted:?}; not open: {closed:?}"
        );
    }
}
