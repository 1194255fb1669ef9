//! OS images, read from their registry: what they are made of.
//!
//! - `rpm_database`: the database of rpm

mod rpm_database;

use std::path::Path;

use anyhow::{Context as _, anyhow};
use images::budget::BudgetLimits;
use images::content::{FilePicker, PathPattern, PickedFiles};
use images::{Image, ImageLocation, Stores};
use os_packages::content::{OsContent, os_version};
use os_packages::download::StoredLayer;
use os_packages::dpkg::{StatusField, installed};
use os_packages::package::{OsPackage, PackageList};
use os_packages::place::{self, OS_RELEASE, PackageDatabase, PlaceContent};

use crate::access::open;
use crate::decide::os_change::{OsChange, OsImage};

/// Reads OS images. What several of them share is fetched once.
#[derive(Debug)]
pub(crate) struct OsImageReader<'a> {
    stores: &'a Stores,
    picker: FilePicker<'a>,
}

impl<'a> OsImageReader<'a> {
    /// # Errors
    /// There is no place for files of images.
    pub(crate) fn new(stores: &'a Stores) -> anyhow::Result<Self> {
        let patterns = place::places()
            .into_iter()
            .map(|(path, content)| PathPattern {
                path,
                max_bytes: match content {
                    PlaceContent::Name => None,
                    PlaceContent::Bytes(bytes) => Some(bytes),
                },
            });
        let picker = FilePicker::new(stores, patterns.collect(), BudgetLimits::TO_DISK)?;
        Ok(Self { stores, picker })
    }

    /// Reads an image: all of its layers.
    ///
    /// # Errors
    /// It is not there, is damaged, or its database is. One without a database is none.
    pub(crate) async fn read(&mut self, pull_spec: &str) -> anyhow::Result<OsImage> {
        let location: ImageLocation = pull_spec.parse()?;
        let image = open(self.stores, &location).await?;
        let files = self.picker.pick(&image).await?;
        read(&image, &files).with_context(|| format!("image {location}"))
    }

    /// What changes from one image to another; none where they are the same.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub(crate) async fn change(
        &mut self,
        from: &str,
        to: &str,
    ) -> anyhow::Result<Option<OsChange>> {
        if is_same(from, to)? {
            return Ok(None);
        }
        let (from, to) = (self.read(from).await?, self.read(to).await?);
        Ok(Some(OsChange::new(&from, &to)))
    }
}

/// Whether two pull specs name one image, wherever it is.
///
/// # Errors
/// One of them is no pull spec.
pub(crate) fn is_same(from: &str, to: &str) -> anyhow::Result<bool> {
    let digest = |image: &str| {
        let location: ImageLocation = image.parse()?;
        anyhow::Ok(location.digest()?)
    };
    let (one, other) = (digest(from)?, digest(to)?);
    Ok(from == to || (one.is_some() && one == other))
}

fn read(image: &Image, files: &PickedFiles) -> anyhow::Result<OsImage> {
    let paths = files.paths();
    let os_release = OS_RELEASE.iter().find_map(|path| files.file(path));
    let os_release = os_release.map(text).transpose()?;
    let database = place::database(&paths);
    let packages = match &database {
        None | Some(PackageDatabase::Unsupported { .. }) => None,
        Some(database) => {
            let packages = packages(database, files)?;
            Some(PackageList::new(database.manager(), packages))
        }
    };
    let layers = image.layers().iter().map(|layer| StoredLayer {
        digest: layer.digest().to_string(),
        bytes: layer.size(),
    });
    let mut read = OsImage {
        content: OsContent {
            version: os_version(&image.labels(), os_release.as_deref()),
            kernels: place::kernels(&paths),
            packages,
        },
        layers: layers.collect(),
        not_read: None,
    };
    if let Some(database) = &database {
        read.leave_out(database);
    }
    Ok(read)
}

fn packages(database: &PackageDatabase, files: &PickedFiles) -> anyhow::Result<Vec<OsPackage>> {
    let file = |path: &str| {
        let file = files.file(path);
        file.ok_or_else(|| anyhow!("{path} was not read"))
    };
    let status = |path: &str, status: StatusField| {
        let packages = installed(&text(file(path)?)?, status);
        packages.with_context(|| path.to_owned())
    };
    match database {
        PackageDatabase::Sqlite { file: path, log } => {
            let log = log.as_deref().map(file).transpose()?;
            rpm_database::packages(file(path)?, log).with_context(|| path.clone())
        }
        PackageDatabase::Status(path) => status(path, StatusField::Required),
        PackageDatabase::Directory(paths) => {
            let mut packages = Vec::new();
            for path in paths {
                packages.extend(status(path, StatusField::Absent)?);
            }
            Ok(packages)
        }
        PackageDatabase::Unsupported { file, form } => {
            Err(anyhow!("{file}: the form {form} is not read"))
        }
    }
}

fn text(file: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

#[cfg(test)]
mod tests;
