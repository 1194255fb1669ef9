//! The file of settings, as written and as validated.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use chassis::http::Limits;
use images::ImageLocation;
use serde::Deserialize;

use crate::trust::ImageTrust;

/// All settings, validated. `docs/configuration.md` describes each.
#[derive(Clone, Debug)]
pub struct ServiceSettings {
    pub listen: SocketAddr,
    /// Where metrics and health are.
    pub status: SocketAddr,
    /// In front of all paths: empty, or `/` and a path without a slash at its end.
    pub path_prefix: String,
    /// Certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Parameters that a request for a graph must have.
    pub mandatory: Vec<String>,
    /// Limits of connections.
    pub limits: Limits,
    pub releases: ReleaseSettings,
    pub graph_data: DataSettings,
    /// Directory of signatures.
    pub signatures: Option<PathBuf>,
    /// Time from the end of a scrape to the next.
    pub interval: Duration,
    /// How long one scrape may take.
    pub timeout: Duration,
    /// Age from which the service is not ready; none for no such age.
    pub unready_after: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct ReleaseSettings {
    /// Places that are tried in turn until one responds: repositories, or a layout directory.
    pub places: Vec<ImageLocation>,
    /// Repository that pull specs name.
    pub repository: String,
    pub registries: RegistryAccess,
    /// Images that are read at once.
    pub concurrency: usize,
}

#[derive(Clone, Debug)]
pub struct RegistryAccess {
    /// Credentials, as podman and docker keep them.
    pub credentials: Option<PathBuf>,
    /// Certificate authority beside those of the system.
    pub authority: Option<PathBuf>,
    /// Whether registries without TLS are taken.
    pub is_insecure: bool,
    /// How long a registry may be silent.
    pub patience: Duration,
    /// How often a request is tried.
    pub attempts: u32,
}

#[derive(Clone, Debug)]
pub struct DataSettings {
    pub place: DataPlace,
    /// Whether a problem in it keeps the graph before in service.
    pub is_strict: bool,
}

/// A place of graph data.
#[derive(Clone, Debug)]
pub enum DataPlace {
    Directory(PathBuf),
    /// A tar, packed by gzip or not.
    Archive(PathBuf),
    /// A directory of an image.
    Image {
        image: ImageLocation,
        path: String,
        /// Whose signature it needs; none: its digest, or the registry, is trusted.
        trust: Option<ImageTrust>,
    },
}

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is no YAML of this shape.
    #[error("{0}")]
    Syntax(String),
    #[error("field {field}: {why}")]
    Field { field: &'static str, why: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    #[serde(default)]
    serve: WireServe,
    releases: WireReleases,
    graph_data: WireData,
    #[serde(default)]
    signatures: Option<PathBuf>,
    #[serde(default)]
    scrape: WireScrape,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WireServe {
    listen: SocketAddr,
    status: SocketAddr,
    path_prefix: String,
    tls: Option<WireTls>,
    mandatory_parameters: Vec<String>,
    connections: usize,
    header_bytes: usize,
    header_seconds: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireTls {
    certificate: PathBuf,
    key: PathBuf,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireReleases {
    #[serde(default)]
    repository: String,
    #[serde(default)]
    mirrors: Vec<String>,
    #[serde(default)]
    directory: Option<PathBuf>,
    #[serde(default)]
    credentials: Option<PathBuf>,
    #[serde(default)]
    certificate_authority: Option<PathBuf>,
    #[serde(default)]
    insecure: bool,
    #[serde(default = "patience")]
    patience_seconds: u64,
    #[serde(default = "attempts")]
    attempts: u32,
    #[serde(default = "concurrency")]
    concurrency: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireData {
    #[serde(default)]
    keyring: Option<PathBuf>,
    #[serde(default)]
    directory: Option<PathBuf>,
    #[serde(default)]
    archive: Option<PathBuf>,
    #[serde(default)]
    image: Option<String>,
    #[serde(default)]
    path: String,
    #[serde(default)]
    strict: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(
    clippy::struct_field_names,
    reason = "the names of the file, with their unit"
)]
struct WireScrape {
    interval_seconds: u64,
    timeout_seconds: u64,
    unready_after_seconds: Option<u64>,
}

impl Default for WireServe {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8081)),
            status: SocketAddr::from(([127, 0, 0, 1], 9081)),
            path_prefix: String::new(),
            tls: None,
            mandatory_parameters: vec!["channel".to_owned()],
            connections: limits.connections,
            header_bytes: limits.header_bytes,
            header_seconds: limits.header.as_secs(),
        }
    }
}

impl Default for WireScrape {
    fn default() -> Self {
        Self {
            interval_seconds: 300,
            timeout_seconds: 300,
            unready_after_seconds: None,
        }
    }
}

/// Seconds; a registry that says nothing for longer has failed.
const fn patience() -> u64 {
    60
}

const fn attempts() -> u32 {
    3
}

/// Longest time in seconds, a year: sums of times stay times.
const LONGEST_SECS: u64 = 366 * 24 * 3600;
const LONG: &str = "it is longer than a year (31622400)";

const fn concurrency() -> usize {
    16
}

impl ServiceSettings {
    /// Reads the file's text.
    ///
    /// # Errors
    /// [`Error`], with the field that is wrong.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let options = serde_saphyr::options! { with_snippet: false };
        let wire: Wire = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| Error::Syntax(error.to_string()))?;
        let positive = |field, seconds: u64| {
            if seconds == 0 {
                return Err(failed(field, "it is 0"));
            }
            if seconds > LONGEST_SECS {
                return Err(failed(field, LONG));
            }
            Ok(Duration::from_secs(seconds))
        };
        let serve = wire.serve;
        let prefix = serve.path_prefix.trim_matches('/');
        if serve.connections == 0 {
            return Err(failed("serve.connections", "it is 0"));
        }
        let limits = Limits {
            connections: serve.connections,
            header_bytes: serve.header_bytes,
            header: positive("serve.headerSeconds", serve.header_seconds)?,
            // No request has a body.
            body_bytes: 0,
            ..Limits::default()
        };
        Ok(Self {
            listen: serve.listen,
            status: serve.status,
            path_prefix: if prefix.is_empty() {
                String::new()
            } else {
                format!("/{prefix}")
            },
            tls: serve.tls.map(|tls| (tls.certificate, tls.key)),
            mandatory: names(&serve.mandatory_parameters),
            limits,
            releases: wire.releases.validate()?,
            graph_data: wire.graph_data.validate(wire.signatures.as_ref())?,
            signatures: wire.signatures,
            interval: positive("scrape.intervalSeconds", wire.scrape.interval_seconds)?,
            timeout: positive("scrape.timeoutSeconds", wire.scrape.timeout_seconds)?,
            unready_after: wire
                .scrape
                .unready_after_seconds
                .map(|seconds| positive("scrape.unreadyAfterSeconds", seconds))
                .transpose()?,
        })
    }
}

