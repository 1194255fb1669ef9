//! Everything that the program does to a host, from where, and what may be there if it is stopped.

use anyhow::{Result, ensure};
use lab::host::Host;
use testbed::single_host::{MCD_OS, MCD_OS_BROUGHT, expect};

use super::site::Site;
use super::stage::{Change, Stage, Stages};
use super::state::State;
use super::tracer::{self, Order};

/// One verb of the program, in one situation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
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

/// A stage, and whether the guard is held back at the boot from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Bare,
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
    /// A change of the running system is in, but for its end: whoever applied it was killed.
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

pub(crate) const REHEARSE: Way = Way {
    name: "rehearse",
    start: Start::Old,
    plan: Some(Change::Update),
    before: Before::Nothing,
    verb: &[MCD_OS, "rehearse", PLAN],
};

pub(crate) const APPLY: Way = Way {
    name: "apply",
    start: Start::Old,
    plan: Some(Change::Update),
    before: Before::Nothing,
    verb: &[MCD_OS, "apply", PLAN],
};

pub(crate) const TAKE_BACK: Way = Way {
    name: "rollback before the reboot",
    start: Start::Old,
    plan: Some(Change::Update),
    before: Before::Applied,
    verb: &[MCD_OS, "rollback"],
};

pub(crate) const FINISH: Way = Way {
    name: "guard in the target",
    start: Start::Switched,
    plan: None,
    before: Before::Nothing,
    verb: &[MCD_OS, "guard"],
};

pub(crate) const PROVE: Way = Way {
    name: "guard --prove",
    start: Start::Guarded,
    plan: None,
    before: Before::Nothing,
    verb: &[MCD_OS, "guard", "--prove"],
};

pub(crate) const GIVE_UP: Way = Way {
    name: "guard --prove that fails",
    start: Start::Failing,
    plan: None,
    before: Before::Nothing,
    verb: &[MCD_OS, "guard", "--prove", "--deadline", "0"],
};

pub(crate) const UNDO: Way = Way {
    name: "guard in the origin",
    start: Start::GivenUp,
    plan: None,
    before: Before::Nothing,
    verb: &[MCD_OS, "guard"],
};

pub(crate) const GO_BACK: Way = Way {
    name: "rollback in the target",
    start: Start::Guarded,
    plan: None,
    before: Before::Nothing,
    verb: &[MCD_OS, "rollback"],
};

pub(crate) const LIVE: Way = Way {
    name: "apply without a reboot",
    start: Start::Old,
    plan: Some(Change::Live),
    before: Before::Nothing,
    verb: &[MCD_OS, "apply", PLAN],
};

pub(crate) const LIVE_BACK: Way = Way {
    name: "rollback without a reboot",
    start: Start::Old,
    plan: Some(Change::Live),
    before: Before::AllButEnded,
    verb: &[MCD_OS, "rollback"],
};

pub(crate) const INSTALL: Way = Way {
    name: "guard --install",
    start: Start::Bare,
    plan: None,
    before: Before::Nothing,
    verb: &[MCD_OS_BROUGHT, "guard", "--install"],
};

impl Way {
    /// Brings a host to where the verb is next; the verb.
    pub(crate) fn begin(
        &self,
        site: &Site,
        stages: &Stages,
        host: &mut Host,
    ) -> Result<Vec<String>> {
        let (stage, held) = self.start.of(stages);
        stage.begin(host, held)?;
        self.begin_there(site, host)
    }

    /// The same on a host that is at its start.
    pub(crate) fn begin_there(&self, site: &Site, host: &Host) -> Result<Vec<String>> {
        let plan = self.plan.map(|change| site.put(host, change)).transpose()?;
        let plan = plan.unwrap_or_default();
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
        Ok(words(self.verb, &plan, site))
    }
}

/// A verb with what [`PLAN`], [`IMAGE`] and [`NEW_IMAGE`] stand for.
pub(crate) fn words(verb: &[&str], plan: &str, site: &Site) -> Vec<String> {
    let word = |word: &&str| match *word {
        PLAN => plan.to_owned(),
        IMAGE => site.small_os.clone(),
        NEW_IMAGE => site.new_os.clone(),
        word => word.to_owned(),
    };
    verb.iter().map(word).collect()
}

impl Start {
    /// The stage, and whether the guard is held back.
    pub(crate) fn of(self, stages: &Stages) -> (&Stage, bool) {
        match self {
            Self::Bare => (&stages.bare, false),
            Self::Unfetched => (&stages.unfetched, false),
            Self::Old => (&stages.old, false),
            Self::Switched => (&stages.switched, true),
            Self::Guarded => (&stages.guarded, true),
            Self::Failing => (&stages.failing, true),
            Self::GivenUp => (&stages.given_up, true),
        }
    }
}

impl End {
    pub(crate) fn of(self, stages: &Stages) -> &State {
        match self {
            Self::Installed => &stages.installed,
            Self::Old => &stages.old.state,
            Self::SwitchedSmall => &stages.switched_small,
            Self::PivotedSmall => &stages.pivoted_small,
            Self::New => &stages.new,
            Self::Pivoted => &stages.pivoted,
            Self::Live => &stages.live,
        }
    }
}
