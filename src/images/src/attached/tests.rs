use serde_json::json;

use super::*;
use crate::Credentials;
use crate::removal::tests::{Canned, registry};

const KIND: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

fn digest() -> ImageDigest {
    ImageDigest::of(b"image")
}

fn layer(content: &str, kind: &str, size: usize, note: &str) -> Value {
    json!({
        "mediaType": kind, "digest": ImageDigest::of(content.as_bytes()), "size": size,
        "annotations": { "note": note }
    })
}

fn manifest_of(layers: &[Value]) -> String {
    let config = json!({
        "mediaType": "application/vnd.oci.image.config.v1+json",
        "digest": ImageDigest::of(b"{}"), "size": 2
    });
    json!({ "schemaVersion": 2, "config": config, "layers": layers }).to_string()
}

fn blob(content: &str) -> Canned {
    let digest = ImageDigest::of(content.as_bytes());
    Canned::new(&format!("/v2/a/os/blobs/{digest}"), 200, content)
}

fn manifest_at(name: &str, body: &str) -> Canned {
    let kind = "application/vnd.oci.image.manifest.v1+json";
    Canned::new(&format!("/v2/a/os/manifests/{name}"), 200, body).with("content-type", kind)
}

async fn read_from(responses: &[Canned], beside: Beside) -> Result<Attachments, Error> {
    let everywhere = Canned::new("/v2/", 200, "");
    let absent = Canned::new("/v2/a/os/manifests/sha256-none", 404, "");
    let all = [responses, &[everywhere, absent]].concat();
    let (host, _) = registry(&all).await;
    let stores = Stores::new(Credentials::default(), true);
    let image = format!("{host}/a/os:1").parse().unwrap();
    read(&stores, &image, &digest(), beside, KIND).await
}

fn by_tag() -> String {
    format!("sha256-{}.sig", digest().hex())
}

#[tokio::test]
async fn tag_of_the_digest_has_what_lies_beside() {
    let layers = [
        layer("one", KIND, 3, "1"),
        layer("one", KIND, 3, "1"),
        layer("two", KIND, 3, "2"),
        layer("other", "text/plain", 5, "3"),
        layer("large", KIND, 1 << 20, "4"),
    ];
    let responses = [
        manifest_at(&by_tag(), &manifest_of(&layers)),
        blob("one"),
        blob("two"),
    ];
    let read = read_from(&responses, Beside::Tag).await.unwrap();
    let found: Vec<_> = read
        .found
        .iter()
        .map(|one| {
            let content = String::from_utf8_lossy(&one.content).into_owned();
            (content, one.annotations["note"].clone())
        })
        .collect();
    let pair = |content: &str, note: &str| (content.to_owned(), note.to_owned());
    assert_eq!(found, [pair("one", "1"), pair("two", "2")]);
    let unread = read.unread.join("\n");
    assert!(unread.contains("text/plain is not read"), "{unread}");
    assert!(unread.contains("larger than 65536 bytes"), "{unread}");
}

#[tokio::test]
async fn absent_is_none_and_damaged_is_an_error() {
    let absent = [Canned::new(
        &format!("/v2/a/os/manifests/{}", by_tag()),
        404,
        "",
    )];
    let none = read_from(&absent, Beside::Tag).await.unwrap();
    assert_eq!(none, Attachments::default());
    let manifest = manifest_at(&by_tag(), &manifest_of(&[layer("one", KIND, 3, "")]));
    let digest = ImageDigest::of(b"one");
    let damaged = Canned::new(&format!("/v2/a/os/blobs/{digest}"), 200, "two");
    let error = read_from(&[manifest.clone(), damaged], Beside::Tag).await;
    assert!(error.unwrap_err().is_mismatch());
    let truncated = Canned::new(&format!("/v2/a/os/blobs/{digest}"), 200, "on");
    assert!(
        read_from(&[manifest, truncated], Beside::Tag)
            .await
            .is_err()
    );
    for text in ["{", "{\"schemaVersion\":2,\"layers\":7}"] {
        let manifest = manifest_at(&by_tag(), text);
        assert!(read_from(&[manifest], Beside::Tag).await.is_err(), "{text}");
    }
    let failing = [Canned::new(
        &format!("/v2/a/os/manifests/{}", by_tag()),
        500,
        "",
    )];
    assert!(read_from(&failing, Beside::Tag).await.is_err());
}

