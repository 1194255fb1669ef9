use serde_json::{Value, json};

use super::*;
use crate::fixture::{self, BASE, cluster, config, config_of, files, rendered};

fn refusal(config: &Value, spec: &Value) -> String {
    let rendered = rendered("rendered-worker-1", spec);
    let read = fixture::read(&config_of(config), &rendered, &json!({}));
    read.map(|inputs| inputs.build_name())
        .unwrap_err()
        .to_string()
}

#[test]
fn all_inputs_are_read() {
    let config = config_of(&json!({
        "baseImagePullSecret": { "name": "pull" },
        "containerFile": [{ "content": "FROM configs AS final\nRUN true\n" }],
    }));
    let rendered = rendered(
        "rendered-worker-1",
        &files(&json!([
            { "path": "/usr/lib/x", "contents": { "source": "data:,x" } },
            { "path": "/etc/containers/registries.conf", "contents": { "source": "data:,r" } },
            { "path": "/etc/containers/policy.json", "contents": { "source": "data:,%7B%7D" } },
        ])),
    );
    let pem = |text: &str| json!(base64_of(text));
    let inputs = fixture::read(
        &config,
        &rendered,
        &json!({
            "additionalTrustBundle": pem("A\n"),
            "imageRegistryBundleData": [{ "file": "a", "data": pem("B") }],
            "imageRegistryBundleUserData": [
                { "file": "a", "data": pem("A") }, { "file": "b", "data": pem("C\n\n") },
            ],
            "proxy": { "httpProxy": "http://p", "noProxy": ".svc" },
        }),
    )
    .unwrap();
    assert_eq!(inputs.base_image, BASE);
    assert_eq!(inputs.pull_secret.as_deref(), Some("pull"));
    assert_eq!(inputs.push_secret, "push");
    assert_eq!(inputs.registries.as_deref(), Some("r"));
    assert_eq!(inputs.policy.as_deref(), Some("{}"));
    assert_eq!(inputs.trust, "A\nB\nC\n");
    assert_eq!(inputs.proxy.http, "http://p");
    assert_eq!(inputs.proxy.https, "");
    let name = inputs.build_name();
    assert_eq!(
        inputs.containerfile(),
        format!(
            "FROM {BASE} AS configs\nLABEL slipway.dev/os-build={name}\nCOPY files/ /\nFROM configs AS final\nRUN true\n"
        )
    );
    assert!(inputs.context().unwrap().is_some());
    assert!(fixture::inputs().context().unwrap().is_none());
}

fn base64_of(text: &str) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(text)
}

#[test]
fn what_cannot_be_built_is_named_by_object_and_field() {
    let none = json!({});
    let at = "MachineOSConfig worker: spec";
    for (config, why) in [
        (
            json!({ "machineConfigPool": { "name": "infra" } }),
            ".machineConfigPool.name: it is not the object's own name",
        ),
        (
            json!({ "imageBuilder": { "imageBuilderType": "Pod" } }),
            ".imageBuilder.imageBuilderType: it is not Job",
        ),
        (
            json!({ "renderedImagePushSecret": { "name": "" } }),
            ".renderedImagePushSecret.name: it is empty",
        ),
        (
            json!({ "baseImagePullSecret": { "name": "" } }),
            ".baseImagePullSecret.name: it is empty",
        ),
        (
            json!({ "renderedImagePushSpec": "quay.io/os" }),
            ".renderedImagePushSpec: \"quay.io/os\" has no tag",
        ),
        (
            json!({ "containerFile": [{ "content": "" }, { "containerfileArch": "NoArch", "content": "" }] }),
            ".containerFile[1].containerfileArch: NoArch has more than one Containerfile",
        ),
        (
            json!({ "containerFile": [{ "containerfileArch": "ARM64", "content": "" }] }),
            ".containerFile: none is for AMD64 or NoArch, and the pool's nodes are amd64",
        ),
    ] {
        assert_eq!(refusal(&config, &none), format!("{at}{why}"));
    }
    let at = "MachineConfig rendered-worker-1: spec";
    for (spec, why) in [
        (
            json!({ "osImageURL": "" }),
            ".osImageURL: it names no image to build on",
        ),
        (
            json!({ "osImageURL": "a b" }),
            ".osImageURL: it is no pull spec",
        ),
        (
            json!({ "osImageURL": "quay.io/a\nRUN x" }),
            ".osImageURL: it is no pull spec",
        ),
        (
            json!({ "osImageURL": "$BASE" }),
            ".osImageURL: it is no pull spec",
        ),
        (
            json!({ "extensions": ["ipsec", "usbguard"] }),
            ".baseOSExtensionsContainerImage: it names no image with the packages of extensions and kernels",
        ),
        (
            json!({ "kernelType": "realtime" }),
            ".baseOSExtensionsContainerImage: it names no image with the packages of extensions and kernels",
        ),
        (
            json!({ "kernelType": "my own" }),
            ": spec.kernelType: kernelType=my own is invalid",
        ),
        (
            files(&json!([{ "path": "/usr/x", "contents": { "source": "https://x/y" } }])),
            ".config.storage.files[0].contents: /usr/x: source must be a data: URL, is https:",
        ),
        (
            files(&json!([
                { "path": "/etc/containers/policy.json", "contents": { "source": "data:;base64,/w==" } },
            ])),
            ".config.storage.files[0].contents: /etc/containers/policy.json: it is no text",
        ),
    ] {
        assert_eq!(refusal(&none, &spec), format!("{at}{why}"));
    }
    let read = fixture::read(
        &config(),
        &rendered("rendered-worker-1", &none),
        &json!({ "imageRegistryBundleData": [{ "file": "a", "data": "/w==" }] }),
    );
    assert_eq!(
        read.unwrap_err().to_string(),
        "ControllerConfig machine-config-controller: spec.imageRegistryBundleData[0].data: it is no text in PEM"
    );
}

