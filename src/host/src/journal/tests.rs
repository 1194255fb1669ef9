use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use node_update::plan::{
    self, Action, Attempt, Bundle, Deploy, Digest, FileState, Mode, OwnerIds, Owners, Plan, Route,
    Step, Target, Undo,
};
use proptest::prelude::*;

use super::*;
use crate::files::Root;

pub(crate) fn id(name: &str) -> DeploymentId {
    DeploymentId {
        checksum: name.to_owned(),
        serial: 0,
    }
}

pub(crate) fn moment(boot: &str) -> Moment {
    Moment {
        boot_id: boot.to_owned(),
        now: Timestamp::UNIX_EPOCH,
    }
}

pub(crate) fn target(config: &str) -> Target {
    Target {
        config: config.to_owned(),
        image: None,
    }
}

pub(crate) fn bundle(route: Route, actions: Vec<(Action, Option<&[u8]>)>) -> Bundle {
    let record = br#"{"metadata":{"name":"rendered-new"}}"#;
    let mut blobs = BTreeMap::from([(Digest::of(record), record.to_vec())]);
    let steps = actions
        .into_iter()
        .map(|(action, bytes)| {
            blobs.extend(bytes.map(|bytes| (Digest::of(bytes), bytes.to_vec())));
            Step {
                action,
                undo: Undo::Nothing,
            }
        })
        .collect();
    let plan = Plan {
        schema: plan::SCHEMA,
        attempt: Attempt("attempt-1".to_owned()),
        from: target("rendered-old"),
        to: target("rendered-new"),
        route,
        drain: true,
        origin: Vec::new(),
        without_effect: Vec::new(),
        post_config_actions: Vec::new(),
        because: Vec::new(),
        deploy: (route == Route::Reboot).then(Deploy::default),
        steps,
        record: Digest::of(record),
        expect: Vec::new(),
    };
    Bundle { plan, blobs }
}

pub(crate) fn journal(stage: JournalStage) -> Journal {
    let plan = bundle(Route::Reboot, Vec::new()).plan;
    let mut journal =
        Journal::open(plan, id("origin"), false, &moment("first")).at(stage, &moment("first"));
    journal.target = Some(id("target"));
    journal
}

fn write_file(path: &str, bytes: &[u8]) -> Action {
    Action::WriteFile {
        path: path.to_owned(),
        file: FileState {
            digest: Digest::of(bytes),
            mode: Mode(0o644),
            owner: Owners::ROOT,
        },
    }
}

fn host() -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("var/lib")).unwrap();
    let root = Root::open(dir.path(), None).unwrap();
    (dir, root)
}

