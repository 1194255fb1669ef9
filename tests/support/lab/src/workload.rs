//! What runs the pods of a component: a DaemonSet or a Deployment.
//!
//! The lab runs a DaemonSet's container on hosts, in a root of its own
//! ([`crate::host::PodSpec::of`]), and a Deployment's replicas as processes of this machine
//! ([`Workload::call`]).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec};
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;

/// Namespace of objects that name none.
const NAMESPACE: &str = "default";

/// A DaemonSet or a Deployment.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// How many pods a Deployment has. A DaemonSet has one on each node.
    pub replicas: Option<usize>,
    /// Service account of its pods.
    pub account: String,
    pub(crate) template: PodSpec,
}

/// What a cluster gives a pod besides its template.
#[derive(Clone, Debug)]
pub struct FromCluster {
    /// Name of the node.
    pub node_name: String,
    /// Name of the pod, which in the lab is its UID too.
    pub pod_name: String,
    /// Where the API server is: `KUBERNETES_SERVICE_HOST` and `_PORT`.
    pub server: SocketAddr,
    /// Folder of this machine with `token`, `ca.crt` and `namespace`.
    pub service_account: Option<PathBuf>,
    /// Folders of this machine in place of Secrets, `ConfigMap`s and projected volumes, by volume.
    pub volumes: BTreeMap<String, PathBuf>,
}

/// What a pod's container runs.
#[derive(Clone, Debug)]
pub struct Call {
    /// The program's path in its image, and its arguments.
    pub words: Vec<String>,
    /// Variables by name.
    pub environment: Vec<(String, String)>,
}

impl Call {
    /// Name of the program.
    pub fn program(&self) -> &str {
        let program = self.words.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or_default()
    }

    /// Has it listen on free ports of the loopback, in place of the addresses that its arguments
    /// name: pods on one machine cannot share a port.
    #[must_use]
    pub fn on_loopback(mut self) -> Self {
        for word in &mut self.words {
            if let Some((flag, value)) = word.split_once('=')
                && value.parse::<SocketAddr>().is_ok()
            {
                *word = format!("{flag}=127.0.0.1:0");
            }
        }
        self
    }
}

impl Workload {
    /// The only one among a component's objects.
    ///
    /// # Errors
    ///
    /// There is none, there are several, or it has no pod template.
    pub fn among(objects: &[DynamicObject]) -> Result<Self> {
        let mut found = Vec::new();
        for object in objects {
            let kind = object.types.as_ref().map(|types| types.kind.as_str());
            let (metadata, template, replicas) = match kind {
                Some("DaemonSet") => {
                    let DaemonSet { metadata, spec, .. } = typed(object)?;
                    (metadata, spec.map(|spec| spec.template), None)
                }
                Some("Deployment") => {
                    let Deployment { metadata, spec, .. } = typed(object)?;
                    let replicas = spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
                    let replicas = Some(usize::try_from(replicas)?);
                    (metadata, spec.map(|spec| spec.template), replicas)
                }
                _ => continue,
            };
            let name = metadata.name.context("a workload has no name")?;
            let template = template.and_then(|template| template.spec);
            let template = template.with_context(|| format!("{name} has no pod template"))?;
            let account = template.service_account_name.clone();
            found.push(Self {
                name,
                namespace: metadata.namespace.unwrap_or_else(|| NAMESPACE.to_owned()),
                replicas,
                account: account.unwrap_or_else(|| "default".to_owned()),
                template,
            });
        }
        ensure!(found.len() == 1, "{} workloads instead of one", found.len());
        found.pop().context("no workload")
    }

    /// What the first container of a pod runs.
    ///
    /// # Errors
    ///
    /// It has no command, or takes a variable from where the lab has nothing.
    pub fn call(&self, given: &FromCluster) -> Result<Call> {
        let container = self.container()?;
        let mut environment = vec![
            (
                "KUBERNETES_SERVICE_HOST".to_owned(),
                given.server.ip().to_string(),
            ),
            (
                "KUBERNETES_SERVICE_PORT".to_owned(),
                given.server.port().to_string(),
            ),
        ];
        for variable in container.env.iter().flatten() {
            let value = self.value_of(variable, given)?;
            environment.push((variable.name.clone(), expand(&value, &environment)));
        }
        let words = container.command.iter().chain(&container.args).flatten();
        let words: Vec<_> = words.map(|word| expand(word, &environment)).collect();
        ensure!(
            !words.is_empty(),
            "the container of {} has no command",
            self.name
        );
        Ok(Call { words, environment })
    }

