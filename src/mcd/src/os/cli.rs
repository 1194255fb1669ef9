//! The command line of `mcd-os`.

use std::path::PathBuf;

use clap::Parser;

use crate::protocol::Verb;

/// Acts on the operating system of the host it runs on.
///
/// Exit codes: 0 done, 1 failed, 2 usage, 3 refused (nothing was changed), 4 needs reboot.
#[derive(Debug, Parser)]
#[command(name = "mcd-os", version)]
pub struct Cli {
    /// Writes what became of it to this file, as JSON, also on failure.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

impl Verb {
    /// Whether `/sysroot` and `/boot` have to be writable for it.
    pub const fn writes_deployments(&self) -> bool {
        match self {
            Self::Fetch { .. }
            | Self::Rehearse { .. }
            | Self::Apply { .. }
            | Self::Rollback
            | Self::BootPrevious
            | Self::SyncEachObject
            | Self::Remove => true,
            Self::Guard(guard) => !guard.install,
            Self::LimitedSkopeo { .. }
            | Self::Deployments { .. }
            | Self::Pin { .. }
            | Self::Verify { .. }
            | Self::SelfCheck { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::protocol::Guard;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    fn parse(words: &[&str]) -> Result<Verb, clap::Error> {
        let words = [&["mcd-os"], words].concat();
        Cli::try_parse_from(words).map(|cli| cli.verb)
    }

    #[test]
    fn verb_is_read_back_from_its_words() {
        let plan = || "/var/lib/slipway/plans/a".to_owned();
        let apply = |stay| Verb::Apply { plan: plan(), stay };
        let fetch = |plan, limit_file| Verb::Fetch {
            image: "quay.io/os@sha256:1".to_owned(),
            plan,
            limit_file,
        };
        let skopeo = |arguments: &[&str]| Verb::LimitedSkopeo {
            limit_file: "/run/slipway/limit".to_owned(),
            arguments: arguments.iter().map(ToString::to_string).collect(),
        };
        for verb in [
            fetch(None, None),
            fetch(Some(plan()), None),
            fetch(None, Some("/run/slipway/limit".to_owned())),
            fetch(Some(plan()), Some("/run/slipway/limit".to_owned())),
            skopeo(&[]),
            // What the host and the image library give it.
            skopeo(&["--policy", "/p", "experimental-image-proxy", "--no-creds"]),
            skopeo(&["experimental-image-proxy", "--authfile", "/a"]),
            Verb::Rehearse { plan: plan() },
            apply(false),
            apply(true),
            Verb::Rollback,
            Verb::BootPrevious,
            Verb::Deployments { json: false },
            Verb::Deployments { json: true },
            Verb::Pin {
                request: "/run/slipway/pins.json".to_owned(),
            },
            Verb::Guard(Guard::install()),
            Verb::Guard(Guard::verify_once()),
            Verb::SyncEachObject,
            Verb::Remove,
            Verb::Verify { drift: false },
            Verb::Verify { drift: true },
            Verb::SelfCheck { root: None },
            Verb::SelfCheck {
                root: Some("/sysroot/deployment".to_owned()),
            },
        ] {
            let words = verb.to_arguments();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_eq!(parse(&words).unwrap(), verb);
        }
        parse(&["guard", "--verify", "--install"]).unwrap_err();
    }

    #[test]
    fn command_lines_of_the_units_are_understood() {
        for (unit, verifies) in [
            (
                include_str!("../../../../systemd/slipway-guard.service"),
                false,
            ),
            (
                include_str!("../../../../systemd/slipway-verify.service"),
                true,
            ),
        ] {
            let line = unit
                .lines()
                .find_map(|line| line.strip_prefix("ExecStart="));
            let words: Vec<&str> = line.unwrap().split(' ').skip(1).collect();
            let Verb::Guard(guard) = parse(&words).unwrap() else {
                panic!("{words:?}");
            };
            assert_eq!((guard.verify, guard.install), (verifies, false));
            assert_eq!(guard.deadline(), std::time::Duration::from_mins(10));
        }
    }
}
