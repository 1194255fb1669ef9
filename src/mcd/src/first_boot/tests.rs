use serde_json::json;

use crate::deployments::Deployment;
use node_update::plan::Expectation;

use super::*;

fn written(spec: &Value, left: &Value) -> Written {
    let object = |spec: &Value| {
        json!({ "metadata": { "name": "rendered-worker-1" }, "spec": spec }).to_string()
    };
    Written {
        encapsulated: object(left).into_bytes(),
        content: object(spec).into_bytes(),
        annotations: None,
    }
}

fn in_image(mut written: Written, config: &str, image: &str) -> Written {
    let annotations = json!({
        annotation::CURRENT_CONFIG: config, annotation::CURRENT_IMAGE: image,
    });
    written.annotations = Some(annotations.to_string().into_bytes());
    written
}

fn empty() -> Value {
    json!({ "ignition": { "version": "3.3.0" } })
}

fn parsed(left: &Value) -> Parsed {
    written(left, left).parse().unwrap()
}

fn view(image: &str, arguments: &[&str]) -> View {
    View {
        boot_id: "boot".to_owned(),
        booted: Deployment {
            checksum: "aaa".to_owned(),
            serial: 0,
            version: None,
            config: None,
            image: None,
            record_error: None,
            os_image: Some(image.to_owned()),
            origin: None,
            kernel_arguments: arguments.iter().map(ToString::to_string).collect(),
        },
        next: None,
        rollback: None,
        journal: None,
        last: None,
        held: None,
        without_effect: Vec::new(),
    }
}

fn plan(view: &View, left: &Value) -> Result<Option<Bundle>, String> {
    plan_of(view, &parsed(left))
}

fn plan_of(view: &View, parsed: &Parsed) -> Result<Option<Bundle>, String> {
    let to = (&parsed.target, &parsed.config);
    super::plan(view, to, None, &Attempt("firstboot-1".to_owned()))
}

#[test]
fn host_that_has_what_it_asks_for_needs_no_reboot() {
    let left = json!({
        "osImageURL": "r/os@sha256:1", "kernelArguments": ["a=1 b"], "config": empty(),
    });
    let same = view("r/os@sha256:1", &["ro", "a=1", "quiet", "b"]);
    assert_eq!(plan(&same, &left), Ok(None));
}

#[test]
fn image_and_arguments_that_the_host_lacks_are_changed_in_one_boot() {
    let left = json!({
        "osImageURL": "r/os@sha256:2", "kernelArguments": ["a=1", "b"], "config": empty(),
    });
    let plan = plan(&view("r/os@sha256:1", &["ro", "b"]), &left);
    let plan = plan.unwrap().unwrap().plan;
    let deploy = plan.deploy.unwrap();
    assert_eq!(deploy.image.as_deref(), Some("r/os@sha256:2"));
    assert_eq!(deploy.delete_arguments, ["b"]);
    assert_eq!(deploy.append_arguments, ["a=1", "b"]);
    assert!(!plan.drain);
    assert_eq!(plan.to.config, "rendered-worker-1");
}

#[test]
fn another_order_of_arguments_is_a_change() {
    let left = json!({ "kernelArguments": ["a", "b"], "config": empty() });
    let plan = plan(&view("r/os@sha256:1", &["b", "a"]), &left);
    let deploy = plan.unwrap().unwrap().plan.deploy.unwrap();
    assert_eq!((deploy.image, deploy.append_arguments.len()), (None, 2));
}

#[test]
fn what_the_host_cannot_become_is_refused_by_field() {
    for (field, left) in [
        ("spec.fips", json!({ "fips": true, "config": empty() })),
        (
            "spec.kernelType",
            json!({ "kernelType": "realtime", "config": empty() }),
        ),
        (
            "spec.extensions",
            json!({ "extensions": ["usbguard"], "config": empty() }),
        ),
    ] {
        let error = plan(&view("r/os@sha256:1", &[]), &left).unwrap_err();
        assert!(error.contains(field), "{field}: {error}");
    }
}

#[test]
fn new_deployment_has_the_record_of_the_whole_and_the_file_renamed() {
    let whole = json!({ "osImageURL": "r/os@sha256:2", "config": {
        "ignition": { "version": "3.4.0" },
        "storage": { "files": [{ "path": "/etc/x", "contents": { "source": "data:,x" } }] },
    } });
    let left = json!({
        "osImageURL": "r/os@sha256:2", "kernelArguments": ["moved"], "config": empty(),
    });
    let written = written(&whole, &left);
    let parsed = written.parse().unwrap();
    assert_eq!(parsed.target, Target::of_config("rendered-worker-1"));
    let bundle = plan_of(&view("r/os@sha256:1", &[]), &parsed);
    let bundle = with_files(
        bundle.unwrap().unwrap(),
        parsed.record,
        written.encapsulated,
    );
    let deploy = bundle.plan.deploy.as_ref().unwrap();
    assert_eq!(deploy.append_arguments, ["moved"]);
    let record: Value = serde_json::from_slice(&bundle.blobs[&bundle.plan.record]).unwrap();
    assert_eq!(record["spec"], whole);
    let paths: Vec<&str> = bundle
        .plan
        .steps
        .iter()
        .filter_map(|step| {
            let (Action::WriteFile { path, .. } | Action::ReleaseFile { path }) = &step.action
            else {
                return None;
            };
            Some(path.as_str())
        })
        .collect();
    assert!(paths.contains(&"/etc/x"), "{paths:?}");
    assert_eq!(paths[paths.len() - 2..], [ENCAPSULATED_USED, ENCAPSULATED]);
}

