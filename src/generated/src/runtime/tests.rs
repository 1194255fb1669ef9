use std::fmt::Write as _;

use ignition::content;
use serde_json::{Value as Json, json};

use super::*;

fn pools() -> Vec<PoolFacts> {
    ["edge", "worker"]
        .map(|name| PoolFacts {
            name: name.to_owned(),
            labels: [("pool".to_owned(), name.to_owned())].into(),
            is_control_plane: false,
            selects_own_role: true,
        })
        .into()
}

fn config(name: &str, pools: &[&str], options: &Json) -> ContainerRuntimeConfig {
    let selector = json!({ "matchExpressions": [
        { "key": "pool", "operator": "In", "values": pools }
    ] });
    let object = json!({
        "metadata": { "name": name, "uid": format!("uid-{name}") },
        "spec": { "containerRuntimeConfig": options, "machineConfigPoolSelector": selector }
    });
    serde_json::from_value(object).unwrap()
}

fn planned(configs: &[ContainerRuntimeConfig]) -> RuntimePlan {
    let configs: Vec<&ContainerRuntimeConfig> = configs.iter().collect();
    plan(&configs, &pools(), &BTreeMap::new())
}

/// All that a plan says, for people.
fn printed(plan: &RuntimePlan) -> String {
    let mut text = String::new();
    for outcome in &plan.outcomes {
        writeln!(text, "{outcome:?}").unwrap();
    }
    for config in &plan.configs {
        writeln!(text, "\n== {}", config.to_object("build")["metadata"]).unwrap();
        let (read, _) = ignition::parse(&config.spec["config"]).unwrap();
        for file in &read.storage.files {
            let bytes = content::decode(&file.contents).unwrap();
            let content = String::from_utf8(bytes).unwrap();
            write!(text, "-- {}\n{content}", file.path).unwrap();
        }
    }
    text
}

#[test]
fn each_setting_is_a_drop_in_and_storage_is_made_of_all_objects() {
    let plan = planned(&[
        config(
            "a",
            &["worker"],
            &json!({
                "logLevel": "debug", "pidsLimit": 4096, "logSizeMax": "10Mi", "defaultRuntime": "runc",
                "overlaySize": "8G",
                "additionalArtifactStores": [{ "path": "/mnt/artifacts" }]
            }),
        ),
        config(
            "b",
            &["worker", "edge"],
            &json!({
                "logLevel": "info", "pidsLimit": 0, "logSizeMax": -1,
                "additionalLayerStores": [{ "path": "/mnt/layers" }],
                "additionalImageStores": [{ "path": "/mnt/images" }, { "path": "/mnt/more" }]
            }),
        ),
    ]);
    golden::assert(
        env!("CARGO_MANIFEST_DIR"),
        "tests/golden/runtime.txt",
        &printed(&plan),
    );
}

/// Why the first is refused.
fn refusal(plan: &RuntimePlan) -> String {
    plan.outcomes[0].result.as_ref().unwrap_err().to_string()
}

#[test]
fn storage_is_laid_over_the_base_of_the_role() {
    let own = config("a", &["edge"], &json!({ "overlaySize": "1Ki" }));
    let of = |base: &str| {
        let storage = BTreeMap::from([("worker".to_owned(), base.to_owned())]);
        plan(&[&own], &pools(), &storage)
    };
    let text = printed(&of(
        "[storage]\ndriver = \"vfs\"\n[storage.options.overlay]\nmountopt = \"x\"\n",
    ));
    for line in ["driver = \"vfs\"", "mountopt = \"x\"", "size = \"1024\""] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let why = "MachineConfig 01-worker-container-runtime: /etc/containers/storage.conf is not TOML";
    assert_eq!(refusal(&of("driver =")), why);
}

#[test]
fn what_cannot_be_followed_is_refused_with_its_field() {
    let store = |path: &str| json!([{ "path": path }]);
    let many = ["/a", "/b", "/c", "/d", "/e", "/f"].map(|path| json!({ "path": path }));
    let table = [
        (json!({ "pidsLimit": 19 }), "invalid PidsLimit 19"),
        (json!({ "pidsLimit": -1 }), "invalid PidsLimit -1"),
        (
            json!({ "logSizeMax": "8Ki" }),
            "invalid LogSizeMax \"8Ki\", cannot be less than 8kB",
        ),
        (
            json!({ "logSizeMax": 1 }),
            "invalid LogSizeMax \"1\", cannot be less than 8kB",
        ),
        (
            json!({ "overlaySize": "-1G" }),
            "invalid OverlaySize \"-1G\", cannot be less than 0",
        ),
        (
            json!({ "overlaySize": "much" }),
            "spec.containerRuntimeConfig.overlaySize \"much\" is no quantity",
        ),
        (
            json!({ "logLevel": "loud" }),
            "invalid LogLevel \"loud\", must be one of error, fatal, panic, warn, info, debug, trace",
        ),
        (
            json!({ "defaultRuntime": "kata" }),
            "invalid DefaultRuntime \"kata\", must be crun or runc",
        ),
        (
            json!({ "additionalLayerStores": store("/a//b") }),
            "spec.containerRuntimeConfig.additionalLayerStores[0].path \"/a//b\" is no plain absolute path",
        ),
        (
            json!({ "additionalImageStores": [{ "path": "/a" }, { "path": "/a" }] }),
            "spec.containerRuntimeConfig.additionalImageStores[1].path /a is there twice",
        ),
        (
            json!({ "additionalLayerStores": many }),
            "spec.containerRuntimeConfig.additionalLayerStores has 6 stores, more than 5",
        ),
    ];
    for (options, why) in table {
        let plan = planned(&[config("a", &["worker"], &options)]);
        assert_eq!(plan.configs, [], "{options}");
        assert_eq!(refusal(&plan), why);
    }
    let none = planned(&[config("a", &["gone"], &json!({}))]);
    let why = "could not find any MachineConfigPool set for ContainerRuntimeConfig a";
    assert_eq!(refusal(&none), why);
}
