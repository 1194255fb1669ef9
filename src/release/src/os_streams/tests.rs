use std::error::Error as _;

use serde_json::{Value, json};

use super::*;

fn image(digit: &str) -> String {
    format!("r.example/os@sha256:{}", digit.repeat(64))
}

/// Streams `b`, the default, and `a`, which has no extensions.
fn two() -> Value {
    json!({
        "defaultStream": "b",
        "availableStreams": [
            { "name": "b", "osImage": image("b"), "osExtensionsImage": image("e") },
            { "name": "a", "osImage": image("a"), "osExtensionsImage": "" }
        ]
    })
}

/// The message, and those of its causes.
fn text(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}

fn parsed(text: &Value) -> Result<ReleaseStreams, Error> {
    ReleaseStreams::parse(&text.to_string(), &image("b"), &image("e"))
}

#[test]
fn streams_are_sorted_by_name_and_know_their_default() {
    let streams = parsed(&two()).unwrap();
    assert_eq!(streams.default_stream(), "b");
    let of = |name: &str, os: &str, extensions: String| OsStream {
        name: name.to_owned(),
        os_extensions_image: extensions,
        os_image: image(os),
    };
    assert_eq!(
        streams.streams(),
        [of("a", "a", String::new()), of("b", "b", image("e"))]
    );
    let printed = serde_json::to_value(&streams).unwrap();
    assert_eq!(parsed(&printed).unwrap(), streams);
}

/// Makes the streams wrong in one way.
type Spoil = fn(&mut Value);

#[test]
fn each_fault_is_named_by_object_and_field() {
    let table: [(Spoil, &str); 14] = [
        (
            |it| *it = json!([1]),
            "it has another form than the status of an OSImageStream",
        ),
        (
            |it| it["availableStreams"][0]["image"] = json!("x"),
            "unknown field `image`",
        ),
        (
            |it| it["availableStreams"] = json!([]),
            "availableStreams names no stream",
        ),
        (
            |it| it["availableStreams"] = Value::Array(vec![json!({}); 101]),
            "availableStreams has 101 streams",
        ),
        (
            |it| it["availableStreams"][1]["name"] = json!(""),
            "availableStreams[1].name \"\" is no DNS subdomain",
        ),
        (
            |it| it["availableStreams"][1]["name"] = json!("Rhel-9"),
            "availableStreams[1].name \"Rhel-9\" is no DNS subdomain",
        ),
        (
            |it| it["availableStreams"][1]["name"] = json!("a".repeat(254)),
            "is no DNS subdomain",
        ),
        (
            |it| it["availableStreams"][1]["name"] = json!("b"),
            "availableStreams names stream b twice",
        ),
        (
            |it| it["availableStreams"][1]["osImage"] = json!(""),
            "availableStreams[1].osImage: stream a has no OS image",
        ),
        (
            |it| {
                it["availableStreams"][0]
                    .as_object_mut()
                    .unwrap()
                    .remove("osImage");
            },
            "availableStreams[0].osImage: stream b has no OS image, and osExtensionsImage alone",
        ),
        (
            |it| it["availableStreams"][1]["osImage"] = json!("slipway-os-a"),
            "availableStreams[1].osImage of stream a: \"slipway-os-a\" names no digest",
        ),
        (
            |it| it["availableStreams"][1]["osExtensionsImage"] = json!("r.example/e:1"),
            "availableStreams[1].osExtensionsImage of stream a: \"r.example/e:1\" names no digest",
        ),
        (
            |it| it["defaultStream"] = json!("c"),
            "defaultStream \"c\" is no stream of availableStreams",
        ),
        (
            |it| it["defaultStream"] = json!("a"),
            "data.baseOSContainerImage of the ConfigMap is not the image of stream a, the default",
        ),
    ];
    for (spoil, expected) in table {
        let mut streams = two();
        spoil(&mut streams);
        let why = text(&parsed(&streams).unwrap_err());
        let object = "ConfigMap machine-config-osimageurl: data.osImageStreams.json: ";
        assert!(why.starts_with(object) && why.contains(expected), "{why}");
    }
}

#[test]
fn extensions_for_older_controllers_are_those_of_the_default() {
    let two = two().to_string();
    // A release may have none.
    assert!(ReleaseStreams::parse(&two, &image("b"), "").is_ok());
    let why = text(&ReleaseStreams::parse(&two, &image("b"), &image("f")).unwrap_err());
    assert!(
        why.ends_with(
            "data.baseOSExtensionsContainerImage of the ConfigMap is not the image of stream b, the default"
        ),
        "{why}"
    );
}

#[test]
fn names_are_dns_subdomains() {
    for name in ["a", "rhel-9.8", "9", "a.b-c.d"] {
        assert!(is_subdomain(name), "{name}");
    }
    for name in ["", ".", "a.", "-a", "a-", "a..b", "a_b", "A", "ä", "a,b"] {
        assert!(!is_subdomain(name), "{name}");
    }
}
