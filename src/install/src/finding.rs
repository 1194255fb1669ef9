//! What is missing on cluster and hosts, and what may hurt.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::component::InstallComponent;
use crate::survey::{GROUPS, InstallSurvey, NodeCheck, Rehearsed};

/// Oldest version of Kubernetes: admission policies are in it since then.
const KUBERNETES: (u32, u32) = (1, 30);

/// Nodes that are named in one finding; of more, how many.
const NODES: usize = 5;

/// Something that speaks against an installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstallFinding {
    /// Whether nothing is applied while it is so.
    pub blocks: bool,
    /// Object, node or component.
    pub subject: String,
    /// For people.
    pub message: String,
}

impl fmt::Display for InstallFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subject, message, ..
        } = self;
        write!(f, "{subject}: {message}")
    }
}

fn missing(subject: impl fmt::Display, message: impl Into<String>) -> InstallFinding {
    InstallFinding {
        blocks: true,
        subject: subject.to_string(),
        message: message.into(),
    }
}

/// All findings: those of the cluster first, then those of nodes by name.
pub fn findings(
    survey: &InstallSurvey,
    components: &BTreeSet<InstallComponent>,
) -> Vec<InstallFinding> {
    let mut found = Vec::new();
    found.extend(version(&survey.server));
    if !survey.adopts {
        found.extend(survey.rivals.iter().map(|rival| {
            let image = &rival.image;
            missing(
                &rival.id,
                format!(
                    "it runs {image}, an operator of OpenShift; two would undo each other's work: \
                     --adopt takes it over"
                ),
            )
        }));
    }
    found.extend(survey.before.iter().map(|rival| {
        missing(
            &rival.id,
            format!(
                "it runs {}: take its component over before the version operator",
                rival.image
            ),
        )
    }));
    for request in &survey.denied {
        found.push(missing("rights", format!("you may not {request}")));
    }
    let mut unserved = BTreeSet::new();
    for group in GROUPS
        .iter()
        .filter(|it| components.contains(&it.component))
    {
        if !survey.groups.contains(group) {
            // One finding for all objects of the group.
            unserved.insert(group.group);
            found.push(missing(
                group.component,
                format!(
                    "the API server serves no kind of {}, which {} brings",
                    group.group, group.from
                ),
            ));
        }
    }
    for provided in &survey.lacking {
        let kind = provided.kind;
        let component = provided.component;
        let (subject, with) = match (provided.at, provided.keys.join(", ")) {
            (("", name), _) => (format!("{kind:?} {name}"), String::new()),
            ((namespace, name), keys) => (
                format!("{kind:?} {namespace}/{name}"),
                format!(" with {keys}"),
            ),
        };
        found.push(missing(
            subject,
            format!("it is not there{with}: create it before, component {component} waits for it"),
        ));
    }
    for (id, rehearsed) in &survey.rehearsed {
        if unserved.contains(id.group.as_str()) {
            continue;
        }
        match rehearsed {
            Rehearsed::Conflicts(fields) => found.push(missing(
                id,
                format!("{}: --force-conflicts takes them", fields.join("; ")),
            )),
            Rehearsed::Refused(why) => found.push(missing(id, why)),
            Rehearsed::Create | Rehearsed::Change | Rehearsed::Keep | Rehearsed::Later => {}
        }
    }
    found.extend(of_nodes(&survey.nodes));
    found
}

/// Findings of nodes; what several of them say is one.
fn of_nodes(nodes: &BTreeMap<String, NodeCheck>) -> Vec<InstallFinding> {
    let mut findings: Vec<((bool, String), Vec<&str>)> = Vec::new();
    for (node, check) in nodes {
        for words in words(check) {
            match findings.iter_mut().find(|(other, _)| *other == words) {
                Some((_, nodes)) => nodes.push(node),
                None => findings.push((words, vec![node])),
            }
        }
    }
    let finding = findings.into_iter().map(|((blocks, message), nodes)| {
        let named = nodes
            .iter()
            .take(NODES)
            .copied()
            .collect::<Vec<_>>()
            .join(", ");
        let subject = match nodes.len() {
            1 => format!("node {named}"),
            all if all <= NODES => format!("nodes {named}"),
            all => format!("nodes {named} and {} more", all - NODES),
        };
        InstallFinding {
            blocks,
            subject,
            message,
        }
    });
    finding.collect()
}

/// What a check says, and whether it blocks.
fn words(check: &NodeCheck) -> Vec<(bool, String)> {
    match check {
        NodeCheck::Away => vec![(
            false,
            "not Ready, so that the host was not checked; the daemon starts there once it is back"
                .to_owned(),
        )],
        NodeCheck::Unknown(why) => vec![(true, why.clone())],
        NodeCheck::Reported(problems) => {
            let problem = problems.iter().map(|it| {
                let message = format!("{}: {}", it.check, it.message);
                (it.is_missing, message)
            });
            problem.collect()
        }
    }
}

