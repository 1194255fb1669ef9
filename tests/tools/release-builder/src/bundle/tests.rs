use super::*;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy");

/// A pull spec for each component, in a repository that is not called like it.
fn pull_specs() -> BTreeMap<&'static str, PullSpec> {
    let all = COMPONENTS.iter().enumerate();
    let spec = |number| format!("quay.example/slipway/image-{number}@sha256:{number:064x}");
    all.map(|(number, component)| (component.name, spec(number).parse().unwrap()))
        .collect()
}

#[test]
fn kustomizations_have_the_images_that_their_files_name() {
    let output = tempfile::tempdir().unwrap();
    let bundle = write(Path::new(DEPLOY), "0.2.0", &pull_specs(), output.path()).unwrap();
    assert!(bundle.ends_with("slipway-0.2.0"));
    let mut entries = BTreeMap::new();
    for path in files::below(&bundle).unwrap() {
        if !path.ends_with(kustomization::NAME) {
            continue;
        }
        let folder = path.parent().unwrap().strip_prefix(&bundle).unwrap();
        let text = files::read_text(&path).unwrap();
        assert!(!text.contains(HOW_TO_SET), "{text}");
        let names = text
            .lines()
            .filter_map(|line| line.strip_prefix("  - name: slipway-"));
        let names: Vec<_> = names.map(str::to_owned).collect();
        if !names.is_empty() {
            entries.insert(folder.to_str().unwrap().to_owned(), names.join(" "));
        }
    }
    let expected = [
        ("config-server", "mcs"),
        ("controller", "mcc"),
        ("cvo", "cvo"),
        ("daemon", "mcd"),
        ("managed-upgrade", "muo"),
        ("operator", "mcc"),
        ("update-service", "update-service"),
    ];
    let expected = expected.map(|(folder, names)| (folder.to_owned(), names.to_owned()));
    assert_eq!(entries, BTreeMap::from(expected));
}

#[test]
fn names_stand_in_image_fields_only() {
    let output = tempfile::tempdir().unwrap();
    let bundle = write(Path::new(DEPLOY), "0.2.0", &pull_specs(), output.path()).unwrap();
    for path in files::below(&bundle).unwrap() {
        if path.extension().is_none_or(|kind| kind != "yaml") || path.ends_with(kustomization::NAME)
        {
            continue;
        }
        for line in files::read_text(&path).unwrap().lines() {
            assert!(
                images::is_image_field(line) || images::names(line).is_empty(),
                "{}: {line}",
                path.display()
            );
            assert!(!line.contains("{{."), "{}: {line}", path.display());
        }
    }
    for folder in RELEASES_ONLY {
        assert!(!bundle.join(folder).exists());
    }
}

#[test]
fn an_image_without_pull_spec_is_an_error() {
    let output = tempfile::tempdir().unwrap();
    let mut images = pull_specs();
    images.remove("slipway-mcs");
    let error = write(Path::new(DEPLOY), "0.2.0", &images, output.path()).unwrap_err();
    assert_eq!(error.to_string(), "no pull spec of image slipway-mcs");
}
