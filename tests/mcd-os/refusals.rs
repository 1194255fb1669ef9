//! What is refused changes nothing, and says which object and why.

use lab::image::Image;
use lab::tree::Overlay;

use testbed::HostLab;
use testbed::config::{Config, File};

use super::configs;
use super::env::{Env, differences};

/// Runs `act`, and holds that the host is as it was.
fn unchanged(env: &Env, act: impl FnOnce()) {
    let (before, entries) = (env.snapshot().unwrap(), env.entries().unwrap());
    act();
    assert_eq!(env.entries().unwrap(), entries);
    assert_eq!(env.deployments_on_disk().unwrap(), entries.len());
    assert_eq!(differences(&before, &env.snapshot().unwrap()), [""; 0]);
    env.host
        .run(["test", "!", "-e", "/var/lib/slipway/journal.json"])
        .unwrap();
    env.host
        .run(["systemctl", "is-active", "kubelet.service"])
        .unwrap();
}

/// Rehearses a change to these files on the booted OS.
fn rehearse(
    env: &Env,
    attempt: &str,
    files: impl IntoIterator<Item = File>,
) -> (Option<i32>, String) {
    let to = Config::new().os(configs::FIRST_OS).argument("x=1");
    let to = to.files(files).rendered("rendered-bad").unwrap();
    let plan = configs::plan(attempt, &configs::none().unwrap(), &to).unwrap();
    let directory = env.put(&plan).unwrap();
    let ran = env.mcd_os(&["rehearse", &directory]).unwrap();
    (ran.code, ran.reasons())
}

#[test]
#[ignore = "needs the lab"]
fn a_target_in_which_the_helper_cannot_run_is_refused_by_the_rehearsal() {
    let env = Env::new().unwrap();
    for library in ["libostree-1.so.1", "libzstd.so.1"] {
        let path = format!("/usr/lib/x86_64-linux-gnu/{library}");
        let os = env.push(&Overlay::version(library).without(&path)).unwrap();
        let plan = configs::to_full("a1", &os).unwrap();
        env.expect(0, &["fetch", &os]).unwrap();
        let directory = env.put(&plan).unwrap();
        unchanged(&env, || {
            let reasons = env.expect(3, &["rehearse", &directory]).unwrap().reasons();
            assert!(
                reasons.contains("mcd-os does not run in the target") && reasons.contains(library),
                "{reasons}"
            );
        });
    }
}

