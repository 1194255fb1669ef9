//! Updates that go through a reboot.

use lab::host::BOOTED_WITHIN;
use lab::tree::Overlay;
use node_update::plan::Expectation;
use serde_json::json;
use testbed::config::{Config, File};
use testbed::{HostLab, single_host};

use super::configs::{self, SHADOWED};
use super::env::{Env, differences};

/// The OS that a host starts with: it ships a file that configurations have their own of.
fn first_os() -> Overlay {
    Overlay::version("first").file("/usr/etc/managed/shadowed.conf", "of the first OS\n", 0o644)
}

fn second_os() -> Overlay {
    Overlay::version("second")
        .another_kernel()
        .file(
            "/usr/etc/managed/shadowed.conf",
            "of the second OS\n",
            0o640,
        )
        .owned_file("/usr/etc/new-in-second", "new\n", 0o640, (0, 970))
}

fn env() -> Env {
    let host_lab = HostLab::new().unwrap();
    let first = host_lab.tree.commit(&first_os()).unwrap();
    Env::of(host_lab, &first, |spec, _| spec.argument("quiet")).unwrap()
}

#[test]
#[ignore = "needs the lab"]
fn another_os_than_the_configurations_is_found_by_verify() {
    let env = env();
    let (first, second) = (
        env.push(&second_os()).unwrap(),
        env.push(&Overlay::version("by-hand")).unwrap(),
    );
    let (none, full) = (configs::none().unwrap(), configs::full(&first).unwrap());
    env.switch(&configs::plan("a1", &none, &full).unwrap())
        .unwrap();
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");
    env.expect(0, &["verify"]).unwrap();

    // As a tool would that knows nothing of configurations: the record comes along with /etc.
    let booted = env.host.boots().pop().unwrap().deployment;
    let origin = env
        .host
        .deployment_dir(&booted)
        .with_file_name(format!("{booted}.origin"));
    let text = std::fs::read_to_string(&origin).unwrap();
    assert!(text.contains(&first), "{text}");
    #[expect(clippy::disallowed_methods, reason = "a tool that is not ours")]
    std::fs::write(&origin, text.replace(&first, &second)).unwrap();

    let printed = env.expect(1, &["verify"]).unwrap().reasons();
    let expected = format!("expected target osImageURL \"{first}\", have \"{second}\"");
    assert!(printed.starts_with(&expected), "{printed}");
}

#[test]
#[ignore = "needs the lab"]
fn what_others_write_in_etc_goes_with_the_host_and_back() {
    // The checks never hold, so that there is time before the way back.
    let env = env();
    let os = env.push(&second_os().failing_kubelet()).unwrap();
    let (none, full) = (configs::none().unwrap(), configs::full(&os).unwrap());
    let mut plan = configs::plan("a1", &none, &full).unwrap();
    let unit = "kubelet.service".to_owned();
    plan.plan.expect.push(Expectation::Runs { unit });
    let run = |script: &str| env.host.run(["sh", "-c", script]).unwrap();
    let is_there = |path: &str| env.host.exec(["test", "-e", path]).unwrap().code == Some(0);
    run(
        "echo early | tee /etc/early /etc/gone; mkdir /etc/managed; echo mine >/etc/managed/secret",
    );
    env.switch(&plan).unwrap();
    run(
        "mkdir -m 0710 /etc/pki-late; cd /etc/pki-late; echo late >cert; chown 12:34 cert
         chmod 2640 cert; ln cert same; ln -s cert link
         echo edited >/etc/early; rm /etc/gone; useradd --system late
         echo edited >/etc/managed/secret",
    );
    env.host.reboot().unwrap();
    assert_eq!(env.view().unwrap()["journal"]["stage"], "booted");

    assert_eq!(run("cat /etc/early /etc/pki-late/link"), "edited\nlate");
    assert_eq!(
        run("stat -c %a:%u:%g:%h /etc/pki-late/same"),
        "2640:12:34:2"
    );
    assert_eq!(run("stat -c %a:%u:%g /etc/pki-late"), "710:0:0");
    assert!(!is_there("/etc/gone"), "it is there again");
    run("getent passwd late");
    let kept = "/var/lib/slipway/late/etc/managed/secret";
    assert_eq!(
        run(&format!("cat /etc/managed/secret {kept}")),
        "secretedited"
    );
    let printed = run("journalctl -b -o cat -u slipway-guard");
    let line = |id: &str| {
        let line = printed.lines().find(|line| line.contains(id));
        line.unwrap_or_else(|| panic!("nothing of {id} in:\n{printed}"))
    };
    assert!(
        line("LateChanges").contains("/etc/pki-late/cert"),
        "{printed}"
    );
    assert!(
        line("LateChanges").contains("removed=\"/etc/gone\""),
        "{printed}"
    );
    assert!(
        line("LateConflict").contains("path=\"/etc/managed/secret\""),
        "{printed}"
    );

    // The way back: what was written since the switch, and not what the target brought.
    run("echo since >/etc/since; echo again >/etc/early; rm /etc/pki-late/link");
    env.expect(4, &["rollback"]).unwrap();
    assert_eq!(env.reboot().unwrap()["outcome"], "rolled-back");
    assert_eq!(run("cat /etc/since /etc/early"), "since\nagain");
    assert!(!is_there("/etc/pki-late/link") && is_there("/etc/pki-late/cert"));
    assert_eq!(
        run("cat /etc/managed/secret"),
        "edited",
        "a target's file came along"
    );
    run("getent passwd late");
}

