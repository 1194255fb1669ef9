//! The progress record is kept in its ConfigMap, for clients and for the process after this one.

use std::time::Duration;

use chassis::report::Chain;
use cluster::apply::Error as ApplyError;
use cluster::path;
use k8s_openapi::api::core::v1::ConfigMap;
use release::progress::{KEY, NAME, NAMESPACE, PassProgress, ProgressRecord};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::VersionOperator;
use version_update::report::Report;

/// After a failure; the record is for people, and the release goes on without it.
const RETRY: Duration = Duration::from_secs(15);

/// The progress record, and what is stored of it.
#[derive(Debug, Clone, Default)]
pub(super) struct LastRecord {
    /// As it is now.
    record: Option<ProgressRecord>,
    /// As it was read or written last, with the ConfigMap's resourceVersion; none before that.
    stored: Option<(Option<ProgressRecord>, Option<String>)>,
    written: Option<Instant>,
    failed: Option<Instant>,
}

impl LastRecord {
    /// Whether a release that is only kept as it is may end a record.
    fn is_open(&self) -> bool {
        let is_open = |record: &ProgressRecord| record.completed.is_none();
        self.stored.is_none() || self.record.as_ref().is_some_and(is_open)
    }
}

impl VersionOperator {
    /// Renews the record, and stores it if that is due. A failure is logged and tried again.
    pub(super) async fn record(&self, report: &Report) {
        let mut last = self.written().record.clone();
        if last.failed.is_some_and(|at| at.elapsed() < RETRY) || report.is_kept() && !last.is_open()
        {
            return;
        }
        let Some(pass) = report.progress() else {
            return;
        };
        last.failed = None;
        if let Err(error) = self.try_record(&mut last, &pass, report.is_kept()).await {
            // Another process may have written it: read again.
            last.stored = None;
            last.failed = Some(Instant::now());
            let is_missing = is_missing(&error);
            let error = Chain(&error).to_string();
            if is_missing {
                tracing::debug!(error, "the progress record has no namespace yet");
            } else {
                tracing::warn!(error, "cannot keep the progress record");
            }
        }
        self.written().record = last;
    }

    async fn try_record(
        &self,
        last: &mut LastRecord,
        pass: &PassProgress,
        is_kept: bool,
    ) -> Result<(), ApplyError> {
        let path = path::namespaced::<ConfigMap>(NAMESPACE, NAME);
        let (stored, version) = if let Some(stored) = last.stored.take() {
            stored
        } else {
            let read = self.read_record(&path).await?;
            if read.0.is_some() {
                // What is stored counts: it may be another process's, or of an earlier state of
                // the whole cluster.
                last.record.clone_from(&read.0);
            }
            read
        };
        let is_its = |record: &ProgressRecord| record.is_of(&pass.version, &pass.image);
        if is_kept && !last.record.as_ref().is_some_and(is_its) {
            last.stored = Some((stored, version));
            return Ok(());
        }
        let next = ProgressRecord::next(last.record.as_ref(), pass, (self.now)());
        let is_due = next.is_due(stored.as_ref(), last.written.map(|at| at.elapsed()));
        last.record = Some(next.clone());
        if !is_due {
            last.stored = Some((stored, version));
            return Ok(());
        }
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            // Another version is a conflict, and nothing is written.
            "metadata": { "name": NAME, "namespace": NAMESPACE, "resourceVersion": version },
            "data": { KEY: next.print() }
        });
        let written = match self.engine.requests().apply(&path, &map).await {
            // The release has no such namespace.
            Err(error) if is_missing(&error) && next.completed.is_some() => Value::Null,
            written => written?,
        };
        let version = written.pointer("/metadata/resourceVersion");
        let version = version.and_then(Value::as_str).map(str::to_owned);
        last.stored = Some((Some(next), version));
        last.written = Some(Instant::now());
        Ok(())
    }

    async fn read_record(
        &self,
        path: &str,
    ) -> Result<(Option<ProgressRecord>, Option<String>), ApplyError> {
        let map = self.access.find::<ConfigMap>(path).await;
        let map = map.map_err(|source| {
            let object = format!("ConfigMap {NAMESPACE}/{NAME}");
            ApplyError::Request { object, source }
        })?;
        let Some(map) = map else {
            return Ok((None, None));
        };
        let text = map.data.unwrap_or_default().remove(KEY).unwrap_or_default();
        let record = ProgressRecord::parse(&text).map_err(|error| {
            let error = error.to_string();
            tracing::warn!(error, "the progress record cannot be read, and restarts");
        });
        Ok((record.ok(), map.metadata.resource_version))
    }
}

fn is_missing(error: &ApplyError) -> bool {
    matches!(error, ApplyError::Request { source, .. } if source.is_not_found())
}
