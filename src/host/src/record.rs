//! The record of a root: the file that names the configuration of its deployment.
//!
//! Shape: [`CONFIG`] is a MachineConfig as JSON, [`IMAGE`] the pull spec of a layered image. Each
//! deployment has a record of its own. OpenShift's MCO writes the same files, so that either
//! program can take over a host from the other.
//!
//! This module is the only reader and the only writer. A record is in one of three states:
//!
//! | state | means | what follows |
//! |---|---|---|
//! | no [`CONFIG`] | no program has configured this root yet | `None`: the daemon adopts the host, `mcd pivot` treats it as unmanaged |
//! | readable | the root is in that configuration | [`Record`] |
//! | broken | the configuration is unknown | an [`Error`] that names file and field |
//!
//! A broken record is never treated as missing, and never replaced by the cluster's copy. The
//! record says which files and units an update has to take away; a guess leaves the files of the
//! old configuration behind, or reports a configuration that the host is not in. The daemon is
//! Degraded with the error's text, and `mcd pivot` fails, until an administrator restores the file.
//! Removing it makes the daemon write the record of `currentConfig`, which is then verified.
//!
//! Source: `docs/reference/daemon.md`, "Host files" and "First annotations".

use std::collections::BTreeMap;

use machineconfig::spec::{self, NodeConfig};
use node_update::plan::{Digest, Mode, OwnerIds, Prior, Target};
use node_update::well_known;
use serde::Deserialize;

use crate::files::{self, Content, Found, Root};

/// The MachineConfig of a deployment, as JSON.
pub const CONFIG: &str = well_known::RECORD_CONFIG;

/// The pull spec of a deployment's layered image; empty or missing if it has none.
pub const IMAGE: &str = well_known::RECORD_IMAGE;

/// Configurations may hold secrets.
const MODE: Mode = Mode(0o600);

