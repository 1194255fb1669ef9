//! Ignition configurations: the types of specification 3.5.0, read from every version that clusters
//! hold, and validated.
//!
//! It must not know: files, clocks, networks, async. Values in, values out.
//!
//! - [`parse`]: JSON to [`Config`]: 3.0 to 3.5, and 2.x up to 2.2 by translation
//! - [`Config::to_value`]: [`Config`] to JSON, empty members left out
//! - [`Config::to_version`]: the same in an older version, refused by field where it cannot say it
//! - [`content`]: the bytes behind a [`Resource`]
//! - [`merge`]: a child configuration over its parent
//! - [`unit_text`]: the settings of a unit's text
//!
//! Source: `coreos/ignition`, configuration specifications; `docs/reference/controller.md`, "Source
//! checks" and "Ignition versions".

#[cfg(any(test, feature = "arbitrary"))]
pub mod arbitrary;
pub mod content;
mod disks;
mod downgrade;
mod field;
mod json;
mod member;
pub mod merge;
mod passwd;
mod read;
mod resource;
mod schema;
mod storage;
mod systemd;
pub mod unit_text;
mod v2;
mod validate;
mod version;

pub use disks::{Cex, Clevis, ClevisCustom, Disk, Filesystem, Luks, Partition, Raid, Tang};
pub use downgrade::SpecVersion;
pub use field::{Problem, Warning};
pub use passwd::{Passwd, PasswdGroup, PasswdUser};
pub use resource::{HttpHeader, Resource, Verification};
pub use schema::{
    Config, Ignition, IgnitionConfig, KernelArguments, Proxy, Security, Timeouts, Tls,
};
pub use storage::{Directory, File, Link, NodeOwner, Storage};
pub use systemd::{Dropin, Systemd, Unit};
pub use validate::MAX_FILE_MODE;

use serde_json::Value;

/// The version every configuration is read into.
pub const VERSION: &str = "3.5.0";

/// Directory of unit files, where Ignition writes those of a configuration.
pub const UNITS: &str = "/etc/systemd/system";

/// The only account that a MachineConfig may change.
pub const CORE: &str = "core";

/// Versions accepted, as they are named in messages.
const SUPPORTED: &str = "2.2,3.0,3.1,3.2,3.3,3.4,3.5";

/// Why a configuration cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `ignition.version` is none of those accepted.
    #[error(
        "parsing Ignition config failed: unknown version. Supported spec versions: {SUPPORTED} (ignition.version is {0:?})"
    )]
    UnknownVersion(String),
    #[error(
        "parsing Ignition config failed: invalid version. Supported spec versions: {SUPPORTED} (ignition.version is {0:?})"
    )]
    InvalidVersion(String),
    /// Members that have another type than the specification says, or that it, or a node, does not
    /// allow.
    #[error("{}", field::list(.0))]
    Invalid(Vec<Problem>),
}

/// Reads a configuration and validates it.
///
/// Shape: the JSON object of a MachineConfig's `spec.config`; `null` and `{}` are a configuration
/// that asks for nothing. The result is of version [`VERSION`], whatever was read. Warnings:
/// members that the version read does not know, which are lost, and what the specification merely
/// advises against. Source: `docs/reference/controller.md`, "Source checks" and "Ignition
/// versions"; `docs/reference/daemon.md`, "Rejected changes".
///
/// # Errors
/// [`Error`], each naming the JSON path and the value; contents of files, keys and password hashes
/// are never named.
pub fn parse(value: &Value) -> Result<(Config, Vec<Warning>), Error> {
    let (config, mut warnings) = read_as_it_is(value)?;
    let verdict = validate::validate(&config);
    if !verdict.problems.is_empty() {
        return Err(Error::Invalid(verdict.problems));
    }
    warnings.extend(verdict.warnings);
    Ok((config, warnings))
}

/// Reads a configuration that is in force somewhere, valid or not: what others let pass can be left
/// all the same.
///
/// # Errors
/// [`Error`], where it cannot be read at all.
pub fn read_as_it_is(value: &Value) -> Result<(Config, Vec<Warning>), Error> {
    Ok(match version::of(value)? {
        version::Version::Nothing => (Config::new(), Vec::new()),
        version::Version::Three { minor } => read::three(value, minor)?,
        version::Version::Two => v2::read(value)?,
    })
}

impl Config {
    /// A configuration that asks for nothing.
    pub fn new() -> Self {
        let mut config = Self::default();
        VERSION.clone_into(&mut config.ignition.version);
        config
    }

    /// The configuration as JSON, members that are empty left out: what [`parse`] reads back.
    pub fn to_value(&self) -> Value {
        // No type here has a map with keys other than strings, nor a serializer that fails.
        serde_json::to_value(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
