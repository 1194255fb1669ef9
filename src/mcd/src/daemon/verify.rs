//! Waiting for the proof that the host is what it should be.
//!
//! The host verifies itself: after a reboot in `slipway-verify.service`, after a live change at its
//! end. This module reads the result; on a host where nothing is under way, it runs
//! `mcd-os verify`.

use std::time::Duration;

use chassis::report::Chain;
use host::files::Root;
use host::journal::{self, AttemptOutcome, JournalStage, JournalStore, LastAttempt};
use host::record::{self, Record};
use node_update::phase::Event;
use node_update::plan::{Attempt, Target};
use node_update::verify::unexpected_state;
use node_update::well_known::VERIFY_UNIT;
use tokio::time::{Instant, sleep};

use super::helper::{self, Helper, Priority};
use super::observe;
use crate::protocol::{Guard, HelperOutcome, Verb};

/// How often the journal is read: often at first, as the node is out of service meanwhile and most
/// hosts verify themselves within seconds of their boot.
const QUICK: (Duration, Duration) = (Duration::from_millis(50), Duration::from_mins(1));

/// How often it is read after that.
const PACE: Duration = Duration::from_millis(250);

/// When and how often the host reports what does not hold yet.
const ASK_PACE: Duration = Duration::from_secs(10);

/// Longer than the host's own deadline, after which it rolls back by itself. Past it the guard is
/// not at work at all.
const LIMIT: Duration = Duration::from_mins(30);

/// What the journal says about the target.
#[derive(Debug, PartialEq, Eq)]
enum HostVerdict {
    /// The attempt under way was not judged yet.
    Pending,
    /// Nothing is under way; verified in this boot.
    Verified,
    /// Nothing is under way, and not verified in this boot.
    Unknown,
    /// The host rolls back, or has rolled back.
    Failed(String),
    /// The target failed and stays booted, as the attempt asks.
    FailedAndBooted(String),
}

/// Waits until `to` is verified or has failed. Answers `Verified`, `VerificationFailed` or
/// `Failed`, and says `Unmet` in between.
///
/// Shape: `is_new` tells that the host came to `to` since it was last verified. What it reported of
/// itself earlier in this boot counts only then: it may have been changed by hand since.
pub async fn verify(
    helper: &Helper,
    root: &Root,
    (to, is_new): (&Target, bool),
    attempt: &Attempt,
    events: impl Fn(Event),
) -> Event {
    let began = Instant::now();
    let mut checked = began;
    let mut is_new = is_new;
    loop {
        match read_verdict(root, to) {
            Ok(HostVerdict::Verified) if is_new => return Event::Verified,
            Ok(HostVerdict::Verified | HostVerdict::Unknown) => {
                return ask(helper, to, attempt).await;
            }
            Ok(HostVerdict::Failed(cause)) => return Event::VerificationFailed(cause),
            Ok(HostVerdict::FailedAndBooted(cause)) => match verify_again(helper, attempt).await {
                Ok(true) => {}
                Ok(false) => return Event::Failed(cause),
                Err(error) => return Event::Failed(Chain(&error).to_string()),
            },
            Ok(HostVerdict::Pending) if began.elapsed() > LIMIT => {
                return Event::Failed(format!(
                    "the host did not judge {to} within {} min: {VERIFY_UNIT}",
                    LIMIT.as_secs() / 60
                ));
            }
            Ok(HostVerdict::Pending) => is_new = true,
            Err(error) => return Event::Failed(Chain(&error).to_string()),
        }
        if checked.elapsed() > ASK_PACE {
            checked = Instant::now();
            let verb = Verb::Verify { drift: false };
            match helper.run(&verb, attempt, Priority::Normal).await {
                Ok(report) if !report.reasons.is_empty() => events(Event::Unmet(report.because())),
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(error = %Chain(&error), "cannot ask what does not hold");
                }
            }
        }
        let (quick, until) = QUICK;
        sleep(if began.elapsed() < until { quick } else { PACE }).await;
    }
}

/// Has the host look once more at a target that failed and stays: a person may have mended it.
/// Whether it holds now.
async fn verify_again(helper: &Helper, attempt: &Attempt) -> Result<bool, helper::Error> {
    let verb = Verb::Guard(Guard::verify_once());
    let report = helper.run(&verb, attempt, Priority::Normal).await?;
    Ok(report.outcome == HelperOutcome::Done)
}

/// Looks at a host on which nothing is under way.
async fn ask(helper: &Helper, to: &Target, attempt: &Attempt) -> Event {
    let verb = Verb::Verify { drift: false };
    match helper.run(&verb, attempt, Priority::Normal).await {
        Ok(report) if report.outcome == HelperOutcome::Done => Event::Verified,
        Ok(report) => Event::Failed(unexpected_state(to, &report.because())),
        Err(error) => Event::Failed(Chain(&error).to_string()),
    }
}

fn read_verdict(root: &Root, to: &Target) -> Result<HostVerdict, observe::Error> {
    if let Some(journal) = observe::open_journal(root)? {
        return Ok(match journal.stage {
            JournalStage::RollingBack { cause } => HostVerdict::Failed(cause),
            JournalStage::Failed { cause } => HostVerdict::FailedAndBooted(cause),
            JournalStage::Applying
            | JournalStage::Switching
            | JournalStage::Switched
            | JournalStage::Booted => HostVerdict::Pending,
        });
    }
    let last = JournalStore::new(root).last()?;
    let at = record::read(root)?.map(Record::into_target);
    let boot_id = journal::boot_id(root)?;
    Ok(judge(last.as_ref(), at.as_ref(), &boot_id, to))
}

