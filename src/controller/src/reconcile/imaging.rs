//! A pool that has a MachineOSConfig: how far its image is, and which build its annotation names.

use api::machineconfiguration::annotation;
use cluster::wire;
use pool::image::PoolImage;
use pool::view::PoolView;

use super::Controller;
use crate::store::{Pool, Snapshot};

impl Controller {
    /// Names the build of the pool's image in its annotation, where that changes; one of other
    /// inputs is no longer named. The pool as it is then.
    ///
    /// # Errors
    /// Those of the API server.
    pub(super) async fn name_build(
        &self,
        snapshot: &Snapshot,
        pool: Pool,
    ) -> Result<Pool, wire::Error> {
        let image = image(snapshot, &pool.view);
        let build = image.as_ref().and_then(PoolImage::build);
        let annotations = pool.object.metadata.annotations.as_ref();
        let named = annotations.and_then(|it| it.get(annotation::CURRENT_MACHINE_OS_BUILD));
        if named.map(String::as_str) == build {
            return Ok(pool);
        }
        let written = self.context.requests.name_build(&pool, build).await?;
        self.context.store.pools.refresh(written.clone());
        Ok(written)
    }
}

/// Puts a pool that has a MachineOSConfig in image mode.
pub(super) fn follow_image(snapshot: &Snapshot, pool: &mut PoolView) {
    if let Some(image) = image(snapshot, pool) {
        pool.follow_image(image);
    }
}

fn image(snapshot: &Snapshot, pool: &PoolView) -> Option<PoolImage> {
    let config = snapshot.os_configs.get(&pool.name)?;
    let build = |name: &str| snapshot.os_builds.get(name).map(AsRef::as_ref);
    Some(PoolImage::read(config, build, pool.target_config()))
}
