//! Which suites there are, what each needs, and which part of the proof it belongs to.
//!
//! A new suite is one entry here. [`Suite::own`] keeps a change of one suite from running the
//! others again: whatever below `tests/` no suite calls its own counts for all of them.

/// When a suite runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// In `make test`.
    Test,
    /// In `make test` while its stamp is missing, whatever the stamp's age; and in a part of
    /// `make proof`.
    Changed(Part),
    /// In a part of `make proof` only.
    Proof(Part),
}

/// A part of `make proof`. Each fits into 80 minutes and runs alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The programs killed at every point, and the live mutants.
    Programs,
    /// Their host killed.
    Hosts,
    /// The machine under qemu.
    Machine,
    /// Container images, built in two places.
    Images,
}

impl Part {
    pub(crate) const ALL: [Self; 4] = [Self::Programs, Self::Hosts, Self::Machine, Self::Images];

    /// Its name on the command line and in the cache.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Programs => "programs",
            Self::Hosts => "hosts",
            Self::Machine => "machine",
            Self::Images => "images",
        }
    }

    /// The part of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// A program under test, as `make binaries` leaves it.
pub(crate) const PROGRAMS: [&str; 8] = [
    "mcd",
    "mcd-os",
    "mcc",
    "mcs",
    "cvo",
    "muo",
    "update-service",
    "slipway",
];

/// Of [`PROGRAMS`], those that work on nodes and pools.
pub(crate) const NODE_PROGRAMS: [&str; 3] = ["mcd", "mcd-os", "mcc"];

/// Of [`PROGRAMS`], those that do not.
pub(crate) const OTHER_PROGRAMS: [&str; 5] = ["mcs", "cvo", "muo", "update-service", "slipway"];

/// What runs in one test executable that needs the lab.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// Package and target of the executable.
    pub(crate) executable: (&'static str, &'static str),
    /// Exact names of its tests; empty for all that are `#[ignore]`.
    pub(crate) tests: &'static [&'static str],
    /// Of its tests at once.
    pub(crate) threads: u8,
    /// Of [`crate::lanes::LANES`], how many it takes.
    pub(crate) lanes: u8,
    /// Of [`PROGRAMS`], those that it runs.
    pub(crate) programs: &'static [&'static str],
    /// Whether it runs the last release, too.
    pub(crate) has_last_release: bool,
    /// Folders and files below the workspace that no other suite reads.
    pub(crate) own: &'static [&'static str],
    pub(crate) when: When,
    /// After so many minutes it is ended and has failed.
    pub(crate) limit_mins: u64,
}

/// What most suites have in common.
const SUITE: Suite = Suite {
    name: "",
    executable: ("", ""),
    tests: &[],
    threads: 1,
    lanes: 1,
    programs: &NODE_PROGRAMS,
    has_last_release: false,
    own: &[],
    when: When::Test,
    limit_mins: 25,
};

