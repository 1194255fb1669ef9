//! Graph data, from a directory, a tar or an image.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use chassis::report::Chain;
use flate2::read::GzDecoder;
use images::archive::{self, ArchiveFault};
use images::budget::{Budget, BudgetLimits};
use images::image::Platform;
use images::{Image, ImageLocation, Stores, content};
use jiff::Timestamp;
use release::ImageDigest;
use update_graph::GraphData;
use update_graph::blocked_edge::BLOCKED_EDGES;
use update_graph::channel_file::CHANNELS;
use update_graph::graph_data::{SourceFiles, VERSION_FILE};

use crate::settings::DataPlace;

/// Largest file that is read. The largest real one has 20 kB.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// Most bytes of all files together.
const ALL_MAX_BYTES: usize = 64 << 20;

/// What an image or an archive may cost. An image has the files of an OS beside those of graph
/// data; the directory of temporary files has 2 GiB.
const LIMITS: BudgetLimits = BudgetLimits {
    layer_bytes: 512 << 20,
    unpacked_bytes: 4 << 30,
    entries: 500_000,
    paths_bytes: 32 << 20,
    kept_bytes: 512 << 20,
};

/// First bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The source of graph data.
#[derive(Debug)]
pub struct DataSource {
    place: DataPlace,
    stores: Stores,
    /// Of an image: its digest, and what was read, or why it cannot be. It does not change.
    read: Option<(ImageDigest, Result<Arc<SourceFiles>, String>)>,
}

impl DataSource {
    /// A source that has read nothing.
    pub fn new(place: DataPlace, stores: Stores) -> Self {
        Self {
            place,
            stores,
            read: None,
        }
    }

    /// Reads the files; of an image only if its digest is new. Its signature counts as of `now`.
    ///
    /// # Errors
    /// The place cannot be read, or holds too much; an image lacks the signature that it needs.
    pub async fn files(&mut self, now: Timestamp) -> anyhow::Result<Arc<SourceFiles>> {
        match &self.place {
            DataPlace::Directory(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || directory(&path));
                Ok(Arc::new(read.await??))
            }
            DataPlace::Archive(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || archive(&path));
                Ok(Arc::new(read.await??))
            }
            DataPlace::Image { image, path, trust } => {
                let digest = self.stores.digest(image).await?;
                if let Some(trust) = trust.clone() {
                    let signed = digest.clone();
                    let check = move || trust.check(&signed, now);
                    let checked = tokio::task::spawn_blocking(check).await?;
                    checked.with_context(|| format!("image {image}"))?;
                }
                if let Some((read_digest, files)) = &self.read
                    && *read_digest == digest
                {
                    return files.clone().map_err(|reason| anyhow!(reason));
                }
                let by_digest = image.with_digest(&digest);
                let files = match of_image(&self.stores, &by_digest, path).await {
                    Ok(files) => Ok(Arc::new(files)),
                    Err(error) if is_of_image(&error) => Err(Chain(error.as_ref()).to_string()),
                    Err(error) => return Err(error),
                };
                self.read = Some((digest, files.clone()));
                files.map_err(|reason| anyhow!(reason))
            }
        }
    }
}

async fn of_image(
    stores: &Stores,
    image: &ImageLocation,
    path: &str,
) -> anyhow::Result<SourceFiles> {
    let opened = Image::open(stores, image, &Platform::of_this_machine()).await?;
    let target = tempfile::tempdir().context("cannot make a directory")?;
    content::unpack_within(stores, &opened, path, target.path(), LIMITS).await?;
    tokio::task::spawn_blocking(move || directory(target.path())).await?
}

/// Whether the image is wrong, and will be when it is read again.
fn is_of_image(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<images::Error>();
    error.is_some_and(images::Error::is_of_image)
}

/// Reads a directory: its files, and those of the folders that count.
///
/// # Errors
/// It cannot be read, or holds too much.
pub fn directory(path: &Path) -> anyhow::Result<SourceFiles> {
    let mut files = SourceFiles::new();
    let mut all = 0;
    for folder in ["", CHANNELS, BLOCKED_EDGES, "raw/"] {
        let place = path.join(folder);
        let failed = || format!("cannot read {}", place.display());
        let entries = match std::fs::read_dir(&place) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !folder.is_empty() => {
                continue;
            }
            Err(error) => return Err(error).with_context(failed),
        };
        for entry in entries {
            let entry = entry.with_context(failed)?;
            let Some(name) = entry
                .file_name()
                .to_str()
                .map(|name| format!("{folder}{name}"))
            else {
                let file = entry.path();
                tracing::warn!(path = %file.display(), "a file is left out: its name is not UTF-8");
                continue;
            };
            let file = entry.path();
            let failed = || format!("cannot read {}", file.display());
            if !is_of_interest(&name) {
                continue;
            }
            let kind = file.metadata().with_context(failed)?;
            if kind.is_file() {
                let mut open = File::open(&file).with_context(failed)?;
                add(&mut files, &mut all, name, &mut open).with_context(failed)?;
            } else if kind.is_dir() {
                files.insert(format!("{name}/"), Vec::new());
            }
        }
    }
    Ok(files)
}

