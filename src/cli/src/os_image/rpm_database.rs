//! The database of rpm: an `SQLite` file with a header for each package.
//!
//! The file is of an image, so that it may be anything: views and triggers in it are not followed,
//! and nothing is written to it.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use os_packages::package::OsPackage;
use os_packages::rpm_header;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

/// Bytes of one header. rpm's own limit of a header is 256 MB; large ones have 5 MB.
const HEADER_BYTES: i32 = 64 << 20;

/// Reads all packages. `log` is what `SQLite` keeps beside the file, where there is such a file.
///
/// # Errors
/// The file is no such database, is damaged, or a header is.
pub(super) fn packages(file: &Path, log: Option<&Path>) -> anyhow::Result<Vec<OsPackage>> {
    let log = match log {
        Some(log) if fs::metadata(log)?.len() > 0 => Some(log),
        Some(_) | None => None,
    };
    let Some(log) = log else {
        return read(file, OpenFlags::SQLITE_OPEN_READ_ONLY, true);
    };
    // SQLite takes the log from a place beside the file, and puts what is in it into the file.
    let directory = tempfile::tempdir().context("cannot make a directory for a database")?;
    let (copy, beside) = (directory.path().join("db"), directory.path().join("db-wal"));
    for (from, to) in [(file, &copy), (log, &beside)] {
        fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    read(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE, false)
}

fn read(file: &Path, flags: OpenFlags, is_immutable: bool) -> anyhow::Result<Vec<OsPackage>> {
    let database = open(file, flags, is_immutable).context("it is no SQLite database")?;
    let mut statement = database
        .prepare("SELECT hnum, blob FROM Packages ORDER BY hnum")
        .context("it is no database of rpm")?;
    let mut rows = statement.query([]).context("cannot read table Packages")?;
    let mut packages = Vec::new();
    while let Some(row) = rows.next().context("cannot read table Packages")? {
        let number: i64 = row.get(0).context("table Packages: column hnum")?;
        let header = row.get_ref(1).context("table Packages: column blob")?;
        let named = || format!("table Packages: header {number}");
        let header = header.as_blob().with_context(named)?;
        packages.extend(rpm_header::package(header).with_context(named)?);
    }
    Ok(packages)
}

fn open(file: &Path, flags: OpenFlags, is_immutable: bool) -> anyhow::Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let path = file.to_str().context("its path is no UTF-8")?;
    // What has a meaning in such an address.
    let path = path
        .replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23");
    // A database in the mode of a log needs files beside it, unless it does not change.
    let option = if is_immutable { "?immutable=1" } else { "" };
    let database = Connection::open_with_flags(format!("file:{path}{option}"), flags)?;
    database.set_limit(Limit::SQLITE_LIMIT_LENGTH, HEADER_BYTES)?;
    for (option, is_on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
    ] {
        database.set_db_config(option, is_on)?;
    }
    Ok(database)
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::*;

    /// Headers that rpm wrote.
    pub(crate) const BASE: &[u8] =
        include_bytes!("../../../os-packages/tests/fixtures/toy-base.header");
    pub(crate) const TOOLS: &[u8] =
        include_bytes!("../../../os-packages/tests/fixtures/toy-tools.header");

    /// A database with these headers, in the mode that rpm sets.
    pub(crate) fn database(directory: &Path, headers: &[&[u8]]) -> (PathBuf, Connection) {
        let file = directory.join("rpm?db%23#.sqlite");
        let database = Connection::open(&file).unwrap();
        database
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;
                 CREATE TABLE Packages (hnum INTEGER PRIMARY KEY AUTOINCREMENT, blob BLOB NOT NULL);",
            )
            .unwrap();
        for header in headers {
            let insert = "INSERT INTO Packages (blob) VALUES (?1)";
            database.execute(insert, [header]).unwrap();
        }
        (file, database)
    }

    fn lines(read: anyhow::Result<Vec<OsPackage>>) -> Vec<String> {
        let line = |it: OsPackage| format!("{} {}", it.name, it.version);
        read.unwrap().into_iter().map(line).collect()
    }

    fn error(file: &Path) -> String {
        format!("{:#}", packages(file, None).unwrap_err())
    }

    #[test]
    fn packages_are_read_with_and_without_a_log() {
        let directory = TempDir::new().unwrap();
        let (file, database) = database(directory.path(), &[BASE, TOOLS]);
        let mut log = file.clone().into_os_string();
        log.push("-wal");
        let log = PathBuf::from(log);
        let both = ["toy-base 1:2.0-3.el9", "toy-tools 1.4~rc1-1.el9"];
        // All of it is in the log still: without it there is not even a table.
        assert_eq!(lines(packages(&file, Some(&log))), both);
        assert!(error(&file).starts_with("it is no "), "{}", error(&file));
        database.close().unwrap();
        let before = fs::read(&file).unwrap();
        assert_eq!(lines(packages(&file, None)), both);
        assert_eq!(fs::read(&file).unwrap(), before);
        let empty = directory.path().join("empty");
        crate::output::write(&empty, b"").unwrap();
        assert_eq!(lines(packages(&file, Some(&empty))), both);
    }

    #[test]
    fn what_is_no_database_is_named() {
        let directory = TempDir::new().unwrap();
        let (file, database) = database(directory.path(), &[BASE, &BASE[..50]]);
        database.close().unwrap();
        let text = error(&file);
        assert!(
            text.starts_with("table Packages: header 2: it has 50 bytes"),
            "{text}"
        );

        let other = directory.path().join("other");
        crate::output::write(&other, b"no database, but long enough to be taken for one").unwrap();
        assert!(
            error(&other).contains("file is not a database"),
            "{}",
            error(&other)
        );
        assert!(error(&directory.path().join("none")).starts_with("it is no SQLite database"));
        let mut cut = fs::read(&file).unwrap();
        cut.truncate(5000);
        crate::output::write(&other, &cut).unwrap();
        packages(&other, None).unwrap_err();
    }

    #[test]
    fn a_view_is_no_table_of_packages() {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("view");
        let database = Connection::open(&file).unwrap();
        let view = "CREATE VIEW Packages AS SELECT 1 AS hnum, zeroblob(8) AS blob";
        database.execute_batch(view).unwrap();
        database.close().unwrap();
        let text = error(&file);
        assert!(text.starts_with("it is no database of rpm: "), "{text}");
    }
}
