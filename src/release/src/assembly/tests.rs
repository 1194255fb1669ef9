use std::error::Error as _;

use proptest::prelude::*;

use super::*;
use crate::payload::Payload;

const HA: &str = "include.release.openshift.io/self-managed-high-availability: 'true'";

fn pull_spec(name: &str) -> PullSpec {
    PullSpec::new(
        &format!("registry.example/{name}"),
        &ImageDigest::of(name.as_bytes()),
    )
    .unwrap()
}

fn image(name: &str) -> ComponentImage {
    ComponentImage {
        pull_spec: pull_spec(name),
        annotations: BTreeMap::new(),
        labels: BTreeMap::new(),
        manifests: None,
        is_override: false,
    }
}

fn object(kind: &str, name: &str) -> String {
    format!("apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n  annotations: {{{HA}}}\n")
}

fn operator(name: &str, files: &[(&str, &str)]) -> ComponentImage {
    let files = files
        .iter()
        .map(|(file, text)| ((*file).to_owned(), text.as_bytes().to_vec()));
    ComponentImage {
        manifests: Some(files.collect()),
        ..image(name)
    }
}

fn references(names: &[&str]) -> String {
    let tag = |name: &&str| {
        format!("  - {{name: {name}, from: {{kind: DockerImage, name: 'example/{name}'}}}}\n")
    };
    let tags: String = names.iter().map(tag).collect();
    format!("kind: ImageStream\napiVersion: image.openshift.io/v1\nspec:\n  tags:\n{tags}")
}