/// Reads a tar, packed by gzip or not. The repository may be in one folder of it, as in the
/// archives that hosts of repositories make.
fn archive(path: &Path) -> anyhow::Result<SourceFiles> {
    let failed = || format!("cannot read {}", path.display());
    let mut head = [0; 2];
    let count = File::open(path)
        .and_then(|mut file| file.read(&mut head))
        .with_context(failed)?;
    let file = File::open(path).with_context(failed)?;
    let mut reader: Box<dyn Read> = if count == head.len() && head == GZIP {
        Box::new(GzDecoder::new(file))
    } else {
        Box::new(file)
    };
    let mut all = 0;
    let mut files = SourceFiles::new();
    let budget = Budget::new(LIMITS);
    let read = archive::each(reader.as_mut(), &budget, |path, member| {
        if !member.kind().is_file() {
            return Ok(());
        }
        let name = path.to_string_lossy().trim_start_matches("./").to_owned();
        let is_wanted = name
            .split_once('/')
            .is_some_and(|(_, rest)| is_of_interest(rest))
            || is_of_interest(&name);
        if !is_wanted {
            return Ok(());
        }
        add(&mut files, &mut all, name, member)
    });
    let read = read.map_err(|fault| match fault {
        ArchiveFault::Read(error) => error.into(),
        ArchiveFault::Take(error) => error,
    });
    read.with_context(failed)?;
    let mut folders = files
        .keys()
        .filter_map(|name| name.strip_suffix(VERSION_FILE));
    let folder = folders
        .find(|folder| folder.is_empty() || folder.matches('/').count() == 1)
        .unwrap_or_default()
        .to_owned();
    let below = files.into_iter().filter_map(|(name, bytes)| {
        let name = name.strip_prefix(&folder)?.to_owned();
        is_of_interest(&name).then_some((name, bytes))
    });
    Ok(below.collect())
}

/// Whether a file is read, or listed as one that is not.
fn is_of_interest(name: &str) -> bool {
    GraphData::wants(name) || name.starts_with(CHANNELS) || name.starts_with(BLOCKED_EDGES)
}

fn add(
    files: &mut SourceFiles,
    all: &mut usize,
    name: String,
    reader: &mut dyn Read,
) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    reader.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        bail!("file {name} is larger than {FILE_MAX_BYTES} bytes");
    }
    *all += bytes.len();
    if *all > ALL_MAX_BYTES {
        bail!("all files together are larger than {ALL_MAX_BYTES} bytes");
    }
    files.insert(name, bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tar(names: &[&str]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for name in names {
            let mut header = tar::Header::new_gnu();
            header.set_size(1);
            header.set_mode(0o644);
            builder
                .append_data(&mut header, name, b"x".as_slice())
                .unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn an_archive_may_have_its_files_in_a_folder_and_others_beside_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.tar");
        for names in [
            ["version", "channels/a.yaml", "README.md"],
            ["./version", "./channels/a.yaml", "./docs/b.yaml"],
            ["top/version", "top/channels/a.yaml", "top/hack/version"],
        ] {
            use std::io::Write as _;
            File::create(&path)
                .unwrap()
                .write_all(&tar(&names))
                .unwrap();
            let files = archive(&path).unwrap();
            assert_eq!(
                files.keys().collect::<Vec<_>>(),
                ["channels/a.yaml", "version"],
                "{names:?}"
            );
        }
    }

    #[test]
    fn a_folder_in_one_that_is_read_is_kept_by_name() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path();
        std::fs::create_dir_all(path.join("channels/old")).unwrap();
        std::fs::create_dir(path.join("docs")).unwrap();
        File::create(path.join("channels/a.yaml")).unwrap();
        let files = directory(path).unwrap();
        let names: Vec<&String> = files.keys().collect();
        assert_eq!(names, ["channels/a.yaml", "channels/old/"]);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = directory(Path::new("/nonexistent")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nonexistent/");
    }

    #[test]
    fn an_archive_has_a_budget() {
        use std::io::Write as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.tar");
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::GNULongName);
        header.set_size(2 << 20);
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        let name = vec![b'a'; 2 << 20];
        builder.append(&header, name.as_slice()).unwrap();
        let bytes = builder.into_inner().unwrap();
        File::create(&path).unwrap().write_all(&bytes).unwrap();
        let error = format!("{:#}", archive(&path).unwrap_err());
        let expected = "an entry has headers of more than 1048576 bytes";
        assert!(error.ends_with(expected), "{error}");
    }

    #[tokio::test]
    async fn a_bad_image_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let place = crate::releases::tests::place(directory.path(), "a");
        let stores = Stores::new(images::Credentials::default(), false);
        crate::releases::tests::push(&stores, &place, &[("data/version", "1.1.0")], &[]).await;
        let image = DataPlace::Image {
            image: place,
            path: "graph".to_owned(),
            trust: None,
        };
        let mut source = DataSource::new(image, stores);
        let first = source
            .files(Timestamp::UNIX_EPOCH)
            .await
            .unwrap_err()
            .to_string();
        assert!(first.ends_with("there is no /graph"), "{first}");
        // Its layers are gone: its problem was kept.
        crate::releases::tests::forget_layers(directory.path());
        assert_eq!(
            source
                .files(Timestamp::UNIX_EPOCH)
                .await
                .unwrap_err()
                .to_string(),
            first
        );
    }
}
