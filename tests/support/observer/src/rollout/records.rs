//! Recorded histories, judged: each law is broken by one of them, which breaks nothing else.
//!
//! `tests/fixtures/records/README.md` says where they come from.

use std::path::Path;

use lab::audit::Verb;

use super::*;
use crate::laws::{self, node, requests};

fn recorded(name: &str) -> Rollout {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/records");
    let rollout = Rollout::read(&dir.join(format!("{name}.json.gz"))).unwrap();
    assert!(!rollout.record.audit.is_empty() && !rollout.rolls.is_empty());
    rollout
}

#[test]
fn each_record_of_a_fault_breaks_its_law_and_no_other() {
    for law in laws::all() {
        let mut rollout = recorded(law.name);
        if *law == node::READINESS {
            delete_by_another(&mut rollout);
        }
        let breaches = rollout.judge().breaches;
        assert!(!breaches.is_empty(), "{law:?} is not broken");
        assert!(
            breaches.iter().all(|breach| breach.law == law),
            "{law:?}: {breaches:?}"
        );
    }
}

/// The one edit of a record: pods that the daemon deleted, which breaks [`requests::MODEST`], too,
/// are deleted by another program.
fn delete_by_another(rollout: &mut Rollout) {
    let deletions = rollout.record.audit.iter_mut().filter(|event| {
        event.concerns("", "pods") && event.verb == Verb::Delete && requests::is_of_a_daemon(event)
    });
    let edited = deletions.map(|event| "kubectl".clone_into(&mut event.user_agent));
    assert!(edited.count() > 0, "the daemon deleted no pod");
}

/// Rolls with a reboot and without, of three nodes: what breaks no law is complete.
#[test]
fn the_record_of_the_true_programs_breaks_no_law() {
    let rollout = recorded("demo");
    assert!(rollout.is_over && rollout.rolls.len() == 3);
    assert_eq!(rollout.judge().breaches, []);
}
