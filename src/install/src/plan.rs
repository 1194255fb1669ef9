//! What an installation would apply.

use std::collections::{BTreeMap, BTreeSet};

use release::manifest::{Manifest, ObjectId};
use serde::Serialize;

use crate::component::InstallComponent;
use crate::finding::{InstallFinding, findings};
use crate::order;
use crate::record::{InstallRecord, RecordedObject};
use crate::survey::{InstallSurvey, NodeCheck, Rehearsed};

/// What an installation would apply, and what speaks against it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallPlan {
    /// The version to install.
    pub version: String,
    /// The version that is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former: Option<String>,
    /// What is installed.
    pub components: BTreeSet<InstallComponent>,
    /// Objects that are created, in the order of application.
    pub create: Vec<String>,
    /// Objects that are changed.
    pub change: Vec<String>,
    /// Objects that are as they should be.
    pub keep: Vec<String>,
    /// Objects that the version has not any more.
    pub remove: Vec<String>,
    /// Objects of OpenShift's operators that are replaced whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replace: Vec<String>,
    /// Nodes whose hosts reported.
    pub nodes_checked: usize,
    /// Nodes that are not Ready.
    pub nodes_away: Vec<String>,
    /// What speaks against it.
    pub findings: Vec<InstallFinding>,
    /// Whether work of OpenShift's operators is taken over.
    #[serde(skip)]
    pub adopts: bool,
    /// Admission policies that refuse changes of network policies, and are unbound meanwhile.
    #[serde(skip)]
    pub unbound: Vec<ObjectId>,
    /// What is removed once all is applied.
    #[serde(skip)]
    pub stale: Vec<RecordedObject>,
    /// Objects that are removed before ours are applied under their names.
    #[serde(skip)]
    pub replaced: Vec<ObjectId>,
}

