//! The image with the packages of extensions and of another kernel: a repository that apt reads, of
//! packages made here. A release has such an image beside that of its OS.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::json;

use super::layout;
use crate::cache::{self, Recipe};
use crate::program::{command, run};
use crate::tree::Tree;

/// Where the image has its repository.
const REPOSITORY: &str = "usr/share/extensions";

/// An extension that [`offers`] names, and a file of it.
pub const EXTENSION: (&str, &str) = ("usbguard", "/usr/lib/usbguard/rules");

/// A kernel type that [`offers`] names, and the end of its kernel's version.
pub const KERNEL_TYPE: (&str, &str) = ("realtime", "-rt");

/// What a package has besides its name.
#[derive(Clone, Copy, Debug, Default)]
struct Package<'a> {
    /// A field of its own, such as `Depends: libusbguard`.
    field: &'a str,
    /// A file, with its text.
    file: Option<(&'a str, &'a str)>,
}

/// Labels of an OS image that offers the packages of this image.
pub fn offers(tree: &Tree) -> BTreeMap<String, String> {
    let kernel = format!(
        "-linux-image-cloud-amd64 -linux-image-{} linux-image-lab{}",
        tree.kernel(),
        KERNEL_TYPE.1
    );
    let labels = [
        ("extension", EXTENSION.0, "usbguard".to_owned()),
        ("kernel-type", KERNEL_TYPE.0, kernel),
    ];
    let label = |(kind, name, packages)| (format!("slipway.dev/{kind}.{name}"), packages);
    labels.map(label).into()
}

/// An OCI layout of the image.
///
/// # Errors
///
/// The tree cannot be read, or a package cannot be made.
pub fn extensions(tree: &Tree) -> Result<PathBuf> {
    let recipe = Recipe::default()
        .with("extensions", include_str!("extensions.rs"))
        .with("layout", include_str!("layout.rs"))
        .with("tree", &tree.base().checksum);
    cache::folder("image", &recipe, |dir| write(tree, dir))
}

fn write(tree: &Tree, layout: &Path) -> Result<()> {
    let root = layout.join("root");
    let repository = root.join(REPOSITORY);
    fs::create_dir_all(&repository)?;
    let (_, rules) = EXTENSION;
    let packages = [
        (
            "libusbguard",
            Package {
                file: Some(("/usr/lib/usbguard/library", "a library\n")),
                ..Package::default()
            },
        ),
        (
            "usbguard",
            Package {
                field: "Depends: libusbguard\n",
                file: Some((rules, "allow\n")),
            },
        ),
    ];
    for (name, package) in packages {
        let files = layout.join("package");
        if let Some((path, text)) = package.file {
            put(&files.join(path.trim_start_matches('/')), text)?;
        }
        pack(&repository, name, package.field, &files)?;
    }
    let files = layout.join("package");
    let name = format!("linux-image-lab{}", KERNEL_TYPE.1);
    kernel(tree, &files)?;
    pack(&repository, &name, "", &files)?;

    layout::write_files(layout, &json!({}), &root)
}

/// The tree's kernel under another version, where Debian's packages have it: without an initramfs.
fn kernel(tree: &Tree, files: &Path) -> Result<()> {
    let modules = files.join("usr/lib/modules");
    fs::create_dir_all(&modules)?;
    let version = format!("{}{}", tree.kernel(), KERNEL_TYPE.1);
    let there = modules.join(&version);
    run(command("ostree")
        .args(["checkout", "--user-mode"])
        .arg(format!("--repo={}", tree.base().repo.display()))
        .arg(format!("--subpath=/usr/lib/modules/{}", tree.kernel()))
        .arg(&tree.base().checksum)
        .arg(&there))?;
    fs::remove_file(there.join("initramfs.img"))?;
    let boot = files.join("boot");
    fs::create_dir(&boot)?;
    fs::rename(
        there.join("vmlinuz"),
        boot.join(format!("vmlinuz-{version}")),
    )?;
    Ok(())
}

/// Makes a package of these files, which go, and enters it into the repository's index.
fn pack(repository: &Path, name: &str, field: &str, files: &Path) -> Result<()> {
    let mut control = format!(
        "Package: {name}\nVersion: 1.0\nArchitecture: amd64\nMaintainer: Slipway lab <lab@example.org>\n\
         Description: {name} of the lab\n{field}"
    );
    put(&files.join("DEBIAN/control"), &control)?;
    let file = format!("{name}_1.0_amd64.deb");
    let package = repository.join(&file);
    run(command("dpkg-deb")
        .args(["--root-owner-group", "-Zgzip", "--build"])
        .args([files, &package])
        .env("SOURCE_DATE_EPOCH", "0"))?;
    fs::remove_dir_all(files)?;
    let digest = layout::digest(&package)?;
    let digest = digest.strip_prefix("sha256:").context("no digest")?;
    let size = fs::metadata(&package)?.len();
    writeln!(
        control,
        "Filename: ./{file}\nSize: {size}\nSHA256: {digest}\n"
    )?;
    let index = repository.join("Packages");
    let before = if index.exists() {
        fs::read_to_string(&index)?
    } else {
        String::new()
    };
    put(&index, &(before + &control))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the cache takes only what is complete"
)]
fn put(path: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(path.parent().context("a path without a parent")?)?;
    Ok(fs::write(path, text)?)
}
