//! Programs in the place of those that a cluster was started with.

use std::time::Duration;

use anyhow::Result;

use crate::{Cluster, DAEMON, Programs};

/// What a DaemonSet's pod has between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(30);

impl Cluster {
    /// Ends the daemon of a node in order, and starts another one, as an update of its DaemonSet
    /// does.
    pub async fn replace_daemon(&mut self, node: &str, programs: &Programs) -> Result<()> {
        let key = (DAEMON.folder, node.to_owned());
        if let Some(mut pod) = self.pods.remove(&key) {
            tokio::task::block_in_place(|| pod.stop(GRACE))?;
        }
        programs.clone_into(&mut self.programs);
        let pod = self.start_pod(DAEMON, self.host(node)?).await?;
        self.pods.insert(key, pod);
        Ok(())
    }

    /// Ends all replicas in order, so that each gives its lease back, and starts others.
    pub async fn replace_replicas(&mut self, programs: &Programs) -> Result<()> {
        for (_, replica) in std::mem::take(&mut self.replicas) {
            tokio::task::block_in_place(|| replica.stop())?;
        }
        programs.clone_into(&mut self.programs);
        for component in crate::component::ALL {
            if component.workload()?.replicas.is_some() {
                self.run(component, &[]).await?;
            }
        }
        Ok(())
    }

    /// Applies the custom resource definitions of a folder, in the place of those that are there.
    pub async fn redefine(&self, definitions: &std::path::Path) -> Result<()> {
        lab::manifest::define(self.objects.client(), definitions).await?;
        Ok(())
    }
}
