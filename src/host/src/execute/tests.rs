//! Stops after step *n*, starts again, reaches the same end: for every *n*.

mod arbitrary;
mod presets;
mod sim;

use std::panic::{self, AssertUnwindSafe};

use chassis::report::Chain;
use node_update::plan::{Action, Bundle, Deploy, Digest, FileState, Mode, Owner, Owners, Route};
use rustix::io::Errno;

use self::sim::{Crash, Fault, Host};
use crate::execute::End;
use crate::journal::{AttemptOutcome, tests as journal_tests};

fn write_file(path: &str, bytes: &[u8], mode: u32) -> Action {
    Action::WriteFile {
        path: path.to_owned(),
        file: FileState {
            digest: Digest::of(bytes),
            mode: Mode(mode),
            owner: Owners {
                user: Owner::Name("core".to_owned()),
                group: Owner::ROOT,
            },
        },
    }
}

/// One step of every kind; the live route adds those that need a running system.
fn plan(route: Route) -> Bundle {
    let unit = |name: &str| name.to_owned();
    let release = |path: &str| {
        let path = path.to_owned();
        (Action::ReleaseFile { path }, None)
    };
    let text = b"[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    let mut actions: Vec<(Action, Option<&[u8]>)> = vec![
        (
            write_file("/etc/new/deep/file", b"new", 0o600),
            Some(b"new"),
        ),
        (
            write_file("/etc/shipped.conf", b"ours", 0o640),
            Some(b"ours"),
        ),
        (write_file("/home/core/tool", b"tool", 0o755), Some(b"tool")),
        release("/etc/managed.d/only"),
        release("/etc/shadowed.conf"),
        (
            write_file("/etc/systemd/system/new.service", text, 0o644),
            Some(text),
        ),
        (
            Action::MaskUnit {
                unit: unit("masked.service"),
            },
            None,
        ),
        (
            Action::UnmaskUnit {
                unit: unit("unmasked.service"),
            },
            None,
        ),
        (
            Action::EnableUnit {
                unit: unit("new.service"),
            },
            None,
        ),
        (
            Action::DisableUnit {
                unit: unit("old.service"),
            },
            None,
        ),
        (
            Action::DisableUnit {
                unit: unit("leaves.service"),
            },
            None,
        ),
        release("/etc/systemd/system/leaves.service"),
        (
            Action::WriteAuthorizedKeys {
                user: "core".to_owned(),
                blob: Digest::of(b"ssh-ed25519 A\n"),
            },
            Some(b"ssh-ed25519 A\n"),
        ),
        (
            Action::SetPassword {
                user: "core".to_owned(),
                blob: Digest::of(b"$6$hash"),
            },
            Some(b"$6$hash"),
        ),
    ];
    if route == Route::Live {
        actions.push((Action::DaemonReload, None));
        actions.push((
            Action::RestartUnit {
                unit: unit("new.service"),
            },
            None,
        ));
        actions.push((
            Action::ReloadUnit {
                unit: unit("old.service"),
            },
            None,
        ));
    }
    let mut bundle = journal_tests::bundle(route, actions);
    if let Some(deploy) = &mut bundle.plan.deploy {
        *deploy = Deploy {
            image: Some("new".to_owned()),
            ..Deploy::default()
        };
    }
    bundle
}

/// The target's files after an undisturbed run.
fn undisturbed(route: Route) -> sim::Snapshot {
    let mut host = Host::new(&plan(route));
    run_to_the_end(&mut host);
    assert_eq!(host.last(), Some(AttemptOutcome::Verified));
    host.snapshot()
}

/// Runs mcd and the boot: apply, reboot if needed, guard, verify.
fn run_to_the_end(host: &mut Host) {
    if let Ok(End::NeedsReboot) = host.apply() {
        boot_to_the_end(host);
    }
}

/// Reboots, guards and verifies until no attempt is under way.
fn boot_to_the_end(host: &mut Host) {
    for _ in 0..4 {
        host.reboot();
        if host.guard().unwrap() == End::NeedsReboot {
            continue;
        }
        if host.verify().unwrap() != End::NeedsReboot {
            break;
        }
    }
    assert!(!host.is_under_way(), "still under way after four boots");
}

