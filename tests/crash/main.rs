//! Crash tests on a real host: everything that `mcd-os` does is stopped at every point between two
//! system calls that change the host, once by killing the program, once by killing the host; and the
//! daemon that has it done.
//!
//! - `call`, `filter`, `ptrace`, `tracer`: a program that stands still before each such call
//! - `configs`, `small_os`: between what a host goes
//! - `site`, `stage`: hosts, and where a way begins
//! - `way`: everything that is stopped, and what may be there then
//! - `points`: which points there are, and how many were tried
//! - `sample`: which of them, where not each is
//! - `state`: what a host is, by its bytes
//! - `process_kill`, `host_kill`, `daemon`: the suites

#![expect(
    clippy::similar_names,
    reason = "a suite has stages, a point a step: the words are the subject's"
)]
#![expect(
    clippy::print_stderr,
    reason = "a run of minutes tells what it found so far"
)]

mod call;
mod configs;
mod daemon;
mod filter;
mod host_kill;
mod points;
mod process_kill;
mod ptrace;
mod sample;
mod site;
mod small_os;
mod stage;
mod state;
mod tracer;
mod way;

use anyhow::Result;

use daemon::Victim;
use site::Site;
use stage::Stages;

/// Hosts that are at work at once. They wait for disks and boots more than for processors.
const HOSTS: usize = 4;

#[test]
#[ignore = "needs the lab"]
fn a_killed_program_leaves_its_host_whole() -> Result<()> {
    println!("{}", kill_programs(1)?);
    Ok(())
}

/// What of the whole suite CI has time for: other points for each commit.
#[test]
#[ignore = "needs the lab"]
fn some_killed_programs_leave_their_host_whole() -> Result<()> {
    println!("{}", kill_programs(20)?);
    Ok(())
}

fn kill_programs(stride: usize) -> Result<String> {
    let site = Site::new()?;
    let mut hosts = site.hosts()?;
    let stages = Stages::prepare(&site, &mut hosts)?;
    let sample = sample::number()?;
    process_kill::run(&site, &stages, (stride, sample), &mut hosts)
}

#[test]
#[ignore = "needs the lab"]
fn a_killed_host_boots_into_the_old_state_or_the_new() -> Result<()> {
    let site = Site::new()?;
    let mut hosts = site.hosts()?;
    let stages = Stages::prepare(&site, &mut hosts)?;
    let sample = sample::number()?;
    println!("{}", host_kill::run(&site, &stages, sample, &mut hosts)?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn a_killed_daemon_goes_on_where_it_was() -> Result<()> {
    println!("{}", daemon::run(Victim::Daemon).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn a_daemon_whose_host_is_killed_goes_on_where_it_was() -> Result<()> {
    println!("{}", daemon::run(Victim::Host).await?);
    Ok(())
}
