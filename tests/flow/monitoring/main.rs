//! Rules and dashboards of `deploy/`: Prometheus reads them, they ask for metrics that exist, and
//! the controller's alerts come when they have to.

#![expect(clippy::disallowed_methods, reason = "a test's own files and programs")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kube::ResourceExt as _;
use lab::manifest;
use serde_json::Value;

/// Folders with rules and dashboards.
const FOLDERS: [&str; 2] = ["monitoring", "update-service/monitoring"];

/// Metrics of other programs.
///
/// Source: kubelet (cAdvisor), kube-state-metrics, node-exporter.
const FOREIGN: [&str; 8] = [
    "container_memory_rss",
    "kube_node_role",
    "kube_node_status_allocatable",
    "kube_node_status_capacity",
    "kubelet_certificate_manager_client_ttl_seconds",
    "kubelet_certificate_manager_server_ttl_seconds",
    "node_memory_MemAvailable_bytes",
    "node_memory_MemTotal_bytes",
];

/// What PromQL calls a set operation, an aggregation's grouping, or a number.
const KEYWORDS: [&str; 15] = [
    "and",
    "or",
    "unless",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "bool",
    "offset",
    "atan2",
    "inf",
    "nan",
    "start",
];

/// Those whose parentheses have labels.
const GROUPINGS: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Files with one extension below a folder.
fn files(dir: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|its| its == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Each PrometheusRule that is deployed: the name of its file, and its groups.
fn rules() -> Result<Vec<(String, Value)>> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        for file in files(&root().join("deploy").join(folder), "yaml")? {
            let text = std::fs::read_to_string(&file)?;
            // A kustomization is no object.
            if text.contains("kind: Kustomization") {
                continue;
            }
            for object in manifest::parse(&text)? {
                let kind = object.types.as_ref().map(|types| types.kind.as_str());
                if kind == Some("PrometheusRule") {
                    let name = file.file_name().context("a file has a name")?;
                    let name = format!("{}-{}", object.name_any(), name.to_string_lossy());
                    let spec = object.data.get("spec").context("spec")?;
                    found.push((name, spec.clone()));
                }
            }
        }
    }
    ensure!(found.len() >= 6, "{} PrometheusRules", found.len());
    Ok(found)
}

/// Metrics that an expression names.
fn metrics(expression: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = expression;
    while let Some(letter) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let skip_to = |end: char| rest.find(end).map_or(rest.len(), |at| at + 1);
        match letter {
            '{' => rest = &rest[skip_to('}')..],
            '[' => rest = &rest[skip_to(']')..],
            quote @ ('"' | '\'') => {
                let inside = &rest[1..];
                rest = inside.find(quote).map_or("", |at| &inside[at + 1..]);
            }
            letter if letter.is_ascii_alphabetic() || letter == '_' => {
                let word = &rest[..length];
                rest = rest[length..].trim_start();
                if GROUPINGS.contains(&word) {
                    rest = rest.find(')').map_or("", |at| &rest[at + 1..]);
                } else if !KEYWORDS.contains(&word) && !rest.starts_with('(') {
                    // An aggregation may name its labels first.
                    let is_aggregation = ["by", "without"].iter().any(|key| {
                        rest.strip_prefix(key)
                            .is_some_and(|rest| rest.trim_start().starts_with('('))
                    });
                    if !is_aggregation {
                        found.insert(word.to_owned());
                    }
                }
            }
            _ => rest = &rest[length.max(letter.len_utf8())..],
        }
    }
    found
}

/// Expressions of the dashboards: the panel, and what it asks.
fn panels() -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        for file in files(&root().join("deploy").join(folder), "json")? {
            let dashboard: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
            let panels = dashboard.get("panels").and_then(Value::as_array);
            let panels = panels.context("panels")?;
            let mut ids = BTreeSet::new();
            for panel in panels {
                let title = panel["title"].as_str().context("title")?;
                ensure!(
                    ids.insert(panel["id"].as_u64()),
                    "{title}: its id stands twice"
                );
                let targets = panel["targets"].as_array().context("targets")?;
                ensure!(!targets.is_empty(), "{title} asks for nothing");
                for target in targets {
                    let expression = target["expr"].as_str().context("expr")?;
                    found.push((title.to_owned(), expression.to_owned()));
                }
            }
        }
    }
    Ok(found)
}