/// Runs `act` with a fault at its point `n`; false if there is no such point.
fn fails_at(host: &mut Host, fault: Fault, n: u32, act: impl FnOnce(&mut Host)) -> bool {
    host.arm(fault, n);
    let run = panic::catch_unwind(AssertUnwindSafe(|| act(host)));
    let met = host.disarm();
    if let Err(payload) = run
        && !payload.is::<Crash>()
    {
        panic::resume_unwind(payload);
    }
    met
}

/// Calls `case` with 0, 1, 2, … until it returns false, and returns the number of points.
fn for_every_point(mut case: impl FnMut(u32) -> bool) -> u32 {
    // Crashes are panics here; their traces would be thousands of lines.
    panic::set_hook(Box::new(|info| {
        if !info.payload().is::<Crash>() {
            eprintln!("{info}");
        }
    }));
    let mut n = 0;
    while case(n) {
        n += 1;
    }
    n
}

#[test]
fn a_live_change_that_fails_anywhere_is_undone_to_the_byte() {
    let points = for_every_point(|n| {
        let mut host = Host::new(&plan(Route::Live));
        let before = host.snapshot();
        let met = fails_at(&mut host, Fault::Error, n, |host| drop(host.apply()));
        if met && host.is_under_way() {
            // The fault hit the revert or the end of the attempt: the next run completes it.
            drop(host.apply());
        }
        if met && host.last() == Some(AttemptOutcome::Undone) {
            assert_eq!(host.snapshot(), before, "point {n}");
        }
        assert!(!host.is_under_way(), "point {n}");
        met
    });
    assert!(points > 30, "{points}");
}

#[test]
fn a_live_change_killed_anywhere_and_run_again_reaches_the_target() {
    let target = undisturbed(Route::Live);
    let points = for_every_point(|n| {
        let mut host = Host::new(&plan(Route::Live));
        let met = fails_at(&mut host, Fault::Crash, n, |host| drop(host.apply()));
        if met {
            assert_eq!(host.apply().unwrap(), End::Done, "point {n}");
        }
        assert_eq!(host.snapshot(), target, "point {n}");
        met
    });
    assert!(points > 30, "{points}");
}

#[test]
fn a_live_change_killed_with_its_host_is_undone_or_done() {
    let target = undisturbed(Route::Live);
    let points = for_every_point(|n| {
        let mut host = Host::new(&plan(Route::Live));
        let before = host.snapshot();
        let met = fails_at(&mut host, Fault::Crash, n, |host| drop(host.apply()));
        host.reboot();
        assert_eq!(host.guard().unwrap(), End::Done);
        assert!(!host.is_under_way(), "point {n}");
        let is_verified = host.last() == Some(AttemptOutcome::Verified);
        assert_eq!(
            host.snapshot(),
            if is_verified { target.clone() } else { before },
            "point {n}"
        );
        met
    });
    assert!(points > 30, "{points}");
}

#[test]
fn a_live_revert_killed_anywhere_is_completed() {
    let mut count = 0;
    // Verification fails first, then the revert is killed.
    for_every_point(|n| {
        let mut host = Host::new(&plan(Route::Live));
        let before = host.snapshot();
        host.refuse_verification();
        let met = fails_at(&mut host, Fault::Crash, n, |host| drop(host.apply()));
        if met && host.is_under_way() {
            drop(host.apply());
        }
        if host.last() == Some(AttemptOutcome::Undone) {
            assert_eq!(host.snapshot(), before, "point {n}");
        }
        assert!(!host.is_under_way(), "point {n}");
        count = n;
        met
    });
    assert!(count > 50, "{count}");
}

#[test]
fn a_reboot_change_that_fails_anywhere_before_the_reboot_leaves_the_old_state() {
    let points = for_every_point(|n| {
        let mut host = Host::new(&plan(Route::Reboot));
        let before = host.snapshot();
        let met = fails_at(&mut host, Fault::Error, n, |host| drop(host.apply()));
        if !met {
            return false;
        }
        if host.is_under_way() && !host.target_is_default() {
            drop(host.revert_or_roll_back());
        }
        if !host.is_under_way() {
            assert_eq!(host.snapshot(), before, "point {n}");
            assert_eq!(host.deployments().len(), 1, "point {n}");
            assert!(host.kubelet_runs(), "point {n}");
        }
        true
    });
    assert!(points > 20, "{points}");
}

