//! The programs of this image on the host.

use std::io::{self, Read as _};
use std::path::Path;

use chassis::report::Chain;
use host::files::{self, Found, Root};
use sha2::{Digest as _, Sha256};

use super::Error;
use crate::program;

/// Length of a SHA-256 in hex.
const DIGEST_CHARS: usize = 64;

/// The name of the daemon's own program on the host.
const DAEMON: &str = "mcd";

/// The same program, where it is also after a boot without the daemon's pod.
///
/// Source: `docs/reference/daemon.md`, "Host files".
const STABLE_DAEMON_LINK: &str = "/var/lib/slipway/bin/mcd";

/// Puts the helper `image` and the daemon's program `own` on the host, and removes those of other
/// versions; the helper's path there.
pub(super) fn install(root: &Path, image: &Path, own: &Path) -> Result<String, Error> {
    let (digest, binary) = place(root, image, program::NAME)?;
    let offered = match offer(root, own) {
        Ok(digest) => digest,
        Err(error) => {
            // Administrators miss it; updates do not.
            tracing::warn!(error = %Chain(&error), "cannot put the daemon's program on the host");
            String::new()
        }
    };
    if let Err(error) = remove_others(root, &[&digest, &offered]) {
        tracing::warn!(error = %Chain(&error), "cannot remove the programs of old versions");
    }
    Ok(binary)
}

/// Puts the helper `image` on the host; its path there.
pub(super) fn place_helper(root: &Path, image: &Path) -> Result<String, Error> {
    place(root, image, program::NAME).map(|(_, path)| path)
}

/// Puts the daemon's program where administrators run it:
/// `chroot /host /run/bin/machine-config-daemon status`. Its digest.
fn offer(root: &Path, own: &Path) -> Result<String, Error> {
    let (digest, path) = place(root, own, DAEMON)?;
    let host = Root::open(root, None)?;
    let beside = format!("{digest}/{DAEMON}");
    for (link, target) in [(STABLE_DAEMON_LINK, &beside), (program::DAEMON_LINK, &path)] {
        host.symlink(&host.locate(link)?, &target.as_str().into())?;
    }
    Ok(digest)
}

/// Copies a program of this image to the host, once; its digest and its path there.
fn place(root: &Path, image: &Path, name: &str) -> Result<(String, String), Error> {
    let unreadable = |source| Error::Binary {
        path: image.to_owned(),
        source,
    };
    let digest = digest(image).map_err(unreadable)?;
    let host = Root::open(root, None)?;
    let directory = format!("{}/{digest}", program::DIRECTORY);
    // Whole or not at all, as it is put in place by a rename; looked for without reading its
    // megabytes.
    let names = host.list(&host.locate(&directory)?)?;
    let path = program::path(&digest, name);
    if !names.iter().any(|present| present == name) {
        let bytes = std::fs::read(image).map_err(unreadable)?;
        program::place(host, &digest, name, &bytes)?;
        tracing::info!(path, "put a program on the host");
    }
    Ok((digest, path))
}

/// Removes the programs of other versions, except those that a link names: the helper that the
/// units of the guard run, and the daemon's program that administrators run.
fn remove_others(root: &Path, kept: &[&str]) -> Result<(), files::Error> {
    let host = Root::open(root, None)?;
    let mut linked = String::new();
    for link in [program::LINK, STABLE_DAEMON_LINK] {
        if let Found::Link(target) = host.inspect(link)? {
            linked.push_str(&target.to_string());
        }
    }
    for name in host.list(&host.locate(program::DIRECTORY)?)? {
        let is_digest = name.len() == DIGEST_CHARS && name.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_digest || kept.contains(&name.as_str()) || linked.contains(&name) {
            continue;
        }
        for program in [program::NAME, DAEMON] {
            host.remove(&host.locate(&program::path(&name, program))?)?;
        }
        let directory = format!("{}/{name}", program::DIRECTORY);
        host.remove_empty_directory(&host.locate(&directory)?)?;
        tracing::info!(digest = name, "removed a program of an old version");
    }
    Ok(())
}

fn digest(path: &Path) -> io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(buffer.get(..read).unwrap_or_default());
    }
    Ok(hex::encode(hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_of_old_versions_are_removed_but_for_the_one_that_the_guard_runs() {
        let host = tempfile::tempdir().unwrap();
        let image = host.path().join("image");
        let bin = host.path().join("var/lib/slipway/bin");
        let put = |content: &str| {
            std::fs::remove_file(&image).ok();
            let mut file = std::fs::File::create(&image).unwrap();
            io::Write::write_all(&mut file, content.as_bytes()).unwrap();
            install(host.path(), &image, &image).unwrap();
            digest(&image).unwrap()
        };
        std::fs::create_dir_all(host.path().join("usr/bin")).unwrap();
        std::fs::File::create(host.path().join("usr/bin/true")).unwrap();
        let first = put("first");
        std::os::unix::fs::symlink(
            program::path(&first, program::NAME),
            bin.join(program::NAME),
        )
        .unwrap();
        std::fs::create_dir(bin.join("not-ours")).unwrap();
        put("second");
        let third = put("third");
        let mut expected = vec![
            first,
            third,
            program::NAME.to_owned(),
            DAEMON.to_owned(),
            "not-ours".to_owned(),
        ];
        expected.sort();
        let mut names: Vec<String> = std::fs::read_dir(&bin)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, expected);
        // The daemon's program of the newest is where administrators look for it.
        let stable = bin.join(DAEMON);
        assert_eq!(std::fs::read(&stable).unwrap(), b"third");
        let link = std::fs::read_link(host.path().join("run/bin/machine-config-daemon")).unwrap();
        let copy = host.path().join(link.strip_prefix("/").unwrap());
        assert_eq!(std::fs::read(copy).unwrap(), b"third");
    }
}
