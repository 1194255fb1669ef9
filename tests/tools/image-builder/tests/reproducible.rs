//! `make images` in two clones at different paths gives the same digests, and images whose programs
//! start.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails; it runs git and make"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use image_builder::component::COMPONENTS;
use images::content::unpack;
use images::image::Platform;
use images::{Credentials, Image, ImageLocation, Stores};

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

fn run(command: &mut Command) -> String {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{command:?} failed");
    String::from_utf8(output.stdout).unwrap()
}

fn git(directory: &Path, words: &[&str]) -> String {
    run(Command::new("git").current_dir(directory).args(words))
}

/// The lines `<name> <digest>` that `make images` prints in a new clone of this commit.
fn images(clone: &Path, commit: &str) -> Vec<String> {
    fs::create_dir_all(clone).unwrap();
    git(clone, &["clone", "--quiet", "--no-checkout", CHECKOUT, "."]);
    git(clone, &["checkout", "--quiet", "--detach", commit]);
    // Compiled dependencies of another checkout must not hide a path that one of them keeps.
    let target = clone.join("target/cargo");
    let mut make = Command::new("make");
    make.current_dir(clone).arg("images");
    make.env("CARGO_TARGET_DIR", &target);
    make.env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS");
    let printed = run(&mut make);
    fs::remove_dir_all(&target).unwrap();
    let lines = printed.lines().map(str::to_owned);
    lines.filter(|line| line.contains(" sha256:")).collect()
}

#[test]
#[ignore = "needs root, git, make, Debian's archive, and two release builds"]
fn clones_at_two_paths_give_the_same_digests() {
    let cache = std::env::var("SLIPWAY_CACHE").unwrap_or_else(|_| "/var/cache/slipway".to_owned());
    fs::create_dir_all(&cache).unwrap();
    let directory = tempfile::tempdir_in(cache).unwrap();
    let commit = git(Path::new(CHECKOUT), &["rev-parse", "HEAD"]);
    let commit = commit.trim();
    let clone = directory.path().join("a");
    let one = images(&clone, commit);
    let other = images(&directory.path().join("another/and-longer"), commit);
    assert_eq!(one.len(), COMPONENTS.len());
    assert_eq!(one, other);
    for component in COMPONENTS {
        let root = directory.path().join(component.name);
        fs::create_dir(&root).unwrap();
        extract(&clone.join("target/images"), component.name, &root);
        let program = component.entrypoint().unwrap();
        let help = run(Command::new("chroot")
            .arg(&root)
            .args([program.as_str(), "--help"]));
        assert!(help.contains("Usage: "), "{}: {help}", component.name);
    }
}

/// Writes all files of an image of a layout directory.
fn extract(layout: &Path, name: &str, root: &Path) {
    let location: ImageLocation = format!("oci:{}:{name}", layout.display()).parse().unwrap();
    let stores = Stores::new(Credentials::default(), false);
    let extracted = async {
        let image = Image::open(&stores, &location, &Platform::of_this_machine()).await?;
        unpack(&stores, &image, "/", root).await
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let unpacked = runtime.block_on(extracted).unwrap();
    assert_eq!(unpacked.left_out, Vec::<String>::new());
}