#[test]
fn a_reboot_change_killed_anywhere_and_run_again_reaches_the_target() {
    let target = undisturbed(Route::Reboot);
    let points = for_every_point(|n| {
        let mut host = Host::new(&plan(Route::Reboot));
        let met = fails_at(&mut host, Fault::Crash, n, |host| drop(host.apply()));
        if met {
            assert_eq!(host.apply().unwrap(), End::NeedsReboot, "point {n}");
        }
        boot_to_the_end(&mut host);
        assert_eq!(host.last(), Some(AttemptOutcome::Verified), "point {n}");
        assert_eq!(host.snapshot(), target, "point {n}");
        met
    });
    assert!(points > 20, "{points}");
}

#[test]
fn a_reboot_change_killed_with_its_host_boots_old_or_target_and_never_half() {
    let target = undisturbed(Route::Reboot);
    let points = for_every_point(|n| {
        let mut host = Host::new(&plan(Route::Reboot));
        let before = host.snapshot();
        let met = fails_at(&mut host, Fault::Crash, n, |host| drop(host.apply()));
        boot_to_the_end(&mut host);
        match host.last() {
            Some(AttemptOutcome::Verified) => assert_eq!(host.snapshot(), target, "point {n}"),
            Some(AttemptOutcome::Undone) | None => {
                assert_eq!(host.snapshot(), before, "point {n}");
                assert_eq!(host.deployments().len(), 1, "point {n}");
            }
            other => panic!("point {n}: {other:?}"),
        }
        met
    });
    assert!(points > 20, "{points}");
}

#[test]
fn a_first_boot_killed_anywhere_reaches_the_target_at_the_next() {
    let target = undisturbed(Route::Reboot);
    let points = for_every_point(|n| {
        let mut host = Host::new(&plan(Route::Reboot));
        host.apply().unwrap();
        host.reboot();
        let met = fails_at(&mut host, Fault::Crash, n, |host| {
            drop(host.guard());
            drop(host.verify());
        });
        if host.is_under_way() {
            boot_to_the_end(&mut host);
        }
        assert_eq!(host.last(), Some(AttemptOutcome::Verified), "point {n}");
        assert_eq!(host.snapshot(), target, "point {n}");
        met
    });
    assert!(points > 8, "{points}");
}

#[test]
fn a_first_boot_that_fails_anywhere_reaches_the_target_on_retry_or_is_rolled_back_to_the_byte() {
    let target = undisturbed(Route::Reboot);
    for is_failed_for_good in [false, true] {
        let points = for_every_point(|n| {
            let mut host = Host::new(&plan(Route::Reboot));
            let before = host.snapshot();
            host.apply().unwrap();
            host.reboot();
            let mut is_failed = false;
            let met = fails_at(&mut host, Fault::Error, n, |host| {
                is_failed = host.guard().is_err();
            });
            assert!(is_failed || !met, "point {n}: the error was swallowed");
            if is_failed_for_good && met {
                assert_eq!(
                    host.fail_if_booted("no room").unwrap(),
                    Some(End::NeedsReboot),
                    "point {n}"
                );
                boot_to_the_end(&mut host);
                assert_eq!(host.last(), Some(AttemptOutcome::RolledBack), "point {n}");
                assert_eq!(host.snapshot(), before, "point {n}");
                assert_eq!(host.held().as_deref(), Some("rendered-new"), "point {n}");
            } else {
                assert_eq!(host.guard().unwrap(), End::Done, "point {n}");
                assert_eq!(host.verify().unwrap(), End::Done, "point {n}");
                assert_eq!(host.last(), Some(AttemptOutcome::Verified), "point {n}");
                assert_eq!(host.snapshot(), target, "point {n}");
            }
            met
        });
        assert!(points > 3, "{points}");
    }
}

