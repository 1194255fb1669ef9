//! A host in memory: what a plan comes to, without a host.
//!
//! It follows the words of [`Action`], not the executor, and knows one trap of each kind: the merge
//! of `/etc`, an OS that ships its own version of a file, presets, links that enabling leaves
//! behind.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::Expectation;
use crate::plan::{Action, Bundle, FileState, Mode, Owners, Plan, Route, Target};
use crate::verify::{Mismatch, Seen, judge};
use machineconfig::kargs;

const UNITS: &str = "/etc/systemd/system/";

/// A file: bytes, mode, owners.
pub(super) type File = (Vec<u8>, Mode, Owners);

/// What lies at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    File(File),
    Mask,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Os {
    /// `/usr/etc`, by path below `/`.
    pub etc: BTreeMap<String, Node>,
    /// Units in `/usr/lib/systemd/system`.
    pub units: BTreeSet<String>,
    /// Those of them that the presets enable.
    pub presets: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    pub os: Os,
    pub nodes: BTreeMap<String, Node>,
    /// For each enabled unit, the `[Install]` that made its links.
    pub links: BTreeMap<String, String>,
    pub keys: Vec<u8>,
    pub password: Vec<u8>,
    pub arguments: Vec<String>,
    pub record: Option<Target>,
    pub image: Option<String>,
}

impl Host {
    /// A host as it is installed.
    pub(super) fn installed(os: Os) -> Self {
        let links = os
            .presets
            .iter()
            .map(|unit| (unit.clone(), String::new()))
            .collect();
        Self {
            nodes: os.etc.clone(),
            os,
            links,
            keys: Vec::new(),
            password: b"*".to_vec(),
            arguments: kargs::split_line("root=UUID=x quiet console=ttyS0"),
            record: None,
            image: None,
        }
    }

    /// Carries a plan through; `images` are the OS images that can be deployed.
    pub(super) fn apply(&mut self, bundle: &Bundle, images: &BTreeMap<String, Os>) {
        self.begin(&bundle.plan, images);
        for step in &bundle.plan.steps {
            self.act(&step.action, bundle);
        }
        self.record = Some(bundle.plan.to.clone());
    }

    /// Carries a plan through as far as its first `count` steps.
    pub(super) fn stop_after(&mut self, bundle: &Bundle, count: usize) {
        for step in bundle.plan.steps.iter().take(count) {
            self.act(&step.action, bundle);
        }
    }

    /// The new deployment, if one is made: the OS, the merge of `/etc`, the kernel's arguments.
    fn begin(&mut self, plan: &Plan, images: &BTreeMap<String, Os>) {
        assert_eq!(plan.route == Route::Reboot, plan.deploy.is_some());
        let Some(deploy) = &plan.deploy else { return };
        let (delete, append) = (&deploy.delete_arguments, &deploy.append_arguments);
        self.arguments = kargs::change(&self.arguments, delete, append);
        let Some(image) = &deploy.image else { return };
        let old = std::mem::replace(&mut self.os, images[image].clone());
        self.image = Some(image.clone());
        // What is unchanged follows the OS.
        self.nodes
            .retain(|path, node| old.etc.get(path) != Some(node));
        for (path, node) in &self.os.etc {
            self.nodes
                .entry(path.clone())
                .or_insert_with(|| node.clone());
        }
    }

