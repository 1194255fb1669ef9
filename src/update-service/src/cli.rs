//! The command line.

use std::path::PathBuf;

use chassis::cli::LogArgs;
use clap::Args;

/// Options of `update-service start`.
#[derive(Debug, Clone, Args)]
pub struct UpdateServiceArgs {
    /// File of settings, YAML
    #[arg(long, short = 'c', value_name = "FILE")]
    pub config: PathBuf,
    /// Log.
    #[command(flatten)]
    pub log: LogArgs,
}
