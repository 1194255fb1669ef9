use std::fmt::Write as _;

use super::*;

fn pools() -> Vec<PoolFacts> {
    ["arbiter", "edge", "master", "worker"]
        .map(|name| PoolFacts {
            name: name.to_owned(),
            labels: [].into(),
            is_control_plane: ["arbiter", "master"].contains(&name),
            selects_own_role: true,
        })
        .into()
}

fn config(spec: &Value) -> ControllerConfig {
    let object = json!({
        "metadata": { "name": "machine-config-controller", "uid": "uid-config" }, "spec": spec
    });
    serde_json::from_value(object).unwrap()
}

/// A cluster on no cloud, with what an administrator may add.
fn spec() -> Value {
    json!({
        "clusterDNSIP": "172.30.0.10",
        "pullSecret": { "namespace": "openshift-config", "name": "pull-secret" },
        "rootCAData": "cm9vdAo=",
        "additionalTrustBundle": "dHJ1c3QK",
        "images": { "infraImageKey": "quay.io/release/pause@sha256:1" },
        "infra": { "status": {
            "apiServerInternalURI": "https://api-int.c.example:6443",
            "platformStatus": { "type": "None" }
        } },
        "proxy": { "status": {
            "httpProxy": "http://p.example:3128", "noProxy": ".cluster.local,10.0.0.0/16"
        } }
    })
}

fn secret() -> PullSecret {
    PullSecret {
        r#type: PullSecret::TYPE.to_owned(),
        value: br#"{"auths":{}}"#.to_vec(),
    }
}

/// All files and units, for people.
fn printed(made: &[GeneratedConfig]) -> String {
    let mut text = String::new();
    for made in made {
        writeln!(text, "== {} for {}", made.name, made.role).unwrap();
        let (config, warnings) = ignition::parse(&made.spec["config"]).unwrap();
        assert_eq!(warnings, []);
        for file in &config.storage.files {
            let content = content::decode(&file.contents).unwrap();
            let content = String::from_utf8(content).unwrap();
            write!(text, "-- {} {:o}\n{content}", file.path, file.mode.unwrap()).unwrap();
        }
        for unit in &config.systemd.units {
            let contents = unit.contents.as_deref().unwrap_or_default();
            writeln!(text, "-- {} enabled: {:?}", unit.name, unit.enabled).unwrap();
            text.push_str(contents);
            for dropin in &unit.dropins {
                let contents = dropin.contents.as_deref().unwrap_or_default();
                write!(text, "-- {}.d/{}\n{contents}", unit.name, dropin.name).unwrap();
            }
        }
    }
    text
}

#[test]
fn each_built_in_role_has_its_base_configurations() {
    let config = config(&spec());
    assert!(is_made_of(&config));
    let made = plan(&config, &pools(), Some(&secret())).unwrap();
    assert_eq!(made.len(), 9);
    for config in &made {
        let object = config.to_object("build");
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations["slipway.dev/base-template"], "None");
        let owner = &object["metadata"]["ownerReferences"][0];
        assert_eq!(
            (owner["kind"].as_str(), owner["uid"].as_str()),
            (Some(MAKER), Some("uid-config"))
        );
    }
    // The others differ in their labels and taints only.
    let (masters, workers): (Vec<_>, Vec<_>) = made
        .into_iter()
        .filter(|config| config.role != "arbiter")
        .partition(|config| config.role == "master");
    golden::assert(
        env!("CARGO_MANIFEST_DIR"),
        "tests/golden/templates.txt",
        &(printed(&workers) + &printed(&masters[2..])),
    );
}

#[test]
fn a_kubelet_config_is_laid_over_the_template() {
    let made = plan(&config(&spec()), &pools(), Some(&secret())).unwrap();
    let worker = made
        .iter()
        .find(|config| config.name == "01-worker-kubelet");
    let spec = serde_json::from_value(worker.unwrap().spec.clone()).unwrap();
    let path = crate::kubelet::compose::KUBELET_CONF;
    let text = crate::object::file_of(&spec, path).unwrap().unwrap();
    let base = crate::kubelet::KubeletBase {
        roles: [(
            "worker".to_owned(),
            Ok(crate::kubelet::compose::base_of(&text).unwrap()),
        )]
        .into(),
        ..crate::kubelet::KubeletBase::default()
    };
    let config = json!({
        "metadata": { "name": "pods", "uid": "uid" },
        "spec": {
            "machineConfigPoolSelector": { "matchExpressions": [
                { "key": "size", "operator": "DoesNotExist" }
            ] },
            "kubeletConfig": { "maxPods": 300 }
        }
    });
    let config = serde_json::from_value(config).unwrap();
    let worker = &pools()[3..];
    let plan = crate::kubelet::plan(&[&config], worker, &base);
    let spec = serde_json::from_value(plan.configs[0].spec.clone()).unwrap();
    let text = crate::object::file_of(&spec, path).unwrap().unwrap();
    assert!(text.contains("maxPods: 300\n"), "{text}");
    assert!(text.contains("\"172.30.0.10\""), "{text}");
}