#[test]
#[ignore = "needs the lab"]
fn an_update_with_everything_is_verified_after_one_reboot() {
    let env = env();
    let os = env.push(&second_os()).unwrap();
    let plan = configs::to_full("a1", &os).unwrap();
    env.host
        .run(["sh", "-c", "echo mine >/etc/unmanaged"])
        .unwrap();
    env.switch(&plan).unwrap();
    let last = env.reboot().unwrap();
    assert_eq!(
        (&last["attempt"], &last["outcome"]),
        (&json!("a1"), &json!("proved")),
        "{last}"
    );

    let stat = |path: &str| env.stat(path).unwrap();
    let is = |stat: &str, bytes: &str| (stat.to_owned(), bytes.to_owned());
    assert_eq!(
        stat("/etc/managed/secret"),
        is("600 chrony:chrony", "secret")
    );
    assert_eq!(
        stat("/etc/managed/packed"),
        is("644 root:root", "packed content")
    );
    assert_eq!(stat(SHADOWED), is("600 root:root", "of the configuration"));
    assert_eq!(stat("/home/core/notes"), is("640 core:core", "at home"));
    assert_eq!(
        stat("/usr/local/bin/tool"),
        is("755 root:root", "#!/bin/sh")
    );
    assert_eq!(stat("/var/lib/managed/data"), is("644 root:root", "data"));
    assert_eq!(stat("/etc/new-in-second"), is("640 root:chrony", "new"));
    assert_eq!(stat("/etc/unmanaged"), is("644 root:root", "mine"));
    let owner = env
        .host
        .run(["stat", "--format=%u:%g", "/etc/managed/static-owner"])
        .unwrap();
    assert_eq!(owner, "971:971", "an account only in /usr/lib/passwd");

    let keys = "/home/core/.ssh/authorized_keys.d/ignition";
    assert_eq!(stat(keys), is("600 core:core", "ssh-ed25519 AAAA core@lab"));
    let ssh = env
        .host
        .run(["stat", "--format=%a %U", "/home/core/.ssh"])
        .unwrap();
    assert_eq!(ssh, "700 core");
    let shadow = env.host.run(["getent", "shadow", "core"]).unwrap();
    assert!(shadow.starts_with("core:$6$salt$hash:"), "{shadow}");

    let command_line = env.host.run(["cat", "/proc/cmdline"]).unwrap();
    assert!(command_line.contains(" slipway.test=1"), "{command_line}");
    assert!(command_line.contains("quiet"), "{command_line}");
    let enabled = |unit| {
        env.host
            .exec(["systemctl", "is-enabled", unit])
            .unwrap()
            .stdout
    };
    assert_eq!(enabled("own.service"), "enabled\n");
    assert_eq!(enabled("fstrim.timer"), "masked\n");
    env.host
        .run(["systemctl", "is-active", "own.service", "kubelet.service"])
        .unwrap();
    let environment = ["systemctl", "show", "--property=Environment", "own.service"];
    assert_eq!(env.host.run(environment).unwrap(), "Environment=MORE=1");
    assert_eq!(
        env.host.run(["systemctl", "is-system-running"]).unwrap(),
        "running"
    );

    let moment = |unit: &str, of: &str| -> u64 {
        let property = format!("--property={of}Monotonic");
        let show = ["systemctl", "show", "--value", &property, unit];
        env.host.run(show).unwrap().parse().unwrap()
    };
    let guarded = moment("slipway-guard.service", "ExecMainExitTimestamp");
    let started = moment("kubelet.service", "ExecMainStartTimestamp");
    assert!(
        0 < guarded && guarded <= started,
        "the guard ended at {guarded} us, the kubelet started at {started} us"
    );

    let view = env.view().unwrap();
    assert_eq!(view["booted"]["config"], "rendered-full");
    assert_eq!(view["booted"]["version"], "second");
    assert_eq!(view["booted"]["os_image"], json!(os));
    assert_eq!(view["rollback"]["version"], "first");
    assert_eq!(view["next"], json!(null));
    env.expect(0, &["verify"]).unwrap();
    let plans = env.host.run(["ls", "/var/lib/slipway/plans"]).unwrap();
    assert_eq!(plans, "", "secrets of the plan stay nowhere");
}