#[test]
#[ignore = "needs the lab"]
fn images_that_cannot_be_had_are_distinguished() {
    let mut env = Env::with(|spec, registry| spec.registry(&registry.closed_location())).unwrap();
    let location = env.host_lab.registry.location();
    let closed = env.host_lab.registry.closed_location();
    let good = env.push(&Overlay::version("second")).unwrap();
    let digest = good.split_once('@').unwrap().1.to_owned();
    let cases = [
        (
            format!("{location}/os@sha256:{}", "0".repeat(64)),
            3,
            "manifest unknown",
        ),
        (format!("{location}/absent:1"), 3, "manifest unknown"),
        (format!("{closed}/os@{digest}"), 3, "bearer token"),
        ("docker://x/os".to_owned(), 3, "is no pull spec"),
    ];
    let (before, entries) = (env.snapshot().unwrap(), env.entries().unwrap());
    for (image, code, expected) in cases {
        let ran = env.expect(code, &["fetch", &image]).unwrap();
        let reasons = ran.reasons();
        assert!(
            reasons.contains(expected) && reasons.contains(&image),
            "{image}: {reasons}"
        );
    }
    env.host_lab.registry.stop();
    let ran = env.expect(1, &["fetch", &good]).unwrap();
    assert!(ran.reasons().contains("connection refused"), "{ran:?}");
    env.host_lab.registry.resume().unwrap();
    assert_eq!(env.entries().unwrap(), entries);
    assert_eq!(differences(&before, &env.snapshot().unwrap()), [""; 0]);
    env.expect(0, &["fetch", &good]).unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_commit_that_cannot_be_booted_is_refused_at_the_fetch() {
    let env = Env::new().unwrap();
    let commit = env
        .host_lab
        .tree
        .commit(&Overlay::version("no-kernel").without_kernel())
        .unwrap();
    let image = env.host_lab.push(&commit).unwrap();
    let refused = || {
        let ran = env.expect(3, &["fetch", &image]).unwrap();
        let reasons = ran.reasons();
        assert!(
            reasons.contains("has no kernel") && reasons.contains(&image),
            "{reasons}"
        );
    };
    unchanged(&env, refused);
    // Asked for again as long as it is wanted, it is not pulled again; once another is, it goes.
    let requests = || env.host_lab.registry.requests().unwrap().len();
    let digest = image.split_once("sha256:").unwrap().1;
    let is_held = || env.host.run(["ostree", "refs"]).unwrap().contains(digest);
    let pulled = requests();
    refused();
    assert_eq!(requests(), pulled);
    assert!(is_held());
    let good = env.push(&Overlay::version("second")).unwrap();
    env.expect(0, &["fetch", &good]).unwrap();
    assert!(!is_held());
}

#[test]
#[ignore = "needs the lab"]
fn a_boot_without_room_is_refused_at_the_fetch() {
    let host_lab = HostLab::new().unwrap();
    let (base, one) = (
        host_lab.tree.base().clone(),
        host_lab.tree.boot_bytes(1).unwrap(),
    );
    let env = Env::of(host_lab, &base, |spec, _| spec.boot_bytes(one)).unwrap();
    let image = env
        .push(&Overlay::version("second").another_kernel())
        .unwrap();
    unchanged(&env, || {
        let ran = env.expect(3, &["fetch", &image]).unwrap();
        assert!(ran.reasons().contains("bytes in /boot"), "{ran:?}");
    });
}

#[test]
#[ignore = "needs the lab"]
fn a_disk_without_room_is_refused_at_the_fetch() {
    let env = Env::new().unwrap();
    let native = env.push(&Overlay::version("second")).unwrap();
    let commit = env
        .host_lab
        .tree
        .commit(&Overlay::version("third"))
        .unwrap();
    let older = Image::with_repository(&commit).unwrap();
    let older = env.host_lab.registry.push(&older, "content:third").unwrap();
    let fill = "free=$(df --output=avail --block-size=1 /var | tail -1); \
                fallocate --length $((free - 1048576)) /var/tmp/fill";
    env.host.run(["sh", "-c", fill]).unwrap();
    for (image, place) in [(&native, "/ostree/repo"), (&older, "/var")] {
        unchanged(&env, || {
            let ran = env.expect(3, &["fetch", image]).unwrap();
            let reasons = ran.reasons();
            let names_all =
                reasons.contains(image) && reasons.contains(&format!("bytes in {place}"));
            assert!(names_all, "{reasons}");
        });
    }
    env.host.run(["rm", "/var/tmp/fill"]).unwrap();
    env.expect(0, &["fetch", &native]).unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_plan_that_cannot_be_carried_out_is_refused_by_the_rehearsal() {
    let env = Env::new().unwrap();
    env.host.run(["mkdir", "-p", "/etc/directory"]).unwrap();
    for plain in ["/etc/plain", "/var/lib/plain", "/home/core/plain"] {
        let write = format!("echo x >{plain}");
        env.host.run(["sh", "-c", &write]).unwrap();
    }
    for (attempt, path, owner, expected) in [
        (
            "b1",
            "/etc/managed/x",
            "absent-user",
            "cannot apply file /etc/managed/x: failed to retrieve file ownership for file \"/etc/managed/x\": failed to retrieve UserID for username: absent-user",
        ),
        (
            "b2",
            "/home/core/x",
            "absent-user",
            "cannot apply file /home/core/x: failed to retrieve file ownership for file \"/home/core/x\": failed to retrieve UserID for username: absent-user",
        ),
        (
            "b3",
            "/etc/directory",
            "root",
            "cannot apply file /etc/directory: ",
        ),
        (
            "b4",
            "/etc/plain/below",
            "root",
            "cannot apply file /etc/plain/below: ",
        ),
        (
            "b5",
            "/var/lib/plain/below",
            "root",
            "cannot apply file /var/lib/plain/below: /var/lib/plain is not a directory",
        ),
        (
            "b6",
            "/home/core/plain/far/below",
            "root",
            "cannot apply file /home/core/plain/far/below: /var/home/core/plain is not a directory",
        ),
    ] {
        unchanged(&env, || {
            let file = File::new(path, "x").mode(0o600).owner(owner);
            let (code, reasons) = rehearse(&env, attempt, [file]);
            assert!(
                code == Some(3) && reasons.starts_with(expected),
                "{path}: {code:?} {reasons}"
            );
        });
    }
}

#[test]
#[ignore = "needs the lab"]
fn an_etc_that_cannot_be_merged_is_refused_by_the_rehearsal() {
    let env = Env::new().unwrap();
    let overlay = Overlay::version("second").file("/usr/etc/edited/part", "x", 0o644);
    let os = env.push(&overlay).unwrap();
    env.host
        .run(["sh", "-c", "echo mine >/etc/edited"])
        .unwrap();
    let to = Config::new().os(&os).rendered("rendered-2").unwrap();
    let plan = configs::plan("a1", &configs::none().unwrap(), &to).unwrap();
    env.expect(0, &["fetch", &os]).unwrap();
    let directory = env.put(&plan).unwrap();
    unchanged(&env, || {
        let ran = env.expect(3, &["rehearse", &directory]).unwrap();
        assert!(ran.reasons().contains("edited"), "{ran:?}");
    });
}

#[test]
#[ignore = "needs the lab"]
fn others_who_update_the_host_are_named() {
    let env = Env::new().unwrap();
    let timer = "[Timer]\\nOnCalendar=daily\\n[Install]\\nWantedBy=timers.target\\n";
    let service = "[Service]\\nExecStart=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n";
    let unit = "bootc-fetch-apply-updates";
    for (unit, kind) in [
        ("zincati", "service"),
        ("rpm-ostreed-automatic", "timer"),
        (unit, "timer"),
    ] {
        let script = format!(
            "printf '{timer}' >/etc/systemd/system/{unit}.timer; \
             printf '{service}' >/etc/systemd/system/{unit}.service; \
             systemctl daemon-reload; systemctl enable {unit}.{kind}"
        );
        env.host.run(["sh", "-c", &script]).unwrap();
        unchanged(&env, || {
            let (code, reasons) = rehearse(&env, unit, []);
            let expected = format!("unit {unit}.{kind} is enabled: it updates this host by itself");
            assert_eq!((code, reasons), (Some(3), expected));
        });
        let name = format!("{unit}.{kind}");
        env.host.run(["systemctl", "disable", &name]).unwrap();
    }
    // A condition keeps it from running, as OpenShift's MCO does with Zincati.
    let script = format!(
        "systemctl enable {unit}.timer; mkdir -p /etc/systemd/system/{unit}.timer.d; \
         printf '[Unit]\\nConditionPathExists=/enoent\\n' >/etc/systemd/system/{unit}.timer.d/off.conf; \
         systemctl daemon-reload; systemctl start {unit}.timer"
    );
    env.host.run(["sh", "-c", &script]).unwrap();
    assert_eq!(rehearse(&env, "b2", []), (Some(0), String::new()));
}

#[test]
#[ignore = "needs the lab"]
fn layers_of_others_forbid_another_image_only() {
    let env = Env::new().unwrap();
    let os = env.push(&Overlay::version("second")).unwrap();
    let plan = configs::to_full("b1", &os).unwrap();
    env.expect(0, &["fetch", &os]).unwrap();
    let directory = env.put(&plan).unwrap();
    let booted = env.host.boots().pop().unwrap().deployment;
    let origin = env.host.deployment_dir(&booted).with_extension("0.origin");
    assert!(origin.exists(), "{}", origin.display());
    let script = format!(
        "unshare --mount sh -c 'mount -o remount,rw /sysroot; \
         printf \"[packages]\\nrequested=vim;\\n\" >>/sysroot/ostree/deploy/slipway/deploy/{booted}.origin'"
    );
    env.host.run(["sh", "-c", &script]).unwrap();
    unchanged(&env, || {
        let reasons = env.expect(3, &["rehearse", &directory]).unwrap().reasons();
        assert!(reasons.contains("packages.requested"), "{reasons}");
    });
    assert_eq!(rehearse(&env, "b2", []), (Some(0), String::new()));
}

#[test]
#[ignore = "needs the lab"]
fn a_deployment_that_others_staged_is_named() {
    let env = Env::new().unwrap();
    let other = env
        .host_lab
        .tree
        .commit(&Overlay::version("staged"))
        .unwrap();
    env.host.pull(&other).unwrap();
    let stage = [
        "ostree",
        "admin",
        "deploy",
        "--stage",
        other.checksum.as_str(),
    ];
    env.host.run(stage).unwrap();
    let entries = env.entries().unwrap();
    let (code, reasons) = rehearse(&env, "b1", []);
    assert!(
        code == Some(3) && reasons.contains("was staged by another program"),
        "{code:?} {reasons}"
    );
    assert_eq!(env.entries().unwrap(), entries);
    env.host
        .run(["test", "-e", "/run/ostree/staged-deployment"])
        .unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_plan_for_another_target_is_refused_while_one_is_under_way() {
    let env = Env::new().unwrap();
    let os = env.push(&Overlay::version("second")).unwrap();
    let plan = configs::to_full("a1", &os).unwrap();
    env.switch(&plan).unwrap();
    let other = configs::to_full("a2", &os).unwrap();
    let directory = env.put(&other).unwrap();
    let entries = env.entries().unwrap();
    let ran = env.expect(3, &["apply", &directory]).unwrap();
    assert_eq!(ran.reasons(), "attempt a1 is under way on this host");
    assert_eq!(env.entries().unwrap(), entries);
}
