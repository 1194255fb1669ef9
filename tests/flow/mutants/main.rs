//! The live mutants: each law is broken by a program with one fault.
//!
//! - `scratch`: a copy of the workspace, in which a fault is built
//! - `env`: a cluster of one node, which is rolled until a law is broken

mod env;
mod scratch;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc;

use anyhow::{Context as _, Result, ensure};
use observer::laws::{self, Law, node, pool, requests};
use observer::rollout::Rollout;
use testbed::Programs;
use tokio::runtime::Runtime;

use self::env::Change;
use self::scratch::Scratch;

/// A fault, as a patch of the workspace below `tests/mutants`, and the change that brings it out.
struct Mutant {
    law: &'static Law,
    /// Other laws that the same fault cannot but break.
    also: &'static [&'static Law],
    patch: &'static str,
    /// Whether the helper has it, too: where it judges the host by itself, the daemon's fault alone
    /// is found before the law is broken.
    is_in_helper: bool,
    change: Change,
}

/// One for each law. The set of laws that it breaks is exact.
const MUTANTS: [Mutant; 10] = [
    Mutant {
        law: &pool::BUDGET,
        also: &[],
        patch: include_str!("../../mutants/budget.patch"),
        is_in_helper: false,
        change: Change::BesideANodeThatIsOut,
    },
    Mutant {
        law: &node::READINESS,
        // An eviction never undercuts a budget; a deletion is not the daemon's to ask for.
        also: &[&requests::MODEST],
        patch: include_str!("../../mutants/readiness.patch"),
        is_in_helper: false,
        change: Change::WithABudget,
    },
    Mutant {
        law: &node::DRAINED,
        also: &[],
        patch: include_str!("../../mutants/drained.patch"),
        is_in_helper: false,
        change: Change::WithReboot,
    },
    Mutant {
        law: &node::SPARED,
        also: &[],
        patch: include_str!("../../mutants/spared.patch"),
        is_in_helper: false,
        change: Change::WithReboot,
    },
    Mutant {
        law: &node::FETCH_BEFORE,
        also: &[],
        patch: include_str!("../../mutants/fetch-before.patch"),
        is_in_helper: false,
        change: Change::Os,
    },
    Mutant {
        law: &node::TRUTHFUL,
        also: &[],
        patch: include_str!("../../mutants/truthful.patch"),
        is_in_helper: false,
        change: Change::WithReboot,
    },
    Mutant {
        law: &node::UNDISTURBED,
        also: &[],
        patch: include_str!("../../mutants/undisturbed.patch"),
        is_in_helper: false,
        change: Change::Live,
    },
    Mutant {
        law: &requests::MODEST,
        also: &[],
        patch: include_str!("../../mutants/modest.patch"),
        is_in_helper: false,
        change: Change::Live,
    },
    Mutant {
        law: &requests::KEPT,
        also: &[],
        patch: include_str!("../../mutants/kept.patch"),
        is_in_helper: false,
        change: Change::Live,
    },
    Mutant {
        law: &pool::PROVEN,
        also: &[],
        patch: include_str!("../../mutants/proven.patch"),
        is_in_helper: true,
        change: Change::Live,
    },
];

impl Mutant {
    /// Name of the law, by which the patch begins.
    const fn name(&self) -> &'static str {
        self.law.name
    }
}

#[test]
fn each_law_has_a_mutant_and_each_patch_says_which_it_breaks() {
    let mutants: BTreeSet<_> = MUTANTS.iter().map(Mutant::name).collect();
    let laws: BTreeSet<_> = laws::all().map(|law| law.name).collect();
    assert_eq!(mutants, laws);
    for mutant in MUTANTS {
        let first = mutant.patch.lines().next().unwrap_or_default();
        let name = mutant.name();
        assert!(first.starts_with(&format!("{name}: ")), "{name}: {first}");
    }
}

#[test]
fn each_patch_applies_to_the_workspace() -> Result<()> {
    for mutant in &MUTANTS {
        scratch::apply(mutant.patch, workspace(), &["--check"]).with_context(|| mutant.name())?;
    }
    Ok(())
}

/// `SLIPWAY_KEEP_RECORDS` names a folder that gets a record of each run; `SLIPWAY_MUTANTS` names
/// laws, of which only the mutants run.
#[test]
#[ignore = "needs the lab"]
fn every_mutant_is_found() -> Result<()> {
    let only = std::env::var_os("SLIPWAY_MUTANTS");
    let only = only.and_then(|names| names.into_string().ok());
    let mutants = || {
        MUTANTS.iter().filter(|mutant| {
            let name = mutant.name();
            only.as_ref()
                .is_none_or(|only| only.split(',').any(|one| one == name))
        })
    };
    let runtime = Runtime::new()?;
    let scratch = Scratch::new()?;
    let (built, next) = mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        // The next one is built while the last one runs.
        scope.spawn(move || {
            for mutant in mutants() {
                // A failure has ended the others.
                if built.send((mutant, scratch.build(mutant))).is_err() {
                    return;
                }
            }
        });
        let mut failures = Vec::new();
        for (mutant, programs) in next {
            let name = mutant.name();
            let outcome = programs.and_then(|programs| runtime.block_on(judge(mutant, &programs)));
            let line = match &outcome {
                Ok(breaches) => format!("{name}: {breaches}"),
                Err(error) => format!("{name}: FAILED: {error:#}"),
            };
            eprintln!("{line}");
            failures.extend(outcome.is_err().then_some(line));
        }
        ensure!(failures.is_empty(), "{}", failures.join("\n"));
        Ok(())
    })
}

/// Runs a mutant until it breaks a law, or to its end. It has to have broken its own laws, and no
/// other.
async fn judge(mutant: &Mutant, programs: &Programs) -> Result<String> {
    let name = mutant.name();
    let rollout = env::run(programs, name, &mutant.change).await?;
    keep(&rollout, name)?;
    let breaches = rollout.judge().breaches;
    let broken: BTreeSet<_> = breaches.iter().map(|breach| breach.law.name).collect();
    let expected = [mutant.law].into_iter().chain(mutant.also.iter().copied());
    let expected: BTreeSet<_> = expected.map(|law| law.name).collect();
    let breaches: Vec<_> = breaches.iter().map(ToString::to_string).collect();
    let breaches = breaches.join("\n  ");
    ensure!(
        broken == expected,
        "it breaks {broken:?}, not {expected:?}:\n  {breaches}"
    );
    Ok(breaches)
}

/// Writes a record where the environment asks for it.
fn keep(rollout: &Rollout, name: &str) -> Result<()> {
    std::env::var_os("SLIPWAY_KEEP_RECORDS").map_or(Ok(()), |dir| {
        rollout.keep(&Path::new(&dir).join(format!("{name}.json.gz")))
    })
}

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
