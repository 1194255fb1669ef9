use std::fs;

use images::image::Platform;
use images::tree::EntryContent;
use images::{Credentials, Draft, Tree};
use jiff::Timestamp;
use tempfile::TempDir;

use super::rpm_database::tests::{BASE, TOOLS, database};
use super::*;

/// Images of layers, in layout directories.
struct Scene {
    directory: TempDir,
    stores: Stores,
}

impl Scene {
    fn new() -> Self {
        Self {
            directory: TempDir::new().unwrap(),
            stores: Stores::new(Credentials::default(), false),
        }
    }

    /// Makes an image; where it is, by its digest.
    async fn image(&self, name: &str, version: &str, layers: &[&[(&str, &[u8])]]) -> String {
        let mut draft = Draft::new(Platform::of_this_machine(), Timestamp::UNIX_EPOCH);
        for files in layers {
            let mut tree = Tree::new();
            for (path, bytes) in *files {
                let content = EntryContent::Bytes(bytes.to_vec());
                tree.put(path, 0o644, content).unwrap();
            }
            draft.push(tree.layer(Timestamp::UNIX_EPOCH).unwrap(), "toy");
        }
        draft.labels = [("version".to_owned(), version.to_owned())].into();
        let image = draft.build().unwrap();
        let place = format!("oci:{}", self.directory.path().join(name).display());
        let location: ImageLocation = place.parse().unwrap();
        self.stores.put(&image, &location).await.unwrap();
        location.with_digest(image.digest()).to_string()
    }
}

fn status(packages: &[(&str, &str)]) -> Vec<u8> {
    let paragraph = |(name, version): &(&str, &str)| {
        format!(
            "Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: \
             {version}\n\n"
        )
    };
    packages
        .iter()
        .map(paragraph)
        .collect::<String>()
        .into_bytes()
}

fn packages_of(image: &OsImage) -> Vec<String> {
    let packages = image.content.packages().iter();
    packages
        .map(|it| format!("{} {}", it.name, it.version))
        .collect()
}

