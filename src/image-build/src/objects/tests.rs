use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::*;
use crate::fixture::{self, files, rendered};
use crate::inputs::BuildProxy;
use crate::settings::BuildSettings;

const OWNER: BuildOwner<'static> = BuildOwner {
    build: "worker-1",
    uid: "u",
    config: "worker",
    rendered: "rendered-worker-1",
};

fn login(text: &str) -> BuildLogin {
    let secret: Secret = serde_json::from_value(json!({
        "type": "kubernetes.io/dockercfg",
        "data": { ".dockercfg": BASE64_STANDARD.encode(text) },
    }))
    .unwrap();
    BuildLogin::read("o", "f", ("a", "b"), Some(&secret)).unwrap()
}

#[test]
fn the_build_names_its_content_and_its_secret() {
    let inputs = fixture::inputs();
    let build: MachineOSBuild = serde_json::from_value(build(&inputs)).unwrap();
    let name = build.metadata.name.clone().unwrap();
    assert_eq!(name, inputs.build_name());
    assert_eq!(build.metadata.owner_references, None);
    assert_eq!(
        build.spec.rendered_image_push_spec,
        format!("registry.example:5000/a/os:{name}")
    );
    let annotations = build.metadata.annotations.unwrap();
    assert_eq!(annotations[annotation::IMAGE_CONTENT], inputs.content());
    assert_eq!(annotations[annotation::PUSH_SECRET], "push");
    let labels = build.metadata.labels.unwrap();
    assert_eq!(labels[label::TARGET_POOL], "worker");
    assert_eq!(labels[label::MACHINE_OS_CONFIG], "worker");
    assert_eq!(labels[label::RENDERED_CONFIG], "rendered-worker-1");
    assert!(!labels.contains_key(label::EPHEMERAL_BUILD_OBJECT));
}

