//! How often the boot loader tries the default deployment: GRUB's environment block.
//!
//! While `boot_success` is 0, each boot decrements `boot_counter`; at 0 the second entry is booted.
//! This covers a target that fails before the guard runs. On a host without the block the boot
//! loader does not count, and nothing is written.
//!
//! Source: GRUB's manual, "Environment block"; Fedora's `08_fallback_counting`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::files::{self, Root};

/// The block, below a sysroot.
const PATH: &str = "boot/grub2/grubenv";

/// The first line of a block.
const SIGNATURE: &[u8] = b"# GRUB Environment Block\n";

/// The byte that fills the rest of a block.
const FILL: u8 = b'#';

const COUNTER: &str = "boot_counter";
const SUCCESS: &str = "boot_success";

/// Configuration of GRUB, below a sysroot.
const GRUB_CONFIG: &str = "boot/grub2/grub.cfg";

/// Whether a host's boot loader counts boots of an unverified target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootCounting {
    /// GRUB has an environment block, and its configuration reads the counter.
    Counts,
    /// GRUB has an environment block, and its configuration does not name the counter.
    Ignored,
    /// The file at the block's path is none, and nothing is written to it.
    NoBlock(&'static str),
    /// There is no environment block: another boot loader, or a GRUB without one.
    Absent,
}

/// Whether the boot loader of a host counts boots, by its files.
///
/// # Errors
/// Those of reading.
pub fn counting(root: &Root) -> Result<BootCounting, files::Error> {
    let Some(block) = root.read(&format!("/{PATH}"))? else {
        return Ok(BootCounting::Absent);
    };
    if let Err(why) = edit(&block, Some(1)) {
        return Ok(BootCounting::NoBlock(why));
    }
    let config = root.read(&format!("/{GRUB_CONFIG}"))?.unwrap_or_default();
    let reads = config
        .windows(COUNTER.len())
        .any(|part| part == COUNTER.as_bytes());
    Ok(if reads {
        BootCounting::Counts
    } else {
        BootCounting::Ignored
    })
}

/// Why the number of tries cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The block cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The block cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file is no environment block, or has no room for a variable.
    #[error("{} {why}", path.display())]
    Block { path: PathBuf, why: &'static str },
}

/// Sets how often the boot loader of the sysroot at `base` boots the first entry before it boots
/// the second one. With `None` it stops counting.
///
/// # Errors
/// [`Error`], by variant; the block is unchanged then.
pub fn set_tries(base: &Path, tries: Option<u32>) -> Result<(), Error> {
    let path = base.join(PATH);
    let read = |source| Error::Read {
        path: path.clone(),
        source,
    };
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(read(error)),
    };
    let mut block = Vec::new();
    file.read_to_end(&mut block).map_err(read)?;
    let edited = edit(&block, tries).map_err(|why| Error::Block {
        path: path.clone(),
        why,
    })?;
    if edited == block {
        return Ok(());
    }
    // Written in place, as GRUB and its tools do: the file may be a link to another file system,
    // and a single write of one KiB is not torn.
    let write = || -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(&path)?;
        file.write_all_at(&edited, 0)?;
        file.sync_all()
    };
    write().map_err(|source| Error::Write { path, source })
}

/// The block with another counter: same length, other variables unchanged.
fn edit(block: &[u8], tries: Option<u32>) -> Result<Vec<u8>, &'static str> {
    let variables = block
        .strip_prefix(SIGNATURE)
        .ok_or("is no environment block of GRUB")?;
    let lines = lines(variables);
    let is = |line: &&[u8], name: &str| {
        let value = line.strip_prefix(name.as_bytes());
        value.is_some_and(|rest| rest.starts_with(b"="))
    };
    if tries.is_none() && !lines.iter().any(|line| is(line, COUNTER)) {
        return Ok(block.to_vec());
    }
    let mut edited = SIGNATURE.to_vec();
    let kept = lines
        .into_iter()
        .filter(|line| !is(line, COUNTER) && !is(line, SUCCESS));
    edited.extend(kept.flatten());
    if let Some(tries) = tries {
        edited.extend(format!("{COUNTER}={tries}\n{SUCCESS}=0\n").bytes());
    } else {
        edited.extend(format!("{SUCCESS}=1\n").bytes());
    }
    if edited.len() > block.len() {
        return Err("has no room for another variable");
    }
    edited.resize(block.len(), FILL);
    Ok(edited)
}

