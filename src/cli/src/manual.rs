//! Manual pages, from the definition of the command line.

use std::path::Path;

use anyhow::Context as _;
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::cli::{SlipwayArgs, VERSION};

/// The section of all pages: user commands.
const SECTION: &str = "1";

/// What a page is part of, as its foot names it.
const MANUAL: &str = "Slipway";

/// A manual page.
#[derive(Clone, Debug)]
pub struct ManualPage {
    /// Name of its file, such as `slipway-release-new.1`.
    pub file: String,
    /// `roff` source.
    pub text: Vec<u8>,
}

/// A page for each command: `slipway.1`, `slipway-upgrade.1`, `slipway-upgrade-status.1` and so on,
/// sorted by file.
///
/// Their feet have the version and the date (`2026-01-31`, or empty).
///
/// # Errors
/// A page cannot be made.
pub fn pages(version: &str, date: &str) -> anyhow::Result<Vec<ManualPage>> {
    let mut command = SlipwayArgs::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    let mut open = vec![(&command, None)];
    while let Some((command, parent)) = open.pop() {
        let foot = Foot { version, date };
        pages.push(page(command, parent, &foot).with_context(|| name(command).to_owned())?);
        open.extend(shown(command).map(|verb| (verb, Some(command))));
    }
    pages.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(pages)
}

/// Writes the pages of this program.
pub(crate) fn write_pages(directory: &Path) -> anyhow::Result<()> {
    let shown = directory.display();
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make directory {shown}"))?;
    for page in pages(VERSION, "")? {
        let path = directory.join(&page.file);
        let written = std::fs::File::create(&path)
            .and_then(|mut file| std::io::Write::write_all(&mut file, &page.text));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

struct Foot<'a> {
    version: &'a str,
    date: &'a str,
}

fn page(
    command: &Command,
    parent: Option<&Command>,
    foot: &Foot<'_>,
) -> std::io::Result<ManualPage> {
    let man = Man::new(command.clone())
        .section(SECTION)
        .date(foot.date)
        .source(format!("slipway {}", foot.version))
        .manual(MANUAL);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if command.get_arguments().any(|option| !option.is_hide_set()) {
        man.render_options_section(&mut text)?;
    }
    if shown(command).next().is_some() {
        man.render_subcommands_section(&mut text)?;
    }
    if let Some(parent) = parent {
        see_also(command, parent).to_writer(&mut text)?;
    }
    Ok(ManualPage {
        file: format!("{}.{SECTION}", name(command)),
        text,
    })
}

/// The command above, and its other verbs. Those below are a section of their own.
fn see_also(command: &Command, parent: &Command) -> Roff {
    let beside = shown(parent).filter(|other| other.get_name() != command.get_name());
    let mut names: Vec<&str> = beside.map(name).collect();
    names.sort_unstable();
    names.insert(0, name(parent));
    let last = names.len() - 1;
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    let parts = names.iter().enumerate().flat_map(|(place, name)| {
        let end = if place == last { "" } else { ", " };
        [bold(*name), roman(format!("({SECTION}){end}"))]
    });
    roff.text(parts.collect::<Vec<_>>());
    roff
}

/// `slipway-release-new`, of a command that was built.
fn name(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set())
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_page_has_version_and_date_and_names_its_neighbours() {
        let pages = pages("1.2.3", "2026-01-31").unwrap();
        let text = |file: &str| {
            let page = pages.iter().find(|page| page.file == file).unwrap();
            String::from_utf8(page.text.clone()).unwrap()
        };
        let sign = text("slipway-release-sign.1");
        let head = r#".TH slipway-release-sign 1 2026-01-31 "slipway 1.2.3" Slipway"#;
        assert!(sign.contains(head), "{sign}");
        let (_, see_also) = sign.split_once(".SH \"SEE ALSO\"").unwrap();
        for neighbour in [r"slipway\-release\f", r"slipway\-release\-verify\f"] {
            assert!(see_also.contains(neighbour), "{see_also}");
        }
        assert!(!see_also.contains(r"release\-sign"), "{see_also}");
        assert!(text("slipway.1").contains(r"slipway\-release(1)"));
    }
}
