//! Every pool as another release would render it. The cluster is read; what is written are
//! configurations for a rehearsal, which no pool selects or names.

use std::collections::BTreeMap;

use api::config::preflight::{NextRelease, RenderedPool};
use api::machineconfiguration::{
    ControllerConfig, MachineConfig, MachineConfigPool, OSImageStream, annotation,
    controller_config, os_image_stream,
};
use chassis::program::BUILD;
use chassis::report::Chain;
use cluster::list::Select;
use cluster::wire::{self, found};
use k8s_openapi::api::core::v1::ConfigMap;
use machineconfig::render::{Base, Rendered, Source, render};
use operator::watch::kept::{ConfigMapData, KeptPart as _};
use pool::selector::Selector;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{API_VERSION, Failure, rejection, source};
use crate::decide::controller_config::with_stream;
use crate::decide::os_stream;
use crate::decide::release::images::{self, ReleaseImages};
use crate::decide::release::streams;
use crate::requests::Requests;
use crate::store::Pool;
use crate::store::release_maps::{COMPONENT_IMAGES, OS_IMAGE};

/// A release whose objects were read.
#[derive(Debug)]
pub struct ReleasePreview {
    images: ReleaseImages,
    configs: BTreeMap<String, MachineConfig>,
    pools: Vec<MachineConfigPool>,
    deleted: Vec<String>,
}