    fn act(&mut self, action: &Action, bundle: &Bundle) {
        let bytes = |blob| bundle.blobs[blob].clone();
        let mask = |unit: &String| format!("{UNITS}{unit}");
        match action {
            Action::WriteFile { path, file } => {
                let file = (bytes(&file.digest), file.mode, file.owner.clone());
                self.nodes.insert(path.clone(), Node::File(file));
            }
            Action::ReleaseFile { path } => drop(match self.os.etc.get(path) {
                Some(node) => self.nodes.insert(path.clone(), node.clone()),
                None => self.nodes.remove(path),
            }),
            Action::MaskUnit { unit } => drop(self.nodes.insert(mask(unit), Node::Mask)),
            Action::UnmaskUnit { unit } => {
                if self.nodes.get(&mask(unit)) == Some(&Node::Mask) {
                    self.nodes.remove(&mask(unit));
                }
            }
            Action::EnableUnit { unit } => self.enable(unit),
            Action::KeepUnitEnabled { unit } => {
                if self.links.get(unit).is_none_or(String::is_empty) {
                    self.enable(unit);
                }
            }
            Action::DisableUnit { unit } => drop(self.links.remove(unit)),
            Action::PresetUnit { unit } => {
                self.links.remove(unit);
                if self.os.presets.contains(unit) {
                    self.enable(unit);
                }
            }
            Action::WriteAuthorizedKeys { blob, .. } => self.keys = bytes(blob),
            Action::SetPassword { blob, .. } => self.password = bytes(blob),
            Action::DaemonReload | Action::RestartUnit { .. } | Action::ReloadUnit { .. } => {
                assert_eq!(bundle.plan.route, Route::Live);
            }
        }
    }

    /// Enabling makes the links that the unit's file asks for, and leaves those that are there.
    fn enable(&mut self, unit: &str) {
        assert_ne!(
            self.nodes.get(&format!("{UNITS}{unit}")),
            Some(&Node::Mask),
            "{unit}"
        );
        if let Some(install) = self.install(unit) {
            let links = self.links.entry(unit.to_owned()).or_default();
            if !links.split('+').any(|known| known == install) {
                *links = if links.is_empty() {
                    install
                } else {
                    format!("{links}+{install}")
                };
            }
        }
    }

    /// The `[Install]` of a unit, if there is one of that name.
    fn install(&self, unit: &str) -> Option<String> {
        match self.nodes.get(&format!("{UNITS}{unit}")) {
            Some(Node::File((text, ..))) => {
                let text = String::from_utf8(text.clone()).unwrap();
                Some(
                    text.split_once("[Install]")
                        .map(|(_, links)| links.to_owned())
                        .unwrap_or_default(),
                )
            }
            Some(Node::Mask) => None,
            None => self.os.units.contains(unit).then(String::new),
        }
    }

    /// What does not hold of what a plan expects.
    pub(super) fn mismatches(&self, expected: &[Expectation]) -> Vec<Mismatch> {
        let seen: Vec<Seen> = expected
            .iter()
            .map(|expectation| self.look(expectation))
            .collect();
        judge(expected.iter().zip(&seen))
    }

    fn look(&self, expectation: &Expectation) -> Seen {
        match expectation {
            Expectation::Record { .. } => {
                self.record
                    .as_ref()
                    .map_or(Seen::Nothing, |at| Seen::Record {
                        config: at.config.clone(),
                        image: at.image.clone(),
                    })
            }
            Expectation::KernelArgument { argument, .. } => Seen::Times(
                self.arguments
                    .iter()
                    .filter(|there| *there == argument)
                    .count(),
            ),
            Expectation::File { path, .. } => match self.nodes.get(path) {
                Some(Node::File((bytes, mode, owner))) => Seen::File(FileState {
                    digest: crate::plan::Digest::of(bytes),
                    mode: *mode,
                    owner: owner.clone(),
                }),
                Some(Node::Mask) => Seen::Link {
                    target: "/dev/null".to_owned(),
                },
                None => Seen::Nothing,
            },
            Expectation::Masked { unit } => match self.nodes.get(&format!("{UNITS}{unit}")) {
                Some(Node::Mask) => Seen::Link {
                    target: "/dev/null".to_owned(),
                },
                _ => Seen::Nothing,
            },
            Expectation::Enabled { unit, .. } => Seen::Unit(
                match (self.links.contains_key(unit), self.install(unit)) {
                    (_, None) => "not-found",
                    (true, _) => "enabled",
                    (false, _) => "disabled",
                }
                .to_owned(),
            ),
            Expectation::Runs { .. } => Seen::Unit("active".to_owned()),
            Expectation::Started { .. } | Expectation::Active { .. } => Seen::Nothing,
        }
    }
}
