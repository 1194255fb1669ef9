//! Where an image keeps its package database, its kernels and its own version.
//!
//! Paths have no slash at their beginning. A `*` stands for one name.

use crate::package::PackageManager;

/// Bytes of a database that are read at most. Those of OS images have some 30 to 100 MB.
pub const DATABASE_BYTES: u64 = 1 << 30;

/// Bytes of a text that is read into memory: a status file of dpkg has some 5 MB, os-release one
/// kB.
pub const TEXT_BYTES: u64 = 64 << 20;

/// Directories of rpm's database, the one that counts first. The second is that of ostree hosts,
/// the last one that of systems that are no images.
const RPM: [&str; 3] = ["usr/lib/sysimage/rpm", "usr/share/rpm", "var/lib/rpm"];

/// Directories of dpkg's database, likewise.
const DPKG: [&str; 3] = ["usr/lib/sysimage/dpkg", "usr/share/dpkg", "var/lib/dpkg"];

/// Files of rpm's database in its forms, and names of those that are not read. Source: rpm's
/// manual, "Database backends".
const SQLITE: &str = "rpmdb.sqlite";
const OTHER_FORMS: [(&str, &str); 2] = [("Packages", "Berkeley DB"), ("Packages.db", "ndb")];

/// Ends the name of what `SQLite` has written and not moved to the file yet.
const LOG: &str = "-wal";

/// File of an image that is bootable, in the directory of its kernel.
const KERNELS: &str = "usr/lib/modules/*/vmlinuz";

/// Where an image describes itself, the file that counts first. Source: os-release(5).
pub const OS_RELEASE: [&str; 2] = ["etc/os-release", "usr/lib/os-release"];

/// What of a path is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceContent {
    /// That it is there.
    Name,
    /// All, up to so many bytes.
    Bytes(u64),
}

/// The database of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackageDatabase {
    /// rpm's, in an `SQLite` file; `log` is what `SQLite` keeps beside it, where there is such a
    /// file.
    Sqlite { file: String, log: Option<String> },
    /// dpkg's, in one file.
    Status(String),
    /// dpkg's, a file for each package.
    Directory(Vec<String>),
    /// rpm's, in a form that is not read.
    Unsupported { file: String, form: &'static str },
}

impl PackageDatabase {
    /// What wrote it.
    pub const fn manager(&self) -> PackageManager {
        match self {
            Self::Sqlite { .. } | Self::Unsupported { .. } => PackageManager::Rpm,
            Self::Status(_) | Self::Directory(_) => PackageManager::Dpkg,
        }
    }
}

/// All paths that are read of an image.
pub fn places() -> Vec<(String, PlaceContent)> {
    let database = PlaceContent::Bytes(DATABASE_BYTES);
    let text = PlaceContent::Bytes(TEXT_BYTES);
    let mut places = vec![(KERNELS.to_owned(), PlaceContent::Name)];
    for directory in RPM {
        places.push((format!("{directory}/{SQLITE}"), database));
        places.push((format!("{directory}/{SQLITE}{LOG}"), database));
        let others = OTHER_FORMS.iter();
        places.extend(others.map(|(file, _)| (format!("{directory}/{file}"), PlaceContent::Name)));
    }
    for directory in DPKG {
        places.push((format!("{directory}/status"), text));
        places.push((format!("{directory}/status.d/*"), text));
    }
    places.extend(OS_RELEASE.map(|file| (file.to_owned(), text)));
    places
}

/// The database among the paths of an image; none where it has no packages.
///
/// What can be read counts first, then rpm's, then the order of the directories.
pub fn database(paths: &[&str]) -> Option<PackageDatabase> {
    let has = |path: &str| paths.contains(&path);
    let sqlite = RPM.iter().map(|directory| format!("{directory}/{SQLITE}"));
    if let Some(file) = sqlite.into_iter().find(|file| has(file)) {
        let log = Some(format!("{file}{LOG}")).filter(|log| has(log));
        return Some(PackageDatabase::Sqlite { file, log });
    }
    let status = DPKG.iter().map(|directory| format!("{directory}/status"));
    if let Some(file) = status.into_iter().find(|file| has(file)) {
        return Some(PackageDatabase::Status(file));
    }
    for directory in DPKG {
        // Digests of a package's files lie beside its paragraph.
        let is_paragraph = |path: &&&str| {
            let name = path.strip_prefix(directory);
            name.is_some_and(|name| name.starts_with("/status.d/")) && !path.ends_with(".md5sums")
        };
        let files: Vec<String> = paths
            .iter()
            .filter(is_paragraph)
            .map(|it| (*it).to_owned())
            .collect();
        if !files.is_empty() {
            return Some(PackageDatabase::Directory(files));
        }
    }
    let others = RPM.iter().flat_map(|directory| {
        OTHER_FORMS.map(|(file, form)| (format!("{directory}/{file}"), form))
    });
    let found = others.into_iter().find(|(file, _)| has(file));
    found.map(|(file, form)| PackageDatabase::Unsupported { file, form })
}

