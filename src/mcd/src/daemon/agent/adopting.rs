//! Adopts the host as the Node, and keeps it so.

use api::machineconfiguration::{NodeStatus, annotation};
use chassis::report::Chain;
use host::files::Root;
use host::record;
use node::writer::Change;
use node_update::join_kubeconfig::JOIN_KUBECONFIG;
use node_update::plan::Target;

use super::Agent;
use super::error::{Error, Refusal};
use crate::daemon::adopt::{self, AnewPool};
use crate::daemon::helper::Priority;
use crate::daemon::{desired, join_kubeconfig, planning, prepare};
use crate::protocol::{Guard, HelperOutcome, Verb};

impl Agent {
    /// Adopts the host as the Node, once: the guard on the host, the first
    /// annotations, the first record.
    pub(super) async fn adopt(&self) -> Result<(), Error> {
        let _one = self.state.adopting.lock().await;
        if !self.state.facts().is_guarded {
            self.helper.stop_left(&prepare::VERBS).await?;
            self.at_once(&Verb::Guard(Guard::install())).await?;
            self.state.facts().is_guarded = true;
        }
        // Without the API server the host is still looked after.
        let Some(mut node) = desired::latest(&self.seen) else {
            return Ok(());
        };
        if node.is_control_plane && !self.state.facts().is_repository_set {
            match self.at_once(&Verb::SyncEachObject).await {
                Ok(()) => self.state.facts().is_repository_set = true,
                // How fast a disk is written is no reason to leave a node as it is.
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "the repository is not set yet");
                }
            }
        }
        let root = Root::open(&self.root, None).map_err(adopt::Error::from)?;
        if adopt::is_new(&node) {
            let first = adopt::first_annotations(&root)?;
            if !first.is_empty() {
                if let Some(config) = first.get(annotation::REGISTERED_ANEW) {
                    tracing::warn!(
                        config,
                        "the Node was registered anew: its host has this configuration already, \
                         and its labels may be lost"
                    );
                }
                let write = self.writer.write(move |node| adopt::annotate(node, &first));
                node = write.await?;
            }
        }
        let status = NodeStatus::read(&node.annotations);
        if record::read(&root).map_err(adopt::Error::from)?.is_none()
            && let Some(name) = &status.current_config
            && let Some(path) = planning::config_path(name)
        {
            let config: serde_json::Value = self.configs.get(&path).await?;
            let image = status.current_image.as_deref();
            record::write(&root, config.to_string().as_bytes(), image)
                .map_err(adopt::Error::from)?;
            tracing::info!(config = name, "wrote the first record of this host");
        }
        if !adopt::is_new(&node) {
            adopt::retire_first_annotations(&root)?;
        }
        Ok(())
    }

    /// Runs a verb of `mcd-os` that is no part of an update.
    async fn at_once(&self, verb: &Verb) -> Result<(), Error> {
        let name = self.name_attempt();
        let report = self.helper.run(verb, &name, Priority::Normal).await?;
        if report.outcome == HelperOutcome::Done {
            return Ok(());
        }
        Err(Error::NotDone(report))
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
            return Some(Chain(&error).to_string());
        }
        match read() {
            Ok(true) => None,
            Ok(false) => Some(Refusal::NoRecord.to_string()),
            Err(error) => text(error),
        }
    }

    /// Keeps a Node that was registered again from leaving its pool for want of labels.
    pub(super) async fn keep_to_pool(&self, to: &Target) -> Result<(), Error> {
        let Some(node) = desired::latest(&self.seen) else {
            return Ok(());
        };
        match adopt::judge_pool(&node, &to.config) {
            AnewPool::Free => Ok(()),
            AnewPool::Other(other) => Err(Refusal::from(other).into()),
            AnewPool::Back => {
                let key = annotation::REGISTERED_ANEW;
                let write = self.writer.write(|_| Change::default().remove(key));
                write.await?;
                tracing::info!("the Node is in the pool of its host again");
                Ok(())
            }
        }
    }

    /// Keeps the credential that no configuration brings.
    pub(super) fn keep_join_kubeconfig(&self) -> Result<(), Error> {
        if join_kubeconfig::keep(&self.root)? {
            tracing::warn!(path = JOIN_KUBECONFIG, "set the mode, which was another");
        }
        Ok(())
    }
}
