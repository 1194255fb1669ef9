//! What a boot means for the attempt that was under way.

use node_update::plan::Route;

use super::{DeploymentId, Journal, Moment, Stage};

/// Boots that a target gets to be proved in. A host that goes down by itself before its checks hold
/// is given up after as many; one power cut or kernel crash alone says nothing about the target.
pub const UNPROVEN_BOOTS_MAX: u32 = 3;

/// What is to be done at a boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtBoot {
    /// There was no boot since the journal was written, or the target is left as it is.
    Leave,
    /// The target is booted: finish it and have it proved.
    Finish,
    /// The target is booted and must not stay.
    RollBack {
        /// Why.
        cause: String,
    },
    /// The origin is booted: undo what lies outside of deployments.
    Undo,
    /// Neither is booted: take the host as it is.
    Adopt,
}

/// Decides what `booted` means for an attempt.
pub fn at_boot(journal: &Journal, booted: &DeploymentId, moment: &Moment) -> AtBoot {
    let same_boot = journal.boot_id == moment.boot_id;
    let is_target = journal.target.as_ref() == Some(booted);
    match &journal.stage {
        Stage::Applying | Stage::Switching | Stage::Switched if same_boot => AtBoot::Leave,
        // Taken back before any reboot, by somebody who is at it. In the target, one who was is gone.
        Stage::RollingBack { .. } if same_boot && !is_target => AtBoot::Leave,
        _ if *booted == journal.origin => AtBoot::Undo,
        _ if !is_target || journal.plan.route == Route::Live => AtBoot::Adopt,
        Stage::RollingBack { cause } => AtBoot::RollBack {
            cause: cause.clone(),
        },
        Stage::Failed { .. } => AtBoot::Leave,
        Stage::Booted if same_boot => AtBoot::Finish,
        Stage::Applying | Stage::Switching | Stage::Switched | Stage::Booted => {
            if journal.boots < UNPROVEN_BOOTS_MAX {
                AtBoot::Finish
            } else if journal.stay {
                AtBoot::Leave
            } else {
                AtBoot::RollBack {
                    cause: format!("booted {} times without being proved", journal.boots),
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
    fn every_stage_and_deployment_has_its_answer() {
        let failed = || Stage::Failed { cause: cause() };
        let back = || Stage::RollingBack { cause: cause() };
        let roll_back = || AtBoot::RollBack { cause: cause() };
        for (stage, booted, next_boot, answer) in [
            (Stage::Applying, "origin", false, AtBoot::Leave),
            (Stage::Switching, "origin", false, AtBoot::Leave),
            (Stage::Switched, "origin", false, AtBoot::Leave),
            (Stage::Applying, "origin", true, AtBoot::Undo),
            (Stage::Switching, "origin", true, AtBoot::Undo),
            (Stage::Switched, "origin", true, AtBoot::Undo),
            (Stage::Booted, "origin", true, AtBoot::Undo),
            (back(), "origin", true, AtBoot::Undo),
            (failed(), "origin", true, AtBoot::Undo),
            (Stage::Switching, "target", true, AtBoot::Finish),
            (Stage::Switched, "target", true, AtBoot::Finish),
            (Stage::Booted, "target", false, AtBoot::Finish),
            (Stage::Booted, "target", true, AtBoot::Finish),
            (back(), "origin", false, AtBoot::Leave),
            (back(), "target", false, roll_back()),
            (back(), "target", true, roll_back()),
            (failed(), "target", true, AtBoot::Leave),
            (Stage::Applying, "other", true, AtBoot::Adopt),
            (Stage::Switched, "other", true, AtBoot::Adopt),
            (Stage::Booted, "other", true, AtBoot::Adopt),
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
    fn a_target_that_does_not_get_proved_is_given_up() {
        let mut journal = journal(Stage::Booted);
        journal.boots = UNPROVEN_BOOTS_MAX;
        let moment = moment("next");
        let answer = at_boot(&journal, &id("target"), &moment);
        assert!(matches!(answer, AtBoot::RollBack { .. }));
        journal.stay = true;
        assert_eq!(at_boot(&journal, &id("target"), &moment), AtBoot::Leave);
    }

    #[test]
    fn a_live_change_cut_by_a_boot_is_undone() {
        let mut journal = journal(Stage::Applying);
        journal.plan.route = Route::Live;
        assert_eq!(
            at_boot(&journal, &id("origin"), &moment("next")),
            AtBoot::Undo
        );
    }
}
