//! The committed definitions are those that the types give.

use std::path::Path;

/// Definitions of upstream, unchanged: their types are read here, not made.
const UPSTREAM: [&str; 2] = ["crds/machineosbuilds.yaml", "crds/machineosconfigs.yaml"];

#[test]
fn committed_definitions_are_up_to_date() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let mut expected: Vec<String> = UPSTREAM.map(ToOwned::to_owned).into();
    for crd in api::crds::all() {
        let name = api::crds::file_name(&crd);
        let text = format!(
            "{}{}",
            api::crds::HEADER,
            serde_saphyr::to_string(&crd).unwrap()
        );
        let committed = std::fs::read_to_string(directory.join(&name)).unwrap();
        assert!(
            committed == text,
            "deploy/{name} is stale: cargo run -p api --features crdgen --bin crdgen -- deploy"
        );
        expected.push(name);
    }
    let mut present: Vec<String> = Vec::new();
    for folder in api::crds::FOLDERS {
        let files = std::fs::read_dir(directory.join(folder)).unwrap();
        present.extend(files.map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            format!("{folder}/{name}")
        }));
    }
    present.sort();
    expected.sort();
    assert_eq!(present, expected);
}