impl WireReleases {
    fn validate(self) -> Result<ReleaseSettings, Error> {
        let repository = self.repository.trim_end_matches('/').to_owned();
        let own = location("releases.repository", &repository)?;
        if repository.contains('@')
            || repository
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .contains(':')
        {
            return Err(failed(
                "releases.repository",
                "it names an image, not a repository",
            ));
        }
        let places = match self.directory {
            Some(directory) if self.mirrors.is_empty() => vec![ImageLocation::Layout {
                directory,
                name: None,
                digest: None,
            }],
            Some(_) => return Err(failed("releases.mirrors", "a directory has none")),
            None => {
                let mirrors = names(&self.mirrors);
                let mirrors = mirrors
                    .iter()
                    .map(|mirror| location("releases.mirrors", mirror));
                let mut places = mirrors.collect::<Result<Vec<_>, _>>()?;
                places.push(own);
                places
            }
        };
        if self.concurrency == 0 || self.attempts == 0 || self.patience_seconds == 0 {
            let why = "concurrency, attempts and patienceSeconds are at least 1";
            return Err(failed("releases", why));
        }
        if self.patience_seconds > LONGEST_SECS {
            return Err(failed("releases.patienceSeconds", LONG));
        }
        Ok(ReleaseSettings {
            places,
            repository,
            registries: RegistryAccess {
                credentials: self.credentials,
                authority: self.certificate_authority,
                is_insecure: self.insecure,
                patience: Duration::from_secs(self.patience_seconds),
                attempts: self.attempts,
            },
            concurrency: self.concurrency,
        })
    }
}

