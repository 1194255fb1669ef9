//! A DaemonSet's container, as its pod on one node would be.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec as Template, Volume, VolumeMount};

use super::spec::{PodSpec, Propagation, Source};

/// Where a container finds the token of its service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What the cluster gives a pod besides its template.
#[derive(Clone, Debug, Default)]
pub struct FromCluster {
    /// Name of the node.
    pub node_name: String,
    /// Address of the API server, `KUBERNETES_SERVICE_HOST`.
    pub api_host: String,
    /// Its port.
    pub api_port: u16,
    /// Folder of this machine with `token`, `ca.crt` and `namespace`.
    pub service_account: Option<PathBuf>,
    /// Folders of this machine in place of Secrets, `ConfigMap`s and projected volumes, by volume.
    pub volumes: BTreeMap<String, PathBuf>,
}

impl PodSpec {
    /// The first container of a DaemonSet, with its mounts and no others. Programs are added by
    /// [`Self::program`], in place of its image.
    ///
    /// # Errors
    ///
    /// It is no DaemonSet with the host's network and processes, or wants of the cluster what it is
    /// not given.
    pub fn of_daemon_set(yaml: &str, given: &FromCluster) -> Result<Self> {
        let daemon_set: DaemonSet = serde_saphyr::from_str(yaml).context("this is no DaemonSet")?;
        let name = daemon_set.metadata.name.context("it has no name")?;
        let namespace = daemon_set
            .metadata
            .namespace
            .unwrap_or_else(|| "default".to_owned());
        let template = daemon_set.spec.and_then(|spec| spec.template.spec);
        let template = template.context("it has no pod template")?;
        of_template(&name, &namespace, &template, given)
            .with_context(|| format!("cannot run DaemonSet {name} in the lab"))
    }
}

fn of_template(
    name: &str,
    namespace: &str,
    template: &Template,
    given: &FromCluster,
) -> Result<PodSpec> {
    ensure!(template.host_network == Some(true), "it has no hostNetwork");
    ensure!(template.host_pid == Some(true), "it has no hostPID");
    let container = template.containers.first().context("it has no container")?;
    let mut pod = PodSpec::new(name, []);

    let pairs = [
        ("KUBERNETES_SERVICE_HOST", given.api_host.clone()),
        ("KUBERNETES_SERVICE_PORT", given.api_port.to_string()),
    ];
    for (variable, value) in pairs {
        pod = pod.variable(variable, &value);
    }
    for variable in container.env.iter().flatten() {
        let value = value_of(variable, namespace, given)?;
        let value = expand(&value, &pod.environment);
        pod = pod.variable(&variable.name, &value);
    }
    pod.arguments = container
        .command
        .iter()
        .chain(&container.args)
        .flatten()
        .map(|argument| expand(argument, &pod.environment))
        .collect();
    ensure!(!pod.arguments.is_empty(), "its container has no command");

    let security = container.security_context.as_ref();
    pod.is_root_read_only = security.and_then(|it| it.read_only_root_filesystem) == Some(true);
    if security.and_then(|it| it.privileged) != Some(true) {
        let added = security.and_then(|it| it.capabilities.as_ref()?.add.clone());
        pod.capabilities = Some(added.unwrap_or_default());
    }
    for mount in container.volume_mounts.iter().flatten() {
        pod = with_mount(pod, mount, template, given)?;
    }
    if template.automount_service_account_token != Some(false) && !mounts_own(container) {
        let dir = given
            .service_account
            .as_deref()
            .context("it wants a service account")?;
        pod = pod.folder(dir, SERVICE_ACCOUNT);
    }
    Ok(pod)
}

fn mounts_own(container: &Container) -> bool {
    container
        .volume_mounts
        .iter()
        .flatten()
        .any(|mount| mount.mount_path == SERVICE_ACCOUNT)
}