/// Why a release cannot be previewed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An object of this kind and name cannot be read.
    #[error("{0}")]
    ReadObject(String, #[source] serde_json::Error),
    #[error(transparent)]
    Images(#[from] images::Error),
}

impl ReleasePreview {
    /// Reads the objects.
    ///
    /// # Errors
    /// [`Error`].
    pub fn parse(next: NextRelease) -> Result<Self, Error> {
        let mut maps: Vec<ConfigMap> = Vec::new();
        let mut configs = BTreeMap::new();
        let mut pools = Vec::new();
        for object in next.objects {
            match text(&object, "/kind") {
                "ConfigMap" => maps.push(parse(object)?),
                "MachineConfig" => {
                    let name = text(&object, "/metadata/name").to_owned();
                    configs.insert(name, parse(object)?);
                }
                "MachineConfigPool" => pools.push(parse(object)?),
                // A later version operator may name more.
                _ => {}
            }
        }
        let map = |name: &str| {
            let is_it = |map: &&ConfigMap| map.metadata.name.as_deref() == Some(name);
            maps.iter().find(is_it).cloned().map(ConfigMapData::of)
        };
        let (os, components) = (map(OS_IMAGE), map(COMPONENT_IMAGES));
        let images = ReleaseImages::read(os.as_ref(), components.as_ref(), &next.version)?;
        Ok(Self {
            images,
            configs,
            pools,
            deleted: next.deleted,
        })
    }

    /// Renders all pools of the cluster and of the release, by name.
    ///
    /// # Errors
    /// The cluster cannot be read.
    pub async fn render(&self, requests: &Requests) -> Result<Vec<RenderedPool>, wire::Error> {
        let mut pools: BTreeMap<String, Pool> = BTreeMap::new();
        let stored = requests
            .objects::<MachineConfigPool>()
            .list(Select::All)
            .await?;
        for object in stored.into_iter().chain(self.pools.clone()) {
            let pool = Pool::parse(object);
            pools.insert(pool.view.name.clone(), pool);
        }
        let config = requests
            .objects::<ControllerConfig>()
            .list(Select::All)
            .await?;
        let is_it = |name: Option<&str>| name == Some(controller_config::NAME);
        let has_config = config
            .iter()
            .any(|config| is_it(config.metadata.name.as_deref()));
        let streams = if has_config {
            self.streams(requests)
                .await?
                .map_err(|error| error.to_string())
        } else {
            let name = controller_config::NAME;
            Err(format!("ControllerConfig {name} is missing"))
        };
        let mut rendered = Vec::new();
        for pool in pools.values().filter(|pool| !pool.view.is_deleted) {
            let failed = |failure| RenderedPool {
                pool: pool.view.name.clone(),
                failure,
                ..RenderedPool::default()
            };
            rendered.push(match &streams {
                Ok(streams) => {
                    let (worker, streams) = (pools.get("worker"), streams.as_ref());
                    match self.render_pool(requests, pool, worker, streams).await {
                        Ok(config) => prepare(requests, pool, &config).await?,
                        Err(Failure::Request(error)) => return Err(error),
                        Err(failure) => failed(Chain(&failure).to_string()),
                    }
                }
                Err(why) => failed(why.clone()),
            });
        }
        Ok(rendered)
    }

    /// OSImageStream as the release will have it, with the images of its streams. The inner error
    /// is what the release will stop at.
    async fn streams(
        &self,
        requests: &Requests,
    ) -> Result<Result<Option<OSImageStream>, images::Error>, wire::Error> {
        let objects = requests.objects::<OSImageStream>();
        let is_it = format!("metadata.name={}", os_image_stream::NAME);
        let stored = found(objects.list(Select::Fields(&is_it)).await)?;
        let Some(stored) = stored else {
            return Ok(Ok(None));
        };
        let stored = stored.into_iter().next();
        if let Err(error) = streams::followed(self.images.clone(), stored.as_ref()) {
            return Ok(Err(error));
        }
        let Some(status) = streams::planned(stored.as_ref(), &self.images) else {
            return Ok(Ok(stored));
        };
        let mut object = stored.unwrap_or_default();
        object.status = Some(status);
        Ok(Ok(Some(object)))
    }

    async fn render_pool(
        &self,
        requests: &Requests,
        pool: &Pool,
        worker: Option<&Pool>,
        streams: Option<&OSImageStream>,
    ) -> Result<Rendered, Failure> {
        let selector = match &pool.view.config_selector {
            Ok(Selector::Labels(selector)) => selector,
            Ok(Selector::Everything) => return Err(Failure::SelectingAll),
            Ok(Selector::Nothing) => return Err(Failure::NoSelector),
            Err(refusal) => return Err(refusal.clone().into()),
        };
        let labels = selector.to_string();
        let configs = requests.objects::<MachineConfig>();
        let selected = configs.list(Select::Labels(&labels)).await?;
        let stays = |config: &MachineConfig| {
            let name = config.metadata.name.as_deref().unwrap_or_default();
            !self.configs.contains_key(name) && !self.deleted.iter().any(|gone| gone == name)
        };
        let is_selected = |config: &&MachineConfig| {
            let labels = config.metadata.labels.clone().unwrap_or_default();
            let selector = pool.view.config_selector.as_ref();
            selector.is_ok_and(|selector| selector.matches(&labels))
        };
        let own = self.configs.values().filter(is_selected).cloned();
        let sources: Vec<Source> = selected
            .into_iter()
            .filter(stays)
            .chain(own)
            .filter_map(source)
            .collect();
        if sources.is_empty() {
            return Err(Failure::NoSources(labels));
        }
        let release = Base {
            os_image_url: self.images.os.clone(),
            extensions_image: self.images.extensions.clone(),
            controller_version: BUILD.to_owned(),
        };
        let chosen = os_stream::chosen(&pool.object, worker.map(|worker| &worker.object));
        let base = match os_stream::resolve(chosen.as_ref(), streams) {
            Ok(stream) => with_stream(release, stream),
            Err(error) => return Err(Failure::Rejected(error.to_string())),
        };
        let rendered = render(&pool.view.name, &sources, &base)?;
        // Without streams, the image of a pool that chooses one is not replaced.
        let stream = chosen.filter(|_| streams.is_none());
        let stream = stream.as_ref().map(|chosen| chosen.name.as_str());
        let has_image = is_in_image_mode(pool);
        let rejected = rejection::of(requests, pool, &sources, &rendered, stream, has_image);
        let rejected = rejected.await?.map(Failure::Rejected);
        rejected.map_or(Ok(rendered), Err)
    }
}

/// Whether the controller has named a build of the pool's OS image.
fn is_in_image_mode(pool: &Pool) -> bool {
    let annotations = pool.object.metadata.annotations.as_ref();
    annotations.is_some_and(|it| it.contains_key(annotation::CURRENT_MACHINE_OS_BUILD))
}

/// Stores a configuration for a rehearsal, where the pool's nodes would get another one than they
/// have.
async fn prepare(
    requests: &Requests,
    pool: &Pool,
    rendered: &Rendered,
) -> Result<RenderedPool, wire::Error> {
    let mut preview = RenderedPool {
        pool: pool.view.name.clone(),
        config: rendered.name.clone(),
        ..RenderedPool::default()
    };
    let status = pool.object.status.as_ref();
    let nodes = status.map_or(0, |status| status.machine_count);
    if pool.view.target_config() == Some(&rendered.name) {
        return Ok(preview);
    }
    if nodes == 0 {
        "the pool has no nodes".clone_into(&mut preview.not_rehearsed);
    } else if !pool.view.prefetches {
        preview.not_rehearsed = format!("annotation {} turns it off", annotation::PREFETCH);
    } else {
        // Never the name that the pool's own configuration gets.
        preview.stored = rendered.name.replacen("rendered-", "preflight-", 1);
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": "MachineConfig",
            "metadata": {
                "name": preview.stored,
                "annotations": { (annotation::REHEARSAL_OF): preview.pool }
            },
            "spec": rendered.spec.to_value()
        });
        // One that is there already has the same content, by its name.
        requests.create_config(&object).await?;
    }
    Ok(preview)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

