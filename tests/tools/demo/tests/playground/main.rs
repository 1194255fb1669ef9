//! A held playground: each thing that it prints is run, in the order in which it is printed, and
//! nothing is left when it is ended.
//!
//! - `clients`: what OpenShift's clients ask besides
//! - `expected`: what each has to show
//! - `held`: the cluster
//! - `process`: its start, and its end
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a test that runs programs, and reads objects and a run's own files"
)]

mod clients;
mod expected;
mod held;
mod process;
#[path = "../../src/playground/things.rs"]
mod things;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use testbed::{Programs, logs};

use crate::expected::{EXPECTED, Expected, How, Then};
use crate::held::Held;
use crate::process::{end, hold};
use crate::things::GROUPS;

#[test]
fn each_printed_thing_is_expected_to_show_something() {
    let printed = GROUPS.iter().flat_map(|group| group.things);
    let printed: Vec<_> = printed.map(|thing| thing.run).collect();
    let expected: Vec<_> = EXPECTED.iter().map(|one| one.run).collect();
    assert_eq!(printed, expected);
}

#[test]
fn a_cluster_that_does_not_start_says_why_and_where() -> Result<()> {
    let out = tempfile::tempdir()?;
    let out = out.path().join("playground");
    let (code, printed) = hold(Path::new("/nowhere/programs"), &out)?;
    ensure!(code == Some(1), "{printed}");
    for text in [
        "the cluster did not start",
        "playground/playground.log ends with:",
        "cannot list /nowhere/programs",
    ] {
        ensure!(printed.contains(text), "{text:?} is not in {printed}");
    }
    ensure!(!out.join("cluster.env").exists(), "it looks as if it runs");
    ensure!(end(&out)?.contains("no playground runs"));
    Ok(())
}

#[test]
#[ignore = "needs the lab, Ignition, Prometheus and Alertmanager"]
fn each_printed_thing_works_and_nothing_is_left() -> Result<()> {
    let out = logs::folder("playground", "held");
    let held = Held::start(Programs::built()?.folder(), &out)?;
    let (code, printed) = hold(Programs::built()?.folder(), &out)?;
    ensure!(
        code == Some(1) && printed.contains("a playground runs already: process "),
        "a second one: {printed}"
    );
    clients::status(&held).context("before an update")?;
    clients::all(&held)?;
    for one in EXPECTED {
        try_thing(&held, one).with_context(|| format!("`{}`", one.run))?;
        if one.run.starts_with("slipway upgrade") {
            clients::status(&held).with_context(|| format!("after `{}`", one.run))?;
        }
    }
    held.end()
}

fn try_thing(held: &Held, expected: &Expected) -> Result<()> {
    let before = held.targets()?;
    match expected.how {
        How::Once => {
            let ran = held.run(expected.run, expected.input)?;
            ran.check(expected)?;
        }
        How::Until => held.until(expected)?,
        How::Follow => held.follow(expected)?,
        How::Page => {
            let page = held.page(expected.run)?;
            for text in expected.shows {
                ensure!(page.contains(text), "{text:?} is not in {page}");
            }
        }
    }
    for then in expected.then {
        match then {
            Then::Shows(run, texts) => held.until(&Expected::shows(run, texts))?,
            Then::Rolled(pool) => held.rolled(pool, &before)?,
            Then::Settled => held.settled()?,
        }
    }
    Ok(())
}