fn with_mount(
    pod: PodSpec,
    mount: &VolumeMount,
    template: &Template,
    given: &FromCluster,
) -> Result<PodSpec> {
    let is_named = |volume: &&Volume| volume.name == mount.name;
    let volume = template.volumes.iter().flatten().find(is_named);
    let volume = volume.with_context(|| format!("it has no volume {}", mount.name))?;
    let is_read_only = mount.read_only == Some(true);
    let source = if let Some(host_path) = &volume.host_path {
        let path = join(&host_path.path, mount.sub_path.as_deref());
        Source::Host(path, propagation(mount.mount_propagation.as_deref())?)
    } else if volume.empty_dir.is_some() {
        Source::Empty
    } else {
        let dir = given.volumes.get(&mount.name);
        Source::Folder(
            dir.with_context(|| format!("it wants volume {}", mount.name))?
                .clone(),
        )
    };
    Ok(pod.mount(source, &mount.mount_path, is_read_only))
}

fn join(path: &str, sub_path: Option<&str>) -> String {
    sub_path.map_or_else(
        || path.to_owned(),
        |sub| Path::new(path).join(sub).display().to_string(),
    )
}

fn propagation(name: Option<&str>) -> Result<Propagation> {
    Ok(match name {
        None | Some("None") => Propagation::None,
        Some("HostToContainer") => Propagation::HostToContainer,
        Some("Bidirectional") => Propagation::Bidirectional,
        Some(other) => bail!("{other} is no mount propagation"),
    })
}

fn value_of(variable: &EnvVar, namespace: &str, given: &FromCluster) -> Result<String> {
    let Some(source) = &variable.value_from else {
        return Ok(variable.value.clone().unwrap_or_default());
    };
    let field = source
        .field_ref
        .as_ref()
        .map(|field| field.field_path.as_str());
    match field {
        Some("spec.nodeName") => Ok(given.node_name.clone()),
        Some("metadata.namespace") => Ok(namespace.to_owned()),
        field => bail!("it takes variable {} from {field:?}", variable.name),
    }
}

/// Replaces `$(NAME)` by the variable's value, where there is one.
///
/// Source: Kubernetes, `third_party/forked/golang/expansion`.
fn expand(text: &str, environment: &[(String, String)]) -> String {
    environment
        .iter()
        .fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("$({name})"), value)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: daemon, namespace: node-system}
spec:
  selector: {matchLabels: {app: daemon}}
  template:
    metadata: {labels: {app: daemon}}
    spec:
      hostNetwork: true
      hostPID: true
      containers:
      - name: daemon
        image: example.test/daemon
        command: [/usr/bin/daemon]
        args: [start, --node-name=$(NODE_NAME)]
        env:
        - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        securityContext: {privileged: true, readOnlyRootFilesystem: true}
        volumeMounts:
        - {name: host, mountPath: /rootfs, mountPropagation: HostToContainer}
        - {name: scratch, mountPath: /tmp}
      volumes:
      - {name: host, hostPath: {path: /}}
      - {name: scratch, emptyDir: {}}
";

    fn given() -> FromCluster {
        FromCluster {
            node_name: "node-1".to_owned(),
            service_account: Some(PathBuf::from("/token")),
            ..FromCluster::default()
        }
    }

    #[test]
    fn a_daemon_set_is_run_with_its_mounts_and_no_others() {
        let pod = PodSpec::of_daemon_set(YAML, &given()).unwrap();
        assert_eq!(
            pod.arguments,
            ["/usr/bin/daemon", "start", "--node-name=node-1"]
        );
        let mounts: Vec<_> = pod.mounts.iter().map(|mount| mount.at.as_str()).collect();
        assert_eq!(mounts, ["/rootfs", "/tmp", SERVICE_ACCOUNT]);
        let Source::Host(path, propagation) = &pod.mounts[0].from else {
            panic!("no host path")
        };
        assert_eq!(
            (path.as_str(), *propagation),
            ("/", Propagation::HostToContainer)
        );
        assert!(pod.is_root_read_only && pod.capabilities.is_none());
    }

    #[test]
    fn what_is_not_given_is_missed() {
        let yaml = YAML.replace("emptyDir: {}", "secret: {secretName: x}");
        let error = PodSpec::of_daemon_set(&yaml, &given()).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "cannot run DaemonSet daemon in the lab: it wants volume scratch"
        );
        let yaml = YAML.replace("hostPID: true", "hostPID: false");
        assert!(PodSpec::of_daemon_set(&yaml, &given()).is_err());
    }
}
