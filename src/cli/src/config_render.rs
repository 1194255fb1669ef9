//! `slipway config render`: what a pool's MachineConfigs are merged into, from files alone.
//!
//! The files hold what the controller reads: the MachineConfigPool, MachineConfigs, and the
//! ControllerConfig if the release's OS image is to be in the result. They are rendered by the
//! code of the controller, and so have the name that it gives.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use api::machineconfiguration::{MachineConfigPool, annotation, label};
use clap::Args;
use machineconfig::render::{Base, Rendered, Source, render};
use pool::selector::Selector;
use pool::view::PoolView;
use serde_json::{Value, json};

use crate::config_files::{is_of, name_of, read, unknown_members};
use crate::failure::Ending;
use crate::output::{ViewForm, print_data, warn};

/// `slipway config render`.
#[derive(Debug, Args)]
pub struct ConfigRenderArgs {
    /// The MachineConfigPool
    #[arg(value_name = "POOL")]
    pub pool: String,
    /// Files in YAML or JSON, or directories of them, with the pool, its MachineConfigs and the
    /// ControllerConfig
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Form
    #[arg(long, short = 'o', value_name = "FORM", default_value = "yaml")]
    pub output: ViewForm,
}

pub(crate) fn run(arguments: &ConfigRenderArgs) -> anyhow::Result<Ending> {
    let mut objects = Vec::new();
    for path in &arguments.files {
        for left_out in read(path, &mut objects)? {
            warn(&left_out);
        }
    }
    for warning in unused(&objects).into_iter().chain(unknown(&objects)) {
        warn(&warning);
    }
    let (rendered, object) = render_pool(&arguments.pool, &objects)?;
    for (source, lost) in &rendered.warnings {
        warn(&format!("MachineConfig {source}: spec.config: {lost}"));
    }
    if rendered.is_nearly_too_large() {
        warn(&format!(
            "MachineConfig {}: its {} bytes are more than 80 % of what the API server stores",
            rendered.name, rendered.bytes
        ));
    }
    print_data(match arguments.output {
        ViewForm::Json => serde_json::to_string_pretty(&object)? + "\n",
        ViewForm::Yaml => serde_saphyr::to_string(&object)?,
    })?;
    Ok(Ending::Done)
}

/// Renders a pool of the objects; the rendering, and the MachineConfig that it is.
fn render_pool(name: &str, objects: &[Value]) -> anyhow::Result<(Rendered, Value)> {
    let pool = one_of(objects, "MachineConfigPool", Some(name))?;
    let pool = pool.with_context(|| format!("MachineConfigPool {name}: no file has it"))?;
    let pool: MachineConfigPool = serde_json::from_value(pool.clone())
        .with_context(|| format!("MachineConfigPool {name}"))?;
    let view = PoolView::parse(&pool);
    let selector = match view.config_selector {
        Err(refusal) => bail!("MachineConfigPool {name}: {refusal}"),
        Ok(Selector::Everything) => bail!(
            "MachineConfigPool {name}: spec.machineConfigSelector: an empty selector would take \
             everything, and takes nothing"
        ),
        Ok(selector) => selector,
    };
    let mut sources = Vec::new();
    for object in objects.iter().filter(|one| is_of(one, "MachineConfig")) {
        let labels = texts(object, "labels");
        // What has no labels is selected by no pool.
        if !labels.is_empty() && selector.matches(&labels) {
            let generated_by = texts(object, "annotations")
                .get(annotation::GENERATED_BY_CONTROLLER_VERSION)
                .cloned();
            sources.push(Source {
                name: name_of(object).to_owned(),
                role: labels.get(label::ROLE).cloned(),
                generated_by,
                spec: object.get("spec").cloned().unwrap_or_default(),
            });
        }
    }
    if sources.is_empty() {
        bail!("MachineConfigPool {name}: it selects none of the MachineConfigs in the files");
    }
    let mut names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair.first() == pair.last()) {
        let name = twice.first().copied().unwrap_or_default();
        bail!("MachineConfig {name}: the files have it twice");
    }
    let config = one_of(objects, "ControllerConfig", None)?;
    let image = |field: &str| {
        let image = config.and_then(|config| config.pointer(field));
        image.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let base = Base {
        os_image_url: image("/spec/baseOSContainerImage"),
        extensions_image: image("/spec/baseOSExtensionsContainerImage"),
        // The build of the controller is not read here.
        controller_version: String::new(),
    };
    let rendered = render(name, &sources, &base).map_err(|error| anyhow!(error))?;
    let object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": { "name": rendered.name },
        "spec": rendered.spec.to_value(),
    });
    Ok((rendered, object))
}

