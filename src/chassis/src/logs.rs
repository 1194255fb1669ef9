//! Log records: one line each, on standard error, as text or as JSON.
//!
//! Text has the message first and facts as fields; a line end or another control character in
//! either is escaped, so that no value forges a record. JSON has the same as one object:
//! `timestamp`, `level`, `message`, each field by its name, and `target`, the module that logs.
//!
//! The filter can be changed while the process runs, by a file that it reads again: a file on the
//! node, or a key of a mounted ConfigMap. A signal carries no value, and needs a shell or `kill`,
//! which the pod's image has not. A request needs an endpoint that writes, and a right to call it.
//! A file needs only the right to write it, and its filter outlives a restart of the process.
//!
//! - [`filter`]: what is logged

pub mod filter;

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use tracing::{Event, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, MakeWriter, format::DefaultFields};
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use crate::report::Chain;
use crate::shutdown::Shutdown;

pub use filter::Filter;

/// Time between two reads of the filter's file. A change of a ConfigMap takes about a minute to
/// arrive in a pod, so that more often would gain nothing.
const PERIOD: Duration = Duration::from_secs(10);

/// How a record is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Format {
    /// Time, level, message, then the fields as `name=value`
    #[default]
    Text,
    /// One object a line
    Json,
}

/// How a process logs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What it logs, unless the file has another filter.
    pub filter: Filter,
    /// How it writes records.
    pub format: Format,
    /// The file whose [`Filter`] replaces the other while the file exists and is not empty.
    pub filter_file: Option<PathBuf>,
}

impl Settings {
    /// Text, at a fixed verbosity.
    pub fn of_verbosity(verbosity: u8) -> Self {
        Self {
            filter: Filter::of_verbosity(verbosity),
            format: Format::Text,
            filter_file: None,
        }
    }
}

/// The process's log after its setup.
#[derive(Debug)]
pub struct Log {
    handle: reload::Handle<Targets, Registry>,
    settings: Settings,
    /// Result of the last read of the file: its text, if it has any.
    read: Result<Option<String>, String>,
}

impl Log {
    /// Installs the process's subscriber. Once, by `main`.
    ///
    /// # Errors
    /// A subscriber is installed already.
    pub fn init(settings: Settings) -> Result<Self, TryInitError> {
        let (mut log, subscriber) = Self::new(settings, std::io::stderr);
        subscriber.try_init()?;
        log.reload();
        Ok(log)
    }

    fn new<W>(settings: Settings, writer: W) -> (Self, impl Subscriber + Send + Sync)
    where
        W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
    {
        let (filter, handle) = reload::Layer::new(settings.filter.to_targets());
        let layer = tracing_subscriber::fmt::layer();
        let records = match settings.format {
            Format::Text => layer.event_format(Line).with_writer(writer).boxed(),
            Format::Json => layer
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_span_list(false)
                .with_writer(writer)
                .boxed(),
        };
        let subscriber = tracing_subscriber::registry().with(filter).with(records);
        let log = Self {
            handle,
            settings,
            read: Ok(None),
        };
        (log, subscriber)
    }

    /// Follows the filter of the file until the shutdown.
    pub async fn follow(mut self, mut shutdown: Shutdown) {
        if self.settings.filter_file.is_none() {
            return shutdown.requested().await;
        }
        loop {
            tokio::select! {
                () = shutdown.requested() => return,
                () = tokio::time::sleep(PERIOD) => self.reload(),
            }
        }
    }

    /// Reads the filter's file, and takes its filter if it is new. An invalid filter, or a file
    /// that cannot be read, changes nothing and is logged once.
    fn reload(&mut self) {
        let Some(path) = &self.settings.filter_file else {
            return;
        };
        let read = match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
        };
        if read == self.read {
            return;
        }
        let filter = match &read {
            Ok(None) => Ok(self.settings.filter.clone()),
            Ok(Some(text)) => text
                .trim()
                .parse()
                .map_err(|error| Chain(&error).to_string()),
            Err(error) => Err(error.clone()),
        };
        let set = filter.and_then(|filter: Filter| {
            self.handle
                .reload(filter.to_targets())
                .map_err(|error| Chain(&error).to_string())?;
            Ok(filter)
        });
        match set {
            Ok(filter) => tracing::info!(%filter, "log filter changed"),
            Err(error) => {
                tracing::warn!(path = %path.display(), error, "cannot change the log filter");
            }
        }
        self.read = read;
    }
}

/// `2026-11-21T19:17:00.123456Z INFO message field=value`
#[derive(Debug)]
struct Line;

impl<S> FormatEvent<S, DefaultFields> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, DefaultFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        SystemTime.format_time(&mut writer)?;
        write!(writer, " {} ", event.metadata().level())?;
        let mut fields = String::new();
        context.format_fields(Writer::new(&mut fields), event)?;
        escape(&fields, &mut writer)?;
        writeln!(writer)
    }
}

/// Writes a text on one line: what `{:?}` escapes, but quotes and backslashes.
fn escape(text: &str, writer: &mut impl fmt::Write) -> fmt::Result {
    for character in text.chars() {
        match character {
            '"' | '\'' | '\\' => writer.write_char(character)?,
            _ => write!(writer, "{}", character.escape_debug())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
