//! How a cluster comes up: the control plane with what an installer applies, then its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::machineconfiguration::{MachineConfig, NodeState, annotation};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use lab::control_plane::{ControlPlane, Older, Options, Parts, definitions};
use lab::host::{BOOTED_WITHIN, Containers, Host, HostSpec};
use lab::manifest;
use lab::tree::Overlay;
use serde_json::json;

use crate::component::{self, Component};
use crate::images::ComponentImages;
use crate::node_spec::CONTROL_PLANE_POOL;
use crate::objects::{self, Objects};
use crate::{Authority, Cluster, HostLab, NodeSpec, Programs, SOON, VERSION, account, logs, until};

/// The pool that every cluster has.
const WORKERS: &str = include_str!("worker.yaml");

/// The pool of control-plane nodes, where there are some.
const CONTROL_PLANE: &str = include_str!("control_plane.yaml");

/// A cluster to be.
#[derive(Clone, Debug)]
pub struct Testbed {
    logs: PathBuf,
    programs: Option<Programs>,
    components: Vec<Component>,
    definitions: Option<PathBuf>,
    objects: String,
    nodes: Vec<NodeSpec>,
    control_plane_os: Option<Overlay>,
    has_certificates: bool,
    builds_images: bool,
    is_of_a_release: bool,
}

impl Testbed {
    /// One with all components and without nodes. Logs of the control plane, the programs and the
    /// hosts are in the folder `logs`.
    pub fn new(logs: impl Into<PathBuf>) -> Self {
        Self {
            logs: logs.into(),
            programs: None,
            components: component::ALL.to_vec(),
            definitions: None,
            objects: String::new(),
            nodes: Vec::new(),
            control_plane_os: None,
            has_certificates: false,
            builds_images: false,
            is_of_a_release: false,
        }
    }

    /// Runs these programs instead of those that `make binaries` leaves.
    #[must_use]
    pub fn programs(mut self, programs: &Programs) -> Self {
        self.programs = Some(programs.clone());
        self
    }

    /// Has operator and controller belong to release [`VERSION`]: they take over its images as soon
    /// as its `ConfigMap`s are there.
    #[must_use]
    pub fn of_a_release(mut self) -> Self {
        self.is_of_a_release = true;
        self
    }

    /// Runs these components only. The objects of all are there nevertheless.
    #[must_use]
    pub fn components(mut self, components: &[Component]) -> Self {
        self.components = components.to_vec();
        self
    }

    /// With the custom resource definitions in a folder, instead of those of [`definitions`].
    #[must_use]
    pub fn definitions(mut self, dir: &Path) -> Self {
        self.definitions = Some(dir.to_owned());
        self
    }

    /// With these objects, as YAML.
    #[must_use]
    pub fn objects(mut self, yaml: &str) -> Self {
        yaml.clone_into(&mut self.objects);
        self
    }

    /// With another node. Without any, the control plane has no part that acts on objects, and
    /// needs no root.
    #[must_use]
    pub fn node(mut self, node: NodeSpec) -> Self {
        self.nodes.push(node);
        self
    }

    /// With control-plane nodes that run this OS.
    #[must_use]
    pub fn control_plane_os(mut self, os: Overlay) -> Self {
        self.control_plane_os = Some(os);
        self
    }

    /// With kubelets that the API server knows by certificates, as clusters have them, in place of
    /// tokens.
    #[must_use]
    pub fn certificates(mut self) -> Self {
        self.has_certificates = true;
        self
    }

    /// With what builds images of the OS for pools: the controller names the image that its Jobs
    /// run.
    #[must_use]
    pub fn builds_images(mut self) -> Self {
        self.builds_images = true;
        self
    }

