use std::path::{Path, PathBuf};

use super::*;

fn manifest(kind: &str, name: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: ns\n  annotations:\n    \
         include.release.openshift.io/ha: \"true\"\n{more}"
    )
}

fn load(files: &[(ManifestDirectory, &str, &str)]) -> Result<Inventory, Vec<String>> {
    let cluster = Cluster {
        profile: "ha".to_owned(),
        ..Cluster::default()
    };
    let values = Values {
        release_image: "q/r@sha256:0".to_owned(),
        ..Values::default()
    };
    let mut loader = Loader::new(&cluster);
    for (directory, file, text) in files {
        let manifests = read_file(*directory, file, text.as_bytes(), &values);
        loader.add(*directory, file, manifests);
    }
    loader.finish().map_err(|problems| problems.0)
}

#[test]
fn entries_are_in_the_order_of_files_and_filtered() {
    let other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, annotations: {a: b}}\n";
    let two = format!(
        "{}---\n{}",
        manifest("Secret", "b", ""),
        manifest("ConfigMap", "c", "")
    );
    let own = manifest("ConfigMap", "own", "data: {image: '{{.ReleaseImage}}'}\n");
    let newer = manifest("ConfigMap", "newer", "data: {image: '{{.Newer}}'}\n");
    let inventory = load(&[
        (ManifestDirectory::Own, "0000_90_a_x.yaml", &own),
        (ManifestDirectory::Own, "0000_91_a_x.yaml", &newer),
        (ManifestDirectory::Release, "0000_10_b_x.yaml", &two),
        (ManifestDirectory::Release, "0000_20_b_x.yaml", other),
        (ManifestDirectory::Release, "image-references", "{"),
    ])
    .unwrap();
    let names: Vec<String> = inventory.entries.iter().map(ToString::to_string).collect();
    assert_eq!(
        names,
        [
            "configmap \"ns/own\"",
            "secret \"ns/b\"",
            "configmap \"ns/c\""
        ]
    );
    assert_eq!(inventory.entries[2].document, 2);
    let passed: Vec<String> = inventory
        .passed_over
        .iter()
        .map(|(file, passed)| format!("{file}: {passed}"))
        .collect();
    assert_eq!(
        passed,
        [
            "0000_91_a_x.yaml: the file is left out: cannot fill in the placeholders: line 8: unknown placeholder \".Newer\"",
            "0000_20_b_x.yaml: ConfigMap x is left out: include.release.openshift.io/ha unset",
        ]
    );
    let raw = format!(
        "{}{}{}",
        r#"{"apiVersion":"v1","data":{"image":"q/r@sha256:0"},"kind":"ConfigMap","metadata":{"annotations":{"include.release.openshift.io/ha":"true"},"name":"own","namespace":"ns"}}"#,
        r#"{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"include.release.openshift.io/ha":"true"},"name":"b","namespace":"ns"}}"#,
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"include.release.openshift.io/ha":"true"},"name":"c","namespace":"ns"}}"#,
    );
    assert_eq!(
        inventory.version_hash,
        VersionHash::default().with(raw.as_bytes())
    );
}

#[test]
fn every_malformed_manifest_is_named_with_its_file() {
    let map = manifest("ConfigMap", "c", "");
    let job = manifest("Job", "j", "spec:\n  selector: {a: b}\n  template: {}\n")
        .replace("apiVersion: v1", "apiVersion: batch/v1");
    let delete = manifest("ConfigMap", "d", "").replace(
        "  annotations:\n",
        "  annotations:\n    release.openshift.io/delete: \"yes\"\n",
    );
    let problems = load(&[
        (ManifestDirectory::Own, "0000_00_a_1.yaml", &map),
        (ManifestDirectory::Release, "0000_10_b_1.yaml", "a: b: c"),
        (ManifestDirectory::Release, "0000_10_b_3.yaml", &job),
        (ManifestDirectory::Release, "0000_10_b_4.yaml", &delete),
    ])
    .unwrap_err();
    let expected = [
        "0000_10_b_1.yaml: line 1",
        "0000_10_b_3.yaml: Job.batch ns/j: field spec.selector",
        "0000_10_b_3.yaml: Job.batch ns/j: field spec.template.spec.containers",
        "0000_10_b_4.yaml: ConfigMap ns/d: invalid delete annotation \"release.openshift.io/delete\" value: \"yes\"",
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.starts_with(expected), "{problem}");
    }
}

