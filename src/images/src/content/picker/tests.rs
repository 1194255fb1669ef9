use std::fs;

use tar::{Builder, EntryType, Header};

use super::*;
use crate::budget::Excess;
use crate::content::tests::{Made, entry, made, raw, with_layers};
use crate::tree::NewLayer;

/// A database in one of two places, a file for each package, and the names of kernels.
fn patterns() -> Vec<PathPattern> {
    let pattern = |(path, max_bytes): (&str, Option<u64>)| PathPattern {
        path: path.to_owned(),
        max_bytes,
    };
    let all = [
        ("usr/db/status", Some(8)),
        ("var/db/status.d/*", Some(8)),
        ("usr/lib/modules/*/vmlinuz", None),
    ];
    all.map(pattern).to_vec()
}

/// Each path with its content, or alone.
fn shown(files: &PickedFiles) -> String {
    let line = |path: &str| match files.file(path) {
        Some(file) => format!("{path}={}", fs::read_to_string(file).unwrap()),
        None => path.to_owned(),
    };
    files
        .paths()
        .into_iter()
        .map(line)
        .collect::<Vec<_>>()
        .join(" ")
}

async fn pick(made: &Made) -> Result<String, Error> {
    let limits = BudgetLimits::TO_DISK;
    let mut picker = FilePicker::new(&made.stores, patterns(), limits).unwrap();
    Ok(shown(&picker.pick(&made.image).await?))
}

/// A layer whose entries are a path with a text, or with `=>` and the target of a hard link.
fn layer(entries: &[(&str, &str)]) -> NewLayer {
    raw(|archive: &mut Builder<Vec<u8>>| {
        for (path, text) in entries {
            if let Some(target) = text.strip_prefix("=>") {
                entry(archive, path, EntryType::Link, target);
                continue;
            }
            let mut header = Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            archive
                .append_data(&mut header, path, text.as_bytes())
                .unwrap();
        }
    })
}

#[tokio::test]
async fn files_are_those_of_the_uppermost_layer_that_has_them() {
    let image = made(&[
        &[
            ("usr/db/status", "old"),
            ("usr/lib/modules/1/vmlinuz", "kernel"),
            ("usr/lib/modules/1/other", "x"),
            ("var/db/status.d/a", "a"),
            ("var/db/status.d/b", "b"),
        ],
        &[
            ("usr/db/status", "new"),
            ("usr/lib/modules/.wh.1", ""),
            ("usr/lib/modules/2/vmlinuz", "a kernel of any length"),
            ("var/db/status.d/.wh.a", ""),
        ],
    ]);
    assert_eq!(
        pick(&image.await).await.unwrap(),
        "usr/db/status=new usr/lib/modules/2/vmlinuz var/db/status.d/b=b"
    );
    let opaque = made(&[
        &[("var/db/status.d/a", "a"), ("usr/db/status", "x")],
        &[("var/db/status.d/.wh..wh..opq", ""), (".wh.usr", "")],
    ]);
    assert_eq!(pick(&opaque.await).await.unwrap(), "");
    let linked = made(&[&[("usr/db/status", "->/etc/status")]]);
    assert_eq!(pick(&linked.await).await.unwrap(), "");
}

#[tokio::test]
async fn hard_links_have_the_content_of_their_target() {
    // As ostree images have it: an object, and its names.
    let object = "sysroot/ostree/repo/objects/ab/cd.file";
    let link = format!("=>{object}");
    let same = with_layers(vec![
        layer(&[("usr/db/status", "old")]),
        layer(&[
            (object, "new"),
            ("usr/db/status", &link),
            ("usr/lib/modules/1/vmlinuz", &link),
        ]),
    ]);
    let expected = format!("{object}=new usr/db/status=new usr/lib/modules/1/vmlinuz");
    let picked = pick(&same.await).await.unwrap();
    let mut words: Vec<&str> = picked.split(' ').collect();
    words.sort_unstable();
    assert_eq!(words.join(" "), expected);

    let chain = with_layers(vec![layer(&[
        ("o/1", "deep"),
        ("o/2", "=>o/1"),
        ("usr/db/status", "=>./o/2"),
    ])]);
    assert_eq!(
        pick(&chain.await).await.unwrap(),
        "o/1=deep o/2=deep usr/db/status=deep"
    );

    let lower = with_layers(vec![
        layer(&[(object, "low")]),
        layer(&[("other", "x")]),
        layer(&[("usr/db/status", &link)]),
    ]);
    let picked = pick(&lower.await).await.unwrap();
    assert_eq!(picked, format!("{object}=low usr/db/status=low"));

    let nowhere = with_layers(vec![layer(&[("usr/db/status", "=>o/1")])]);
    let error = pick(&nowhere.await).await.unwrap_err().to_string();
    assert!(error.ends_with("there is no o/1"), "{error}");
    let outside = with_layers(vec![layer(&[("usr/db/status", "=>../x")])]);
    let error = pick(&outside.await).await.unwrap_err().to_string();
    assert!(
        error.ends_with("usr/db/status leads out of the directory"),
        "{error}"
    );
}

#[tokio::test]
async fn a_chain_of_links_over_many_layers_is_refused() {
    let layers = [
        ("o/1", "x"),
        ("o/2", "=>o/1"),
        ("o/3", "=>o/2"),
        ("o/4", "=>o/3"),
    ];
    let mut layers: Vec<NewLayer> = layers.iter().map(|file| layer(&[*file])).collect();
    layers.push(layer(&[("usr/db/status", "=>o/4")]));
    let error = pick(&with_layers(layers).await)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("a chain of hard links over several layers"),
        "{error}"
    );
}

#[tokio::test]
async fn layers_that_images_share_are_read_once() {
    let base = || layer(&[("usr/db/status", "base"), ("usr/lib/modules/1/vmlinuz", "")]);
    let one = with_layers(vec![base()]).await;
    let other = with_layers(vec![base(), layer(&[("usr/db/status", "upper")])]).await;
    let limits = BudgetLimits::TO_DISK;
    let mut picker = FilePicker::new(&one.stores, patterns(), limits).unwrap();
    let first = picker.pick(&one.image).await.unwrap();
    let second = picker.pick(&other.image).await.unwrap();
    assert_eq!(picker.next, 2);
    assert_eq!(
        shown(&first),
        "usr/db/status=base usr/lib/modules/1/vmlinuz"
    );
    assert_eq!(
        shown(&second),
        "usr/db/status=upper usr/lib/modules/1/vmlinuz"
    );
}

#[tokio::test]
async fn limits_hold() {
    let long = made(&[&[("usr/db/status", "123456789")]]).await;
    let error = pick(&long).await.unwrap_err().to_string();
    assert!(
        error.ends_with("file usr/db/status is larger than 8 bytes"),
        "{error}"
    );
    let image = made(&[&[("usr/db/status", "1234"), ("var/db/status.d/a", "5678")]]).await;
    let with = |limits: BudgetLimits| FilePicker::new(&image.stores, patterns(), limits).unwrap();
    let kept = BudgetLimits {
        kept_bytes: 7,
        ..BudgetLimits::TO_DISK
    };
    let error = with(kept).pick(&image.image).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Excess {
                excess: Excess::Kept(7),
                ..
            }
        ),
        "{error}"
    );
    let paths = BudgetLimits {
        paths_bytes: 100,
        ..BudgetLimits::TO_DISK
    };
    let error = with(paths).pick(&image.image).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Excess {
                excess: Excess::Paths(100),
                ..
            }
        ),
        "{error}"
    );
}