impl InstallPlan {
    /// From what is wanted and what was seen.
    pub fn new(
        (version, components): (&str, &BTreeSet<InstallComponent>),
        wanted: &[Manifest],
        former: Option<&InstallRecord>,
        mut survey: InstallSurvey,
    ) -> Self {
        let unbound = unbind(wanted, &mut survey);
        let replaced = replace(&mut survey);
        let of = |which: &[Rehearsed]| {
            let is_it = |it: &&Manifest| {
                let rehearsed = survey.rehearsed.get(&it.id);
                rehearsed.is_some_and(|it| which.contains(it))
            };
            let names = wanted.iter().filter(is_it).map(|it| it.id.to_string());
            names.collect::<Vec<_>>()
        };
        let nodes = |is: fn(&NodeCheck) -> bool| {
            let nodes = survey.nodes.iter().filter(move |(_, check)| is(check));
            nodes.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let stale = former.map(|it| it.stale(wanted)).unwrap_or_default();
        Self {
            version: version.to_owned(),
            former: former.map(|it| it.version.clone()),
            components: components.clone(),
            create: of(&[Rehearsed::Create, Rehearsed::Later]),
            change: of(&[Rehearsed::Change]),
            keep: of(&[Rehearsed::Keep]),
            remove: stale.iter().map(|it| it.id().to_string()).collect(),
            replace: replaced.iter().map(ToString::to_string).collect(),
            nodes_checked: nodes(|it| matches!(it, NodeCheck::Reported(_))).len(),
            nodes_away: nodes(|it| *it == NodeCheck::Away),
            findings: findings(&survey, components),
            adopts: survey.adopts,
            unbound,
            stale,
            replaced,
        }
    }

    /// The same without removals: another operator applies what is not wanted here.
    #[must_use]
    pub fn without_removals(mut self) -> Self {
        self.stale.clear();
        self.remove.clear();
        self
    }

    /// How many findings forbid it.
    pub fn blocks(&self) -> usize {
        self.findings.iter().filter(|it| it.blocks).count()
    }

    /// Whether nothing is to be done.
    pub const fn is_done(&self) -> bool {
        self.create.is_empty() && self.change.is_empty() && self.remove.is_empty()
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let names: Vec<_> = self.components.iter().map(|it| it.name()).collect();
        let from = self.former.as_ref().filter(|it| **it != self.version);
        let from = from.map_or_else(String::new, |it| format!(", from {it}"));
        let mut line = |text_: &str| {
            text.push_str(text_);
            text.push('\n');
        };
        line(&format!(
            "slipway {}{from}: {}",
            self.version,
            names.join(", ")
        ));
        for (word, objects) in [
            ("create", &self.create),
            ("change", &self.change),
            ("keep", &self.keep),
            ("remove", &self.remove),
            ("replace", &self.replace),
        ] {
            if !objects.is_empty() {
                line(&format!(
                    "  {word:<7}{:>4}  {}",
                    objects.len(),
                    summary(objects)
                ));
            }
        }
        if self.nodes_checked > 0 || !self.nodes_away.is_empty() {
            line(&format!("  hosts  {:>4}  checked", self.nodes_checked));
        }
        for finding in &self.findings {
            let sign = if finding.blocks { '✗' } else { '!' };
            line(&format!("{sign} {finding}"));
        }
        text
    }
}

/// Kinds that are counted apart.
const KINDS: usize = 4;

/// Kinds with their numbers, most frequent first.
fn summary(objects: &[String]) -> String {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for object in objects {
        let kind = object.split([' ', '.']).next().unwrap_or_default();
        *kinds.entry(kind).or_default() += 1;
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(kind, number)| (std::cmp::Reverse(*number), *kind));
    let shown = kinds.iter().take(KINDS);
    let mut texts: Vec<_> = shown
        .map(|(kind, number)| format!("{number} {kind}"))
        .collect();
    if let Some(others @ 1..) = kinds.len().checked_sub(KINDS) {
        texts.push(format!("{others} other kinds"));
    }
    texts.join(", ")
}

/// Takes a refusal of a network policy by our own admission policies for a change, and names their
/// bindings: they are unbound before.
fn unbind(wanted: &[Manifest], survey: &mut InstallSurvey) -> Vec<ObjectId> {
    let guards: Vec<_> = wanted
        .iter()
        .map(|it| &it.id)
        .filter(|id| order::is_guard(id))
        .collect();
    let mut unbound = BTreeSet::new();
    for (id, rehearsed) in &mut survey.rehearsed {
        let Rehearsed::Refused(why) = rehearsed else {
            continue;
        };
        let by: Vec<_> = guards
            .iter()
            .filter(|guard| why.contains(&format!("'{}'", guard.name)))
            .collect();
        if id.kind == "NetworkPolicy" && !by.is_empty() {
            unbound.extend(by.into_iter().map(|guard| (*guard).clone()));
            *rehearsed = Rehearsed::Change;
        }
    }
    unbound.into_iter().collect()
}

/// What the API server says of a field that only a new object may have with another value.
const FIXED: [&str; 2] = ["field is immutable", "cannot change roleRef"];

/// Of an adoption: workloads of OpenShift's operators, and objects that cannot be changed into
/// ours.
fn replace(survey: &mut InstallSurvey) -> Vec<ObjectId> {
    if !survey.adopts {
        return Vec::new();
    }
    let mut replaced: BTreeSet<_> = survey.rivals.iter().map(|it| it.id.clone()).collect();
    for (id, rehearsed) in &mut survey.rehearsed {
        let is_fixed =
            matches!(rehearsed, Rehearsed::Refused(why) if FIXED.iter().any(|it| why.contains(it)));
        if is_fixed {
            replaced.insert(id.clone());
        }
        // A trial on top of what is there says nothing of one that is replaced.
        if replaced.contains(id) {
            *rehearsed = Rehearsed::Change;
        }
    }
    // Only what we have under its name is replaced: with the version operator as it is, it stays.
    replaced.retain(|id| survey.rehearsed.contains_key(id));
    replaced.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::manifest;

    fn plan(rehearsed: &[(&Manifest, Rehearsed)], former: Option<&InstallRecord>) -> InstallPlan {
        let wanted: Vec<_> = rehearsed.iter().map(|(it, _)| (*it).clone()).collect();
        let rehearsed = rehearsed.iter();
        let survey = InstallSurvey {
            server: ("1".to_owned(), "33".to_owned()),
            rehearsed: rehearsed
                .map(|(it, outcome)| (it.id.clone(), outcome.clone()))
                .collect(),
            nodes: [
                ("a".to_owned(), NodeCheck::Reported(Vec::new())),
                ("b".to_owned(), NodeCheck::Away),
            ]
            .into(),
            ..InstallSurvey::default()
        };
        let components = BTreeSet::from([InstallComponent::MachineConfig]);
        InstallPlan::new(("2", &components), &wanted, former, survey)
    }

    #[test]
    fn a_newer_version_says_what_it_changes() {
        let old = manifest("Service", "old");
        let (a, b, c, d) = (
            manifest("Namespace", "a"),
            manifest("Service", "b"),
            manifest("Deployment", "c"),
            manifest("Thing", "d"),
        );
        let components = BTreeSet::from([InstallComponent::MachineConfig]);
        let former = [a.clone(), old.clone()];
        let former = InstallRecord::begin(None, ("1", "i"), &components, &former, &BTreeSet::new());
        let plan = plan(
            &[
                (&a, Rehearsed::Keep),
                (&b, Rehearsed::Create),
                (&c, Rehearsed::Change),
                (&d, Rehearsed::Later),
            ],
            Some(&former),
        );
        assert_eq!(
            plan.text(),
            "slipway 2, from 1: machine-config\n\
             \x20 create    2  1 Service, 1 Thing\n\
             \x20 change    1  1 Deployment\n\
             \x20 keep      1  1 Namespace\n\
             \x20 remove    1  1 Service\n\
             \x20 hosts     1  checked\n\
             ! node b: not Ready, so that the host was not checked; the daemon starts there once \
             it is back\n"
        );
        assert_eq!((plan.blocks(), plan.is_done()), (0, false));
        assert_eq!(plan.stale[0].id(), old.id);
    }

    #[test]
    fn our_own_guards_do_not_refuse_an_update() {
        let policy = manifest("NetworkPolicy", "p");
        let service = manifest("Service", "s");
        let guard = manifest("ValidatingAdmissionPolicyBinding", "g");
        let by = |name: &str| {
            Rehearsed::Refused(format!(
                "ValidatingAdmissionPolicy 'g' with binding '{name}' denied request"
            ))
        };
        let same = (&guard, Rehearsed::Keep);
        let own = plan(&[(&policy, by("g")), same.clone()], None);
        assert_eq!(
            (own.blocks(), &own.unbound[..]),
            (0, &[guard.id.clone()][..])
        );
        assert_eq!(own.change, ["NetworkPolicy n/p"]);
        for other in [
            (&service, by("g")),
            (&policy, Rehearsed::Refused("no".to_owned())),
        ] {
            let refused = plan(&[other, same.clone()], None);
            assert_eq!((refused.blocks(), refused.unbound.len()), (1, 0));
        }
    }

    #[test]
    fn an_adoption_replaces_what_cannot_be_changed() {
        let (a, b, c) = (
            manifest("DaemonSet", "a"),
            manifest("RoleBinding", "b"),
            manifest("Role", "c"),
        );
        let refused = |why: &str| Rehearsed::Refused(why.to_owned());
        let mut survey = InstallSurvey {
            adopts: true,
            rivals: vec![
                crate::rival::Rival {
                    id: a.id.clone(),
                    image: "i".to_owned(),
                },
                crate::rival::Rival {
                    id: manifest("Deployment", "cvo").id,
                    image: "i".to_owned(),
                },
            ],
            rehearsed: [
                (a.id.clone(), refused("spec.selector: field is immutable")),
                (b.id.clone(), refused("roleRef: cannot change roleRef")),
                (c.id.clone(), refused("no")),
            ]
            .into(),
            ..InstallSurvey::default()
        };
        assert_eq!(replace(&mut survey), [a.id.clone(), b.id]);
        assert_eq!(survey.rehearsed[&a.id], Rehearsed::Change);
        assert_eq!(survey.rehearsed[&c.id], refused("no"));
        survey.adopts = false;
        assert_eq!(replace(&mut survey), []);
    }

    #[test]
    fn only_four_kinds_are_counted_apart() {
        let objects = ["A a", "B.g n/b", "C c", "D d", "E e", "B.g n/c"].map(str::to_owned);
        assert_eq!(summary(&objects), "2 B, 1 A, 1 C, 1 D, 1 other kinds");
    }
}
