//! What the benchmark measures an HTTP server with, and what it compares it with. A program of its
//! own, because both are built as a release is.
//!
//! - `load`: asks for one path over some connections, for a while
//! - `peer`: the least that a hyper server does

mod load;
mod peer;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;

/// Measures an HTTP server, or is one.
#[derive(Debug, Parser)]
enum Arguments {
    /// Asks for one path, as often as the server responds
    Load {
        /// Where the server is
        address: SocketAddr,
        /// Path and query
        path: String,
        /// How many connections ask at once
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
        connections: u16,
        /// For how long
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
        secs: u64,
        /// The most requests of all connections together
        #[arg(long, default_value_t = 1_000_000)]
        requests: u64,
    },
    /// Serves each request with the content of a file, until it is killed
    Serve(ServeArgs),
}

#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// Where to listen
    address: SocketAddr,
    /// The content to serve
    file: PathBuf,
    /// Threads that serve
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nowhere is left to report that standard error is closed.
            drop(writeln!(std::io::stderr(), "http-load: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    match arguments {
        Arguments::Load {
            address,
            path,
            connections,
            secs,
            requests,
        } => {
            let limits = load::Limits {
                time: Duration::from_secs(secs),
                requests,
            };
            let result = load::run(address, &path, connections, limits)?;
            writeln!(std::io::stdout(), "{}", result.to_json())?;
            Ok(())
        }
        Arguments::Serve(ServeArgs {
            address,
            file,
            threads,
        }) => peer::serve(address, std::fs::read(file)?, threads),
    }
}
