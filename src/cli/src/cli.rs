//! The command line: groups of verbs. The options of a verb are beside it.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::config_diff::ConfigDiffArgs;
use crate::config_render::ConfigRenderArgs;
use crate::explain::ExplainArgs;
use crate::graph::GraphArgs;
use crate::graph_data::{GraphCheckArgs, GraphPromoteArgs};
use crate::image_extract::ImageExtractArgs;
use crate::install::arguments::{InstallArgs, UninstallArgs};
use crate::managed::arguments::ManagedArgs;
use crate::pools::arguments::{NodeArgs, PoolArgs, WatchArgs};
use crate::release_extract::ExtractArgs;
use crate::release_info::{DiffArgs, InfoArgs};
use crate::release_mirror::MirrorArgs;
use crate::release_new::NewArgs;
use crate::release_sign::SignArgs;
use crate::release_verify::VerifyArgs;
use crate::upgrade::arguments::UpgradeArgs;

/// Name under which kubectl finds this program as `kubectl slipway`.
pub const PLUGIN: &str = "kubectl-slipway";

/// Name under which kubectl finds what completes `kubectl slipway`.
pub const PLUGIN_COMPLETION: &str = "kubectl_complete-slipway";

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes, signs and reads release images, and updates clusters.
///
/// An image is registry/repository[:tag][@digest], or oci:directory[:name] for one in an OCI layout
/// directory.
///
/// Exit codes: 0 done, 1 failed or refused, 2 usage, 5 needs attention.
#[derive(Debug, Parser)]
#[command(name = "slipway", version = VERSION)]
pub struct SlipwayArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: CommandGroup,
}

/// Groups of verbs.
#[derive(Debug, Subcommand)]
pub enum CommandGroup {
    /// Release images
    Release {
        /// What to do.
        #[command(subcommand)]
        verb: ReleaseVerb,
    },
    /// Any image
    Image {
        /// What to do.
        #[command(subcommand)]
        verb: ImageVerb,
    },
    /// Graph data of an update service
    GraphData {
        /// What to do.
        #[command(subcommand)]
        verb: GraphDataVerb,
    },
    /// A channel of an update service: its releases, the shortest path, a picture
    Graph(Box<GraphArgs>),
    /// Install Slipway on a cluster, or bring it to this version: checks cluster and hosts first
    Install(Box<InstallArgs>),
    /// Take Slipway off cluster and hosts; what people made stays
    Uninstall(Box<UninstallArgs>),
    /// Where a cluster is, which updates there are, and the request for one
    Upgrade(Box<UpgradeArgs>),
    /// Upgrades on a date: plan, schedule, cancel, status
    Managed(Box<ManagedArgs>),
    /// What MachineConfigPools run and want, and what their nodes wait for
    Pool(PoolArgs),
    /// What a node runs, was assigned and waits for
    Node(NodeArgs),
    /// Pools and nodes while they change: drawn in place on a terminal, else a line for each
    /// change
    Watch(WatchArgs),
    /// MachineConfigs
    Config {
        /// What is done.
        #[command(subcommand)]
        verb: ConfigVerb,
    },
    /// What a reason, condition, phase, event, annotation or alert means, and what to do about it
    Explain(ExplainArgs),
    /// Print the script by which a shell completes this command line
    ///
    /// For this session: source <(slipway completion bash), and the same with zsh; slipway
    /// completion fish | source. kubectl completes "kubectl slipway" where a link
    /// kubectl_complete-slipway to this program is in PATH.
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write a manual page for each command
    Man {
        /// Directory that they are written to
        directory: PathBuf,
    },
}

/// What is done with MachineConfigs.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// What a node would do to go from one to another, and why it cannot
    Diff(ConfigDiffArgs),
    /// What a pool's MachineConfigs are merged into, from files alone
    Render(ConfigRenderArgs),
}