fn request(images: impl IntoIterator<Item = (&'static str, ComponentImage)>) -> ReleaseRequest {
    let images = images.into_iter();
    ReleaseRequest {
        metadata: Metadata::new("1.2.3+build".parse().unwrap()),
        annotations: BTreeMap::new(),
        images: images
            .map(|(name, image)| (name.to_owned(), image))
            .collect(),
        include: BTreeSet::new(),
        component_versions: ComponentVersions::new(),
        verification: None,
        allow_missing_images: false,
        image_policy: None,
        os_streams: false,
    }
}

/// One operator whose manifest names another image and the version.
fn example() -> ReleaseRequest {
    let manifest = object("Pod", "p")
        + "image: example/os\nversion: 0.0.1-snapshot\nos: 0.0.1-snapshot-machine-os\n";
    let files = [
        ("pod.yaml", manifest.as_str()),
        (REFERENCES_FILE, &references(&["os"])),
        ("note", "0.0.1-snapshot"),
    ];
    let mut os = image("os");
    let labels = [
        (annotation::VERSIONS, "machine-os=9.6.1+x,slipway=1.0.0"),
        (annotation::VERSION_DISPLAY_NAMES, "machine-os=Debian"),
        (annotation::COMMIT_ID, "abc"),
        ("other", "x"),
    ];
    os.labels = labels
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    request([
        ("op", operator("op", &files)),
        ("os", os),
        ("extra", image("extra")),
    ])
}

fn problems(request: &ReleaseRequest) -> Vec<String> {
    let problems = assemble(request).unwrap_err();
    let text = |problem: &AssemblyProblem| match problem.source() {
        Some(cause) => format!("{problem}: {cause}"),
        None => problem.to_string(),
    };
    problems.iter().map(text).collect()
}

#[test]
fn placeholders_are_replaced_and_files_named() {
    let assembly = assemble(&example()).unwrap();
    let names: Vec<_> = assembly.files.keys().map(String::as_str).collect();
    let expected = [
        "0000_50_op_note",
        "0000_50_op_pod.yaml",
        REFERENCES_FILE,
        METADATA_FILE,
    ];
    assert_eq!(names, expected);
    let text = String::from_utf8(assembly.files["0000_50_op_pod.yaml"].clone()).unwrap();
    let os = pull_spec("os");
    assert!(
        text.ends_with(&format!("image: {os}\nversion: 1.2.3\nos: 9.6.1\n")),
        "{text}"
    );
    assert_eq!(assembly.files["0000_50_op_note"], b"1.2.3");
    assert_eq!(
        assembly.sources["0000_50_op_pod.yaml"],
        ManifestSource::new("op", "pod.yaml")
    );
}

#[test]
fn images_are_kept_if_something_needs_them() {
    let mut request = example();
    let kept = |request: &ReleaseRequest| {
        let assembly = assemble(request).unwrap();
        let names: Vec<_> = assembly.references.tags.into_keys().collect();
        (names.join(" "), assembly.warnings.join("\n"))
    };
    let (names, warnings) = kept(&request);
    assert_eq!(names, "op os");
    assert!(warnings.contains("image extra is left out"), "{warnings}");
    request.include.insert("extra".to_owned());
    request.images.insert(BASE.to_owned(), image(BASE));
    assert_eq!(kept(&request).0, "cluster-version-operator extra op os");
}

#[test]
fn file_that_no_cluster_applies_is_named() {
    let warnings = assemble(&example()).unwrap().warnings;
    let expected = "image op: file note is applied by no cluster: its name ends in neither .yaml \
                    nor .yml nor .json";
    assert!(warnings.iter().any(|one| one == expected), "{warnings:?}");
}

#[test]
fn image_under_two_names_has_its_manifests_once() {
    let mut request = example();
    let one = assemble(&request).unwrap();
    let alias = request.images["op"].clone();
    request.images.insert("zz-alias".to_owned(), alias.clone());
    let two = assemble(&request).unwrap();
    assert_eq!(two.sources, one.sources);
    let tags = &two.references.tags;
    assert_eq!(tags["zz-alias"], tags["op"]);
    // An image of its own with the same manifests is no alias.
    let other = ComponentImage {
        pull_spec: pull_spec("other"),
        ..alias
    };
    request.images.insert("zz-alias".to_owned(), other);
    let problems = problems(&request);
    assert!(problems[0].contains("zz-alias"), "{problems:?}");
}

#[test]
fn labels_become_annotations() {
    let mut request = example();
    let assembly = assemble(&request).unwrap();
    let annotations = &assembly.references.tags["os"].annotations;
    assert_eq!(annotations[annotation::VERSIONS], "machine-os=9.6.1+x");
    assert_eq!(
        annotations[annotation::VERSION_DISPLAY_NAMES],
        "machine-os=Debian"
    );
    assert_eq!(annotations[annotation::COMMIT_ID], "abc");
    assert_eq!(annotations.len(), 3);
    assert!(
        assembly
            .warnings
            .iter()
            .any(|text| text.contains("left out: slipway"))
    );
    request.images.get_mut("os").unwrap().is_override = true;
    let assembly = assemble(&request).unwrap();
    assert_eq!(
        assembly.references.tags["os"].annotations[annotation::OVERRIDE],
        "true"
    );
}

/// An operator without images still reports the release's version.
#[test]
fn versions_are_replaced_for_an_operator_that_names_no_images() {
    let file = "0000_10_op_a.yaml";
    let text = object("Pod", "p") + "image: example/os\nversion: 0.0.1-snapshot\n";
    let with = |text: &str| request([("op", operator("op", &[(file, text)]))]);
    let assembly = assemble(&with(&text)).unwrap();
    let expected = text.replace("0.0.1-snapshot", "1.2.3");
    assert_eq!(assembly.files[file], expected.as_bytes());
    // No program would fill in what stays.
    let component = text.replace("snapshot", "snapshot-unknown");
    assert_eq!(
        problems(&with(&component)),
        ["image op, file 0000_10_op_a.yaml: unknown version reference \"unknown\""]
    );
}

#[test]
fn label_with_a_pair_without_a_name_is_a_problem() {
    for key in [annotation::VERSIONS, annotation::VERSION_DISPLAY_NAMES] {
        let mut request = example();
        let os = request.images.get_mut("os").unwrap();
        os.labels
            .insert(key.to_owned(), "machine-os=9.6.1, =1.0.0".to_owned());
        let expected =
            format!("image os: {key} names no versions: \"=1.0.0\" is no pair NAME=VALUE");
        assert!(
            problems(&request).contains(&expected),
            "{:?}",
            problems(&request)
        );
    }
}

#[test]
fn two_files_of_one_name_are_numbered() {
    let file = "0000_10_x_a.yaml";
    let one = operator("a", &[(file, &object("Pod", "a"))]);
    let two = operator("b", &[(file, &object("Pod", "b"))]);
    let three = operator("c", &[(file, &object("Pod", "c"))]);
    let assembly = assemble(&request([("a", one), ("b", two), ("c", three)])).unwrap();
    assert_eq!(
        assembly.sources["0000_10_x_a_2.yaml"],
        ManifestSource::new("b", file)
    );
    assert_eq!(
        assembly.sources["0000_10_x_a_3.yaml"],
        ManifestSource::new("c", file)
    );
}

#[test]
fn verification_becomes_a_manifest() {
    let mut request = example();
    request.verification = Some(SignatureTrust {
        keyrings: BTreeMap::from([("k".to_owned(), b"K".to_vec())]),
        stores: BTreeMap::from([("s".to_owned(), "https://example.com".to_owned())]),
    });
    let assembly = assemble(&request).unwrap();
    let payload = Payload::parse(&assembly.files).unwrap();
    let found = SignatureTrust::of(&payload.manifests).unwrap().unwrap();
    assert_eq!(Some(found), request.verification);
    request.verification.as_mut().unwrap().stores.clear();
    let expected = "file 0000_90_cluster-update-keys_configmap.yaml: no verification can be asked for: the config map openshift-config-managed/release-verification did not provide any signature stores to read from and cannot be used: field data: no key begins with \"store-\"";
    assert_eq!(problems(&request), [expected]);
}

#[test]
fn each_problem_names_image_and_file() {
    let pod = object("Pod", "p");
    for (file, text, expected) in [
        (
            "pod.yaml",
            "a: [",
            "image op, file pod.yaml: it is no list of manifests: line 1",
        ),
        (
            "b.json",
            "{}",
            "image op, file b.json: it is no list of manifests: document 1: field apiVersion",
        ),
        (
            "b.yaml",
            pod.as_str(),
            "image op, file pod.yaml: it describes Pod p, and so does image op, file b.yaml",
        ),
        (
            "b.yaml",
            "0.0.1-snapshot-zz",
            "image op, file b.yaml: unknown version reference \"zz\"",
        ),
        (
            REFERENCES_FILE,
            "{}",
            "image op, file image-references: it names no images: it is \"\" of \"\"",
        ),
        (
            REFERENCES_FILE,
            &references(&["os", "pod"]),
            "image op, file image-references: no input image tag named \"pod\"",
        ),
        (
            REFERENCES_FILE,
            &references(&["os", "op"]).replace("example/op", "example/os"),
            "image op, file image-references: images op and os have one placeholder, \"example/os\"",
        ),
    ] {
        let mut request = example();
        let files = request
            .images
            .get_mut("op")
            .unwrap()
            .manifests
            .as_mut()
            .unwrap();
        files.insert(file.to_owned(), text.into());
        let found = problems(&request);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(expected), "{found:?}");
    }
}

