//! The verbs: which jobs each runs.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::compile::{self, Built, Executables, PARTS, Profile};
use crate::job::{self, Job, Log, Outcome};
use crate::last_release;
use crate::libtest;
use crate::platform::Platform;
use crate::progress::Meter;
use crate::proof;
use crate::report::{self, Report};
use crate::shipped::{self, Stripped};
use crate::stamp::{Inputs, Stamp};
use crate::table::{NODE_PROGRAMS, OTHER_PROGRAMS, PROGRAMS, Part, SUITES, Suite, When};
use crate::workspace::{Workspace, now_secs, setting};

/// What a run is made of.
struct Selection {
    suites: Vec<&'static Suite>,
    /// Which programs the suites run.
    profile: Profile,
    /// With lints and the tests that need no lab; only a whole run writes stamps.
    is_whole: bool,
    uses_stamps: bool,
}

/// Everything that CI runs, or these suites with what they need.
pub(crate) fn test(workspace: &Workspace, names: &[&str]) -> Result<bool> {
    let is_chosen = |suite: &&Suite| match names {
        [] => matches!(suite.when, When::Test | When::Changed(_)),
        names => names.contains(&suite.name),
    };
    if names.is_empty() {
        picks_no_mutants()?;
    }
    let selection = Selection {
        suites: SUITES.iter().filter(is_chosen).collect(),
        profile: Profile::Dev,
        is_whole: names.is_empty(),
        // A suite that is named is to run.
        uses_stamps: names.is_empty() && setting("SLIPWAY_NO_STAMPS").is_none(),
    };
    let mut report = Report::new(workspace);
    run(workspace, selection, &mut report)?;
    for line in proof::lines(workspace, now_secs()) {
        report.say(&line);
    }
    report.end(workspace)
}

/// A whole run keeps that it was green, which some of the mutants do not show.
fn picks_no_mutants() -> Result<()> {
    ensure!(
        setting("SLIPWAY_MUTANTS").is_none(),
        "SLIPWAY_MUTANTS picks some of the mutants: only with SUITE=mutants"
    );
    Ok(())
}

/// Parts of the proof, one after another. No stamp is honoured.
pub(crate) fn proof(workspace: &Workspace, parts: &[Part]) -> Result<bool> {
    picks_no_mutants()?;
    let is_clean = workspace.is_clean()?;
    let mut all = true;
    for part in parts {
        let is_in = |suite: &&Suite| matches!(suite.when, When::Changed(of) | When::Proof(of) if of == *part);
        let selection = Selection {
            suites: SUITES.iter().filter(is_in).collect(),
            // On the machine, what ships.
            profile: match part {
                Part::Machine => Profile::Release,
                Part::Programs | Part::Hosts | Part::Images => Profile::Dev,
            },
            is_whole: false,
            uses_stamps: false,
        };
        let mut report = Report::new(workspace);
        let passed = run(workspace, selection, &mut report)?;
        if passed && is_clean && workspace.is_clean()? {
            proof::keep(workspace, *part, now_secs())?;
        }
        all &= report.end(workspace)?;
    }
    Ok(all)
}

/// Format, lints, dependencies.
pub(crate) fn lint(workspace: &Workspace) -> Result<bool> {
    let mut jobs = compile::lints(workspace);
    for job in &mut jobs {
        job.plan.after.clear();
    }
    plain(workspace, jobs)
}

/// What needs no lab.
pub(crate) fn unit(workspace: &Workspace) -> Result<bool> {
    let built = Built::default();
    let tests = selected(&[], &["--tests"]);
    let jobs = vec![
        compile::crates(workspace, ("crates", &[]), tests, &built),
        compile::unit(workspace, &built.executables),
    ];
    plain(workspace, jobs)
}

/// The programs alone.
pub(crate) fn programs(workspace: &Workspace, profile: Profile) -> Result<bool> {
    let mut jobs = match profile {
        Profile::Dev => {
            let programs = selected(&PROGRAMS, &[]);
            let built = Built::default();
            vec![compile::crates(
                workspace,
                ("crates", &[]),
                programs,
                &built,
            )]
        }
        Profile::Release => vec![shipped::release(workspace, Platform::Amd64, &[])],
    };
    jobs.push(stripped(workspace, profile));
    plain(workspace, jobs)
}

