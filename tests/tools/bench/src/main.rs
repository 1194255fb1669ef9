//! `make bench`: the figures of the daemon and its helper, on real parts, beside what they are
//! measured against.
//!
//! - `run`: the order of measurements
//! - `session`, `config`: the cluster of one node that most are made in, and its configuration
//! - `idle`, `rebootless`, `released`, `service`, `fetch`, `controller`, `decision`, `rounds`,
//!   `roll`, `large`, `config_server`, `managed`, `updates`, `version_operator`: the measurements
//! - `payload`: the release that is applied
//! - `release_images`, `http`: modules of the suite `update-service`
//! - `pools`: the pools and nodes of `rounds` and `roll`
//! - `api_server`: the API server that the controller is measured before
//! - `memory`, `relay`, `traffic`, `changes`: what they read
//! - `figure`, `statistics`, `table`, `report`: what they come to, and how it is shown

mod api_server;
mod changes;
mod config;
mod config_server;
mod controller;
mod decision;
mod evictions;
mod fetch;
mod figure;
#[expect(dead_code, reason = "the suite's own module")]
#[path = "../../../flow/update_service/http.rs"]
mod http;
mod idle;
mod large;
mod managed;
mod memory;
mod payload;
mod pools;
mod rebootless;
mod relay;
#[expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the suite's own module"
)]
#[path = "../../../flow/update_service/images.rs"]
mod release_images;
mod released;
mod report;
mod roll;
mod rounds;
mod run;
mod service;
mod session;
mod statistics;
mod table;
mod traffic;
mod updates;
mod version_operator;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use testbed::{Programs, logs};

use crate::run::Wanted;

/// Measures the figures of the programs and reports them beside their targets.
///
/// Exits with 1 if a figure could not be measured. A missed target is a report, and exits with 0.
#[derive(Debug, Parser)]
struct Arguments {
    /// Folder with the programs, as `make binaries` leaves it.
    #[arg(long, default_value = "target/slipway")]
    programs: PathBuf,
    /// The program that loads an HTTP server and is the server beside it, as `make bench` builds
    /// it: beside the folder of this program's profile.
    #[arg(long)]
    http_load: Option<PathBuf>,
    /// Folder for figures.json and logs; emptied first.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// Only these figures.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = figure::find)]
    only: Vec<&'static figure::Spec>,
    /// How many measurements each median is taken of, in place of each figure's own number.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    samples: Option<u16>,
    /// Minutes of the idle hour that are measured; 60 for a whole one, and fewer than ten only to
    /// try the benchmark.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    idle_minutes: u16,
}

#[tokio::main]
async fn main() -> ExitCode {
    match measure(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nowhere is left to report that standard error is closed.
            drop(writeln!(std::io::stderr(), "bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether everything wanted was measured.
async fn measure(arguments: Arguments) -> Result<bool> {
    let Arguments {
        programs,
        http_load,
        out,
        only,
        samples,
        idle_minutes,
    } = arguments;
    logs::empty(&out)?;
    let programs = Programs::in_folder(&programs);
    let idle = Duration::from_mins(u64::from(idle_minutes));
    let http_load = match http_load {
        Some(path) => path,
        None => std::env::current_exe()?.with_file_name("../release/http-load"),
    };
    let wanted = Wanted::new(&only, samples.map(usize::from), idle, http_load);
    let report = run::run(&programs, &out, &wanted).await;
    report.write(&out)?;
    report.show()?;
    Ok(report.is_complete())
}