#[test]
fn a_boot_in_which_units_started_before_a_guard_that_failed_is_not_verified() {
    let target = undisturbed(Route::Reboot);
    let points = for_every_point(|n| {
        let mut host = Host::new(&plan(Route::Reboot));
        host.apply().unwrap();
        host.reboot();
        let met = fails_at(&mut host, Fault::Error, n, |host| drop(host.guard()));
        let expected = if met { End::NeedsReboot } else { End::Done };
        assert_eq!(host.guard_late().unwrap(), expected, "point {n}");
        // In the boot after it the guard comes first, and the checks have nothing left to do.
        if met {
            host.reboot();
            assert_eq!(host.guard().unwrap(), End::Done, "point {n}");
            assert_eq!(host.guard_late().unwrap(), End::Done, "point {n}");
        }
        assert_eq!(host.verify().unwrap(), End::Done, "point {n}");
        assert_eq!(host.snapshot(), target, "point {n}");
        met
    });
    assert!(points > 3, "{points}");
}

#[test]
fn a_journal_that_cannot_be_read_is_followed_by_its_copy_at_every_boot() {
    let target = undisturbed(Route::Reboot);
    let mut host = Host::new(&plan(Route::Reboot));
    let before = host.snapshot();
    host.apply().unwrap();
    host.spoil_journal(false);
    host.reboot();
    assert_eq!(host.guard().unwrap(), End::Done);
    host.spoil_journal(false);
    assert_eq!(host.verify().unwrap(), End::Done);
    assert_eq!(host.last(), Some(AttemptOutcome::Verified));
    assert_eq!(host.snapshot(), target);
    // And on the way back.
    let mut host = Host::new(&plan(Route::Reboot));
    host.refuse_verification();
    host.apply().unwrap();
    host.reboot();
    host.guard().unwrap();
    assert_eq!(host.verify().unwrap(), End::NeedsReboot);
    host.spoil_journal(false);
    boot_to_the_end(&mut host);
    assert_eq!(host.last(), Some(AttemptOutcome::RolledBack));
    assert_eq!(host.snapshot(), before);
}

#[test]
fn a_host_that_lost_its_journal_goes_on_with_what_is_booted() {
    for guard in [Host::guard, Host::guard_late] {
        let mut host = Host::new(&plan(Route::Reboot));
        host.apply().unwrap();
        host.spoil_journal(true);
        host.reboot();
        assert_eq!(guard(&mut host).unwrap(), End::Done);
        assert!(!host.is_under_way());
        assert_eq!(host.last(), Some(AttemptOutcome::Adopted));
        assert_eq!(host.tries(), None, "its boots are counted on");
        assert_eq!(host.guard().unwrap(), End::Done);
        // The next update begins from there.
        let mut again = plan(Route::Live);
        again.plan.attempt.0 = "attempt-2".to_owned();
        host.offer(&again);
        assert_eq!(host.apply().unwrap(), End::Done);
        assert_eq!(host.last(), Some(AttemptOutcome::Verified));
    }
}

#[test]
fn a_failure_without_a_booted_target_changes_nothing() {
    let mut host = Host::new(&plan(Route::Reboot));
    assert_eq!(host.fail_if_booted("a fault").unwrap(), None);
    host.apply().unwrap();
    assert_eq!(host.fail_if_booted("a fault").unwrap(), None);
    assert!(host.target_is_default());
    assert_eq!(host.held(), None);
}

#[test]
fn a_target_that_fails_verification_is_rolled_back_to_the_byte_wherever_it_is_killed() {
    let points = for_every_point(|n| {
        let mut host = Host::new(&plan(Route::Reboot));
        let before = host.snapshot();
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
        assert_eq!(host.held().as_deref(), Some("rendered-new"), "point {n}");
        met
    });
    assert!(points > 20, "{points}");
}