#[test]
fn what_is_made_for_a_build_belongs_to_it() {
    let inputs = fixture::inputs();
    let settings = BuildSettings::read(None).unwrap();
    let job = job(JobInput {
        owner: OWNER,
        inputs: &inputs,
        settings: &settings,
        builder: "b",
        push: "p",
    });
    let [pull, push] = secrets(OWNER, &login(r#"{"a":{}}"#), &login(r#"{"b":{}}"#));
    let names = BuildObjectNames::of("worker-1");
    for (object, name) in [
        (&job, &names.job),
        (&input(OWNER, &inputs).unwrap(), &names.input),
        (&pull, &names.pull),
        (&push, &names.push),
    ] {
        let metadata = &object["metadata"];
        assert_eq!(metadata["name"], *name);
        assert_eq!(metadata["namespace"], "openshift-machine-config-operator");
        assert_eq!(
            metadata["labels"],
            json!({
                "machineconfiguration.openshift.io/machine-os-config": "worker",
                "machineconfiguration.openshift.io/machine-os-build": "worker-1",
                "machineconfiguration.openshift.io/target-machine-config-pool": "worker",
                "machineconfiguration.openshift.io/rendered-machine-config": "rendered-worker-1",
                "machineconfiguration.openshift.io/ephemeral-build-object": "",
            })
        );
        let owner = &metadata["ownerReferences"][0];
        assert_eq!(
            (&owner["uid"], &owner["controller"]),
            (&json!("u"), &json!(true))
        );
        assert_eq!(owner["kind"], "MachineOSBuild");
    }
    // The copy holds no more than the logins.
    let push: Secret = serde_json::from_value(push).unwrap();
    let data = push.data.unwrap();
    assert_eq!(data.len(), 1);
    assert_eq!(data[LOGIN_KEY].0, br#"{"auths":{"b":{}}}"#);
}

#[test]
fn long_names_fit_into_labels() {
    let pool = "p".repeat(200);
    let owner = BuildOwner {
        build: &format!("{pool}-{}", "0".repeat(32)),
        config: &pool,
        rendered: &format!("rendered-{pool}-{}", "1".repeat(32)),
        ..OWNER
    };
    let labels = owner.labels();
    assert!(
        labels.values().all(|value| value.len() <= LABEL_CHARS),
        "{labels:?}"
    );
    let names = BuildObjectNames::of(owner.build);
    assert!(names.job.len() <= LABEL_CHARS && names.job != names.input);
}

#[test]
fn the_input_has_what_there_is() {
    let map: ConfigMap = serde_json::from_value(input(OWNER, &fixture::inputs()).unwrap()).unwrap();
    let keys: Vec<String> = map.data.unwrap().into_keys().collect();
    assert_eq!(keys, ["Containerfile"]);
    assert_eq!(map.binary_data, None);

    let spec = files(&json!([
        { "path": "/usr/x" },
        { "path": "/etc/containers/registries.conf", "contents": { "source": "data:,r" } },
        { "path": "/etc/containers/policy.json", "contents": { "source": "data:,p" } },
    ]));
    let bundle = json!({ "additionalTrustBundle": BASE64_STANDARD.encode("A") });
    let inputs = fixture::read(
        &fixture::config(),
        &rendered("rendered-worker-1", &spec),
        &bundle,
    );
    let map = input(OWNER, &inputs.unwrap()).unwrap();
    let map: ConfigMap = serde_json::from_value(map).unwrap();
    let keys: Vec<String> = map.data.unwrap().into_keys().collect();
    assert_eq!(
        keys,
        [
            "Containerfile",
            "ca-bundle.crt",
            "policy.json",
            "registries.conf"
        ]
    );
    assert!(map.binary_data.unwrap().contains_key("context.tar.gz"));
}

#[test]
fn the_job_is_tried_again_but_not_for_wrong_input() {
    let mut inputs = fixture::inputs();
    inputs.proxy = BuildProxy {
        https: "http://p".to_owned(),
        ..BuildProxy::default()
    };
    let mut settings = BuildSettings::read(None).unwrap();
    settings.timeout = SignedDuration::from_mins(45);
    settings
        .node_selector
        .insert("build".to_owned(), String::new());
    // The architecture is that of the inputs.
    settings
        .node_selector
        .insert("kubernetes.io/arch".to_owned(), "s390x".to_owned());
    let value = job(JobInput {
        owner: OWNER,
        inputs: &inputs,
        settings: &settings,
        builder: "quay.io/builder@sha256:0",
        push: "registry.example:5000/a/os:worker-1",
    });
    let spec = &value["spec"];
    assert_eq!(spec["backoffLimit"], 3);
    assert_eq!(spec["activeDeadlineSeconds"], 2700);
    assert_eq!(spec["podReplacementPolicy"], "Failed");
    assert_eq!(
        spec["podFailurePolicy"]["rules"],
        json!([
            { "action": "FailJob", "onExitCodes":
                { "containerName": "build", "operator": "In", "values": [65] } },
            { "action": "Ignore", "onPodConditions":
                [{ "type": "DisruptionTarget", "status": "True" }] },
        ])
    );
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Never");
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["serviceAccountName"], ACCOUNT);
    assert_eq!(
        pod["nodeSelector"],
        json!({ "build": "", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux" })
    );
    let container = &pod["containers"][0];
    assert_eq!(
        container["terminationMessagePolicy"],
        "FallbackToLogsOnError"
    );
    let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
    assert_eq!(
        container["env"],
        json!([
            variable("IMAGE", "registry.example:5000/a/os:worker-1"),
            variable("BUILD", "worker-1"),
            variable("BASE_IMAGE", fixture::BASE),
            variable("HTTPS_PROXY", "http://p"),
            variable("https_proxy", "http://p"),
        ])
    );
    // What is mounted is read-only but for the storage, and each volume is there.
    let volumes = pod["volumes"].as_array().unwrap();
    for mount in container["volumeMounts"].as_array().unwrap() {
        assert_eq!(
            mount["readOnly"] == true,
            mount["mountPath"] != "/build/work",
            "{mount}"
        );
        assert!(
            volumes.iter().any(|volume| volume["name"] == mount["name"]),
            "{mount}"
        );
    }
    // The API knows all of it.
    let read: Job = serde_json::from_value(value.clone()).unwrap();
    let written = serde_json::to_value(&read).unwrap();
    assert_eq!(written["spec"], value["spec"]);
}
