//! `mcd host-check` and `mcd host-remove` on a host without a cluster.

use anyhow::{Context as _, Result};
use lab::host::Host;
use lab::tree::Overlay;
use node_update::host_report::{
    HostCheck, HostFinding, HostRemoval, HostRemovalOutcome, HostReport, HostVerdict,
};
use testbed::HostLab;
use testbed::files::{self, Files, Tree};
use testbed::single_host::{MCD_BROUGHT as MCD, MCD_OS_BROUGHT};

use super::configs;
use super::env::Env;

/// What systemd and other programs write in `/var/lib` as the host runs; skopeo keeps a cache.
const OF_OTHERS: [&str; 4] = ["/systemd", "/private", "/dbus", "/containers"];

/// Runs one of the verbs; its exit code, and what it printed.
fn mcd(env: &Env, verb: &str) -> Result<(Option<i32>, String)> {
    let words = [MCD, verb, "--root-mount", "/", "--helper", MCD_OS_BROUGHT];
    // As in a pod whose mount of the host's root is read-only.
    let read_only = [
        "systemd-run",
        "--quiet",
        "--wait",
        "--pipe",
        "--property=ReadOnlyPaths=/",
    ];
    let before = if verb == "host-check" {
        &read_only[..]
    } else {
        &[]
    };
    let output = env.host.exec([before, &words].concat())?;
    anyhow::ensure!(!output.stdout.is_empty(), "{verb}: {output:?}");
    Ok((output.code, output.stdout))
}

fn finding(env: &Env, check: HostCheck) -> HostFinding {
    let (code, printed) = mcd(env, "host-check").unwrap();
    assert_eq!(code, Some(0));
    let report = HostReport::parse(&printed).unwrap();
    let mut findings = report.findings.into_iter();
    findings.find(|finding| finding.check == check).unwrap()
}

fn remove(env: &Env) -> (Option<i32>, HostRemoval) {
    let (code, printed) = mcd(env, "host-remove").unwrap();
    (code, HostRemoval::parse(&printed).unwrap())
}

/// Refs of the repository, but for those that libostree writes for its deployments.
fn refs(env: &Env) -> Result<String> {
    let list = "cd /ostree/repo/refs/heads && find . -type f | grep -v '^./ostree/[01]/' | sort";
    env.host.run(["sh", "-c", list])
}

/// What Slipway could have left: the booted `/etc`, what is shared, and boot entries.
fn traces(env: &Env) -> Result<Vec<(&'static str, Tree)>> {
    let (var, sysroot) = (env.host.var(), env.host.sysroot());
    Ok(vec![
        (
            "/etc",
            files::read(&env.host.etc_of_booted()?, Files::Whole, &[])?,
        ),
        (
            "/var/lib",
            files::read(&var.join("lib"), Files::Whole, &OF_OTHERS)?,
        ),
        (
            "/boot",
            files::read(&sysroot.join("boot/loader/entries"), Files::Whole, &[])?,
        ),
    ])
}

