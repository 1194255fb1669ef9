//! Where packages come from: what this machine's own apt takes Debian's main archive of
//! its release from.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

const OS_RELEASE: &str = "/etc/os-release";
const SOURCES: &str = "/etc/apt/sources.list";
const MORE_SOURCES: &str = "/etc/apt/sources.list.d";

/// How file names of Debian's own keyrings begin.
const KEYRING: &str = "debian-archive";

/// Debian's main archive, as this machine reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Archive {
    /// Code name of the release.
    pub(crate) suite: String,
    /// The release's number; empty for one that is not released.
    pub(crate) version_id: String,
    pub(crate) uri: String,
    /// Its keys; none for debootstrap's own choice.
    pub(crate) keyring: Option<PathBuf>,
}

/// One entry of apt's sources, for packages that are built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    /// A file; keys that stand in the entry itself are left out.
    keyring: Option<PathBuf>,
}

impl Archive {
    /// Of this machine.
    ///
    /// # Errors
    ///
    /// It is no Debian, or its sources do not name the archive.
    pub(crate) fn of_machine() -> Result<Self> {
        let os_release =
            fs::read_to_string(OS_RELEASE).with_context(|| format!("cannot read {OS_RELEASE}"))?;
        Self::choose(&os_release, &sources()?)
    }

    fn choose(os_release: &str, entries: &[Entry]) -> Result<Self> {
        let of = |key: &str| {
            let mut values = os_release.lines().filter_map(|line| line.split_once('='));
            let value = values.find(|(name, _)| *name == key);
            value.map_or("", |(_, value)| value.trim_matches('"'))
        };
        let (id, suite) = (of("ID"), of("VERSION_CODENAME"));
        ensure!(
            id == "debian" && !suite.is_empty(),
            "the lab's hosts are made from a release of Debian, and this machine runs {id} {suite}"
        );
        // Others name their suites like Debian's, too; they have other keys.
        let others_last = |entry: &&Entry| match entry.keyring.as_deref().map(Path::file_name) {
            Some(Some(name)) if name.to_string_lossy().starts_with(KEYRING) => 0,
            None => 1,
            Some(_) => 2,
        };
        let found = entries
            .iter()
            .filter(|entry| entry.suites.iter().any(|name| name == suite))
            .filter(|entry| entry.components.iter().any(|name| name == "main"))
            .min_by_key(others_last);
        let entry = found.with_context(|| {
            format!("this machine's apt sources have no entry for {suite} main")
        })?;
        let uri = entry.uris.first().context("an apt source without a URI")?;
        Ok(Self {
            suite: suite.to_owned(),
            version_id: of("VERSION_ID").to_owned(),
            uri: uri.clone(),
            keyring: entry.keyring.clone(),
        })
    }
}