/// What the end of the last attempt says about `to`, in the boot `boot_id` of a host whose record
/// names `at`.
fn judge(
    last: Option<&LastAttempt>,
    at: Option<&Target>,
    boot_id: &str,
    to: &Target,
) -> HostVerdict {
    match last {
        Some(last)
            if last.outcome == AttemptOutcome::RolledBack && last.to == *to && at != Some(to) =>
        {
            HostVerdict::Failed(last.cause.clone().unwrap_or_default())
        }
        Some(last)
            if last.outcome == AttemptOutcome::Verified
                && last.to == *to
                && at == Some(to)
                && last.boot_id == boot_id =>
        {
            HostVerdict::Verified
        }
        Some(_) | None => HostVerdict::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(config: &str) -> Target {
        Target {
            config: config.to_owned(),
            image: None,
        }
    }

    fn last(outcome: AttemptOutcome, boot_id: &str) -> LastAttempt {
        LastAttempt {
            schema: 1,
            attempt: Attempt("1".to_owned()),
            outcome,
            from: target("a"),
            to: target("b"),
            boot_id: boot_id.to_owned(),
            at: "2026-11-21T19:00:00Z".parse().unwrap(),
            cause: Some("kubelet.service is failed".to_owned()),
        }
    }

    #[test]
    fn what_the_last_attempt_says() {
        let (a, b) = (target("a"), target("b"));
        let failed = HostVerdict::Failed("kubelet.service is failed".to_owned());
        let table = [
            (
                "verified in this boot",
                last(AttemptOutcome::Verified, "2"),
                &b,
                &b,
                HostVerdict::Verified,
            ),
            (
                "proved in an earlier boot",
                last(AttemptOutcome::Verified, "1"),
                &b,
                &b,
                HostVerdict::Unknown,
            ),
            (
                "something else is booted",
                last(AttemptOutcome::Verified, "2"),
                &a,
                &b,
                HostVerdict::Unknown,
            ),
            (
                "the target was left again",
                last(AttemptOutcome::RolledBack, "2"),
                &a,
                &b,
                failed,
            ),
            (
                "back in the origin",
                last(AttemptOutcome::RolledBack, "2"),
                &a,
                &a,
                HostVerdict::Unknown,
            ),
            (
                "undone before it could boot",
                last(AttemptOutcome::Undone, "2"),
                &a,
                &a,
                HostVerdict::Unknown,
            ),
            (
                "found as it is",
                last(AttemptOutcome::Adopted, "2"),
                &b,
                &b,
                HostVerdict::Unknown,
            ),
        ];
        for (what, last, at, to, word) in table {
            assert_eq!(judge(Some(&last), Some(at), "2", to), word, "{what}");
        }
        assert_eq!(judge(None, Some(&a), "2", &a), HostVerdict::Unknown);
    }

    /// What the host's files say, in the order in which a reboot writes them.
    #[test]
    fn the_words_of_a_host_on_its_way() {
        let host = tempfile::tempdir().unwrap();
        let root = Root::open(host.path(), None).unwrap();
        let put = |path: &str, text: &str| {
            let content = host::files::Content {
                bytes: text.as_bytes(),
                mode: node_update::plan::Mode(0o600),
                owner: node_update::plan::OwnerIds {
                    uid: nix::unistd::getuid().as_raw(),
                    gid: nix::unistd::getgid().as_raw(),
                },
            };
            root.replace(&root.locate(path).unwrap(), content).unwrap();
        };
        let journal = |stage: serde_json::Value| {
            let target = |config: &str| serde_json::json!({ "config": config });
            let mut journal = serde_json::json!({
                "schema": 1, "boot_id": "1", "since": "2026-11-21T19:00:00Z",
                "origin": {"checksum": "0", "serial": 0},
                "plan": {
                    "schema": 1, "attempt": "2", "from": target("a"), "to": target("b"), "route": "reboot", "drain": true,
                    "steps": [], "record": "00", "expect": [],
                },
            });
            for (key, value) in stage.as_object().unwrap() {
                journal[key] = value.clone();
            }
            put("/var/lib/slipway/journal.json", &journal.to_string());
        };
        put(journal::BOOT_ID, "2\n");
        put(record::CONFIG, r#"{"metadata": {"name": "b"}}"#);
        let b = target("b");

        journal(serde_json::json!({"stage": "switched"}));
        assert_eq!(read_verdict(&root, &b).unwrap(), HostVerdict::Pending);
        journal(serde_json::json!({"stage": "booted"}));
        assert_eq!(read_verdict(&root, &b).unwrap(), HostVerdict::Pending);
        journal(serde_json::json!({"stage": "rolling-back", "cause": "no kubelet"}));
        assert_eq!(
            read_verdict(&root, &b).unwrap(),
            HostVerdict::Failed("no kubelet".to_owned())
        );
        journal(serde_json::json!({"stage": "failed", "cause": "no kubelet"}));
        assert_eq!(
            read_verdict(&root, &b).unwrap(),
            HostVerdict::FailedAndBooted("no kubelet".to_owned())
        );

        // The outcome is stored before the journal goes: from then on it counts.
        let last = last(AttemptOutcome::Verified, "2");
        let last = LastAttempt {
            attempt: Attempt("2".to_owned()),
            ..last
        };
        put(
            "/var/lib/slipway/last.json",
            &serde_json::to_string(&last).unwrap(),
        );
        assert_eq!(read_verdict(&root, &b).unwrap(), HostVerdict::Verified);
    }
}
