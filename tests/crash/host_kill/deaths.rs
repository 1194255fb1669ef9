//! On which ways a host is killed, at which of their points, and what may be found then.

use testbed::single_host::{MCD_BROUGHT, MCD_OS, MCD_OS_BROUGHT};

use crate::points::Choice;
use crate::stage::Change;
use crate::way::{self, Before, End, IMAGE, NEW_IMAGE, Start, Way};

/// A way, and what may be found after a kill on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Death {
    pub(super) way: Way,
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
        way: Way {
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
        way: way::REHEARSE,
        tried: Choice::Sampled,
        again: &[],
        ends: &[End::Old],
        leaves_strays: true,
    },
    Death {
        way: way::APPLY,
        tried: Choice::Sampled,
        again: &[],
        ends: &[End::Old, End::New],
        leaves_strays: false,
    },
    Death {
        way: way::TAKE_BACK,
        tried: Choice::Sampled,
        again: &[],
        ends: &[End::Old, End::New],
        leaves_strays: false,
    },
    Death {
        way: Way {
            name: "rehearse, small OS",
            plan: Some(Change::Small),
            ..way::REHEARSE
        },
        tried: Choice::Bulk,
        again: &[],
        // All of it is done while the boot loader names the origin.
        ends: &[End::Old],
        leaves_strays: true,
    },
    Death {
        way: Way {
            name: "apply, small OS",
            plan: Some(Change::Small),
            ..way::APPLY
        },
        tried: Choice::Bulk,
        again: &[],
        // All of it is done while the boot loader names the origin.
        ends: &[End::Old],
        leaves_strays: false,
    },
    Death {
        way: Way {
            name: "rollback before the reboot, small OS",
            plan: Some(Change::Small),
            ..way::TAKE_BACK
        },
        tried: Choice::Bulk,
        again: &[],
        // All of it is done while the boot loader names the origin.
        ends: &[End::Old],
        leaves_strays: false,
    },
    Death {
        way: Way {
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
        way: way::FINISH,
        tried: Choice::Every,
        again: &[],
        ends: &[End::New],
        leaves_strays: false,
    },
    Death {
        way: way::PROVE,
        tried: Choice::Every,
        again: &[],
        ends: &[End::New],
        leaves_strays: true,
    },
    Death {
        way: way::GIVE_UP,
        tried: Choice::Every,
        again: &[],
        ends: &[End::Old],
        leaves_strays: false,
    },
    Death {
        way: way::UNDO,
        tried: Choice::Every,
        again: &[],
        ends: &[End::Old],
        leaves_strays: false,
    },
    Death {
        way: way::GO_BACK,
        tried: Choice::Every,
        again: &[],
        ends: &[End::Old, End::New],
        leaves_strays: false,
    },
    Death {
        way: way::LIVE,
        tried: Choice::Every,
        again: &[],
        ends: &[End::Old, End::Live],
        leaves_strays: false,
    },
    Death {
        way: way::LIVE_BACK,
        tried: Choice::Every,
        again: &[],
        ends: &[End::Old],
        leaves_strays: false,
    },
    Death {
        way: way::INSTALL,
        tried: Choice::Every,
        again: &[MCD_OS_BROUGHT, "guard", "--install"],
        ends: &[End::Installed],
        leaves_strays: false,
    },
];