fn differences(env: &Env, before: &[(&'static str, Tree)]) -> Vec<String> {
    let now = traces(env).unwrap();
    let pairs = now.iter().zip(before);
    pairs
        .flat_map(|((shown, now), (_, before))| files::differences(shown, now, before))
        .collect()
}

#[test]
#[ignore = "needs the lab"]
fn a_host_is_checked_and_nothing_is_changed() {
    let env = Env::untouched().unwrap();
    let before = traces(&env).unwrap();
    for check in [
        HostCheck::Ostree,
        HostCheck::Libraries,
        HostCheck::Systemd,
        HostCheck::Skopeo,
        HostCheck::Updaters,
        HostCheck::Architecture,
    ] {
        let finding = finding(&env, check);
        assert_eq!(finding.result, HostVerdict::Ok, "{finding:?}");
    }
    // No cluster has configured it.
    let record = finding(&env, HostCheck::Record);
    assert_eq!(record.result, HostVerdict::Missing, "{record:?}");
    assert_eq!(differences(&env, &before), [""; 0]);
}

#[test]
#[ignore = "needs the lab"]
fn a_library_that_the_host_lacks_is_named() {
    let host_lab = HostLab::new().unwrap();
    let library = "libostree-1.so.1";
    let path = format!("/usr/lib/x86_64-linux-gnu/{library}");
    let os = Overlay::version("lacking").without(&path);
    let os = host_lab.tree.commit(&os).unwrap();
    let env = Env::untouched_of(host_lab, &os).unwrap();
    let libraries = finding(&env, HostCheck::Libraries);
    assert_eq!(libraries.result, HostVerdict::Missing);
    assert!(libraries.message.contains(library), "{libraries:?}");

    // Where the helper cannot run, it has left nothing, and the rest is removed.
    let before = traces(&env).unwrap();
    env.host
        .run(["mkdir", "-p", "/var/lib/slipway/bin/0123"])
        .unwrap();
    let (code, removal) = remove(&env);
    assert_eq!(
        (code, removal.outcome),
        (Some(0), HostRemovalOutcome::Removed)
    );
    assert!(
        removal.reasons[0].contains("mcd-os does not run"),
        "{removal:?}"
    );
    assert_eq!(differences(&env, &before), [""; 0]);
}

#[test]
#[ignore = "needs the lab"]
fn what_was_installed_is_removed_and_nothing_else() {
    let env = Env::untouched().unwrap();
    let (before, refs_before) = (traces(&env).unwrap(), refs(&env).unwrap());
    env.host
        .run([MCD_OS_BROUGHT, "guard", "--install"])
        .unwrap();
    let os = env.push(&Overlay::version("second")).unwrap();
    env.expect(0, &["fetch", &os]).unwrap();
    assert_ne!(differences(&env, &before), [""; 0]);
    assert_ne!(refs(&env).unwrap(), refs_before);

    let (code, removal) = remove(&env);
    assert_eq!(code, Some(0), "{removal:?}");
    assert_eq!(removal.outcome, HostRemovalOutcome::Removed);
    let kept = format!("kept image {os}");
    for what in ["/var/lib/slipway", &kept] {
        assert!(removal.removed.iter().any(|it| it == what), "{removal:?}");
    }
    assert_eq!(differences(&env, &before), [""; 0]);
    assert_eq!(refs(&env).unwrap(), refs_before);
    env.host.run(["test", "!", "-e", "/run/slipway"]).unwrap();

    // Nothing is there any more.
    let (code, removal) = remove(&env);
    assert_eq!(code, Some(0));
    assert_eq!((removal.reasons, removal.removed), (vec![], vec![]));
    assert_eq!(differences(&env, &before), [""; 0]);
}

/// Runs the removal, and kills it after so many milliseconds, unless it has ended.
fn remove_killed(env: &Env, after_ms: u32) {
    let after = format!("0.{after_ms:03}");
    let words = ["timeout", "--signal=KILL", &after, MCD, "host-remove"];
    let arguments = ["--root-mount", "/", "--helper", MCD_OS_BROUGHT];
    drop(env.host.exec([&words[..], &arguments].concat()));
}

#[test]
#[ignore = "needs the lab"]
fn a_removal_that_is_killed_is_resumed_also_after_a_boot() {
    let env = Env::untouched().unwrap();
    let before = traces(&env).unwrap();
    let install = || {
        env.host
            .run([MCD_OS_BROUGHT, "guard", "--install"])
            .unwrap()
    };
    for after_ms in [5, 20, 50, 100, 150, 200, 300, 500] {
        install();
        remove_killed(&env, after_ms);
        let (code, removal) = remove(&env);
        assert_eq!(code, Some(0), "{removal:?}");
        assert_eq!(differences(&env, &before), [""; 0], "{after_ms} ms");
    }
    install();
    remove_killed(&env, 150);
    env.host.reboot().unwrap();
    assert_eq!(failed_units(&env.host), "");
    let (code, removal) = remove(&env);
    assert_eq!(code, Some(0), "{removal:?}");
    assert_eq!(differences(&env, &before), [""; 0]);
}

#[test]
#[ignore = "needs the lab"]
fn an_update_under_way_is_not_removed_and_a_complete_one_leaves_both_deployments() {
    let env = Env::new().unwrap();
    let os = env.push(&Overlay::version("second")).unwrap();
    env.switch(&configs::to_full("a1", &os).unwrap()).unwrap();
    let (code, removal) = remove(&env);
    assert_eq!(
        (code, removal.outcome),
        (Some(1), HostRemovalOutcome::Refused)
    );
    assert!(removal.reasons[0].contains("a1"), "{removal:?}");
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");

    let (code, removal) = remove(&env);
    assert_eq!(code, Some(0), "{removal:?}");
    let entries = env.entries().unwrap();
    assert_eq!(entries.len(), 2);
    let units = [
        "sh",
        "-c",
        "ls -d /ostree/deploy/*/deploy/*/etc/systemd/system/*slipway* || true",
    ];
    assert_eq!(env.host.run(units).unwrap(), "");
    // Each of them boots without Slipway.
    let booted = env
        .host
        .boots()
        .pop()
        .context("no boot")
        .unwrap()
        .deployment;
    env.host.reboot().unwrap();
    let again = env
        .host
        .boots()
        .pop()
        .context("no boot")
        .unwrap()
        .deployment;
    assert_eq!(again, booted);
    assert_eq!(failed_units(&env.host), "");
}

/// Slipway's units that have failed, a line each.
fn failed_units(host: &Host) -> String {
    let list = ["list-units", "--failed", "--no-legend", "slipway-*"];
    host.run(["systemctl"].into_iter().chain(list)).unwrap()
}