#[test]
fn all_problems_are_named_at_once() {
    let mut request = example();
    request
        .images
        .insert("empty".to_owned(), operator("empty", &[("note", "x")]));
    let op = request
        .images
        .get_mut("op")
        .unwrap()
        .manifests
        .as_mut()
        .unwrap();
    op.insert("x.yaml".to_owned(), b"- 1".to_vec());
    op.insert("y.yaml".to_owned(), b"\xff".to_vec());
    let found = problems(&request);
    let expected = [
        "image empty: it is an operator's image, and has no manifests",
        "image op, file x.yaml: it is no list of manifests: document 1 is no object",
        "image op, file y.yaml: it is no list of manifests: it is not UTF-8",
    ];
    assert_eq!(found, expected);
}

#[test]
fn one_object_for_different_clusters_is_no_problem() {
    let set = |set: &str| {
        object("Pod", "p").replace(
            "annotations: {",
            &format!("annotations: {{release.openshift.io/feature-set: {set}, "),
        )
    };
    let (default, preview) = (set("Default"), set("TechPreviewNoUpgrade"));
    let files = [("a.yaml", default.as_str()), ("b.yaml", preview.as_str())];
    assert!(assemble(&request([("op", operator("op", &files))])).is_ok());
}

#[test]
fn release_without_operator_is_a_problem() {
    let expected = "release: no image is an operator's: the release would have no manifests";
    assert_eq!(problems(&request([("a", image("a"))])), [expected]);
}

