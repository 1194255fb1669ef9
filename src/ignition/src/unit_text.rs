//! The text of a unit: sections and settings, as far as it must be understood here.

/// A setting of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Section it stands in, without brackets.
    pub section: String,
    /// Name, left of the `=`.
    pub name: String,
    /// Value; continued lines are joined by a blank.
    pub value: String,
}

/// Reads the text of a unit or drop-in.
///
/// Source: systemd.syntax(7).
///
/// # Errors
/// A sentence about the first line, from the first section on, that is neither blank, comment,
/// section nor setting. The line's number is named, its text is not: a unit may hold a secret in
/// its environment.
pub fn parse(text: &str) -> Result<Vec<Setting>, String> {
    let mut settings: Vec<Setting> = Vec::new();
    let mut section: Option<String> = None;
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let line = line.trim();
        if line.is_empty() || is_comment(line) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest
                .strip_suffix(']')
                .ok_or_else(|| bad(index, "has no end of section"))?;
            section = Some(name.to_owned());
            continue;
        }
        // What stands before any section means nothing, to systemd and to Ignition.
        let Some(section) = section.clone() else {
            continue;
        };
        let (name, first) = line
            .split_once('=')
            .ok_or_else(|| bad(index, "is neither section nor setting"))?;
        let mut value = first.trim().to_owned();
        while let Some(open) = value.strip_suffix('\\') {
            value.truncate(open.trim_end().len());
            // Comments between continued lines are skipped; the end of the text ends the value.
            let next = lines
                .by_ref()
                .map(|(_, line)| line.trim())
                .find(|line| !is_comment(line));
            let Some(next) = next else { break };
            value = format!("{value} {next}");
        }
        settings.push(Setting {
            section,
            name: name.trim().to_owned(),
            value,
        });
    }
    Ok(settings)
}

/// The `[Install]` settings of a unit, in order: what `systemctl enable` reads. Empty where the
/// text cannot be read.
pub fn install(text: &str) -> Vec<(String, String)> {
    parse(text)
        .unwrap_or_default()
        .into_iter()
        .filter(|setting| setting.section == "Install")
        .map(|setting| (setting.name, setting.value))
        .collect()
}

fn is_comment(line: &str) -> bool {
    line.starts_with(['#', ';'])
}

fn bad(index: usize, what: &str) -> String {
    format!("line {} {what}", index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_comments_and_continued_lines_are_read() {
        let text = "# a unit\n[Unit]\nDescription=x\n\n[Service]\nExecStart=/bin/a \\\n  # not this\n  b\n[Install]\nWantedBy=multi-user.target\n";
        let settings = parse(text).unwrap();
        let shown: Vec<String> = settings
            .iter()
            .map(|setting| format!("{}/{}={}", setting.section, setting.name, setting.value))
            .collect();
        assert_eq!(
            shown,
            [
                "Unit/Description=x",
                "Service/ExecStart=/bin/a b",
                "Install/WantedBy=multi-user.target"
            ]
        );
    }

    #[test]
    fn what_enabling_reads_is_the_install_section() {
        let text = "[Service]\nUser=x\n[Install]\nWantedBy=a.target\nAlias=b.service\n";
        let expected = [("WantedBy", "a.target"), ("Alias", "b.service")];
        assert_eq!(
            install(text),
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert_eq!(install("not a unit"), []);
        assert_eq!(install("# A=b\nC\n[Install]\nAlso=x\n").len(), 1);
    }

    #[test]
    fn a_line_that_is_nothing_is_named_by_its_number_only() {
        for (text, why) in [
            ("[Unit]\nsecret", "line 2 is neither section nor setting"),
            ("[Unit\n", "line 1 has no end of section"),
        ] {
            assert_eq!(parse(text).unwrap_err(), why);
        }
    }
}
