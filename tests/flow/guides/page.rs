//! The commands of a page, with the output that it shows.
//!
//! A block is a fence ` ```console `. In it, `$ ` begins a command, `> ` directly below continues
//! it, and the other lines are its output. A fence ` ```console not-run ` is shown only.

use anyhow::{Context as _, Result, bail};

const FENCE: &str = "```";

/// Info strings of blocks that are run, and that are not.
const RUN: &str = "console";
const NOT_RUN: &str = "console not-run";

/// A command of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// Of the page, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) output: Vec<String>,
}

/// The blocks of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) commands: Vec<Command>,
    /// How many blocks are shown only.
    pub(crate) not_run: usize,
}

impl Page {
    /// Reads the text of a page.
    ///
    /// # Errors
    ///
    /// A block has output before its first command, no command, or no end; with its line.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut page = Self::default();
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let Some(info) = line.strip_prefix(FENCE) else {
                continue;
            };
            let mut block = Vec::new();
            loop {
                let (number_of_line, line) = lines
                    .next()
                    .with_context(|| format!("line {}: the block has no end", number + 1))?;
                if line == FENCE {
                    break;
                }
                block.push((number_of_line + 1, line));
            }
            match info {
                RUN => page.commands.extend(
                    commands(&block)
                        .with_context(|| format!("line {}: a block that is run", number + 1))?,
                ),
                NOT_RUN => page.not_run += 1,
                other if other.starts_with(RUN) => {
                    bail!(
                        "line {}: {other:?} is neither {RUN:?} nor {NOT_RUN:?}",
                        number + 1
                    )
                }
                _ => {}
            }
        }
        Ok(page)
    }
}

fn commands(block: &[(usize, &str)]) -> Result<Vec<Command>> {
    let mut commands: Vec<Command> = Vec::new();
    for (number, line) in block {
        if let Some(text) = line.strip_prefix("$ ") {
            commands.push(Command {
                line: *number,
                text: text.to_owned(),
                output: Vec::new(),
            });
            continue;
        }
        let last = commands.last_mut();
        let last = last.with_context(|| format!("line {number}: output without a command"))?;
        match line.strip_prefix('>') {
            Some(more) if last.output.is_empty() => {
                last.text.push('\n');
                last.text.push_str(more.strip_prefix(' ').unwrap_or(more));
            }
            _ => last.output.push((*line).to_owned()),
        }
    }
    if commands.is_empty() {
        bail!("no line begins with `$ `");
    }
    Ok(commands)
}

/// Pages of the folder `guides/` that a summary of the book names, in its order.
pub(crate) fn guides(summary: &str) -> Vec<String> {
    let targets = summary.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split_once(')'));
    let guides = targets.map(|(target, _)| target);
    guides
        .filter(|target| target.starts_with("guides/"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_their_lines_and_their_output() {
        let text = "# A page\n\n```console\n$ one\nfirst\nsecond\n$ cat <<'EOF'\n> a\n>\n> EOF\na\n\n```\n\
                    \n```yaml\n$ none\n```\n\n```console not-run\n$ other\n```\n";
        let page = Page::parse(text).unwrap();
        let command = |line, text: &str, output: &[&str]| Command {
            line,
            text: text.to_owned(),
            output: output.iter().map(|&line| line.to_owned()).collect(),
        };
        let expected = Page {
            commands: vec![
                command(4, "one", &["first", "second"]),
                command(7, "cat <<'EOF'\na\n\nEOF", &["a", ""]),
            ],
            not_run: 1,
        };
        assert_eq!(page, expected);
    }

    #[test]
    fn blocks_that_cannot_be_read_are_named() {
        for (text, error) in [
            ("```console\nout\n```\n", "line 2: output without a command"),
            ("```console\n```\n", "no line begins with"),
            ("```console\n$ one\n", "line 1: the block has no end"),
            (
                "```console notrun\n$ one\n```\n",
                "\"console notrun\" is neither",
            ),
        ] {
            let seen = format!("{:#}", Page::parse(text).unwrap_err());
            assert!(seen.contains(error), "{seen}");
        }
    }

    #[test]
    fn guides_come_in_the_order_of_the_book() {
        let summary = "- [B](guides/b.md)\n- [A](guides/a.md)\n- [C](reference/c.md)\n";
        assert_eq!(guides(summary), ["guides/b.md", "guides/a.md"]);
    }
}
