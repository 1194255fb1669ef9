//! `slipway release extract`: the files of a release image.
//!
//! - [`filter`]: which manifests, where not all are requested

pub(crate) mod filter;

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use images::ImageLocation;
use release::payload::{Files, Payload};
use rustix::fs::OFlags;
use rustix::io::Errno;

use self::filter::{Cloud, ManifestFilter, PROFILE};
use crate::access::AccessArgs;
use crate::output::{print, print_data};
use crate::payload::read_files;

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

pub(crate) async fn run(arguments: ExtractArgs) -> anyhow::Result<()> {
    let stores = arguments.access.stores()?;
    let (image, files) = read_files(&stores, &arguments.image).await?;
    let files = match filter(&arguments, &files)? {
        Some((filter, payload)) => filter.files(&payload, &files)?,
        None => files,
    };
    if let Some(name) = &arguments.file {
        let missing = || format!("image {} did not contain {name}", arguments.image);
        return print_data(files.get(name).with_context(missing)?);
    }
    if let Some(directory) = &arguments.to {
        write(directory, &files)?;
        let is_by_digest = arguments.image.digest().ok().flatten().is_some();
        let digest = if is_by_digest {
            String::new()
        } else {
            format!("from digest {} ", image.outer_digest())
        };
        let created = image.created();
        let created = created.map_or_else(|| "unknown".to_owned(), |time| time.to_string());
        print(format!(
            "Extracted release payload {digest}created at {created}\n"
        ))?;
    }
    Ok(())
}

/// Which manifests are requested, and those of the release; none where all files are.
fn filter(
    arguments: &ExtractArgs,
    files: &Files,
) -> anyhow::Result<Option<(ManifestFilter, Payload)>> {
    if !arguments.included && !arguments.credentials_requests {
        return Ok(None);
    }
    let payload = Payload::parse(files).with_context(|| format!("image {}", arguments.image))?;
    let cluster = if arguments.included {
        let (major, _) = payload.metadata.version.minor();
        let settings = match &arguments.install_config {
            Some(path) => Some(
                std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read {}", path.display()))?,
            ),
            None => None,
        };
        let cluster = filter::cluster(&arguments.cluster_profile, major, settings.as_deref());
        Some(cluster.with_context(|| match &arguments.install_config {
            Some(path) => format!("file {}", path.display()),
            None => "the cluster".to_owned(),
        })?)
    } else {
        None
    };
    let filter = ManifestFilter {
        cluster,
        is_for_credentials: arguments.credentials_requests,
        cloud: arguments.cloud,
    };
    Ok(Some((filter, payload)))
}

/// Writes files into a directory, byte for byte. Their names come from an image: a link in the
/// place of one of them is not written through.
///
/// # Errors
/// The directory cannot be made, or a file not written.
pub(crate) fn write(directory: &Path, files: &Files) -> anyhow::Result<()> {
    let made = std::fs::create_dir_all(directory);
    made.with_context(|| format!("cannot make {}", directory.display()))?;
    for (name, bytes) in files {
        let path = directory.join(name);
        write_here(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn write_here(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let mut file = match options.open(path) {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err(std::io::Error::other("it is a symbolic link"));
        }
        opened => opened?,
    };
    file.write_all(bytes)
}

/// Writes a file that the command line names.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing depends on it after a crash: it is written again"
)]
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_place_of_a_file_is_not_written_through() {
        let (directory, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files: Files = [("a.yaml".to_owned(), b"new".to_vec())].into();
        write(directory.path(), &files).unwrap();
        // Again over what is there.
        write(directory.path(), &files).unwrap();
        let (path, victim) = (
            directory.path().join("a.yaml"),
            outside.path().join("victim"),
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        std::fs::remove_file(&path).unwrap();
        write_file(&victim, b"old").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let error = format!("{:#}", write(directory.path(), &files).unwrap_err());
        let expected = format!("cannot write {}: it is a symbolic link", path.display());
        assert_eq!(error, expected);
        assert_eq!(std::fs::read(&victim).unwrap(), b"old");
    }
}