/// Entries of all of apt's files, in the order in which apt reads them.
fn sources() -> Result<Vec<Entry>> {
    let mut files = vec![PathBuf::from(SOURCES)];
    match fs::read_dir(MORE_SOURCES) {
        Ok(more) => {
            for entry in more {
                files.push(entry?.path());
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot list {MORE_SOURCES}")),
    }
    files.sort();
    let mut entries = Vec::new();
    for file in files {
        let parse = match file.extension().and_then(|end| end.to_str()) {
            Some("list") => one_line,
            Some("sources") => deb822,
            Some(_) | None => continue,
        };
        match fs::read_to_string(&file) {
            Ok(text) => entries.extend(parse(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", file.display()));
            }
        }
    }
    Ok(entries)
}

/// Lines `deb [option=value …] URI suite component …`. Source: sources.list(5).
fn one_line(text: &str) -> Vec<Entry> {
    let entry = |line: &str| {
        let rest = line.trim().strip_prefix("deb")?;
        let rest = rest.starts_with([' ', '\t', '[']).then_some(rest.trim())?;
        let (options, rest) = match rest.strip_prefix('[') {
            Some(options) => options.split_once(']')?,
            None => ("", rest),
        };
        let mut words = rest.split_whitespace().map(str::to_owned);
        let signed_by = |option: &str| option.strip_prefix("signed-by=").and_then(keyring);
        Some(Entry {
            uris: vec![words.next()?],
            suites: vec![words.next()?],
            components: words.collect(),
            keyring: options.split_whitespace().find_map(signed_by),
        })
    };
    text.lines().filter_map(entry).collect()
}

/// Stanzas of `Field: words`. Source: sources.list(5).
fn deb822(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<&str> = lines.collect();
    for stanza in lines.split(|line| line.trim().is_empty()) {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in stanza {
            if line.starts_with([' ', '\t']) {
                if let Some((_, value)) = fields.last_mut() {
                    value.push('\n');
                    value.push_str(line.trim());
                }
            } else if let Some((name, value)) = line.split_once(':') {
                fields.push((name.trim().to_lowercase(), value.trim().to_owned()));
            }
        }
        let of = |name: &str| {
            let value = fields.iter().find(|(known, _)| known == name);
            value.map_or("", |(_, value)| value.as_str())
        };
        let words = |name: &str| of(name).split_whitespace().map(str::to_owned).collect();
        let is_enabled = !matches!(of("enabled"), "no" | "false" | "off" | "0");
        if is_enabled && of("types").split_whitespace().any(|kind| kind == "deb") {
            entries.push(Entry {
                uris: words("uris"),
                suites: words("suites"),
                components: words("components"),
                keyring: keyring(of("signed-by")),
            });
        }
    }
    entries
}

/// The file that `Signed-By` names.
fn keyring(signed_by: &str) -> Option<PathBuf> {
    let first = signed_by.split([',', ' ', '\n']).next()?;
    first.starts_with('/').then(|| PathBuf::from(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OS: &str = "ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n";

    #[test]
    fn the_archive_of_the_release_is_chosen_among_updates_and_others() {
        let sources = "\
            # A comment.\nTypes: deb\nURIs: http://security.test/debian\nSuites: bookworm-security\n\
            Components: main\n\nTypes: deb\nURIs: http://others.test\nSuites: bookworm\n\
            Components: main\nSigned-By: /etc/apt/keyrings/others.gpg\n\n\
            Types: deb deb-src\nURIs: http://old.test/debian\nSuites: bookworm\nComponents: main\n\
            Enabled: no\n\nTypes: deb\nURIs: http://mirror.test/debian\nSuites: bookworm\n bookworm-updates\n\
            Components: main contrib\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n";
        let archive = Archive::choose(OS, &deb822(sources)).unwrap();
        let expected = Archive {
            suite: "bookworm".to_owned(),
            version_id: "12".to_owned(),
            uri: "http://mirror.test/debian".to_owned(),
            keyring: Some("/usr/share/keyrings/debian-archive-keyring.gpg".into()),
        };
        assert_eq!(archive, expected);
    }

    #[test]
    fn lines_of_the_older_form_are_read() {
        let sources = "deb-src http://a.test/debian bookworm main\n#deb http://b.test bookworm main\n\
            deb [arch=amd64 signed-by=/keys/debian-archive-x.gpg] http://c.test/debian bookworm main\n\
            deb http://d.test/debian bookworm contrib\n";
        let entries = one_line(sources);
        assert_eq!(entries.len(), 2);
        let archive = Archive::choose(OS, &entries).unwrap();
        assert_eq!(archive.uri, "http://c.test/debian");
        assert_eq!(
            archive.keyring.as_deref(),
            Some(Path::new("/keys/debian-archive-x.gpg"))
        );
    }

    #[test]
    fn keys_in_the_entry_itself_are_left_to_debootstrap() {
        let sources = "Types: deb\nURIs: http://a.test\nSuites: bookworm\nComponents: main\n\
            Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n AAAA\n";
        let archive = Archive::choose(OS, &deb822(sources)).unwrap();
        assert_eq!(archive.keyring, None);
    }

    #[test]
    fn a_machine_without_the_archive_gets_an_error_that_names_it() {
        let error = Archive::choose(OS, &[]).unwrap_err().to_string();
        assert!(error.contains("no entry for bookworm main"), "{error}");
        let error = Archive::choose("ID=fedora\nVERSION_ID=40\n", &[]).unwrap_err();
        assert!(error.to_string().contains("fedora"), "{error}");
    }
}
