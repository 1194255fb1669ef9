//! Plans made up at random: stopped anywhere and started again, a change ends in the old state or
//! in the target.

use node_update::plan::{Action, Bundle, Deploy, Digest, Route};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::sim::{Fault, Host, Snapshot};
use super::{boot_to_the_end, fails_at, for_every_point, run_to_the_end, write_file};
use crate::execute::End;
use crate::journal::{AttemptOutcome, tests as journal_tests};

/// Of the deployment and of what deployments share; shipped, shadowing, managed, an
/// administrator's, not there yet.
const PATHS: [&str; 8] = [
    "/etc/managed.d/only",
    "/etc/new/deep/file",
    "/etc/shadowed.conf",
    "/etc/shipped.conf",
    "/etc/unmanaged",
    "/home/core/tool",
    "/var/lib/new/deep/file",
    "/var/lib/tool",
];

const CONTENTS: [&[u8]; 3] = [b"one", b"two", b""];

/// An action, and the blob that it needs.
type Effect = (Action, Option<&'static [u8]>);

/// Some of the files written or released, then some of the rest: in the order of a plan.
fn any_bundle(route: Route) -> impl Strategy<Value = Bundle> {
    let content = of((
        select(CONTENTS.to_vec()),
        select(&[0o600_u32, 0o644, 0o755][..]),
    ));
    let files = (
        subsequence(PATHS.to_vec(), 0..=PATHS.len()),
        vec(content, PATHS.len()),
    );
    let others = others();
    let count = others.len();
    (files, subsequence(others, 0..=count)).prop_map(move |((paths, contents), others)| {
        let files = paths.into_iter().zip(contents).map(file);
        let mut bundle = journal_tests::bundle(route, files.chain(others).collect());
        bundle.plan.deploy = (route == Route::Reboot).then(|| Deploy {
            image: Some("new".to_owned()),
            ..Deploy::default()
        });
        bundle
    })
}

fn file((path, content): (&str, Option<(&'static [u8], u32)>)) -> Effect {
    if let Some((bytes, mode)) = content {
        return (write_file(path, bytes, mode), Some(bytes));
    }
    let path = path.to_owned();
    (Action::ReleaseFile { path }, None)
}

fn others() -> Vec<Effect> {
    let unit = str::to_owned;
    let (keys, hash): (&[u8], &[u8]) = (b"ssh-ed25519 A\n", b"$6$hash");
    let user = || "core".to_owned();
    let write_keys = Action::WriteAuthorizedKeys {
        user: user(),
        blob: Digest::of(keys),
    };
    let set_password = Action::SetPassword {
        user: user(),
        blob: Digest::of(hash),
    };
    let units = [
        Action::MaskUnit {
            unit: unit("masked.service"),
        },
        Action::UnmaskUnit {
            unit: unit("unmasked.service"),
        },
        Action::EnableUnit {
            unit: unit("masked.service"),
        },
        Action::DisableUnit {
            unit: unit("old.service"),
        },
    ];
    let units = units.map(|action| (action, None));
    let accounts = [(write_keys, Some(keys)), (set_password, Some(hash))];
    units.into_iter().chain(accounts).collect()
}

/// The old state and the target, by bytes.
fn ends(bundle: &Bundle) -> (Snapshot, Snapshot) {
    let mut host = Host::new(bundle);
    let before = host.snapshot();
    run_to_the_end(&mut host);
    assert_eq!(host.last(), Some(AttemptOutcome::Verified));
    (before, host.snapshot())
}

proptest! {
    // Each case stops at every point, three times over.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_reboot_change_stopped_anywhere_ends_in_the_old_state_or_the_target(
        bundle in any_bundle(Route::Reboot),
    ) {
        let (before, target) = ends(&bundle);
        // The host goes down while the deployment is made.
        for_every_point(|n| {
            let mut host = Host::new(&bundle);
            let met = fails_at(&mut host, Fault::Crash, n, |host| drop(host.apply()));
            boot_to_the_end(&mut host);
            let is_verified = host.last() == Some(AttemptOutcome::Verified);
            let end = if is_verified { &target } else { &before };
            assert_eq!(&host.snapshot(), end, "point {n}");
            met
        });
        // Only the program goes down, and starts again.
        for_every_point(|n| {
            let mut host = Host::new(&bundle);
            let met = fails_at(&mut host, Fault::Crash, n, |host| drop(host.apply()));
            assert_eq!(host.apply().unwrap(), End::NeedsReboot, "point {n}");
            boot_to_the_end(&mut host);
            assert_eq!(host.snapshot(), target, "point {n}");
            met
        });
        // The host goes down in the target's first boot, while what deployments share is written.
        for_every_point(|n| {
            let mut host = Host::new(&bundle);
            host.apply().unwrap();
            host.reboot();
            let met = fails_at(&mut host, Fault::Crash, n, |host| {
                drop(host.guard());
                drop(host.verify());
            });
            if host.is_under_way() {
                boot_to_the_end(&mut host);
            }
            assert_eq!(host.snapshot(), target, "point {n}");
            met
        });
    }

    #[test]
    fn any_target_that_is_not_proved_ends_in_the_old_state(
        bundle in any_bundle(Route::Reboot),
    ) {
        let (before, _) = ends(&bundle);
        for_every_point(|n| {
            let mut host = Host::new(&bundle);
            host.refuse_verification();
            host.apply().unwrap();
            host.reboot();
            let met = fails_at(&mut host, Fault::Crash, n, |host| {
                drop(host.guard());
                drop(host.verify());
                host.reboot();
                drop(host.guard());
            });
            if host.is_under_way() {
                boot_to_the_end(&mut host);
            }
            assert_eq!(host.last(), Some(AttemptOutcome::RolledBack), "point {n}");
            assert_eq!(host.snapshot(), before, "point {n}");
            met
        });
    }

    #[test]
    fn any_live_change_stopped_anywhere_ends_in_the_old_state_or_the_target(
        bundle in any_bundle(Route::Live),
    ) {
        let (before, target) = ends(&bundle);
        let is_at_an_end = |host: &Host, n| {
            assert!(!host.is_under_way(), "point {n}");
            let is_verified = host.last() == Some(AttemptOutcome::Verified);
            let end = if is_verified { &target } else { &before };
            assert_eq!(&host.snapshot(), end, "point {n}");
        };
        // A step fails.
        for_every_point(|n| {
            let mut host = Host::new(&bundle);
            let met = fails_at(&mut host, Fault::Error, n, |host| drop(host.apply()));
            if host.is_under_way() {
                // What failed was the undo.
                drop(host.apply());
            }
            is_at_an_end(&host, n);
            met
        });
        // Only the program goes down, and starts again.
        for_every_point(|n| {
            let mut host = Host::new(&bundle);
            let met = fails_at(&mut host, Fault::Crash, n, |host| drop(host.apply()));
            if met {
                assert_eq!(host.apply().unwrap(), End::Done, "point {n}");
            }
            assert_eq!(host.snapshot(), target, "point {n}");
            met
        });
        // The host goes down.
        for_every_point(|n| {
            let mut host = Host::new(&bundle);
            let met = fails_at(&mut host, Fault::Crash, n, |host| drop(host.apply()));
            host.reboot();
            assert_eq!(host.guard().unwrap(), End::Done, "point {n}");
            is_at_an_end(&host, n);
            met
        });
    }
}
