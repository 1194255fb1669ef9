//! Decides what a boot means for the attempt under way.

use node_update::plan::Route;

use super::{DeploymentId, Journal, JournalStage, Moment};

/// Boots in which a target can be verified. After as many boots without verification the host rolls
/// back; one power cut or kernel crash alone is no failure of the target.
pub const UNVERIFIED_BOOTS_MAX: u32 = 3;

/// What the guard does at a boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtBoot {
    /// Nothing: the host did not reboot since the journal was written, or the target stays.
    Leave,
    /// The target is booted: finish it and verify it.
    Finish,
    /// The target is booted and must not stay: roll back.
    RollBack { cause: String },
    /// The origin is booted: undo the changes outside of deployments.
    Undo,
    /// Neither is booted: adopt the booted deployment.
    Adopt,
}

/// Decides what `booted` means for an attempt.
pub fn at_boot(journal: &Journal, booted: &DeploymentId, moment: &Moment) -> AtBoot {
    let same_boot = journal.boot_id == moment.boot_id;
    let is_target = journal.target.as_ref() == Some(booted);
    match &journal.stage {
        JournalStage::Applying | JournalStage::Switching | JournalStage::Switched if same_boot => {
            AtBoot::Leave
        }
        // Another program reverts it before any reboot. In the target, that program is gone.
        JournalStage::RollingBack { .. } if same_boot && !is_target => AtBoot::Leave,
        _ if *booted == journal.origin => AtBoot::Undo,
        _ if !is_target || journal.plan.route == Route::Live => AtBoot::Adopt,
        JournalStage::RollingBack { cause } => AtBoot::RollBack {
            cause: cause.clone(),
        },
        JournalStage::Failed { .. } => AtBoot::Leave,
        JournalStage::Booted if same_boot => AtBoot::Finish,
        JournalStage::Applying
        | JournalStage::Switching
        | JournalStage::Switched
        | JournalStage::Booted => {
            if journal.boots < UNVERIFIED_BOOTS_MAX {
                AtBoot::Finish
            } else if journal.stay {
                AtBoot::Leave
            } else {
                AtBoot::RollBack {
                    cause: format!("booted {} times without being verified", journal.boots),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{id, journal, moment};
    use super::*;

    fn cause() -> String {
        "checks failed".to_owned()
    }

    #[test]
    fn every_stage_and_booted_deployment_has_an_action() {
        let failed = || JournalStage::Failed { cause: cause() };
        let back = || JournalStage::RollingBack { cause: cause() };
        let roll_back = || AtBoot::RollBack { cause: cause() };
        for (stage, booted, next_boot, answer) in [
            (JournalStage::Applying, "origin", false, AtBoot::Leave),
            (JournalStage::Switching, "origin", false, AtBoot::Leave),
            (JournalStage::Switched, "origin", false, AtBoot::Leave),
            (JournalStage::Applying, "origin", true, AtBoot::Undo),
            (JournalStage::Switching, "origin", true, AtBoot::Undo),
            (JournalStage::Switched, "origin", true, AtBoot::Undo),
            (JournalStage::Booted, "origin", true, AtBoot::Undo),
            (back(), "origin", true, AtBoot::Undo),
            (failed(), "origin", true, AtBoot::Undo),
            (JournalStage::Switching, "target", true, AtBoot::Finish),
            (JournalStage::Switched, "target", true, AtBoot::Finish),
            (JournalStage::Booted, "target", false, AtBoot::Finish),
            (JournalStage::Booted, "target", true, AtBoot::Finish),
            (back(), "origin", false, AtBoot::Leave),
            (back(), "target", false, roll_back()),
            (back(), "target", true, roll_back()),
            (failed(), "target", true, AtBoot::Leave),
            (JournalStage::Applying, "other", true, AtBoot::Adopt),
            (JournalStage::Switched, "other", true, AtBoot::Adopt),
            (JournalStage::Booted, "other", true, AtBoot::Adopt),
            (back(), "other", true, AtBoot::Adopt),
        ] {
            let journal = journal(stage.clone());
            let moment = moment(if next_boot { "next" } else { "first" });
            assert_eq!(
                at_boot(&journal, &id(booted), &moment),
                answer,
                "{stage:?} {booted}"
            );
        }
    }

    #[test]
    fn a_target_that_is_never_verified_is_rolled_back() {
        let mut journal = journal(JournalStage::Booted);
        journal.boots = UNVERIFIED_BOOTS_MAX;
        let moment = moment("next");
        let answer = at_boot(&journal, &id("target"), &moment);
        assert!(matches!(answer, AtBoot::RollBack { .. }));
        journal.stay = true;
        assert_eq!(at_boot(&journal, &id("target"), &moment), AtBoot::Leave);
    }

    #[test]
    fn a_live_update_interrupted_by_a_boot_is_undone() {
        let mut journal = journal(JournalStage::Applying);
        journal.plan.route = Route::Live;
        assert_eq!(
            at_boot(&journal, &id("origin"), &moment("next")),
            AtBoot::Undo
        );
    }
}
