//! What a deployment is configured to be, written inside it.

use std::collections::BTreeMap;

use node_update::plan::{Digest, Mode, Prior, Target};
use serde::Deserialize;

use crate::files::{Content, Error, Found, Root};

/// The MachineConfig in force, as JSON. Path and form are the original's.
pub const CONFIG: &str = "/etc/machine-config-daemon/currentconfig";

/// Pull spec of the layered image in force; not there where the node has none.
pub const IMAGE: &str = "/etc/machine-config-daemon/currentimage";

/// Configurations may hold secrets.
const MODE: Mode = Mode(0o600);

/// The part of a MachineConfig that its name is in.
#[derive(Debug, Deserialize)]
struct Named {
    metadata: Metadata,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
}

/// Writes the record of a root: the MachineConfig's bytes, and the layered image. A host that is under
/// no configuration has an empty one, and gets no record.
///
/// # Errors
/// Those of writing.
pub fn write(root: &Root, config: &[u8], image: Option<&str>) -> Result<(), Error> {
    let content = |bytes| Content {
        bytes,
        mode: MODE,
        uid: 0,
        gid: 0,
    };
    let at = root.locate(IMAGE)?;
    match image {
        Some(image) => root.replace(&at, content(image.as_bytes()))?,
        None => root.remove(&at)?,
    }
    let at = root.locate(CONFIG)?;
    if config.is_empty() {
        root.remove(&at)
    } else {
        root.replace(&at, content(config))
    }
}

/// What the record of a root says; none where there is no record, or none that names a configuration.
///
/// # Errors
/// Those of reading.
pub fn read(root: &Root) -> Result<Option<Target>, Error> {
    let Found::File { bytes, .. } = root.look_at(CONFIG)? else {
        return Ok(None);
    };
    // A record that cannot be understood names nothing, as if it were not there: the caller adopts.
    let Ok(config) = serde_json::from_slice::<Named>(&bytes) else {
        return Ok(None);
    };
    let image = match root.look_at(IMAGE)? {
        Found::File { bytes, .. } => {
            let text = String::from_utf8_lossy(&bytes).trim().to_owned();
            (!text.is_empty()).then_some(text)
        }
        Found::Nothing | Found::Link(_) | Found::Directory { .. } | Found::Other => None,
    };
    Ok(Some(Target {
        config: config.metadata.name,
        image,
    }))
}

/// The MachineConfig of a root's record, as it was written.
///
/// # Errors
/// Those of reading.
pub fn read_config(root: &Root) -> Result<Option<Vec<u8>>, Error> {
    root.read(CONFIG)
}

/// What the record of a root is, for undo.
///
/// # Errors
/// Those of looking, and of `keep`.
pub fn observe<E: From<Error>>(
    root: &Root,
    keep: &mut impl FnMut(&Digest, &[u8]) -> Result<(), E>,
) -> Result<BTreeMap<String, Prior>, E> {
    let mut priors = BTreeMap::new();
    for path in [CONFIG, IMAGE] {
        root.observe(&root.locate(path)?, &mut priors, keep)?;
    }
    Ok(priors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        assert_eq!(read(&root).unwrap(), None);
        write(
            &root,
            br#"{"metadata":{"name":"rendered-a"}}"#,
            Some("registry/os@sha256:1"),
        )
        .unwrap();
        let image = Some("registry/os@sha256:1".to_owned());
        assert_eq!(
            read(&root).unwrap(),
            Some(Target {
                config: "rendered-a".to_owned(),
                image
            })
        );
        write(&root, br#"{"metadata":{"name":"rendered-b"}}"#, None).unwrap();
        let target = Target {
            config: "rendered-b".to_owned(),
            image: None,
        };
        assert_eq!(read(&root).unwrap(), Some(target));
        write(&root, b"not json", None).unwrap();
        assert_eq!(read(&root).unwrap(), None);
    }
}
