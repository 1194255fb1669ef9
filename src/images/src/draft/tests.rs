use std::path::Path;

use super::*;
use crate::content::{self, Layers};
use crate::credentials::Credentials;
use crate::location::ImageLocation;
use crate::tree::{EntryContent, Tree};

fn stores() -> Stores {
    Stores::new(Credentials::default(), false)
}

fn platform() -> Platform {
    Platform {
        os: "linux".to_owned(),
        architecture: "amd64".to_owned(),
    }
}

fn layer(files: &[(&str, &str)]) -> NewLayer {
    let mut tree = Tree::new();
    for (path, text) in files {
        tree.put(path, 0o644, EntryContent::Bytes(text.as_bytes().to_vec()))
            .unwrap();
    }
    tree.layer(Timestamp::UNIX_EPOCH).unwrap()
}

fn draft() -> Draft {
    let mut draft = Draft::new(platform(), Timestamp::from_second(1_000_000_000).unwrap());
    draft.labels = [("b", "2"), ("a", "1"), ("c", "3"), ("d", "4")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    draft.user = "65532:65532".to_owned();
    draft.entrypoint = vec!["/usr/bin/mcc".to_owned()];
    draft.push(layer(&[("usr/bin/mcc", "program")]), "program");
    draft.push(layer(&[("manifests/a.yaml", "a: 1\n")]), "manifests");
    draft
}

fn location(directory: &Path, name: &str) -> ImageLocation {
    format!("oci:{}:{name}", directory.display())
        .parse()
        .unwrap()
}

#[test]
fn same_draft_gives_the_same_bytes() {
    assert_eq!(
        draft().build().unwrap().digest(),
        draft().build().unwrap().digest()
    );
    let mut other = draft();
    other.labels.clear();
    assert_ne!(
        other.build().unwrap().digest(),
        draft().build().unwrap().digest()
    );
}

#[tokio::test]
async fn what_is_put_is_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let stores = stores();
    let built = draft().build().unwrap();
    let place = location(directory.path(), "mcc");
    stores.put(&built, &place).await.unwrap();
    // Twice is once.
    stores.put(&built, &place).await.unwrap();

    let image = Image::open(&stores, &place, &platform()).await.unwrap();
    assert_eq!(image.digest(), built.digest());
    assert_eq!(image.outer_digest(), built.digest());
    assert_eq!(image.labels(), draft().labels);
    assert_eq!(image.platform(), platform());
    assert_eq!(image.created().unwrap().as_second(), 1_000_000_000);
    assert_eq!(image.layers().len(), 2);
    let files = content::directory(&stores, &image, "manifests", Layers::Last, 100).await;
    assert_eq!(files.unwrap()["a.yaml"], b"a: 1\n");

    let by_digest = place.with_digest(built.digest());
    let same = Image::open(&stores, &by_digest, &platform()).await.unwrap();
    assert_eq!(same.digest(), built.digest());
    // What tools check: the mark, and one image of the name.
    let mark = std::fs::read(directory.path().join("oci-layout")).unwrap();
    assert_eq!(mark, br#"{"imageLayoutVersion":"1.0.0"}"#);
    let index = std::fs::read_to_string(directory.path().join("index.json")).unwrap();
    assert_eq!(index.matches("\"mcc\"").count(), 1, "{index}");
}

#[tokio::test]
async fn images_of_a_directory_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let stores = stores();
    let open = |name: &str| {
        let text = format!("oci:{}{name}", directory.path().display());
        let stores = &stores;
        async move {
            let location: ImageLocation = text.parse().unwrap();
            let image = Image::open(stores, &location, &platform()).await;
            image
                .map(|image| image.digest().clone())
                .map_err(|error| error.to_string())
        }
    };
    assert!(open("").await.unwrap_err().ends_with("is not there"));
    let one = draft().build().unwrap();
    stores
        .put(&one, &location(directory.path(), "one"))
        .await
        .unwrap();
    assert_eq!(open("").await.as_ref(), Ok(one.digest()));
    let mut other = draft();
    other.labels.clear();
    let other = other.build().unwrap();
    stores
        .put(&other, &location(directory.path(), "other"))
        .await
        .unwrap();
    assert_eq!(open(":one").await.as_ref(), Ok(one.digest()));
    assert_eq!(open(":other").await.as_ref(), Ok(other.digest()));
    assert!(
        open("")
            .await
            .unwrap_err()
            .ends_with("the directory holds several images: name one")
    );
    assert!(
        open(":third")
            .await
            .unwrap_err()
            .ends_with(":third is not there")
    );
    // A name moves to the image that had it last.
    stores
        .put(&other, &location(directory.path(), "one"))
        .await
        .unwrap();
    assert_eq!(open(":one").await.as_ref(), Ok(other.digest()));
}

#[tokio::test]
async fn copy_has_the_same_digest_and_layers_of_others_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let stores = stores();
    let place = location(directory.path(), "one");
    stores.put(&draft().build().unwrap(), &place).await.unwrap();
    let image = Image::open(&stores, &place, &platform()).await.unwrap();

    let copy = Built::copy_of(&stores, &image).await.unwrap();
    assert_eq!(copy.digest(), image.digest());
    let elsewhere = tempfile::tempdir().unwrap();
    let place = location(elsewhere.path(), "copy");
    stores.put(&copy, &place).await.unwrap();
    assert!(Image::open(&stores, &place, &platform()).await.is_ok());

    let mut on_top = Draft::new(platform(), Timestamp::UNIX_EPOCH);
    on_top.push_image(&stores, &image).await.unwrap();
    on_top.push(layer(&[("release-manifests/b", "b")]), "release");
    let place = location(elsewhere.path(), "top");
    stores.put(&on_top.build().unwrap(), &place).await.unwrap();
    let top = Image::open(&stores, &place, &platform()).await.unwrap();
    assert_eq!(top.layers()[..2], *image.layers());
    assert_eq!(top.labels(), BTreeMap::new());
    let files = content::directory(&stores, &top, "manifests", Layers::All, 100).await;
    assert_eq!(files.unwrap().len(), 1);
}

#[tokio::test]
async fn damage_is_found_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let stores = stores();
    let place = location(directory.path(), "one");
    let built = draft().build().unwrap();
    stores.put(&built, &place).await.unwrap();
    let blobs = directory.path().join("blobs/sha256");
    let image = Image::open(&stores, &place, &platform()).await.unwrap();
    let spoil = |digest: &str, bytes: &[u8]| {
        let path = blobs.join(digest.strip_prefix("sha256:").unwrap_or(digest));
        std::fs::remove_file(&path).unwrap();
        std::io::Write::write_all(&mut std::fs::File::create(path).unwrap(), bytes).unwrap();
    };

    let last = image.layers()[1].digest().to_string();
    spoil(&last, b"other");
    let error = content::directory(&stores, &image, "manifests", Layers::Last, 100).await;
    let error = error.unwrap_err();
    assert!(
        error.is_mismatch() && error.to_string().contains(&last),
        "{error}"
    );

    spoil(built.digest().hex(), b"{}");
    let error = Image::open(&stores, &place, &platform()).await.unwrap_err();
    assert!(error.is_mismatch(), "{error}");
    assert!(error.to_string().contains(&place.to_string()), "{error}");
}
