//! A cluster that does what the commands ask for, and passes that are killed between any two of
//! them.

use std::collections::BTreeMap;

use api::config::{ClusterVersion, Update};
use api::upgrade::{UpgradeConfig, UpgradeHistoryEntry, upgrade_config};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{at, cluster_version, config, entry, history, spec};
use crate::notice::{ANNOTATION, Announced};
use crate::phase;
use crate::silence::{CREATOR, ListedSilence, SilenceStatus};
use crate::step::StepName;

const SETTINGS: &str = "maintenance: {ignoredAlerts: {controlPlaneCriticals: [Watchdog]}}, \
                        hooks: [{name: backup, step: CommenceUpgrade, when: before, job: \
                        {template: {spec: {restartPolicy: Never}}}}]";

/// What outlives a process, and what was done to it.
struct Cluster {
    upgrade: UpgradeConfig,
    entry: UpgradeHistoryEntry,
    version: ClusterVersion,
    jobs: BTreeMap<String, Value>,
    sets: Vec<Value>,
    silences: Vec<ListedSilence>,
    pending: u32,
    settings: &'static str,
    now: Timestamp,
    effects: Vec<String>,
    is_alertmanager_away: bool,
}

fn cluster(phase: UpgradePhase) -> Cluster {
    let mut spec = spec();
    spec.capacity_reservation = true;
    let labels = json!({ "hive.openshift.io/machine-pool": "worker" });
    Cluster {
        upgrade: UpgradeConfig::new(upgrade_config::NAME, spec),
        entry: entry(phase),
        version: cluster_version("4.16.3"),
        jobs: BTreeMap::new(),
        sets: vec![json!({ "metadata": { "name": "a", "labels": labels } })],
        silences: Vec::new(),
        pending: 2,
        settings: SETTINGS,
        now: at(1),
        effects: Vec::new(),
        is_alertmanager_away: false,
    }
}

impl Cluster {
    /// Time goes by: machines come, the control plane is done, then one worker after the other.
    fn rest(&mut self) {
        self.now += SignedDuration::from_mins(1);
        for job in self.jobs.values_mut() {
            job["status"] = json!({ "conditions": [{ "type": "Complete", "status": "True" }] });
        }
        for set in &mut self.sets {
            set["status"] = json!({ "readyReplicas": 1 });
        }
        let requested = self.version.spec.desired_update.as_ref();
        let Some(status) = self.version.status.as_mut().filter(|_| requested.is_some()) else {
            return;
        };
        if status.history.len() == 1 {
            status.history.insert(0, history("4.16.4", "Completed", 5));
        } else {
            self.pending = self.pending.saturating_sub(1);
        }
    }

    /// A machine of each copy.
    fn machines(&self) -> Vec<Value> {
        let copies = self.sets.iter().skip(1).map(|set| {
            let of = "machine.openshift.io/cluster-api-machineset";
            let name = set["metadata"]["name"].clone();
            let labels = json!({ "upgrade.managed.openshift.io": "true", of: name });
            json!({
                "metadata": { "name": "m", "labels": labels },
                "status": { "nodeRef": { "name": "n" } },
            })
        });
        copies.collect()
    }