/// All programs, stripped.
fn stripped(workspace: &Workspace, profile: Profile) -> Job {
    let after = match profile {
        Profile::Dev => "crates",
        Profile::Release => "release",
    };
    let stripped = Stripped::here(profile, &PROGRAMS);
    shipped::programs(workspace, stripped, ("programs", &[after]))
}

/// What the demo needs for its first roll.
pub(crate) fn first_roll(workspace: &Workspace) -> Result<bool> {
    let first = selected(&NODE_PROGRAMS, &["--bin", "demo"]);
    let built = Built::default();
    let mut jobs = vec![compile::crates(workspace, ("crates", &[]), first, &built)];
    jobs.extend(compile::prebuilt(workspace)?);
    let first = Stripped::here(Profile::Dev, &NODE_PROGRAMS);
    jobs.push(shipped::programs(
        workspace,
        first,
        ("programs", &["crates"]),
    ));
    let passed = plain(workspace, jobs)?;
    let Rest { building, failed } = Rest::of(workspace);
    drop(fs::remove_file(failed));
    #[expect(clippy::disallowed_methods, reason = "a run's own file")]
    fs::write(&building, "").with_context(|| format!("cannot write {}", building.display()))?;
    Ok(passed)
}

/// Files by which the demo sees how far [`rest`] is.
struct Rest {
    /// There until it has ended.
    building: PathBuf,
    /// Why it failed.
    failed: PathBuf,
}

impl Rest {
    fn of(workspace: &Workspace) -> Self {
        let programs = workspace.programs();
        Self {
            building: programs.join("building"),
            failed: programs.join("failed"),
        }
    }
}

/// The rest of the demo's programs, while the demo runs.
pub(crate) fn rest(workspace: &Workspace) -> Result<bool> {
    let Rest { building, failed } = Rest::of(workspace);
    let rest = selected(&OTHER_PROGRAMS, &["--bin", "demo-operator"]);
    let built = Built::default();
    let programs = Stripped::here(Profile::Dev, &OTHER_PROGRAMS);
    let jobs = vec![
        compile::crates(workspace, ("more-crates", &[]), rest, &built),
        shipped::programs(workspace, programs, ("more-programs", &["more-crates"])),
    ];
    let mut report = Report::in_file(building.clone(), workspace);
    let passed = job::run_all(workspace, jobs, &mut report)?;
    report.end(workspace)?;
    if !passed {
        #[expect(clippy::disallowed_methods, reason = "a run's own file")]
        fs::write(&failed, report.failures())?;
    }
    fs::remove_file(&building).context("cannot remove the mark of a build under way")?;
    Ok(passed)
}

/// All that the demo's cluster and its playground need.
pub(crate) fn playground(workspace: &Workspace) -> Result<bool> {
    let all = selected(&PROGRAMS, &["--bin", "demo", "--bin", "demo-operator"]);
    let built = Built::default();
    let mut jobs = vec![compile::crates(workspace, ("crates", &[]), all, &built)];
    jobs.extend(compile::prebuilt(workspace)?);
    jobs.push(stripped(workspace, Profile::Dev));
    plain(workspace, jobs)
}

/// Releases of all programs, and the maker of images.
pub(crate) fn images(workspace: &Workspace, platform: Platform) -> Result<bool> {
    let built = Built::default();
    let builder = selected(&[], &["--bin", "image-builder", "--bin", "release-builder"]);
    let programs = Stripped {
        platform,
        ..Stripped::here(Profile::Release, &PROGRAMS)
    };
    let jobs = vec![
        compile::crates(workspace, ("crates", &[]), builder, &built),
        shipped::release(workspace, platform, &["crates"]),
        shipped::programs(workspace, programs, ("programs", &["release"])),
    ];
    plain(workspace, jobs)
}

