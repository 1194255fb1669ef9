//! Pools as they were read, with what is built for them.

use api::machineconfiguration::label::role;
use api::machineconfiguration::{
    MachineConfigPool, MachineOSBuild, MachineOSConfig, OSImageStream,
};
use pool::image::PoolImage;
use pool::view::PoolView;

/// MachineConfigPools, and the objects of those in image mode.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolObjects {
    pub(crate) pools: Vec<MachineConfigPool>,
    pub(crate) os_configs: Vec<MachineOSConfig>,
    pub(crate) os_builds: Vec<MachineOSBuild>,
    /// OSImageStream `cluster`, where there is one.
    pub(crate) os_streams: Vec<OSImageStream>,
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

    /// The stream of OS images that a pool is to have: its own, that of pool `worker` for a custom
    /// one, else the default. None in a cluster without streams.
    pub(crate) fn stream(&self, pool: &MachineConfigPool) -> Option<String> {
        let streams = self.os_streams.first()?;
        let of = |pool: &MachineConfigPool| pool.spec.os_image_stream.clone();
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let worker = || {
            let mut pools = self.pools.iter();
            let worker = pools.find(|it| it.metadata.name.as_deref() == Some(role::WORKER))?;
            of(worker)
        };
        let inherited = || (!role::is_control_plane(name)).then(worker)?;
        let default = || {
            let default = &streams.status.as_ref()?.default_stream;
            (!default.is_empty()).then(|| default.clone())
        };
        let chosen = of(pool).or_else(inherited);
        chosen.map(|stream| stream.name).or_else(default)
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
