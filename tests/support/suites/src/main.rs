//! Builds everything once and runs the suites side by side: `make test`, `make proof`.
//!
//! It must not know: what a suite tests.
//!
//! - `table`: which suites there are, and what each needs
//! - `compile`: what is built; `shipped`: what ships; `cargo`: how cargo is called; `cores`: how
//!   many at once
//! - `platform`: what programs are built for
//! - `lanes`: which job starts next
//! - `job`: what runs in a lane
//! - `libtest`: what a test executable says
//! - `stamp`: which suite was green with which inputs
//! - `proof`: when each part of the proof was last green
//! - `report`: what a person sees; `screen`: where; `progress`: how far a job is; `forecast`: how
//!   long the rest takes
//! - `workspace`: where everything is

mod cargo;
mod compile;
mod cores;
mod forecast;
mod job;
mod lanes;
mod last_release;
mod libtest;
mod platform;
mod progress;
mod proof;
mod report;
mod run;
mod screen;
mod shipped;
mod stamp;
mod table;
mod workspace;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Result, bail};

use compile::Profile;
use platform::Platform;
use table::{Part, SUITES};
use workspace::Workspace;

const USAGE: &str = "usage: suites test [SUITE...]       everything, or these suites; with stamps unless SLIPWAY_NO_STAMPS=1
       suites proof [PART...]      programs, hosts, machine, images: what takes longer than `make test` may
       suites lint                 format, clippy, dependencies
       suites unit                 what needs no lab
       suites programs [dev|release]
       suites first-roll           what the demo needs for its first roll
       suites rest                 what it needs besides, while it runs
       suites playground | bench | images [PLATFORM]   what they need; linux/amd64 or linux/arm64
       suites list                 all suites
Exits with 0 if all passed, 1 if something failed, 2 for a wrong call.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["test", names @ ..] => suites(names).and_then(|names| run::test(&find()?, &names)),
        ["proof", names @ ..] => parts(names).and_then(|parts| run::proof(&find()?, &parts)),
        ["lint"] => find().and_then(|workspace| run::lint(&workspace)),
        ["unit"] => find().and_then(|workspace| run::unit(&workspace)),
        ["programs"] => find().and_then(|workspace| run::programs(&workspace, Profile::Dev)),
        ["programs", name] => Profile::named(name)
            .ok_or_else(|| anyhow::anyhow!("no profile {name}"))
            .and_then(|profile| run::programs(&find()?, profile)),
        ["first-roll"] => find().and_then(|workspace| run::first_roll(&workspace)),
        // The demo's cluster runs meanwhile.
        ["rest"] => Workspace::find()
            .and_then(|workspace| workspace.with(cores::half))
            .and_then(|workspace| run::rest(&workspace)),
        ["playground"] => find().and_then(|workspace| run::playground(&workspace)),
        ["images"] => find().and_then(|workspace| run::images(&workspace, Platform::Amd64)),
        ["images", name] => Platform::named(name)
            .ok_or_else(|| {
                anyhow::anyhow!("images are built for linux/amd64 and linux/arm64, not {name}")
            })
            .and_then(|platform| run::images(&find()?, platform)),
        ["bench"] => find().and_then(|workspace| run::bench(&workspace)),
        ["list"] => list(),
        _ => {
            // Nowhere is left to report that standard error is closed.
            drop(writeln!(std::io::stderr(), "{USAGE}"));
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "suites: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn find() -> Result<Workspace> {
    Workspace::find()?.with(cores::all)
}

/// Names of suites that exist.
fn suites<'a>(names: &[&'a str]) -> Result<Vec<&'a str>> {
    for name in names {
        if SUITES.iter().all(|suite| suite.name != *name) {
            bail!("there is no suite {name}; `suites list` names all");
        }
    }
    Ok(names.to_vec())
}

/// Parts of these names; all if there is none.
fn parts(names: &[&str]) -> Result<Vec<Part>> {
    if names.is_empty() {
        return Ok(Part::ALL.to_vec());
    }
    let part = |name: &&str| {
        Part::named(name).ok_or_else(|| anyhow::anyhow!("there is no part {name} of the proof"))
    };
    names.iter().map(part).collect()
}

fn list() -> Result<bool> {
    let mut out = std::io::stdout().lock();
    for suite in SUITES {
        let (package, target) = suite.executable;
        writeln!(
            out,
            "{:<20} {package} {target} {}",
            suite.name,
            suite.tests.join(" ")
        )?;
    }
    Ok(true)
}
