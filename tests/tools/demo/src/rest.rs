//! Programs that only the release needs: they are built while the first rolls run.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use display::live::LiveHeading;
use jiff::Timestamp;
use testbed::Programs;

use crate::live::Screen;
use crate::run::POLL_EVERY;

/// How long the build may take. Its own limit is shorter.
const BUILT_WITHIN: Duration = Duration::from_mins(45);

/// Waits until the build that runs beside this program has ended, and shows how far it is.
///
/// In the folder of programs, file `building` is there until then, with what is under way; file
/// `failed` says why it failed. Without both, all is built.
///
/// # Errors
///
/// The build failed, or is not over in time.
pub(crate) async fn wait_built(programs: &Programs, screen: &mut Screen) -> Result<()> {
    let folder = programs.folder();
    let deadline = tokio::time::Instant::now() + BUILT_WITHIN;
    while let Some(under_way) = read(&folder.join("building"))? {
        if tokio::time::Instant::now() >= deadline {
            bail!(
                "the other programs are not built within {} min",
                BUILT_WITHIN.as_secs() / 60
            );
        }
        let heading = LiveHeading {
            title: "Building the programs that the release needs".to_owned(),
            notes: vec![under_way],
        };
        screen.show(&heading, Vec::new(), Timestamp::now())?;
        tokio::time::sleep(POLL_EVERY).await;
    }
    match read(&folder.join("failed"))? {
        Some(why) => bail!("the programs that the release needs are not built:\n{why}"),
        None => Ok(()),
    }
}

/// A file's content; none where it is not there.
fn read(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            #[expect(clippy::disallowed_methods, reason = "a file of the test")]
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    #[tokio::test]
    async fn without_a_build_all_is_there() {
        let dir = in_folder(&[]);
        let programs = Programs::in_folder(dir.path());
        wait_built(&programs, &mut Screen::new()).await.unwrap();
    }

    #[tokio::test]
    async fn a_failed_build_is_an_error_with_its_reason() {
        let dir = in_folder(&[("failed", "FAILED  more-crates: no linker")]);
        let programs = Programs::in_folder(dir.path());
        let error = wait_built(&programs, &mut Screen::new()).await.unwrap_err();
        assert!(error.to_string().ends_with("no linker"), "{error}");
    }

    #[tokio::test]
    async fn the_end_of_a_build_is_waited_for() {
        let dir = in_folder(&[("building", "more-crates 3 of 60")]);
        let programs = Programs::in_folder(dir.path());
        let mut screen = Screen::new();
        let wait = wait_built(&programs, &mut screen);
        let building = dir.path().join("building");
        let end = async {
            tokio::time::sleep(POLL_EVERY * 2).await;
            fs::remove_file(&building).unwrap();
        };
        let (waited, ()) = tokio::join!(wait, end);
        waited.unwrap();
        assert!(!building.exists());
    }
}
