//! Everything that the program does to a host, from where, and what may be there if it is stopped.

use anyhow::{Result, ensure};
use lab::host::Host;
use testbed::single_host::{MCD_OS, MCD_OS_BROUGHT, expect};

use super::env::Env;
use super::fixture::{Change, Fixture, Fixtures};
use super::state::State;
use super::tracer::{self, Order};

/// One verb of the program, in one situation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// For people.
    pub(crate) name: &'static str,
    /// Where it begins.
    pub(crate) start: Start,
    /// What is to be done; its directory is [`PLAN`] in a verb.
    pub(crate) plan: Option<Change>,
    /// What is done before, and how it ends.
    pub(crate) before: Before,
    /// The program and its arguments.
    pub(crate) verb: &'static [&'static str],
}

/// Stands for a plan's directory.
pub(crate) const PLAN: &str = "PLAN";

/// Stands for the pull spec of the small OS.
pub(crate) const IMAGE: &str = "IMAGE";

/// Stands for that of the new one.
pub(crate) const NEW_IMAGE: &str = "NEW_IMAGE";

/// A fixture, and whether the guard is held back at the boot from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Pristine,
    Unfetched,
    Old,
    /// Boots the target.
    Switched,
    /// Is booted in the target.
    Guarded,
    /// Is booted in a target that cannot be proved.
    Failing,
    /// Boots the origin.
    GivenUp,
}

/// What precedes a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Nothing,
    /// The plan is applied.
    Applied,
    /// A change of the running system is in, but for its end: the program that applied it was
    /// killed.
    AllButEnded,
}

/// What a host may be in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Installed,
    Old,
    SwitchedSmall,
    PivotedSmall,
    New,
    /// In the new OS, with the old configuration.
    Pivoted,
    Live,
}

pub(crate) const REHEARSE: Scenario = Scenario {
    name: "rehearse",
    start: Start::Old,
    plan: Some(Change::Update),
    before: Before::Nothing,
    verb: &[MCD_OS, "rehearse", PLAN],
};

pub(crate) const APPLY: Scenario = Scenario {
    name: "apply",
    start: Start::Old,
    plan: Some(Change::Update),
    before: Before::Nothing,
    verb: &[MCD_OS, "apply", PLAN],
};

pub(crate) const REVERT: Scenario = Scenario {
    name: "rollback before the reboot",
    start: Start::Old,
    plan: Some(Change::Update),
    before: Before::Applied,
    verb: &[MCD_OS, "rollback"],
};

pub(crate) const FINISH: Scenario = Scenario {
    name: "guard in the target",
    start: Start::Switched,
    plan: None,
    before: Before::Nothing,
    verb: &[MCD_OS, "guard"],
};

pub(crate) const PROVE: Scenario = Scenario {
    name: "guard --verify",
    start: Start::Guarded,
    plan: None,
    before: Before::Nothing,
    verb: &[MCD_OS, "guard", "--verify"],
};

pub(crate) const GIVE_UP: Scenario = Scenario {
    name: "guard --verify that fails",
    start: Start::Failing,
    plan: None,
    before: Before::Nothing,
    verb: &[MCD_OS, "guard", "--verify", "--deadline", "0"],
};

pub(crate) const UNDO: Scenario = Scenario {
    name: "guard in the origin",
    start: Start::GivenUp,
    plan: None,
    before: Before::Nothing,
    verb: &[MCD_OS, "guard"],
};

pub(crate) const ROLL_BACK: Scenario = Scenario {
    name: "rollback in the target",
    start: Start::Guarded,
    plan: None,
    before: Before::Nothing,
    verb: &[MCD_OS, "rollback"],
};

pub(crate) const LIVE: Scenario = Scenario {
    name: "apply without a reboot",
    start: Start::Old,
    plan: Some(Change::Live),
    before: Before::Nothing,
    verb: &[MCD_OS, "apply", PLAN],
};

pub(crate) const LIVE_BACK: Scenario = Scenario {
    name: "rollback without a reboot",
    start: Start::Old,
    plan: Some(Change::Live),
    before: Before::AllButEnded,
    verb: &[MCD_OS, "rollback"],
};

pub(crate) const INSTALL: Scenario = Scenario {
    name: "guard --install",
    start: Start::Pristine,
    plan: None,
    before: Before::Nothing,
    verb: &[MCD_OS_BROUGHT, "guard", "--install"],
};

impl Scenario {
    /// Brings a host to where the verb is next; the verb.
    pub(crate) fn begin(
        &self,
        env: &Env,
        fixtures: &Fixtures,
        host: &mut Host,
    ) -> Result<Vec<String>> {
        let (fixture, held) = self.start.of(fixtures);
        fixture.begin(host, held)?;
        self.begin_there(env, host)
    }

    /// The same on a host that is at its start.
    pub(crate) fn begin_there(&self, env: &Env, host: &Host) -> Result<Vec<String>> {
        let plan = self.plan.map(|change| env.put(host, change)).transpose()?;
        let plan = plan.unwrap_or_default();
        if matches!(self.start, Start::Guarded | Start::Failing) {
            // It was held back at this boot.
            expect(host, &[MCD_OS, "guard"], 0)?;
        }
        match self.before {
            Before::Nothing => {}
            Before::Applied => expect(host, &[MCD_OS, "apply", &plan], 4)?,
            Before::AllButEnded => {
                let ended = tracer::run(host, &[MCD_OS, "apply", &plan], &mut |point| {
                    let ends = point.next.path.contains("/last.json")
                        || point.next.path.contains("/.last.json");
                    Ok(if ends { Order::Kill } else { Order::GoOn })
                })?;
                ensure!(ended.is_killed, "it was not stopped: {}", ended.stderr);
            }
        }
        Ok(words(self.verb, &plan, env))
    }
}

/// A verb with what [`PLAN`], [`IMAGE`] and [`NEW_IMAGE`] stand for.
pub(crate) fn words(verb: &[&str], plan: &str, env: &Env) -> Vec<String> {
    let word = |word: &&str| match *word {
        PLAN => plan.to_owned(),
        IMAGE => env.small_os.clone(),
        NEW_IMAGE => env.new_os.clone(),
        word => word.to_owned(),
    };
    verb.iter().map(word).collect()
}

impl Start {
    /// The fixture, and whether the guard is held back.
    pub(crate) fn of(self, fixtures: &Fixtures) -> (&Fixture, bool) {
        match self {
            Self::Pristine => (&fixtures.pristine, false),
            Self::Unfetched => (&fixtures.unfetched, false),
            Self::Old => (&fixtures.old, false),
            Self::Switched => (&fixtures.switched, true),
            Self::Guarded => (&fixtures.guarded, true),
            Self::Failing => (&fixtures.failing, true),
            Self::GivenUp => (&fixtures.given_up, true),
        }
    }
}

impl End {
    pub(crate) fn of(self, fixtures: &Fixtures) -> &State {
        match self {
            Self::Installed => &fixtures.installed,
            Self::Old => &fixtures.old.state,
            Self::SwitchedSmall => &fixtures.switched_small,
            Self::PivotedSmall => &fixtures.pivoted_small,
            Self::New => &fixtures.new,
            Self::Pivoted => &fixtures.pivoted,
            Self::Live => &fixtures.live,
        }
    }
}
