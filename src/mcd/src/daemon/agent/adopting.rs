//! Host and Node made known to each other, and kept so.

use api::machineconfiguration::{NodeStatus, annotation};
use chassis::report::Chain;
use host::files::Root;
use host::record;
use node::writer::Change;
use node_update::join_kubeconfig::JOIN_KUBECONFIG;
use node_update::plan::Target;

use super::Agent;
use crate::daemon::adopt::{self, AnewPool};
use crate::daemon::helper::Priority;
use crate::daemon::{desired, join_kubeconfig, planning, prepare};
use crate::protocol::{Guard, HelperOutcome, Verb};

/// Why a host without a record cannot be managed.
pub(super) fn no_record() -> String {
    format!(
        "the host has no record of its configuration in {}, and the Node names none",
        record::CONFIG
    )
}

impl Agent {
    /// Makes the host and the Node known to each other, once: the guard on the host, the first
    /// annotations, the first record.
    pub(super) async fn adopt(&self) -> Result<(), String> {
        let _one = self.known.adopting.lock().await;
        if !self.known.facts().is_guarded {
            let left = self.helper.stop_left(&prepare::VERBS).await;
            left.map_err(|error| Chain(&error).to_string())?;
            self.at_once(&Verb::Guard(Guard::install())).await?;
            self.known.facts().is_guarded = true;
        }
        // Without the API server the host is still looked after.
        let Some(mut node) = desired::latest(&self.seen) else {
            return Ok(());
        };
        if node.is_control_plane && !self.known.facts().is_repository_set {
            match self.at_once(&Verb::SyncEachObject).await {
                Ok(()) => self.known.facts().is_repository_set = true,
                // How fast a disk is written is no reason to leave a node as it is.
                Err(error) => tracing::warn!(error, "the repository is not set yet"),
            }
        }
        let text = |error: adopt::Error| Chain(&error).to_string();
        let root = Root::open(&self.root, None).map_err(|error| text(error.into()))?;
        if adopt::is_new(&node) {
            let first = adopt::first_annotations(&root).map_err(text)?;
            if !first.is_empty() {
                if let Some(config) = first.get(annotation::REGISTERED_ANEW) {
                    tracing::warn!(
                        config,
                        "the Node was registered anew: its host has this configuration already, \
                         and its labels may be lost"
                    );
                }
                let write = self.writer.write(move |node| adopt::annotate(node, &first));
                node = write.await.map_err(|error| Chain(&error).to_string())?;
            }
        }
        let status = NodeStatus::read(&node.annotations);
        if record::read(&root)
            .map_err(|error| text(error.into()))?
            .is_none()
            && let Some(name) = &status.current_config
            && let Some(path) = planning::config_path(name)
        {
            let config: serde_json::Value = self
                .configs
                .get(&path)
                .await
                .map_err(|error| Chain(&error).to_string())?;
            let image = status.current_image.as_deref();
            record::write(&root, config.to_string().as_bytes(), image)
                .map_err(|error| text(error.into()))?;
            tracing::info!(config = name, "wrote the first record of this host");
        }
        if !adopt::is_new(&node) {
            adopt::retire_first_annotations(&root).map_err(text)?;
        }
        Ok(())
    }

    /// Runs a verb of `mcd-os` that is no part of an update.
    async fn at_once(&self, verb: &Verb) -> Result<(), String> {
        let name = self.name_attempt();
        let run = self.helper.run(verb, &name, Priority::Normal);
        match run.await {
            Ok(report) if report.outcome == HelperOutcome::Done => Ok(()),
            Ok(report) => Err(report.because()),
            Err(error) => Err(Chain(&error).to_string()),
        }
    }

    /// Takes a missing record from the Node; what is wrong with the record then, in words.
    pub(in crate::daemon) async fn mend_record(&self) -> Option<String> {
        let read = || -> Result<bool, record::Error> {
            let record = record::read(&Root::open(&self.root, None)?)?;
            let config = record.map(|record| record.machine_config()).transpose()?;
            Ok(config.is_some())
        };
        let text = |error: record::Error| Some(Chain(&error).to_string());
        match read() {
            Ok(true) => return None,
            Ok(false) => {}
            Err(error) => return text(error),
        }
        if let Err(error) = self.adopt().await {
            return Some(error);
        }
        match read() {
            Ok(true) => None,
            Ok(false) => Some(no_record()),
            Err(error) => text(error),
        }
    }

    /// Keeps a Node that was registered anew from leaving its pool for want of labels.
    pub(super) async fn keep_to_pool(&self, to: &Target) -> Result<(), String> {
        let Some(node) = desired::latest(&self.seen) else {
            return Ok(());
        };
        match adopt::judge_pool(&node, &to.config) {
            AnewPool::Free => Ok(()),
            AnewPool::Other(text) => Err(text),
            AnewPool::Back => {
                let key = annotation::REGISTERED_ANEW;
                let write = self.writer.write(|_| Change::default().remove(key));
                write.await.map_err(|error| Chain(&error).to_string())?;
                tracing::info!("the Node is in the pool of its host again");
                Ok(())
            }
        }
    }

    /// Keeps the credential that no configuration brings.
    pub(super) fn keep_join_kubeconfig(&self) -> Result<(), String> {
        let set = join_kubeconfig::keep(&self.root).map_err(|error| Chain(&error).to_string())?;
        if set {
            tracing::warn!(path = JOIN_KUBECONFIG, "set the mode, which was another");
        }
        Ok(())
    }
}