#[test]
fn a_target_that_does_not_boot_is_rolled_back_wherever_the_host_is_killed() {
    let points = for_every_point(|n| {
        let mut host = Host::new(&plan(Route::Reboot));
        let before = host.snapshot();
        host.have_die("new");
        let met = fails_at(&mut host, Fault::Crash, n, |host| {
            drop(host.apply());
            host.reboot();
            drop(host.guard());
        });
        let is_held = host.held().is_some();
        boot_to_the_end(&mut host);
        assert_eq!(host.snapshot(), before, "point {n}");
        assert!(!host.target_is_default(), "point {n}");
        // The boot loader's tries, and one more if the roll-back was interrupted.
        assert!(host.deaths() <= 4, "point {n}: {}", host.deaths());
        if host.deaths() > 0 {
            assert_eq!(host.last(), Some(AttemptOutcome::RolledBack), "point {n}");
            assert_eq!(host.held().as_deref(), Some("rendered-new"), "point {n}");
        } else {
            assert!(!is_held, "point {n}");
        }
        met
    });
    assert!(points > 20, "{points}");
}

#[test]
fn a_target_that_is_to_stay_and_does_not_boot_is_rolled_back() {
    let mut host = Host::new(&plan(Route::Reboot));
    let before = host.snapshot();
    host.stay();
    host.have_die("new");
    host.apply().unwrap();
    boot_to_the_end(&mut host);
    assert_eq!(host.deaths(), 3);
    assert_eq!(host.last(), Some(AttemptOutcome::RolledBack));
    assert_eq!(host.snapshot(), before);
    assert_eq!(host.held().as_deref(), Some("rendered-new"));
}

#[test]
fn a_target_that_is_to_stay_is_not_left_once_the_guard_runs_wherever_it_is_killed() {
    let points = for_every_point(|n| {
        let mut host = Host::new(&plan(Route::Reboot));
        host.stay();
        host.refuse_verification();
        host.apply().unwrap();
        host.reboot();
        let met = fails_at(&mut host, Fault::Crash, n, |host| drop(host.guard()));
        // Not verified in any boot: it stays, with the same files.
        for _ in 0..6 {
            host.reboot();
            assert_eq!(host.guard().unwrap(), End::Done, "point {n}");
            assert_eq!(host.tries(), None, "point {n}");
        }
        assert_eq!(host.verify().unwrap(), End::Done, "point {n}");
        assert_eq!(host.held().as_deref(), Some("rendered-new"), "point {n}");
        assert!(host.is_under_way(), "point {n}");
        met
    });
    assert!(points > 3, "{points}");
}

#[test]
fn a_revert_before_the_reboot_switches_the_boot_loader_to_the_origin() {
    let points = for_every_point(|n| {
        let mut host = Host::new(&plan(Route::Reboot));
        let before = host.snapshot();
        host.apply().unwrap();
        assert!(host.is_timed());
        let met = fails_at(&mut host, Fault::Crash, n, |host| {
            drop(host.revert_or_roll_back());
        });
        if host.is_under_way() {
            assert_eq!(host.revert_or_roll_back().unwrap(), End::Done, "point {n}");
        }
        assert!(!host.target_is_default(), "point {n}");
        assert_eq!(host.snapshot(), before, "point {n}");
        assert!(host.kubelet_runs(), "point {n}");
        assert!(!host.is_timed(), "point {n}");
        assert_eq!(host.last(), Some(AttemptOutcome::Undone));
        met
    });
    assert!(points > 5, "{points}");
}

#[test]
fn a_disk_that_fills_up_anywhere_is_freed_by_the_undo() {
    for route in [Route::Live, Route::Reboot] {
        let points = for_every_point(|n| {
            let mut host = Host::new(&plan(route));
            let before = host.snapshot();
            host.arm(Fault::Full, n);
            // The disk stays full.
            if host.apply().is_err() {
                assert_eq!(host.snapshot(), before, "point {n}");
                assert!(!host.is_under_way(), "point {n}");
                assert_eq!(host.deployments().len(), 1, "point {n}");
                assert!(host.kubelet_runs(), "point {n}");
            }
            host.is_faulty()
        });
        assert!(points > 20, "{points}");
    }
}

#[test]
fn a_target_that_fills_the_disk_in_its_first_boot_is_rolled_back_to_the_byte() {
    let points = for_every_point(|n| {
        let mut host = Host::new(&plan(Route::Reboot));
        let before = host.snapshot();
        host.apply().unwrap();
        host.reboot();
        host.arm(Fault::Full, n);
        if host.guard().is_err() {
            assert_eq!(
                host.fail_if_booted("no room").unwrap(),
                Some(End::NeedsReboot),
                "point {n}"
            );
            boot_to_the_end(&mut host);
            assert_eq!(host.snapshot(), before, "point {n}");
            assert_eq!(host.held().as_deref(), Some("rendered-new"), "point {n}");
        }
        host.is_faulty()
    });
    assert!(points > 3, "{points}");
}

