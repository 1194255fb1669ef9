use std::collections::BTreeSet;

use release::update_graph::UpdateGraph;
use serde_json::{Value, json};

use super::super::fixture::{FROM, THROUGH, TO, cluster, mark, node, offer, pool, pools, wish};
use super::*;

/// Releases, and the updates between them; those with `?` are conditional.
fn graph(edges: &[&str]) -> UpdateGraph {
    let ends = |edge: &str| -> (String, String) {
        let (from, to) = edge.trim_end_matches('?').split_once('>').unwrap();
        (from.to_owned(), to.to_owned())
    };
    let all = edges
        .iter()
        .flat_map(|edge| <[String; 2]>::from(ends(edge)));
    let versions: Vec<String> = all.collect::<BTreeSet<String>>().into_iter().collect();
    let nodes: Vec<Value> = versions
        .iter()
        .map(|version| json!({ "version": version, "payload": offer(version)["image"] }))
        .collect();
    let at = |version: &str| versions.iter().position(|one| one == version).unwrap();
    let (risky, plain): (Vec<&&str>, Vec<&&str>) =
        edges.iter().partition(|edge| edge.ends_with('?'));
    let plain: Vec<[usize; 2]> = plain
        .iter()
        .map(|edge| <[String; 2]>::from(ends(edge)).map(|end| at(&end)))
        .collect();
    let risky: Vec<Value> = risky
        .iter()
        .map(|edge| {
            let (from, to) = ends(edge);
            json!({ "edges": [{ "from": from, "to": to }], "risks": [{
                "url": "https://example.com", "name": format!("RiskOf{from}"), "message": "m",
                "matchingRules": [{ "type": "Always" }]
            }] })
        })
        .collect();
    let graph = json!({ "version": 1, "nodes": nodes, "edges": plain, "conditionalEdges": risky });
    UpdateGraph::parse(graph.to_string().as_bytes()).unwrap()
}

fn plan(cluster: &CpoCluster, wish: &CpoWish, edges: &[&str]) -> Result<CpoPlan, String> {
    let graph = graph(edges);
    CpoPlan::new(cluster, wish, Some(("eus-4.18", &graph))).map_err(|why| {
        let text = why.to_string();
        let head = "the control plane cannot be updated alone:\n  * ";
        text.strip_prefix(head).unwrap().replace("\n  * ", "\n")
    })
}

const EDGES: [&str; 3] = ["4.16.30>4.17.20", "4.17.20>4.18.9", "4.17.18>4.18.9"];

#[test]
fn the_newest_release_between_that_leads_to_the_target_is_taken() {
    let mut risky = wish();
    risky.allow_not_recommended = true;
    let mut named = wish();
    named.through = Some("4.17.18".parse().unwrap());
    for (wish, edges, through, risks) in [
        (wish(), &EDGES[..], THROUGH, vec![]),
        // The newest one does not lead there.
        (wish(), &EDGES[2..], "4.17.18", vec![]),
        // An older one that leads there without a risk is better.
        (
            wish(),
            &["4.17.20>4.18.9?", EDGES[2]][..],
            "4.17.18",
            vec![],
        ),
        (
            risky.clone(),
            &["4.17.20>4.18.9?"],
            THROUGH,
            vec!["RiskOf4.17.20"],
        ),
        // The first hop may be a conditional update, too.
        (risky, &["4.17.21>4.18.9", EDGES[2]], "4.17.21", vec![]),
        (named, &[], "4.17.18", vec![]),
    ] {
        let plan = plan(&cluster(), &wish, edges).unwrap();
        assert_eq!(plan.through, through, "{edges:?}");
        assert_eq!(plan.risks, risks, "{edges:?}");
        assert_eq!((plan.from.as_str(), plan.to.as_str()), (FROM, TO));
    }
}

#[test]
fn all_pools_but_those_of_the_control_plane_are_paused_and_others_pauses_stay() {
    let mut cluster = cluster();
    let mut other = pool("edge");
    other["spec"]["paused"] = json!(true);
    // It is behind: its kubelets decide.
    other["status"]["conditions"][0]["status"] = json!("False");
    // A pool of another name with nodes of the control plane.
    let compact = pool("compact");
    let mut host = node("c1", "compact", "v1.29.14");
    host.labels.insert(
        "node-role.kubernetes.io/control-plane".to_owned(),
        String::new(),
    );
    cluster.nodes.push(host);
    cluster.pools = pools(&[
        pool("master"),
        mark("worker"),
        pool("infra"),
        other,
        compact,
    ]);
    let plan = plan(&cluster, &wish(), &EDGES).unwrap();
    assert_eq!(
        plan.text(),
        "Control plane only: 4.16.30 -> 4.17.20 -> 4.18.9\n  Paused until then: infra, worker\n  \
         Paused by others, and left so: edge\n"
    );
}

