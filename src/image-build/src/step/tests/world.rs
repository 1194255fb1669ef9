//! A model of what steps act on.

use std::collections::{BTreeMap, BTreeSet};

use api::machineconfiguration::{MachineOSBuild, MachineOSConfig, MachineOsConfigStatus};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::fixture;
use crate::hold::PodHold;
use crate::objects;
use crate::observed::{
    BuildObserved, ImageRemoval, JobPods, JobState, PlannedBuild, RegistryReply, RequestedFacts,
    WantedBuild,
};
use crate::outcome::{JobEnd, JobView, PodEnd};
use crate::refusal::BuildRefusal;
use crate::status::tests::check;
use crate::step::{BuildAction, BuildQuery, BuildStep, step};

/// More steps than any course has.
const MOST: usize = 100;

pub(crate) struct World {
    pub(crate) config: Option<MachineOSConfig>,
    rendered: (String, String),
    pub(crate) is_rendered: bool,
    pub(crate) refusal: Option<BuildRefusal>,
    pub(crate) obstacle: Option<BuildRefusal>,
    pub(crate) logins: Result<(), BuildRefusal>,
    pub(crate) builds: BTreeMap<String, MachineOSBuild>,
    /// Jobs by the name of their build.
    pub(crate) jobs: BTreeMap<String, (JobView, Option<PodEnd>)>,
    /// ConfigMap and Secrets, by the name of their build and of the kind.
    pub(crate) made: BTreeSet<(String, &'static str)>,
    /// Images by tag.
    pub(crate) registry: BTreeMap<String, String>,
    /// What keeps the pods of Jobs that run.
    pub(crate) held: Option<PodHold>,
    pub(crate) override_reply: Option<RegistryReply>,
    pub(crate) override_removal: Option<ImageRemoval>,
    pub(crate) removed: Vec<String>,
    /// `currentImage` of the nodes.
    pub(crate) nodes: Vec<Option<String>>,
    cleaned: BTreeSet<String>,
    /// How many Jobs were made.
    pub(crate) job_count: usize,
    uids: usize,
    pushes: usize,
    now: i64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            config: Some(fixture::config()),
            rendered: ("rendered-worker-1".to_owned(), fixture::BASE.to_owned()),
            is_rendered: true,
            refusal: None,
            obstacle: None,
            logins: Ok(()),
            builds: BTreeMap::new(),
            jobs: BTreeMap::new(),
            made: BTreeSet::new(),
            registry: BTreeMap::new(),
            held: None,
            override_reply: None,
            override_removal: None,
            removed: Vec::new(),
            nodes: vec![None],
            cleaned: BTreeSet::new(),
            job_count: 0,
            uids: 0,
            pushes: 0,
            now: 1_000_000,
        }
    }

    pub(crate) fn plan(&self) -> PlannedBuild {
        let (name, base) = &self.rendered;
        let rendered = fixture::rendered(name, &json!({ "osImageURL": base }));
        let config = self.config.clone().unwrap_or_else(fixture::config);
        let inputs = fixture::read(&config, &rendered, &json!({})).unwrap();
        PlannedBuild::new(inputs, self.obstacle.clone())
    }

    pub(crate) fn edit(&mut self, content: &str) {
        let config = self.config.as_mut().unwrap();
        config.spec.container_file =
            serde_json::from_value(json!([{ "content": content }])).unwrap();
        let generation = config.metadata.generation.unwrap();
        config.metadata.generation = Some(generation + 1);
    }

    pub(crate) fn render(&mut self, name: &str, base: &str) {
        self.rendered = (name.to_owned(), base.to_owned());
    }

    pub(crate) fn annotate(&mut self, key: &str) {
        let config = self.config.as_mut().unwrap();
        let annotations = config.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), String::new());
    }

    pub(crate) fn has_annotation(&self, key: &str) -> bool {
        let annotations = self.config.as_ref().unwrap().metadata.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.contains_key(key))
    }

    /// What a controller remembers is lost.
    pub(crate) fn forget(&mut self) {
        self.cleaned.clear();
    }

    /// Each Job that runs pushes its image and ends.
    pub(crate) fn complete_job(&mut self) {
        let ended = self.now();
        for (build, (job, pod)) in &mut self.jobs {
            if job.end == JobEnd::Running {
                self.pushes += 1;
                let digest = format!("sha256:{:064x}", self.pushes);
                let image = format!("registry.example:5000/a/os@{digest}");
                self.registry
                    .insert(format!("registry.example:5000/a/os:{build}"), image);
                job.end = JobEnd::Complete;
                job.ended = Some(ended);
                *pod = Some(PodEnd {
                    exit_code: 0,
                    message: digest,
                });
            }
        }
    }

    pub(crate) fn fail_job(&mut self) {
        for (job, pod) in self.jobs.values_mut() {
            if job.end == JobEnd::Running {
                job.end = JobEnd::Failed {
                    reason: "BackoffLimitExceeded".to_owned(),
                    message: String::new(),
                };
                *pod = Some(PodEnd {
                    exit_code: 1,
                    message: "no space\n".to_owned(),
                });
            }
        }
    }

    /// Deletes what belongs to builds that are gone, as the cluster does.
    pub(crate) fn collect_garbage(&mut self) {
        let builds = &self.builds;
        let is_owned =
            |build: &MachineOSBuild, job: &JobView| build.metadata.uid.as_ref() == Some(&job.owner);
        self.jobs
            .retain(|name, (job, _)| builds.get(name).is_some_and(|it| is_owned(it, job)));
        self.made.retain(|(build, _)| builds.contains_key(build));
    }

    /// All nodes get the current image.
    pub(crate) fn roll(&mut self) {
        let status = self
            .config
            .as_ref()
            .and_then(|config| config.status.clone());
        if let Some(image) = status.and_then(|status| status.current_image_pull_spec) {
            self.nodes.fill(Some(image));
        }
    }

    pub(crate) fn phases(&self) -> Vec<(String, api::machineconfiguration::BuildPhase)> {
        let builds = self.builds.iter();
        builds
            .map(|(name, build)| (name.clone(), build.phase()))
            .collect()
    }

    pub(crate) fn config_status(&self) -> MachineOsConfigStatus {
        let mut status = self
            .config
            .as_ref()
            .unwrap()
            .status
            .clone()
            .unwrap_or_default();
        // Times are no part of what is compared.
        for condition in &mut status.conditions {
            condition.last_transition_time.0 = Timestamp::UNIX_EPOCH;
        }
        status
    }

    pub(crate) fn current(&self) -> Option<String> {
        self.config_status()
            .machine_os_build
            .map(|build| build.name)
    }

    pub(crate) fn image_of(&self, build: &str) -> String {
        super::image_of(&self.builds[build]).unwrap().to_owned()
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.now).unwrap()
    }

    /// Acts until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        let left = self.steps(MOST);
        assert!(left > 0, "it does not settle: {:?}", self.phases());
    }

    /// Does at most so many actions. Returns how many were left.
    pub(crate) fn steps(&mut self, most: usize) -> usize {
        for left in (1..=most).rev() {
            let Some(action) = self.choose() else {
                return left;
            };
            self.now += 1;
            self.act(action);
        }
        0
    }

    fn choose(&mut self) -> Option<BuildAction> {
        let mut facts = RequestedFacts::default();
        loop {
            match self.step(&facts) {
                BuildStep::Settled | BuildStep::Wait { .. } => return None,
                BuildStep::Act(action) => return Some(action),
                BuildStep::Query(query) => self.find_out(query, &mut facts),
            }
        }
    }

    fn step(&self, facts: &RequestedFacts) -> BuildStep {
        let wanted = match &self.refusal {
            _ if !self.is_rendered => WantedBuild::NotYet,
            Some(refusal) => WantedBuild::Refused(refusal.clone()),
            None => WantedBuild::Image(Box::new(self.plan())),
        };
        let builds: Vec<&MachineOSBuild> = self.builds.values().collect();
        let members: Vec<Option<&str>> = self.nodes.iter().map(Option::as_deref).collect();
        let in_use: BTreeSet<&str> = members.iter().copied().flatten().collect();
        step(&BuildObserved {
            config: self.config.as_ref(),
            wanted: &wanted,
            builds: &builds,
            images_of_members: &members,
            images_in_use: &in_use,
            cleaned: &self.cleaned,
            facts,
            now: self.now(),
        })
    }

    fn find_out(&mut self, query: BuildQuery, facts: &mut RequestedFacts) {
        let is_there = |image: &str| self.registry.values().any(|there| there == image);
        match query {
            BuildQuery::Job => {
                let job = self.jobs.get(&self.plan().name).cloned();
                let state = job.map_or(JobState::Absent, |(job, ended)| {
                    let held = self.held.clone().filter(|_| job.end == JobEnd::Running);
                    JobState::Present(job, Box::new(JobPods { ended, held }))
                });
                assert_eq!(facts.job.replace(state), None);
            }
            BuildQuery::Logins => assert_eq!(facts.logins.replace(self.logins.clone()), None),
            BuildQuery::Image { image } => {
                let reply = self.override_reply.clone().unwrap_or_else(|| {
                    if is_there(&image) {
                        RegistryReply::Present(image.clone())
                    } else {
                        RegistryReply::Absent
                    }
                });
                assert_eq!(facts.images.insert(image, reply), None);
            }
            BuildQuery::Tag { spec } => {
                let found = self.registry.get(&spec).map(|image| {
                    let (_, digest) = image.split_once('@').unwrap();
                    RegistryReply::Present(digest.to_owned())
                });
                let reply = self.override_reply.clone().or(found);
                let reply = reply.unwrap_or(RegistryReply::Absent);
                assert_eq!(facts.tags.insert(spec, reply), None);
            }
            BuildQuery::Removal { image, push_secret } => {
                assert_eq!(push_secret, "push");
                let removal = self.override_removal.clone().unwrap_or_else(|| {
                    self.registry.retain(|_, there| *there != image);
                    self.removed.push(image.clone());
                    ImageRemoval::Gone
                });
                assert_eq!(facts.removals.insert(image, removal), None);
            }
        }
    }

    fn act(&mut self, action: BuildAction) {
        match action {
            BuildAction::AcceptRebuild => {
                let config = self.config.as_mut().unwrap();
                let annotations = config.metadata.annotations.as_mut().unwrap();
                annotations.remove(super::REBUILD).unwrap();
            }
            BuildAction::NameCurrent { build } => {
                let config = self.config.as_mut().unwrap();
                let annotations = config.metadata.annotations.get_or_insert_default();
                let key = super::annotation::CURRENT_MACHINE_OS_BUILD;
                annotations.insert(key.to_owned(), build);
            }
            BuildAction::Create => {
                let value = objects::build(&self.plan().inputs);
                let mut build: MachineOSBuild = serde_json::from_value(value).unwrap();
                self.uids += 1;
                build.metadata.uid = Some(format!("uid-{}", self.uids));
                let name = build.metadata.name.clone().unwrap();
                assert!(self.builds.insert(name, build).is_none());
            }
            BuildAction::Delete { build, uid, .. } => {
                self.jobs.remove(&build);
                self.made.retain(|(of, _)| *of != build);
                let deleted = self.builds.remove(&build).unwrap();
                assert_eq!(deleted.metadata.uid, Some(uid));
            }
            BuildAction::Prepare { build } => {
                for kind in ["ConfigMap", "Secrets"] {
                    self.made.insert((build.clone(), kind));
                }
                let change = crate::status::BuildChange::Prepared;
                let status = crate::status::changed(&self.builds[&build], &change, self.now());
                self.write(&build, status.unwrap());
            }
            BuildAction::StartJob { build } => self.start_job(build),
            BuildAction::DeleteForeignJob { job_uid } => {
                let count = self.jobs.len();
                self.jobs.retain(|_, (job, _)| job.uid != job_uid);
                assert_eq!(self.jobs.len() + 1, count);
            }
            BuildAction::Report { build, status } => self.write(&build, *status),
            BuildAction::ReportConfig { status } => self.write_config(&status),
            BuildAction::Clean { build, uid } => {
                self.jobs.remove(&build);
                self.made.retain(|(of, _)| *of != build);
                assert!(self.cleaned.insert(uid));
            }
        }
    }

    fn start_job(&mut self, build: String) {
        assert!(
            self.made.contains(&(build.clone(), "ConfigMap")),
            "it is prepared"
        );
        self.uids += 1;
        self.job_count += 1;
        let job = JobView {
            uid: format!("uid-{}", self.uids),
            owner: self.builds[&build].metadata.uid.clone().unwrap(),
            created: Some(self.now()),
            ended: None,
            is_deleted: false,
            is_suspended: false,
            is_running: false,
            end: JobEnd::Running,
        };
        assert!(self.jobs.insert(build, (job, None)).is_none());
    }

    fn write(&mut self, build: &str, status: api::machineconfiguration::MachineOsBuildStatus) {
        let build = self.builds.get_mut(build).unwrap();
        check(&build.status.clone().unwrap_or_default(), &status);
        build.status = Some(status);
    }

    fn write_config(&mut self, patch: &Value) {
        let config = self.config.as_mut().unwrap();
        let before = config.status.clone().unwrap_or_default();
        let mut value = json!(before);
        for (key, member) in patch.as_object().unwrap() {
            value[key] = member.clone();
        }
        let after: MachineOsConfigStatus = serde_json::from_value(value).unwrap();
        assert!(after.observed_generation >= before.observed_generation);
        assert_ne!(after, before, "a write changes something");
        config.status = Some(after);
    }
}
