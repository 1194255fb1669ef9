//! Objects that a release dropped are removed, if the program was started to do so.

use api::config::ClusterVersion;
use cluster::apply::Error as ApplyError;
use cluster::{discovery, path};
use k8s_openapi::api::core::v1::ConfigMap;
use release::manifest::ObjectId;

use super::{Loaded, VersionOperator};
use version_update::dropped::{self, InventoryObject, ReleaseInventory};

impl VersionOperator {
    /// Removes what the release before had and this one has not, once all of this one is applied;
    /// then remembers what this one has. What fails is tried again after the next pass.
    pub(super) async fn prune(&self, object: &ClusterVersion, loaded: &Loaded) {
        let Some(namespace) = &self.settings.inventory else {
            return;
        };
        let files = &loaded.files;
        let now = ReleaseInventory::of(&files.release.image, &files.inventory.entries);
        if self.releases().inventory.as_ref() == Some(&now) {
            return;
        }
        match self.try_prune(object, namespace, &now).await {
            Ok(()) => self.releases().inventory = Some(now),
            Err(error) => {
                let error = chassis::report::Chain(&error).to_string();
                tracing::warn!(error, "cannot remove what the release dropped");
            }
        }
    }

    async fn try_prune(
        &self,
        object: &ClusterVersion,
        namespace: &str,
        now: &ReleaseInventory,
    ) -> Result<(), ApplyError> {
        let path = path::namespaced::<ConfigMap>(namespace, dropped::NAME);
        let map = self.access.find::<ConfigMap>(&path).await;
        let map = map.map_err(|source| {
            let object = format!("ConfigMap {namespace}/{}", dropped::NAME);
            ApplyError::Request { object, source }
        })?;
        let before = map.map_or_else(ReleaseInventory::default, |map| {
            ReleaseInventory::parse(&map.data.unwrap_or_default())
        });
        if before == *now {
            return Ok(());
        }
        let uid = object.metadata.uid.clone().unwrap_or_default();
        for one in now.dropped(&before) {
            self.remove(&one, &uid).await?;
        }
        let map = now.to_object(namespace);
        self.engine.requests().apply(&path, &map).await?;
        Ok(())
    }

    async fn remove(&self, one: &InventoryObject, uid: &str) -> Result<(), ApplyError> {
        let InventoryObject {
            api_version,
            kind,
            namespace,
            name,
        } = one;
        let requests = self.engine.requests();
        let served = match requests.served(api_version, kind).await {
            Ok(served) => served,
            // Its kind went with it.
            Err(ApplyError::Discover {
                source: discovery::Error::NotServed { .. },
                ..
            }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let group = api_version.rsplit_once('/');
        let id = ObjectId {
            group: group.map_or("", |(group, _)| group).to_owned(),
            kind: kind.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
        };
        let path = served.path(namespace, name);
        let found = match requests.read(&id, &path).await {
            Ok(found) => found,
            Err(ApplyError::Request { source, .. }) if source.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        if !dropped::is_ours(&found, uid) {
            tracing::info!(object = %id, "the release dropped an object that others own");
            return Ok(());
        }
        if one.is_kept() {
            tracing::warn!(object = %id, "the release dropped an object that may hold others' data: it stays");
            return Ok(());
        }
        tracing::info!(object = %id, "removing an object that the release dropped");
        requests.delete(&id, &path).await
    }
}