/// The versions of the kernels among the paths of an image.
pub fn kernels(paths: &[&str]) -> Vec<String> {
    let (before, after) = KERNELS.split_once('*').unwrap_or((KERNELS, ""));
    let kernel = |path: &&str| {
        let name = path.strip_prefix(before)?.strip_suffix(after)?;
        (!name.is_empty() && !name.contains('/')).then(|| name.to_owned())
    };
    paths.iter().filter_map(kernel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sqlite(file: &str, log: Option<&str>) -> PackageDatabase {
        PackageDatabase::Sqlite {
            file: file.to_owned(),
            log: log.map(str::to_owned),
        }
    }

    #[test]
    fn the_database_that_counts_is_found() {
        let share = "usr/share/rpm/rpmdb.sqlite";
        let sysimage = "usr/lib/sysimage/rpm/rpmdb.sqlite";
        let log = "usr/share/rpm/rpmdb.sqlite-wal";
        let status = "var/lib/dpkg/status";
        let [one, two] = ["a", "b"].map(|name| format!("var/lib/dpkg/status.d/{name}"));
        let unsupported = |file: &str, form| {
            let file = file.to_owned();
            Some(PackageDatabase::Unsupported { file, form })
        };
        for (paths, expected) in [
            (vec![], None),
            (
                vec!["usr/lib/os-release", "usr/lib/modules/6.1/vmlinuz"],
                None,
            ),
            (vec![share], Some(sqlite(share, None))),
            (vec![log, share], Some(sqlite(share, Some(log)))),
            (vec![log, share, sysimage], Some(sqlite(sysimage, None))),
            (vec![log], None),
            (
                vec!["usr/share/rpm/Packages", share],
                Some(sqlite(share, None)),
            ),
            (
                vec!["var/lib/rpm/Packages"],
                unsupported("var/lib/rpm/Packages", "Berkeley DB"),
            ),
            (
                vec!["usr/lib/sysimage/rpm/Packages.db"],
                unsupported("usr/lib/sysimage/rpm/Packages.db", "ndb"),
            ),
            (
                vec![status, "usr/lib/sysimage/dpkg/status"],
                Some(PackageDatabase::Status(
                    "usr/lib/sysimage/dpkg/status".to_owned(),
                )),
            ),
            (
                vec![&one, status],
                Some(PackageDatabase::Status(status.to_owned())),
            ),
            (
                vec![&one, "var/lib/dpkg/status.d/a.md5sums", &two],
                Some(PackageDatabase::Directory(vec![one.clone(), two.clone()])),
            ),
            (vec![share, status], Some(sqlite(share, None))),
        ] {
            assert_eq!(database(&paths), expected, "{paths:?}");
        }
    }

    #[test]
    fn what_is_found_is_among_what_is_read() {
        let places = places();
        let is_read = |path: &str| places.iter().any(|(place, _)| place == path);
        for path in [
            "usr/share/rpm/rpmdb.sqlite",
            "usr/lib/sysimage/rpm/rpmdb.sqlite-wal",
            "var/lib/rpm/Packages",
            "usr/lib/sysimage/dpkg/status",
            "var/lib/dpkg/status.d/*",
            "usr/lib/modules/*/vmlinuz",
            "usr/lib/os-release",
        ] {
            assert!(is_read(path), "{path}");
        }
    }

    #[test]
    fn kernels_are_named_by_their_directory() {
        let paths = [
            "usr/lib/modules/5.14.0-427.el9.x86_64/vmlinuz",
            "usr/lib/modules//vmlinuz",
            "usr/lib/modules/6.1.0-28-amd64/build/vmlinuz",
            "usr/lib/modules/6.1.0-28-amd64/modules.dep",
        ];
        assert_eq!(kernels(&paths), ["5.14.0-427.el9.x86_64"]);
    }
}
