use images::draft::Draft;
use images::image::Platform;
use images::tree::{EntryContent, Tree};
use jiff::Timestamp;

use super::*;

/// An image in a layout directory.
pub(crate) fn place(directory: &Path, name: &str) -> ImageLocation {
    let location = format!("oci:{}:{name}", directory.display());
    location.parse().unwrap()
}

/// Puts an image of one layer with these files there.
pub(crate) async fn push(
    stores: &Stores,
    place: &ImageLocation,
    files: &[(&str, &str)],
    labels: &[(&str, &str)],
) {
    let mut tree = Tree::new();
    for (path, text) in files {
        let content = EntryContent::Bytes(text.as_bytes().to_vec());
        tree.put(path, 0o644, content).unwrap();
    }
    let mut draft = Draft::new(Platform::of_this_machine(), Timestamp::UNIX_EPOCH);
    draft.push(tree.layer(Timestamp::UNIX_EPOCH).unwrap(), "test");
    for (key, value) in labels {
        draft.labels.insert((*key).to_owned(), (*value).to_owned());
    }
    stores.put(&draft.build().unwrap(), place).await.unwrap();
}

/// Removes all blobs that are no documents.
pub(crate) fn forget_layers(directory: &Path) {
    for blob in std::fs::read_dir(directory.join("blobs/sha256")).unwrap() {
        let path = blob.unwrap().path();
        if std::fs::read(&path).unwrap().first() != Some(&b'{') {
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// A source of the images in a directory.
fn source(directory: &Path) -> ReleaseSource {
    let settings = format!(
        "releases: {{repository: registry.example/releases, directory: {}, attempts: 1}}\n\
         graphData: {{directory: /none}}\n",
        directory.display()
    );
    let settings = crate::settings::ServiceSettings::parse(&settings).unwrap();
    ReleaseSource::new(settings.releases).unwrap()
}

async fn push_release(stores: &Stores, directory: &Path, version: &str, files: &[(&str, &str)]) {
    let labels = [(RELEASE_LABEL, version)];
    push(stores, &place(directory, version), files, &labels).await;
}

fn metadata(version: &str) -> String {
    let metadata = Metadata::new(version.parse().unwrap());
    String::from_utf8(metadata.print()).unwrap()
}

#[tokio::test]
async fn only_the_metadata_of_a_release_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let stores = Stores::new(Credentials::default(), false);
    let large = "a".repeat(2 << 20);
    let good = metadata("1.0.0");
    let files = [
        ("release-manifests/release-metadata", good.as_str()),
        // Larger than what is kept of an image.
        ("release-manifests/0000_crd.yaml", large.as_str()),
    ];
    push_release(&stores, directory.path(), "1.0.0", &files).await;
    let scraped = source(directory.path()).scrape().await.unwrap();
    assert_eq!(scraped.problems, []);
    assert_eq!(scraped.releases[0].version().to_string(), "1.0.0");
}

#[tokio::test]
async fn a_bad_image_is_read_once_and_listed_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let stores = Stores::new(Credentials::default(), false);
    let large = "a".repeat(2 << 20);
    let files = [("release-manifests/release-metadata", large.as_str())];
    push_release(&stores, directory.path(), "1.0.0", &files).await;
    let source = source(directory.path());
    let first = source.scrape().await.unwrap();
    let reason = &first.problems[0].reason;
    assert!(reason.ends_with("is larger than 1048576 bytes"), "{reason}");
    forget_layers(directory.path());
    assert_eq!(source.scrape().await.unwrap(), first);
}

#[tokio::test]
async fn images_that_are_gone_are_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let stores = Stores::new(Credentials::default(), false);
    let source = source(directory.path());
    for round in 0..3 {
        let version = format!("1.0.{round}");
        let text = metadata(&version);
        let files = [("release-manifests/release-metadata", text.as_str())];
        push_release(&stores, directory.path(), &version, &files).await;
        let scraped = source.scrape().await.unwrap();
        assert_eq!(scraped.releases.len(), 1);
        drop(scraped);
        assert_eq!(lock(&source.found).len(), 1);
        assert_eq!(lock(&source.files).len(), 1);
        // The next one takes its place.
        std::fs::remove_file(directory.path().join("index.json")).unwrap();
    }
}
