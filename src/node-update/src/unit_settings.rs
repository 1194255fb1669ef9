//! What a configuration says of its units: their settings, and the files that they name.

use std::collections::{BTreeMap, BTreeSet};

use ignition::unit_text::{self, Setting};

use crate::desired::{Desired, DesiredFile, DesiredUnit};
use crate::rejection::Subject;
use crate::well_known::UNITS;

/// What a configuration says of one unit, in files and drop-ins.
#[derive(Default)]
pub(crate) struct UnitText<'a> {
    pub settings: Vec<Setting>,
    /// The file that says it, or the first of them.
    pub subject: Option<&'a Subject>,
}

impl UnitText<'_> {
    /// The words of a list that may be set several times.
    pub(crate) fn words(&self, names: &[&str]) -> impl Iterator<Item = &str> {
        let settings = self.settings.iter();
        settings
            .filter(|setting| names.contains(&setting.name.as_str()))
            .flat_map(|setting| setting.value.split_whitespace())
    }

    /// Whether it has `DefaultDependencies=no`; the last one counts.
    pub(crate) fn is_without_defaults(&self) -> bool {
        let mut of = self.settings.iter().rev();
        of.find(|setting| setting.name == "DefaultDependencies")
            .is_some_and(|setting| {
                let value = setting.value.to_ascii_lowercase();
                ["no", "n", "false", "f", "off", "0"].contains(&value.as_str())
            })
    }
}

/// What a configuration says of its units, by name.
pub(crate) fn units(desired: &Desired) -> BTreeMap<&str, UnitText<'_>> {
    let mut files: Vec<(&str, &str, &DesiredFile)> = desired
        .files
        .iter()
        .filter_map(|file| {
            let rest = file.path.strip_prefix(UNITS)?.strip_prefix('/')?;
            let (unit, dropin) = rest.split_once('/').unwrap_or((rest, ""));
            let unit = if dropin.is_empty() {
                unit
            } else {
                unit.strip_suffix(".d")?
            };
            Some((unit, dropin, file))
        })
        .filter(|(unit, ..)| !desired.unit(unit).is_some_and(DesiredUnit::is_masked))
        .collect();
    // systemd reads a unit's own file first, then drop-ins by their names.
    files.sort_by_key(|(unit, dropin, _)| (*unit, *dropin));
    let mut units: BTreeMap<&str, UnitText<'_>> = BTreeMap::new();
    for (unit, _, file) in files {
        let text = units.entry(unit).or_default();
        let bytes = desired.blobs.get(&file.state.digest);
        let read = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let settings = read.and_then(|read| unit_text::parse(read).ok());
        text.settings.extend(settings.unwrap_or_default());
        text.subject.get_or_insert(&file.subject);
    }
    units
}

/// Paths of files that are not the same in both configurations, each once.
pub(crate) fn changed_files<'a>(before: &'a Desired, after: &'a Desired) -> BTreeSet<&'a str> {
    let files = before.files.iter().chain(&after.files);
    files
        .filter(|file| {
            let state = |of: &Desired| of.file(&file.path).map(|file| file.state.clone());
            state(before) != state(after)
        })
        .map(|file| file.path.as_str())
        .collect()
}

/// The first of `changed` that a unit names, or a file of the configuration that it names.
pub(crate) fn named_file<'a>(
    desired: &Desired,
    unit: &UnitText<'_>,
    changed: &BTreeSet<&'a str>,
) -> Option<&'a str> {
    let mut texts: Vec<Vec<u8>> = unit
        .settings
        .iter()
        .map(|setting| setting.value.clone().into_bytes())
        .collect();
    let mut seen: Vec<&str> = Vec::new();
    while let Some(text) = texts.pop() {
        if let Some(path) = changed.iter().find(|path| is_named(&text, path)) {
            return Some(*path);
        }
        for file in &desired.files {
            if !seen.contains(&file.path.as_str()) && is_named(&text, &file.path) {
                seen.push(&file.path);
                texts.extend(desired.blobs.get(&file.state.digest).cloned());
            }
        }
    }
    None
}

/// Whether a text has a path, and not the beginning of another.
fn is_named(text: &[u8], path: &str) -> bool {
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-/@".contains(byte);
    let mut windows = text.windows(path.len()).enumerate();
    windows.any(|(at, window)| {
        window == path.as_bytes() && !text.get(at + path.len()).is_some_and(goes_on)
    })
}
