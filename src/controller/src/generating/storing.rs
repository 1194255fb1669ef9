//! A generated MachineConfig is made, restored or removed.

use api::machineconfiguration::{MachineConfig, MachineConfigSpec, label};
use chassis::program::BUILD;
use cluster::cache::WatchEvent;
use cluster::objects::Precondition;
use cluster::wire;
use generated::object::GeneratedConfig;
use serde_json::{Value, json};

use super::Generating;
use crate::configs::ConfigMeta;
use crate::context::lock;
use crate::decide::generating::ownership::foreign_config;
use crate::merge_patch::replacement;
use crate::store::Snapshot;

/// What became of a MachineConfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Storing {
    /// It is as it was generated.
    Done,
    Refused(String),
    Late,
}

/// A MachineConfig as it was compared.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stored {
    uid: String,
    generation: Option<i64>,
    spec: Value,
}

impl Generating<'_> {
    /// Has a MachineConfig be as it was generated. One of its name that no object of the kind
    /// controls is left alone.
    pub(super) async fn store_generated(
        &self,
        snapshot: &Snapshot,
        config: &GeneratedConfig,
    ) -> Result<Storing, wire::Error> {
        let wanted = config.to_object(BUILD);
        let Some(present) = snapshot.configs.get(&config.name) else {
            return match self.context.requests.create_config(&wanted).await? {
                Some(created) => {
                    tracing::info!(config = config.name, "generated a MachineConfig");
                    self.remember(config, created);
                    Ok(Storing::Done)
                }
                None => Ok(Storing::Late),
            };
        };
        let maker = config.maker.as_ref().map(|maker| maker.kind);
        if let Some(why) = foreign_config(present, maker) {
            return Ok(Storing::Refused(why));
        }
        let controller = present.controller.as_ref();
        let is_labelled = present.labels.get(label::ROLE) == Some(&config.role)
            && present.generated_by.as_deref() == Some(BUILD)
            && config.maker.as_ref().is_none_or(|maker| {
                controller.is_some_and(|controller| controller.uid == maker.uid)
            });
        let remembered = Stored {
            uid: present.uid.clone(),
            generation: present.generation,
            spec: config.spec.clone(),
        };
        if is_labelled && lock(self.state).stored.get(&config.name) == Some(&remembered) {
            return Ok(Storing::Done);
        }
        let Some(read) = self.context.requests.read_config(&config.name).await? else {
            return Ok(Storing::Late);
        };
        let spec: MachineConfigSpec =
            serde_json::from_value(config.spec.clone()).unwrap_or_default();
        if is_labelled && read.spec == spec {
            self.remember(config, ConfigMeta::of(read.metadata));
            return Ok(Storing::Done);
        }
        let present = serde_json::to_value(&read.spec).unwrap_or_default();
        let spec = serde_json::to_value(&spec).unwrap_or_default();
        let mut metadata = wanted
            .get("metadata")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        metadata.remove("name");
        let version = json!(read.metadata.resource_version);
        metadata.insert("resourceVersion".to_owned(), version);
        let change = json!({ "metadata": metadata, "spec": replacement(&present, &spec) });
        let written = self
            .context
            .requests
            .change_config(&config.name, &change)
            .await?;
        tracing::info!(config = config.name, "generated a MachineConfig anew");
        self.remember(config, written);
        Ok(Storing::Done)
    }

    fn remember(&self, config: &GeneratedConfig, meta: ConfigMeta) {
        let stored = Stored {
            uid: meta.uid.clone(),
            generation: meta.generation,
            spec: config.spec.clone(),
        };
        lock(self.state).stored.insert(config.name.clone(), stored);
        self.context.store.configs.apply(WatchEvent::Applied(meta));
    }

    /// Removes a MachineConfig that no object needs any more.
    pub(super) async fn remove_generated(
        &self,
        snapshot: &Snapshot,
        name: &str,
    ) -> Result<(), wire::Error> {
        lock(self.state).stored.remove(name);
        let Some(present) = snapshot.configs.get(name) else {
            return Ok(());
        };
        let precondition = Precondition::uid(Some(&present.uid));
        let configs = self.context.requests.objects::<MachineConfig>();
        configs.delete(name, precondition).await?;
        tracing::info!(config = name, "removed a generated MachineConfig");
        let present = present.as_ref().clone();
        self.context
            .store
            .configs
            .apply(WatchEvent::Deleted(present));
        Ok(())
    }
}
