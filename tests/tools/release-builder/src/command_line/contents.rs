//! What both packages have: the program, its pages, and the scripts of shells.

use anyhow::Context as _;
use clap_complete::Shell;
use jiff::Timestamp;
use semver::Version;
use slipway::cli::{PLUGIN, PLUGIN_COMPLETION};
use slipway::completion::script;
use slipway::manual::{ManualPage, pages};

use crate::command_line::Input;
use crate::command_line::program::Program;

/// The program.
pub(crate) const PROGRAM: &str = "slipway";

/// Links to the program, by which kubectl finds it.
pub(crate) const LINKS: [&str; 2] = [PLUGIN, PLUGIN_COMPLETION];

/// Where `slipway` finds what it installs, in `usr` or beside the program.
pub(crate) const MANIFESTS: &str = "share/slipway/manifests.json";

/// Slipway's licence.
pub(crate) const LICENSE: &[u8] = include_bytes!("../../../../../LICENSE");

/// What is packed.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) program: Program,
    pub(crate) version: Version,
    /// Time of all files.
    pub(crate) time: Timestamp,
    pub(crate) pages: Vec<ManualPage>,
    /// What `slipway install` applies.
    pub(crate) manifests: Vec<u8>,
}

impl Contents {
    pub(crate) fn new(input: &Input<'_>) -> anyhow::Result<Self> {
        let Input { version, time, .. } = *input;
        let program = Program::read(input.program, input.architecture)?;
        let parsed = Version::parse(version);
        let parsed = parsed.with_context(|| format!("{version:?} is no semantic version"))?;
        let time = i64::try_from(time).ok();
        let time = time.and_then(|time| Timestamp::from_second(time).ok());
        let time = time.context("the commit's time is out of range")?;
        let date = time.strftime("%F").to_string();
        Ok(Self {
            program,
            version: parsed,
            time,
            manifests: input.manifests.to_vec(),
            pages: pages(version, &date).context("cannot make the manual pages")?,
        })
    }
}

/// A file or link of a package.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Below the package's root.
    pub(crate) path: String,
    pub(crate) content: Content,
}

/// What an [`Entry`] is.
#[derive(Debug)]
pub(crate) enum Content {
    Program(Vec<u8>),
    File(Vec<u8>),
    Link(String),
}

impl Entry {
    pub(crate) fn file(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        let path = path.into();
        let content = Content::File(bytes.into());
        Self { path, content }
    }

    pub(crate) fn link(path: impl Into<String>, target: impl Into<String>) -> Self {
        let path = path.into();
        let content = Content::Link(target.into());
        Self { path, content }
    }
}

/// The program and its links, in a directory (empty or with its slash).
pub(crate) fn programs(contents: &Contents, directory: &str) -> Vec<Entry> {
    let program = Entry {
        path: format!("{directory}{PROGRAM}"),
        content: Content::Program(contents.program.bytes.clone()),
    };
    let links = LINKS.map(|name| Entry::link(format!("{directory}{name}"), PROGRAM));
    [program].into_iter().chain(links).collect()
}

/// The scripts of shells, at these paths.
pub(crate) fn completions(bash: &str, zsh: &str, fish: &str) -> [Entry; 3] {
    [
        Entry::file(bash, script(Shell::Bash)),
        Entry::file(zsh, script(Shell::Zsh)),
        Entry::file(fish, script(Shell::Fish)),
    ]
}
