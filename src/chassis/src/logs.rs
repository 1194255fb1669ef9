//! Log records: one line each, message first, facts as fields, on standard error.

use std::fmt;

use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, format::DefaultFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

/// How much is said, as `--v` counts it: the numbers of Kubernetes' programs.
///
/// Shape: 0 errors, 1 warnings, 2 and 3 what happens, 4 and 5 decisions and their inputs, from 6 on the traffic.
pub fn level(verbosity: u8) -> LevelFilter {
    match verbosity {
        0 => LevelFilter::ERROR,
        1 => LevelFilter::WARN,
        2 | 3 => LevelFilter::INFO,
        4 | 5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// Installs the process's subscriber. Once, by `main`.
///
/// # Errors
/// When a subscriber is installed already.
pub fn init(level: LevelFilter) -> Result<(), TryInitError> {
    tracing_subscriber::registry()
        .with(filter(level))
        .with(
            tracing_subscriber::fmt::layer()
                .event_format(Line)
                .with_writer(std::io::stderr),
        )
        .try_init()
}

/// Our own records at `level`, the libraries' one step quieter.
///
/// The Kubernetes client never gets past errors: its warnings quote whole response bodies, and those hold file contents.
fn filter(level: LevelFilter) -> Targets {
    let libraries = if level >= LevelFilter::TRACE {
        LevelFilter::DEBUG
    } else {
        level.min(LevelFilter::WARN)
    };
    Targets::new()
        .with_default(level)
        .with_target("kube", level.min(LevelFilter::ERROR))
        .with_target("kube_client", level.min(LevelFilter::ERROR))
        .with_targets(
            [
                "hyper",
                "hyper_util",
                "rustls",
                "tower",
                "tower_http",
                "zbus",
            ]
            .map(|t| (t, libraries)),
        )
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
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut kept = self.0.lock().map_err(|_| std::io::ErrorKind::Other)?;
            kept.write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Kept {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    fn lines(level: LevelFilter, say: impl FnOnce()) -> Vec<String> {
        let kept = Kept::default();
        let subscriber = tracing_subscriber::registry().with(filter(level)).with(
            tracing_subscriber::fmt::layer()
                .event_format(Line)
                .with_writer(kept.clone()),
        );
        tracing::subscriber::with_default(subscriber, say);
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        text.lines().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn a_record_is_one_line_with_the_message_first() {
        let lines = lines(LevelFilter::INFO, || {
            tracing::info!(config = "rendered-worker-1", step = 3, path = %"/etc/x", "wrote file");
        });
        let [line] = lines.as_slice() else {
            panic!("{lines:?}")
        };
        let (_, rest) = line.split_once(' ').unwrap();
        assert_eq!(
            rest,
            r#"INFO wrote file config="rendered-worker-1" step=3 path=/etc/x"#
        );
    }

    #[test]
    fn the_client_never_quotes_bodies() {
        let lines = lines(LevelFilter::TRACE, || {
            tracing::warn!(target: "kube_client::client", "secret body");
            tracing::debug!("ours");
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
    }

    #[test]
    fn verbosity_counts_like_klog() {
        assert_eq!(level(2), LevelFilter::INFO);
        assert_eq!(level(4), LevelFilter::DEBUG);
        assert_eq!(level(10), LevelFilter::TRACE);
    }
}
