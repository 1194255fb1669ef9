//! Images in OCI layout directories.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use oci_spec::image::{Descriptor, DescriptorBuilder, ImageIndex, ImageIndexBuilder, MediaType};
use release::ImageDigest;

use crate::blob::{ArchiveFault, Blob};
use crate::document::canonical;
use crate::error::Error;

/// What makes a directory a layout: this file, with this content.
const MARK: &str = "oci-layout";
const MARK_CONTENT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

const INDEX: &str = "index.json";

/// Annotation of an image's name in the index.
const NAME: &str = "org.opencontainers.image.ref.name";

#[derive(Debug)]
pub(crate) struct Layout<'a> {
    directory: &'a Path,
    /// The image that is read or written, for messages.
    image: String,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(directory: &'a Path, image: String) -> Self {
        Self { directory, image }
    }

    /// A manifest, by digest, by name, or the only one.
    pub(crate) fn manifest(
        &self,
        name: Option<&str>,
        digest: Option<&ImageDigest>,
    ) -> Result<Vec<u8>, Error> {
        let digest = match digest {
            Some(digest) => digest.clone(),
            None => self.find(name)?,
        };
        let blob = self.blob(&digest)?;
        blob.bytes()
            .map_err(|source| self.file("read", self.path(&digest), source))
    }

    /// Digests of all manifests that the index names.
    pub(crate) fn digests(&self) -> Result<Vec<ImageDigest>, Error> {
        let index = self.index()?.ok_or_else(|| Error::Missing {
            image: self.image.clone(),
        })?;
        let digests = index.manifests().iter().map(|descriptor| {
            let digest = descriptor.digest().to_string();
            digest
                .parse()
                .map_err(|error| self.layout(&format!("{error}")))
        });
        let mut digests = digests.collect::<Result<Vec<ImageDigest>, Error>>()?;
        let mut seen = std::collections::BTreeSet::new();
        digests.retain(|digest| seen.insert(digest.clone()));
        Ok(digests)
    }

    fn find(&self, name: Option<&str>) -> Result<ImageDigest, Error> {
        let index = self.index()?.ok_or_else(|| Error::Missing {
            image: self.image.clone(),
        })?;
        let named = |descriptor: &&Descriptor| {
            let annotations = descriptor.annotations().as_ref();
            let listed = annotations
                .and_then(|all| all.get(NAME))
                .map(String::as_str);
            name.is_none() || listed == name
        };
        let mut found = index.manifests().iter().filter(named);
        let first = found.next().ok_or_else(|| Error::Missing {
            image: self.image.clone(),
        })?;
        if found.any(|other| other.digest() != first.digest()) {
            return Err(self.layout("the directory holds several images: name one"));
        }
        let digest = first.digest().to_string();
        digest
            .parse()
            .map_err(|error| self.layout(&format!("{error}")))
    }

    /// The index; none where there is no directory.
    fn index(&self) -> Result<Option<ImageIndex>, Error> {
        let path = self.directory.join(INDEX);
        match fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes)
                    .map(Some)
                    .map_err(|source| Error::Document {
                        image: self.image.clone(),
                        document: "index",
                        source,
                    })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.file("read", path, source)),
        }
    }

    pub(crate) fn blob(&self, digest: &ImageDigest) -> Result<Blob, Error> {
        let path = self.path(digest);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(source) => return Err(self.file("read", path, source)),
        };
        Blob::checked(file, digest).map_err(|fault| match fault {
            ArchiveFault::Io(source) => self.file("read", path, source),
            ArchiveFault::Mismatch(mismatch) => Error::Mismatch {
                image: self.image.clone(),
                mismatch: Box::new(mismatch),
            },
        })
    }

    pub(crate) fn has_blob(&self, digest: &ImageDigest) -> bool {
        self.path(digest).exists()
    }

    pub(crate) fn put_blob(&self, blob: &Blob) -> Result<(), Error> {
        let path = self.path(blob.digest());
        if path.exists() {
            return Ok(());
        }
        self.replace(&path, |file| {
            io::copy(&mut blob.reader(), file)?;
            Ok(())
        })
    }

    /// Puts a manifest into the directory, under this name, in place of an earlier one.
    pub(crate) fn put_manifest(
        &self,
        name: Option<&str>,
        manifest: &Blob,
        media_type: MediaType,
    ) -> Result<(), Error> {
        self.put_blob(manifest)?;
        let digest = manifest.digest();
        let mut manifests = match self.index()? {
            Some(index) => index.manifests().clone(),
            None => Vec::new(),
        };
        // A manifest may have several names; an entry without one is only for a manifest that has
        // none.
        let has_digest = |other: &Descriptor| other.digest().to_string() == digest.as_str();
        let name_of = |other: &Descriptor| {
            let annotations = other.annotations().as_ref();
            annotations.and_then(|all| all.get(NAME)).cloned()
        };
        let is_listed = manifests.iter().any(has_digest);
        manifests.retain(|other| match (name, name_of(other)) {
            (Some(name), Some(listed)) => listed != name,
            (Some(_), None) => !has_digest(other),
            (None, _) => true,
        });
        if name.is_none() && is_listed {
            return Ok(());
        }
        let made = |error: oci_spec::OciSpecError| self.layout(&format!("{error}"));
        let mut descriptor = DescriptorBuilder::default()
            .media_type(media_type)
            .digest(oci_digest(digest).map_err(made)?)
            .size(manifest.size());
        if let Some(name) = name {
            let annotations = [(NAME.to_owned(), name.to_owned())];
            descriptor = descriptor.annotations(annotations);
        }
        manifests.push(descriptor.build().map_err(made)?);
        let index = ImageIndexBuilder::default()
            .schema_version(2_u32)
            .media_type(MediaType::ImageIndex)
            .manifests(manifests)
            .build()
            .map_err(made)?;
        let index = canonical(&index).map_err(|source| Error::Document {
            image: self.image.clone(),
            document: "index",
            source,
        })?;
        self.replace(&self.directory.join(MARK), |file| {
            file.write_all(MARK_CONTENT)
        })?;
        self.replace(&self.directory.join(INDEX), |file| file.write_all(&index))
    }

    fn path(&self, digest: &ImageDigest) -> PathBuf {
        self.directory.join("blobs/sha256").join(digest.hex())
    }

    /// Writes a file beside its place, and moves it there whole.
    fn replace(
        &self,
        path: &Path,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), Error> {
        let directory = path.parent().unwrap_or(self.directory);
        let replaced = || {
            fs::create_dir_all(directory)?;
            let mut file = tempfile::Builder::new()
                .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
                .tempfile_in(directory)?;
            write(file.as_file_mut())?;
            file.persist(path)?;
            Ok(())
        };
        replaced().map_err(|source| self.file("write", path.to_owned(), source))
    }

    fn file(&self, what: &'static str, path: PathBuf, source: io::Error) -> Error {
        Error::File {
            image: self.image.clone(),
            what,
            path,
            source,
        }
    }

    fn layout(&self, why: &str) -> Error {
        Error::Layout {
            image: self.image.clone(),
            why: why.to_owned(),
        }
    }
}

