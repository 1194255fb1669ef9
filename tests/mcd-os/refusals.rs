//! What is refused changes nothing, and says which object and why.

use lab::image::Image;
use lab::tree::Overlay;

use testbed::HostLab;
use testbed::config::{Config, File};

use super::configs;
use super::site::{Site, differences};

/// Runs `act`, and holds that the host is as it was.
fn unchanged(site: &Site, act: impl FnOnce()) {
    let (before, entries) = (site.snapshot().unwrap(), site.entries().unwrap());
    act();
    assert_eq!(site.entries().unwrap(), entries);
    assert_eq!(site.deployments_on_disk().unwrap(), entries.len());
    assert_eq!(differences(&before, &site.snapshot().unwrap()), [""; 0]);
    site.host
        .run(["test", "!", "-e", "/var/lib/slipway/journal.json"])
        .unwrap();
    site.host
        .run(["systemctl", "is-active", "kubelet.service"])
        .unwrap();
}

/// Rehearses a change to these files on the booted OS.
fn rehearse(
    site: &Site,
    attempt: &str,
    files: impl IntoIterator<Item = File>,
) -> (Option<i32>, String) {
    let to = Config::new().os(configs::FIRST_OS).argument("x=1");
    let to = to.files(files).rendered("rendered-bad").unwrap();
    let plan = configs::plan(attempt, &configs::none().unwrap(), &to).unwrap();
    let directory = site.put(&plan).unwrap();
    let ran = site.mcd_os(&["rehearse", &directory]).unwrap();
    (ran.code, ran.reasons())
}

