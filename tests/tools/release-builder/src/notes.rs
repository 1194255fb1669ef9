//! The notes of a release: its section of `CHANGELOG.md`.

use anyhow::{Context as _, bail};

/// The section of what is not released yet.
const UNRELEASED: &str = "Unreleased";

/// The notes of a version, as Markdown with a title. Of a version without a section, those of what
/// is not released yet.
///
/// # Errors
/// There is neither section, or it is empty.
pub fn of(changelog: &str, version: &str) -> anyhow::Result<String> {
    let section = section(changelog, version).or_else(|| section(changelog, UNRELEASED));
    let section = section
        .with_context(|| format!("CHANGELOG.md has no section {version:?} nor {UNRELEASED:?}"))?;
    if section.is_empty() {
        bail!("CHANGELOG.md: nothing is written below the section of {version}");
    }
    Ok(format!("# Slipway {version}\n\n{section}\n"))
}

/// The text below the heading of a version: `## 0.2.0`, `## [0.2.0] - 2026-01-31`.
fn section<'a>(changelog: &'a str, version: &str) -> Option<&'a str> {
    let mut from = None;
    let mut place = 0;
    for line in changelog.split_inclusive('\n') {
        let begin = place;
        place += line.len();
        let Some(heading) = line.strip_prefix("## ") else {
            continue;
        };
        match from {
            None if names(heading, version) => from = Some(place),
            None => {}
            Some(from) => return changelog.get(from..begin).map(str::trim),
        }
    }
    changelog.get(from?..).map(str::trim)
}

fn names(heading: &str, version: &str) -> bool {
    let name = heading.split_whitespace().next().unwrap_or_default();
    name.trim_start_matches('[').trim_end_matches(']') == version
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## Unreleased\n\n- new\n\n## [0.2.0] - 2026-01-31\n\n\
                             ### Added\n\n- one\n\n## 0.1.0\n\n- first\n\n## 0.0.9\n\n";

    #[test]
    fn notes_are_the_section_of_the_version_else_of_what_is_not_released() {
        for (version, expected) in [
            ("0.2.0", "### Added\n\n- one"),
            ("0.1.0", "- first"),
            ("0.3.0", "- new"),
            // The beginning of a version names none.
            ("0.2", "- new"),
        ] {
            let notes = of(CHANGELOG, version).unwrap();
            assert_eq!(notes, format!("# Slipway {version}\n\n{expected}\n"));
        }
    }

    #[test]
    fn no_notes_are_an_error_that_names_the_section() {
        let error = of(CHANGELOG, "0.0.9").unwrap_err().to_string();
        assert!(error.contains("0.0.9"), "{error}");
        let error = of("# Changelog\n", "0.2.0").unwrap_err().to_string();
        assert!(error.contains("\"0.2.0\" nor \"Unreleased\""), "{error}");
    }
}
