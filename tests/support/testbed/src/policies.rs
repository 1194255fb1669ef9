//! Node disruption policies, as an administrator writes them and the controller puts them in force.

use anyhow::{Context as _, Result};
use api::operator::MachineConfiguration;
use api::operator::machine_configuration::NAME;
use kube::Api;
use serde_json::{Value, json};

use crate::{Cluster, SOON, until};

impl Cluster {
    /// Writes what a change of files, units and keys does: `spec.nodeDisruptionPolicy`.
    pub async fn write_policies(&self, policies: &Value) -> Result<()> {
        let settings = json!({
            "apiVersion": "operator.openshift.io/v1",
            "kind": "MachineConfiguration",
            "metadata": { "name": NAME },
            "spec": { "managementState": "Managed", "nodeDisruptionPolicy": policies },
        });
        self.apply(&settings.to_string()).await
    }

    /// Waits until the controller has put the policies in force that were written last; the
    /// cluster's settings then.
    pub async fn policies_in_force(&self) -> Result<MachineConfiguration> {
        until("the policies to be in force", SOON, async || {
            let settings = self.settings().await?;
            let observed = settings
                .status
                .as_ref()
                .and_then(|status| status.observed_generation);
            Ok(if observed == settings.metadata.generation {
                Ok(settings)
            } else {
                Err(format!("{:?}", settings.status))
            })
        })
        .await
    }

    /// The cluster's settings.
    pub async fn settings(&self) -> Result<MachineConfiguration> {
        let settings = Api::<MachineConfiguration>::all(self.objects().client().clone());
        settings.get(NAME).await.context("no MachineConfiguration")
    }
}
