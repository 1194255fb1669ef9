//! Shell completion and manual pages, from the definition of the command line.

use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::SlipwayArgs;
use crate::output::print_data;

/// Prints what a shell reads to complete `slipway`.
pub(crate) fn print_completion(shell: Shell) -> anyhow::Result<()> {
    print_data(completion(shell))
}

fn completion(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut SlipwayArgs::command(), "slipway", &mut script);
    script
}

/// Writes `slipway.1`, `slipway-upgrade.1` and so on.
pub(crate) fn write_pages(directory: &Path) -> anyhow::Result<()> {
    let shown = directory.display();
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make directory {shown}"))?;
    clap_mangen::generate_to(SlipwayArgs::command(), directory)
        .with_context(|| format!("cannot write manual pages to {shown}"))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_shell_completes_the_verbs() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(completion(*shell)).unwrap();
            for verb in ["graph-data", "upgrade", "try-drain"] {
                assert!(script.contains(verb), "{shell}: {verb}");
            }
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let directory = tempfile::tempdir().unwrap();
        let pages = directory.path().join("man1");
        write_pages(&pages).unwrap();
        for page in [
            "slipway",
            "slipway-upgrade",
            "slipway-upgrade-status",
            "slipway-node",
        ] {
            let path = pages.join(format!("{page}.1"));
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(".SH SYNOPSIS"), "{page}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = format!("{:#}", write_pages(&file.path().join("man1")).unwrap_err());
        assert!(error.contains("cannot make directory"), "{error}");
    }
}