/// Why a record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// A path of the record is no regular file.
    #[error("broken record {path}: not a regular file")]
    NotAFile {
        /// [`CONFIG`] or [`IMAGE`].
        path: &'static str,
    },
    /// The file is not JSON, or its name is missing or of another type.
    #[error("broken record {CONFIG}: cannot read {field}")]
    Json {
        /// The JSON path of the member, such as `metadata.name`.
        field: String,
        /// The position and the mistake.
        source: serde_json::Error,
    },
    /// The MachineConfig has an empty name.
    #[error("broken record {CONFIG}: metadata.name is empty")]
    NoName,
    /// The file is not a MachineConfig that an update could leave.
    #[error("broken record {CONFIG}")]
    MachineConfig(#[source] spec::Error),
    /// The layered image is not one pull spec.
    #[error("broken record {IMAGE}: {0:?} is not one pull spec")]
    Image(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    target: Target,
    config: Vec<u8>,
}

impl Record {
    /// The configuration, and the layered image.
    pub const fn target(&self) -> &Target {
        &self.target
    }

    pub fn into_target(self) -> Target {
        self.target
    }

    /// The MachineConfig as it is written.
    pub fn bytes(&self) -> &[u8] {
        &self.config
    }

    /// The MachineConfig, decoded. Members that Slipway rejects in a new configuration are allowed:
    /// an update must be able to leave it.
    ///
    /// # Errors
    /// [`Error::Json`], [`Error::MachineConfig`].
    pub fn machine_config(&self) -> Result<NodeConfig, Error> {
        let object = decode(&self.config)?;
        let (config, warnings) = NodeConfig::in_force(&object).map_err(Error::MachineConfig)?;
        for warning in warnings {
            tracing::debug!(config = config.name, %warning, "part of the record is unknown");
        }
        Ok(config)
    }
}

/// The part of a MachineConfig that its name is in.
#[derive(Debug, Deserialize)]
struct Named {
    metadata: Metadata,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
}

/// Reads the record of a root; `None` if it has no [`CONFIG`]. An [`IMAGE`] alone is no record.
///
/// Of the MachineConfig it decodes the name only; [`Record::machine_config`] decodes the rest.
///
/// # Errors
/// [`Error::Files`], and those of a broken record.
pub fn read(root: &Root) -> Result<Option<Record>, Error> {
    let Some(config) = read_file(root, CONFIG)? else {
        return Ok(None);
    };
    let Named { metadata } = decode(&config)?;
    if metadata.name.is_empty() {
        return Err(Error::NoName);
    }
    let image = read_file(root, IMAGE)?.map(parse_image).transpose()?;
    Ok(Some(Record {
        target: Target {
            config: metadata.name,
            image: image.flatten(),
        },
        config,
    }))
}

/// Writes the record of a root: the MachineConfig as JSON, and the layered image. An empty
/// `config` removes the record: the root is in no configuration.
///
/// # Errors
/// [`Error::Files`].
pub fn write(root: &Root, config: &[u8], image: Option<&str>) -> Result<(), Error> {
    put(root, IMAGE, image.map(str::as_bytes))?;
    put(
        root,
        CONFIG,
        Some(config).filter(|config| !config.is_empty()),
    )
}

/// The state of a record's files, for undo. They may be broken.
///
/// # Errors
/// Those of reading, and of `keep`.
pub fn observe<E: From<files::Error>>(
    root: &Root,
    keep: &mut impl FnMut(&Digest, &[u8]) -> Result<(), E>,
) -> Result<BTreeMap<String, Prior>, E> {
    let mut priors = BTreeMap::new();
    for path in [CONFIG, IMAGE] {
        root.observe(&root.locate(path)?, &mut priors, keep)?;
    }
    Ok(priors)
}

fn read_file(root: &Root, path: &'static str) -> Result<Option<Vec<u8>>, Error> {
    match root.look(&root.follow(path)?)? {
        Found::File { bytes, .. } => Ok(Some(bytes)),
        Found::Nothing => Ok(None),
        Found::Link(_) | Found::Directory { .. } | Found::Other => Err(Error::NotAFile { path }),
    }
}

fn put(root: &Root, path: &str, bytes: Option<&[u8]>) -> Result<(), Error> {
    let at = root.locate(path)?;
    let Some(bytes) = bytes else {
        return Ok(root.remove(&at)?);
    };
    let content = Content {
        bytes,
        mode: MODE,
        owner: OwnerIds::ROOT,
    };
    Ok(root.replace(&at, content)?)
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Error> {
    let json = &mut serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut *json).map_err(|error| Error::Json {
        field: match error.path().to_string().as_str() {
            "." => "a MachineConfig".to_owned(),
            path => path.to_owned(),
        },
        source: error.into_inner(),
    })?;
    json.end().map_err(|source| Error::Json {
        field: "a MachineConfig".to_owned(),
        source,
    })?;
    Ok(value)
}

/// A file that holds a pull spec and line ends; `None` if it holds nothing else.
fn parse_image(bytes: Vec<u8>) -> Result<Option<String>, Error> {
    let text = String::from_utf8(bytes)
        .map_err(|error| Error::Image(String::from_utf8_lossy(error.as_bytes()).into_owned()))?;
    let image = text.trim();
    if image.contains(|each: char| each.is_whitespace() || each.is_control()) {
        return Err(Error::Image(image.to_owned()));
    }
    Ok((!image.is_empty()).then(|| image.to_owned()))
}

#[cfg(test)]
mod tests {
    use chassis::report::Chain;

    use super::*;

    fn root() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        (dir, root)
    }

    fn target(config: &str, image: Option<&str>) -> Target {
        Target {
            config: config.to_owned(),
            image: image.map(str::to_owned),
        }
    }

    #[test]
    fn missing_config_is_no_record() {
        let (_dir, root) = root();
        assert_eq!(read(&root).unwrap(), None);
        put(&root, IMAGE, Some(b"registry/os@sha256:1")).unwrap();
        assert_eq!(read(&root).unwrap(), None);
    }

    #[test]
    fn what_was_written_is_read_back() {
        let (_dir, root) = root();
        for (config, image, expected) in [
            (
                r#"{"metadata":{"name":"a"}}"#,
                Some("r/os@sha256:1"),
                Some("r/os@sha256:1"),
            ),
            (r#"{"metadata":{"name":"a"},"spec":1}"#, Some("\n"), None),
            (
                r#"{"metadata":{"name":"a","creationTimestamp":null},"spec":{"config":{}}}"#,
                None,
                None,
            ),
        ] {
            write(&root, config.as_bytes(), image).unwrap();
            let record = read(&root).unwrap().unwrap();
            assert_eq!(record.target(), &target("a", expected));
            assert_eq!(record.bytes(), config.as_bytes());
        }
        write(&root, b"", None).unwrap();
        assert_eq!(read(&root).unwrap(), None);
    }

    #[test]
    fn pull_spec_of_another_writer_may_end_with_a_line_end() {
        assert_eq!(
            parse_image(b"r/os:1\n".to_vec()).unwrap().as_deref(),
            Some("r/os:1")
        );
        assert_eq!(parse_image(b" \n".to_vec()).unwrap(), None);
    }

    #[test]
    fn broken_record_is_an_error_that_names_file_and_field() {
        let (dir, root) = root();
        for (config, image, expected) in [
            (
                "",
                "",
                "currentconfig: cannot read a MachineConfig: EOF while parsing",
            ),
            (
                "not json",
                "",
                "currentconfig: cannot read a MachineConfig: expected ident",
            ),
            (
                "{}",
                "",
                "currentconfig: cannot read a MachineConfig: missing field `metadata`",
            ),
            (
                r#"{"metadata":{}}"#,
                "",
                "currentconfig: cannot read metadata: missing field `name`",
            ),
            (
                r#"{"metadata":{"name":1}}"#,
                "",
                "currentconfig: cannot read metadata.name: invalid type: integer `1`",
            ),
            (
                r#"{"metadata":{"name":""}}"#,
                "",
                "currentconfig: metadata.name is empty",
            ),
            (
                r#"{"metadata":{"name":"a"}}{}"#,
                "",
                "currentconfig: cannot read a MachineConfig: trailing characters",
            ),
            (
                r#"{"metadata":{"name":"a"}}"#,
                "r/os:1 r/os:2",
                r#"currentimage: "r/os:1 r/os:2" is not one pull spec"#,
            ),
            (
                r#"{"metadata":{"name":"a"}}"#,
                "\0\0",
                r#"currentimage: "\0\0" is not one pull spec"#,
            ),
        ] {
            put(&root, CONFIG, Some(config.as_bytes())).unwrap();
            put(&root, IMAGE, Some(image.as_bytes())).unwrap();
            let text = Chain(&read(&root).unwrap_err()).to_string();
            let start = format!("broken record /etc/machine-config-daemon/{expected}");
            assert!(text.starts_with(&start), "{config} {image}: {text}");
        }
        std::fs::remove_file(dir.path().join(CONFIG.trim_start_matches('/'))).unwrap();
        std::fs::create_dir(dir.path().join(CONFIG.trim_start_matches('/'))).unwrap();
        let error = read(&root).unwrap_err();
        assert!(matches!(error, Error::NotAFile { path: CONFIG }), "{error}");
    }

    #[test]
    fn machine_config_of_a_record_names_the_field_that_is_broken() {
        let (_dir, root) = root();
        let decode = |spec: &str| {
            let config = format!(r#"{{"metadata":{{"name":"a"}},"spec":{spec}}}"#);
            write(&root, config.as_bytes(), None).unwrap();
            read(&root).unwrap().unwrap().machine_config()
        };
        assert_eq!(
            decode(r#"{"osImageURL":"r/os:1"}"#)
                .unwrap()
                .spec
                .os_image_url,
            "r/os:1"
        );
        for (spec, expected) in [
            (
                r#"{"kernelType":"fast one"}"#,
                "spec.kernelType: kernelType=fast one is invalid",
            ),
            (
                r#"{"fips":"yes"}"#,
                "cannot read spec.fips: invalid type: string",
            ),
        ] {
            let text = Chain(&decode(spec).unwrap_err()).to_string();
            let start = format!("broken record {CONFIG}: {expected}");
            assert!(text.starts_with(&start), "{text}");
        }
    }
}