#[test]
fn missing_images_may_be_allowed() {
    let mut request = example();
    request.images.remove("os");
    request.allow_missing_images = true;
    request.component_versions = crate::component_versions::parse("machine-os=8.0.0", "").unwrap();
    let assembly = assemble(&request).unwrap();
    let text = String::from_utf8(assembly.files["0000_50_op_pod.yaml"].clone()).unwrap();
    assert!(
        text.contains("image: example/os\n") && text.contains("os: 8.0.0\n"),
        "{text}"
    );
}

#[test]
fn components_in_two_versions_conflict() {
    let carry = |name: &str, versions: &str| {
        let mut image = image(name);
        let versions = (annotation::VERSIONS.to_owned(), versions.to_owned());
        image.annotations = [versions].into();
        image
    };
    let with = |one: &str, other: &str| {
        let mut request = example();
        request.images.remove("os");
        request.include = ["os", "cli"].map(str::to_owned).into();
        request.images.insert("os".to_owned(), carry("os", one));
        request.images.insert("cli".to_owned(), carry("cli", other));
        request
    };
    let conflict = with("machine-os=1.0.0,crio=1.0.0", "crio=1.0.1");
    assert_eq!(
        problems(&conflict),
        ["image os: it has crio 1.0.0, and image cli has 1.0.1"]
    );
    let expected = "image op, file pod.yaml: the version for \"machine-os\" is inconsistent across the referenced images: cli, os";
    assert_eq!(
        problems(&with("machine-os=1.0.0", "machine-os=1.0.1")),
        [expected]
    );
    let kubectl = assemble(&with("machine-os=1.0.0,kubectl=1.0.0", "kubectl=1.0.1"));
    assert!(kubectl.is_ok());
    let bad = problems(&with("machine-os=1.0.0", "crio=1"));
    assert_eq!(
        bad,
        ["image cli: io.openshift.build.versions names no versions: version of crio"]
    );
}

proptest! {
    #[test]
    fn what_is_assembled_is_a_payload(
        names in proptest::collection::btree_map("[a-c]", proptest::collection::btree_set("(0000_[1-3]0_[xy]_)?[a-c]\\.yaml", 1..4), 1..4),
    ) {
        let mut count = 0;
        let mut images = BTreeMap::new();
        for (name, files) in &names {
            let files: Files = files.iter().map(|file| {
                count += 1;
                (file.clone(), object("Pod", &format!("p{count}")).into_bytes())
            }).collect();
            images.insert(name.clone(), ComponentImage { manifests: Some(files), ..image(name) });
        }
        let mut request = request([]);
        request.images = images;
        let assembly = assemble(&request).unwrap();
        let payload = Payload::parse(&assembly.files).unwrap();
        prop_assert_eq!(payload.manifests.len(), count);
        prop_assert_eq!(&payload.references, &assembly.references);
        prop_assert_eq!(assemble(&request).unwrap(), assembly);
    }
}

/// An OS image of a stream, or its extensions.
fn of_stream(name: &str, stream: &str, kind: &str) -> ComponentImage {
    let labels = [("io.openshift.os.streamclass", stream), (kind, "true")];
    ComponentImage {
        labels: labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..image(name)
    }
}

const BOOTC: &str = "containers.bootc";
const EXTENSIONS: &str = "io.openshift.os.extensions";