/// The lines before the fill. A value may contain a newline after a backslash.
fn lines(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    loop {
        let mut is_escaped = false;
        let end = rest.iter().position(|byte| {
            let is_end = *byte == b'\n' && !is_escaped;
            is_escaped = *byte == b'\\' && !is_escaped;
            is_end
        });
        let Some((line, behind)) = end.and_then(|end| rest.split_at_checked(end + 1)) else {
            return lines;
        };
        lines.push(line);
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(variables: &str) -> Vec<u8> {
        let mut block = [SIGNATURE, variables.as_bytes()].concat();
        block.resize(1024, FILL);
        block
    }

    #[test]
    fn a_counter_is_set_and_taken_away_beside_what_else_is_there() {
        let others = "# WARNING: not by hand\nsaved_entry=a\\\nboot_counter=9\nkernelopts=quiet\n";
        let counting = block(&format!("{others}boot_counter=3\nboot_success=0\n"));
        let stopped = block(&format!("{others}boot_success=1\n"));
        let before = block(&format!("{others}boot_success=1\nboot_counter=-1\n"));
        assert_eq!(edit(&before, Some(3)).unwrap(), counting);
        assert_eq!(edit(&counting, Some(3)).unwrap(), counting);
        assert_eq!(edit(&counting, None).unwrap(), stopped);
        // Without a counter, `boot_success` belongs to other programs.
        let theirs = block("boot_success=0\n");
        assert_eq!(edit(&theirs, None).unwrap(), theirs);
    }

    #[test]
    fn a_file_that_is_no_block_or_full_is_not_written() {
        assert_eq!(
            edit(b"saved_entry=a\n", Some(3)),
            Err("is no environment block of GRUB")
        );
        let full = block(&format!("a={}\n", "b".repeat(1024 - SIGNATURE.len() - 3)));
        assert_eq!(
            edit(&full, Some(3)),
            Err("has no room for another variable")
        );
        let base = tempfile::tempdir().unwrap();
        set_tries(base.path(), Some(3)).unwrap();
        assert!(
            !base.path().join("boot").exists(),
            "no block: nothing is written"
        );
        std::fs::create_dir_all(base.path().join("boot/grub2")).unwrap();
        File::create(base.path().join(PATH)).unwrap();
        let error = set_tries(base.path(), Some(3)).unwrap_err().to_string();
        assert!(
            error.ends_with("grubenv is no environment block of GRUB"),
            "{error}"
        );
    }

    #[test]
    fn only_a_block_that_the_configuration_reads_counts() {
        let base = tempfile::tempdir().unwrap();
        let root = Root::open(base.path(), None).unwrap();
        let put = |path: &str, bytes: &[u8]| {
            let path = base.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let mut file = File::create(path).unwrap();
            std::io::Write::write_all(&mut file, bytes).unwrap();
        };
        assert_eq!(counting(&root).unwrap(), BootCounting::Absent);
        put(PATH, b"saved_entry=a\n");
        let no_block = BootCounting::NoBlock("is no environment block of GRUB");
        assert_eq!(counting(&root).unwrap(), no_block);
        put(PATH, &block(""));
        assert_eq!(counting(&root).unwrap(), BootCounting::Ignored);
        put(GRUB_CONFIG, b"set default=0\n");
        assert_eq!(counting(&root).unwrap(), BootCounting::Ignored);
        put(GRUB_CONFIG, b"if [ -n \"${boot_counter}\" ]; then\n");
        assert_eq!(counting(&root).unwrap(), BootCounting::Counts);
    }

    proptest! {
        #[test]
        fn any_other_variable_is_kept(
            names in prop::collection::vec("[a-z]{1,8}", 0..5),
            value in "[ -~\n\\\\]{0,20}",
            tries in prop::option::of(0_u32..9),
        ) {
            let value = value.replace('\\', "\\\\").replace('\n', "\\\n");
            let variables: Vec<_> = names.iter().map(|name| format!("{name}={value}\n")).collect();
            let before = block(&format!("{}boot_counter=1\n", variables.concat()));
            let edited = edit(&before, tries).unwrap();
            prop_assert_eq!(edited.len(), before.len());
            let kept = lines(edited.strip_prefix(SIGNATURE).unwrap());
            for line in &variables {
                prop_assert!(kept.contains(&line.as_bytes()));
            }
        }
    }
}