    /// Starts it with the pool `worker`; returns when every node is Done in the first configuration
    /// of its pool, which names the image of the OS that it runs.
    ///
    /// With control-plane nodes, the Deployments of components run on them; what they rendered
    /// before, in place of a bootstrap, are processes of this machine until then.
    pub async fn start(self) -> Result<Cluster> {
        let has_control_plane = self.nodes.iter().any(NodeSpec::is_control_plane);
        let components = self.components.clone();
        let mut cluster = self.boot().await?;
        cluster.adopt().await?;
        if has_control_plane {
            for component in components {
                cluster.move_in(component).await?;
            }
        }
        Ok(cluster)
    }

    /// The same, but for what runs on nodes: they are as an installer leaves them.
    pub async fn boot(self) -> Result<Cluster> {
        let mut cluster = self.without_nodes().await?;
        if self.builds_images {
            let image = cluster.push_os_builder().await?;
            cluster.controller_arguments = vec![format!("--os-builder-image={image}")];
        }
        let version = format!("--release-version={VERSION}");
        let arguments = if self.is_of_a_release {
            vec![version.as_str()]
        } else {
            Vec::new()
        };
        for component in self.components {
            if component.workload()?.replicas.is_some() {
                cluster.run(component, &arguments).await?;
            } else {
                cluster.on_nodes.push(component);
            }
        }
        for node in &self.nodes {
            let target = cluster.next_target(node.pool(), "").await?;
            let config = cluster.objects.machine_config(&target).await?;
            let os = self.control_plane_os.as_ref();
            let os = os.filter(|_| node.is_control_plane());
            let spec = cluster.host_spec(node, &config, os)?;
            let mut host = Host::create(&cluster.host_lab()?.lab, spec)?;
            if !node.is_fresh {
                host.start()?;
            }
            cluster.hosts.push(host);
            cluster.targets.insert(node.pool().to_owned(), target);
        }
        for node in self.nodes.iter().filter(|node| !node.is_fresh) {
            cluster.join(node).await?;
        }
        Ok(cluster)
    }

    /// The control plane and the registry, with what an installer applies.
    async fn without_nodes(&self) -> Result<Cluster> {
        let programs = self.programs.clone().map_or_else(Programs::built, Ok)?;
        let dir = self.logs.join("control-plane");
        logs::empty(&dir)?;
        let dir = Some(dir);
        let signer = self
            .has_certificates
            .then(|| Authority::make("signer of clients"));
        let signer = signer.transpose()?;
        let (host_lab, options) = if self.nodes.is_empty() {
            let parts = Parts::Api;
            (
                None,
                Options {
                    dir,
                    parts,
                    ..Options::default()
                },
            )
        } else {
            let host_lab = HostLab::new()?;
            let names = self.nodes.iter().map(|node| node.name.clone()).collect();
            let address = host_lab.lab.address().into();
            let options = Options {
                dir,
                client_authority: signer.as_ref().map(|signer| signer.pem.clone()),
                ..Options::for_hosts(address, names)
            };
            (Some(host_lab), options)
        };
        // The image needs no API server, which takes about as long.
        let (os, control_plane) = std::thread::scope(|scope| {
            let os = scope.spawn(|| match &host_lab {
                Some(host_lab) => host_lab.push(host_lab.tree.base()),
                None => Ok(String::new()),
            });
            let control_plane = ControlPlane::start(&options);
            let os = os
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (os, control_plane)
        });
        let (os, control_plane) = (os?, Arc::new(control_plane?));
        let client = control_plane.client().await?;
        let definitions = self.definitions.clone().map_or_else(definitions, Ok)?;
        manifest::define(&client, &definitions).await?;
        manifest::namespaces(&client).await?;
        let with_containers = self.nodes.iter().filter(|node| node.has_containers);
        let with_containers: BTreeSet<_> = with_containers.map(|node| node.name.clone()).collect();
        let (mut containers, mut images) = (None, ComponentImages::default());
        if let Some(host_lab) = host_lab.as_ref().filter(|_| !with_containers.is_empty()) {
            containers = Some(Containers::new(&control_plane, &host_lab.registry)?);
            images = ComponentImages::push(host_lab, &programs).await?;
        }
        for component in component::ALL {
            manifest::apply(&client, &component.idle_objects(&images)?).await?;
        }
        let cluster = Cluster {
            pods: BTreeMap::new(),
            hosts: Vec::new(),
            replicas: BTreeMap::new(),
            on_nodes: Vec::new(),
            targets: BTreeMap::new(),
            with_containers,
            containers,
            controller_arguments: Vec::new(),
            images,
            objects: Objects::new(client),
            control_plane,
            signer,
            host_lab,
            programs,
            logs: self.logs.clone(),
        };
        let spec = json!({ "osImageURL": os });
        cluster.configure("00-worker", "worker", &spec).await?;
        cluster.apply(WORKERS).await?;
        if self.nodes.iter().any(NodeSpec::is_control_plane) {
            let pool = CONTROL_PLANE_POOL;
            let spec = match &self.control_plane_os {
                Some(os) => json!({ "osImageURL": cluster.image(os)?.reference }),
                None => spec,
            };
            cluster.configure("00-master", pool, &spec).await?;
            cluster.apply(CONTROL_PLANE).await?;
        }
        cluster.apply(&self.objects).await?;
        Ok(cluster)
    }
}