#[test]
fn other_platforms_are_left_to_their_own_program() {
    for platform in [json!("AWS"), json!(""), json!(null)] {
        let mut spec = spec();
        spec["infra"]["status"]["platformStatus"]["type"] = platform;
        assert!(!is_made_of(&config(&spec)));
    }
    let mut spec = spec();
    spec["infra"] = json!(null);
    assert!(!is_made_of(&config(&spec)));
}

#[test]
fn what_cannot_go_into_a_file_is_refused_with_its_field() {
    let table = [
        (
            "/clusterDNSIP",
            json!(""),
            "clusterDNSIP is empty, and kubelets need it",
        ),
        (
            "/clusterDNSIP",
            json!("dns"),
            "clusterDNSIP \"dns\" is no address",
        ),
        ("/rootCAData", json!("gICA"), "rootCAData is not text"),
        (
            "/proxy/status/noProxy",
            json!("a\nB=1"),
            "proxy.status.noProxy has a character that a variable cannot have",
        ),
        (
            "/infra/status/apiServerInternalURI",
            json!("http://a"),
            "infra.status.apiServerInternalURI \"http://a\" is no https://host:port",
        ),
        (
            "/infra/status/apiServerInternalURI",
            json!("https://a:b"),
            "infra.status.apiServerInternalURI \"https://a:b\" is no https://host:port",
        ),
    ];
    for (field, value, why) in table {
        let mut spec = spec();
        *spec.pointer_mut(field).unwrap() = value;
        let expected = format!("ControllerConfig machine-config-controller: spec.{why}");
        let error = plan(&config(&spec), &pools(), Some(&secret())).unwrap_err();
        assert_eq!(display::Chain(&error).to_string(), expected);
    }
    let server = |uri: &str| api_server(uri).unwrap();
    assert_eq!(server("https://a"), ("a".to_owned(), 443));
    assert_eq!(
        server("https://[fd00::1]:6443/"),
        ("[fd00::1]".to_owned(), 6443)
    );
}

#[test]
fn pull_secret_that_cannot_be_used_is_named_without_its_content() {
    let refusal = |spec: &Value, secret: Option<&PullSecret>| {
        let error = plan(&config(spec), &pools(), secret).unwrap_err();
        display::Chain(&error).to_string()
    };
    let place = "ControllerConfig machine-config-controller: spec.pullSecret";
    let of = format!("{place}: Secret openshift-config/pull-secret");
    assert_eq!(refusal(&spec(), None), format!("{of} is not there"));
    let other = PullSecret {
        r#type: "Opaque".to_owned(),
        ..secret()
    };
    assert_eq!(
        refusal(&spec(), Some(&other)),
        format!("{of} has type \"Opaque\", expected kubernetes.io/dockerconfigjson")
    );
    let broken = PullSecret {
        value: br#"{"auths": hidden}"#.to_vec(),
        ..secret()
    };
    assert_eq!(
        refusal(&spec(), Some(&broken)),
        format!("{of} has no JSON object in .dockerconfigjson: line 1, column 11")
    );
    let mut elsewhere = spec();
    elsewhere["pullSecret"]["name"] = json!("mine");
    assert_eq!(
        refusal(&elsewhere, Some(&secret())),
        format!(
            "{place} names Secret openshift-config/mine, and only openshift-config/pull-secret is read"
        )
    );
    assert!(!format!("{broken:?}").contains("value"), "{broken:?}");
    // Where none is set, the host's own stays.
    let mut none = spec();
    none["pullSecret"] = json!(null);
    let made = plan(&config(&none), &pools(), Some(&secret())).unwrap();
    assert!(!printed(&made).contains("-- /var/lib/kubelet/config.json"));
}
