//! `make demo`: three workers roll to a new OS and configuration while pods keep running, then the
//! whole cluster is updated to another release; shown live, judged by the observer.
//!
//! - `run`: the order of events
//! - `rolls`, `workload`: what is asked for, and what runs meanwhile
//! - `update`, `releases`: the last roll, and the releases that it needs
//! - `managed`, `steps`: the same roll, asked for by an UpgradeConfig
//! - `services`, `machines`: what runs beside the cluster, and the machine API
//! - `levels`: how far a release is
//! - `rest`: what is built meanwhile
//! - `judge`: from the observer's verdict to what is shown of it
//! - `timeline`: the file it leaves, beside the picture by `slipway upgrade timeline`
//! - `live`: what it shows
//! - `playground`: a cluster of all parts, for a person to try things on

mod judge;
mod levels;
mod live;
mod machines;
mod managed;
mod playground;
mod releases;
mod rest;
mod rolls;
mod run;
mod services;
mod steps;
mod timeline;
mod update;
mod workload;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use testbed::Programs;
use tokio::signal::unix::{SignalKind, signal};

use crate::run::Course;

/// Rolls a new OS and configuration through three workers, then a release through the cluster, and
/// proves it.
///
/// Exits with 0 only if every node is proven updated and every law held.
#[derive(Debug, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
struct Arguments {
    /// Folder with the programs, as `make binaries` leaves it.
    #[arg(long, default_value = "target/slipway")]
    programs: PathBuf,
    /// Folder for timeline.json, timeline.svg and logs; emptied first.
    #[arg(long, default_value = "target/demo")]
    out: PathBuf,
    /// File for what was recorded, as far as the observer reads it.
    #[arg(long)]
    keep_record: Option<PathBuf>,
    /// How many of the three rolls of the workers; the release follows the third.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=3))]
    rolls: u8,
    /// Have an UpgradeConfig ask for the release, on a date, with one machine more meanwhile. The
    /// workers roll once before.
    #[arg(long, conflicts_with = "rolls")]
    managed: bool,
    /// Roll nothing: keep the cluster up, and start a shell beside it.
    #[arg(long, conflicts_with_all = ["rolls", "keep_record", "managed"])]
    playground: bool,
    /// Start no shell: return when the cluster is up. It lives on in a process of its own.
    #[arg(long, requires = "playground")]
    hold: bool,
    /// This is that process.
    #[arg(long, requires = "playground", conflicts_with = "hold", hide = true)]
    held: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments {
        programs,
        out,
        keep_record,
        rolls,
        managed,
        playground,
        hold,
        held,
    } = Arguments::parse();
    let run = async {
        if hold {
            return playground::hold::run(&programs, &out).await;
        }
        let programs = Programs::in_folder(&programs);
        if playground {
            Box::pin(playground::run(&programs, &out, held)).await
        } else {
            let course = if managed {
                Course::Managed
            } else {
                Course::Rolls(usize::from(rolls))
            };
            run::run(&programs, &out, keep_record.as_deref(), course).await
        }
    };
    let outcome = tokio::select! {
        outcome = run => outcome,
        // Dropped in order, so that no host stays behind.
        () = asked_to_stop() => Err(anyhow::anyhow!("stopped")),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nowhere is left to report that standard error is closed.
            drop(writeln!(std::io::stderr(), "demo: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Ends with Ctrl-C or SIGTERM; never, if they cannot be waited for.
async fn asked_to_stop() {
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(_) => std::future::pending().await,
    }
}
