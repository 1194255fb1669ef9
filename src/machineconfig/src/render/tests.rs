//! Rendering as a pool's owner sees it.

use super::*;

fn source(name: &str, role: &str, spec: Value) -> Source {
    Source {
        name: name.to_owned(),
        role: Some(role.to_owned()),
        generated_by: None,
        spec,
    }
}

fn generated(name: &str, by: &str, spec: Value) -> Source {
    Source {
        generated_by: Some(by.to_owned()),
        ..source(name, WORKER, spec)
    }
}

fn file(path: &str, text: &str) -> Value {
    let contents = json!({"source": format!("data:,{text}")});
    json!({"config": {"ignition": {"version": "3.2.0"}, "storage": {"files": [
        {"path": path, "contents": contents},
    ]}}})
}

fn base() -> Base {
    Base {
        os_image_url: "release/os".to_owned(),
        extensions_image: "release/extensions".to_owned(),
        controller_version: "build-1".to_owned(),
    }
}

fn rendered(sources: &[Source]) -> Rendered {
    render("worker", sources, &base()).unwrap()
}

fn refused(sources: &[Source]) -> String {
    render("worker", sources, &base()).unwrap_err().to_string()
}

fn texts(rendered: &Rendered) -> Vec<String> {
    let files = &rendered.spec.ignition.storage.files;
    files
        .iter()
        .map(|file| file.contents.source.clone().unwrap_or_default())
        .collect()
}

#[test]
fn nothing_asked_for_is_the_release() {
    let rendered = rendered(&[source("00-worker", WORKER, Value::Null)]);
    assert_eq!(
        rendered.spec.to_value(),
        json!({
            "osImageURL": "release/os", "baseOSExtensionsContainerImage": "release/extensions",
            "config": {"ignition": {"version": "3.5.0"}}, "kernelArguments": [], "extensions": [],
            "fips": false, "kernelType": "default",
        })
    );
    assert_eq!(rendered.image_overridden_by, None);
}

#[test]
fn within_a_role_the_last_name_wins() {
    let sources = [
        source("b", WORKER, file("/etc/x", "b")),
        source("a", WORKER, file("/etc/x", "a")),
    ];
    assert_eq!(texts(&rendered(&sources)), ["data:,b"]);
    assert_eq!(rendered(&sources).sources, ["a", "b"]);
}

#[test]
fn a_custom_pool_wins_over_every_worker_whatever_the_names() {
    let sources = [
        source("00-infra", "infra", file("/etc/x", "i")),
        source("99-w", WORKER, file("/etc/x", "w")),
    ];
    assert_eq!(texts(&rendered(&sources)), ["data:,i"]);
}

#[test]
fn the_order_given_does_not_matter() {
    let mut sources = vec![
        source("a", WORKER, file("/etc/x", "a")),
        source("c", "infra", file("/etc/x", "c")),
        source("b", WORKER, file("/etc/y", "b")),
    ];
    let name = rendered(&sources).name;
    sources.reverse();
    assert_eq!(rendered(&sources).name, name);
}

#[test]
fn equal_specs_share_the_hash_across_pools_and_a_change_does_not() {
    let sources = [source("a", WORKER, file("/etc/x", "a"))];
    let worker = rendered(&sources).name;
    let infra = render("infra", &sources, &base()).unwrap().name;
    assert_eq!(
        worker.strip_prefix("rendered-worker-"),
        infra.strip_prefix("rendered-infra-")
    );
    assert_ne!(
        rendered(&[source("a", WORKER, file("/etc/x", "b"))]).name,
        worker
    );
}

/// The hash in the name is of what nodes get, not of what was written over on the way.
#[test]
fn what_a_file_was_written_over_does_not_show_in_the_name() {
    let packed = json!({"source": "data:;base64,H4sIAAAAAAAAA8tIzcnJBwCGphA2BQAAAA==", "compression": "gzip"});
    let packed = json!({"config": {"ignition": {"version": "3.2.0"}, "storage": {"files": [
        {"path": "/etc/x", "contents": packed},
    ]}}});
    let plain = source("b", WORKER, file("/etc/x", "b"));
    let over = rendered(&[source("a", WORKER, packed), plain.clone()]);
    assert_eq!(over.name, rendered(&[plain]).name);
}

#[test]
fn lists_are_concatenated_and_flags_added_up() {
    let sources = [
        source(
            "a",
            WORKER,
            json!({"kernelArguments": ["nosmt", "a"], "extensions": ["usbguard"]}),
        ),
        source(
            "b",
            WORKER,
            json!({"kernelArguments": ["a"], "fips": true, "kernelType": "realtime"}),
        ),
        source(
            "c",
            WORKER,
            json!({"kernelType": "default", "extensions": ["usbguard"]}),
        ),
    ];
    let spec = rendered(&sources).spec;
    assert_eq!(spec.kernel_arguments, ["nosmt", "a", "a"]);
    assert_eq!(spec.extensions, ["usbguard", "usbguard"]);
    assert!(spec.fips);
    assert_eq!(spec.kernel_type, KernelType::Named("realtime".to_owned()));
}