    fn carry_out(&mut self, pass: &mut Pass, command: UpgradeCommand) -> Result<(), String> {
        use UpgradeCommand as Do;
        match command {
            Do::Announce(state, _) | Do::TryToAnnounce(state, _) => {
                let annotations = self.upgrade.metadata.annotations.get_or_insert_default();
                let annotation = annotations.entry(ANNOTATION.to_owned()).or_default();
                *annotation = Announced::parse(annotation)
                    .with("4.16.4", state)
                    .to_annotation();
                pass.upgrade = self.upgrade.clone();
                self.effects.push(state.as_str().to_owned());
            }
            Do::CreateJob(_, job) => {
                let name = job["metadata"]["name"].as_str().unwrap().to_owned();
                self.effects.push(format!("run {name}"));
                self.jobs.insert(name, job);
            }
            Do::NoteHook(condition, message) => {
                pass.note(&condition, true, "Succeeded", &message);
                self.entry = pass.entry.clone();
                // It removes itself.
                self.jobs.clear();
            }
            Do::CreateMachineSet(set) => {
                self.effects
                    .push(format!("add {}", set["metadata"]["name"]));
                self.sets.push(set);
            }
            Do::DeleteMachineSet(name) => {
                self.sets.retain(|set| set["metadata"]["name"] != *name);
                self.effects.push(format!("remove {name:?}"));
            }
            Do::CreateSilence(silence, _) => {
                self.effects.push(silence.comment.clone());
                self.silences.push(ListedSilence {
                    id: self.silences.len().to_string(),
                    created_by: CREATOR.to_owned(),
                    comment: silence.comment,
                    starts_at: Some(self.now),
                    status: SilenceStatus {
                        state: "active".to_owned(),
                    },
                });
            }
            Do::EndSilences(ids) => {
                for silence in self.silences.iter_mut().filter(|it| ids.contains(&it.id)) {
                    "expired".clone_into(&mut silence.status.state);
                }
                self.effects.push(format!("end {ids:?}"));
            }
            Do::SetRelease(change) => {
                self.version.spec.desired_update = Some(Update {
                    version: "4.16.4".to_owned(),
                    ..Update::default()
                });
                pass.version = self.version.clone();
                self.effects.push(change.to_string());
            }
            Do::RemoveAdded if self.is_alertmanager_away => return Err("it is away".to_owned()),
            Do::RemoveAdded => self.sets.truncate(1),
            other @ (Do::NoteValid
            | Do::NoteInvalid(_)
            | Do::NoteFailed
            | Do::NoteUnfailed(_)
            | Do::AdoptVersion(_)
            | Do::SetChannel(_)) => self.effects.push(format!("{other:?}")),
            Do::Gauge(..) | Do::ShowDrains(_) | Do::InitialiseFileIntegrity | Do::ReleaseNodes => {}
        }
        Ok(())
    }

    fn observe(&self, seen: &mut Observations, wanted: &UpgradeObservation) {
        match wanted {
            UpgradeObservation::Image { .. } | UpgradeObservation::Graph { .. } => {
                seen.checked = Some(Ok(None));
            }
            UpgradeObservation::Source => seen.source = Some(Refreshed::Same),
            UpgradeObservation::Latest => seen.is_current = Some(true),
            UpgradeObservation::Nodes => seen.has_nodes = true,
            UpgradeObservation::Job(name) => {
                let job = self.jobs.get(name).cloned();
                seen.jobs.insert(name.clone(), job);
            }
            UpgradeObservation::Findings => seen.findings = Some(Vec::new()),
            UpgradeObservation::Dependencies => seen.dependencies = Some(Vec::new()),
            UpgradeObservation::MachineSets => seen.sets = Some(self.sets.clone()),
            UpgradeObservation::Machines => {
                seen.machines = Some(self.machines());
                seen.ready = [("n".to_owned(), true)].into();
            }
            UpgradeObservation::Drains => seen.drains = Some(MachineDrains::default()),
            UpgradeObservation::Silences => seen.silences = Some(self.silences.clone()),
        }
    }

    fn write(&mut self, pass: &mut Pass, seen: &mut Observations, progress: UpgradeProgress) {
        match progress {
            UpgradeProgress::Enter(event) => {
                pass.entry.phase = phase::next(Some(&pass.entry.phase), event).unwrap();
            }
            UpgradeProgress::Begin(step) => {
                crate::history::begin(&mut pass.entry, &step, pass.now);
                seen.begun = Some(step.name);
            }
            UpgradeProgress::Finish(step, outcome) => {
                crate::history::finish(&mut pass.entry, &step, &outcome, pass.now);
                *seen = std::mem::take(seen).after(step.name);
            }
        }
        self.entry = pass.entry.clone();
    }