    pub(crate) fn container(&self) -> Result<&Container> {
        let first = self.template.containers.first();
        first.with_context(|| format!("{} has no container", self.name))
    }

    fn value_of(&self, variable: &EnvVar, given: &FromCluster) -> Result<String> {
        let Some(source) = &variable.value_from else {
            return Ok(variable.value.clone().unwrap_or_default());
        };
        let field = source
            .field_ref
            .as_ref()
            .map(|field| field.field_path.as_str());
        Ok(match field {
            Some("spec.nodeName") => given.node_name.clone(),
            Some("metadata.name" | "metadata.uid") => given.pod_name.clone(),
            Some("metadata.namespace") => self.namespace.clone(),
            field => bail!(
                "{} takes variable {} from {field:?}",
                self.name,
                variable.name
            ),
        })
    }
}

fn typed<T: DeserializeOwned>(object: &DynamicObject) -> Result<T> {
    let value = serde_json::to_value(object)?;
    serde_json::from_value(value).context("a workload is not what its kind says")
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
pub(crate) mod tests {
    use super::*;
    use crate::manifest;

    const DEPLOYMENT: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator, namespace: system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: operator, namespace: system}
spec:
  replicas: 2
  selector: {matchLabels: {app: operator}}
  template:
    metadata: {labels: {app: operator}}
    spec:
      serviceAccountName: operator
      containers:
      - name: operator
        image: example.test/operator
        command: [/usr/bin/op]
        args: [start, --identity=$(POD_NAME)_$(POD_UID), '--metrics-url=[::]:8797', --ratio=1:2]
        env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
        - {name: HOME, value: /tmp/$(POD_NAME)}
";

    /// What a cluster gives pod `op-0` on `node-1`.
    pub(crate) fn given() -> FromCluster {
        FromCluster {
            node_name: "node-1".to_owned(),
            pod_name: "op-0".to_owned(),
            server: "10.0.0.1:6443".parse().unwrap(),
            service_account: Some(PathBuf::from("/token")),
            volumes: BTreeMap::new(),
        }
    }

    #[test]
    fn a_deployment_is_called_as_its_pods_are() {
        let objects = manifest::parse(DEPLOYMENT).unwrap();
        let workload = Workload::among(&objects).unwrap();
        assert_eq!(workload.replicas, Some(2));
        assert_eq!(workload.account, "operator");
        let call = workload.call(&given()).unwrap().on_loopback();
        let expected = [
            "/usr/bin/op",
            "start",
            "--identity=op-0_op-0",
            "--metrics-url=127.0.0.1:0",
        ];
        assert_eq!(call.words, [&expected[..], &["--ratio=1:2"]].concat());
        assert_eq!(call.program(), "op");
        let home = call.environment.iter().find(|(name, _)| name == "HOME");
        assert_eq!(home.unwrap().1, "/tmp/op-0");
    }

    #[test]
    fn what_a_cluster_does_not_give_is_named() {
        let yaml = DEPLOYMENT.replace("metadata.uid", "status.podIP");
        let workload = Workload::among(&manifest::parse(&yaml).unwrap()).unwrap();
        let error = workload.call(&given()).unwrap_err();
        let expected = "operator takes variable POD_UID from Some(\"status.podIP\")";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_component_has_one_workload() {
        let two = format!("{DEPLOYMENT}---{DEPLOYMENT}");
        for (yaml, count) in [
            ("kind: Namespace\napiVersion: v1\nmetadata: {name: a}\n", 0),
            (&two, 2),
        ] {
            let error = Workload::among(&manifest::parse(yaml).unwrap()).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{count} workloads instead of one")
            );
        }
    }
}