#[test]
fn a_users_image_goes_before_the_release_and_a_generated_ones_does_not() {
    let image = |image: &str| json!({"osImageURL": image});
    let sources = [
        source("a", WORKER, image("first")),
        source("b", WORKER, image("second")),
        generated("c", "build-1", image("generated")),
        source("d", WORKER, image("")),
    ];
    let overridden = rendered(&sources);
    assert_eq!(overridden.spec.os_image_url, "second");
    assert_eq!(overridden.image_overridden_by.as_deref(), Some("b"));
    assert_eq!(
        overridden.spec.base_os_extensions_container_image,
        "release/extensions"
    );
    let same = rendered(&[source("a", WORKER, image("release/os"))]);
    assert_eq!(same.image_overridden_by, None);
}

#[test]
fn every_file_is_overwritten_unless_it_says_otherwise() {
    let spec = json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [
        {"path": "/etc/a"}, {"path": "/etc/b", "overwrite": false},
    ]}}});
    let rendered = rendered(&[source("a", WORKER, spec)]);
    let overwrite: Vec<_> = rendered
        .spec
        .ignition
        .storage
        .files
        .iter()
        .map(|file| file.overwrite)
        .collect();
    assert_eq!(overwrite, [Some(true), Some(false)]);
    // What is stored is read back by a node.
    assert_eq!(
        Spec::parse(&rendered.spec.to_value()).unwrap().0,
        rendered.spec
    );
}

#[test]
fn a_refusal_names_machine_config_and_field() {
    let mode = json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [
        {"path": "/etc/a", "mode": 0o4755},
    ]}}});
    assert_eq!(
        refused(&[
            source("a", WORKER, Value::Null),
            source("50-mine", WORKER, mode)
        ]),
        "MachineConfig \"50-mine\": spec.config: storage.files[0].mode: invalid mode 04755 for /etc/a, cannot exceed 0777"
    );
    assert_eq!(
        refused(&[source("a", WORKER, json!({"kernelType": "fast one"}))]),
        "MachineConfig \"a\": spec.kernelType: kernelType=fast one is invalid"
    );
    assert_eq!(
        refused(&[
            source("a", WORKER, json!({"extensions": ["kernel-devel"]})),
            source("b", WORKER, json!({"kernelType": "64k-pages"})),
        ]),
        "MachineConfig \"a\": spec.extensions: installing kernel-devel extension is not supported with kernelType: 64k-pages"
    );
    assert_eq!(refused(&[]), "no MachineConfigs to render");
}

#[test]
fn the_source_that_breaks_the_merge_is_blamed() {
    let owner = |owner: Value| {
        json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [
            {"path": "/etc/a", "user": owner},
        ]}}})
    };
    let sources = [
        source("a", WORKER, owner(json!({"id": 1}))),
        source("b", WORKER, owner(json!({"name": "core"}))),
        source("c", WORKER, file("/etc/x", "c")),
    ];
    assert_eq!(
        refused(&sources),
        "MachineConfig \"b\" does not go with those it is merged over: \
         storage.files[0].user: cannot set both id and name: 1 and \"core\""
    );
}

#[test]
fn templates_of_another_build_are_not_mixed_in() {
    assert_eq!(
        refused(&[generated("00-worker", "build-0", Value::Null)]),
        "ignoring MC 00-worker generated by older version build-0 (my version: build-1)"
    );
    rendered(&[
        generated("00-worker", "build-1", Value::Null),
        generated("b", "", Value::Null),
    ]);
}

#[test]
fn what_the_store_cannot_take_is_refused_and_blamed_on_the_largest() {
    let large = source("large", WORKER, file("/etc/x", &"x".repeat(MAX_BYTES)));
    let messages = refused(&[source("small", WORKER, file("/etc/y", "y")), large]);
    assert!(
        messages.contains("is too large (15")
            && messages.ends_with("the largest source is \"large\""),
        "{messages}"
    );
    let near = rendered(&[source(
        "a",
        WORKER,
        file("/etc/x", &"x".repeat(MAX_BYTES / 10 * 9)),
    )]);
    assert!(near.is_nearly_too_large());
}

#[test]
fn lost_members_are_reported_by_source() {
    let spec = json!({"config": {"ignition": {"version": "3.5.0"}, "later": [1]}});
    let warnings = rendered(&[source("a", WORKER, spec)]).warnings;
    let messages: Vec<String> = warnings
        .iter()
        .map(|(source, warning)| format!("{source}: {warning}"))
        .collect();
    assert_eq!(messages, ["a: later: is not known and is left out"]);
}

#[test]
fn specification_2_and_3_mix() {
    let two = json!({"config": {"ignition": {"version": "2.2.0"}, "storage": {"files": [
        {"filesystem": "root", "path": "/etc/x", "contents": {"source": "data:,two"}, "mode": 384},
    ]}}});
    let sources = [
        source("a", WORKER, two),
        source("b", WORKER, file("/etc/x", "three")),
    ];
    let rendered = rendered(&sources);
    assert_eq!(texts(&rendered), ["data:,three"]);
    assert_eq!(rendered.spec.ignition.storage.files[0].mode, Some(384));
}