impl Cluster {
    /// Starts what runs on nodes, and waits until every node is Done.
    pub async fn adopt(&mut self) -> Result<()> {
        for component in self.on_nodes.clone() {
            let hosts = self.hosts.iter();
            let is_up = |host: &&Host| host.is_on() && !self.with_containers.contains(host.name());
            for host in hosts.filter(is_up) {
                let pod = self.start_pod(component, host).await?;
                let key = (component.folder, host.name().to_owned());
                self.pods.insert(key, pod);
            }
        }
        for (pool, target) in &self.targets {
            self.all_done(pool, target, SOON).await?;
        }
        Ok(())
    }

    /// Waits until a node is there whose host was fresh, gives it its roles, and starts what runs
    /// on nodes.
    pub async fn introduce(&mut self, node: &NodeSpec) -> Result<()> {
        self.join(node).await?;
        if self.with_containers.contains(&node.name) {
            return Ok(());
        }
        for component in self.on_nodes.clone() {
            let pod = self.start_pod(component, self.host(&node.name)?).await?;
            self.pods.insert((component.folder, node.name.clone()), pod);
        }
        Ok(())
    }

    /// Gives the Deployment of a component its pods, and ends the processes in their place.
    async fn move_in(&mut self, component: Component) -> Result<()> {
        let workload = component.workload()?;
        let Some(count) = workload.replicas else {
            return Ok(());
        };
        for number in 0..count {
            let name = format!("{}-{number}", component.replica);
            if let Some(replica) = self.replicas.remove(&name) {
                // In order, so that it gives its lease back.
                replica.stop()?;
            }
        }
        let objects = component.objects_with(&self.images)?;
        manifest::apply(self.objects.client(), &objects).await?;
        let deployments =
            Api::<Deployment>::namespaced(self.objects.client().clone(), &workload.namespace);
        until(
            &format!("the pods of {}", workload.name),
            SOON,
            async || {
                let status = deployments.get(&workload.name).await?.status;
                let ready = status.and_then(|status| status.ready_replicas).unwrap_or(0);
                Ok(if usize::try_from(ready)? == count {
                    Ok(())
                } else {
                    Err(format!("{ready} of {count} are ready"))
                })
            },
        )
        .await?;
        Ok(())
    }

    /// Waits until a node is there and Ready, and gives it its roles.
    async fn join(&self, node: &NodeSpec) -> Result<()> {
        self.host(&node.name)?.wait_booted(BOOTED_WITHIN)?;
        until(&format!("node {}", node.name), SOON, async || {
            let nodes = self.objects.nodes().await?;
            Ok(match nodes.get(&node.name) {
                Some(node) if objects::is_in_service(node) => Ok(()),
                Some(_) => Err("it is not Ready".to_owned()),
                None => Err("its kubelet has not registered it".to_owned()),
            })
        })
        .await?;
        let label = |role| (format!("node-role.kubernetes.io/{role}"), "");
        let labels: BTreeMap<_, _> = node.roles.iter().map(label).collect();
        let key = format!("node-role.kubernetes.io/{CONTROL_PLANE_POOL}");
        let metadata = json!({ "labels": labels });
        let patch = if node.is_control_plane() {
            let taints = json!([{ "key": key, "effect": "NoSchedule" }]);
            json!({ "metadata": metadata, "spec": { "taints": taints } })
        } else {
            json!({ "metadata": metadata })
        };
        self.objects.patch_node(&node.name, &patch).await
    }