#[test]
#[ignore = "needs the lab"]
fn images_that_cannot_be_had_are_told_apart() {
    let mut site = Site::with(|spec, registry| spec.registry(&registry.closed_location())).unwrap();
    let location = site.host_lab.registry.location();
    let closed = site.host_lab.registry.closed_location();
    let good = site.push(&Overlay::version("second")).unwrap();
    let digest = good.split_once('@').unwrap().1.to_owned();
    let cases = [
        (
            format!("{location}/os@sha256:{}", "0".repeat(64)),
            3,
            "manifest unknown",
        ),
        (format!("{location}/nobody:1"), 3, "manifest unknown"),
        (format!("{closed}/os@{digest}"), 3, "bearer token"),
        ("docker://x/os".to_owned(), 3, "is no pull spec"),
    ];
    let (before, entries) = (site.snapshot().unwrap(), site.entries().unwrap());
    for (image, code, expected) in cases {
        let ran = site.expect(code, &["fetch", &image]).unwrap();
        let reasons = ran.reasons();
        assert!(
            reasons.contains(expected) && reasons.contains(&image),
            "{image}: {reasons}"
        );
    }
    site.host_lab.registry.stop();
    let ran = site.expect(1, &["fetch", &good]).unwrap();
    assert!(ran.reasons().contains("connection refused"), "{ran:?}");
    site.host_lab.registry.resume().unwrap();
    assert_eq!(site.entries().unwrap(), entries);
    assert_eq!(differences(&before, &site.snapshot().unwrap()), [""; 0]);
    site.expect(0, &["fetch", &good]).unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_commit_that_cannot_be_booted_is_refused_at_the_fetch() {
    let site = Site::new().unwrap();
    let commit = site
        .host_lab
        .tree
        .commit(&Overlay::version("no-kernel").without_kernel())
        .unwrap();
    let image = site.host_lab.push(&commit).unwrap();
    let refused = || {
        let ran = site.expect(3, &["fetch", &image]).unwrap();
        let reasons = ran.reasons();
        assert!(
            reasons.contains("has no kernel") && reasons.contains(&image),
            "{reasons}"
        );
    };
    unchanged(&site, refused);
    // Asked for again as long as it is wanted, it is not pulled again; once another is, it goes.
    let requests = || site.host_lab.registry.requests().unwrap().len();
    let digest = image.split_once("sha256:").unwrap().1;
    let is_held = || site.host.run(["ostree", "refs"]).unwrap().contains(digest);
    let pulled = requests();
    refused();
    assert_eq!(requests(), pulled);
    assert!(is_held());
    let good = site.push(&Overlay::version("second")).unwrap();
    site.expect(0, &["fetch", &good]).unwrap();
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
    let site = Site::of(host_lab, &base, |spec, _| spec.boot_bytes(one)).unwrap();
    let image = site
        .push(&Overlay::version("second").another_kernel())
        .unwrap();
    unchanged(&site, || {
        let ran = site.expect(3, &["fetch", &image]).unwrap();
        assert!(ran.reasons().contains("bytes in /boot"), "{ran:?}");
    });
}

#[test]
#[ignore = "needs the lab"]
fn a_disk_without_room_is_refused_at_the_fetch() {
    let site = Site::new().unwrap();
    let native = site.push(&Overlay::version("second")).unwrap();
    let commit = site
        .host_lab
        .tree
        .commit(&Overlay::version("third"))
        .unwrap();
    let older = Image::with_repository(&commit).unwrap();
    let older = site
        .host_lab
        .registry
        .push(&older, "content:third")
        .unwrap();
    let fill = "free=$(df --output=avail --block-size=1 /var | tail -1); \
                fallocate --length $((free - 1048576)) /var/tmp/fill";
    site.host.run(["sh", "-c", fill]).unwrap();
    for (image, place) in [(&native, "/ostree/repo"), (&older, "/var")] {
        unchanged(&site, || {
            let ran = site.expect(3, &["fetch", image]).unwrap();
            let said = ran.reasons();
            let names_all = said.contains(image) && said.contains(&format!("bytes in {place}"));
            assert!(names_all, "{said}");
        });
    }
    site.host.run(["rm", "/var/tmp/fill"]).unwrap();
    site.expect(0, &["fetch", &native]).unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_plan_that_cannot_be_carried_out_is_refused_by_the_rehearsal() {
    let site = Site::new().unwrap();
    site.host.run(["mkdir", "-p", "/etc/directory"]).unwrap();
    for plain in ["/etc/plain", "/var/lib/plain", "/home/core/plain"] {
        let write = format!("echo x >{plain}");
        site.host.run(["sh", "-c", &write]).unwrap();
    }
    for (attempt, path, owner, expected) in [
        (
            "b1",
            "/etc/managed/x",
            "nobody-here",
            "cannot apply file /etc/managed/x: user \"nobody-here\"",
        ),
        (
            "b2",
            "/home/core/x",
            "nobody-here",
            "cannot apply file /home/core/x: user \"nobody-here\"",
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
        unchanged(&site, || {
            let file = File::new(path, "x").mode(0o600).owner(owner);
            let (code, reasons) = rehearse(&site, attempt, [file]);
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
    let site = Site::new().unwrap();
    let overlay = Overlay::version("second").file("/usr/etc/edited/part", "x", 0o644);
    let os = site.push(&overlay).unwrap();
    site.host
        .run(["sh", "-c", "echo mine >/etc/edited"])
        .unwrap();
    let to = Config::new().os(&os).rendered("rendered-2").unwrap();
    let plan = configs::plan("a1", &configs::none().unwrap(), &to).unwrap();
    site.expect(0, &["fetch", &os]).unwrap();
    let directory = site.put(&plan).unwrap();
    unchanged(&site, || {
        let ran = site.expect(3, &["rehearse", &directory]).unwrap();
        assert!(ran.reasons().contains("edited"), "{ran:?}");
    });
}

#[test]
#[ignore = "needs the lab"]
fn others_who_update_the_host_are_named() {
    let site = Site::new().unwrap();
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
        site.host.run(["sh", "-c", &script]).unwrap();
        unchanged(&site, || {
            let (code, reasons) = rehearse(&site, unit, []);
            let expected = format!("unit {unit}.{kind} is enabled: it updates this host by itself");
            assert_eq!((code, reasons), (Some(3), expected));
        });
        let name = format!("{unit}.{kind}");
        site.host.run(["systemctl", "disable", &name]).unwrap();
    }
    // Kept from running by a condition of its own, as the original does it to Zincati.
    let script = format!(
        "systemctl enable {unit}.timer; mkdir -p /etc/systemd/system/{unit}.timer.d; \
         printf '[Unit]\\nConditionPathExists=/enoent\\n' >/etc/systemd/system/{unit}.timer.d/off.conf; \
         systemctl daemon-reload; systemctl start {unit}.timer"
    );
    site.host.run(["sh", "-c", &script]).unwrap();
    assert_eq!(rehearse(&site, "b2", []), (Some(0), String::new()));
}

#[test]
#[ignore = "needs the lab"]
fn layers_of_others_are_named() {
    let site = Site::new().unwrap();
    let booted = site.host.boots().pop().unwrap().deployment;
    let origin = site.host.deployment_dir(&booted).with_extension("0.origin");
    assert!(origin.exists(), "{}", origin.display());
    let script = format!(
        "unshare --mount sh -c 'mount -o remount,rw /sysroot; \
         printf \"[packages]\\nrequested=vim;\\n\" >>/sysroot/ostree/deploy/slipway/deploy/{booted}.origin'"
    );
    site.host.run(["sh", "-c", &script]).unwrap();
    unchanged(&site, || {
        let (code, reasons) = rehearse(&site, "b1", []);
        assert!(
            code == Some(3) && reasons.contains("packages.requested"),
            "{code:?} {reasons}"
        );
    });
}

#[test]
#[ignore = "needs the lab"]
fn a_deployment_that_others_staged_is_named() {
    let site = Site::new().unwrap();
    let other = site
        .host_lab
        .tree
        .commit(&Overlay::version("staged"))
        .unwrap();
    site.host.pull(&other).unwrap();
    let stage = [
        "ostree",
        "admin",
        "deploy",
        "--stage",
        other.checksum.as_str(),
    ];
    site.host.run(stage).unwrap();
    let entries = site.entries().unwrap();
    let (code, reasons) = rehearse(&site, "b1", []);
    assert!(
        code == Some(3) && reasons.contains("was staged by another program"),
        "{code:?} {reasons}"
    );
    assert_eq!(site.entries().unwrap(), entries);
    site.host
        .run(["test", "-e", "/run/ostree/staged-deployment"])
        .unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_plan_for_something_else_waits_its_turn() {
    let site = Site::new().unwrap();
    let os = site.push(&Overlay::version("second")).unwrap();
    let plan = configs::to_full("a1", &os).unwrap();
    site.switch(&plan).unwrap();
    let other = configs::to_full("a2", &os).unwrap();
    let directory = site.put(&other).unwrap();
    let entries = site.entries().unwrap();
    let ran = site.expect(3, &["apply", &directory]).unwrap();
    assert_eq!(ran.reasons(), "attempt a1 is under way on this host");
    assert_eq!(site.entries().unwrap(), entries);
}