#[tokio::test]
async fn referrers_differ_by_their_type() {
    let manifest = manifest_of(&[layer("one", KIND, 3, "1")]);
    let own = ImageDigest::of(manifest.as_bytes());
    let entry = |kind: &str, digest: &ImageDigest| {
        json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": digest, "size": 1, "artifactType": kind
        })
    };
    let bundle = "application/vnd.dev.sigstore.bundle.v0.3+json";
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [
            entry(SIGNATURES, &own),
            entry(bundle, &ImageDigest::of(b"b")),
            entry("application/spdx+json", &ImageDigest::of(b"s"))
        ]
    });
    let path = format!("/v2/a/os/referrers/{}", digest());
    let responses = [
        Canned::new(&path, 200, &index.to_string())
            .with("content-type", "application/vnd.oci.image.index.v1+json"),
        manifest_at(own.as_str(), &manifest),
        blob("one"),
    ];
    let read = read_from(&responses, Beside::Referrers).await.unwrap();
    assert_eq!(read.found.len(), 1);
    assert_eq!(read.found[0].content, b"one");
    assert_eq!(read.unread.len(), 1);
    assert!(read.unread[0].ends_with(&format!("{bundle} is not read")));
}

#[test]
fn one_more_attachment_keeps_the_others() {
    let (blob, more) = (Blob::of(b"one").unwrap(), Blob::of(b"two").unwrap());
    let attachment = |note: &str| Attachment {
        content: Vec::new(),
        annotations: BTreeMap::from([("note".to_owned(), note.to_owned())]),
    };
    let subject = json!({ "schemaVersion": 2, "manifests": [] }).to_string();
    let subject = (&digest(), subject.as_bytes());
    let (_, first) = manifest(subject, Vec::new(), &blob, (KIND, &attachment("1"))).unwrap();
    let first: Value = serde_json::from_slice(&first).unwrap();
    let layers = first["layers"].as_array().unwrap().clone();
    let (configuration, second) =
        manifest(subject, layers, &more, (KIND, &attachment("2"))).unwrap();
    let second: Value = serde_json::from_slice(&second).unwrap();
    assert_eq!(second["layers"][0], first["layers"][0]);
    assert_eq!(second["layers"][1]["annotations"]["note"], "2");
    assert_eq!(second["subject"]["digest"], json!(digest()));
    assert_eq!(
        second["subject"]["mediaType"],
        "application/vnd.oci.image.index.v1+json"
    );
    assert_eq!(
        second["config"]["digest"],
        json!(ImageDigest::of(&configuration))
    );
    let configuration: Value = serde_json::from_slice(&configuration).unwrap();
    let digests = [ImageDigest::of(b"one"), ImageDigest::of(b"two")];
    assert_eq!(configuration["rootfs"]["diff_ids"], json!(digests));
}

#[tokio::test]
async fn image_of_a_directory_has_nothing_beside() {
    let directory = tempfile::tempdir().unwrap();
    let image: ImageLocation = format!("oci:{}", directory.path().display())
        .parse()
        .unwrap();
    let stores = Stores::new(Credentials::default(), false);
    for beside in [Beside::Tag, Beside::Referrers] {
        let read = read(&stores, &image, &digest(), beside, KIND)
            .await
            .unwrap();
        assert_eq!(read, Attachments::default());
    }
    let attachment = Attachment {
        content: Vec::new(),
        annotations: BTreeMap::new(),
    };
    let error = add(&stores, &image, &digest(), KIND, &attachment)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("a signature beside an image of a directory"),
        "{error}"
    );
}
