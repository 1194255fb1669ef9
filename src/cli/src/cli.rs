//! The command line: verbs and options.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use images::ImageLocation;
use jiff::Timestamp;
use release::Version;

use crate::access::AccessArgs;
use crate::config_render::ConfigRenderArgs;
use crate::explain::ExplainArgs;
use crate::graph::{GraphArgs, ServiceArgs};
use crate::json_template::JsonTemplate;
use crate::kubeconfig::ClusterArgs;
use crate::managed::arguments::ManagedArgs;
use crate::pools::arguments::{NodeArgs, PoolArgs, WatchArgs};
use crate::release_extract::filter::{Cloud, PROFILE};
use crate::release_mirror::MirrorArgs;
use crate::release_name::ReleaseName;
use crate::upgrade::arguments::UpgradeArgs;

/// Name under which kubectl finds this program as `kubectl slipway`.
pub const PLUGIN: &str = "kubectl-slipway";

const VERSION: &str = env!("CARGO_PKG_VERSION");

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
    /// What a reason, condition, phase or event means, and what to do about it
    Explain(ExplainArgs),
    /// Print the completion of a shell
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

/// `slipway config diff`.
#[derive(Debug, Args)]
pub struct ConfigDiffArgs {
    /// Name of a MachineConfig in the cluster, or a file
    #[arg(value_name = "FROM")]
    pub from: String,
    /// Name of a MachineConfig in the cluster, or a file. With two files no cluster is asked, and
    /// the default node disruption policies count
    #[arg(value_name = "TO")]
    pub to: String,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// What is done with graph data.
#[derive(Debug, Subcommand)]
pub enum GraphDataVerb {
    /// List what is wrong in a directory, and what differs from another one
    Check(GraphCheckArgs),
    /// Add a release to a channel, from the channel that feeds it
    Promote(GraphPromoteArgs),
}

/// `slipway graph-data check`.
#[derive(Debug, Args)]
pub struct GraphCheckArgs {
    /// Directory with version, channels and blocked-edges
    pub directory: PathBuf,
    /// Directory as it was before: what was added and removed is printed
    #[arg(long, value_name = "DIRECTORY")]
    pub against: Option<PathBuf>,
}

/// `slipway graph-data promote`.
#[derive(Debug, Args)]
pub struct GraphPromoteArgs {
    /// Directory with version, channels and blocked-edges
    pub directory: PathBuf,
    /// Release
    #[arg(long, value_name = "VERSION")]
    pub version: Version,
    /// Channel that it is added to
    #[arg(long, value_name = "CHANNEL")]
    pub channel: String,
    /// Print what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
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

/// `slipway release new`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("to").required(true).multiple(true).args(["to_image", "to_dir", "dry_run"]))]
pub struct NewArgs {
    /// Image of this name, in place of one of the inputs; manifests of all of its layers count
    #[arg(value_name = "NAME=IMAGE", value_parser = named_image)]
    pub images: Vec<(String, ImageLocation)>,
    /// ImageStream whose tags name the images
    #[arg(long, short = 'f', value_name = "FILE", conflicts_with_all = ["from_release", "from_dir"])]
    pub from_image_stream_file: Option<PathBuf>,
    /// Release whose images, neighbours and metadata are taken over
    #[arg(long, value_name = "IMAGE", conflicts_with = "from_dir")]
    pub from_release: Option<ImageLocation>,
    /// Directory with image-references, which names the images, and a directory of manifests for
    /// each operator
    #[arg(long, value_name = "DIRECTORY")]
    pub from_dir: Option<PathBuf>,
    /// Version of the release [default: that of --from-release]
    #[arg(long, value_name = "VERSION")]
    pub name: Option<Version>,
    /// Releases that may be updated to this one
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    pub previous: Vec<Version>,
    /// Releases that this one may be updated to
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    pub next: Vec<Version>,
    /// What else is known of the release: a JSON object of texts
    #[arg(long, value_name = "JSON")]
    pub metadata: Option<String>,
    /// Versions of components that no image carries: a=1.0.0,b=2.0.0
    #[arg(long, value_name = "LIST", default_value = "")]
    pub component_versions: String,
    /// Images that are kept although no manifest needs them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub include: Vec<String>,
    /// Images of the inputs that are left out
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub exclude: Vec<String>,
    /// Keep placeholders of images that are not among the inputs
    #[arg(long)]
    pub allow_missing_images: bool,
    /// Public key whose signatures clusters ask for, once for each keyring; named by the file
    #[arg(long, value_name = "FILE", requires = "verification_store")]
    pub verification_key: Vec<PathBuf>,
    /// Where clusters find signatures: https://…, http://… or file://…
    #[arg(long, value_name = "ADDRESS", requires = "verification_key")]
    pub verification_store: Vec<String>,
    /// Image to stand on [default: the input cluster-version-operator, else none]
    #[arg(long, value_name = "IMAGE")]
    pub to_image_base: Option<ImageLocation>,
    /// Where the release image is put
    #[arg(long, value_name = "IMAGE")]
    pub to_image: Option<ImageLocation>,
    /// Directory that the release's files are written to
    #[arg(long, value_name = "DIRECTORY")]
    pub to_dir: Option<PathBuf>,
    /// Make the release and put it nowhere
    #[arg(long)]
    pub dry_run: bool,
    /// When the image was made, as it says [default: when the newest of its images was made]
    #[arg(long, value_name = "TIME")]
    pub created: Option<Timestamp>,
    /// File that the statement to sign is written to
    #[arg(long, value_name = "FILE", requires = "to_image")]
    pub to_signature: Option<PathBuf>,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `slipway release sign`.
#[derive(Debug, Args)]
pub struct SignArgs {
    /// Release image
    pub image: ImageLocation,
    /// OpenPGP secret key, as `gpg --export-secret-keys` writes it
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// File with the key's passphrase in its first line
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// Directory of signatures: sha256=<digits>/signature-<n> is added
    #[arg(long, value_name = "DIRECTORY")]
    pub store: PathBuf,
    /// Name that the image is signed under [default: the image as named]
    #[arg(long, value_name = "NAME")]
    pub reference: Option<String>,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `slipway release verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Release image
    pub image: ImageLocation,
    /// OpenPGP public keys; each file is a keyring, and each keyring needs a signature
    #[arg(long, value_name = "FILE", required = true)]
    pub key: Vec<PathBuf>,
    /// Directory of signatures
    #[arg(long, value_name = "DIRECTORY")]
    pub store: PathBuf,
    /// Name that the image must be signed under [default: any]
    #[arg(long, value_name = "NAME")]
    pub reference: Option<String>,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `slipway release info`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("variant").args(["pullspecs", "commits", "commit_urls", "size", "contents", "verify", "image_for", "output"]))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of the command line, of which one may be set"
)]
pub struct InfoArgs {
    /// Release image, or a version, which is looked for in ClusterVersion, then in channels of the
    /// update service [default: the release that the cluster is to run]
    #[arg(value_name = "RELEASE")]
    pub release: Option<ReleaseName>,
    /// Another one: how the two differ is printed
    pub other: Option<ReleaseName>,
    /// Pull specs of the images, instead of digests
    #[arg(long)]
    pub pullspecs: bool,
    /// Source and commit of the images
    #[arg(long)]
    pub commits: bool,
    /// Addresses of the images' commits
    #[arg(long)]
    pub commit_urls: bool,
    /// Age, layers and compressed size of the images, and what they share
    #[arg(long)]
    pub size: bool,
    /// All files, each after a line with its name
    #[arg(long)]
    pub contents: bool,
    /// Check that all images are there and are what the release says: digest, time and name of each
    #[arg(long)]
    pub verify: bool,
    /// Pull spec of one image
    #[arg(long, value_name = "NAME")]
    pub image_for: Option<String>,
    /// json, name, digest, pullspec, or jsonpath=TEMPLATE with paths in braces, as kubectl takes it
    #[arg(long, short = 'o', value_name = "FORM", value_parser = form)]
    pub output: Option<Form>,
    /// Kubeconfig [default: $KUBECONFIG, ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Update service.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `slipway release diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Release image
    pub from: ImageLocation,
    /// Release image that it is compared with
    pub to: ImageLocation,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Forms of `slipway release info` for programs.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// All that is known
    Json,
    /// The version
    Name,
    /// The image's digest
    Digest,
    /// The image's pull spec by digest
    Pullspec,
    /// A template, filled in with all that is known
    JsonPath(JsonTemplate),
}

/// `slipway release extract`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("where").required(true).args(["to", "file"]))]
pub struct ExtractArgs {
    /// Release image
    pub image: ImageLocation,
    /// Directory that all files are written to
    #[arg(long, value_name = "DIRECTORY")]
    pub to: Option<PathBuf>,
    /// The file to print
    #[arg(long, value_name = "NAME")]
    pub file: Option<String>,
    /// Only manifests that a cluster applies
    #[arg(long, conflicts_with = "file")]
    pub included: bool,
    /// Profile of that cluster, as its version operator has it
    #[arg(long, value_name = "PROFILE", default_value = PROFILE, requires = "included")]
    pub cluster_profile: String,
    /// install-config.yaml of that cluster: its feature set, gates and capabilities [default: all
    /// capabilities]
    #[arg(long, value_name = "FILE", requires = "included")]
    pub install_config: Option<PathBuf>,
    /// Only requests for credentials
    #[arg(long, conflicts_with = "file")]
    pub credentials_requests: bool,
    /// Of these, only those for this cloud
    #[arg(long, value_name = "CLOUD", requires = "credentials_requests")]
    pub cloud: Option<Cloud>,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `slipway image extract`.
#[derive(Debug, Args)]
pub struct ImageExtractArgs {
    /// Image
    pub image: ImageLocation,
    /// A file or directory of the image, and the directory that it, or all that is in it, is
    /// written to
    #[arg(long, value_name = "SOURCE:DIRECTORY", required = true, value_parser = path_pair)]
    pub path: Vec<(String, PathBuf)>,
    /// Write into directories that are not empty, too
    #[arg(long)]
    pub confirm: bool,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
}

fn form(text: &str) -> Result<Form, String> {
    Ok(match text {
        "json" => Form::Json,
        "name" => Form::Name,
        "digest" => Form::Digest,
        "pullspec" => Form::Pullspec,
        _ => match text.split_once('=') {
            Some(("jsonpath", template)) => Form::JsonPath(
                template
                    .parse()
                    .map_err(|error| format!("jsonpath: {error}"))?,
            ),
            _ if text.starts_with("go-template") => {
                return Err("there are no Go templates: take jsonpath=TEMPLATE, or json".to_owned());
            }
            _ => {
                return Err(
                    "it is not json, name, digest, pullspec or jsonpath=TEMPLATE".to_owned(),
                );
            }
        },
    })
}

fn named_image(text: &str) -> Result<(String, ImageLocation), String> {
    let (name, image) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("it is not NAME=IMAGE")?;
    let image = image
        .parse::<ImageLocation>()
        .map_err(|error| error.to_string())?;
    Ok((name.to_owned(), image))
}

fn path_pair(text: &str) -> Result<(String, PathBuf), String> {
    match text.rsplit_once(':') {
        Some((source, target)) if !source.is_empty() && !target.is_empty() => {
            Ok((source.to_owned(), target.into()))
        }
        _ => Err("it is not SOURCE:DIRECTORY".to_owned()),
    }
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
    fn directories_are_parsed_from_the_right() {
        let (source, target) = path_pair("/a:b:/out").unwrap();
        assert_eq!((source.as_str(), target), ("/a:b", "/out".into()));
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