#[test]
fn more_than_a_config_map_holds_is_named_with_its_bytes() {
    // Bytes that do not compress.
    let mut state = 1_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
    .take(MAX_INPUT_BYTES + 1)
    .collect();
    let url = ignition::content::to_data_url(&noise);
    let spec = files(&json!([{ "path": "/usr/lib/x", "contents": { "source": url } }]));
    let text = refusal(&json!({}), &spec);
    let at =
        "MachineConfig rendered-worker-1: spec.config.storage.files: the input of the build has ";
    assert!(text.starts_with(at), "{text}");
    assert!(
        text.ends_with("in context.tar.gz; a ConfigMap holds 1048576"),
        "{text}"
    );
}

/// An input that is changed.
type Change = fn(&mut ImageInputs);

#[test]
fn the_content_is_what_is_in_the_image() {
    let base = {
        let spec = files(&json!([{ "path": "/usr/x", "contents": { "source": "data:,x" } }]));
        fixture::read(&config(), &rendered("rendered-worker-1", &spec), &json!({})).unwrap()
    };
    let within: [Change; 8] = [
        |inputs| inputs.base_image.push('0'),
        |inputs| inputs.written.push_str("RUN true"),
        |inputs| inputs.files[0].path.push('0'),
        |inputs| inputs.files[0].bytes.push(0),
        |inputs| inputs.files[0].mode = 0o755,
        |inputs| inputs.files[0].owner = Some("1:1".to_owned()),
        |inputs| inputs.architecture = ImageArchitecture::Arm64,
        |inputs| inputs.push = PushSpec::parse("registry.example/b/os:latest").unwrap(),
    ];
    for change in within {
        let mut changed = base.clone();
        change(&mut changed);
        assert_ne!(changed.content(), base.content(), "{changed:?}");
    }
    let beside: [Change; 6] = [
        |inputs| inputs.push = PushSpec::parse("registry.example:5000/a/os:other").unwrap(),
        |inputs| inputs.push_secret.push('0'),
        |inputs| inputs.pull_secret = Some("pull".to_owned()),
        |inputs| inputs.trust.push('0'),
        |inputs| inputs.registries = Some(String::new()),
        |inputs| inputs.proxy.http.push('0'),
    ];
    for change in beside {
        let mut changed = base.clone();
        change(&mut changed);
        assert_eq!(changed.content(), base.content(), "{changed:?}");
        assert_eq!(changed.build_name(), base.build_name());
    }
    let mut other = base.clone();
    other.rendered = "rendered-worker-2".to_owned();
    assert_eq!(other.content(), base.content());
    assert_ne!(other.build_name(), base.build_name());
    assert_eq!(base.content().len(), 64);
}

#[test]
fn a_cluster_without_proxy_and_bundles_has_none() {
    let cluster = cluster(&json!({}));
    assert_eq!(trust(&cluster).unwrap(), "");
    assert_eq!(proxy(&cluster), BuildProxy::default());
}
