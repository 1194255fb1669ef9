//! Completion of the command line: scripts of shells, and the candidates that kubectl requests.

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::Shell;

use crate::cli::SlipwayArgs;
use crate::output::print_data;

/// What a shell reads to complete `slipway`.
pub fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut SlipwayArgs::command(), "slipway", &mut script);
    script
}

/// Prints the script of a shell.
pub(crate) fn print_script(shell: Shell) -> anyhow::Result<()> {
    print_data(script(shell))
}

/// Prints what may follow after `kubectl slipway`. The last word is the one that is completed.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print_candidates(words: &[String]) -> anyhow::Result<()> {
    print_data(candidates(words))
}

/// Lines of a candidate, a tab and its description; then what the shell does beside them.
///
/// Source: kubectl runs the program `kubectl_complete-slipway` with the words of the command, and
/// reads its output as cobra's `__complete` prints it.
fn candidates(words: &[String]) -> String {
    let mut command = SlipwayArgs::command();
    command.build();
    let Some((partial, before)) = words.split_last() else {
        return ShellDirective::NoFiles.line().to_owned();
    };
    let place = Place::after(&command, before);
    let mut all = place.candidates(partial);
    let files = all.is_empty() && !partial.starts_with('-');
    all.retain(|(name, _)| name.starts_with(partial.as_str()));
    let mut lines = String::new();
    for (name, description) in all {
        lines.extend([name.as_str(), "\t", description.as_str(), "\n"]);
    }
    let directive = if files {
        ShellDirective::Files
    } else {
        ShellDirective::NoFiles
    };
    lines + directive.line()
}

/// What a shell completes where there is no candidate.
#[derive(Clone, Copy, Debug)]
enum ShellDirective {
    Files,
    NoFiles,
}

impl ShellDirective {
    /// Source: cobra's `ShellCompDirective`.
    fn line(self) -> &'static str {
        match self {
            Self::Files => ":0\n",
            Self::NoFiles => ":4\n",
        }
    }
}

/// Where in the command line the next word is.
struct Place<'a> {
    command: &'a Command,
    /// The option whose value it is.
    option: Option<&'a Arg>,
    /// How many arguments without a name are before it.
    arguments: usize,
}

impl<'a> Place<'a> {
    fn after(command: &'a Command, words: &[String]) -> Self {
        let mut place = Self {
            command,
            option: None,
            arguments: 0,
        };
        for word in words {
            if place.option.take().is_some() {
                continue;
            }
            if word.starts_with('-') {
                place.option = place.option_with_value(word);
            } else if let Some(verb) = place.command.find_subcommand(word) {
                place.command = verb;
                place.arguments = 0;
            } else {
                place.arguments += 1;
            }
        }
        place
    }

    fn option_with_value(&self, word: &str) -> Option<&'a Arg> {
        let long = word.strip_prefix("--");
        let short = word.strip_prefix('-').and_then(|word| {
            let mut letters = word.chars();
            letters.next().filter(|_| letters.next().is_none())
        });
        self.command
            .get_arguments()
            .filter(|option| option.get_action().takes_values())
            .find(|option| match long {
                Some(long) => option.get_long() == Some(long),
                None => short.is_some() && option.get_short() == short,
            })
    }

    /// All that may be here, with descriptions.
    fn candidates(&self, partial: &str) -> Vec<(String, String)> {
        if let Some(option) = self.option {
            return values(option);
        }
        if partial.starts_with('-') {
            let options = self.command.get_arguments();
            let options = options.filter(|option| !option.is_hide_set());
            return options
                .filter_map(|option| {
                    let help = option.get_help().map(ToString::to_string);
                    Some((format!("--{}", option.get_long()?), first_line(help)))
                })
                .collect();
        }
        let verbs = self.command.get_subcommands();
        let verbs = verbs.filter(|verb| !verb.is_hide_set());
        let mut all: Vec<(String, String)> = verbs
            .map(|verb| {
                let about = verb.get_about().map(ToString::to_string);
                (verb.get_name().to_owned(), first_line(about))
            })
            .collect();
        if let Some(argument) = self.command.get_positionals().nth(self.arguments) {
            all.extend(values(argument));
        }
        all
    }
}

/// The values of an argument that has a list of them.
fn values(argument: &Arg) -> Vec<(String, String)> {
    let values = argument.get_possible_values();
    values
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| {
            let help = value.get_help().map(ToString::to_string);
            (value.get_name().to_owned(), first_line(help))
        })
        .collect()
}

fn first_line(text: Option<String>) -> String {
    let text = text.unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::disallowed_methods,
        reason = "the shells read their own scripts"
    )]

    use std::io::ErrorKind;
    use std::process::Command as Process;

    use clap::ValueEnum as _;

    use super::*;

    /// All verbs at all depths, by name.
    fn verbs(command: &Command) -> Vec<String> {
        let mut all = Vec::new();
        for verb in command.get_subcommands() {
            all.push(verb.get_name().to_owned());
            all.extend(verbs(verb));
        }
        all
    }

    #[test]
    fn every_shell_completes_all_verbs() {
        let verbs = verbs(&SlipwayArgs::command());
        for verb in ["promote", "mirror", "explain"] {
            assert!(verbs.iter().any(|one| one == verb), "{verbs:?}");
        }
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).unwrap();
            for verb in &verbs {
                assert!(script.contains(verb.as_str()), "{shell}: {verb}");
            }
        }
    }

    #[test]
    fn every_script_is_read_by_its_shell() {
        for (shell, check, required) in [
            (Shell::Bash, ["bash", "-n"], true),
            (Shell::Zsh, ["zsh", "-n"], false),
            (Shell::Fish, ["fish", "--no-execute"], false),
        ] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            std::io::Write::write_all(&mut file, &script(shell)).unwrap();
            let [program, option] = check;
            match Process::new(program).arg(option).arg(file.path()).output() {
                Ok(output) => {
                    let said = String::from_utf8_lossy(&output.stderr);
                    assert!(
                        output.status.success() && said.is_empty(),
                        "{shell}: {said}"
                    );
                }
                Err(error) if error.kind() == ErrorKind::NotFound && !required => {}
                Err(error) => panic!("{program}: {error}"),
            }
        }
    }

    fn complete(words: &str) -> Vec<String> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let lines = candidates(&words);
        let names = lines.lines().map(|line| line.split('\t').next());
        names.map(|name| name.unwrap().to_owned()).collect()
    }

    #[test]
    fn kubectl_gets_verbs_options_and_values_of_the_place() {
        for (words, expected) in [
            ("grap", &["graph-data", "graph", ":4"][..]),
            ("graph-data ", &["check", "promote", "help", ":4"]),
            ("config d", &["diff", ":4"]),
            ("release new --to-d", &["--to-dir", ":4"]),
            ("completion b", &["bash", ":4"]),
            // The value of an option is no verb; files are for the shell.
            ("release new --to-dir ", &[":0"]),
            ("release new --to-dir release --to-d", &["--to-dir", ":4"]),
            ("node worker -o y", &["yaml", ":4"]),
            ("unknown --nothing", &[":4"]),
        ] {
            assert_eq!(complete(words), expected, "{words}");
        }
        assert_eq!(candidates(&[]), ":4\n");
        let all = candidates(&["config".to_owned(), "d".to_owned()]);
        let expected = "diff\tWhat a node would do to go from one to another, and why it cannot\n";
        assert!(all.starts_with(expected), "{all}");
    }
}