/// What is done with graph data.
#[derive(Debug, Subcommand)]
pub enum GraphDataVerb {
    /// List what is wrong in a directory, and what differs from another one
    Check(GraphCheckArgs),
    /// Add a release to a channel, from the channel that feeds it
    Promote(GraphPromoteArgs),
}

/// What is done with releases.
#[derive(Debug, Subcommand)]
pub enum ReleaseVerb {
    /// Make a release image from operators' images
    New(Box<NewArgs>),
    /// Sign a release image into a directory of signatures
    Sign(SignArgs),
    /// Hold signatures against a release image, without a cluster
    Verify(VerifyArgs),
    /// Print what a release image holds, or how two differ
    Info(Box<InfoArgs>),
    /// Copy a release and all of its images into one repository
    Mirror(Box<MirrorArgs>),
    /// Print how two releases differ: components, images, and fields of manifests
    Diff(DiffArgs),
    /// Write the files of a release image to a directory, or print one
    Extract(ExtractArgs),
}

/// What is done with any image.
#[derive(Debug, Subcommand)]
pub enum ImageVerb {
    /// Write files of an image to a directory
    Extract(ImageExtractArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(words: &str) -> String {
        let words = words.split(' ').filter(|word| !word.is_empty());
        match SlipwayArgs::try_parse_from(["slipway"].into_iter().chain(words)) {
            Ok(cli) => format!("taken: {cli:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn definition_is_consistent() {
        use clap::CommandFactory as _;
        SlipwayArgs::command().debug_assert();
    }

    #[test]
    fn usage_errors_name_the_option() {
        for (words, expected) in [
            (
                "release new a=quay.io/a --name 1.0.0",
                "<--to-image <IMAGE>|--to-dir <DIRECTORY>|--dry-run>",
            ),
            ("release new a --dry-run", "it is not NAME=IMAGE"),
            ("release new =quay.io/a --dry-run", "it is not NAME=IMAGE"),
            ("release new a=UPPER --dry-run", "is no image"),
            (
                "release new --name 1.0 --dry-run",
                "\"1.0\" is no semantic version",
            ),
            (
                "release new --previous 1.0.0,x --dry-run",
                "\"x\" is no semantic version",
            ),
            (
                "release new --from-release a --from-dir b --dry-run",
                "cannot be used with",
            ),
            (
                "release new --verification-key k --dry-run",
                "--verification-store",
            ),
            ("release new --to-signature s --dry-run", "--to-image"),
            ("release sign quay.io/a --key k", "--store"),
            ("release verify quay.io/a --store s", "--key"),
            (
                "release info quay.io/a --commits --contents",
                "cannot be used with",
            ),
            (
                "release info quay.io/a -o yaml",
                "it is not json, name, digest, pullspec or jsonpath=TEMPLATE",
            ),
            (
                "release info quay.io/a -o jsonpath={.digest",
                "jsonpath: {.digest has no closing brace",
            ),
            (
                "release info quay.io/a -o go-template={{.digest}}",
                "there are no Go templates: take jsonpath=TEMPLATE, or json",
            ),
            (
                "release extract quay.io/a",
                "<--to <DIRECTORY>|--file <NAME>>",
            ),
            (
                "release extract quay.io/a --to x --file y",
                "cannot be used with",
            ),
            (
                "release extract quay.io/a --to x --cluster-profile p",
                "--included",
            ),
            ("image extract quay.io/a", "--path"),
            (
                "image extract quay.io/a --path x",
                "it is not SOURCE:DIRECTORY",
            ),
            (
                "image extract quay.io/a --path :x",
                "it is not SOURCE:DIRECTORY",
            ),
        ] {
            let error = problem(words);
            assert!(error.contains(expected), "{words}: {error}");
        }
    }

    #[test]
    fn help_names_the_exit_codes() {
        let help = problem("--help");
        assert!(
            help.contains("Exit codes: 0 done, 1 failed or refused, 2 usage, 5 needs attention"),
            "{help}"
        );
    }
}