#[test]
fn stored_files_are_readable_by_root_only() {
    let (dir, root) = host();
    let store = JournalStore::new(&root);
    store
        .put_plan(&bundle(
            Route::Live,
            vec![(write_file("/etc/a", b"a"), Some(b"a"))],
        ))
        .unwrap();
    store.put_journal(&journal(JournalStage::Applying)).unwrap();
    let mode = |path: &str| {
        std::fs::metadata(dir.path().join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    assert_eq!(mode("var/lib/slipway"), 0o700);
    assert_eq!(mode("var/lib/slipway/plans/attempt-1/blobs"), 0o700);
    assert_eq!(mode("var/lib/slipway/plans/attempt-1/plan.json"), 0o600);
    assert_eq!(mode("var/lib/slipway/journal.json"), 0o600);
}

#[test]
fn a_damaged_plan_is_not_read() {
    let (dir, root) = host();
    let store = JournalStore::new(&root);
    let bundle = bundle(Route::Live, vec![(write_file("/etc/a", b"a"), Some(b"a"))]);
    store.put_plan(&bundle).unwrap();
    let directory = "/var/lib/slipway/plans/attempt-1";
    assert_eq!(store.read_plan(directory).unwrap(), bundle);
    let blob = dir.path().join("var/lib/slipway/plans/attempt-1/blobs");
    let blob = blob.join(Digest::of(b"a").as_str());
    #[expect(clippy::disallowed_methods, reason = "a test spoils its own file")]
    std::fs::write(&blob, b"b").unwrap();
    assert!(matches!(
        store.read_plan(directory),
        Err(Error::Damaged { .. })
    ));
    std::fs::remove_file(&blob).unwrap();
    assert!(matches!(
        store.read_plan(directory),
        Err(Error::Damaged { .. })
    ));
}

#[test]
fn a_journal_of_another_version_is_refused_whatever_its_fields() {
    let (_dir, root) = host();
    let at = root.locate("/var/lib/slipway/journal.json").unwrap();
    let text = br#"{"schema": 2, "stage": "of another kind"}"#;
    let content = crate::files::Content {
        bytes: text,
        mode: Mode(0o600),
        owner: OwnerIds::ROOT,
    };
    root.replace(&at, content).unwrap();
    assert!(matches!(
        JournalStore::new(&root).journal(),
        Err(Error::Schema { found: 2, .. })
    ));
}

/// Spoils a stored file, as a disk may.
fn spoil(root: &Root, name: &str, text: &[u8]) {
    let at = root.locate(&format!("/var/lib/slipway/{name}")).unwrap();
    let content = crate::files::Content {
        bytes: text,
        mode: Mode(0o600),
        owner: OwnerIds::ROOT,
    };
    root.replace(&at, content).unwrap();
}

#[test]
fn a_journal_that_cannot_be_read_has_a_copy() {
    for text in [
        &b""[..],
        b"{\"schema\": 1, \"stage\": \"appl",
        b"\0\0\0\0",
        b"{}",
    ] {
        let (_dir, root) = host();
        let store = JournalStore::new(&root);
        assert!(store.journal_fault().unwrap().is_none());
        let stored = journal(JournalStage::Booted);
        store.put_journal(&stored).unwrap();
        assert!(store.journal_fault().unwrap().is_none());
        spoil(&root, "journal.json", text);
        assert_eq!(store.journal().unwrap().as_ref(), Some(&stored));
        assert_eq!(store.journal_under_way().unwrap().as_ref(), Some(&stored));
        let fault = store.journal_fault().unwrap();
        assert!(matches!(fault, Some(JournalFault::Copied(journal, _)) if *journal == stored));
        // The next write mends it.
        store.put_journal(&stored).unwrap();
        assert!(store.journal_fault().unwrap().is_none());
    }
}

#[test]
fn a_lost_journal_is_put_aside_and_stops_nothing() {
    let (dir, root) = host();
    let store = JournalStore::new(&root);
    let stored = journal(JournalStage::Booted);
    store.put_journal(&stored).unwrap();
    spoil(&root, "journal.json", b"half of a");
    spoil(&root, "journal.json.good", b"");
    assert_eq!(store.journal_under_way().unwrap(), None);
    let fault = store.journal_fault().unwrap();
    assert!(matches!(fault, Some(JournalFault::Lost(_))), "{fault:?}");
    let last = stored.end(AttemptOutcome::Adopted, None, &moment("second"));
    store.set_journal_aside(&last).unwrap();
    assert!(store.journal_fault().unwrap().is_none());
    let left = |name: &str| dir.path().join("var/lib/slipway").join(name).exists();
    assert!(left("journal.broken.json"));
    assert!(!left("journal.json") && !left("journal.json.good"));
}

#[test]
fn a_copy_without_its_journal_is_none() {
    let (dir, root) = host();
    let store = JournalStore::new(&root);
    store.put_journal(&journal(JournalStage::Booted)).unwrap();
    let path = dir.path().join("var/lib/slipway/journal.json");
    std::fs::remove_file(path).unwrap();
    assert_eq!(store.journal().unwrap(), None);
    assert!(store.journal_fault().unwrap().is_none());
}

#[test]
fn a_held_target_survives_its_file_and_an_outcome_that_cannot_be_read_is_none() {
    let (dir, root) = host();
    let store = JournalStore::new(&root);
    let held = HeldTarget {
        schema: SCHEMA,
        target: target("rendered-bad"),
        cause: "checks failed".to_owned(),
        since: Timestamp::UNIX_EPOCH,
    };
    store.put_held(&held).unwrap();
    spoil(&root, "held.json", b"{");
    assert_eq!(store.held().unwrap(), Some(held));
    store.clear_held().unwrap();
    assert_eq!(store.held().unwrap(), None);
    let left = std::fs::read_dir(dir.path().join("var/lib/slipway")).unwrap();
    assert_eq!(left.count(), 0);
    spoil(&root, "last.json", b"{");
    assert_eq!(store.last().unwrap(), None);
}

#[test]
fn an_attempts_name_cannot_leave_the_directory_of_plans() {
    for name in ["", "..", "a/b", "A", "a b"] {
        assert!(
            JournalStore::plan_directory(&Attempt(name.to_owned())).is_err(),
            "{name:?}"
        );
    }
}

#[test]
fn an_ended_attempt_leaves_only_its_outcome() {
    let (dir, root) = host();
    let store = JournalStore::new(&root);
    store
        .put_plan(&bundle(
            Route::Live,
            vec![(write_file("/etc/a", b"a"), Some(b"a"))],
        ))
        .unwrap();
    let journal = journal(JournalStage::Booted);
    store.put_journal(&journal).unwrap();
    let last = journal.end(AttemptOutcome::Verified, None, &moment("second"));
    store.close(&journal, &last).unwrap();
    assert_eq!(store.journal().unwrap(), None);
    assert_eq!(store.last().unwrap().as_ref(), Some(&last));
    let cut_off = dir
        .path()
        .join("var/lib/slipway/plans/.attempt-2.slipway-new");
    std::fs::create_dir(&cut_off).unwrap();
    assert_eq!(store.plans().unwrap(), []);
    store.put_plan(&bundle(Route::Live, Vec::new())).unwrap();
    assert!(!cut_off.exists());
    store.close(&journal, &last).unwrap();
    assert!(!dir.path().join("var/lib/slipway/plans/attempt-1").exists());
    store.put_journal(&journal).unwrap();
    assert_eq!(
        store.journal_under_way().unwrap(),
        None,
        "killed before the journal was removed"
    );
    assert_eq!(store.journal().unwrap(), None);
}

/// Other programs and the next version of this one read these words.
#[test]
fn outcomes_and_stages_are_stored_by_these_words() {
    for (outcome, word) in [
        (AttemptOutcome::Verified, "proved"),
        (AttemptOutcome::RolledBack, "rolled-back"),
        (AttemptOutcome::Undone, "undone"),
        (AttemptOutcome::Adopted, "adopted"),
    ] {
        assert_eq!(serde_json::to_value(outcome).unwrap(), word);
        assert_eq!(
            serde_json::from_value::<AttemptOutcome>(word.into()).unwrap(),
            outcome
        );
    }
    let cause = || "checks failed".to_owned();
    for (stage, word) in [
        (JournalStage::Applying, "applying"),
        (JournalStage::Switching, "switching"),
        (JournalStage::Switched, "switched"),
        (JournalStage::Booted, "booted"),
        (JournalStage::RollingBack { cause: cause() }, "rolling-back"),
        (JournalStage::Failed { cause: cause() }, "failed"),
    ] {
        let stored = serde_json::to_value(journal(stage)).unwrap();
        assert_eq!(stored["stage"], word);
    }
}

#[test]
fn a_held_target_is_stored_in_this_form() {
    let held = HeldTarget {
        schema: SCHEMA,
        target: target("rendered-a"),
        cause: "checks failed".to_owned(),
        since: Timestamp::UNIX_EPOCH,
    };
    let stored = serde_json::json!({
        "schema": 1,
        "config": "rendered-a",
        "cause": "checks failed",
        "since": "1970-01-01T00:00:00Z",
    });
    assert_eq!(serde_json::to_value(held).unwrap(), stored);
}

#[test]
fn one_holder_at_a_time_has_the_lock() {
    let (_dir, root) = host();
    let store = JournalStore::new(&root);
    let held = store.lock(Duration::ZERO).unwrap();
    assert!(matches!(
        store.lock(Duration::ZERO),
        Err(Error::Locked { .. })
    ));
    drop(held);
    drop(store.lock(Duration::ZERO).unwrap());
}

fn stages() -> impl Strategy<Value = JournalStage> {
    prop_oneof![
        Just(JournalStage::Applying),
        Just(JournalStage::Switching),
        Just(JournalStage::Switched),
        Just(JournalStage::Booted),
        ".*".prop_map(|cause| JournalStage::RollingBack { cause }),
        ".*".prop_map(|cause| JournalStage::Failed { cause }),
    ]
}

#[test]
fn outcome_has_one_word() {
    for outcome in [
        AttemptOutcome::Verified,
        AttemptOutcome::RolledBack,
        AttemptOutcome::Undone,
        AttemptOutcome::Adopted,
    ] {
        let stored = serde_json::to_value(outcome).unwrap();
        assert_eq!(stored, outcome.as_str());
    }
}

proptest! {
    /// A stored journal is read as it was written.
    #[test]
    fn a_journal_is_read_as_it_was_stored(stage in stages(), boots: u32, stay: bool, path in "/[a-z]{1,8}") {
        let (_dir, root) = host();
        let store = JournalStore::new(&root);
        let mut journal = journal(stage);
        journal.boots = boots;
        journal.stay = stay;
        journal.plan.steps = bundle(Route::Live, vec![(write_file(&path, b"a"), None)]).plan.steps;
        store.put_journal(&journal).unwrap();
        prop_assert_eq!(store.journal().unwrap(), Some(journal));
    }

    /// At every stage, a boot of the origin is never judged as one of the target, or the reverse.
    #[test]
    fn a_boot_is_judged_by_the_booted_deployment(stage in stages(), boots in 0..9_u32, stay: bool) {
        let mut journal = journal(stage);
        journal.boots = boots;
        journal.stay = stay;
        let next = moment("next");
        prop_assert_eq!(at_boot(&journal, &id("origin"), &next), AtBoot::Undo);
        prop_assert_eq!(at_boot(&journal, &id("other"), &next), AtBoot::Adopt);
        let target = at_boot(&journal, &id("target"), &next);
        prop_assert!(!matches!(target, AtBoot::Undo | AtBoot::Adopt));
    }
}
