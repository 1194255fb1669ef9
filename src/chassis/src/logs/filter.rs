//! What is logged: levels by module, with limits for libraries.

use std::fmt;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// Libraries that log much: they log one step less, unless a filter names them.
const LIBRARIES: [&str; 6] = [
    "hyper",
    "hyper_util",
    "rustls",
    "tower",
    "tower_http",
    "zbus",
];

/// What the names of the Kubernetes client's modules begin with. They log errors only, whatever a
/// filter says: their other records quote whole response bodies, and those hold file contents and
/// tokens.
const CLIENT: &str = "kube";

/// What is logged.
///
/// Shape: a level; levels of modules, as in `node::drain=trace`; or both, separated by commas. A
/// level is a number as of `--v`, or `off`, `error`, `warn`, `info`, `debug`, `trace`. Modules that
/// are not named log at the level that stands alone, or at `info`.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter(Targets);

/// A filter has a level that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no level: a number, or off, error, warn, info, debug, trace")]
pub struct InvalidLevel(String);

impl Filter {
    /// The filter of a number as of `--v`.
    pub fn of_verbosity(verbosity: u8) -> Self {
        Self::of_levels(level_of(verbosity), [])
    }

    /// The limits of libraries, where `modules` does not replace them.
    fn of_levels<'a>(
        level: LevelFilter,
        modules: impl IntoIterator<Item = (&'a str, LevelFilter)>,
    ) -> Self {
        let libraries = if level >= LevelFilter::TRACE {
            LevelFilter::DEBUG
        } else {
            level.min(LevelFilter::WARN)
        };
        let modules = modules.into_iter().map(|(module, level)| {
            if module.starts_with(CLIENT) {
                (module, level.min(LevelFilter::ERROR))
            } else {
                (module, level)
            }
        });
        Self(
            Targets::new()
                .with_default(level)
                .with_targets(LIBRARIES.map(|library| (library, libraries)))
                .with_target(CLIENT, level.min(LevelFilter::ERROR))
                .with_targets(modules),
        )
    }

    pub(super) fn to_targets(&self) -> Targets {
        self.0.clone()
    }
}

/// Shape: 0 errors, 1 warnings, 2 and 3 changes, 4 and 5 decisions and their inputs, from 6 on the
/// traffic.
/// Source: the numbers of Kubernetes' programs.
const fn level_of(verbosity: u8) -> LevelFilter {
    match verbosity {
        0 => LevelFilter::ERROR,
        1 => LevelFilter::WARN,
        2 | 3 => LevelFilter::INFO,
        4 | 5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

fn parse_level(text: &str) -> Result<LevelFilter, InvalidLevel> {
    let text = text.trim();
    let invalid = || InvalidLevel(text.to_owned());
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        text.parse().map(level_of).map_err(|_| invalid())
    } else if text.is_empty() {
        // `LevelFilter` would take it for `error`.
        Err(invalid())
    } else {
        text.parse().map_err(|_| invalid())
    }
}

impl FromStr for Filter {
    type Err = InvalidLevel;

    fn from_str(text: &str) -> Result<Self, InvalidLevel> {
        let mut level = LevelFilter::INFO;
        let mut modules = Vec::new();
        for part in text.split(',') {
            match part.split_once('=') {
                Some((module, level)) => modules.push((module.trim(), parse_level(level)?)),
                None => level = parse_level(part)?,
            }
        }
        Ok(Self::of_levels(level, modules))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The levels that modules log at.
    fn levels(filter: &str, modules: [&str; 3]) -> [LevelFilter; 3] {
        let targets = filter.parse::<Filter>().unwrap().to_targets();
        let all = [
            tracing::Level::ERROR,
            tracing::Level::WARN,
            tracing::Level::INFO,
            tracing::Level::DEBUG,
            tracing::Level::TRACE,
        ];
        modules.map(|module| {
            let enabled = all.map(|level| (level, targets.would_enable(module, &level)));
            let most = enabled.iter().rfind(|(_, is_enabled)| *is_enabled);
            most.map_or(LevelFilter::OFF, |(level, _)| LevelFilter::from(*level))
        })
    }

    #[test]
    fn a_filter_is_a_level_and_levels_of_modules() {
        const OFF: LevelFilter = LevelFilter::OFF;
        const ERROR: LevelFilter = LevelFilter::ERROR;
        const WARN: LevelFilter = LevelFilter::WARN;
        const INFO: LevelFilter = LevelFilter::INFO;
        const DEBUG: LevelFilter = LevelFilter::DEBUG;
        const TRACE: LevelFilter = LevelFilter::TRACE;
        let table = [
            ("0", [ERROR, ERROR, ERROR]),
            ("1", [WARN, WARN, WARN]),
            ("2", [INFO, INFO, WARN]),
            ("3", [INFO, INFO, WARN]),
            ("4", [DEBUG, DEBUG, WARN]),
            ("6", [TRACE, TRACE, DEBUG]),
            ("10", [TRACE, TRACE, DEBUG]),
            ("off", [OFF, OFF, OFF]),
            ("warn", [WARN, WARN, WARN]),
            ("warn, node::drain = trace", [WARN, TRACE, WARN]),
            ("node::drain=6", [INFO, TRACE, WARN]),
            ("hyper=trace", [INFO, INFO, TRACE]),
            ("trace,hyper=off", [TRACE, TRACE, OFF]),
        ];
        let modules = ["node", "node::drain", "hyper::proto"];
        for (filter, expected) in table {
            assert_eq!(levels(filter, modules), expected, "{filter}");
        }
    }

    #[test]
    fn no_filter_makes_the_kubernetes_client_log_more_than_errors() {
        let filters = [
            "10",
            "kube=trace",
            "trace,kube_client=trace",
            "kube_client::client=debug",
            "kub=trace",
            "kube_runtime=4",
        ];
        let modules = ["kube_client::client", "kube::api", "kube_runtime::watcher"];
        for filter in filters {
            assert_eq!(levels(filter, modules), [LevelFilter::ERROR; 3], "{filter}");
        }
        assert_eq!(levels("kube=off", modules), [LevelFilter::OFF; 3]);
    }

    #[test]
    fn an_invalid_level_is_named() {
        for filter in ["loud", "node=loud", "info,", "", "256", "4a", "[{a}]=loud"] {
            let error = filter.parse::<Filter>().unwrap_err().to_string();
            assert!(error.contains(" is no level: "), "{filter}: {error}");
        }
        let error = "info,node=loud".parse::<Filter>().unwrap_err();
        assert_eq!(error, InvalidLevel("loud".to_owned()));
    }

    #[test]
    fn a_printed_filter_is_the_same_filter() {
        for filter in ["2", "warn,node::drain=trace", "off"] {
            let filter: Filter = filter.parse().unwrap();
            assert_eq!(filter.to_string().parse(), Ok(filter));
        }
    }
}