/// One malformed manifest keeps no other one from the cluster.
#[test]
fn what_is_right_of_a_release_loads_beside_what_is_not() {
    let cluster = Cluster {
        profile: "ha".to_owned(),
        ..Cluster::default()
    };
    let (right, wrong) = (
        manifest("ConfigMap", "c", ""),
        manifest("Job", "j", "spec: {}\n").replace("apiVersion: v1", "apiVersion: batch/v1"),
    );
    let both = format!("{right}---\n{wrong}");
    let mut loader = Loader::new(&cluster);
    let release = ManifestDirectory::Release;
    for (file, text) in [("a.yaml", both.as_str()), ("b.yaml", "a: b: c")] {
        let manifests = read_file(release, file, text.as_bytes(), &Values::default());
        loader.add(release, file, manifests);
    }
    loader.fail("c.yaml", "input/output error");
    let (inventory, problems) = loader.finish_in_part();
    let names: Vec<String> = inventory.entries.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["configmap \"ns/c\""]);
    let problems = problems.unwrap().0;
    let starts = [
        "a.yaml: Job.batch ns/j: field",
        "b.yaml: line 1",
        "c.yaml: input/output error",
    ];
    assert_eq!(problems.len(), starts.len(), "{problems:#?}");
    for (problem, start) in problems.iter().zip(starts) {
        assert!(problem.starts_with(start), "{problem}");
    }
}

/// OpenShift's version operator takes such a release, and the later file has the last word.
#[test]
fn object_of_two_files_is_loaded_twice_and_said() {
    let text = manifest("ConfigMap", "c", "");
    let inventory = load(&[
        (ManifestDirectory::Own, "0000_90_a_1.yaml", &text),
        (ManifestDirectory::Release, "0000_10_b_2.yaml", &text),
    ])
    .unwrap();
    assert_eq!(inventory.entries.len(), 2);
    let (file, passed) = &inventory.passed_over[0];
    assert_eq!(
        format!("{file}: {passed}"),
        "manifests/0000_90_a_1.yaml: ConfigMap ns/c is described again in \
         release-manifests/0000_10_b_2.yaml, which counts"
    );
    assert!(passed.is_unusual());
}

#[test]
fn manifests_of_the_real_operators_load() {
    let named = std::env::var_os("SLIPWAY_DATA").filter(|folder| !folder.is_empty());
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = named.map_or_else(beside, PathBuf::from);
    let data = data.join("payload-manifests");
    let cluster = Cluster {
        profile: "self-managed-high-availability".to_owned(),
        ..Cluster::default()
    };
    let values = Values::default();
    let mut loader = Loader::new(&cluster);
    for (directory, operator) in [
        (ManifestDirectory::Own, "cluster-version-operator"),
        (ManifestDirectory::Release, "machine-config-operator"),
    ] {
        let Ok(files) = std::fs::read_dir(data.join(operator)) else {
            return;
        };
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        for file in files {
            let name = file.file_name().unwrap().to_str().unwrap();
            let bytes = std::fs::read(&file).unwrap();
            loader.add(directory, name, read_file(directory, name, &bytes, &values));
        }
    }
    let inventory = loader.finish().unwrap();
    assert!(inventory.entries.len() > 40, "{}", inventory.entries.len());
    let passed = |(_, passed): &(String, PassedOver)| matches!(passed, PassedOver::File(_));
    assert!(
        !inventory.passed_over.iter().any(passed),
        "{:?}",
        inventory.passed_over
    );
    let deletions = inventory
        .entries
        .iter()
        .filter(|entry| entry.is_deletion())
        .count();
    assert!(deletions > 0 && inventory.entries.iter().any(Entry::is_create_only));
}
