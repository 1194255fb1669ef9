//! Crash tests on a real host: everything that `mcd-os` does is stopped at every point between two
//! system calls that change the host, once by killing the program, once by killing the host; and
//! the daemon that has it done.
//!
//! - `call`, `filter`, `ptrace`, `tracer`: a program that stands still before each such call
//! - `configs`, `small_os`: between what a host goes
//! - `env`, `fixture`: hosts, and where a scenario begins
//! - `scenario`: everything that is stopped, and what may be there then
//! - `points`: which points there are, and how many were tried
//! - `sample`: which of them, where not each is
//! - `state`: what a host is, by its bytes
//! - `process_kill`, `host_kill`, `daemon`: the suites

#![expect(
    clippy::similar_names,
    reason = "a suite has fixtures, a point a step: the words are the subject's"
)]
#![expect(
    clippy::print_stderr,
    reason = "a run of minutes prints what it found so far"
)]

mod call;
mod configs;
mod daemon;
mod env;
mod filter;
mod fixture;
mod host_kill;
mod points;
mod process_kill;
mod ptrace;
mod sample;
mod scenario;
mod small_os;
mod state;
mod tracer;

use anyhow::Result;

use daemon::{Share, Victim};
use env::Env;
use fixture::Fixtures;

/// Hosts that are used at once. They wait for disks and boots more than for processors.
const HOSTS: usize = 4;

#[test]
#[ignore = "needs the lab"]
fn a_killed_program_leaves_the_old_state_or_the_target() -> Result<()> {
    println!("{}", kill_programs(1)?);
    Ok(())
}

/// What of the whole suite CI has time for: other points for each commit.
#[test]
#[ignore = "needs the lab"]
fn a_sample_of_killed_programs_leaves_the_old_state_or_the_target() -> Result<()> {
    println!("{}", kill_programs(20)?);
    Ok(())
}

fn kill_programs(stride: usize) -> Result<String> {
    let env = Env::new()?;
    let mut hosts = env.hosts()?;
    let fixtures = Fixtures::prepare(&env, &mut hosts)?;
    let sample = sample::number()?;
    process_kill::run(&env, &fixtures, (stride, sample), &mut hosts)
}

#[test]
#[ignore = "needs the lab"]
fn a_killed_host_boots_the_old_state_or_the_target() -> Result<()> {
    let env = Env::new()?;
    let mut hosts = env.hosts()?;
    let fixtures = Fixtures::prepare(&env, &mut hosts)?;
    let sample = sample::number()?;
    println!("{}", host_kill::run(&env, &fixtures, sample, &mut hosts)?);
    Ok(())
}

/// What of the whole suite CI has time for: other points for each commit.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn a_sample_of_killed_daemons_resumes_its_update() -> Result<()> {
    let share = Share {
        stride: 4,
        sample: sample::number()?,
    };
    println!("{}", daemon::run(Victim::Daemon, share).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn a_killed_daemon_resumes_its_update() -> Result<()> {
    println!("{}", daemon::run(Victim::Daemon, Share::ALL).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn a_daemon_whose_host_is_killed_resumes_its_update() -> Result<()> {
    println!("{}", daemon::run(Victim::Host, Share::ALL).await?);
    Ok(())
}