#[test]
fn a_disk_that_takes_no_writes_keeps_no_kubelet_down() {
    for errno in [Errno::ROFS, Errno::IO] {
        let points = for_every_point(|n| {
            let mut host = Host::new(&plan(Route::Reboot));
            let before = host.snapshot();
            host.arm(Fault::Broken(errno), n);
            let is_applied = host.apply().is_ok();
            if !is_applied {
                assert!(host.kubelet_runs(), "point {n}");
                assert!(!host.target_is_default(), "point {n}");
            }
            let met = host.disarm();
            if !is_applied {
                // Mended.
                assert_eq!(host.revert_or_roll_back().unwrap(), End::Done, "point {n}");
                assert_eq!(host.snapshot(), before, "point {n}");
                assert_eq!(host.deployments().len(), 1, "point {n}");
            }
            met
        });
        assert!(points > 20, "{points}");
    }
}

#[test]
fn a_target_that_stays_is_rolled_back_by_hand_wherever_it_is_killed() {
    let points = for_every_point(|n| {
        let mut host = Host::new(&plan(Route::Reboot));
        let before = host.snapshot();
        host.refuse_verification();
        host.stay();
        host.apply().unwrap();
        host.reboot();
        let met = fails_at(&mut host, Fault::Crash, n, |host| {
            drop(host.guard());
            drop(host.verify());
            assert!(host.is_under_way(), "it does not stay");
            drop(host.revert_or_roll_back());
        });
        let end = host.revert_or_roll_back().unwrap();
        assert_eq!(end, End::NeedsReboot, "point {n}");
        boot_to_the_end(&mut host);
        assert_eq!(host.last(), Some(AttemptOutcome::RolledBack), "point {n}");
        assert_eq!(host.snapshot(), before, "point {n}");
        assert_eq!(host.held().as_deref(), Some("rendered-new"), "point {n}");
        met
    });
    assert!(points > 8, "{points}");
}

#[test]
fn another_attempt_is_refused_while_one_is_under_way() {
    let mut host = Host::new(&plan(Route::Reboot));
    host.apply().unwrap();
    let mut other = plan(Route::Reboot);
    other.plan.attempt.0 = "attempt-2".to_owned();
    host.offer(&other);
    let refusal = "attempt attempt-1 to rendered-new is under way on this host".to_owned();
    assert_eq!(host.apply().unwrap(), End::Rejected(vec![refusal]));
}

#[test]
fn an_owner_that_does_not_exist_changes_nothing() {
    for route in [Route::Live, Route::Reboot] {
        let mut bundle = plan(route);
        if let Action::WriteFile { file, .. } = &mut bundle.plan.steps[1].action {
            file.owner.user = Owner::Name("no-such-user".to_owned());
        }
        let mut host = Host::new(&bundle);
        let before = host.snapshot();
        let error = Chain(&host.apply().unwrap_err()).to_string();
        assert_eq!(
            error,
            "cannot apply file /etc/shipped.conf: failed to retrieve file ownership for file \
             \"/etc/shipped.conf\": failed to retrieve UserID for username: no-such-user"
        );
        assert_eq!(host.snapshot(), before);
        assert!(!host.is_under_way());
    }
}

#[test]
fn a_target_that_is_never_verified_is_rolled_back_after_three_boots() {
    let mut host = Host::new(&plan(Route::Reboot));
    host.never_count();
    let before = host.snapshot();
    host.apply().unwrap();
    for _ in 0..3 {
        host.reboot();
        assert_eq!(host.guard().unwrap(), End::Done);
    }
    host.reboot();
    assert_eq!(host.guard().unwrap(), End::NeedsReboot);
    boot_to_the_end(&mut host);
    assert_eq!(host.last(), Some(AttemptOutcome::RolledBack));
    assert_eq!(host.snapshot(), before);
}
