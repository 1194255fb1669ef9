//! `slipway config diff` and `slipway node --plan-to`: what a node would do to go from one
//! MachineConfig to another, as its daemon plans it.
//!
//! A MachineConfig is named in a cluster, or is a file; then no cluster is read.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use api::machineconfiguration::MachineConfig;
use api::operator::machine_configuration::{self, MachineConfiguration};
use clap::Args;
use cluster::access::Access;
use cluster::path;
use cluster::wire::escape;
use machineconfig::spec::NodeConfig;
use node_update::plan::{Attempt, Route, Target};
use node_update::planner::{Facts, Request, Side, describe, plan};
use node_update::settings::UpdateSettings;
use serde::Serialize;
use serde_json::Value;

use crate::access::AccessArgs;
use crate::config_files::{name_of, parse, unknown_members};
use crate::decide::os_change::OsChange;
use crate::failure::{Ending, Several};
use crate::kubeconfig::ClusterArgs;
use crate::os_image::OsImageReader;
use crate::output::{show, warn};
use crate::view::os;

const KIND: &str = "MachineConfig";

/// Ends a plan with another OS image.
const HINT: &str = "\nWhat changes in the OS image: --packages\n";

/// `slipway config diff`.
#[derive(Debug, Args)]
pub struct ConfigDiffArgs {
    /// Name of a MachineConfig in the cluster, or a file
    #[arg(value_name = "FROM")]
    pub from: String,
    /// Name of a MachineConfig in the cluster, or a file. With two files no cluster is asked, and
    /// the default node disruption policies count
    #[arg(value_name = "TO")]
    pub to: String,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// What a change does to a node. File contents, keys and passwords are not in it.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ChangeView {
    from: String,
    to: String,
    is_rebooting: bool,
    is_draining: bool,
    because: Vec<String>,
    /// What is changed without effect on an installed host.
    without_effect: Vec<String>,
    steps: usize,
    /// What of the configurations is lost, by object and path.
    #[serde(skip)]
    warnings: Vec<String>,
    /// Pull specs of the OS image, where another one is deployed.
    #[serde(skip_serializing_if = "Option::is_none")]
    os_image: Option<OsImageMove>,
    /// What changes in the OS, where that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    os: Option<OsChange>,
    /// The plan for people.
    text: String,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct OsImageMove {
    from: String,
    to: String,
}

pub(crate) async fn run(arguments: ConfigDiffArgs) -> anyhow::Result<Ending> {
    let is_file = |name: &str| name.contains(['/', '.']) && Path::new(name).exists();
    let names = [&arguments.from, &arguments.to];
    let access = if names.iter().all(|name| is_file(name)) {
        None
    } else {
        Some(arguments.cluster.access()?)
    };
    let read = async |name: &str| match &access {
        Some(access) if !is_file(name) => of_cluster(access, name).await,
        _ => of_file(Path::new(name)),
    };
    let (from, to) = (read(&arguments.from).await?, read(&arguments.to).await?);
    let settings = settings(access.as_ref()).await?;
    let view = ChangeView::new([&from, &to], [None; 2], &settings)?;
    print_view(&arguments.cluster, &view)
}

/// The same from what a node runs, as the cluster knows it. With registries the OS images are read
/// as well.
pub(crate) async fn plan_for(
    arguments: &ClusterArgs,
    access: &Access,
    targets: [&Target; 2],
    registries: Option<&AccessArgs>,
) -> anyhow::Result<Ending> {
    let [from, to] = targets;
    let objects = [
        of_cluster(access, &from.config).await?,
        of_cluster(access, &to.config).await?,
    ];
    let settings = settings(Some(access)).await?;
    let images = targets.map(|target| target.image.as_deref());
    let mut view = ChangeView::new(objects.each_ref(), images, &settings)?;
    if let Some(images) = &view.os_image {
        match registries {
            Some(registries) => {
                let stores = registries.stores()?;
                let mut reader = OsImageReader::new(&stores)?;
                let change = reader.change(&images.from, &images.to).await?;
                view.text.push('\n');
                view.text.push_str(&match &change {
                    Some(change) => os::change("image", change),
                    None => os::same("image"),
                });
                view.os = change;
            }
            None => view.text.push_str(HINT),
        }
    } else if registries.is_some() {
        view.text.push_str("\nThe OS image stays.\n");
    }
    print_view(arguments, &view)
}

fn print_view(arguments: &ClusterArgs, view: &ChangeView) -> anyhow::Result<Ending> {
    for warning in &view.warnings {
        warn(warning);
    }
    show(arguments.output, view, || view.text.clone())?;
    Ok(Ending::Done)
}

impl ChangeView {
    /// Plans the change on a host of which only the configuration is read.
    ///
    /// # Errors
    /// A MachineConfig that cannot be read, and all reasons why the second cannot follow the first.
    fn new(
        [from, to]: [&Value; 2],
        [from_image, to_image]: [Option<&str>; 2],
        settings: &UpdateSettings,
    ) -> anyhow::Result<Self> {
        let mut warnings = Vec::new();
        let mut read = |object: &Value, read: fn(&Value) -> Result<_, _>| {
            let named = format!("{KIND} {}", name_of(object));
            let (config, lost): (NodeConfig, Vec<_>) =
                read(object).with_context(|| named.clone())?;
            let lost = lost
                .iter()
                .map(|lost| format!("{named}: spec.config: {lost}"));
            let members = unknown_members(KIND, object).into_iter();
            warnings.extend(
                members.map(|member| format!("{named}: {member}: is not known and is left out")),
            );
            warnings.extend(lost);
            anyhow::Ok(config)
        };
        let from = read(from, NodeConfig::in_force)?;
        let to = read(to, NodeConfig::parse)?;
        let target = |config: &NodeConfig, image: Option<&str>| Target {
            config: config.name.clone(),
            image: image.map(str::to_owned),
        };
        let facts = Facts {
            is_node: true,
            ..Facts::default()
        };
        let outcome = plan(&Request {
            attempt: &Attempt("preview".to_owned()),
            from: Side {
                target: &target(&from, from_image),
                config: &from,
            },
            to: Side {
                target: &target(&to, to_image),
                config: &to,
            },
            facts: &facts,
            policies: &settings.policies,
            exempt: settings.exempt,
            force: false,
        });
        let outcome = outcome.map_err(|rejections| {
            let name = &to.name;
            let lines = rejections.0.iter();
            Several::new(lines.map(|why| anyhow!("MachineConfig {name}: {why}")))
        })?;
        let plan = outcome.bundle.plan;
        let images = from.image(from_image).zip(to.image(to_image));
        let os_image = images
            .filter(|(from, to)| from != to)
            .map(|(from, to)| OsImageMove {
                from: from.to_owned(),
                to: to.to_owned(),
            });
        let text = if plan.steps.is_empty() && plan.route == Route::Live {
            format!("{} and {} ask for the same\n", from.name, to.name)
        } else {
            describe(&plan)
        };
        Ok(Self {
            from: from.name,
            to: to.name,
            is_rebooting: plan.route == Route::Reboot,
            is_draining: plan.drain,
            steps: plan.steps.len(),
            because: plan.because,
            without_effect: plan.without_effect,
            warnings,
            os_image,
            os: None,
            text,
        })
    }
}

async fn of_cluster(access: &Access, name: &str) -> anyhow::Result<Value> {
    let path = path::object::<MachineConfig>(&escape(name));
    let read = access.get(&path).await;
    read.with_context(|| format!("cannot read MachineConfig {name}"))
}

fn of_file(path: &Path) -> anyhow::Result<Value> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    config_of(&text).with_context(|| format!("file {shown}"))
}

