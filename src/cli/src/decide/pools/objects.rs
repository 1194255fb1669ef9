//! Pools as they were read, with what is built for them.

use api::machineconfiguration::{MachineConfigPool, MachineOSBuild, MachineOSConfig};
use pool::image::PoolImage;
use pool::view::PoolView;

/// MachineConfigPools, and the objects of those in image mode.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolObjects {
    pub(crate) pools: Vec<MachineConfigPool>,
    pub(crate) os_configs: Vec<MachineOSConfig>,
    pub(crate) os_builds: Vec<MachineOSBuild>,
}

impl PoolObjects {
    /// The pools as their controller sees them, in the order of the objects.
    pub(crate) fn views(&self) -> Vec<PoolView> {
        let views = self.pools.iter().map(PoolView::parse);
        let views = views.map(|mut view| {
            if let Some(image) = self.image(&view) {
                view.follow_image(image);
            }
            view
        });
        views.collect()
    }

    fn image(&self, view: &PoolView) -> Option<PoolImage> {
        let mut configs = self.os_configs.iter();
        let config = configs.find(|it| it.metadata.name.as_deref() == Some(&view.name))?;
        let build = |name: &str| {
            let mut builds = self.os_builds.iter();
            builds.find(|it| it.metadata.name.as_deref() == Some(name))
        };
        Some(PoolImage::read(config, build, view.target_config()))
    }

    /// When the build of this name began, if it did and has not ended.
    pub(crate) fn began(&self, build: &str) -> Option<jiff::Timestamp> {
        let mut builds = self.os_builds.iter();
        let build = builds.find(|it| it.metadata.name.as_deref() == Some(build))?;
        let status = build.status.as_ref()?;
        let start = status.build_start.as_ref()?;
        status.build_end.is_none().then_some(start.0)
    }
}

impl From<Vec<MachineConfigPool>> for PoolObjects {
    fn from(pools: Vec<MachineConfigPool>) -> Self {
        Self {
            pools,
            ..Self::default()
        }
    }
}