/// An OS that notes right before and right after the guard which version of the script is there.
fn noting_os(version: &str) -> Overlay {
    let notes = |order: &str, file: &str| {
        format!(
            "[Unit]\nDefaultDependencies=no\n{order}\n[Service]\nType=oneshot\n\
             ExecStart=-/bin/sh -c 'mkdir -p /run/notes; cp /usr/local/bin/early /run/notes/{file}'\n"
        )
    };
    let before = notes(
        "After=local-fs.target\nBefore=slipway-guard.service",
        "before",
    );
    let after = notes(
        "After=slipway-guard.service\nBefore=sysinit.target early-free.service",
        "after",
    );
    let units = "/usr/lib/systemd/system";
    ["before", "after"].into_iter().zip([before, after]).fold(
        Overlay::version(version),
        |os, (name, text)| {
            os.file(&format!("{units}/note-{name}.service"), text, 0o644)
                .link(
                    &format!("{units}/sysinit.target.wants/note-{name}.service"),
                    &format!("../note-{name}.service"),
                )
        },
    )
}

#[test]
#[ignore = "needs the lab"]
fn no_unit_starts_on_the_files_of_another_configuration() {
    let host_lab = HostLab::new().unwrap();
    let os = host_lab.tree.commit(&noting_os("first")).unwrap();
    let hasty = |spec, _: &_| single_host::proved_within(spec, 3);
    let env = Env::of(host_lab, &os, hasty).unwrap();
    let started = || {
        let command = configs::early_in_this_boot();
        env.host.run(["sh", "-c", &command]).unwrap()
    };
    // The version of the script right before and right after the guard.
    let noted = |which: &str| {
        let path = format!("/run/notes/{which}");
        env.host.exec(["cat", &path]).unwrap().stdout
    };
    let first = configs::only_early("one", configs::FIRST_OS).unwrap();
    let second = configs::only_early("two", configs::FIRST_OS).unwrap();
    env.switch(&configs::plan("a1", &configs::none().unwrap(), &first).unwrap())
        .unwrap();
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");
    assert_eq!(started(), configs::all_early("one"));
    env.switch(&configs::plan("a2", &first, &second).unwrap())
        .unwrap();
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");
    assert_eq!(started(), configs::all_early("two"));
    assert!(noted("before").contains("$2 one\""), "{}", noted("before"));
    assert!(noted("after").contains("$2 two\""), "{}", noted("after"));

    // And back, from a target that does not hold.
    let third = env.push(&noting_os("third").failing_kubelet()).unwrap();
    let third = configs::only_early("three", &third).unwrap();
    let mut plan = configs::plan("a3", &second, &third).unwrap();
    plan.plan.expect.push(Expectation::Runs {
        unit: "kubelet.service".to_owned(),
    });
    let seen = env.host.boots().len();
    env.switch(&plan).unwrap();
    env.host.reboot().unwrap();
    env.host.wait_booted_after(seen + 1, BOOTED_WITHIN).unwrap();
    assert_eq!(env.wait_ended().unwrap()["outcome"], "rolled-back");
    assert_eq!(started(), configs::all_early("two"));
    assert!(
        noted("before").contains("$2 three\""),
        "{}",
        noted("before")
    );
    assert!(noted("after").contains("$2 two\""), "{}", noted("after"));
}