    /// One pass, as a process makes it that is killed before it does more than `left` things.
    fn pass(&mut self, left: &mut usize) -> Option<Then> {
        let mut alive = || {
            *left = left.checked_sub(1)?;
            Some(())
        };
        let mut pass = Pass {
            upgrade: self.upgrade.clone(),
            version: self.version.clone(),
            config: config(self.settings),
            entry: self.entry.clone(),
            now: self.now,
        };
        let mut seen = Observations::default();
        let phase = self.entry.phase.clone();
        loop {
            let open = (self.pending > 0).then(|| "pool worker".to_owned());
            let workers = WorkerFacts {
                pending: self.pending,
                open: open.into_iter().collect(),
                held: Vec::new(),
            };
            let turn = next(UpgradeFacts {
                pass: &pass,
                workers: &workers,
                seen: &seen,
            })?;
            let mut failed = None;
            for command in turn.commands {
                alive()?;
                failed = self.carry_out(&mut pass, command).err();
                if failed.is_some() {
                    break;
                }
            }
            if failed.is_some() {
                seen.failed = failed;
                continue;
            }
            if let Some(progress) = turn.progress {
                alive()?;
                self.write(&mut pass, &mut seen, progress);
            }
            match turn.then {
                Then::Decide if self.entry.phase != phase => return Some(Then::Decide),
                Then::Decide => {}
                Then::Observe(wanted) => self.observe(&mut seen, &wanted),
                Then::Conclude(outcome) => seen.outcome = Some(outcome),
                then @ (Then::Settle | Then::Wait(_) | Then::Retry) => return Some(then),
            }
        }
    }

    /// Passes until the upgrade is over. The first process is killed after `left` things; whether
    /// it came to that.
    fn run(mut self, mut left: usize) -> (Vec<String>, bool) {
        let mut is_killed = false;
        for _ in 0..40 {
            if matches!(
                self.entry.phase,
                UpgradePhase::Upgraded | UpgradePhase::Failed
            ) {
                return (self.effects, is_killed);
            }
            match self.pass(&mut left) {
                // Another process begins at once.
                None => {
                    is_killed = true;
                    left = usize::MAX;
                }
                Some(Then::Decide) => {}
                Some(_) => self.rest(),
            }
        }
        panic!("it does not end: {:?} {:?}", self.entry, self.effects);
    }
}

#[test]
fn upgrade_that_is_killed_between_any_two_commands_repeats_none_that_counts() {
    let silence = |what: &str| format!("Silence for {what}");
    let expected = [
        "StateStarted".to_owned(),
        "add \"a-upgrade\"".to_owned(),
        silence("OSD control plane upgrade to version 4.16.4"),
        silence("critical alerts during OSD control plane upgrade to version 4.16.4"),
        "run upgrade-4-16-4-backup".to_owned(),
        "StateControlPlaneStartedSL".to_owned(),
        json!({ "spec": { "desiredUpdate": { "image": null, "version": "4.16.4" } } }).to_string(),
        "StateControlPlaneFinishedSL".to_owned(),
        "end [\"0\", \"1\"]".to_owned(),
        silence("OSD worker node upgrade to version 4.16.4 with remaining 2 nodes"),
        silence("OSD worker node upgrade to version 4.16.4 with remaining 1 nodes"),
        "end [\"2\"]".to_owned(),
        "StateWorkerPlaneFinishedSL".to_owned(),
        "remove \"a-upgrade\"".to_owned(),
        "end [\"3\"]".to_owned(),
        "StateCompleted".to_owned(),
    ];
    let mut moments = 0;
    loop {
        let (effects, is_killed) = cluster(UpgradePhase::Upgrading).run(moments);
        assert_eq!(effects, expected, "killed after {moments}");
        if !is_killed {
            break;
        }
        moments += 1;
    }
    assert!(moments > 50, "{moments}");
}