#[tokio::test]
async fn images_of_debian_are_read_and_compared() {
    let scene = Scene::new();
    let base = status(&[("bash", "5.2"), ("old", "1")]);
    let base: &[(&str, &[u8])] = &[
        ("usr/lib/sysimage/dpkg/status", &base),
        ("usr/lib/modules/6.1.0-27-amd64/vmlinuz", b"kernel"),
        ("usr/lib/os-release", b"VERSION_ID=12\n"),
    ];
    let new = status(&[("bash", "5.10"), ("libostree-1-1", "2022.7-2")]);
    let upper: &[(&str, &[u8])] = &[
        ("usr/lib/sysimage/dpkg/status", &new),
        ("usr/lib/modules/.wh.6.1.0-27-amd64", b""),
        ("usr/lib/modules/6.1.0-28-amd64/vmlinuz", b"kernel"),
    ];
    let from = scene.image("a", "", &[base]).await;
    let to = scene.image("b", "v2", &[base, upper]).await;
    let mut reader = OsImageReader::new(&scene.stores).unwrap();
    let read = reader.read(&from).await.unwrap();
    assert_eq!(read.content.version.as_deref(), Some("12"));
    assert_eq!(read.content.kernels, ["6.1.0-27-amd64"]);
    let change = reader.change(&from, &to).await.unwrap().unwrap();
    let text = crate::view::os::change("os", &change);
    for line in [
        "  Version:   12 -> v2\n",
        "  Kernel:    6.1.0-27-amd64 -> 6.1.0-28-amd64\n",
        "  libostree: none -> 2022.7-2\n",
        "  To fetch:  1 of 2 layers, ",
        "  Packages:  1 upgraded, 1 added, 1 removed, 0 the same\n  Upgraded:\n    bash 5.2 5.10\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(reader.change(&to, &to).await.unwrap(), None);
}

#[tokio::test]
async fn images_of_rpm_are_read() {
    let scene = Scene::new();
    let (file, connection) = database(scene.directory.path(), &[BASE, TOOLS]);
    connection.close().unwrap();
    let bytes = fs::read(&file).unwrap();
    let files: &[(&str, &[u8])] = &[("usr/share/rpm/rpmdb.sqlite", &bytes)];
    let image = scene.image("rpm", "9", &[files]).await;
    let mut reader = OsImageReader::new(&scene.stores).unwrap();
    let read = reader.read(&image).await.unwrap();
    assert_eq!(
        packages_of(&read),
        ["toy-base 1:2.0-3.el9", "toy-tools 1.4~rc1-1.el9"]
    );

    let old: &[(&str, &[u8])] = &[("var/lib/rpm/Packages", b"x")];
    let read = reader
        .read(&scene.image("old", "8", &[old]).await)
        .await
        .unwrap();
    let why = read.not_read.unwrap();
    assert_eq!(
        why,
        "var/lib/rpm/Packages: the form Berkeley DB of rpm is not read"
    );
    assert_eq!(read.content.packages, None);

    let broken: &[(&str, &[u8])] = &[("usr/share/rpm/rpmdb.sqlite", b"x")];
    let broken = scene.image("broken", "9", &[broken]).await;
    let error = format!("{:#}", reader.read(&broken).await.unwrap_err());
    let expected = "usr/share/rpm/rpmdb.sqlite: it is no database of rpm";
    assert!(
        error.contains(expected) && error.contains("image oci:"),
        "{error}"
    );
}

#[tokio::test]
async fn images_without_a_database_and_of_single_packages_are_read() {
    let scene = Scene::new();
    let mut reader = OsImageReader::new(&scene.stores).unwrap();
    let none = scene.image("none", "1", &[&[("usr/bin/x", b"x")]]).await;
    let read = reader.read(&none).await.unwrap();
    assert_eq!((read.content.packages, read.not_read), (None, None));
    let files: &[(&str, &[u8])] = &[
        (
            "var/lib/dpkg/status.d/a",
            b"Package: a\nVersion: 1\nArchitecture: all\n",
        ),
        ("var/lib/dpkg/status.d/a.md5sums", b"0 usr/bin/a\n"),
        (
            "var/lib/dpkg/status.d/b",
            b"Package: b\nVersion: 2\nArchitecture: all\n",
        ),
    ];
    let several = scene.image("several", "1", &[files]).await;
    assert_eq!(
        packages_of(&reader.read(&several).await.unwrap()),
        ["a 1", "b 2"]
    );
    let broken: &[(&str, &[u8])] = &[("var/lib/dpkg/status", b"Package: a\n")];
    let broken = scene.image("broken", "1", &[broken]).await;
    let error = format!("{:#}", reader.read(&broken).await.unwrap_err());
    assert!(
        error.ends_with("var/lib/dpkg/status: package a: it has no field Status"),
        "{error}"
    );
}

#[test]
fn images_are_the_same_by_their_digest() {
    let digest = release::ImageDigest::of(b"");
    let other = release::ImageDigest::of(b"x");
    let at = |place: &str, digest: &release::ImageDigest| format!("{place}@{digest}");
    for (from, to, expected) in [
        (
            at("a.example/os", &digest),
            at("b.example/os", &digest),
            true,
        ),
        (
            at("a.example/os", &digest),
            at("a.example/os", &other),
            false,
        ),
        (
            "a.example/os:1".to_owned(),
            "a.example/os:1".to_owned(),
            true,
        ),
        (
            "a.example/os:1".to_owned(),
            "b.example/os:1".to_owned(),
            false,
        ),
    ] {
        assert_eq!(is_same(&from, &to).unwrap(), expected, "{from} {to}");
    }
    is_same("NO IMAGE", "a.example/os:1").unwrap_err();
}
