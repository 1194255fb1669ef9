use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use jiff::Timestamp;
use tar::{Builder, Header};
use tempfile::TempDir;

use super::*;
use crate::credentials::Credentials;
use crate::draft::Draft;
use crate::image::Platform;
use crate::location::ImageLocation;
use crate::tree::{EntryContent, Tree};

/// An image of layers, in a directory of its own.
pub(super) struct Made {
    _directory: TempDir,
    pub(super) stores: Stores,
    pub(super) image: Image,
}

/// Makes an image; a path that ends in a slash is a directory, a text that begins with `->` a link.
pub(super) async fn made(layers: &[&[(&str, &str)]]) -> Made {
    let mut trees = Vec::new();
    for files in layers {
        let mut tree = Tree::new();
        for (path, text) in *files {
            let content = match (path.strip_suffix('/'), text.strip_prefix("->")) {
                (Some(_), _) => EntryContent::Directory,
                (None, Some(target)) => EntryContent::Link(target.to_owned()),
                (None, None) => EntryContent::Bytes(text.as_bytes().to_vec()),
            };
            tree.put(path.trim_end_matches('/'), 0o4755, content)
                .unwrap();
        }
        trees.push(tree.layer(Timestamp::UNIX_EPOCH).unwrap());
    }
    with_layers(trees).await
}

pub(super) async fn with_layers(layers: Vec<crate::tree::NewLayer>) -> Made {
    let platform = Platform::of_this_machine();
    let mut draft = Draft::new(platform.clone(), Timestamp::UNIX_EPOCH);
    for layer in layers {
        draft.push(layer, "test");
    }
    let directory = tempfile::tempdir().unwrap();
    let location: ImageLocation = format!("oci:{}", directory.path().display())
        .parse()
        .unwrap();
    let stores = Stores::new(Credentials::default(), false);
    stores
        .put(&draft.build().unwrap(), &location)
        .await
        .unwrap();
    let image = Image::open(&stores, &location, &platform).await.unwrap();
    Made {
        _directory: directory,
        stores,
        image,
    }
}

/// A layer of raw entries.
pub(super) fn raw(write: impl FnOnce(&mut Builder<Vec<u8>>)) -> crate::tree::NewLayer {
    let mut archive = Builder::new(Vec::new());
    write(&mut archive);
    let bytes = archive.into_inner().unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &bytes).unwrap();
    crate::tree::NewLayer {
        blob: crate::blob::Blob::of(&packed.finish().unwrap()).unwrap(),
        diff_id: release::ImageDigest::of(&bytes),
    }
}

pub(super) fn entry(archive: &mut Builder<Vec<u8>>, path: &str, kind: EntryType, link: &str) {
    let mut header = Header::new_gnu();
    // Not `set_path`, which refuses what a hostile archive would have.
    header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(0);
    if !link.is_empty() {
        header.set_link_name_literal(link).unwrap();
    }
    header.set_cksum();
    archive.append(&header, std::io::empty()).unwrap();
}

async fn read(made: &Made, layers: Layers) -> Result<String, Error> {
    let files = directory(&made.stores, &made.image, "manifests", layers, 8).await?;
    let one =
        |(name, bytes): (&String, &Vec<u8>)| format!("{name}={}", String::from_utf8_lossy(bytes));
    Ok(files.iter().map(one).collect::<Vec<_>>().join(" "))
}

#[tokio::test]
async fn directory_is_read_from_the_layers_that_count() {
    let layers: [&[(&str, &str)]; 4] = [
        &[
            ("manifests/a", "1"),
            ("manifests/b", "1"),
            ("manifests/c", "1"),
            ("manifestsx/z", ""),
        ],
        &[
            ("manifests/a", "2"),
            ("manifests/.wh.b", ""),
            ("manifests/deep/x", ""),
        ],
        &[("other/x", "")],
        &[("other/y", ""), ("manifests/", "")],
    ];
    let all = made(&layers).await;
    for (kind, expected) in [
        (Layers::Last, ""),
        (Layers::Uppermost, "a=2"),
        (Layers::All, "a=2 c=1"),
    ] {
        assert_eq!(read(&all, kind).await.unwrap(), expected, "{kind:?}");
    }
    let opaque = made(&[
        layers[0],
        &[("manifests/.wh..wh..opq", ""), ("manifests/d", "2")],
    ])
    .await;
    assert_eq!(read(&opaque, Layers::All).await.unwrap(), "d=2");
    let hidden = made(&[layers[0], &[(".wh.manifests", "")]]).await;
    assert_eq!(read(&hidden, Layers::All).await.unwrap(), "");
}

#[tokio::test]
async fn files_that_are_not_taken_are_named() {
    let long = made(&[&[("manifests/long", "123456789")]]).await;
    let error = read(&long, Layers::All).await.unwrap_err().to_string();
    assert!(
        error.ends_with("file manifests/long is larger than 8 bytes"),
        "{error}"
    );
    let link = made(&[&[("manifests/link", "->x")]]).await;
    let error = read(&link, Layers::All).await.unwrap_err().to_string();
    assert!(
        error.ends_with("manifests/link is no regular file"),
        "{error}"
    );
}