#[test]
fn upgrade_whose_window_closes_is_given_up_once_all_is_removed() {
    let late = || Cluster {
        now: at(121),
        ..cluster(UpgradePhase::Upgrading)
    };
    for left in 0..6 {
        let (effects, _) = late().run(left);
        let notices = effects.iter().filter(|effect| *effect == "StateFailed");
        assert_eq!(notices.count(), 1, "{left}: {effects:?}");
    }
    let mut away = late();
    away.is_alertmanager_away = true;
    assert_eq!(away.pass(&mut 9), Some(Then::Retry));
    assert_eq!(away.effects, ["NoteUnfailed(\"it is away\")"]);
    assert_eq!(away.entry.phase, UpgradePhase::Upgrading);
}

#[test]
fn upgrade_that_waits_starts_when_it_is_due_valid_and_still_asked_for() {
    const OCM: &str = "configManager: {source: OCM, ocmBaseUrl: 'https://api.example'}";
    let mins = |minutes| Then::Wait(Duration::from_mins(minutes));
    let soon = || Then::Wait(Duration::from_secs(1));
    let seen = |source, is_current| Observations {
        source,
        is_current,
        ..Observations::default()
    };
    let enter = |event| Some(UpgradeProgress::Enter(event));
    let source = |refreshed| seen(Some(refreshed), None);
    let observe = Then::Observe;
    let clock = Then::Wait(Duration::from_secs(10 * 60 + 1));
    let table = [
        (-60, "", seen(None, None), clock, None),
        (121, "", seen(None, None), mins(1), None),
        (
            1,
            OCM,
            seen(None, None),
            observe(UpgradeObservation::Source),
            None,
        ),
        (1, OCM, source(Refreshed::Unread), Then::Retry, None),
        (1, OCM, source(Refreshed::Doubted), Then::Wait(POLL), None),
        (
            1,
            OCM,
            source(Refreshed::Changed),
            soon(),
            enter(PhaseEvent::Changed),
        ),
        (
            1,
            OCM,
            source(Refreshed::Same),
            observe(UpgradeObservation::Latest),
            None,
        ),
        (
            1,
            "",
            seen(None, None),
            observe(UpgradeObservation::Latest),
            None,
        ),
        (
            1,
            "",
            seen(None, Some(false)),
            soon(),
            enter(PhaseEvent::Changed),
        ),
        (
            1,
            "",
            seen(None, Some(true)),
            Then::Decide,
            enter(PhaseEvent::Ready),
        ),
    ];
    for (minute, settings, seen, then, progress) in table {
        let cluster = cluster(UpgradePhase::Pending);
        let pass = Pass {
            upgrade: cluster.upgrade,
            version: cluster.version,
            config: config(settings),
            entry: cluster.entry,
            now: at(minute),
        };
        let turn = next(UpgradeFacts {
            pass: &pass,
            workers: &WorkerFacts::default(),
            seen: &seen,
        });
        let turn = turn.unwrap();
        let row = format!("{minute} {settings} {seen:?}");
        assert_eq!((turn.then, turn.progress), (then, progress), "{row}");
        let note = turn.commands.last().unwrap();
        let is_valid = *note == UpgradeCommand::NoteValid;
        assert_eq!(is_valid, minute < 121, "{row}: {note:?}");
    }
}