#[test]
#[ignore = "needs the lab"]
fn a_restored_file_is_that_of_the_new_os_and_counts_as_unchanged() {
    let env = env();
    let full = configs::full(configs::FIRST_OS).unwrap();
    env.switch(&configs::plan("a1", &configs::none().unwrap(), &full).unwrap())
        .unwrap();
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");

    let os = env.push(&second_os()).unwrap();
    let bare = Config::new().os(&os).rendered("rendered-bare").unwrap();
    env.switch(&configs::plan("a2", &full, &bare).unwrap())
        .unwrap();
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");

    let shadowed = ("640 root:root".to_owned(), "of the second OS".to_owned());
    assert_eq!(env.stat(SHADOWED).unwrap(), shadowed);
    let diff = env.host.run(["ostree", "admin", "config-diff"]).unwrap();
    for gone in ["managed", "own.service", "system/fstrim"] {
        assert!(!diff.contains(gone), "{gone}: {diff}");
    }
    for gone in [
        "/home/core/notes",
        "/usr/local/bin/tool",
        "/var/lib/managed/data",
    ] {
        env.host.run(["test", "!", "-e", gone]).unwrap();
    }
    let command_line = env.host.run(["cat", "/proc/cmdline"]).unwrap();
    assert!(!command_line.contains("slipway.test"), "{command_line}");
}

#[test]
#[ignore = "needs the lab"]
fn until_it_is_applied_nothing_of_an_update_is_on_the_host_to_boot() {
    let env = env();
    let os = env.push(&second_os()).unwrap();
    let plan = configs::to_full("a1", &os).unwrap();
    let (before, entries) = (env.snapshot().unwrap(), env.entries().unwrap());
    env.expect(0, &["fetch", &os]).unwrap();
    let directory = env.put(&plan).unwrap();
    env.expect(0, &["rehearse", &directory]).unwrap();
    assert_eq!(env.entries().unwrap(), entries);
    assert_eq!(env.deployments_on_disk().unwrap(), 1);
    assert_eq!(differences(&before, &env.snapshot().unwrap()), [""; 0]);
    env.host
        .run(["systemctl", "is-active", "kubelet.service"])
        .unwrap();

    let booted = env.host.boots().pop().unwrap().deployment;
    env.host.reboot().unwrap();
    assert_eq!(env.host.boots().pop().unwrap().deployment, booted);
    assert_eq!(env.entries().unwrap(), entries);
}