#[test]
fn a_target_that_is_not_two_minor_releases_on_is_refused() {
    for (to, through, expected) in [
        (
            "4.17.20",
            None,
            "4.17.20 is one minor release after 4.16.30: that is an ordinary update, `slipway upgrade --to 4.17.20`",
        ),
        (
            "4.16.31",
            None,
            "4.16.31 is not two minor releases after 4.16.30",
        ),
        (
            "4.19.1",
            None,
            "4.19.1 is not two minor releases after 4.16.30",
        ),
        (
            "4.15.1",
            None,
            "4.15.1 is not two minor releases after 4.16.30",
        ),
        (
            "5.18.1",
            None,
            "5.18.1 is not two minor releases after 4.16.30",
        ),
        (
            TO,
            Some("4.18.1"),
            "--through 4.18.1 is not of the minor release between 4.16.30 and 4.18.9",
        ),
    ] {
        let wish = CpoWish {
            to: to.parse().unwrap(),
            through: through.map(|through| through.parse().unwrap()),
            allow_not_recommended: false,
        };
        assert_eq!(plan(&cluster(), &wish, &EDGES).unwrap_err(), expected);
    }
}

#[test]
fn a_way_that_is_not_there_is_refused_with_what_is_there() {
    let mut named = wish();
    named.through = Some("4.17.21".parse().unwrap());
    let mut unknown = named.clone();
    unknown.through = Some("4.17.99".parse().unwrap());
    for (wish, edges, expected) in [
        (
            wish(),
            &["4.17.20>4.18.9?", "4.17.18>4.18.9?"][..],
            "channel eus-4.18: no release of 4.17.18, 4.17.20 leads to 4.18.9; not recommended, and taken by --allow-not-recommended: 4.17.20 (RiskOf4.17.20), 4.17.18 (RiskOf4.17.18)",
        ),
        (
            wish(),
            &["4.17.1>4.18.9"],
            "channel eus-4.18: no release of 4.17.18, 4.17.20 leads to 4.18.9",
        ),
        (
            wish(),
            &["4.17.20>4.18.8"],
            "channel eus-4.18: it does not hold 4.18.9; `slipway upgrade channel` sets one that does",
        ),
        (
            named,
            &EDGES,
            "ClusterVersion version: status.availableUpdates: 4.17.21 is not offered: Recommended=False: Bug: It breaks.",
        ),
        (
            unknown,
            &EDGES,
            "ClusterVersion version: status.availableUpdates: 4.17.99 is not offered: it is none of the updates of channel \"eus-4.18\"",
        ),
    ] {
        assert_eq!(plan(&cluster(), &wish, edges).unwrap_err(), expected);
    }
    let mut none = cluster();
    none.version.0["status"]["availableUpdates"] = json!(null);
    assert_eq!(
        plan(&none, &wish(), &EDGES).unwrap_err(),
        "ClusterVersion version: status.availableUpdates: no release of 4.17 is offered; not \
         recommended, and taken by --allow-not-recommended: 4.17.21"
    );
    let why = CpoPlan::new(&cluster(), &wish(), None).unwrap_err();
    assert!(why.to_string().contains("spec.channel is empty"), "{why}");
}

#[test]
fn conditions_of_the_cluster_forbid_it_and_so_does_their_absence() {
    let set = |kind: &str, status: Option<&str>| {
        let mut cluster = cluster();
        let conditions = cluster.version.0["status"]["conditions"]
            .as_array_mut()
            .unwrap();
        conditions.retain(|condition| condition["type"] != kind);
        conditions.extend(status.map(
            |status| json!({ "type": kind, "status": status, "reason": "R", "message": "m" }),
        ));
        plan(&cluster, &wish(), &EDGES)
    };
    for (kind, bad) in [
        ("Invalid", "True"),
        ("Failing", "True"),
        ("Failing", "Unknown"),
        ("Progressing", "True"),
        ("Upgradeable", "False"),
        ("Upgradeable", "Unknown"),
        ("RetrievedUpdates", "False"),
    ] {
        let expected = format!("ClusterVersion version: condition {kind} is {bad}: R: m");
        assert_eq!(set(kind, Some(bad)).unwrap_err(), expected);
    }
    for kind in ["Failing", "Progressing", "RetrievedUpdates"] {
        let expected = format!("ClusterVersion version: there is no condition {kind}");
        assert_eq!(set(kind, None).unwrap_err(), expected);
    }
    for kind in ["Invalid", "Upgradeable"] {
        set(kind, None).unwrap();
    }
    let mut requested = cluster();
    requested.version.0["spec"]["desiredUpdate"] = json!({ "version": "4.17.1" });
    assert_eq!(
        plan(&requested, &wish(), &EDGES).unwrap_err(),
        "ClusterVersion version: spec.desiredUpdate.version: 4.17.1 is requested"
    );
}

