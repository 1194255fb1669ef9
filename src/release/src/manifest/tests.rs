use super::*;

fn ids(file: &str, text: &str) -> Result<Vec<String>, String> {
    let manifests = Manifest::parse(file, text.as_bytes()).map_err(|error| error.to_string())?;
    let one = |manifest: &Manifest| {
        let Manifest {
            document,
            id,
            api_version,
            ..
        } = manifest;
        format!("{document}: {api_version} {id}")
    };
    Ok(manifests.iter().map(one).collect())
}

#[test]
fn documents_of_a_file_are_read() {
    let text = "# nothing\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\nnull\n---\n# nothing\n---\napiVersion: apps/v1\nkind: \
                Deployment\nmetadata:\n  name: d\n  namespace: ns\n";
    let expected = ["1: v1 Namespace a", "2: v1 Deployment.apps ns/d"];
    assert_eq!(ids("a.yaml", text).unwrap(), expected);
    assert_eq!(ids("a.yml", "").unwrap(), Vec::<String>::new());
    let json = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"n"}}"#;
    assert_eq!(ids("a.json", json).unwrap(), ["1: v1 ConfigMap n/c"]);
    for empty in ["", " \n", "null", "null\nnull\n"] {
        assert_eq!(ids("a.json", empty).unwrap(), Vec::<String>::new());
    }
    let other = json.replace("\"c\"", "\"d\"");
    let expected = ["1: v1 ConfigMap n/c", "2: v1 ConfigMap n/d"];
    assert_eq!(
        ids("a.json", &format!("null {json}\n{other}\n")).unwrap(),
        expected
    );
}

#[test]
fn templates_in_quotes_are_texts() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nimage: '{{.ReleaseImage}}'\n";
    let manifests = Manifest::parse("a.yaml", text.as_bytes()).unwrap();
    assert_eq!(manifests[0].text("/image"), Some("{{.ReleaseImage}}"));
    assert_eq!(manifests[0].text("/metadata"), None);
}

#[test]
fn annotations_that_are_texts_are_known() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n    a: b\n    n: 1\n    \
                include.release.openshift.io/x: \"true\"\n";
    let manifests = Manifest::parse("a.yaml", text.as_bytes()).unwrap();
    let keys: Vec<_> = manifests[0].annotations().into_keys().collect();
    assert_eq!(keys, ["a", "include.release.openshift.io/x"]);
    assert!(manifests[0].selection().profiles.contains("x"));
}

#[test]
fn error_names_document_and_field() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n";
    for (file, text, expected) in [
        ("a.yaml", format!("{pod}---\na: b: c\n"), "line 5"),
        ("a.yaml", format!("{pod}  x: {{\n"), "line 4"),
        ("a.yaml", "a: 1\na: 2\n".to_owned(), "line 2"),
        ("a.json", "{\n}x".to_owned(), "line 2"),
        ("a.json", "null {".to_owned(), "line 1"),
        (
            "a.yaml",
            format!("{pod}---\n- 1\n"),
            "document 2 is no object",
        ),
        (
            "a.yaml",
            "kind: Pod\nmetadata: {name: p}\n".to_owned(),
            "document 1: field apiVersion",
        ),
        (
            "a.yaml",
            "apiVersion: v1\nmetadata: {name: p}\n".to_owned(),
            "field kind",
        ),
        (
            "a.yaml",
            "apiVersion: v1\nkind: 1\n".to_owned(),
            "field kind",
        ),
        (
            "a.yaml",
            "apiVersion: v1\nkind: Pod\n".to_owned(),
            "field metadata.name",
        ),
        (
            "a.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: ''}\n".to_owned(),
            "field metadata.name",
        ),
        (
            "a.yaml",
            format!("{pod}---\n{pod}"),
            "documents 1 and 2 both describe Pod p",
        ),
    ] {
        let error = ids(file, &text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    assert!(matches!(
        Manifest::parse("a.yaml", b"\xff"),
        Err(Error::Utf8(_))
    ));
}

#[test]
fn raw_json_is_as_go_prints_it() {
    let text = "kind: Pod\nmetadata: {name: p}\napiVersion: v1\nz: [{b: 1, a: 'x < \"y\" & z'}]\n";
    let manifest = &Manifest::parse("a.yaml", text.as_bytes()).unwrap()[0];
    let expected = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"z":[{"a":"x \u003c \"y\" \u0026 z","b":1}]}"#;
    assert_eq!(manifest.raw(), expected);
    let text = "\n {\"kind\": \"Pod\", \"apiVersion\": \"v1\", \"metadata\": {\"name\": \"<\"}}\n";
    let manifest = &Manifest::parse("a.json", text.as_bytes()).unwrap()[0];
    assert_eq!(manifest.raw(), text.trim());
    let second = r#"{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "b"}}"#;
    let manifests = Manifest::parse("a.json", format!("{text}{second}\n").as_bytes()).unwrap();
    assert_eq!(manifests[0].raw(), text.trim());
    assert_eq!(manifests[1].raw(), second);
}

#[test]
fn modes_with_a_leading_zero_are_octal() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nmode: 0644\ntext: '0644'\n";
    let manifest = &Manifest::parse("a.yaml", text.as_bytes()).unwrap()[0];
    assert_eq!(manifest.object["mode"], 420);
    assert_eq!(manifest.text("/text"), Some("0644"));
}
