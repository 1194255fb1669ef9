//! Thinking about releases: what a release image holds, how one is assembled from operators'
//! manifests, and what a signature says.
//!
//! It must not know: registries, image layers, keys, clocks, or what a manifest does to a cluster.
//! Bytes and values in, values out.
//!
//! - [`digest`], [`pull_spec`]: names of images; [`scope`]: names of many
//! - [`version`], [`metadata`]: what a release is called and which releases lead to it
//! - [`manifest`], [`order`]: manifests of a file, and where a file stands in the order of
//!   application
//! - [`graph`]: which manifests are applied at once and which after which, and one pass over them
//! - [`prometheus`]: responses of Prometheus, by which risks are judged
//! - [`progress`]: what of a release is applied, what it waits for, and how long the rest takes
//! - [`selection`]: which clusters a manifest is for
//! - [`inclusion`], [`capability`]: whether a manifest is applied to a cluster, and if not, why
//! - [`template`]: placeholders in the version operator's own manifests
//! - [`inventory`], [`version_hash`]: the manifests that a cluster applies, in their order, and
//!   their hash
//! - `wellformed`: faults of a manifest that its kind does not allow
//! - [`references`], [`component_versions`]: the images of a release and the versions that they
//!   carry
//! - [`substitution`]: placeholders of images and versions in manifests
//! - [`os_streams`]: several operating systems of one release
//! - [`payload`]: the files of a release image, read
//! - [`assembly`]: the files of a release image, made
//! - [`claim`]: what a signature of an image says
//! - [`update_graph`]: which releases there are, and which updates lead from one to another
//! - [`verification`], [`image_policy`]: whose signatures a cluster asks for, by OpenPGP and beside
//!   images

pub mod assembly;
pub mod capability;
pub mod claim;
pub mod component_versions;
pub mod digest;
pub mod graph;
pub mod image_policy;
pub mod inclusion;
pub mod inventory;
mod json;
pub mod manifest;
pub mod metadata;
pub mod order;
pub mod os_streams;
pub mod payload;
pub mod progress;
pub mod prometheus;
pub mod pull_spec;
pub mod references;
pub mod scope;
pub mod selection;
pub mod substitution;
pub mod template;
pub mod update_graph;
pub mod verification;
pub mod version;
pub mod version_hash;
mod wellformed;

pub use digest::ImageDigest;
pub use manifest::Manifest;
pub use metadata::Metadata;
pub use payload::Payload;
pub use pull_spec::PullSpec;
pub use references::References;
pub use version::Version;

/// Directory of a release image that holds its files.
pub const RELEASE_MANIFESTS: &str = "release-manifests";

/// Directory of an operator's image that holds its manifests.
pub const MANIFESTS: &str = "manifests";

/// File of a release that says what it is called and which releases lead to it.
pub const METADATA_FILE: &str = "release-metadata";

/// File of a release, and of an operator, that names images.
pub const REFERENCES_FILE: &str = "image-references";

/// Image label of an operator: any value that is not empty.
pub const OPERATOR_LABEL: &str = "io.openshift.release.operator";

/// Image label of a release: its version.
pub const RELEASE_LABEL: &str = "io.openshift.release";

/// Image label of a release: digest of the image that it stands on.
pub const BASE_LABEL: &str = "io.openshift.release.base-image-digest";
