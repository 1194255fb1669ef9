//! The first release of a cluster.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use lab::audit::Event;
use serde_json::json;
use testbed::objects;

use crate::env::{Cluster, WELL, is_write};
use crate::payload::{COMPONENTS, VERSION, definition};

/// All components are applied at once, and a definition is waited for only before an object of its
/// group.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary"]
async fn only_definitions_of_what_comes_next_are_waited_for() -> Result<()> {
    let cluster = Cluster::start("first", 15).await?;
    let none = json!({ "history": [] });
    objects::set_status(&cluster.versions, "version", &none).await?;
    // The release has no object of this kind.
    let other = definition("other.example.com", "Gadget", "gadgets");
    cluster
        .payload
        .write("0000_10_alpha_00_other.json", &other)?;
    let process = cluster.run()?;
    for (_, component) in COMPONENTS {
        cluster.until_reported(component, VERSION, &WELL).await?;
    }
    cluster
        .until_condition("Progressing", "Cluster version is 4.2.0")
        .await?;
    let events = cluster.events()?;
    // The next pass reads what has changed.
    let log = cluster.log()?;
    let mut lines = log.lines();
    let end = lines.find(|line| line.ends_with("applied the release"));
    let end = end.and_then(|line| line.split_whitespace().next());
    let end: Timestamp = end.context("the end of the first pass")?.parse()?;
    cluster.control_plane.kubectl(&["get", "widget", "w"])?;

    let reads = |name: &str| {
        let is_read = |event: &&Event| {
            let is_definition = event.concerns("apiextensions.k8s.io", "customresourcedefinitions");
            let is_asked = event.user_agent.starts_with("cvo/") && event.uri.contains(name);
            is_definition && is_asked && !is_write(event) && event.received < end
        };
        // A watch has several stages.
        let requests = events.iter().filter(is_read).map(|event| &event.audit_id);
        requests.collect::<BTreeSet<_>>().len()
    };
    assert_eq!(reads("gadgets.other.example.com"), 0);
    // One read, and a watch where it was not established yet.
    assert!(reads("widgets.example.com") <= 2);
    drop(process);
    Ok(())
}