impl WireData {
    fn validate(self, signatures: Option<&PathBuf>) -> Result<DataSettings, Error> {
        let field = "graphData.keyring";
        let trust = match (self.keyring, signatures) {
            (None, _) => None,
            (Some(_), _) if self.image.is_none() => {
                return Err(failed(field, "only an image is signed"));
            }
            (Some(_), None) => {
                return Err(failed(field, "it needs the directory in signatures"));
            }
            (Some(keyring), Some(signatures)) => Some(ImageTrust {
                keyring,
                signatures: signatures.clone(),
            }),
        };
        let place = match (self.directory, self.archive, self.image) {
            (Some(directory), None, None) => DataPlace::Directory(directory),
            (None, Some(archive), None) => DataPlace::Archive(archive),
            (None, None, Some(image)) => DataPlace::Image {
                image: location("graphData.image", &image)?,
                path: self.path.trim_matches('/').to_owned(),
                trust,
            },
            _ => {
                return Err(failed(
                    "graphData",
                    "it has one of directory, archive and image",
                ));
            }
        };
        Ok(DataSettings {
            place,
            is_strict: self.strict,
        })
    }
}

/// The names of a list, without blanks around them and without empty ones, as an editor leaves
/// them.
fn names(list: &[String]) -> Vec<String> {
    let names = list.iter().map(|name| name.trim());
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

fn location(field: &'static str, text: &str) -> Result<ImageLocation, Error> {
    text.parse()
        .map_err(|error: images::location::Error| failed(field, &error.to_string()))
}

fn failed(field: &'static str, why: &str) -> Error {
    Error::Field {
        field,
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str =
        "releases: {repository: registry.example/releases}\ngraphData: {directory: /graph-data}\n";

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let settings = ServiceSettings::parse(LEAST).unwrap();
        assert_eq!(settings.listen.to_string(), "127.0.0.1:8081");
        assert_eq!(settings.status.to_string(), "127.0.0.1:9081");
        assert_eq!(settings.mandatory, ["channel"]);
        assert_eq!(settings.interval, Duration::from_mins(5));
        assert_eq!(settings.releases.places.len(), 1);
        assert_eq!(settings.unready_after, None);
    }

    #[test]
    fn the_prefix_has_one_slash_in_front_and_none_at_its_end() {
        for (prefix, expected) in [("", ""), ("/", ""), ("a", "/a"), ("//a/b//", "/a/b")] {
            let text = format!("{LEAST}serve: {{pathPrefix: '{prefix}'}}\n");
            assert_eq!(ServiceSettings::parse(&text).unwrap().path_prefix, expected);
        }
    }

    #[test]
    fn blanks_around_names_and_empty_names_of_a_list_do_not_count() {
        let text = "releases: {repository: registry.example/a, mirrors: [' m.example/a ', '']}\n\
                    graphData: {directory: /graph-data}\n\
                    serve: {mandatoryParameters: [' channel', '', 'id ', '  ']}\n";
        let settings = ServiceSettings::parse(text).unwrap();
        assert_eq!(settings.mandatory, ["channel", "id"]);
        let places = settings.releases.places.iter().map(ToString::to_string);
        let places: Vec<String> = places.collect();
        assert_eq!(places.len(), 2);
        assert!(places[0].starts_with("m.example/a"), "{places:?}");
    }

    #[test]
    fn a_wrong_field_is_named() {
        let base = |releases: &str, data: &str| {
            format!("releases: {{{releases}}}\ngraphData: {{{data}}}\n")
        };
        let (repository, directory) = ("repository: registry.example/a", "directory: /a");
        for (text, expected) in [
            (base("", directory), "field releases.repository"),
            (
                base("repository: 'registry.example/a:b'", directory),
                "field releases.repository",
            ),
            (base(repository, ""), "field graphData"),
            (
                base(repository, "directory: /a, keyring: /k"),
                "field graphData.keyring: only an image is signed",
            ),
            (
                base(
                    repository,
                    "image: registry.example/data:latest, keyring: /k",
                ),
                "field graphData.keyring: it needs the directory in signatures",
            ),
            (
                base(repository, "directory: /a, archive: /b"),
                "field graphData",
            ),
            (
                base("repository: registry.example/a, attempts: 0", directory),
                "field releases",
            ),
            (
                base(
                    "repository: registry.example/a, directory: /a, mirrors: [b.example/a]",
                    directory,
                ),
                "field releases.mirrors",
            ),
            (
                format!("{LEAST}scrape: {{intervalSeconds: 0}}\n"),
                "field scrape.intervalSeconds",
            ),
            (
                format!("{LEAST}scrape: {{timeoutSeconds: 18446744073709551615}}\n"),
                "field scrape.timeoutSeconds",
            ),
            (
                base(
                    "repository: registry.example/a, patienceSeconds: 31622401",
                    directory,
                ),
                "field releases.patienceSeconds",
            ),
            (format!("{LEAST}serve: {{port: 1}}\n"), "port"),
            ("a".to_owned(), ""),
        ] {
            let error = ServiceSettings::parse(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
