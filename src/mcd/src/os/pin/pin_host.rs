//! What of a host is needed beside its runtime.

use std::future::Future;
use std::io;

use anyhow::Context as _;
use host::files::Root;
use host::pull::Puller;
use host::systemd::{Job, SystemdClient};
use node_update::well_known::CRIO;

/// What a run does on a host beside the runtime.
pub(super) trait PinHost: Send + Sync + 'static {
    /// Has CRI-O read its settings again.
    fn reload_crio(&self) -> impl Future<Output = anyhow::Result<()>>;

    /// What a registry has for a pull spec: a manifest or an index. It blocks.
    fn manifest(&self, image: &str) -> anyhow::Result<Vec<u8>>;

    /// Free bytes of the file system at a path of the host.
    fn free_bytes(&self, root: &Root, place: &str) -> io::Result<u64>;
}

/// The host that this program runs on.
#[derive(Debug, Default)]
pub(super) struct LiveHost {
    pub(super) puller: Puller,
}

impl PinHost for LiveHost {
    async fn reload_crio(&self) -> anyhow::Result<()> {
        let systemd = SystemdClient::connect(None).await?;
        let reloaded = systemd.run(Job::Reload, CRIO).await;
        reloaded.context("cannot have CRI-O read its pinned images")
    }

    fn manifest(&self, image: &str) -> anyhow::Result<Vec<u8>> {
        Ok(self.puller.manifest(image)?)
    }

    fn free_bytes(&self, root: &Root, place: &str) -> io::Result<u64> {
        host::room::free(&root.path().join(place.trim_start_matches('/')))
    }
}