fn version((major, minor): &(String, String)) -> Option<InstallFinding> {
    let (wanted_major, wanted_minor) = KUBERNETES;
    // Some distributions say `33+`.
    let number = |text: &str| text.trim_end_matches('+').parse::<u32>().ok();
    let found = (number(major), number(minor));
    let wanted = format!("Kubernetes {wanted_major}.{wanted_minor} or newer is needed");
    match found {
        (Some(major), Some(minor)) if (major, minor) >= KUBERNETES => None,
        (Some(major), Some(minor)) => Some(missing(
            "API server",
            format!("its version is {major}.{minor}: {wanted}"),
        )),
        _ => Some(missing(
            "API server",
            format!("its version {major:?}.{minor:?} is not known: {wanted}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::manifest;
    use crate::rival::Rival;
    use crate::survey::{HostProblem, PROVIDED};

    fn good() -> InstallSurvey {
        InstallSurvey {
            server: ("1".to_owned(), "30+".to_owned()),
            ..InstallSurvey::default()
        }
    }

    fn texts(survey: &InstallSurvey, components: &[InstallComponent]) -> Vec<(bool, String)> {
        let components = components.iter().copied().collect();
        let all = findings(survey, &components).into_iter();
        all.map(|it| (it.blocks, it.to_string())).collect()
    }

    #[test]
    fn an_old_or_unknown_api_server_is_not_good() {
        for (version, expected) in [
            (("1", "30"), ""),
            (("2", "0"), ""),
            (
                ("1", "29+"),
                "API server: its version is 1.29: Kubernetes 1.30 or newer is needed",
            ),
            (
                ("", ""),
                "API server: its version \"\".\"\" is not known: Kubernetes 1.30 or newer is needed",
            ),
        ] {
            let found = super::version(&(version.0.to_owned(), version.1.to_owned()));
            let found = found.map(|it| it.to_string()).unwrap_or_default();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_components_wait_for_is_named() {
        use InstallComponent::{ConfigServer, MachineConfig, ManagedUpgrade, Monitoring};
        assert_eq!(texts(&good(), &[MachineConfig]), []);
        let mut survey = good();
        survey.lacking.extend([PROVIDED[0], PROVIDED[2]]);
        let expected = [
            (
                true,
                "monitoring: the API server serves no kind of monitoring.coreos.com, which the \
                 Prometheus operator brings",
            ),
            (
                true,
                "managed-upgrade: the API server serves no kind of machine.openshift.io, which \
                 OpenShift's machine API brings",
            ),
            (
                true,
                "ConfigMap openshift-machine-config-operator/machine-config-server: it is not \
                 there with apiserver-url, config-server-url, ca.crt: create it before, component \
                 config-server waits for it",
            ),
            (
                true,
                "ControllerConfig machine-config-controller: it is not there: create it before, \
                 component version-operator waits for it",
            ),
        ];
        let expected = expected.map(|(blocks, text)| (blocks, text.to_owned()));
        let components = [ConfigServer, MachineConfig, ManagedUpgrade, Monitoring];
        assert_eq!(texts(&survey, &components), expected);
        survey.groups.extend(GROUPS);
        survey.lacking.clear();
        assert_eq!(texts(&survey, &components), []);
    }

    #[test]
    fn what_many_nodes_say_is_said_once() {
        let nodes = (1..=7).map(|number| (format!("w{number}"), NodeCheck::Away));
        let all: Vec<_> = of_nodes(&nodes.clone().collect())
            .into_iter()
            .map(|it| it.subject)
            .collect();
        assert_eq!(all, ["nodes w1, w2, w3, w4, w5 and 2 more"]);
        let two: Vec<_> = of_nodes(&nodes.take(2).collect())
            .into_iter()
            .map(|it| it.subject)
            .collect();
        assert_eq!(two, ["nodes w1, w2"]);
    }

    #[test]
    fn what_is_taken_over_does_not_speak_against_it() {
        let rival = Rival {
            id: manifest("Service", "r").id,
            image: "quay.io/a".to_owned(),
        };
        let mut survey = InstallSurvey {
            rivals: vec![rival],
            ..good()
        };
        assert_eq!(texts(&survey, &[InstallComponent::MachineConfig]).len(), 1);
        survey.adopts = true;
        assert_eq!(texts(&survey, &[InstallComponent::MachineConfig]), []);
    }

    #[test]
    fn objects_and_nodes_say_what_speaks_against_them() {
        let mut survey = good();
        survey.denied = vec!["create namespaces".to_owned()];
        let id = |name: &str| manifest("Service", name).id;
        survey.rivals = vec![Rival {
            id: id("r"),
            image: "quay.io/a".to_owned(),
        }];
        survey.before = vec![Rival {
            id: id("q"),
            image: "quay.io/b".to_owned(),
        }];
        survey.rehearsed = [
            (id("a"), Rehearsed::Create),
            (
                id("b"),
                Rehearsed::Conflicts(vec![".a is owned by \"x\"".to_owned()]),
            ),
            (id("c"), Rehearsed::Refused("no".to_owned())),
            (id("d"), Rehearsed::Later),
        ]
        .into();
        let problem = |is_missing| HostProblem {
            check: "skopeo".to_owned(),
            is_missing,
            message: "gone".to_owned(),
        };
        survey.nodes = [
            ("w1", NodeCheck::Reported(Vec::new())),
            ("w2", NodeCheck::Away),
            ("w3", NodeCheck::Unknown("no image".to_owned())),
            (
                "w4",
                NodeCheck::Reported(vec![problem(true), problem(false)]),
            ),
        ]
        .map(|(node, check)| (node.to_owned(), check))
        .into();
        let expected = [
            (
                true,
                "Service n/r: it runs quay.io/a, an operator of OpenShift; two would undo each \
                 other's work: --adopt takes it over",
            ),
            (
                true,
                "Service n/q: it runs quay.io/b: take its component over before the version \
                 operator",
            ),
            (true, "rights: you may not create namespaces"),
            (
                true,
                "Service n/b: .a is owned by \"x\": --force-conflicts takes them",
            ),
            (true, "Service n/c: no"),
            (
                false,
                "node w2: not Ready, so that the host was not checked; the daemon starts there \
                 once it is back",
            ),
            (true, "node w3: no image"),
            (true, "node w4: skopeo: gone"),
            (false, "node w4: skopeo: gone"),
        ]
        .map(|(blocks, text)| (blocks, text.to_owned()));
        assert_eq!(texts(&survey, &[InstallComponent::MachineConfig]), expected);
    }
}
