//! In which scenarios a host is killed, at which of their points, and the permitted states then.

use testbed::single_host::{MCD_BROUGHT, MCD_OS, MCD_OS_BROUGHT};

use crate::fixture::Change;
use crate::points::Choice;
use crate::scenario::{self, Before, End, IMAGE, NEW_IMAGE, Scenario, Start};

/// A scenario, and the permitted states after a kill in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Death {
    pub(super) scenario: Scenario,
    pub(super) tried: Choice,
    /// What the daemon does again when it is back.
    pub(super) again: &'static [&'static str],
    /// What the host may be when it has come to rest.
    pub(super) ends: &'static [End],
    /// Whether a deployment may be left that nothing names, for the next attempt to throw away.
    pub(super) leaves_strays: bool,
}

pub(super) const DEATHS: &[Death] = &[
    Death {
        scenario: Scenario {
            name: "fetch",
            start: Start::Unfetched,
            plan: None,
            before: Before::Nothing,
            verb: &[MCD_OS, "fetch", IMAGE],
        },
        tried: Choice::Every,
        again: &[MCD_OS, "fetch", IMAGE],
        ends: &[End::Old],
        leaves_strays: false,
    },
    Death {
        scenario: scenario::REHEARSE,
        tried: Choice::Sampled,
        again: &[],
        ends: &[End::Old],
        leaves_strays: true,
    },
    Death {
        scenario: scenario::APPLY,
        tried: Choice::Sampled,
        again: &[],
        ends: &[End::Old, End::New],
        leaves_strays: false,
    },
    Death {
        scenario: scenario::REVERT,
        tried: Choice::Sampled,
        again: &[],
        ends: &[End::Old, End::New],
        leaves_strays: false,
    },
    Death {
        scenario: Scenario {
            name: "rehearse, small OS",
            plan: Some(Change::Small),
            ..scenario::REHEARSE
        },
        tried: Choice::Bulk,
        again: &[],
        // All of it is done while the boot loader names the origin.
        ends: &[End::Old],
        leaves_strays: true,
    },
    Death {
        scenario: Scenario {
            name: "apply, small OS",
            plan: Some(Change::Small),
            ..scenario::APPLY
        },
        tried: Choice::Bulk,
        again: &[],
        // All of it is done while the boot loader names the origin.
        ends: &[End::Old],
        leaves_strays: false,
    },
    Death {
        scenario: Scenario {
            name: "rollback before the reboot, small OS",
            plan: Some(Change::Small),
            ..scenario::REVERT
        },
        tried: Choice::Bulk,
        again: &[],
        // All of it is done while the boot loader names the origin.
        ends: &[End::Old],
        leaves_strays: false,
    },
    Death {
        scenario: Scenario {
            name: "mcd pivot",
            start: Start::Old,
            plan: None,
            before: Before::Nothing,
            verb: &[MCD_BROUGHT, "pivot", NEW_IMAGE],
        },
        tried: Choice::Sampled,
        again: &[],
        ends: &[End::Old, End::Pivoted],
        leaves_strays: true,
    },
    Death {
        scenario: scenario::FINISH,
        tried: Choice::Every,
        again: &[],
        ends: &[End::New],
        leaves_strays: false,
    },
    Death {
        scenario: scenario::PROVE,
        tried: Choice::Every,
        again: &[],
        ends: &[End::New],
        leaves_strays: true,
    },
    Death {
        scenario: scenario::GIVE_UP,
        tried: Choice::Every,
        again: &[],
        ends: &[End::Old],
        leaves_strays: false,
    },
    Death {
        scenario: scenario::UNDO,
        tried: Choice::Every,
        again: &[],
        ends: &[End::Old],
        leaves_strays: false,
    },
    Death {
        scenario: scenario::ROLL_BACK,
        tried: Choice::Every,
        again: &[],
        ends: &[End::Old, End::New],
        leaves_strays: false,
    },
    Death {
        scenario: scenario::LIVE,
        tried: Choice::Every,
        again: &[],
        ends: &[End::Old, End::Live],
        leaves_strays: false,
    },
    Death {
        scenario: scenario::LIVE_BACK,
        tried: Choice::Every,
        again: &[],
        ends: &[End::Old],
        leaves_strays: false,
    },
    Death {
        scenario: scenario::INSTALL,
        tried: Choice::Every,
        again: &[MCD_OS_BROUGHT, "guard", "--install"],
        ends: &[End::Installed],
        leaves_strays: false,
    },
];