/// Kinds that are read.
const KINDS: [&str; 3] = ["MachineConfigPool", "MachineConfig", "ControllerConfig"];

/// Objects that are not rendered.
fn unused(objects: &[Value]) -> Vec<String> {
    let why = |object: &Value| match object.get("kind").and_then(Value::as_str) {
        None => Some(format!(
            "an object {:?} without a kind is left out",
            name_of(object)
        )),
        Some(kind) if !KINDS.contains(&kind) => Some(format!(
            "{kind} {} is left out: of {} only is a pool rendered",
            name_of(object),
            KINDS.join(", ")
        )),
        Some("MachineConfig") if texts(object, "labels").is_empty() => Some(format!(
            "MachineConfig {} is left out: it has no labels, by which a pool could select it",
            name_of(object)
        )),
        Some(_) => None,
    };
    objects.iter().filter_map(why).collect()
}

/// Members of the objects that their definitions lack.
fn unknown(objects: &[Value]) -> Vec<String> {
    let of_kind = |kind| {
        let objects = objects.iter().filter(move |one| is_of(one, kind));
        objects.flat_map(move |object| {
            let members = unknown_members(kind, object).into_iter();
            members.map(move |member| {
                let name = name_of(object);
                format!("{kind} {name}: {member}: is not known and is left out")
            })
        })
    };
    KINDS.into_iter().flat_map(of_kind).collect()
}

/// The only object of a kind, and of a name if one is given.
fn one_of<'a>(
    objects: &'a [Value],
    kind: &str,
    name: Option<&str>,
) -> anyhow::Result<Option<&'a Value>> {
    let mut found = objects
        .iter()
        .filter(|one| is_of(one, kind) && name.is_none_or(|name| name_of(one) == name));
    let first = found.next();
    if let Some(first) = first
        && found.next().is_some()
    {
        bail!("{kind} {}: the files have more than one", name_of(first));
    }
    Ok(first)
}