#[test]
fn version_of_an_image_is_read_before_the_start_and_before_the_commencement() {
    let digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let version = |text: &str| Some(text.parse().unwrap());
    let refused = UpgradeCommand::NoteInvalid("no".to_owned());
    let adopted = UpgradeCommand::AdoptVersion("4.16.5".parse().unwrap());
    let held = Then::Conclude(StepOutcome::Hold("no".to_owned()));
    let waits = Then::Conclude(StepOutcome::Waiting);
    let again = || Then::Wait(Duration::from_mins(1));
    let table = [
        (Err("no".to_owned()), refused, again(), None, held),
        (
            Ok(version("4.16.5")),
            adopted.clone(),
            Then::Wait(Duration::from_secs(1)),
            Some(adopted),
            waits,
        ),
        (
            Ok(version("4.16.4")),
            UpgradeCommand::NoteValid,
            Then::Observe(UpgradeObservation::Latest),
            None,
            Then::Decide,
        ),
    ];
    for (checked, note, then, command, in_step) in table {
        let mut cluster = cluster(UpgradePhase::Pending);
        cluster.upgrade.spec.desired.image = format!("q.example/n/r@{digest}");
        let pass = Pass {
            upgrade: cluster.upgrade,
            version: cluster.version,
            config: config(""),
            entry: cluster.entry,
            now: at(1),
        };
        let workers = WorkerFacts::default();
        let facts = |seen| UpgradeFacts {
            pass: &pass,
            workers: &workers,
            seen,
        };
        let unseen = Observations::default();
        let needs_image = |then| matches!(then, Then::Observe(UpgradeObservation::Image { .. }));
        assert!(needs_image(next(facts(&unseen)).unwrap().then));
        let step = StepName::CommenceUpgrade;
        assert!(needs_image(steps::next(facts(&unseen), step).then));
        let seen = Observations {
            checked: Some(checked),
            ..Observations::default()
        };
        let turn = next(facts(&seen)).unwrap();
        assert_eq!((turn.commands.last(), turn.then), (Some(&note), then));
        let turn = steps::next(facts(&seen), step);
        assert_eq!(turn.then, in_step);
        if command.is_some() {
            assert_eq!(turn.commands.last(), command.as_ref());
        }
    }
}

impl Cluster {
    /// A person stops the cluster, or lets it go on.
    fn stop(&mut self, is_stopped: bool) {
        let value = r#"{"by":"alice","since":"2026-11-30T07:15:00Z"}"#;
        let stop = (api::stop::STOP.to_owned(), value.to_owned());
        let annotations = is_stopped.then(|| [stop].into());
        self.version.metadata.annotations = annotations;
    }

    /// So many passes, with time between them.
    fn passes(&mut self, count: usize) {
        for _ in 0..count {
            if self.pass(&mut { usize::MAX }) != Some(Then::Decide) {
                self.rest();
            }
        }
    }

    /// The steps that have begun, and what else was noted.
    fn noted(&self) -> Vec<String> {
        let conditions = self.entry.conditions.iter();
        let mut noted: Vec<String> = conditions.map(|it| it.r#type.clone()).collect();
        noted.sort_unstable();
        noted
    }
}

#[test]
fn stopped_upgrade_begins_no_step_wherever_it_is() {
    let mut stopped_at = std::collections::BTreeSet::new();
    for before in 0..14 {
        let mut cluster = cluster(UpgradePhase::Upgrading);
        cluster.passes(before);
        cluster.stop(true);
        let (noted, requested) = (cluster.noted(), cluster.version.spec.desired_update.clone());
        cluster.passes(5);
        assert_eq!(cluster.noted(), noted, "{before}");
        assert_eq!(cluster.version.spec.desired_update, requested, "{before}");
        stopped_at.insert(noted.len());
        cluster.stop(false);
        let (effects, _) = cluster.run(usize::MAX);
        let last = effects.last().map(String::as_str);
        assert_eq!(last, Some("StateCompleted"), "{before}: {effects:?}");
    }
    assert!(stopped_at.len() > 3, "{stopped_at:?}");
}

#[test]
fn stopped_upgrade_does_not_start_and_its_window_goes_on() {
    let mut waits = cluster(UpgradePhase::Pending);
    waits.stop(true);
    waits.passes(5);
    assert_eq!(waits.entry.phase, UpgradePhase::Pending);
    waits.stop(false);
    waits.passes(1);
    assert_eq!(waits.entry.phase, UpgradePhase::Upgrading);
    // One that has changed nothing is given up at the end of its window.
    let mut late = cluster(UpgradePhase::Upgrading);
    late.stop(true);
    late.passes(3);
    assert_eq!(late.entry.phase, UpgradePhase::Upgrading);
    late.now = at(121);
    late.passes(1);
    assert_eq!(late.entry.phase, UpgradePhase::Failed);
    // One that has not started is missed.
    let mut missed = cluster(UpgradePhase::Pending);
    missed.stop(true);
    missed.now = at(121);
    missed.passes(1);
    let invalid = missed.effects.last().unwrap();
    assert!(invalid.contains("has closed"), "{invalid}");
}