/// The only object of a file, with a warning for each member that is lost.
fn config_of(text: &str) -> anyhow::Result<Value> {
    let mut objects = parse(text.as_bytes())?;
    let (Some(object), true) = (objects.pop(), objects.is_empty()) else {
        bail!("it has not one object, a MachineConfig");
    };
    if let Some(kind) = object.get("kind").filter(|kind| *kind != KIND) {
        bail!("kind: {kind} is not \"{KIND}\"");
    }
    Ok(object)
}

/// The cluster's settings; the defaults without a cluster, or where it has none.
async fn settings(access: Option<&Access>) -> anyhow::Result<UpdateSettings> {
    let Some(access) = access else {
        return Ok(UpdateSettings::default());
    };
    let name = machine_configuration::NAME;
    let path = path::object::<MachineConfiguration>(name);
    let object = access.find::<Value>(&path).await;
    match object.with_context(|| format!("cannot read MachineConfiguration {name}"))? {
        Some(object) => {
            UpdateSettings::read(&object).with_context(|| format!("MachineConfiguration {name}"))
        }
        None => Ok(UpdateSettings::default()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(name: &str, files: &Value, kernel_arguments: &Value) -> Value {
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": name },
            "spec": {
                "config": { "ignition": { "version": "3.4.0" }, "storage": { "files": files } },
                "kernelArguments": kernel_arguments
            }
        })
    }

    fn file(path: &str, text: &str) -> Value {
        json!({ "path": path, "mode": 420, "overwrite": true, "contents": { "source": format!("data:,{text}") } })
    }

    fn view(from: &Value, to: &Value) -> anyhow::Result<ChangeView> {
        ChangeView::new([from, to], [None; 2], &UpdateSettings::default())
    }

    #[test]
    fn a_change_is_shown_with_its_route_and_without_contents() {
        let before = config("a", &json!([file("/etc/motd", "old")]), &json!([]));
        let after = config(
            "b",
            &json!([file("/etc/motd", "secret")]),
            &json!(["quiet"]),
        );
        let view = view(&before, &after).unwrap();
        assert!(view.is_rebooting && view.is_draining);
        assert!(view.text.contains("update  a -> b\n"), "{}", view.text);
        assert!(view.text.contains("karg    + quiet\n"), "{}", view.text);
        assert!(view.text.contains("write   /etc/motd"), "{}", view.text);
        assert!(!view.text.contains("secret"), "{}", view.text);
    }

    #[test]
    fn files_are_read_as_the_tools_of_the_cluster_read_them() {
        let text = "kind: MachineConfig\nmetadata: { name: b }\nspec:\n  kernelArgs: [a]\n  config:\n    \
                    ignition: { version: 3.4.0 }\n    storage: { files: [{ path: /etc/motd, mode: 0644, owner: x }] }\n";
        let after = config_of(text).unwrap();
        let mode = after.pointer("/spec/config/storage/files/0/mode");
        assert_eq!(mode, Some(&json!(420)));
        let view = view(&config("a", &json!([]), &json!([])), &after).unwrap();
        assert_eq!(
            view.warnings[0],
            "MachineConfig b: spec.kernelArgs: is not known and is left out"
        );
        let lost = &view.warnings[1];
        assert!(
            lost.starts_with("MachineConfig b: spec.config: storage.files[0].owner: "),
            "{lost}"
        );
        for (text, expected) in [
            ("", "it has not one object, a MachineConfig"),
            (
                "kind: MachineConfig\n---\nkind: MachineConfig\n",
                "it has not one object, a MachineConfig",
            ),
            ("kind: Node\n", "kind: \"Node\" is not \"MachineConfig\""),
        ] {
            assert_eq!(config_of(text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn policies_of_the_cluster_decide() {
        let before = config("a", &json!([file("/etc/app.conf", "old")]), &json!([]));
        let after = config("b", &json!([file("/etc/app.conf", "new")]), &json!([]));
        assert!(view(&before, &after).unwrap().is_rebooting);
        let policies =
            json!({ "files": [{ "path": "/etc/app.conf", "actions": [{ "type": "None" }] }] });
        let object =
            json!({ "status": { "nodeDisruptionPolicyStatus": { "clusterPolicies": policies } } });
        let settings = UpdateSettings::read(&object).unwrap();
        let view = ChangeView::new([&before, &after], [None; 2], &settings).unwrap();
        assert!(!view.is_rebooting && !view.is_draining);
    }

    #[test]
    fn another_os_image_is_named() {
        let with = |name: &str, image: &str| {
            let mut config = config(name, &json!([]), &json!([]));
            config["spec"]["osImageURL"] = json!(image);
            config
        };
        let (one, other) = (with("a", "q.example/os:1"), with("b", "q.example/os:2"));
        let images = |from: &Value, to: &Value, layered: [Option<&str>; 2]| {
            let view = ChangeView::new([from, to], layered, &UpdateSettings::default()).unwrap();
            view.os_image
                .map(|images| format!("{} {}", images.from, images.to))
        };
        let expected = Some("q.example/os:1 q.example/os:2".to_owned());
        assert_eq!(images(&one, &other, [None; 2]), expected);
        assert_eq!(images(&one, &one, [None; 2]), None);
        // What is built for the node counts, not what its configuration names.
        let built = [Some("q.example/built:7"), None];
        let expected = Some("q.example/built:7 q.example/os:2".to_owned());
        assert_eq!(images(&one, &other, built), expected);
        let both = [Some("q.example/built:7"), Some("q.example/built:7")];
        assert_eq!(images(&one, &other, both), None);
        assert_eq!(images(&with("a", ""), &other, [None; 2]), None);
    }

    #[test]
    fn equal_configurations_are_said_to_be() {
        let one = config("a", &json!([file("/etc/motd", "x")]), &json!([]));
        let other = config("b", &json!([file("/etc/motd", "x")]), &json!([]));
        let view = view(&one, &other).unwrap();
        assert_eq!(view.text, "a and b ask for the same\n");
    }

    #[test]
    fn each_rejection_has_a_line_with_object_and_field() {
        let before = config("a", &json!([]), &json!([]));
        let mut after = config("b", &json!([file("/etc/motd", "x")]), &json!([]));
        after["spec"]["fips"] = json!(true);
        after["spec"]["config"]["storage"]["files"][0]["contents"]["source"] =
            json!("https://example.com/x");
        let error = view(&before, &after).unwrap_err();
        let lines = crate::failure::lines(&error);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines
                .iter()
                .all(|line| line.starts_with("MachineConfig b: "))
        );
        assert!(lines.iter().any(|line| line.contains("fips")), "{lines:?}");
        let broken = json!({ "metadata": { "name": "c" }, "spec": { "kernelArguments": 7 } });
        let error = format!("{:#}", view(&before, &broken).unwrap_err());
        assert!(
            error.contains("MachineConfig c") && error.contains("kernelArguments"),
            "{error}"
        );
    }
}
