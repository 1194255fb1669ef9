//! `slipway config render`: what a pool's MachineConfigs are merged into, from files alone.
//!
//! The files hold what the controller reads: the MachineConfigPool, MachineConfigs, and the
//! ControllerConfig if the release's OS image is to be in the result. They are rendered by the
//! code of the controller, and so have the name that it gives.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use api::machineconfiguration::{MachineConfigPool, annotation, label};
use clap::Args;
use machineconfig::render::{Base, Rendered, Source, render};
use pool::selector::Selector;
use pool::view::PoolView;
use serde_json::{Value, json};

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
        read(path, &mut objects)?;
    }
    let (rendered, object) = render_pool(&arguments.pool, &objects)?;
    for (source, lost) in &rendered.warnings {
        warn(&format!("MachineConfig {source}: {lost}"));
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
        // The build of the controller is not known here.
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

fn is_of(object: &Value, kind: &str) -> bool {
    object.get("kind").and_then(Value::as_str) == Some(kind)
}

fn name_of(object: &Value) -> &str {
    let name = object.pointer("/metadata/name");
    name.and_then(Value::as_str).unwrap_or_default()
}

fn texts(object: &Value, field: &str) -> std::collections::BTreeMap<String, String> {
    let map = object.pointer(&format!("/metadata/{field}"));
    let map = map.and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// Reads the objects of a file, or of the files of a directory that are named as YAML or JSON.
fn read(path: &Path, objects: &mut Vec<Value>) -> anyhow::Result<()> {
    let failed = || format!("cannot read {}", path.display());
    if !path.is_dir() {
        let bytes = std::fs::read(path).with_context(failed)?;
        let parsed = parse(&bytes).with_context(|| format!("file {}", path.display()))?;
        objects.extend(parsed);
        return Ok(());
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).with_context(failed)? {
        let file = entry.with_context(failed)?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && file.is_file() {
            files.push(file);
        }
    }
    files.sort_unstable();
    files.iter().try_for_each(|file| read(file, objects))
}

/// The objects of a text, with those of lists one by one.
fn parse(bytes: &[u8]) -> anyhow::Result<Vec<Value>> {
    let text = std::str::from_utf8(bytes).context("it is not UTF-8")?;
    let options = serde_saphyr::options! { with_snippet: false };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
        .context("it is neither YAML nor JSON")?;
    let mut objects = Vec::new();
    for (number, document) in (1..).zip(documents) {
        match document.get("items").and_then(Value::as_array) {
            Some(items) => objects.extend(items.iter().cloned()),
            None if document.is_null() => {}
            None if document.is_object() => objects.push(document),
            None => bail!("document {number} is no object"),
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(format!("{:#}", parse(b"- 1\n").unwrap_err()).contains("document 1 is no object"));
        assert!(format!("{:#}", parse(b"a: [").unwrap_err()).contains("neither YAML nor JSON"));
    }

    #[test]
    fn directories_are_read_by_their_yaml_and_json() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let write =
            |name: &str, text: &str| crate::output::write(&path.join(name), text.as_bytes());
        write("a.yaml", POOL).unwrap();
        write("b.json", "{\"kind\": \"MachineConfig\"}").unwrap();
        write("notes.txt", "not: [read").unwrap();
        let mut objects = Vec::new();
        read(path, &mut objects).unwrap();
        assert_eq!(objects.len(), 3);
        let error = read(&path.join("none.yaml"), &mut objects).unwrap_err();
        assert!(error.to_string().starts_with("cannot read "), "{error}");
    }
}