/// A pool, how it is changed, and the obstacle.
type PoolCase<'a> = (&'a str, &'a dyn Fn(&mut Value), &'a str);

#[test]
fn pools_that_cannot_be_paused_are_named() {
    let change = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut cluster = cluster();
        let all = ["master", "worker", "infra"].map(|of| {
            let mut pool = pool(of);
            if of == name {
                change(&mut pool);
            }
            pool
        });
        cluster.pools = pools(&all);
        plan(&cluster, &wish(), &EDGES).unwrap_err()
    };
    let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status, "reason": "R", "message": "m" });
    let table: [PoolCase<'_>; 10] = [
        (
            "worker",
            &|pool| pool["status"]["conditions"][2] = condition("Degraded", "True"),
            "MachineConfigPool worker: condition Degraded is True: R: m",
        ),
        (
            "worker",
            &|pool| {
                let halted = condition("RolloutDegraded", "True");
                pool["status"]["conditions"]
                    .as_array_mut()
                    .unwrap()
                    .push(halted);
            },
            "MachineConfigPool worker: condition RolloutDegraded is True: R: m",
        ),
        (
            "master",
            &|pool| pool["spec"]["paused"] = json!(true),
            "MachineConfigPool master: spec.paused is true: nodes of the control plane must be updated with each hop",
        ),
        (
            "master",
            &|pool| {
                pool["status"]["conditions"][0]["status"] = json!("False");
                pool["status"]["updatedMachineCount"] = json!(2);
                pool["status"]["conditions"][1]["message"] = json!("m2 is on its way");
            },
            "MachineConfigPool master: 2 of 3 nodes are updated: m2 is on its way",
        ),
        (
            "infra",
            &|pool| pool["metadata"]["generation"] = json!(4),
            "MachineConfigPool infra: status: observedGeneration is not the pool's",
        ),
        (
            "infra",
            &|pool| drop(pool.as_object_mut().unwrap().remove("status")),
            "MachineConfigPool infra: status: it is missing",
        ),
        (
            "infra",
            &|pool| pool["status"]["conditions"] = json!([]),
            "MachineConfigPool infra: status: there is no condition Updated",
        ),
        (
            "infra",
            &|pool| {
                let label = "operator.machineconfiguration.openshift.io/required-for-upgrade";
                pool["metadata"]["labels"] = json!({ label: "" });
            },
            "MachineConfigPool infra: label operator.machineconfiguration.openshift.io/required-for-upgrade: each release waits for the pool, so it cannot be paused",
        ),
        (
            "infra",
            &|pool| pool["status"]["certExpirys"][1]["expiry"] = json!("2026-03-01T00:00:00Z"),
            "MachineConfigPool infra: status.certExpirys: KubeAPIServerServingCAData expires at 2026-03-01T00:00:00Z; an update of two releases may keep the pool paused for 60 days",
        ),
        (
            "infra",
            &|pool| pool["status"]["certExpirys"] = json!([{ "bundle": "B", "subject": "s" }]),
            "MachineConfigPool infra: status.certExpirys: B has no time at which it expires; an update of two releases may keep the pool paused for 60 days",
        ),
    ];
    for (name, by, expected) in table {
        assert_eq!(change(name, by), expected);
    }
}

#[test]
fn kubelets_that_are_too_old_at_the_end_are_named_with_their_versions() {
    let mut cluster = cluster();
    cluster.nodes = vec![
        // Of the control plane: it is updated with the first hop.
        node("m1", "master", "v1.27.1"),
        node("m2", "master", "v1.26.1"),
        node("w1", "worker", "v1.28.1"),
        node("w2", "worker", "v1.27.1"),
        // In no pool.
        node("x1", "windows", ""),
    ];
    assert_eq!(
        plan(&cluster, &wish(), &EDGES).unwrap_err(),
        "Nodes: status.nodeInfo.kubeletVersion: at the end of hop 1 an API server of 1.30 does not \
         support kubelets of nodes m2 (v1.26.1)\n\
         Nodes: status.nodeInfo.kubeletVersion: at the end of hop 2 an API server of 1.31 does not \
         support kubelets of nodes w2 (v1.27.1); unknown whether an API server of 1.31 supports \
         kubelets of nodes x1 (no version)"
    );
    cluster.api_server = "devel".to_owned();
    assert_eq!(
        plan(&cluster, &wish(), &EDGES).unwrap_err(),
        "API server: version \"devel\" is no version of Kubernetes"
    );
}

#[test]
fn all_that_forbids_it_is_named_at_once() {
    let mut cluster = cluster();
    cluster.version.0["spec"]["desiredUpdate"] = json!({ "version": "4.17.1" });
    cluster.api_server = String::new();
    let why = plan(&cluster, &wish(), &["4.17.1>4.18.9"]).unwrap_err();
    assert_eq!(why.lines().count(), 3, "{why}");
}
