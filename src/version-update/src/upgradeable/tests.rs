use release::update_graph::{Offer, UpdateNode};
use serde_json::json;

use super::*;

fn operator(version: &str, status: &str) -> ClusterOperatorStatus {
    serde_json::from_value(json!({
        "conditions": [{ "type": "Upgradeable", "status": status, "message": "Not now.",
                         "lastTransitionTime": "2025-01-01T00:00:00Z" }],
        "versions": [{ "name": "operator", "version": version }],
    }))
    .unwrap()
}

fn inputs(gates: &[(&str, &str)], acks: &[(&str, &str)]) -> UpgradeInputs {
    let map = |pairs: &[(&str, &str)]| {
        let pairs = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Some(pairs.collect())
    };
    UpgradeInputs {
        operators: BTreeMap::new(),
        has_operators: false,
        gates: map(gates),
        acks: map(acks),
    }
}

fn shown(inputs: &UpgradeInputs) -> Vec<String> {
    let spec = ClusterVersionSpec::default();
    let found = risks(inputs, &spec, "4.16.3", false, &BTreeSet::new());
    found
        .iter()
        .map(|risk| format!("{}: {}", risk.name, risk.message))
        .collect()
}

/// No opinion is no consent.
#[test]
fn missing_operators_are_not_known() {
    let mut inputs = inputs(&[], &[]);
    inputs.has_operators = true;
    let unknown = "ClusterOperatorUpgradeableUnknown: Failed to list ClusterOperators: the release \
                   has some, and the cluster has none";
    assert_eq!(shown(&inputs), [unknown]);
    inputs
        .operators
        .insert("a".to_owned(), operator("4.16.3", "True"));
    assert_eq!(shown(&inputs), Vec::<String>::new());
}

#[test]
fn gate_holds_until_it_is_acknowledged() {
    let gates = [
        ("ack-4.16-apis", "Read https://e first."),
        ("ack-4.15-old", "Old."),
        ("ack-4.16-empty", ""),
        ("nonsense", "x"),
    ];
    assert_eq!(
        shown(&inputs(&gates, &[("ack-4.15-old", "true")])),
        [
            "AdminAck-ack-4.16-apis: Read https://e first.",
            "AdminAck-ack-4.16-empty: admin-gates configmap gate ack-4.16-empty must contain a non-empty value.",
            "AdminAck-nonsense: admin-gates configmap gate \"nonsense\" is invalid: it does not begin with ack-<major>.<minor>-",
        ]
    );
    let acks = [("ack-4.16-apis", "true"), ("ack-4.16-empty", "yes")];
    assert_eq!(shown(&inputs(&gates[..2], &acks)), Vec::<String>::new());
    for gate in [
        "ack-4.16--x",
        "ack-3.1-x",
        "ack-4.-x",
        "ack-4.1x-y",
        "ack-4.16-",
    ] {
        assert_eq!(release_of(gate), None, "{gate}");
    }
    let none = UpgradeInputs {
        gates: None,
        ..inputs(&[], &[])
    };
    assert!(
        shown(&none)[0].starts_with("AdminAckUnknown: Failed to retrieve ConfigMap admin-gates")
    );
    let none = UpgradeInputs {
        acks: None,
        ..inputs(&[], &[])
    };
    assert!(shown(&none)[0].contains("admin-acks from namespace openshift-config:"));
}

/// Opinions are tied to the operator's version. Row 10 of `docs/reference/known-weaknesses.md`,
/// "Version operator".
#[test]
fn opinion_of_an_operator_counts_for_its_own_release() {
    let mut inputs = inputs(&[], &[]);
    let operators = [
        ("b", operator("4.16.1", "False")),
        ("a", operator("4.16.3", "False")),
        ("old", operator("4.15.9", "False")),
        ("fine", operator("4.16.3", "True")),
        ("unknown", operator("4.16.3", "Unknown")),
    ];
    inputs.operators = operators
        .map(|(name, status)| (name.to_owned(), status))
        .into();
    assert_eq!(
        shown(&inputs),
        [
            "ClusterOperatorUpgradeable-a: Not now.",
            "ClusterOperatorUpgradeable-b: Not now."
        ]
    );
}