/// A digest as the library's types have it.
pub(crate) fn oci_digest(
    digest: &ImageDigest,
) -> Result<oci_spec::image::Digest, oci_spec::OciSpecError> {
    digest.as_str().parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_keeps_each_of_its_names() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path(), "image".to_owned());
        let put = |name: Option<&str>, content: &str| {
            let manifest = Blob::of(content.as_bytes()).unwrap();
            layout
                .put_manifest(name, &manifest, MediaType::ImageManifest)
                .unwrap();
            manifest.digest().clone()
        };
        let listed = || {
            let index = layout.index().unwrap().unwrap();
            let name = |one: &Descriptor| one.annotations().as_ref()?.get(NAME).cloned();
            let all = index.manifests().iter();
            all.map(|one| (name(one).unwrap_or_default(), one.digest().to_string()))
                .collect::<Vec<_>>()
        };
        let entry = |name: &str, digest: &ImageDigest| (name.to_owned(), digest.to_string());

        let one = put(None, "1");
        assert_eq!(listed(), [entry("", &one)]);
        put(Some("a"), "1");
        put(Some("b"), "1");
        put(None, "1");
        assert_eq!(listed(), [entry("a", &one), entry("b", &one)]);
        assert_eq!(layout.find(None).unwrap(), one, "one image with two names");

        let other = put(Some("a"), "2");
        let unnamed = put(None, "3");
        let wanted = [entry("b", &one), entry("a", &other), entry("", &unnamed)];
        assert_eq!(listed(), wanted);
        assert!(layout.find(None).is_err(), "several images");
    }
}