#[test]
#[ignore = "needs the lab"]
fn the_kubelet_is_stopped_for_the_merge_and_a_second_apply_changes_nothing() {
    let env = env();
    let os = env.push(&second_os()).unwrap();
    let plan = configs::to_full("a1", &os).unwrap();
    env.switch(&plan).unwrap();
    assert_ne!(
        env.host
            .exec(["systemctl", "is-active", "kubelet.service"])
            .unwrap()
            .code,
        Some(0)
    );
    // If no program went on, the kubelet would be started by this timer.
    env.host
        .run(["systemctl", "is-active", "slipway-kubelet-a1.timer"])
        .unwrap();
    let entries = env.entries().unwrap();
    assert_eq!(entries.len(), 2);
    env.expect(4, &["apply", "/var/lib/slipway/plans/a1"])
        .unwrap();
    assert_eq!(env.entries().unwrap(), entries);
    let view = env.view().unwrap();
    assert_eq!(view["journal"]["stage"], "switched");
    assert_eq!(view["next"]["config"], "rendered-full");
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");
    env.host
        .run(["systemctl", "is-active", "kubelet.service"])
        .unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn an_account_new_in_the_os_is_there_though_the_host_has_added_its_own() {
    let env = env();
    let passwd = env.host_lab.tree.read("/usr/etc/passwd").unwrap();
    let group = env.host_lab.tree.read("/usr/etc/group").unwrap();
    let with = |text: Vec<u8>, line: &str| [text, line.as_bytes().to_vec()].concat();
    let overlay = second_os()
        .file(
            "/usr/etc/passwd",
            with(passwd, "newd:x:880:880::/:/usr/sbin/nologin\n"),
            0o644,
        )
        .file("/usr/etc/group", with(group, "newd:x:880:\n"), 0o644);
    let os = env.push(&overlay).unwrap();
    env.host.run(["useradd", "--uid", "2000", "admin"]).unwrap();
    let file = File::new("/etc/managed/of-newd", "x")
        .mode(0o600)
        .owner("newd");
    let to = Config::new().os(&os).files([file]);
    let to = to.rendered("rendered-newd").unwrap();
    env.switch(&configs::plan("a1", &configs::none().unwrap(), &to).unwrap())
        .unwrap();
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");
    assert_eq!(env.stat("/etc/managed/of-newd").unwrap().0, "600 newd:newd");
    env.host.run(["id", "admin"]).unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_full_boot_is_freed_of_the_deployment_before_the_booted_one() {
    let host_lab = HostLab::new().unwrap();
    let (base, two) = (
        host_lab.tree.base().clone(),
        host_lab.tree.boot_bytes(2).unwrap(),
    );
    let env = Env::of(host_lab, &base, |spec, _| spec.boot_bytes(two)).unwrap();
    let mut from = configs::none().unwrap();
    for version in ["2", "3"] {
        let os = env
            .push(&Overlay::version(version).another_kernel())
            .unwrap();
        let name = format!("rendered-{version}");
        let to = Config::new().os(&os).rendered(&name).unwrap();
        env.switch(&configs::plan(&format!("a{version}"), &from, &to).unwrap())
            .unwrap();
        assert_eq!(env.reboot().unwrap()["outcome"], "proved");
        from = to;
    }
    let view = env.view().unwrap();
    assert_eq!(
        (&view["booted"]["version"], &view["rollback"]["version"]),
        (&json!("3"), &json!("2"))
    );
    // What its owner pinned is not dropped.
    let pin = "unshare --mount sh -c 'mount -o remount,rw /sysroot; ostree admin pin 1'";
    env.host.run(["sh", "-c", pin]).unwrap();
    let fourth = env.push(&Overlay::version("4").another_kernel()).unwrap();
    let ran = env.expect(3, &["fetch", &fourth]).unwrap();
    assert!(ran.reasons().contains("bytes in /boot"), "{ran:?}");
    assert_eq!(env.view().unwrap()["rollback"]["version"], "2");
}

#[test]
#[ignore = "needs the lab"]
fn a_host_that_dies_while_it_waits_for_its_reboot_boots_the_target() {
    let mut env = env();
    let os = env.push(&second_os()).unwrap();
    let plan = configs::to_full("a1", &os).unwrap();
    env.switch(&plan).unwrap();
    env.host.kill().unwrap();
    env.host.start().unwrap();
    env.host.wait_booted(BOOTED_WITHIN).unwrap();
    assert_eq!(env.wait_ended().unwrap()["outcome"], "proved");
    assert_eq!(env.view().unwrap()["booted"]["config"], "rendered-full");
}
