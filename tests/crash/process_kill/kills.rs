//! Where the program is killed, what is there right after, and what comes next.

use testbed::single_host::{MCD_BROUGHT, MCD_OS, MCD_OS_BROUGHT};

use crate::fixture::Change;
use crate::scenario::{self, Before, End, IMAGE, PLAN, Scenario, Start};

/// What comes after a kill.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// A verb, with its exit code.
    Run(&'static [&'static str], i32),
    /// A verb of another plan.
    RunPlan(Change, &'static [&'static str], i32),
    /// A verb that has the host reboot, which comes to rest then.
    Reboots(&'static [&'static str]),
    /// The host is rebooted, and comes to rest.
    Reboot,
}

/// What is there right after the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    /// What boots next is whole, and what deployments share is as at the start.
    Untouched,
    /// What boots next is whole.
    Whole,
    /// The running system may be half changed, and the journal says so.
    Open,
    /// Files of the program's own come, one after the other.
    Own,
}

/// A scenario, and what follows when the program is killed in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kill {
    pub(super) scenario: Scenario,
    pub(super) between: Between,
    pub(super) next: &'static [Next],
    /// What the host may be then.
    pub(super) ends: &'static [End],
    /// What brings the host back from the end to the start of the scenario, so that one host can
    /// take one after the other: nothing where the end is the start. Where there is none, it is put
    /// back by its disks, and hosts run the scenario side by side.
    pub(super) back: Option<&'static [Next]>,
}

const VERIFY_AGAIN: &[&str] = &[MCD_OS, "guard", "--verify"];
const PIVOT: &[&str] = &[MCD_BROUGHT, "pivot", IMAGE];

pub(super) const KILLS: &[Kill] = &[
    Kill {
        scenario: Scenario {
            name: "fetch",
            start: Start::Unfetched,
            plan: None,
            before: Before::Nothing,
            verb: &[MCD_OS, "fetch", IMAGE],
        },
        between: Between::Untouched,
        next: &[
            Next::Run(&[MCD_OS, "fetch", IMAGE], 0),
            Next::RunPlan(Change::Small, &[MCD_OS, "rehearse", PLAN], 0),
        ],
        ends: &[End::Old],
        back: None,
    },
    Kill {
        scenario: Scenario {
            plan: Some(Change::Small),
            ..scenario::REHEARSE
        },
        between: Between::Untouched,
        next: &[Next::Run(scenario::REHEARSE.verb, 0)],
        ends: &[End::Old],
        back: Some(&[]),
    },
    Kill {
        scenario: Scenario {
            name: "apply, and again",
            plan: Some(Change::Small),
            ..scenario::APPLY
        },
        between: Between::Untouched,
        next: &[Next::Run(scenario::APPLY.verb, 4)],
        ends: &[End::SwitchedSmall],
        back: Some(&[Next::Run(scenario::REVERT.verb, 0)]),
    },
    Kill {
        scenario: Scenario {
            name: "apply, and back",
            plan: Some(Change::Small),
            ..scenario::APPLY
        },
        between: Between::Untouched,
        next: &[Next::Run(scenario::REVERT.verb, 0)],
        ends: &[End::Old],
        back: Some(&[]),
    },
    Kill {
        scenario: Scenario {
            plan: Some(Change::Small),
            ..scenario::REVERT
        },
        between: Between::Untouched,
        next: &[Next::Run(scenario::REVERT.verb, 0)],
        ends: &[End::Old],
        back: Some(&[]),
    },
    Kill {
        scenario: Scenario {
            name: "mcd pivot",
            start: Start::Old,
            plan: None,
            before: Before::Nothing,
            verb: PIVOT,
        },
        between: Between::Untouched,
        // Another pivot is another attempt, and the one under way keeps it from starting.
        next: &[Next::Run(scenario::REVERT.verb, 0), Next::Run(PIVOT, 4)],
        ends: &[End::PivotedSmall],
        back: Some(&[Next::Run(scenario::REVERT.verb, 0)]),
    },
    Kill {
        scenario: Scenario {
            name: "live apply, and again",
            ..scenario::LIVE
        },
        between: Between::Open,
        next: &[Next::Run(scenario::LIVE.verb, 0)],
        ends: &[End::Live],
        // A change to the old configuration does not lead back: a password stays, and a unit that
        // is no longer named gets what the OS presets.
        back: None,
    },
    Kill {
        scenario: Scenario {
            name: "live apply, and back",
            ..scenario::LIVE
        },
        between: Between::Open,
        next: &[Next::Run(scenario::LIVE_BACK.verb, 0)],
        // A finished update is not reverted. Its runs would differ in what is left to clean up, and
        // so in their points.
        ends: &[End::Old, End::Live],
        back: None,
    },
    Kill {
        scenario: scenario::LIVE_BACK,
        between: Between::Open,
        next: &[Next::Run(scenario::LIVE_BACK.verb, 0)],
        ends: &[End::Old],
        back: Some(&[]),
    },
    Kill {
        scenario: scenario::FINISH,
        between: Between::Whole,
        // Not right to the checks: they ask for another boot where the guard has not done its part.
        next: &[
            Next::Run(scenario::FINISH.verb, 0),
            Next::Run(VERIFY_AGAIN, 0),
        ],
        ends: &[End::New],
        back: None,
    },
    Kill {
        scenario: scenario::PROVE,
        between: Between::Whole,
        next: &[Next::Run(VERIFY_AGAIN, 0)],
        ends: &[End::New],
        back: None,
    },
    Kill {
        scenario: scenario::GIVE_UP,
        between: Between::Whole,
        next: &[Next::Reboots(scenario::GIVE_UP.verb)],
        ends: &[End::Old],
        back: None,
    },
    Kill {
        scenario: scenario::UNDO,
        between: Between::Whole,
        next: &[
            Next::Run(scenario::UNDO.verb, 0),
            Next::Run(VERIFY_AGAIN, 0),
        ],
        ends: &[End::Old],
        back: None,
    },
    Kill {
        scenario: scenario::ROLL_BACK,
        between: Between::Whole,
        next: &[Next::Run(scenario::ROLL_BACK.verb, 4), Next::Reboot],
        ends: &[End::Old],
        back: None,
    },
    Kill {
        scenario: scenario::INSTALL,
        between: Between::Own,
        next: &[Next::Run(&[MCD_OS_BROUGHT, "guard", "--install"], 0)],
        ends: &[End::Installed],
        back: None,
    },
];
