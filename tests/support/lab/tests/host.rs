//! A host of the lab behaves as a machine with ostree does.
//!
//! Each test needs root, and the operating system's tree, which the first run builds.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::File;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use lab::host::{BOOTED_WITHIN, DiskCache, End, Host, HostSpec};
use lab::tree::{Overlay, Tree};
use lab::wait::until_blocking;
use lab::{Lab, PATIENCE};

/// Time between two polls of a host.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// A started host `node` of the base commit, and the tree it is from.
fn booted() -> (Tree, Host) {
    let tree = Tree::ready().unwrap();
    let lab = Lab::create().unwrap();
    let mut host = Host::create(&lab, HostSpec::new("node", tree.base())).unwrap();
    host.start().unwrap();
    host.wait_booted(BOOTED_WITHIN).unwrap();
    (tree, host)
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn a_booted_host_knows_its_deployment() {
    let (tree, host) = booted();
    let status = host.run(["ostree", "admin", "status"]).unwrap();
    assert!(
        status.starts_with(&format!("* slipway {}.0", tree.base().checksum)),
        "{status}"
    );
    assert_eq!(
        host.run(["systemctl", "is-system-running"]).unwrap(),
        "running"
    );
    assert_eq!(host.run(["hostname"]).unwrap(), "node");

    let boot = host.boots().pop().unwrap();
    let id = host
        .run(["cat", "/proc/sys/kernel/random/boot_id"])
        .unwrap();
    assert_eq!(id, boot.id);
    let options = host.run(["cat", "/proc/cmdline"]).unwrap();
    assert!(
        options.starts_with("root=LABEL=root rw console=ttyS0 ostree=/ostree/boot."),
        "{options}"
    );
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn what_is_read_only_on_a_machine_is_read_only_here() {
    let (_tree, host) = booted();
    for dir in ["/usr", "/sysroot", "/boot"] {
        let output = host.exec(["touch", &format!("{dir}/x")]).unwrap();
        assert!(
            output.stderr.contains("Read-only file system"),
            "{dir}: {output:?}"
        );
    }
    for dir in ["/etc", "/var", "/home/core", "/usr/local/bin", "/root"] {
        host.run(["touch", &format!("{dir}/x")]).unwrap();
    }
    // A mount namespace of one's own may remount, and no other process sees it.
    let script = "mount -o remount,rw /sysroot && touch /sysroot/x && rm /sysroot/x";
    host.run(["unshare", "--mount", "sh", "-c", script])
        .unwrap();
    assert_ne!(host.exec(["touch", "/sysroot/x"]).unwrap().code, Some(0));
    // The file system itself can be remounted without a trace outside.
    host.run(["unshare", "--mount", "mount", "-o", "remount,ro", "/boot"])
        .unwrap();
    // The deployment's own directory is immutable, and root may change that.
    assert_ne!(host.exec(["touch", "/x"]).unwrap().code, Some(0));
    host.run([
        "sh",
        "-c",
        "chattr -i / && touch /x && rm /x && chattr +i /",
    ])
    .unwrap();
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn a_reboot_by_logind_is_another_boot_of_the_same_host() {
    let (_tree, host) = booted();
    host.run(["touch", "/etc/kept", "/run/lost"]).unwrap();
    let again = host.reboot().unwrap();
    host.run(["test", "-e", "/etc/kept"]).unwrap();
    host.run(["test", "!", "-e", "/run/lost"]).unwrap();

    let boots = host.boots();
    assert_eq!(boots.len(), 2);
    assert_eq!(boots[0].ended.unwrap().1, End::Reboot);
    assert_ne!(boots[0].id, again.id);
    assert_eq!(boots[0].deployment, again.deployment);
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn each_boot_begins_its_uptime() {
    let up = |host: &Host| -> f64 {
        let uptime = host.run(["cat", "/proc/uptime"]).unwrap();
        uptime.split(' ').next().unwrap().parse().unwrap()
    };
    let check = |host: &Host, begun: Instant| {
        let first = up(host);
        // Whole seconds are taken off the clock.
        let at_most = begun.elapsed().as_secs_f64() + 1.0;
        assert!(first < at_most, "{first} s, {at_most:.1} s after the begin");
        // By systemd's own clock, in microseconds.
        let shown = [
            "systemctl",
            "show",
            "--property=UserspaceTimestampMonotonic",
        ];
        let systemd = host.run(shown).unwrap();
        let systemd: f64 = systemd.split('=').nth(1).unwrap().parse().unwrap();
        assert!(systemd / 1e6 < first, "systemd began after {systemd} us");
        until_blocking("the uptime to advance", PATIENCE, POLL_EVERY, || {
            let now = up(host);
            Ok(if now > first {
                Ok(())
            } else {
                Err(now.to_string())
            })
        })
        .unwrap();
    };
    let begun = Instant::now();
    let (_tree, host) = booted();
    check(&host, begun);
    let begun = Instant::now();
    host.reboot().unwrap();
    check(&host, begun);
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn suites_of_openshift_find_its_user_and_its_container_runtime() {
    let (_tree, host) = booted();
    let shadow = host.run(["getent", "shadow", "core"]).unwrap();
    assert_eq!(shadow.split(':').nth(1), Some("*"), "{shadow}");
    assert_eq!(
        host.run(["systemctl", "is-active", "crio"]).unwrap(),
        "active"
    );
    for verb in ["reload", "restart"] {
        host.run(["systemctl", verb, "crio"]).unwrap();
    }
    host.run(["journalctl", "--sync"]).unwrap();
    let log = host
        .run(["journalctl", "--unit=crio", "--output=cat"])
        .unwrap();
    assert!(log.lines().any(|line| line == "reloaded"), "{log}");
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn a_program_run_from_outside_keeps_no_host_from_rebooting() {
    let (_tree, host) = booted();
    let mut sleeping = host.command("sleep").unwrap().arg("1000").spawn().unwrap();
    host.reboot().unwrap();
    assert!(!sleeping.wait().unwrap().success());
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn a_deployed_commit_is_booted_next() {
    let (tree, host) = booted();
    let overlay = Overlay::version("v2").another_kernel().owned_file(
        "/usr/etc/chrony/key",
        "1 secret\n",
        0o640,
        (0, 970),
    );
    let v2 = tree.commit(&overlay).unwrap();
    host.pull(&v2).unwrap();
    host.run(["sh", "-c", "echo mine >/etc/mine"]).unwrap();
    host.run(["ostree", "admin", "deploy", "--karg=added", &v2.checksum])
        .unwrap();

    let boot = host.reboot().unwrap();
    assert_eq!(boot.deployment.checksum, v2.checksum);
    assert!(boot.options.ends_with(" added"), "{}", boot.options);
    assert_eq!(host.run(["cat", "/etc/mine"]).unwrap(), "mine");
    assert_eq!(
        host.run(["stat", "-c", "%a %U:%G", "/etc/chrony/key"])
            .unwrap(),
        "640 root:chrony"
    );
    let release = host.run(["cat", "/etc/os-release"]).unwrap();
    assert!(release.contains("OSTREE_VERSION='v2'"), "{release}");
    let entries = host.entries().unwrap();
    assert_eq!(entries.len(), 2);
    assert_ne!(entries[0].linux, entries[1].linux);
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn a_target_whose_kubelet_fails_is_up_all_the_same() {
    let (tree, host) = booted();
    // Without credentials it is not started, which is no failure.
    assert_eq!(
        host.exec(["systemctl", "is-failed", "kubelet"])
            .unwrap()
            .stdout,
        "inactive\n"
    );
    let bad = tree
        .commit(&Overlay::version("bad").failing_kubelet())
        .unwrap();
    host.pull(&bad).unwrap();
    host.run(["ostree", "admin", "deploy", &bad.checksum])
        .unwrap();
    host.reboot().unwrap();
    assert_eq!(
        host.run(["systemctl", "is-failed", "kubelet"]).unwrap(),
        "failed"
    );
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn a_killed_host_stays_down_until_it_is_started() {
    let (_tree, mut host) = booted();
    let mut sleeping = host.command("sleep").unwrap().arg("1000").spawn().unwrap();
    host.run(["touch", "/var/kept"]).unwrap();
    host.kill().unwrap();
    assert!(!sleeping.wait().unwrap().success());
    assert!(!host.is_on());
    assert_eq!(host.boots()[0].ended.unwrap().1, End::Killed);
    assert!(host.exec(["true"]).is_err());

    host.start().unwrap();
    host.wait_booted_after(1, BOOTED_WITHIN).unwrap();
    host.run(["test", "-e", "/var/kept"]).unwrap();
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn a_host_that_powers_off_stays_off() {
    let (_tree, mut host) = booted();
    // Its answer may be lost on the way down.
    host.exec(["systemctl", "poweroff"]).unwrap();
    host.wait_off(PATIENCE).unwrap();
    assert_eq!(host.boots()[0].ended.unwrap().1, End::PowerOff);

    host.start().unwrap();
    host.wait_booted_after(1, BOOTED_WITHIN).unwrap();
    host.stop().unwrap();
    assert_eq!(host.boots()[1].ended.unwrap().1, End::PowerOff);
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn hosts_reach_each_other_and_nothing_else() {
    let tree = Tree::ready().unwrap();
    let lab = Lab::create().unwrap();
    let mut hosts =
        ["a", "b"].map(|name| Host::create(&lab, HostSpec::new(name, tree.base())).unwrap());
    for host in &mut hosts {
        host.start().unwrap();
    }
    for host in &hosts {
        host.wait_booted(BOOTED_WITHIN).unwrap();
    }
    let routes = hosts[0].run(["ip", "-4", "route"]).unwrap();
    assert_eq!(routes.lines().count(), 1, "{routes}");
    let to = format!("/dev/tcp/{}/9", hosts[1].address());
    let refused = |output: lab::host::Output| output.stderr.contains("Connection refused");
    let connect = |host: &Host| host.exec(["bash", "-c", &format!("exec 3<>{to}")]).unwrap();
    assert!(refused(connect(&hosts[0])));
    hosts[1].connect(false).unwrap();
    let unreachable = hosts[0]
        .exec(["timeout", "1", "bash", "-c", &format!("exec 3<>{to}")])
        .unwrap();
    assert!(!refused(unreachable));
}

#[test]
#[ignore = "needs root"]
fn a_lab_that_is_removed_looks_alive_as_long_as_another_may_sweep() {
    let lab = Lab::create().unwrap();
    let dir = lab.dir().to_owned();
    for file in 0..100 {
        File::create_new(dir.join(file.to_string())).unwrap();
    }
    let turn = File::create(dir.with_file_name("turn")).unwrap();
    turn.lock().unwrap();
    let is_locked = || File::open(dir.join("alive")).map(|file| file.try_lock().is_err());
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| drop(lab));
        let until = Instant::now() + PATIENCE;
        while dir.read_dir().unwrap().count() > 1 {
            assert!(Instant::now() < until, "it is not emptied");
            std::thread::yield_now();
        }
        assert!(is_locked().unwrap(), "it looks dead");
        turn.unlock().unwrap();
        removal.join().unwrap();
    });
    turn.lock().unwrap();
    // Another may have its name by now.
    assert!(!dir.exists() || is_locked().unwrap(), "it is not removed");
}

#[test]
#[ignore = "needs root"]
fn labs_that_come_and_go_at_the_same_time_leave_each_other_alone() {
    let files: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    let come_and_go = || {
        for _ in 0..8 {
            let lab = Lab::create().unwrap();
            for file in &files {
                File::create_new(lab.dir().join(file)).unwrap();
            }
            for file in &files {
                assert!(lab.dir().join(file).exists(), "{file} is gone");
            }
            // The lab that had this number before has not removed the bridge.
            TcpListener::bind((lab.address(), 5000)).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(come_and_go);
        }
    });
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn a_commit_without_a_kernel_cannot_be_deployed() {
    let (tree, host) = booted();
    let bad = tree
        .commit(&Overlay::version("bad").without_kernel())
        .unwrap();
    host.pull(&bad).unwrap();
    let output = host
        .exec(["ostree", "admin", "deploy", &bad.checksum])
        .unwrap();
    assert_ne!(output.code, Some(0));
    assert!(
        output.stderr.to_lowercase().contains("kernel"),
        "{}",
        output.stderr
    );
}

#[test]
#[ignore = "needs root, debootstrap tree, mkfs.xfs"]
fn a_host_goes_on_from_a_snapshot_as_if_it_had_been_killed_then() {
    let tree = Tree::ready().unwrap();
    let lab = Lab::create().unwrap();
    let disk_cache = DiskCache::create(&lab).unwrap();
    let mut host = Host::create(&lab, HostSpec::new("node", tree.base()).on(&disk_cache)).unwrap();
    host.start().unwrap();
    host.wait_booted(BOOTED_WITHIN).unwrap();
    host.run(["sh", "-c", "echo before >/etc/when"]).unwrap();
    let snapshot = host.snapshot().unwrap();
    host.run(["sh", "-c", "echo after >/etc/when"]).unwrap();
    host.restore(&snapshot).unwrap_err();
    host.kill().unwrap();

    let spec = HostSpec::new("other", tree.base()).on(&disk_cache);
    let mut other = Host::create(&lab, spec).unwrap();
    for host in [&mut host, &mut other] {
        host.restore(&snapshot).unwrap();
        host.start().unwrap();
        host.wait_booted(BOOTED_WITHIN).unwrap();
        assert_eq!(host.run(["cat", "/etc/when"]).unwrap(), "before");
    }
}
