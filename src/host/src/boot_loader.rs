//! How often the boot loader tries what it boots first: GRUB's environment block.
//!
//! While `boot_success` is 0, each boot takes one from `boot_counter`; at 0 the entry below the first is
//! booted. It is what helps where a target dies before anything of ours runs. A host without the block
//! has a boot loader that does not count, and nothing is written there.
//!
//! Source: GRUB's manual, "Environment block"; Fedora's `08_fallback_counting`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The block, below a sysroot.
const PATH: &str = "boot/grub2/grubenv";

/// How a block begins.
const SIGNATURE: &[u8] = b"# GRUB Environment Block\n";

/// What a block is filled up with.
const FILL: u8 = b'#';

const COUNTER: &str = "boot_counter";
const SUCCESS: &str = "boot_success";

/// What keeps a boot loader from counting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The block cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Where.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// The block cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// The file is no block, or has no room.
    #[error("{} {why}", path.display())]
    Block {
        /// Where.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Has the boot loader of the sysroot at `base` try what it boots first so many times, and the entry
/// below it from then on; with none, it does not count any more.
///
/// # Errors
/// [`Error`], by variant; nothing was written then.
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
    // In place, as GRUB itself and its tools do: the file may be a link to another file system, and one
    // write of a kilobyte does not tear.
    let write = || -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(&path)?;
        file.write_all_at(&edited, 0)?;
        file.sync_all()
    };
    write().map_err(|source| Error::Write { path, source })
}

/// The block with another counter, as long as before, and all else in it as it was.
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

/// The lines before the fill. A value may hold a line's end, behind a backslash.
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
        let proved = block(&format!("{others}boot_success=1\n"));
        let before = block(&format!("{others}boot_success=1\nboot_counter=-1\n"));
        assert_eq!(edit(&before, Some(3)).unwrap(), counting);
        assert_eq!(edit(&counting, Some(3)).unwrap(), counting);
        assert_eq!(edit(&counting, None).unwrap(), proved);
        // What somebody else says of success is theirs where nothing is counted.
        let theirs = block("boot_success=0\n");
        assert_eq!(edit(&theirs, None).unwrap(), theirs);
    }

    #[test]
    fn what_is_no_block_or_full_is_not_written() {
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
