//! Groups of options that controllers share. A controller flattens them into its command line,
//! beside those of `chassis::cli`.
//!
//! The name of the lease is no option: two controllers that take different ones would both lead.
//! Its namespace is the program's, which keeps other objects there too.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use cluster::lease::{Candidacy, Terms};

/// How the controller reaches the API server.
#[derive(Debug, Clone, Args)]
pub struct ClientArgs {
    /// Kubeconfig to use; without it the pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// The lease under which the controller works.
#[derive(Debug, Clone, Args)]
pub struct LeaderArgs {
    /// Whether to work only while holding the lease; false only if there is one replica
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    leader_elect: bool,
    /// Name of this replica in the lease; by default host, process and a random number
    #[arg(long)]
    identity: Option<String>,
    /// Seconds that the lease holds after its last renewal
    #[arg(long, value_name = "SECONDS", default_value_t = Terms::default().duration.as_secs(),
          value_parser = clap::value_parser!(u64).range(..=86_400))]
    lease_secs: u64,
    /// Seconds after which a leader that cannot renew gives up
    #[arg(long, value_name = "SECONDS", default_value_t = Terms::default().renew_deadline.as_secs(),
          value_parser = clap::value_parser!(u64).range(..=86_400))]
    renew_deadline_secs: u64,
    /// Seconds between attempts to take or renew the lease
    #[arg(long, value_name = "SECONDS", default_value_t = Terms::default().retry.as_secs(),
          value_parser = clap::value_parser!(u64).range(..=86_400))]
    lease_retry_secs: u64,
}

/// The options allow a second leader, or no renewal in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "--lease-retry-secs {retry} must be above 0 and below --renew-deadline-secs {deadline}, and \
     that below --lease-secs {lease}"
)]
pub struct InvalidTerms {
    retry: u64,
    deadline: u64,
    lease: u64,
}

impl LeaderArgs {
    /// Validates; `None` if the controller works without a lease. `identity` names a replica that
    /// has no `--identity`.
    ///
    /// # Errors
    /// The options contradict each other.
    pub fn candidacy(
        self,
        namespace: &str,
        name: &str,
        identity: impl FnOnce() -> String,
    ) -> Result<Option<Candidacy>, InvalidTerms> {
        let invalid = InvalidTerms {
            retry: self.lease_retry_secs,
            deadline: self.renew_deadline_secs,
            lease: self.lease_secs,
        };
        if invalid.retry == 0
            || invalid.retry >= invalid.deadline
            || invalid.deadline >= invalid.lease
        {
            return Err(invalid);
        }
        Ok(self.leader_elect.then(|| Candidacy {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: self.identity.unwrap_or_else(identity),
            terms: Terms {
                duration: Duration::from_secs(self.lease_secs),
                renew_deadline: Duration::from_secs(self.renew_deadline_secs),
                retry: Duration::from_secs(self.lease_retry_secs),
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        leader: LeaderArgs,
    }

    fn candidacy(arguments: &[&str]) -> anyhow::Result<Option<Candidacy>> {
        let arguments = [&["program"], arguments].concat();
        let leader = Program::try_parse_from(arguments)?.leader;
        Ok(leader.candidacy("a-namespace", "a-lease", || "me".to_owned())?)
    }

    #[test]
    fn defaults_are_those_of_openshift() {
        let expected = Candidacy {
            namespace: "a-namespace".to_owned(),
            name: "a-lease".to_owned(),
            identity: "me".to_owned(),
            terms: Terms {
                duration: Duration::from_secs(137),
                renew_deadline: Duration::from_secs(107),
                retry: Duration::from_secs(26),
            },
        };
        assert_eq!(candidacy(&[]).unwrap(), Some(expected));
    }

    #[test]
    fn options_replace_the_defaults() {
        let arguments = [
            "--identity=a",
            "--lease-secs=3",
            "--renew-deadline-secs=2",
            "--lease-retry-secs=1",
        ];
        let candidacy_of_a = candidacy(&arguments).unwrap().unwrap();
        assert_eq!(candidacy_of_a.identity, "a");
        let terms = candidacy_of_a.terms;
        let times = [terms.duration, terms.renew_deadline, terms.retry];
        assert_eq!(times, [3, 2, 1].map(Duration::from_secs));
        assert_eq!(candidacy(&["--leader-elect=false"]).unwrap(), None);
    }

    #[test]
    fn terms_that_allow_two_leaders_are_refused() {
        let table = [
            ("--lease-secs=107", "--lease-secs 107"),
            ("--renew-deadline-secs=26", "--renew-deadline-secs 26"),
            ("--lease-retry-secs=0", "--lease-retry-secs 0"),
        ];
        for (argument, expected) in table {
            let error = candidacy(&[argument]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn terms_have_a_maximum() {
        for option in [
            "--lease-secs",
            "--renew-deadline-secs",
            "--lease-retry-secs",
        ] {
            let parse = |secs: u64| Program::try_parse_from(["p", &format!("{option}={secs}")]);
            assert!(parse(86_400).is_ok() && parse(86_401).is_err() && parse(u64::MAX).is_err());
        }
    }
}