fn parse<T: DeserializeOwned>(object: Value) -> Result<T, Error> {
    let name = format!(
        "{} {}",
        text(&object, "/kind"),
        text(&object, "/metadata/name")
    );
    serde_json::from_value(object).map_err(|error| Error::ReadObject(name, error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use apimock::{Call, Reply, Script};
    use cluster::access::Access;

    use super::*;
    use crate::fixture::{OLD, pool, read, source, spec_with};

    const GROUP: &str = "/apis/machineconfiguration.openshift.io/v1";

    fn map(name: &str, data: &Value) -> Value {
        json!({ "kind": "ConfigMap", "metadata": { "name": name }, "data": data })
    }

    fn release(objects: Vec<Value>) -> NextRelease {
        let images = json!({ "releaseVersion": "4.2.0", "machineConfigController": "mcc" });
        let os = json!({ "releaseVersion": "4.2.0", "baseOSContainerImage": "next/os" });
        let mut all = vec![
            map(OS_IMAGE, &os),
            map(
                COMPONENT_IMAGES,
                &json!({ "images.json": images.to_string() }),
            ),
        ];
        all.extend(objects);
        NextRelease {
            version: "4.2.0".to_owned(),
            objects: all,
            deleted: vec!["98-gone".to_owned()],
        }
    }

    fn of_kind(kind: &str, mut object: Value) -> Value {
        object["kind"] = json!(kind);
        object
    }

    fn list(plural: &str, labels: &str, items: &[Value]) -> Call {
        let reply = json!({ "metadata": { "resourceVersion": "9" }, "items": items });
        Call::get(
            &format!("{GROUP}/{plural}?limit=250{labels}"),
            Reply::ok(reply),
        )
    }

    fn sources(items: &[Value]) -> Call {
        let labels = "&labelSelector=machineconfiguration.openshift.io%2Frole%3Dworker";
        list("machineconfigs", labels, items)
    }

    fn list_streams(items: &[Value]) -> Call {
        let reply = json!({ "metadata": { "resourceVersion": "9" }, "items": items });
        let query = "fieldSelector=metadata.name%3Dcluster&limit=250";
        Call::get(&format!("{GROUP}/osimagestreams?{query}"), Reply::ok(reply))
    }

    /// What stands of the release's streams, and which image each pool is then rendered with.
    #[tokio::test]
    async fn each_pool_is_rendered_with_the_stream_that_it_will_have() {
        let image = |digit: &str| format!("r.example/os@sha256:{}", digit.repeat(64));
        let of = |name: &str, digit: &str| json!({ "name": name, "osImage": image(digit), "osExtensionsImage": "" });
        let streams = json!({
            "defaultStream": "a", "availableStreams": [of("a", "a"), of("b", "b")]
        });
        let next = || {
            let mut next = release(vec![]);
            next.objects[0]["data"]["baseOSContainerImage"] = json!(image("a"));
            next.objects[0]["data"]["osImageStreams.json"] = json!(streams.to_string());
            next
        };
        let source = source("50-a", &spec_with("a=1"));
        let name = |os: &str| {
            let base = Base {
                os_image_url: os.to_owned(),
                ..Base::default()
            };
            let source = super::source(read(&source)).unwrap();
            let rendered = machineconfig::render::render("worker", &[source], &base);
            rendered.unwrap().name
        };
        let stored = |default: &str| {
            json!({
                "metadata": {
                    "name": "cluster", "annotations": { "slipway.dev/release-streams": "b,old" }
                },
                "spec": { "defaultStream": default },
                "status": {
                    "defaultStream": default, "availableStreams": [of("b", "0"), of("old", "1")]
                }
            })
        };
        let table = [
            // (stream of the pool, default of the object if there is one, image or failure)
            (None, None, Ok(image("a"))),
            (Some("b"), None, Ok(image("b"))),
            (None, Some("b"), Ok(image("b"))),
            (
                Some("old"),
                Some("b"),
                Err(
                    "spec.osImageStream old: OSImageStream cluster has no such stream in status.availableStreams (a, b)",
                ),
            ),
            (
                Some("b"),
                Some("old"),
                Err(
                    "OSImageStream cluster: stream old, which pools have that choose none, is none of the release's (a, b): name one of these in spec.defaultStream",
                ),
            ),
        ];
        for (stream, default, expected) in table {
            let mut pool = pool(None);
            pool["spec"]["osImageStream"] = json!(stream.map(|name| json!({ "name": name })));
            let objects: Vec<Value> = default.map(stored).into_iter().collect();
            let mut calls = vec![
                list("machineconfigpools", "", &[pool]),
                list("controllerconfigs", "", &[config()]),
                list_streams(&objects),
            ];
            if default != Some("old") {
                calls.push(sources(std::slice::from_ref(&source)));
            }
            let rendered = renders(next(), calls).await;
            let found = (rendered[0].config.clone(), rendered[0].failure.as_str());
            match expected {
                Ok(image) => assert_eq!(found, (name(&image), ""), "{stream:?}"),
                Err(why) => assert_eq!(found, (String::new(), why), "{stream:?}"),
            }
        }
    }

    fn config() -> Value {
        let spec = json!({ "baseOSContainerImage": "present/os" });
        json!({ "metadata": { "name": "machine-config-controller" }, "spec": spec })
    }

    async fn renders(next: NextRelease, calls: Vec<Call>) -> Vec<RenderedPool> {
        let (script, client) = Script::start(calls);
        let requests = Requests::new(Arc::new(Access::of_client(client)));
        let preview = ReleasePreview::parse(next).unwrap();
        let rendered = script.drive(Box::pin(preview.render(&requests))).await;
        rendered.unwrap()
    }

    #[tokio::test]
    async fn pools_are_rendered_with_the_releases_image_and_sources() {
        let present = [
            source("50-a", &spec_with("a=1")),
            source("98-gone", &spec_with("gone")),
        ];
        let replaced = source("50-a", &spec_with("a=2"));
        let mut other = source("60-master", &spec_with("b"));
        other["metadata"]["labels"]["machineconfiguration.openshift.io/role"] = json!("master");
        let next = release(vec![
            of_kind("MachineConfig", replaced.clone()),
            of_kind("MachineConfig", other),
        ]);
        let calls = vec![
            list("machineconfigpools", "", &[pool(None)]),
            list("controllerconfigs", "", &[config()]),
            list_streams(&[]),
            sources(&present),
        ];
        let base = Base {
            os_image_url: "next/os".to_owned(),
            ..Base::default()
        };
        let source = super::source(read(&replaced)).unwrap();
        let expected = machineconfig::render::render("worker", &[source], &base).unwrap();
        let rendered = renders(next, calls).await;
        assert_eq!(
            rendered,
            [RenderedPool {
                pool: "worker".to_owned(),
                config: expected.name,
                not_rehearsed: "the pool has no nodes".to_owned(),
                ..RenderedPool::default()
            }]
        );
    }

    #[tokio::test]
    async fn a_configuration_is_stored_only_where_a_node_can_rehearse_it() {
        let present = [source("50-a", &spec_with("a=1"))];
        let base = Base {
            os_image_url: "next/os".to_owned(),
            ..Base::default()
        };
        let read_source = super::source(read(&present[0])).unwrap();
        let expected = machineconfig::render::render("worker", &[read_source], &base).unwrap();
        let stored = expected.name.replace("rendered-", "preflight-");
        let with_nodes = |target: Option<&str>, annotations: Value| {
            let mut pool = pool(target);
            pool["status"] = json!({ "machineCount": 2 });
            pool["metadata"]["annotations"] = annotations;
            pool
        };
        let object = json!({
            "apiVersion": API_VERSION, "kind": "MachineConfig",
            "metadata": {
                "name": stored, "annotations": { "slipway.dev/rehearsal-of": "worker" }
            },
            "spec": expected.spec.to_value()
        });
        let path = format!("{GROUP}/machineconfigs?fieldManager=machine-config-controller");
        let created = json!({ "metadata": { "name": stored, "resourceVersion": "9" } });
        let create = Call::post(&path, object, Reply::Object(201, created));
        let off = json!({ "slipway.dev/prefetch": "false" });
        for (pool, calls, stored, why) in [
            (
                with_nodes(None, json!({})),
                vec![create],
                stored.as_str(),
                "",
            ),
            (with_nodes(Some(&expected.name), json!({})), vec![], "", ""),
            (
                with_nodes(None, off),
                vec![],
                "",
                "annotation slipway.dev/prefetch turns it off",
            ),
        ] {
            let reads = vec![
                list("machineconfigpools", "", &[pool]),
                list("controllerconfigs", "", &[config()]),
                list_streams(&[]),
                sources(&present),
            ];
            let calls = reads.into_iter().chain(calls).collect();
            let rendered = renders(release(vec![]), calls).await;
            assert_eq!(
                (
                    rendered[0].stored.as_str(),
                    rendered[0].not_rehearsed.as_str()
                ),
                (stored, why)
            );
        }
    }

    #[tokio::test]
    async fn each_pool_that_fails_is_named_with_its_source_and_field() {
        let file = json!({ "path": "etc/relative", "contents": { "source": "data:," } });
        let bad = json!({ "ignition": { "version": "3.4.0" }, "storage": { "files": [file] } });
        let bad = source("99-bad", &json!({ "config": bad }));
        let named = |name: &str, target: Option<&str>| {
            let mut pool = pool(target);
            pool["metadata"]["name"] = json!(name);
            pool
        };
        let mut all = named("all", None);
        all["spec"]["machineConfigSelector"] = json!({});
        // A pool that comes with the release; the cluster has no MachineConfig for it.
        let mut edge = named("edge", None);
        let labels = json!({ "machineconfiguration.openshift.io/role": "edge" });
        edge["spec"]["machineConfigSelector"]["matchLabels"] = labels;
        let fips = source("60-fips", &json!({ "fips": true }));
        let next = release(vec![of_kind("MachineConfigPool", edge)]);
        let old = json!({ "metadata": { "name": OLD }, "spec": {} });
        let pools = [named("bad", None), named("worker", Some(OLD)), all];
        let edge = "&labelSelector=machineconfiguration.openshift.io%2Frole%3Dedge";
        let calls = vec![
            list("machineconfigpools", "", &pools),
            list("controllerconfigs", "", &[config()]),
            list_streams(&[]),
            sources(&[bad]),
            list("machineconfigs", edge, &[]),
            sources(&[fips]),
            Call::get(&format!("{GROUP}/machineconfigs/{OLD}"), Reply::ok(old)),
            Call::get(
                "/apis/operator.openshift.io/v1/machineconfigurations/cluster",
                Reply::failure(404, "NotFound", "no"),
            ),
        ];
        let rendered = renders(next, calls).await;
        let expected = [
            ("all", "spec.machineConfigSelector selects everything"),
            ("bad", "\"99-bad\": spec.config: storage.files[0]"),
            ("edge", "no MachineConfigs found matching selector"),
            ("worker", "base config \"60-fips\": spec.fips"),
        ];
        assert_eq!(rendered.len(), expected.len());
        for (found, (pool, words)) in rendered.iter().zip(expected) {
            assert_eq!((found.pool.as_str(), found.config.as_str()), (pool, ""));
            assert!(found.failure.contains(words), "{found:?}");
        }
    }

    #[tokio::test]
    async fn a_cluster_without_a_controller_config_is_not_rendered() {
        let calls = vec![
            list("machineconfigpools", "", &[pool(None)]),
            list("controllerconfigs", "", &[]),
        ];
        let rendered = renders(release(vec![]), calls).await;
        assert_eq!(
            rendered[0].failure,
            "ControllerConfig machine-config-controller is missing"
        );
    }

    #[test]
    fn what_of_a_release_cannot_be_read_is_named() {
        let mut without = release(vec![]);
        without.objects.remove(0);
        let wrong = json!({ "kind": "MachineConfigPool", "metadata": { "name": "infra" }, "spec": { "paused": 7 } });
        let table = [
            (without, "ConfigMap machine-config-osimageurl is missing"),
            (release(vec![wrong]), "MachineConfigPool infra: "),
        ];
        for (next, expected) in table {
            let error = ReleasePreview::parse(next).unwrap_err();
            let error = Chain(&error).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