#[test]
fn own_reasons_come_first() {
    let spec = serde_json::from_value(json!({ "overrides": [{
        "kind": "ConfigMap", "group": "", "namespace": "n", "name": "m", "unmanaged": true
    }] }));
    let deletions = ["b", "a"].map(str::to_owned).into();
    let found = risks(
        &inputs(&[], &[]),
        &spec.unwrap(),
        "4.16.3",
        true,
        &deletions,
    );
    let names: Vec<&str> = found.iter().map(|risk| risk.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "ClusterVersionUpdating",
            "ClusterVersionOverrides",
            "ResourceDeletionInProgress"
        ]
    );
    assert!(found[2].message.ends_with("resources=a,b"));
}

#[test]
fn condition_has_the_only_risk_or_all() {
    let risk = |name: &str| UpgradeRisk {
        name: name.to_owned(),
        message: format!("{name}."),
    };
    assert_eq!(condition(&[]), None);
    let pair = |reason: &str, message: &str| Some((reason.to_owned(), message.to_owned()));
    assert_eq!(condition(&[risk("Own")]), pair("Own", "Own."));
    assert_eq!(
        condition(&[risk("AdminAck-x")]),
        pair("RiskNameNotCompatibleWithReasonProperty", "AdminAck-x.")
    );
    let (reason, message) = condition(&[risk("A"), risk("B")]).unwrap();
    assert_eq!(reason, "MultipleReasons");
    assert!(
        message.ends_with("multiple reasons:\n* A.\n* B."),
        "{message}"
    );
}

#[test]
fn reasons_are_risks_of_updates_to_a_later_minor_release() {
    let offer = |version: &str| Offer {
        version: version.parse().unwrap(),
        node: UpdateNode::default(),
        risks: Vec::new(),
    };
    let offers = || Offers {
        current: UpdateNode::default(),
        offers: ["5.0.0", "4.17.0", "4.16.9", "4.15.30"].map(offer).into(),
        dropped: Vec::new(),
    };
    let reason = |name: &str, message: &str| UpgradeRisk {
        name: name.to_owned(),
        message: message.to_owned(),
    };
    let reasons = [
        reason(
            "AdminAck-ack-4.16-apis",
            "See (https://e/apis), then https://e/b.",
        ),
        reason("AdminAck-ack_4.16", "No risk may be called so."),
        reason("ClusterOperatorUpgradeable-dns", ""),
    ];
    let joined = |current: &str| -> Vec<String> {
        let mut offers = offers();
        join(&mut offers, &reasons, current);
        let shown = offers.offers.iter().map(|offer| {
            let names = offer.risks.iter().map(|risk| risk.name.as_str());
            format!("{} {}", offer.version, names.collect::<Vec<_>>().join(","))
        });
        shown.collect()
    };
    let both = "AdminAck-ack-4.16-apis,ClusterOperatorUpgradeable-dns";
    assert_eq!(
        joined("4.16.3"),
        [
            format!("5.0.0 {both}"),
            format!("4.17.0 {both}"),
            "4.16.9 ".to_owned(),
            "4.15.30 ".to_owned()
        ]
    );
    // Without a version to compare, each update counts.
    assert!(joined("").iter().all(|shown| shown.ends_with(both)));

    let mut offers = offers();
    join(&mut offers, &reasons, "4.16.3");
    let [apis, dns] = offers.offers[0].risks.as_slice() else {
        panic!("{offers:?}");
    };
    assert_eq!(apis.url, "https://e/apis");
    assert_eq!(dns.url, PAGE);
    assert_eq!(
        dns.message,
        "ClusterOperatorUpgradeable-dns has no message."
    );
    assert!(
        [apis, dns]
            .iter()
            .all(|risk| risk.rules == [RiskRule::Always])
    );
}
