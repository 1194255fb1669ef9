//! The components' images, as `make images` makes them, in the lab's registry.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use image_builder::component::OS_BUILDER;
use image_builder::{Architecture, Options, Packing, build_named, push};
use kube::api::DynamicObject;
use lab::manifest;
use serde_json::Value;

use crate::component::idle;
use crate::{Cluster, HostLab, Programs, workspace};

/// Images of [`crate::component::ALL`].
const NAMES: [&str; 2] = ["slipway-mcc", "slipway-mcd"];

/// The config server's, which [`NAMES`] has not.
const CONFIG_SERVER: &str = "slipway-mcs";

/// Images that a release of these is made of.
const OF_RELEASE: [&str; 4] = ["slipway-cvo", "slipway-mcc", "slipway-mcd", OS_BUILDER];

/// Pull specs by the names that `deploy/` has in their place; none where no pod is a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct ComponentImages(BTreeMap<&'static str, String>);

impl ComponentImages {
    /// Makes and pushes all.
    pub(crate) async fn push(host_lab: &HostLab, programs: &Programs) -> Result<Self> {
        Ok(Self(push_named(host_lab, programs, &NAMES, None).await?))
    }

    /// Names them in the pod templates of objects.
    pub(crate) fn name_in(&self, objects: &mut [DynamicObject]) {
        for object in objects {
            let containers = object.data.pointer_mut("/spec/template/spec/containers");
            for container in containers
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                let image = container.get_mut("image");
                if let Some(image) = image
                    && let Some(pull_spec) = image.as_str().and_then(|name| self.0.get(name))
                {
                    *image = pull_spec.as_str().into();
                }
            }
        }
    }
}

impl Cluster {
    /// Makes and pushes the images that a release is made of, by name: those that the cluster runs,
    /// or others that are labelled with a version.
    pub async fn push_components(
        &self,
        version: Option<&str>,
    ) -> Result<BTreeMap<&'static str, String>> {
        push_named(self.host_lab()?, &self.programs, &OF_RELEASE, version).await
    }

    /// The image that builds images of the OS, made and pushed; its pull spec.
    pub(crate) async fn push_os_builder(&self) -> Result<String> {
        let host_lab = self.host_lab()?;
        let images = push_named(host_lab, &self.programs, &[OS_BUILDER], None).await?;
        let image = images.into_values().next();
        image.context("the image that builds images was not made")
    }

    /// The objects of a folder of `deploy/` whose pods run in the cluster, with the image of this
    /// name made and pushed.
    pub async fn deployed(&self, folder: &str, image: &'static str) -> Result<Vec<DynamicObject>> {
        let images = push_named(self.host_lab()?, &self.programs, &[image], None).await?;
        let mut objects = manifest::component(&workspace().join("deploy").join(folder))?;
        ComponentImages(images).name_in(&mut objects);
        Ok(objects)
    }

    /// The objects of the whole of `deploy/`, as `kubectl kustomize` prints them, for a cluster
    /// with hosts whose pods are processes. They lack definitions, which it has, and pods of the
    /// controller, which runs beside it.
    pub async fn whole(&self) -> Result<Vec<DynamicObject>> {
        let mut images = self.images.clone();
        let names = [CONFIG_SERVER];
        let more = push_named(self.host_lab()?, &self.programs, &names, None).await?;
        images.0.extend(more);
        let deploy = workspace().join("deploy");
        let text = self
            .control_plane
            .kubectl(&["kustomize", &deploy.to_string_lossy()])?;
        let mut objects = manifest::parse(&text)?;
        objects.retain(|object| {
            let types = object.types.as_ref();
            types.is_none_or(|types| types.kind != "CustomResourceDefinition")
        });
        images.name_in(&mut objects);
        idle(&mut objects);
        Ok(objects)
    }
}

async fn push_named(
    host_lab: &HostLab,
    programs: &Programs,
    names: &[&str],
    version: Option<&str>,
) -> Result<BTreeMap<&'static str, String>> {
    let out = host_lab.lab.dir().join("images");
    let options = Options {
        checkout: workspace(),
        architecture: Architecture::Amd64,
        programs: programs.folder().to_owned(),
        packages: lab::cache::dir().join("debian"),
        out: out.clone(),
        version: version.map(ToOwned::to_owned),
        packing: Packing::Fast,
        parts: programs.parts().clone(),
    };
    let built = build_named(&options, names)
        .await
        .context("cannot make the components' images")?;
    let prefix = format!("{}/slipway", host_lab.registry.location());
    let mut images = BTreeMap::new();
    for image in built {
        let pull_spec = push::push(&out, &image, &prefix, true)?;
        images.insert(image.name, pull_spec.to_string());
    }
    Ok(images)
}
