//! The command line of administrators and of those who make releases.
//!
//! - [`cli`]: groups of verbs
//! - [`access`]: options and credentials for registries
//! - [`failure`]: the lines that report errors
//! - `release_new`, `release_sign`, `release_verify`, `release_info`, `release_extract`,
//!   `image_extract`: one verb each
//! - `release_os`: the OS images of releases
//! - [`release_mirror`]: a release and all of its images into one repository
//! - [`release_name`]: a release that is named by its version
//! - `graph_data`: graph data, checked and promoted
//! - [`upgrade`]: where a cluster is, which updates there are, and the request for one
//! - [`managed`]: upgrades on a date
//! - [`graph`]: a channel of an update service, and its picture
//! - `config_diff`: what a node would do to go from one MachineConfig to another
//! - `config_files`: objects in files that people write
//! - [`config_render`]: what a pool's MachineConfigs are merged into
//! - [`explain`]: what each reason, condition, phase and event means
//! - [`pools`]: what pools and nodes run, want and wait for
//! - [`install`]: Slipway on a cluster, and off it again
//! - `image_signatures`: sigstore signatures of images, made and held against policies
//! - [`stopping`]: a pool or the cluster is stopped, a node put on hold
//! - [`kubeconfig`]: options for the cluster that a command asks
//! - [`decide`]: what is shown and requested, from values
//! - `cluster_version`: the object that says what a cluster runs
//! - [`update_service`]: requests to an update service
//! - [`completion`]: scripts of shells, and the candidates that kubectl requests
//! - [`manual`]: manual pages
//! - `payload`: a release image, read; `os_image`: an OS image, read
//! - `view`: what is printed, from values
//! - [`output`]: where it is printed, and in which form

pub mod access;
pub mod cli;
mod cluster_version;
pub mod completion;
mod config_diff;
mod config_files;
pub mod config_render;
pub mod decide;
pub mod explain;
pub mod failure;
pub mod graph;
mod graph_data;
mod image_extract;
mod image_signatures;
pub mod install;
pub mod kubeconfig;
pub mod managed;
pub mod manual;
mod os_image;
pub mod output;
mod payload;
pub mod pools;
mod release_extract;
mod release_info;
pub mod release_mirror;
pub mod release_name;
mod release_new;
mod release_os;
mod release_sign;
mod release_verify;
pub mod stopping;
pub mod update_service;
pub mod upgrade;
mod view;

use cli::{CommandGroup, ConfigVerb, GraphDataVerb, ImageVerb, ReleaseVerb, SlipwayArgs};
use failure::Ending;

/// Carries out a command.
///
/// # Errors
/// Any failure; [`output::report`] prints it.
pub async fn run(cli: SlipwayArgs) -> anyhow::Result<Ending> {
    match cli.command {
        CommandGroup::Release { verb } => match verb {
            ReleaseVerb::New(arguments) => release_new::run(*arguments).await,
            ReleaseVerb::Sign(arguments) => release_sign::run(arguments).await,
            ReleaseVerb::Verify(arguments) => release_verify::run(arguments).await,
            ReleaseVerb::Info(arguments) => release_info::run(*arguments).await,
            ReleaseVerb::Mirror(arguments) => release_mirror::run(*arguments).await,
            ReleaseVerb::Diff(arguments) => release_info::diff(arguments).await,
            ReleaseVerb::Extract(arguments) => release_extract::run(arguments).await,
        },
        CommandGroup::Image { verb } => match verb {
            ImageVerb::Extract(arguments) => image_extract::run(arguments).await,
        },
        CommandGroup::GraphData { verb } => match verb {
            GraphDataVerb::Check(arguments) => return graph_data::check(&arguments),
            GraphDataVerb::Promote(arguments) => graph_data::promote(&arguments),
        },
        CommandGroup::Graph(arguments) => return graph::run(*arguments).await,
        CommandGroup::Install(arguments) => return Box::pin(install::run(*arguments)).await,
        CommandGroup::Uninstall(arguments) => return install::remove::run(*arguments).await,
        CommandGroup::Upgrade(arguments) => return Box::pin(upgrade::run(*arguments)).await,
        CommandGroup::Managed(arguments) => return managed::run(*arguments).await,
        CommandGroup::Pool(arguments) => return pools::show_pools(arguments).await,
        CommandGroup::Node(arguments) => return pools::show_node(arguments).await,
        CommandGroup::Watch(arguments) => return pools::watch::run(arguments).await,
        CommandGroup::Config {
            verb: ConfigVerb::Diff(arguments),
        } => return config_diff::run(arguments).await,
        CommandGroup::Config {
            verb: ConfigVerb::Render(arguments),
        } => return config_render::run(&arguments),
        CommandGroup::Explain(arguments) => return explain::run(&arguments),
        CommandGroup::Completion { shell } => completion::print_script(shell),
        CommandGroup::Man { directory } => manual::write_pages(&directory),
    }?;
    Ok(Ending::Done)
}
