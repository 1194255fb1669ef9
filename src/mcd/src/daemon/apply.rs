//! Executing the stored plan, reverting it, and the reboot.

use std::time::Duration;

use chassis::report::Chain;
use node_update::phase::Event;
use node_update::plan::Attempt;

use super::helper::{Helper, Priority};
use super::publish::Publisher;
use crate::protocol::{ApplyDetails, HelperOutcome, Verb, VerbName};

pub const VERBS: [VerbName; 2] = [VerbName::Apply, VerbName::Rollback];

/// How often a host is read on which one of them runs and no journal is stored yet.
pub const PACE: Duration = Duration::from_millis(100);

/// How long the words before a reboot may take to get out. They matter less than the reboot: the
/// node is drained and waits.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// How long the host may take to go down after logind took the request: units are stopped, each
/// within its own limit.
const SHUTDOWN_LIMIT: Duration = Duration::from_mins(15);

/// How often a reboot is requested of logind, and the pause after a request without a response:
/// longer than a host takes to end what runs on it.
const REBOOT_TRIES: u32 = 3;
const REBOOT_PAUSE: Duration = Duration::from_secs(30);

/// Executes the stored plan, or finishes it. Answers `Switched`, `Applied` or `Failed`; `failed`
/// gets the reason and its fields where the plan was not carried out.
///
/// A target that cannot be proved is left by itself, unless `stays`: a control-plane node holds
/// what the cluster is, and waits for people.
pub async fn apply(
    helper: &Helper,
    attempt: &Attempt,
    directory: &str,
    boot_id: &str,
    stays: bool,
    failed: impl FnOnce(&str, ApplyDetails),
) -> Event {
    let verb = Verb::Apply {
        plan: directory.to_owned(),
        stay: stays,
    };
    match helper.run(&verb, attempt, Priority::Normal).await {
        Ok(report) => match report.outcome {
            HelperOutcome::NeedsReboot => Event::Switched {
                boot_id: boot_id.to_owned(),
            },
            HelperOutcome::Done => Event::Applied,
            HelperOutcome::Failed | HelperOutcome::Rejected => {
                let because = report.because();
                if let Ok(details) = report.details::<ApplyDetails>() {
                    failed(&because, details);
                }
                Event::Failed(because)
            }
        },
        Err(error) => Event::Failed(Chain(&error).to_string()),
    }
}

/// Undoes the stored plan; after the switch, switches back. Answers `Reverted` or `Failed`, or ends
/// with the host.
pub async fn revert(helper: &Helper, attempt: &Attempt) -> Event {
    let verb = Verb::Rollback;
    match helper.run(&verb, attempt, Priority::Normal).await {
        Ok(report) => match report.outcome {
            HelperOutcome::Done => Event::Reverted,
            // The target is booted: the origin is first again and has to be booted too.
            HelperOutcome::NeedsReboot => go_down(helper).await,
            HelperOutcome::Failed | HelperOutcome::Rejected => Event::Failed(report.because()),
        },
        Err(error) => Event::Failed(Chain(&error).to_string()),
    }
}

/// Reboots once the last words are out. Answers `Failed`, or ends with the host.
pub async fn reboot(
    helper: &Helper,
    publisher: &Publisher,
    words: impl Future<Output = ()>,
) -> Event {
    if tokio::time::timeout(LAST_WORDS, words).await.is_err() || !publisher.settle(LAST_WORDS).await
    {
        tracing::warn!("rebooting though the API server does not know yet");
    }
    go_down(helper).await
}

async fn go_down(helper: &Helper) -> Event {
    let mut cause = String::new();
    for _ in 0..REBOOT_TRIES {
        let reboot = async { helper.systemd().await?.reboot().await };
        match reboot.await {
            Ok(()) => {
                tokio::time::sleep(SHUTDOWN_LIMIT).await;
                cause = format!(
                    "the host still runs {} min later",
                    SHUTDOWN_LIMIT.as_secs() / 60
                );
            }
            // The bus may be gone before its answer, as the host goes down: then this process does
            // not live to try again.
            Err(error) => {
                cause = Chain(&error).to_string();
                tracing::warn!(error = cause, "logind did not confirm the reboot");
                tokio::time::sleep(REBOOT_PAUSE).await;
            }
        }
    }
    // Source: `docs/reference/daemon.md`, "Failures"; clients look for these words.
    Event::Failed(format!(
        "reboot command failed, something is seriously wrong: {cause}"
    ))
}
