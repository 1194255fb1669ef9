//! A DaemonSet's container, as its pod on one node would be.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Container, PodSpec as Template, Volume, VolumeMount};

use super::spec::{PodSpec, Propagation, Source};
use crate::workload::{FromCluster, Workload};

/// Where a container finds the token of its service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

impl PodSpec {
    /// The first container of a workload, with its mounts and no others. Programs are added by
    /// [`Self::program`], in place of its image.
    ///
    /// # Errors
    ///
    /// It is none with the host's network and processes, or wants of the cluster what it is not
    /// given.
    pub fn of(workload: &Workload, given: &FromCluster) -> Result<Self> {
        of_workload(workload, given)
            .with_context(|| format!("cannot run the pods of {} in the lab", workload.name))
    }
}

fn of_workload(workload: &Workload, given: &FromCluster) -> Result<PodSpec> {
    let template = &workload.template;
    ensure!(template.host_network == Some(true), "it has no hostNetwork");
    ensure!(template.host_pid == Some(true), "it has no hostPID");
    let container = workload.container()?;
    let call = workload.call(given)?;
    let mut pod = PodSpec::new(&workload.name, []);
    for (variable, value) in &call.environment {
        pod = pod.variable(variable, value);
    }
    pod.arguments = call.words;

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
    } else if let Some(dir) = given.volumes.get(&mount.name) {
        Source::Folder(dir.clone())
    } else {
        // An optional Secret that is not there is an empty folder.
        let secret = volume.secret.as_ref();
        let is_optional = secret.is_some_and(|it| it.optional == Some(true));
        ensure!(is_optional, "it wants volume {}", mount.name);
        Source::Empty
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest;
    use crate::workload::tests::given;

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

    fn pod(yaml: &str) -> Result<PodSpec> {
        let workload = Workload::among(&manifest::parse(yaml)?)?;
        PodSpec::of(&workload, &given())
    }

    #[test]
    fn a_daemon_set_is_run_with_its_mounts_and_no_others() {
        let pod = pod(YAML).unwrap();
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
        let error = pod(&yaml).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "cannot run the pods of daemon in the lab: it wants volume scratch"
        );
        let optional = YAML.replace("emptyDir: {}", "secret: {secretName: x, optional: true}");
        assert!(matches!(
            pod(&optional).unwrap().mounts[1].from,
            Source::Empty
        ));
        let yaml = YAML.replace("hostPID: true", "hostPID: false");
        assert!(pod(&yaml).is_err());
    }
}