/// The texts in the sources of programs, which have each metric's name as a text of its own.
fn sources() -> Result<String> {
    let mut text = String::new();
    for file in files(&root().join("src"), "rs")? {
        text.push_str(&std::fs::read_to_string(file)?);
    }
    Ok(text)
}

/// Whether a program has the metric: by its name, by that of a histogram's series, or as one of
/// those that each controller has.
fn exists(metric: &str, sources: &str, recorded: &BTreeSet<String>) -> bool {
    let stems = ["_bucket", "_sum", "_count"];
    let stem = stems.iter().find_map(|stem| metric.strip_suffix(stem));
    let names = [Some(metric), stem];
    FOREIGN.contains(&metric)
        || recorded.contains(metric)
        || names.into_iter().flatten().any(|name| {
            let of_each = name
                .split_once('_')
                .is_some_and(|(_, rest)| sources.contains(&format!("\"{{name}}_{rest}\"")));
            sources.contains(&format!("\"{name}\"")) || of_each
        })
}

#[test]
fn the_metrics_of_an_expression_are_found() {
    let table: [(&str, &[&str]); 4] = [
        (
            "max by (pool) (a{x=\"y\"}) == 1\n and on (pool) changes(b[2h]) > 0",
            &["a", "b"],
        ),
        (
            "histogram_quantile(0.99, sum by (le) (rate(c_bucket[5m])))",
            &["c_bucket"],
        ),
        ("absent(d == 1) or e:sum / 100", &["d", "e:sum"]),
        ("sum(f) by (g)", &["f"]),
    ];
    for (expression, expected) in table {
        let found = metrics(expression);
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(found, expected, "{expression}");
    }
}

#[test]
fn rules_and_dashboards_ask_for_metrics_that_exist() -> Result<()> {
    let sources = sources()?;
    let mut expressions = panels()?;
    let mut recorded = BTreeSet::new();
    let mut alerts = BTreeSet::new();
    for (_, spec) in rules()? {
        let groups = spec["groups"].as_array().context("groups")?;
        for rule in groups
            .iter()
            .filter_map(|group| group["rules"].as_array())
            .flatten()
        {
            let expression = rule["expr"].as_str().context("expr")?.to_owned();
            let name = if let Some(name) = rule["record"].as_str() {
                recorded.insert(name.to_owned());
                name
            } else {
                let name = rule["alert"].as_str().context("alert or record")?;
                ensure!(alerts.insert(name.to_owned()), "{name} stands twice");
                name
            };
            expressions.push((name.to_owned(), expression));
        }
    }
    let documented = std::fs::read_to_string(root().join("docs/metrics.md"))?;
    for (name, expression) in expressions {
        let metrics = metrics(&expression);
        ensure!(!metrics.is_empty(), "{name} asks for nothing: {expression}");
        for metric in metrics {
            ensure!(
                exists(&metric, &sources, &recorded),
                "{name}: no program has {metric}"
            );
        }
    }
    for alert in alerts {
        let is_named = documented.contains(&format!("`{alert}`"));
        // Of OpenShift's version operator, which the page names as a whole.
        let is_its = alert.starts_with("Cluster") || alert.contains("Update") || is_named;
        ensure!(is_its, "docs/metrics.md does not name {alert}");
    }
    Ok(())
}

#[test]
#[ignore = "needs promtool"]
fn prometheus_reads_the_rules_and_the_controllers_alerts_come_in_time() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut names = Vec::new();
    for (name, spec) in rules()? {
        // JSON is YAML.
        std::fs::write(dir.path().join(&name), spec.to_string())?;
        names.push(name);
    }
    let run = |arguments: &[&str]| -> Result<()> {
        let output = Command::new("promtool")
            .args(arguments)
            .current_dir(dir.path())
            .output()
            .context("cannot run promtool, of Debian's package prometheus")?;
        ensure!(
            output.status.success(),
            "promtool {}:\n{}{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    };
    let mut check = vec!["check", "rules", "--lint=all", "--lint-fatal"];
    check.extend(names.iter().map(String::as_str));
    run(&check)?;
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("flow/monitoring/controller.yaml");
    std::fs::copy(cases, dir.path().join("cases.yaml"))?;
    let controller = names
        .iter()
        .find(|name| name.ends_with("controller-alerts.yaml"));
    let controller = controller.context("the controller has no rules")?;
    std::fs::rename(
        dir.path().join(controller),
        dir.path().join("controller-alerts.yaml"),
    )?;
    run(&["test", "rules", "cases.yaml"])
}
