use std::io::Write;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::*;

/// Keeps what is written.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        text.lines().map(ToOwned::to_owned).collect()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut kept = self.0.lock().map_err(|_| ErrorKind::Other)?;
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

fn settings(filter: &str, format: Format) -> Settings {
    Settings {
        filter: filter.parse().unwrap(),
        format,
        filter_file: None,
    }
}

/// What `act` logs.
fn lines(filter: &str, format: Format, act: impl FnOnce()) -> Vec<String> {
    let kept = Kept::default();
    let (_log, subscriber) = Log::new(settings(filter, format), kept.clone());
    tracing::subscriber::with_default(subscriber, act);
    kept.lines()
}

fn write_file() {
    tracing::info!(config = "rendered-worker-1", step = 3, path = %"/etc/x", "wrote file");
}

#[test]
fn a_record_is_one_line_with_the_message_first() {
    let lines = lines("2", Format::Text, write_file);
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
fn a_record_in_json_has_its_fields_by_name() {
    let lines = lines("info", Format::Json, write_file);
    let [line] = lines.as_slice() else {
        panic!("{lines:?}")
    };
    let (start, rest) = line.split_once("Z\",").unwrap();
    assert!(start.starts_with("{\"timestamp\":\""), "{line}");
    assert_eq!(
        rest,
        "\"level\":\"INFO\",\"message\":\"wrote file\",\"config\":\"rendered-worker-1\",\
         \"step\":3,\"path\":\"/etc/x\",\"target\":\"chassis::logs::tests\"}"
    );
}

#[test]
fn value_forges_no_record() {
    let forged = "x\n2026-01-01T00:00:00Z INFO update done\r\u{1b}[1A\u{9b}2J\u{202e}";
    for message in ["update failed", "update\nfailed"] {
        let fail = || tracing::error!(reason = %forged, node = "w\n2", "{message}");
        let lines = lines("2", Format::Text, fail);
        let [line] = lines.as_slice() else {
            panic!("{lines:?}")
        };
        assert!(!line.contains(char::is_control), "{line:?}");
        assert!(!line.contains('\u{202e}'), "{line:?}");
    }
    let fail = || tracing::error!(reason = %"a\nb \"c\" \\ é", "update failed");
    let text = lines("2", Format::Text, fail).concat();
    assert!(text.ends_with(r#"reason=a\nb "c" \ é"#), "{text}");
}

#[test]
fn an_error_is_logged_with_its_causes_in_both_formats() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot write {path}")]
    struct Write {
        path: &'static str,
        source: std::io::Error,
    }
    let error = Write {
        path: "/etc/x",
        source: std::io::Error::other("disk \"a\" is full"),
    };
    let fail = || tracing::error!(error = %Chain(&error), "update failed");
    let text = lines("2", Format::Text, fail).concat();
    let expected = r#"ERROR update failed error=cannot write /etc/x: disk "a" is full"#;
    assert!(text.ends_with(expected), "{text}");
    let json = lines("2", Format::Json, fail).concat();
    let expected = r#""error":"cannot write /etc/x: disk \"a\" is full""#;
    assert!(json.contains(expected), "{json}");
}

#[test]
fn the_filter_follows_its_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("filter");
    let kept = Kept::default();
    let (mut log, subscriber) = Log::new(
        Settings {
            filter_file: Some(path.clone()),
            ..settings("2", Format::Text)
        },
        kept.clone(),
    );
    let write = |text: &str| write(&path, text);
    let mut logged = || {
        log.reload();
        log.reload();
        tracing::debug!("detail");
        let lines = kept.lines();
        let lines = lines.iter().map(|line| line.split_once(' ').unwrap().1);
        lines.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    tracing::subscriber::with_default(subscriber, || {
        assert!(logged().is_empty());
        write("debug\n");
        let lines = logged();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].starts_with("INFO log filter changed filter="),
            "{lines:?}"
        );
        assert_eq!(lines[1], "DEBUG detail");
        // An invalid filter changes nothing, and is logged once.
        write("node=loud");
        let lines = logged();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].starts_with("WARN cannot change the log filter path="),
            "{lines:?}"
        );
        assert_eq!(lines[1], "DEBUG detail");
        std::fs::remove_file(&path).unwrap();
        let lines = logged();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].starts_with("INFO log filter changed filter="),
            "{lines:?}"
        );
    });
}

#[tokio::test(start_paused = true)]
async fn a_running_process_takes_a_new_filter_until_the_shutdown() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("filter");
    let kept = Kept::default();
    let (log, subscriber) = Log::new(
        Settings {
            filter_file: Some(path.clone()),
            ..settings("2", Format::Text)
        },
        kept.clone(),
    );
    let _default = tracing::subscriber::set_default(subscriber);
    let (stop, shutdown) = crate::shutdown::pair();
    let following = tokio::spawn(log.follow(shutdown));
    tokio::time::sleep(PERIOD / 2).await;
    write(&path, "debug");
    tracing::debug!("too early");
    tokio::time::sleep(PERIOD).await;
    tracing::debug!("detail");
    let lines = kept.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].ends_with("DEBUG detail"), "{lines:?}");
    stop.fire();
    following.await.unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a file of the test's own folder")]
fn write(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).unwrap();
}
