//! Options and credentials for registries.

use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::Context as _;
use images::image::Platform;
use images::{Credentials, Image, ImageLocation, Stores};

const CREDENTIALS_HELP: &str = "Credentials, as podman and docker keep them [default: $REGISTRY_AUTH_FILE, \
     $XDG_RUNTIME_DIR/containers/auth.json, ~/.docker/config.json]";

/// Options of all verbs that read or write images.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Registries")]
pub struct AccessArgs {
    /// Credentials, as podman and docker keep them.
    #[arg(long, short = 'a', value_name = "FILE", help = CREDENTIALS_HELP)]
    pub registry_config: Option<PathBuf>,
    /// Take registries without TLS or with an unknown certificate
    #[arg(long)]
    pub insecure: bool,
}

impl AccessArgs {
    /// Reads the credentials.
    ///
    /// # Errors
    /// The file that is named, or found, cannot be read.
    pub fn stores(&self) -> anyhow::Result<Stores> {
        let credentials = match &self.registry_config {
            Some(path) => read(path)?.with_context(|| format!("there is no {}", path.display()))?,
            None => found()?,
        };
        Ok(Stores::new(credentials, self.insecure))
    }
}

/// Credentials where tools keep them; none where there are none.
fn found() -> anyhow::Result<Credentials> {
    let variable = |name| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    let places = [
        variable("REGISTRY_AUTH_FILE"),
        variable("XDG_RUNTIME_DIR").map(|directory| directory.join("containers/auth.json")),
        variable("HOME").map(|directory| directory.join(".docker/config.json")),
    ];
    for path in places.into_iter().flatten() {
        if let Some(credentials) = read(&path)? {
            return Ok(credentials);
        }
    }
    Ok(Credentials::default())
}

fn read(path: &std::path::Path) -> anyhow::Result<Option<Credentials>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    let credentials = Credentials::parse(&bytes);
    let credentials = credentials.with_context(|| format!("file {}", path.display()))?;
    Ok(Some(credentials))
}

/// Opens an image; of a list that of this machine.
///
/// # Errors
/// It is not there or not readable.
pub(crate) async fn open(
    stores: &Stores,
    location: &ImageLocation,
) -> Result<Image, images::Error> {
    Image::open(stores, location, &Platform::of_this_machine()).await
}