/// All suites. Longest first where no earlier run shows how long each takes.
pub(crate) const SUITES: &[Suite] = &[
    Suite {
        name: "crash-daemon",
        executable: ("tests", "crash"),
        tests: &["a_sample_of_killed_daemons_resumes_its_update"],
        own: &["tests/crash"],
        // More than 150 lives of the daemon, one for each of a quarter of an update's points.
        limit_mins: 40,
        ..SUITE
    },
    Suite {
        name: "mcd-os",
        executable: ("tests", "mcd-os"),
        threads: 2,
        programs: &["mcd", "mcd-os"],
        own: &["tests/mcd-os"],
        ..SUITE
    },
    Suite {
        name: "drift",
        executable: ("tests", "drift"),
        own: &["tests/flow/drift.rs"],
        ..SUITE
    },
    Suite {
        name: "interrupted-after",
        executable: ("tests", "interrupted"),
        tests: &["disturbances_from_the_switch_on_are_survived"],
        own: &["tests/flow/interrupted"],
        ..SUITE
    },
    Suite {
        name: "interrupted-before",
        executable: ("tests", "interrupted"),
        tests: &["disturbances_before_the_switch_are_survived"],
        own: &["tests/flow/interrupted"],
        ..SUITE
    },
    Suite {
        name: "crash-programs",
        executable: ("tests", "crash"),
        tests: &["a_sample_of_killed_programs_leaves_the_old_state_or_the_target"],
        programs: &["mcd", "mcd-os"],
        own: &["tests/crash"],
        ..SUITE
    },
    Suite {
        name: "demo",
        executable: ("demo", "proven"),
        programs: &["mcd", "mcd-os", "mcc", "cvo", "slipway"],
        own: &["tests/tools/demo", "tests/tools/bench"],
        ..SUITE
    },
    Suite {
        name: "bad-input",
        executable: ("tests", "bad-input"),
        own: &["tests/flow/bad_input"],
        ..SUITE
    },
    Suite {
        name: "certificates",
        executable: ("tests", "certificates"),
        threads: 2,
        own: &["tests/flow/certificates.rs"],
        ..SUITE
    },
    Suite {
        name: "image-mode",
        executable: ("tests", "image-mode"),
        programs: &["mcd", "mcd-os", "mcc", "mcs"],
        own: &["tests/flow/image_mode"],
        limit_mins: 40,
        ..SUITE
    },
    Suite {
        name: "os-builder",
        executable: ("image-builder", "os_builder"),
        programs: &[],
        own: &["tests/tools/image-builder/tests/os_builder.rs"],
        ..SUITE
    },
    Suite {
        name: "pins",
        executable: ("tests", "pins"),
        own: &["tests/flow/pins.rs"],
        ..SUITE
    },
    Suite {
        name: "traffic",
        executable: ("tests", "traffic"),
        own: &["tests/flow/traffic.rs"],
        ..SUITE
    },
    Suite {
        name: "cordon",
        executable: ("tests", "cordon"),
        programs: &["mcd", "mcd-os", "mcc", "slipway"],
        own: &["tests/flow/cordon.rs"],
        ..SUITE
    },
    Suite {
        name: "steered",
        executable: ("tests", "steered"),
        own: &["tests/flow/steered.rs"],
        ..SUITE
    },
    Suite {
        name: "streams",
        executable: ("tests", "streams"),
        programs: &["mcd", "mcd-os", "mcc", "slipway"],
        own: &["tests/flow/streams.rs"],
        limit_mins: 10,
        ..SUITE
    },
    Suite {
        name: "prefetch",
        executable: ("tests", "prefetch"),
        own: &["tests/flow/prefetch.rs"],
        ..SUITE
    },
    Suite {
        name: "control-plane",
        executable: ("tests", "control-plane"),
        own: &["tests/flow/control_plane.rs"],
        ..SUITE
    },
    Suite {
        name: "operator",
        executable: ("tests", "operator"),
        programs: &[],
        own: &["tests/flow/operator"],
        ..SUITE
    },
    Suite {
        name: "version-operator",
        executable: ("tests", "version-operator"),
        threads: 3,
        programs: &["cvo", "mcc"],
        own: &["tests/flow/version_operator"],
        ..SUITE
    },
    Suite {
        name: "update-cluster",
        executable: ("tests", "update-cluster"),
        threads: 3,
        programs: &["cvo", "update-service", "slipway"],
        own: &["tests/flow/update_cluster"],
        ..SUITE
    },
    Suite {
        name: "preflight",
        executable: ("tests", "preflight"),
        programs: &["mcd", "mcd-os", "mcc", "cvo", "slipway"],
        own: &["tests/flow/preflight.rs", "tests/flow/update_cluster"],
        limit_mins: 10,
        ..SUITE
    },
    Suite {
        name: "managed-upgrade",
        executable: ("tests", "managed-upgrade"),
        threads: 3,
        programs: &["muo", "slipway"],
        own: &["tests/flow/managed_upgrade"],
        limit_mins: 10,
        ..SUITE
    },
    Suite {
        name: "update-service",
        executable: ("tests", "update-service"),
        threads: 3,
        programs: &["update-service"],
        own: &["tests/flow/update_service"],
        limit_mins: 5,
        ..SUITE
    },
    Suite {
        name: "config-server",
        executable: ("tests", "config-server"),
        threads: 3,
        programs: &["mcs"],
        own: &["tests/flow/config_server"],
        limit_mins: 5,
        ..SUITE
    },
    Suite {
        name: "join",
        executable: ("tests", "join"),
        programs: &["mcd", "mcd-os", "mcc", "mcs"],
        own: &["tests/flow/join"],
        limit_mins: 10,
        ..SUITE
    },
    Suite {
        name: "two-controllers",
        executable: ("tests", "two-controllers"),
        programs: &["mcc", "slipway"],
        own: &["tests/flow/two_controllers"],
        ..SUITE
    },
    Suite {
        name: "generated",
        executable: ("tests", "generated"),
        threads: 2,
        programs: &["mcc"],
        own: &["tests/flow/generated.rs"],
        limit_mins: 5,
        ..SUITE
    },
    Suite {
        name: "monitoring",
        executable: ("tests", "monitoring"),
        programs: &[],
        own: &["tests/flow/monitoring"],
        limit_mins: 5,
        ..SUITE
    },
    Suite {
        name: "release-objects",
        executable: ("release-builder", "chart"),
        threads: 2,
        programs: &[],
        own: &["tests/helm", "tests/tools/release-builder"],
        limit_mins: 5,
        ..SUITE
    },
    Suite {
        name: "install",
        executable: ("tests", "install"),
        tests: &[
            "adoption::a_cluster_of_openshifts_operators_is_taken_over_and_restored",
            "hosts::a_cluster_is_looked_at_installed_and_left_as_it_was",
            "objects::a_newer_version_changes_what_differs_and_removes_what_it_has_not",
            "objects::an_installation_that_is_interrupted_anywhere_goes_on",
            "objects::definitions_that_a_removal_kept_are_purged",
            "refused::what_speaks_against_an_installation_is_named_and_nothing_is_applied",
            "released::a_release_takes_over_what_is_installed_and_goes_whole",
        ],
        programs: &["mcd", "mcd-os", "mcc", "cvo", "slipway"],
        own: &["tests/flow/install"],
        limit_mins: 15,
        ..SUITE
    },
    Suite {
        name: "install-twenty",
        executable: ("tests", "install"),
        tests: &["hosts::a_cluster_of_twenty_nodes_with_two_away_is_left_as_it_was"],
        programs: &["mcd", "mcd-os", "mcc", "cvo", "slipway"],
        own: &["tests/flow/install"],
        when: When::Proof(Part::Hosts),
        limit_mins: 40,
        ..SUITE
    },
    Suite {
        name: "skew",
        executable: ("tests", "skew"),
        programs: &["mcd", "mcd-os", "mcc", "cvo", "slipway"],
        has_last_release: true,
        own: &["tests/flow/skew", "tests/flow/update_cluster"],
        when: When::Proof(Part::Hosts),
        limit_mins: 40,
        ..SUITE
    },
    Suite {
        name: "accounts",
        executable: ("tests", "accounts"),
        threads: 3,
        programs: &[],
        own: &["tests/flow/accounts"],
        limit_mins: 5,
        ..SUITE
    },
    Suite {
        name: "release",
        executable: ("tests", "release"),
        threads: 3,
        programs: &["slipway"],
        own: &["tests/release", "tests/skopeo"],
        limit_mins: 5,
        ..SUITE
    },
    Suite {
        name: "lab-host",
        executable: ("lab", "host"),
        programs: &[],
        own: &["tests/support/lab/tests/host.rs"],
        ..SUITE
    },
    Suite {
        name: "lab-pod",
        executable: ("lab", "pod"),
        programs: &[],
        own: &["tests/support/lab/tests/pod.rs"],
        ..SUITE
    },
    Suite {
        name: "lab-control-plane",
        executable: ("lab", "control_plane"),
        programs: &[],
        own: &["tests/support/lab/tests/control_plane.rs"],
        ..SUITE
    },
    Suite {
        name: "lab-node",
        executable: ("lab", "node"),
        programs: &[],
        own: &["tests/support/lab/tests/node.rs"],
        ..SUITE
    },
    Suite {
        name: "runtime",
        executable: ("lab", "runtime"),
        threads: 2,
        programs: &[],
        own: &["tests/support/lab/tests/runtime.rs"],
        ..SUITE
    },
    Suite {
        name: "lab-image",
        executable: ("lab", "image"),
        programs: &[],
        own: &["tests/support/lab/tests/image.rs"],
        ..SUITE
    },
    Suite {
        name: "mutants",
        executable: ("tests", "mutants"),
        tests: &["every_mutant_is_found"],
        own: &["tests/flow/mutants", "tests/mutants"],
        when: When::Changed(Part::Programs),
        limit_mins: 40,
        ..SUITE
    },
    Suite {
        name: "crash-programs-all",
        executable: ("tests", "crash"),
        tests: &["a_killed_program_leaves_the_old_state_or_the_target"],
        lanes: 2,
        own: &["tests/crash"],
        when: When::Proof(Part::Programs),
        limit_mins: 75,
        ..SUITE
    },
    Suite {
        name: "killed-operator",
        executable: ("tests", "killed-operator"),
        programs: &["cvo"],
        own: &["tests/flow/killed_operator", "tests/flow/version_operator"],
        when: When::Proof(Part::Programs),
        limit_mins: 20,
        ..SUITE
    },
    Suite {
        name: "playground",
        executable: ("demo", "playground"),
        programs: &PROGRAMS,
        own: &["tests/tools/demo", "tests/tools/bench"],
        when: When::Proof(Part::Programs),
        limit_mins: 40,
        ..SUITE
    },
    Suite {
        name: "guides",
        executable: ("demo", "guides"),
        programs: &PROGRAMS,
        own: &[
            "tests/flow/guides",
            "tests/tools/demo",
            "docs/guides",
            "docs/SUMMARY.md",
        ],
        when: When::Proof(Part::Hosts),
        limit_mins: 40,
        ..SUITE
    },
    Suite {
        name: "crash-hosts",
        executable: ("tests", "crash"),
        tests: &["a_killed_host_boots_the_old_state_or_the_target"],
        lanes: 2,
        own: &["tests/crash"],
        when: When::Proof(Part::Hosts),
        limit_mins: 75,
        ..SUITE
    },
    Suite {
        name: "crash-daemon-all",
        executable: ("tests", "crash"),
        tests: &["a_killed_daemon_resumes_its_update"],
        own: &["tests/crash"],
        when: When::Proof(Part::Programs),
        // More than 650 lives of the daemon, one for each point of an update.
        limit_mins: 60,
        ..SUITE
    },
    Suite {
        name: "crash-daemon-host",
        executable: ("tests", "crash"),
        tests: &["a_daemon_whose_host_is_killed_resumes_its_update"],
        own: &["tests/crash"],
        when: When::Proof(Part::Hosts),
        limit_mins: 40,
        ..SUITE
    },
    Suite {
        name: "lab-vm",
        executable: ("lab", "vm"),
        programs: &[],
        own: &["tests/support/lab/tests/vm.rs"],
        when: When::Proof(Part::Machine),
        limit_mins: 40,
        ..SUITE
    },
    Suite {
        name: "reproducible",
        executable: ("image-builder", "reproducible"),
        programs: &[],
        own: &["tests/tools/image-builder/tests"],
        when: When::Proof(Part::Images),
        limit_mins: 75,
        ..SUITE
    },
    Suite {
        name: "vm",
        executable: ("tests", "vm"),
        own: &["tests/vm"],
        when: When::Proof(Part::Machine),
        limit_mins: 75,
        ..SUITE
    },
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

    #[test]
    fn a_program_is_a_nodes_or_another() {
        let both = NODE_PROGRAMS.iter().chain(&OTHER_PROGRAMS);
        assert!(
            both.eq(&PROGRAMS),
            "the two lists are not all programs, in order"
        );
    }

    #[test]
    fn suites_have_distinct_names_and_fit_the_lanes() {
        for (number, suite) in SUITES.iter().enumerate() {
            assert!(
                SUITES
                    .iter()
                    .skip(number + 1)
                    .all(|other| other.name != suite.name),
                "{} stands twice",
                suite.name
            );
            assert!(
                suite.lanes <= crate::lanes::LANES && suite.lanes > 0,
                "{}",
                suite.name
            );
            assert!(
                suite.programs.iter().all(|name| PROGRAMS.contains(name)),
                "{}",
                suite.name
            );
        }
    }

    /// A path that is not there would leave the suite's own files to all.
    #[test]
    fn what_a_suite_calls_its_own_exists() {
        for suite in SUITES {
            for own in suite.own {
                assert!(
                    Path::new(WORKSPACE).join(own).exists(),
                    "{}: no {own}",
                    suite.name
                );
            }
        }
    }
}