/// The whole names the OS of the release, what is left and the annotations the built image.
#[test]
fn machine_of_a_pool_in_image_mode_is_in_the_built_image_after_one_boot() {
    let built = "r/built@sha256:2";
    let whole = json!({ "osImageURL": "r/os@sha256:1", "config": {
        "ignition": { "version": "3.4.0" },
        "storage": { "files": [
            { "path": "/etc/x", "contents": { "source": "data:,x" } },
            { "path": "/usr/lib/x", "contents": { "source": "data:,x" } },
        ] },
    } });
    let left = json!({ "osImageURL": built, "config": empty() });
    let parsed = in_image(written(&whole, &left), "rendered-worker-1", built);
    let parsed = parsed.parse().unwrap();
    let expected = Target::parse(&format!("rendered-worker-1 {built}")).unwrap();
    assert_eq!(parsed.target, expected);
    let plan = plan_of(&view("r/os@sha256:1", &[]), &parsed).unwrap();
    let plan = plan.unwrap().plan;
    assert_eq!(plan.to, expected);
    assert_eq!(plan.deploy.unwrap().image.as_deref(), Some(built));
    let is_record = |it: &Expectation| matches!(it, Expectation::Record { image, .. } if image.as_deref() == Some(built));
    assert!(plan.expect.iter().any(is_record));
    let writes = |of: &str| {
        let mut steps = plan.steps.iter();
        steps.any(|step| matches!(&step.action, Action::WriteFile { path, .. } if path == of))
    };
    assert!(writes("/etc/x") && !writes("/usr/lib/x"));
    // It comes to its record as the release's own configuration.
    let record: Value = serde_json::from_slice(&parsed.record).unwrap();
    assert_eq!(record["spec"]["osImageURL"], "r/os@sha256:1");
    // Already in it: no boot.
    let image_and_no_change = plan_of(&view(built, &[]), &parsed);
    assert_eq!(image_and_no_change, Ok(None));
}

#[test]
fn files_of_the_image_without_a_built_image_are_refused() {
    let whole = json!({ "osImageURL": "r/os@sha256:2", "config": {
        "ignition": { "version": "3.4.0" },
        "storage": { "files": [{ "path": "/usr/lib/x", "contents": { "source": "data:,x" } }] },
    } });
    let error = plan(&view("r/os@sha256:1", &[]), &whole).unwrap_err();
    assert!(error.contains("cannot write /usr/lib/x"), "{error}");
    assert!(error.contains("a MachineOSConfig builds it"), "{error}");
}

#[test]
fn first_annotations_that_do_not_belong_to_the_configuration_are_refused() {
    let left = json!({ "osImageURL": "r/built@sha256:2", "config": empty() });
    let of = |config: &str, image: &str| in_image(written(&left, &left), config, image).parse();
    let name = "rendered-worker-1";
    let error = of(name, "r/built@sha256:3").unwrap_err().to_string();
    assert!(
        error.contains("spec.osImageURL") && error.contains("r/built@sha256:3"),
        "{error}"
    );
    let error = of("rendered-worker-2", "r/built@sha256:2").unwrap_err();
    assert!(
        error.to_string().contains("\"rendered-worker-2\""),
        "{error}"
    );
    // An empty one is none.
    assert_eq!(of(name, "").unwrap().target, Target::of_config(name));
    let mut broken = written(&left, &left);
    broken.annotations = Some(b"[]".to_vec());
    let error = broken.parse().unwrap_err().to_string();
    assert!(error.contains(FIRST_ANNOTATIONS), "{error}");
}

#[test]
fn files_that_do_not_belong_together_are_refused_by_name() {
    let whole = json!({ "config": empty() });
    let mut other = written(&whole, &whole);
    other.encapsulated = json!({ "metadata": { "name": "rendered-worker-2" }, "spec": {} })
        .to_string()
        .into_bytes();
    let error = format!("{:#}", other.parse().unwrap_err());
    assert!(
        error.contains(ENCAPSULATED) && error.contains("rendered-worker-1"),
        "{error}"
    );
    other.encapsulated = b"{".to_vec();
    let error = format!("{:#}", other.parse().unwrap_err());
    assert!(error.contains(ENCAPSULATED), "{error}");
}

#[test]
fn host_without_the_file_is_done_and_one_with_half_of_it_is_not() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir(tree.path().join("etc")).unwrap();
    let root = Root::open(tree.path(), None).unwrap();
    assert!(Written::read(&root).unwrap().is_none());
    #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
    std::fs::write(tree.path().join(&ENCAPSULATED[1..]), "{}").unwrap();
    let error = Written::read(&root).unwrap_err().to_string();
    assert!(error.contains(CONTENT), "{error}");
}