    /// A host as an installer leaves it: with the first configuration of its pool in force, and the
    /// OS that it names.
    fn host_spec(
        &self,
        node: &NodeSpec,
        config: &MachineConfig,
        os: Option<&Overlay>,
    ) -> Result<HostSpec> {
        let HostLab {
            lab,
            tree,
            registry,
        } = self.host_lab()?;
        // The lab numbers its hosts from 10.
        let [a, b, c, _] = lab.address().octets();
        let address = Ipv4Addr::new(a, b, c, 10 + u8::try_from(self.hosts.len())?);
        let name = node.name.clone();
        let arguments = format!("--node-name={name} --node-ip={address}");
        let of_lab = self.control_plane.programs().binary();
        let of_lab = of_lab.parent().context("the programs are in no folder")?;
        let programs = node.kubelet.map(Older::programs).transpose()?;
        let programs = programs.unwrap_or_else(|| of_lab.to_owned());
        let target = config.metadata.name.as_deref().unwrap_or_default();
        let annotations = BTreeMap::from([
            (annotation::CURRENT_CONFIG, target),
            (annotation::DESIRED_CONFIG, target),
            (annotation::STATE, NodeState::Done.as_str()),
        ]);
        let record = |file: &str| format!("/etc/machine-config-daemon/{file}");
        let (kubeconfig, certificate) = match &self.signer {
            Some(signer) => {
                let dir = self.kubelet_dir(&name);
                let [kubeconfig, certificate] =
                    account::write_kubelet(&self.control_plane, signer, &name, &dir)?;
                (kubeconfig, Some(certificate))
            }
            None => (self.control_plane.node_kubeconfig(&name)?, None),
        };
        let spec = match os {
            Some(os) => HostSpec::new(&name, &tree.commit(os)?),
            None => HostSpec::new(&name, tree.base()),
        };
        let spec = match self.containers.as_ref().filter(|_| node.has_containers) {
            Some(containers) => spec.containers(containers, address, &kubeconfig, &arguments),
            None => spec.kubelet(&kubeconfig, &arguments, self.control_plane.ca_pem()),
        };
        let mut spec = spec
            .bin(&programs)
            .registry(&registry.location())
            .registry(&registry.closed_location())
            .bind(&self.programs.folder().canonicalize()?, "programs");
        if let Some(certificate) = certificate {
            let path = format!("/var/lib/kubelet/{}", account::KUBELETS_CERTIFICATE);
            spec = spec.file(&path, certificate, 0o600);
        }
        if !node.is_fresh {
            spec = spec
                .file(&record("currentconfig"), serde_json::to_vec(config)?, 0o600)
                .file(
                    &record("node-annotations.json"),
                    serde_json::to_vec(&annotations)?,
                    0o644,
                );
        }
        for (path, content) in &node.files {
            spec = spec.file(path, content.as_str(), 0o644);
        }
        if let Some(bytes) = node.boot_bytes {
            spec = spec.boot_bytes(bytes);
        }
        let control_plane = Arc::clone(&self.control_plane);
        Ok(spec.when_down(move || report_down(&control_plane, &name)))
    }
}

/// Lets the cluster know that a host is down. That it cannot know is a cluster on its way down.
fn report_down(control_plane: &ControlPlane, node: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    if let Ok(runtime) = runtime {
        drop(runtime.block_on(control_plane.host_is_down(node)));
    }
}