#[tokio::test]
async fn layer_that_is_no_archive_is_named() {
    let broken = crate::tree::NewLayer {
        blob: crate::blob::Blob::of(b"no gzip").unwrap(),
        diff_id: release::ImageDigest::of(b""),
    };
    let digest = broken.blob.digest().to_string();
    let made = with_layers(vec![broken]).await;
    let error = read(&made, Layers::All).await.unwrap_err().to_string();
    assert!(
        error.ends_with(&format!("layer {digest} cannot be unpacked")),
        "{error}"
    );
    let upwards = raw(|archive| entry(archive, "../x", EntryType::Regular, ""));
    let made = with_layers(vec![upwards]).await;
    let error = read(&made, Layers::All).await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "entry \"../x\" is no path in an image");
}

async fn unpacked(made: &Made, source: &str, target: &Path) -> Result<Unpacked, String> {
    let done = unpack(&made.stores, &made.image, source, target).await;
    done.map_err(|error| error.to_string())
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn file_and_directory_are_unpacked() {
    let layers: [&[(&str, &str)]; 2] = [
        &[
            ("usr/bin/a", "old"),
            ("usr/bin/b", "b"),
            ("usr/bin/gone", ""),
            ("usr/lib/x/y", "y"),
        ],
        &[
            ("usr/bin/a", "new"),
            ("usr/bin/.wh.gone", ""),
            ("usr/bin/link", "->b"),
            ("usr/binx", ""),
        ],
    ];
    let made = made(&layers).await;
    let target = tempfile::tempdir().unwrap();
    let done = unpacked(&made, "/usr/bin/", target.path()).await.unwrap();
    assert_eq!(
        done,
        Unpacked {
            count: 3,
            left_out: Vec::new()
        }
    );
    assert_eq!(text(&target.path().join("a")), "new");
    assert_eq!(text(&target.path().join("link")), "b");
    let mut names: Vec<_> = std::fs::read_dir(target.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "b", "link"]);
    let bits = std::fs::metadata(target.path().join("a"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(bits & 0o7777, 0o755);

    let target = tempfile::tempdir().unwrap();
    assert_eq!(
        unpacked(&made, "/usr/bin/b", target.path())
            .await
            .unwrap()
            .count,
        1
    );
    assert_eq!(text(&target.path().join("b")), "b");
    unpacked(&made, "/", target.path()).await.unwrap();
    assert_eq!(text(&target.path().join("usr/lib/x/y")), "y");
    // Again over what is there.
    unpacked(&made, "/", target.path()).await.unwrap();
    let error = unpacked(&made, "/usr/none", target.path())
        .await
        .unwrap_err();
    assert!(error.ends_with("there is no /usr/none"), "{error}");
    let error = unpacked(&made, "/usr/../x", target.path())
        .await
        .unwrap_err();
    assert!(error.ends_with("there is no /usr/../x"), "{error}");
}

#[tokio::test]
async fn hard_links_and_devices() {
    let layer = raw(|archive| {
        let mut header = Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        archive.append_data(&mut header, "d/a", &b"a"[..]).unwrap();
        entry(archive, "d/b", EntryType::Link, "d/a");
        entry(archive, "d/device", EntryType::Char, "");
    });
    let made = with_layers(vec![layer]).await;
    let target = tempfile::tempdir().unwrap();
    let done = unpacked(&made, "d", target.path()).await.unwrap();
    assert_eq!(done.left_out, ["d/device"]);
    assert_eq!(text(&target.path().join("b")), "a");
    let error = unpacked(&made, "d/b", target.path()).await.unwrap_err();
    assert!(error.ends_with("d/b leads out of the directory"), "{error}");
}

#[tokio::test]
async fn no_file_is_written_outside_of_the_directory() {
    let outside = tempfile::tempdir().unwrap();
    let link = outside.path().to_str().unwrap().to_owned();
    // Through a link of the same layer, and through one of an upper layer.
    for paths in [vec![vec!["d", "d/x"]], vec![vec!["d/x"], vec!["d"]]] {
        let layers = paths.into_iter().map(|paths| {
            raw(|archive| {
                for path in paths {
                    match path {
                        "d" => entry(archive, path, EntryType::Symlink, &link),
                        _ => entry(archive, path, EntryType::Regular, ""),
                    }
                }
            })
        });
        let made = with_layers(layers.collect()).await;
        let target = tempfile::tempdir().unwrap();
        match unpacked(&made, "/", target.path()).await {
            Ok(done) => assert_eq!(done.count, 1),
            Err(error) => assert!(error.ends_with("d/x leads out of the directory"), "{error}"),
        }
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }
    // A file that is replaced is not written through.
    let target = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    std::fs::File::create(&victim).unwrap();
    std::os::unix::fs::symlink(&victim, target.path().join("x")).unwrap();
    let made = made(&[&[("x", "new")]]).await;
    unpacked(&made, "/", target.path()).await.unwrap();
    assert_eq!(text(&victim), "");
    assert_eq!(text(&target.path().join("x")), "new");
}

#[tokio::test]
async fn no_hard_link_leads_out_of_the_directory() {
    // In one file system with the target, where a hard link is possible.
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    std::fs::File::create(&secret).unwrap();
    let link = outside.path().to_str().unwrap().to_owned();
    for (link_path, source) in [("x", "d/secret"), ("d/x", "a")] {
        let layer = raw(|archive| {
            entry(archive, "a", EntryType::Regular, "");
            entry(archive, "d", EntryType::Symlink, &link);
            entry(archive, link_path, EntryType::Link, source);
        });
        let made = with_layers(vec![layer]).await;
        let target = tempfile::tempdir().unwrap();
        let error = unpacked(&made, "/", target.path()).await.unwrap_err();
        let expected = format!("{link_path} leads out of the directory");
        assert!(error.ends_with(&expected), "{error}");
        assert!(!target.path().join("x").exists());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}

/// A layer whose only entry has a name of 256 MiB; packed it takes some 300 kB.
fn with_a_long_name() -> crate::tree::NewLayer {
    raw(|archive| {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::GNULongName);
        let size = 256_u64 << 20;
        header.set_size(size);
        header.set_cksum();
        let name = std::io::Read::take(std::io::repeat(b'a'), size);
        archive.append(&header, name).unwrap();
        entry(archive, "manifests/a", EntryType::Regular, "");
    })
}

fn peak_kib() -> u64 {
    let status = text(Path::new("/proc/self/status"));
    let mut lines = status.lines();
    let line = lines.find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_small_layer_does_not_take_memory_without_limit() {
    let made = with_layers(vec![with_a_long_name()]).await;
    // What made the layer has been the peak so far: counted again from here.
    std::fs::File::options()
        .write(true)
        .open("/proc/self/clear_refs")
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"5"))
        .unwrap();
    let before = peak_kib();
    let error = read(&made, Layers::All).await.unwrap_err();
    assert!(error.is_of_image());
    let expected = "an entry has headers of more than 1048576 bytes";
    assert!(error.to_string().ends_with(expected), "{error}");
    // Other tests run beside it.
    assert!(peak_kib() < before + (100 << 10));
}

#[tokio::test]
async fn each_limit_of_an_image_is_named() {
    let files: &[(&str, &str)] = &[("manifests/a", "1"), ("manifests/b", "12345"), ("x", "")];
    let made = made(&[files, &[("manifests/c", "")]]).await;
    let limits = BudgetLimits::TO_DISK;
    for (limits, expected) in [
        (limits, ""),
        (
            BudgetLimits {
                layer_bytes: 10,
                ..limits
            },
            "a layer is larger than 10 bytes",
        ),
        (
            BudgetLimits {
                unpacked_bytes: 1000,
                ..limits
            },
            "it unpacks to more than 1000 bytes",
        ),
        (
            // Of all layers together.
            BudgetLimits {
                entries: 5,
                ..limits
            },
            "it has more than 5 entries",
        ),
        (
            BudgetLimits {
                paths_bytes: 300,
                ..limits
            },
            "its paths take more than 300 bytes",
        ),
        (
            BudgetLimits {
                kept_bytes: 5,
                ..limits
            },
            "its files take more than 5 bytes",
        ),
    ] {
        let target = tempfile::tempdir().unwrap();
        let path = target.path();
        let done = unpack_within(&made.stores, &made.image, "manifests", path, limits).await;
        let error = done.map_or_else(|error| error.to_string(), |_| String::new());
        assert!(error.ends_with(expected), "{expected}: {error}");
        assert_eq!(error.is_empty(), expected.is_empty(), "{error}");
    }
}

#[tokio::test]
async fn one_file_is_read_and_others_are_passed_over() {
    let layers: [&[(&str, &str)]; 2] = [
        &[("manifests/a", "old"), ("manifests/b", "")],
        &[
            ("manifests/a", "new"),
            ("manifests/link", "->x"),
            ("manifests/long", "123456789"),
        ],
    ];
    let made = made(&layers).await;
    let read = async |name: &str, layers| {
        let (stores, image, limits) = (&made.stores, &made.image, BudgetLimits::TO_MEMORY);
        file(stores, image, ("manifests", name), layers, 8, limits).await
    };
    let new = read("a", Layers::Uppermost).await.unwrap();
    assert_eq!(new.as_deref(), Some(b"new".as_slice()));
    // The uppermost layer with files of the directory does not have it.
    assert_eq!(read("b", Layers::Uppermost).await.unwrap(), None);
    assert_eq!(read("b", Layers::All).await.unwrap(), Some(Vec::new()));
    assert!(read("long", Layers::All).await.is_err());
}
