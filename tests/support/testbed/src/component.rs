//! The components of the product, as `deploy/` has them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use kube::api::DynamicObject;
use lab::control_plane::Process;
use lab::host::{Host, Pod, PodSpec};
use lab::manifest;
use lab::workload::{FromCluster, Workload};
use serde_json::json;

use crate::images::ComponentImages;
use crate::{Cluster, account, workspace};

/// A folder of `deploy/`: objects, of which one runs a program. A DaemonSet's program runs on every
/// host as its pod would; a Deployment's replicas are processes of this machine, with the rights of
/// their service account. Where pods are processes, the cluster itself runs both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Component {
    /// Name of the folder.
    pub folder: &'static str,
    /// Programs of its image that its container does not run itself.
    pub carries: &'static [&'static str],
    /// What its replicas are named after, with a number each.
    pub replica: &'static str,
}

/// The node's daemon. What its helper links is the host's.
pub const DAEMON: Component = Component {
    folder: "daemon",
    carries: &["mcd-os"],
    replica: "mcd",
};

/// What the cluster has once: the release, the settings.
pub const OPERATOR: Component = Component {
    folder: "operator",
    carries: &[],
    replica: "mco",
};

/// The controller of pools.
pub const CONTROLLER: Component = Component {
    folder: "controller",
    carries: &[],
    replica: "mcc",
};

/// All components, in the order in which their objects are applied.
pub(crate) const ALL: [Component; 3] = [DAEMON, OPERATOR, CONTROLLER];

impl Component {
    fn objects(self) -> Result<Vec<DynamicObject>> {
        manifest::component(&workspace().join("deploy").join(self.folder))
    }

    /// Its objects with images of the registry.
    pub(crate) fn objects_with(self, images: &ComponentImages) -> Result<Vec<DynamicObject>> {
        let mut objects = self.objects()?;
        images.name_in(&mut objects);
        Ok(objects)
    }

    /// What runs its program.
    pub(crate) fn workload(self) -> Result<Workload> {
        Workload::among(&self.objects()?)
            .with_context(|| format!("cannot use deploy/{}", self.folder))
    }

    /// The same, with Deployments of no pods.
    pub(crate) fn idle_objects(self, images: &ComponentImages) -> Result<Vec<DynamicObject>> {
        let mut objects = self.objects_with(images)?;
        idle(&mut objects);
        Ok(objects)
    }
}

/// Has Deployments have no pods.
pub(crate) fn idle(objects: &mut [DynamicObject]) {
    for object in objects {
        let types = object.types.as_ref();
        let is_deployment = types.is_some_and(|types| types.kind == "Deployment");
        let replicas = object.data.pointer_mut("/spec/replicas");
        if let Some(replicas) = replicas.filter(|_| is_deployment) {
            *replicas = json!(0);
        }
    }
}

/// Words of a call without the options that others take the place of: `--name=…`.
fn without<'a>(
    words: impl Iterator<Item = String> + 'a,
    others: &'a [String],
) -> impl Iterator<Item = String> + 'a {
    let name = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
    words.filter(move |word| !others.iter().any(|other| name(other) == name(word)))
}

impl Cluster {
    /// Starts the replicas of a component, each with a folder of its name for its log and
    /// credentials. They have these arguments besides those in `deploy/`.
    pub async fn run(&mut self, component: Component, arguments: &[&str]) -> Result<()> {
        let workload = component.workload()?;
        let own = if component == CONTROLLER {
            self.controller_arguments.clone()
        } else {
            Vec::new()
        };
        let count = workload.replicas;
        for number in 0..count.context("a component without a Deployment")? {
            let mut given = self.given("", String::new());
            let program = workload.call(&given)?.program().to_owned();
            let name = format!("{}-{number}", component.replica);
            name.clone_into(&mut given.pod_name);
            let dir = self.logs.join(&name);
            fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
            let kubeconfig = dir.canonicalize()?.join("kubeconfig");
            account::write_kubeconfig(&self.control_plane, &workload, &kubeconfig).await?;

            let call = workload.call(&given)?.on_loopback();
            let variables = call.environment.iter();
            let variables = variables.map(|(name, value)| format!("{name}={value}"));
            let words = variables
                .chain([self.programs.path(&program)?.display().to_string()])
                .chain(without(call.words.into_iter().skip(1), &own))
                .chain(own.iter().cloned())
                .chain([format!("--kubeconfig={}", kubeconfig.display())])
                .chain(arguments.iter().map(ToString::to_string));
            let replica = Process::start(&name, Path::new("env"), words, &dir)?;
            self.replicas.insert(name, replica);
        }
        Ok(())
    }

    /// Starts a component's pod on a host.
    pub(crate) async fn start_pod(&self, component: Component, host: &Host) -> Result<Pod> {
        let workload = component.workload()?;
        let dir = self.logs.join(host.name()).join(component.folder);
        account::write_mount(&self.control_plane, &workload, &dir).await?;
        let pod_name = format!("{}-{}", workload.name, host.name());
        let given = FromCluster {
            service_account: Some(dir),
            ..self.given(host.name(), pod_name)
        };
        let call = workload.call(&given)?;
        let program = self.programs.path(call.program())?;
        let at = call.words.first().context("a pod without a program")?;
        let mut spec = PodSpec::of(&workload, &given)?.program(&program, at);
        for name in component.carries {
            spec = spec.carried(&self.programs.path(name)?, &format!("/usr/bin/{name}"));
        }
        Pod::start(host, spec)
    }

    pub(crate) fn given(&self, node: &str, pod_name: String) -> FromCluster {
        FromCluster {
            node_name: node.to_owned(),
            pod_name,
            server: self.control_plane.server(),
            service_account: None,
            volumes: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_take_the_place_of_those_with_their_name() {
        let words = ["start", "--image=a", "--image-of=b"].map(str::to_owned);
        let left: Vec<_> = without(words.into_iter(), &["--image=c".to_owned()]).collect();
        assert_eq!(left, ["start", "--image-of=b"]);
    }
}