/// Releases of all programs, the benchmark, and what it compares with.
pub(crate) fn bench(workspace: &Workspace) -> Result<bool> {
    let bench = ["--bin", "bench", "--bin", "demo", "--bin", "demo-operator"];
    let built = Built::default();
    let mut jobs = vec![compile::crates(
        workspace,
        ("crates", &[]),
        selected(&[], &bench),
        &built,
    )];
    jobs.extend(compile::prebuilt(workspace)?);
    jobs.push(shipped::release(workspace, Platform::Amd64, &["crates"]));
    jobs.push(stripped(workspace, Profile::Release));
    jobs.push(compile::peers(workspace));
    plain(workspace, jobs)
}

/// Arguments of cargo that select programs, and more.
fn selected(programs: &[&str], more: &[&str]) -> Vec<String> {
    let programs = programs.iter().flat_map(|name| ["--bin", *name]);
    let all = programs.chain(more.iter().copied());
    all.map(str::to_owned).collect()
}

fn plain(workspace: &Workspace, jobs: Vec<Job>) -> Result<bool> {
    let mut report = Report::new(workspace);
    let passed = job::run_all(workspace, jobs, &mut report)?;
    Ok(report.end(workspace)? && passed)
}

/// Builds everything and runs the suites; whether all passed.
fn run(workspace: &Workspace, selection: Selection, report: &mut Report) -> Result<bool> {
    let Selection {
        suites,
        profile,
        is_whole,
        uses_stamps,
    } = selection;
    let is_clean = workspace.is_clean()?;
    let built = Built::default();
    let green = Arc::new(Green {
        inputs: OnceLock::new(),
        found: Mutex::new(Vec::new()),
    });

    let mut jobs = Vec::new();
    let mut later = Vec::new();
    let select = if is_whole {
        // What the suites wait for is built first; clippy and its like beside them.
        let (format, others): (Vec<_>, Vec<_>) = compile::lints(workspace)
            .into_iter()
            .partition(|job| job.plan.name == "format");
        jobs.extend(format);
        later.extend(others);
        later.push(compile::unit(workspace, &built.executables));
        selected(&[], &["--bins", "--tests"])
    } else {
        executables_of(&suites)
    };
    let after: &[&'static str] = if is_whole { &["format"] } else { &[] };
    jobs.push(compile::crates(
        workspace,
        ("crates", after),
        select,
        &built,
    ));
    jobs.extend(compile::prebuilt(workspace)?);
    if profile == Profile::Release {
        jobs.push(shipped::release(workspace, Platform::Amd64, &["crates"]));
    }
    jobs.push(stripped(workspace, profile));
    if suites.iter().any(|suite| suite.has_last_release) {
        jobs.push(last_release::job(workspace, &["crates"]));
    }
    jobs.extend(later);
    for suite in by_time(workspace, suites) {
        let last: &[&'static str] = if suite.has_last_release {
            &[last_release::JOB]
        } else {
            &[]
        };
        let needs = [&["programs"], PARTS.as_slice(), last].concat();
        let (workspace, executables) = (workspace.clone(), built.executables.clone());
        let green = Arc::clone(&green);
        let job = Job::new(suite.name, &needs, move |log| {
            green.run(&workspace, &executables, suite, uses_stamps, log)
        });
        jobs.push(job.lanes(suite.lanes).meter(Meter::Tests));
    }
    let passed = job::run_all(workspace, jobs, report)?;
    if is_whole && passed && is_clean && workspace.is_clean()? {
        green.write(workspace)?;
    }
    Ok(passed)
}

/// Arguments of cargo that select the executables of suites, and what they run.
fn executables_of(suites: &[&Suite]) -> Vec<String> {
    let mut select = selected(&PROGRAMS, &["--bin", "demo", "--bin", "demo-operator"]);
    let mut targets: Vec<_> = suites.iter().map(|suite| suite.executable.1).collect();
    targets.sort_unstable();
    targets.dedup();
    for target in targets {
        select.extend(["--test".to_owned(), target.to_owned()]);
    }
    select
}

/// Longest first, by the last run on this machine. Suites without a time come before the others,
/// in the table's order, because they may be long.
fn by_time(workspace: &Workspace, suites: Vec<&'static Suite>) -> Vec<&'static Suite> {
    let times = report::read(workspace);
    longest_first(suites, |suite| times.seen(suite.name).map(|seen| seen.secs))
}

fn longest_first<T>(mut suites: Vec<T>, secs: impl Fn(&T) -> Option<f64>) -> Vec<T> {
    let length = |suite: &T| secs(suite).unwrap_or(f64::INFINITY);
    suites.sort_by(|a, b| length(b).total_cmp(&length(a)));
    suites
}

/// What this run found green, to be stamped at its end.
struct Green {
    inputs: OnceLock<Inputs>,
    found: Mutex<Vec<(&'static Suite, String, Duration, u32)>>,
}

impl Green {
    fn run(
        &self,
        workspace: &Workspace,
        executables: &Executables,
        suite: &'static Suite,
        uses_stamps: bool,
        log: &Log,
    ) -> Result<Outcome> {
        let inputs = if let Some(inputs) = self.inputs.get() {
            inputs
        } else {
            let read = Inputs::read(workspace)?;
            self.inputs.get_or_init(|| read)
        };
        let digest = inputs.of(suite)?;
        let stamp = inputs
            .stamp(suite, &digest)
            .filter(|stamp| match suite.when {
                When::Changed(_) => true,
                When::Test | When::Proof(_) => stamp.is_good(now_secs()),
            });
        if let Some(stamp) = stamp.filter(|_| uses_stamps) {
            return Ok(stamped(&stamp));
        }
        let since = Instant::now();
        let result = run_suite(workspace, executables, suite, log);
        match &result {
            Ok(tests) => {
                let mut found = self
                    .found
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                found.push((suite, digest, since.elapsed(), *tests));
            }
            Err(_) => inputs.remove(suite, &digest),
        }
        Ok(Outcome {
            tests: result?,
            ..Outcome::default()
        })
    }

    fn write(&self, workspace: &Workspace) -> Result<()> {
        let commit = workspace.commit()?;
        let found = self
            .found
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        for (suite, digest, took, tests) in found.iter() {
            let inputs = self.inputs.get().context("no suite ran")?;
            let stamp = Stamp {
                commit: commit.clone(),
                at_secs: now_secs(),
                took_secs: took.as_secs(),
                tests: *tests,
            };
            inputs.write(suite, digest, &stamp)?;
        }
        Ok(())
    }
}

fn stamped(stamp: &Stamp) -> Outcome {
    let age = proof::age(now_secs().saturating_sub(stamp.at_secs));
    let took = report::clock(Duration::from_secs(stamp.took_secs));
    let stamp = format!(
        "as at {}, green {age} ago in {took}, {} tests",
        stamp.commit, stamp.tests
    );
    Outcome {
        stamp,
        ..Outcome::default()
    }
}

/// Runs a suite; how many tests passed.
fn run_suite(
    workspace: &Workspace,
    executables: &Executables,
    suite: &Suite,
    log: &Log,
) -> Result<u32> {
    let mut command = executables.command(workspace, suite.executable)?;
    command.args(suite.tests);
    command
        .args(["--ignored", "--show-output"])
        .arg(format!("--test-threads={}", suite.threads));
    if !suite.tests.is_empty() {
        command.arg("--exact");
    }
    log.run(&mut command, Duration::from_mins(suite.limit_mins))?;
    let passed = libtest::passed(&log.text()?)?;
    ensure!(
        suite.tests.is_empty() || passed as usize == suite.tests.len(),
        "{passed} of the tests {} ran",
        suite.tests.join(", ")
    );
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use super::longest_first;

    #[test]
    fn suites_without_a_time_come_first_and_keep_their_order() {
        // Every third one has no time. A sort by an inconsistent comparison panics on such a list.
        let times: Vec<Option<f64>> = (0..60u32)
            .map(|n| (n % 3 != 0).then(|| f64::from(n * 37 % 60)))
            .collect();
        let order = longest_first((0..60).collect(), |&n: &usize| times[n]);
        let (unknown, known) = order.split_at(20);
        assert!(unknown.iter().all(|&n| times[n].is_none()) && unknown.is_sorted());
        assert!(known.is_sorted_by(|&a, &b| times[a] >= times[b]));
    }
}