/// An operator whose ConfigMap names image `os`, and two streams.
fn with_streams() -> ReleaseRequest {
    let map = "---\n".to_owned()
        + &object("ConfigMap", "machine-config-osimageurl")
        + "data:\n  releaseVersion: 0.0.1-snapshot\n  baseOSContainerImage: example/os\n"
        + "---\n"
        + &object("ConfigMap", "other");
    let files = [
        ("maps.yaml", map.as_str()),
        (REFERENCES_FILE, &references(&["os"])),
    ];
    let mut request = request([
        ("op", operator("op", &files)),
        ("os", of_stream("os", "rhel-9", BOOTC)),
        ("os-10", of_stream("os-10", "rhel-10", BOOTC)),
        (
            "extensions-10",
            of_stream("extensions-10", "rhel-10", EXTENSIONS),
        ),
        ("rhel-coreos", of_stream("os", "rhel-9", BOOTC)),
    ]);
    request.os_streams = true;
    request
}

#[test]
fn streams_of_labelled_images_are_in_the_config_map() {
    let request = with_streams();
    let assembly = assemble(&request).unwrap();
    let bytes = &assembly.files["0000_50_op_maps.yaml"];
    let manifests = Manifest::parse("maps.yaml", bytes).unwrap();
    let names: Vec<_> = manifests.iter().map(|one| one.id.name.as_str()).collect();
    assert_eq!(names, ["machine-config-osimageurl", "other"]);
    let text = |key: &str| {
        manifests[0]
            .text(&format!("/data/{key}"))
            .unwrap()
            .to_owned()
    };
    assert_eq!(text("releaseVersion"), "1.2.3");
    let streams: serde_json::Value = serde_json::from_str(&text("osImageStreams.json")).unwrap();
    let of = |name: &str| pull_spec(name).to_string();
    let expected = serde_json::json!({
        "defaultStream": "rhel-9",
        "availableStreams": [
            { "name": "rhel-10", "osImage": of("os-10"), "osExtensionsImage": of("extensions-10") },
            { "name": "rhel-9", "osImage": of("os"), "osExtensionsImage": "" }
        ]
    });
    assert_eq!(streams, expected);
    let kept: Vec<_> = assembly
        .references
        .tags
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(kept, ["extensions-10", "op", "os", "os-10", "rhel-coreos"]);
    // Without the request, labels mean nothing.
    let mut without = request;
    without.os_streams = false;
    let assembly = assemble(&without).unwrap();
    let text = String::from_utf8(assembly.files["0000_50_op_maps.yaml"].clone()).unwrap();
    assert!(!text.contains("osImageStreams"), "{text}");
    assert!(!assembly.references.tags.contains_key("os-10"));
}

#[test]
fn what_keeps_images_from_being_streams_is_named() {
    type Spoil = fn(&mut ReleaseRequest);
    let table: [(Spoil, &str); 6] = [
        (
            |it| {
                it.images.remove("op");
                it.images.insert(
                    "op".to_owned(),
                    operator("op", &[("pod.yaml", &object("Pod", "p"))]),
                );
            },
            "no operator brings ConfigMap machine-config-osimageurl",
        ),
        (
            |it| {
                for name in ["os", "rhel-coreos"] {
                    it.images.get_mut(name).unwrap().labels.clear();
                }
            },
            "is the OS image of no stream",
        ),
        (
            |it| {
                let image = it.images.get_mut("os-10").unwrap();
                image.labels.remove(BOOTC);
            },
            "image os-10 has label io.openshift.os.streamclass, and none that says",
        ),
        (
            |it| {
                let other = of_stream("other", "rhel-10", BOOTC);
                it.images.insert("other".to_owned(), other);
            },
            "image other is of stream rhel-10, and so is registry.example/os-10@sha256:",
        ),
        (
            |it| {
                it.images.remove("os-10");
            },
            "stream rhel-10 has no OS image, and osExtensionsImage alone is of no use",
        ),
        (
            |it| {
                let image = it.images.get_mut("os-10").unwrap();
                let key = "io.openshift.os.streamclass".to_owned();
                image.labels.insert(key, "RHEL_10".to_owned());
                it.images.remove("extensions-10");
            },
            "name \"RHEL_10\" is no DNS subdomain",
        ),
    ];
    for (spoil, expected) in table {
        let mut request = with_streams();
        spoil(&mut request);
        let found = problems(&request).join("\n");
        assert!(found.contains(expected), "{expected}: {found}");
    }
}
