//! The command line of administrators and of those who make releases.
//!
//! - [`cli`]: verbs and options
//! - [`access`]: options and credentials for registries
//! - [`failure`]: the lines that report errors
//! - `release_new`, `release_sign`, `release_verify`, `release_info`, `release_extract`,
//!   `image_extract`: one verb each
//! - `graph_data`: graph data, checked and promoted
//! - [`upgrade`]: where a cluster is, which updates there are, and the request for one
//! - `config_diff`: what a node would do to go from one MachineConfig to another
//! - [`pools`]: what pools and nodes run, want and wait for
//! - [`kubeconfig`]: options for the cluster that a command asks
//! - `manual`: shell completion and manual pages
//! - `payload`: a release image, read
//! - `inputs`: the images that a release is made of
//! - `view`: what is printed, from values
//! - [`output`]: where it is printed, and in which form

pub mod access;
pub mod cli;
mod config_diff;
pub mod failure;
mod graph_data;
mod image_extract;
mod inputs;
pub mod kubeconfig;
mod manual;
pub mod output;
mod payload;
pub mod pools;
mod release_extract;
mod release_info;
mod release_new;
mod release_sign;
mod release_verify;
pub mod upgrade;
mod view;

use cli::{CommandGroup, ConfigVerb, GraphDataVerb, ImageVerb, ReleaseVerb, SlipwayArgs};
use failure::Ending;

/// Carries out a command.
///
/// # Errors
/// Any failure; [`failure::lines`] has its lines.
pub async fn run(cli: SlipwayArgs) -> anyhow::Result<Ending> {
    match cli.command {
        CommandGroup::Release { verb } => match verb {
            ReleaseVerb::New(arguments) => release_new::run(*arguments).await,
            ReleaseVerb::Sign(arguments) => release_sign::run(arguments).await,
            ReleaseVerb::Verify(arguments) => release_verify::run(arguments).await,
            ReleaseVerb::Info(arguments) => release_info::run(arguments).await,
            ReleaseVerb::Extract(arguments) => release_extract::run(arguments).await,
        },
        CommandGroup::Image { verb } => match verb {
            ImageVerb::Extract(arguments) => image_extract::run(arguments).await,
        },
        CommandGroup::GraphData { verb } => match verb {
            GraphDataVerb::Check(arguments) => return graph_data::check(&arguments),
            GraphDataVerb::Promote(arguments) => graph_data::promote(&arguments),
        },
        CommandGroup::Upgrade(arguments) => return upgrade::run(*arguments).await,
        CommandGroup::Pool(arguments) => return pools::show_pools(arguments).await,
        CommandGroup::Node(arguments) => return pools::show_node(arguments).await,
        CommandGroup::Config {
            verb: ConfigVerb::Diff(arguments),
        } => return config_diff::run(arguments).await,
        CommandGroup::Completion { shell } => manual::print_completion(shell),
        CommandGroup::Man { directory } => manual::write_pages(&directory),
    }?;
    Ok(Ending::Done)
}