fn texts(object: &Value, field: &str) -> std::collections::BTreeMap<String, String> {
    let map = object.pointer(&format!("/metadata/{field}"));
    let map = map.and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_files::parse;

    const POOL: &str = "\
kind: MachineConfigPool
apiVersion: machineconfiguration.openshift.io/v1
metadata: { name: infra }
spec:
  machineConfigSelector:
    matchExpressions:
    - { key: machineconfiguration.openshift.io/role, operator: In, values: [worker, infra] }
---
kind: ControllerConfig
metadata: { name: machine-config-controller }
spec: { baseOSContainerImage: quay.example/os@sha256:1 }
";

    fn config(name: &str, role: &str, arguments: &str) -> String {
        format!(
            "kind: MachineConfig\nmetadata:\n  name: {name}\n  labels: {{ \
             machineconfiguration.openshift.io/role: {role} }}\nspec:\n  config: {{ ignition: {{ \
             version: 3.4.0 }} }}\n  kernelArguments: [{arguments}]\n"
        )
    }

    fn rendered(texts: &[&str]) -> anyhow::Result<Value> {
        let objects: Vec<Value> = texts
            .iter()
            .flat_map(|text| parse(text.as_bytes()).unwrap())
            .collect();
        Ok(render_pool("infra", &objects)?.1)
    }

    fn problem(texts: &[&str]) -> String {
        format!("{:#}", rendered(texts).unwrap_err())
    }

    #[test]
    fn a_pool_is_rendered_as_its_controller_does() {
        let worker = config("00-worker", "worker", "one");
        let infra = config("50-infra", "infra", "two");
        let master = config("00-master", "master", "none");
        let list = format!(
            "kind: List\nitems:\n- {}",
            master.trim_end().replace('\n', "\n  ")
        );
        let object = rendered(&[POOL, &infra, &worker, &list]).unwrap();
        assert_eq!(object["spec"]["kernelArguments"], json!(["one", "two"]));
        assert_eq!(object["spec"]["osImageURL"], "quay.example/os@sha256:1");
        let name = machineconfig::name::rendered_name("infra", &object["spec"]);
        assert_eq!(object["metadata"]["name"], json!(name));
    }

    #[test]
    fn modes_are_octal_as_to_the_tools_of_the_cluster() {
        let infra = config("50-infra", "infra", "two").replace(
            "version: 3.4.0 } }",
            "version: 3.4.0 }, storage: { files: [{ path: /etc/a, mode: 0644 }] } }",
        );
        let object = rendered(&[POOL, &infra]).unwrap();
        let mode = object.pointer("/spec/config/storage/files/0/mode");
        assert_eq!(mode, Some(&json!(420)), "{object}");
    }

    #[test]
    fn unknown_members_are_named_with_object_and_path() {
        let infra = config("50-infra", "infra", "two").replace("kernelArguments", "kernelArgs");
        let objects: Vec<Value> = [POOL, &infra]
            .iter()
            .flat_map(|text| parse(text.as_bytes()).unwrap())
            .collect();
        let expected = "MachineConfig 50-infra: spec.kernelArgs: is not known and is left out";
        assert_eq!(unknown(&objects), [expected]);
    }

    #[test]
    fn objects_that_are_not_rendered_are_named() {
        let bare = "kind: MachineConfig\nmetadata: {name: bare}\n";
        let other = "kind: KubeletConfig\nmetadata: {name: pods}\n";
        let infra = config("50-infra", "infra", "two");
        let objects: Vec<Value> = [POOL, &infra, bare, other, "metadata: {name: none}\n"]
            .iter()
            .flat_map(|text| parse(text.as_bytes()).unwrap())
            .collect();
        let expected = [
            "MachineConfig bare is left out: it has no labels, by which a pool could select it",
            "KubeletConfig pods is left out: of MachineConfigPool, MachineConfig, \
             ControllerConfig only is a pool rendered",
            "an object \"none\" without a kind is left out",
        ];
        assert_eq!(unused(&objects), expected);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let infra = config("50-infra", "infra", "two");
        assert_eq!(
            problem(&[&infra]),
            "MachineConfigPool infra: no file has it"
        );
        assert_eq!(
            problem(&[POOL]),
            "MachineConfigPool infra: it selects none of the MachineConfigs in the files"
        );
        assert_eq!(
            problem(&[POOL, &infra, &infra]),
            "MachineConfig 50-infra: the files have it twice"
        );
        assert_eq!(
            problem(&[POOL, POOL, &infra]),
            "MachineConfigPool infra: the files have more than one"
        );
        let wrong = infra.replace("[two]", "7");
        let error = problem(&[POOL, &wrong]);
        assert!(
            error.contains("50-infra") && error.contains("kernelArguments"),
            "{error}"
        );
        let empty = POOL
            .split("    matchExpressions")
            .next()
            .unwrap()
            .replace("machineConfigSelector:", "machineConfigSelector: {}");
        let error = problem(&[&empty, &infra]);
        assert!(error.contains("spec.machineConfigSelector"), "{error}");
    }
}
