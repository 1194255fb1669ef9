//! The archive for any Linux: `tar` and gzip, the same bytes from the same files.

use std::collections::BTreeSet;

use anyhow::Context as _;
use tar::{Builder, EntryType, Header};

use crate::archive::gzip;
use crate::command_line::contents::{
    Content, Contents, Entry, LICENSE, MANIFESTS, completions, programs,
};

/// The folder that all files are in, and the name of the archive without its ending.
fn stem(contents: &Contents) -> String {
    let architecture = contents.program.architecture.name();
    format!("slipway-{}-linux-{architecture}", contents.version)
}

/// The archive's name.
pub(crate) fn name(contents: &Contents) -> String {
    stem(contents) + ".tar.gz"
}

/// The archive.
pub(crate) fn bytes(contents: &Contents) -> anyhow::Result<Vec<u8>> {
    let mut entries = programs(contents, "");
    entries.push(Entry::file("LICENSE", LICENSE));
    entries.push(Entry::file("README", readme(contents)));
    entries.push(Entry::file(MANIFESTS, &*contents.manifests));
    entries.extend(completions(
        "completions/slipway.bash",
        "completions/_slipway",
        "completions/slipway.fish",
    ));
    for page in &contents.pages {
        entries.push(Entry::file(format!("man/man1/{}", page.file), &*page.text));
    }
    let bytes = tar(entries, &stem(contents), contents.time.as_second())?;
    Ok(gzip(&bytes)?)
}

fn readme(contents: &Contents) -> String {
    format!(
        "The command line of Slipway {}. To install it below /usr/local:\n\
         sudo cp -P slipway kubectl-slipway kubectl_complete-slipway /usr/local/bin/\n\
         sudo mkdir -p /usr/local/share/man && sudo cp -R man/man1 /usr/local/share/man/\n\
         sudo cp -R share/slipway /usr/local/share/    # what slipway install applies\n\
         echo 'source <(slipway completion bash)' >> ~/.bashrc    # or zsh; files: completions/\n",
        contents.version
    )
}

fn tar(mut entries: Vec<Entry>, top: &str, time: i64) -> anyhow::Result<Vec<u8>> {
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    let time = u64::try_from(time).context("the time is before 1970")?;
    let mut builder = Builder::new(Vec::new());
    let mut made = BTreeSet::new();
    for entry in &entries {
        let path = format!("{top}/{}", entry.path);
        for (end, _) in path.match_indices('/') {
            let directory = path.get(..=end).unwrap_or_default();
            if made.insert(directory.to_owned()) {
                let mut header = header(EntryType::Directory, 0o755, 0, time);
                builder.append_data(&mut header, directory, &[][..])?;
            }
        }
        match &entry.content {
            Content::Program(bytes) => {
                let mut header = header(EntryType::Regular, 0o755, bytes.len(), time);
                builder.append_data(&mut header, &path, &**bytes)?;
            }
            Content::File(bytes) => {
                let mut header = header(EntryType::Regular, 0o644, bytes.len(), time);
                builder.append_data(&mut header, &path, &**bytes)?;
            }
            Content::Link(target) => {
                let mut header = header(EntryType::Symlink, 0o777, 0, time);
                builder.append_link(&mut header, &path, target)?;
            }
        }
    }
    Ok(builder.into_inner()?)
}

/// A header with owner root, by number alone.
fn header(kind: EntryType, mode: u32, length: usize, time: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(length as u64);
    header.set_mtime(time);
    header.set_uid(0);
    header.set_gid(0);
    header
}
