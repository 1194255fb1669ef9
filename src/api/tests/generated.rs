//! The committed definitions are those that the types give.

use std::path::Path;

#[test]
fn committed_definitions_are_up_to_date() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let mut expected: Vec<String> = Vec::new();
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
            "deploy/crds/{name} is stale: cargo run -p api --features crdgen --bin crdgen -- deploy/crds"
        );
        expected.push(name);
    }
    let mut present: Vec<String> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    present.sort();
    expected.sort();
    assert_eq!(present, expected);
}
