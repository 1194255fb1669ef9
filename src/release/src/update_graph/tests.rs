use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn document() -> Value {
    json!({
        "version": 1,
        "nodes": [
            { "version": "4.18.3", "payload": "q/r@sha256:3", "metadata": { "url": "https://e" } },
            { "version": "4.17.9", "payload": "q/r@sha256:9", "metadata": {} },
            { "version": "4.17.10" },
        ],
        "edges": [[1, 2]],
        "conditionalEdges": [{
            "edges": [{ "from": "4.17.9", "to": "4.18.3" }],
            "risks": [{
                "url": "https://r", "name": "Risk", "message": "It breaks.",
                "matchingRules": [
                    { "type": "PromQL", "promql": { "promql": "up" } },
                    { "type": "Always" },
                ],
            }],
        }],
        "something": "else",
    })
}

fn parse(document: &Value) -> Result<UpdateGraph, Error> {
    UpdateGraph::parse(document.to_string().as_bytes())
}

#[test]
fn graph_is_read_with_edges_by_version() {
    let graph = parse(&document()).unwrap();
    assert_eq!(graph.nodes.len(), 3);
    assert_eq!(graph.nodes[&version("4.17.10")], UpdateNode::default());
    let edge = |from, to| UpdateEdge {
        from: version(from),
        to: version(to),
    };
    assert_eq!(graph.edges, [edge("4.17.9", "4.17.10")].into());
    let group = &graph.conditional[0];
    assert_eq!(group.edges, [edge("4.17.9", "4.18.3")].into());
    assert_eq!(
        group.risks[0].rules,
        [RiskRule::PromQl("up".to_owned()), RiskRule::Always]
    );
}

#[test]
fn absent_and_null_lists_are_empty() {
    for text in [
        "{}",
        r#"{"nodes":null,"edges":null,"conditionalEdges":null}"#,
    ] {
        let graph = UpdateGraph::parse(text.as_bytes()).unwrap();
        assert_eq!(graph, UpdateGraph::default());
    }
    let null = r#"{"nodes":[{"version":"4.1.0","payload":"p","metadata":null}]}"#;
    assert!(UpdateGraph::parse(null.as_bytes()).is_ok());
}

#[test]
fn error_names_the_field() {
    for (pointer, value, expected) in [
        ("/version", json!(2), "field version: 2 is not 1"),
        ("/nodes/0/version", json!("4"), "field nodes[0].version"),
        (
            "/nodes/0/version",
            json!("4.17.9"),
            "field nodes[1].version: 4.17.9 is there twice",
        ),
        (
            "/nodes/1/metadata",
            json!({ "a": 1 }),
            "field nodes[1].metadata.a",
        ),
        ("/edges/0/1", json!(3), "field edges[0][1]: 3 is no node"),
        (
            "/edges/0/1",
            json!(1),
            "field edges[0]: 4.17.9 leads to itself",
        ),
        ("/edges/0/1", json!(-1), "field edges[0][1]"),
        (
            "/conditionalEdges/0/edges/0/to",
            json!("4.18.4"),
            "no node for conditional update 4.18.4: the answer lacks this release \
             (conditionalEdges[0].edges[0].to)",
        ),
        (
            "/conditionalEdges/0/risks",
            json!([]),
            "field conditionalEdges[0].risks is empty",
        ),
        (
            "/conditionalEdges/0/risks/0/name",
            json!(null),
            "field conditionalEdges[0].risks[0].name",
        ),
    ] {
        let mut document = document();
        *document.pointer_mut(pointer).unwrap() = value;
        assert_eq!(parse(&document).unwrap_err().to_string(), expected);
    }
    let trailing = UpdateGraph::parse(b"{} x").unwrap_err();
    assert_eq!(trailing.to_string(), "field .");
}

/// OpenShift's clients read the updates of their own release only.
#[test]
fn faults_of_other_updates_are_no_concern_of_a_cluster() {
    let (own, other) = (version("4.17.9+amd64"), version("4.18.3"));
    for (pointer, value) in [
        ("/edges/0/1", json!(9)),
        ("/edges/0/1", json!(1)),
        ("/conditionalEdges/0/edges/0/to", json!("4.99.0")),
        ("/conditionalEdges/0/edges/0/to", json!("four")),
        ("/conditionalEdges/0/risks", json!([])),
    ] {
        let mut document = document();
        *document.pointer_mut(pointer).unwrap() = value;
        let bytes = document.to_string().into_bytes();
        assert!(UpdateGraph::parse(&bytes).is_err(), "{pointer}");
        assert!(UpdateGraph::parse_for(&bytes, &own).is_err(), "{pointer}");
        let graph = UpdateGraph::parse_for(&bytes, &other).unwrap();
        assert_eq!((graph.nodes.len(), graph.edges.len()), (3, 0));
        assert!(graph.conditional.is_empty());
    }
    let whole = document();
    let graph = UpdateGraph::parse_for(whole.to_string().as_bytes(), &own).unwrap();
    let offers = parse(&whole).unwrap().offers(&own);
    assert_eq!(graph.offers(&own), offers);
}

#[test]
fn rule_that_is_not_known_says_why() {
    for (rule, expected) in [
        (json!({ "type": "Moon" }), "type \"Moon\" is not known"),
        (json!({ "type": "PromQL" }), "promql.promql is empty"),
        (
            json!({ "type": "Always", "promql": { "promql": "up" } }),
            "promql is set",
        ),
    ] {
        let mut document = document();
        *document
            .pointer_mut("/conditionalEdges/0/risks/0/matchingRules/1")
            .unwrap() = rule;
        let graph = parse(&document).unwrap();
        let RiskRule::Unknown { why, .. } = &graph.conditional[0].risks[0].rules[1] else {
            panic!("{graph:?}");
        };
        assert_eq!(why, expected);
    }
}

#[test]
fn order_of_the_document_does_not_change_the_bytes() {
    let mut other = document();
    other["nodes"].as_array_mut().unwrap().reverse();
    other["edges"] = json!([[1, 0]]);
    let graph = parse(&document()).unwrap();
    assert_eq!(graph.print(), parse(&other).unwrap().print());
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(
        patches in prop::collection::btree_set(0_u64..30, 0..12),
        edges in prop::collection::vec((0_usize..12, 0_usize..12), 0..20),
        conditional in prop::collection::vec((0_usize..12, 0_usize..12), 0..6),
    ) {
        let versions: Vec<Version> =
            patches.iter().map(|patch| version(&format!("4.1.{patch}"))).collect();
        let edge = |(from, to): (usize, usize)| {
            let (from, to) = (versions.get(from)?.clone(), versions.get(to)?.clone());
            (from != to).then_some(UpdateEdge { from, to })
        };
        let group = |pair| {
            let edges = BTreeSet::from([edge(pair)?]);
            let risks = vec![UpdateRisk {
                url: "u".to_owned(),
                name: "n".to_owned(),
                message: "m".to_owned(),
                rules: vec![RiskRule::Always],
            }];
            Some(ConditionalEdges { edges, risks })
        };
        let graph = UpdateGraph {
            nodes: versions.iter().map(|one| (one.clone(), UpdateNode::default())).collect(),
            edges: edges.into_iter().filter_map(edge).collect(),
            conditional: conditional.into_iter().filter_map(group).collect(),
        };
        prop_assert_eq!(UpdateGraph::parse(&graph.print()).unwrap(), graph);
    }
}
