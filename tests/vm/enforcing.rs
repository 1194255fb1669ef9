//! A machine whose kernel enforces SELinux. After each step every path that was written has the
//! label that the policy of its deployment names, guard and helper run in the domain of services
//! without one of their own, and nothing of Slipway was denied.

use lab::tree::Overlay;
use lab::vm::MACHINE_BOOTED_WITHIN;
use node_update::plan::Bundle;
use serde_json::json;
use testbed::config::service;
use testbed::single_host::MCD_OS;

use super::configs::{self, SHADOWED};
use super::machine::{DOMAINS, MCD, Machine, second_os};

/// The domain that Debian's policy gives to services without one of their own.
const DOMAIN: &str = "system_u:system_r:initrc_t:s0";

/// Below which paths updates write: all of it is labelled by the policy.
const WRITTEN: &str = "/etc /boot /var/home /var/usrlocal /var/lib/managed /var/lib/slipway";

/// A file there that is not ours: systemd makes it when it adds accounts at boot.
const OTHERS: &str = "/etc/.pwd.lock";

/// Where a deployment has the contexts that its policy names.
const CONTEXTS: &str = "etc/selinux/default/contexts/files/file_contexts";

/// A kernel's policy without Slipway's module, in the OS.
const WITHOUT_MODULE: &str = "/usr/share/lab/policy-without-module";

/// An OS whose policy labels two paths in another way, of which a configuration writes both.
fn other_labels() -> Overlay {
    let contexts = "/etc/managed/secret\t--\tsystem_u:object_r:shadow_t:s0\n\
                    /etc/managed/packed\t--\tsystem_u:object_r:net_conf_t:s0\n";
    Overlay::version("third").file(
        "/usr/etc/selinux/default/contexts/files/file_contexts.local",
        contexts,
        0o644,
    )
}

/// Asserts that labels are as the policy names them, and that this boot denied nothing of Slipway.
fn assert_clean(machine: &Machine, step: &str) {
    let shell = |commands: &str| machine.vm.shell(commands).unwrap();
    assert_eq!(shell("cat /sys/fs/selinux/enforce"), "1", "{step}");
    let relabelled = shell(&format!(
        "restorecon -i -nRFv {WRITTEN} | grep -vF 'Would relabel {OTHERS} ' || true"
    ));
    assert_eq!(
        relabelled, "",
        "{step}: labels that the policy does not name"
    );
    let denied = shell(
        "journalctl -b --no-pager -o cat _TRANSPORT=audit + _TRANSPORT=kernel | \
         grep 'avc: *denied' | grep -E 'slipway|comm=\"(mcd|skopeo|ostree)' || true",
    );
    assert_eq!(denied, "", "{step}: what was denied");
}

/// Asserts that all processes of the helper that units started in this boot ran in [`DOMAIN`],
/// those of these verbs among them.
fn assert_domains(machine: &Machine, step: &str, verbs: &[&str]) {
    let seen = machine.vm.shell(&format!("sort -u {DOMAINS}")).unwrap();
    for verb in verbs {
        assert!(seen.contains(verb), "{step}: {verb} was not seen: {seen}");
    }
    let others: Vec<_> = seen
        .lines()
        .filter(|line| !line.starts_with(DOMAIN))
        .collect();
    assert_eq!(others, [""; 0], "{step}");
}

/// The label of each file, on the running system.
fn labels(machine: &Machine, paths: &[&str]) -> Vec<String> {
    let listed = machine
        .vm
        .shell(&format!("stat -L -c %C {}", paths.join(" ")))
        .unwrap();
    let types = listed.lines().map(|label| label.split(':').nth(2));
    types
        .map(|label| label.unwrap_or_default().to_owned())
        .collect()
}

/// Fetches by a unit, as the daemon does, applies, and looks into the target before it is booted.
fn switch(machine: &Machine, bundle: &Bundle, image: &str) {
    machine
        .vm
        .shell(&format!(
            "systemd-run --quiet --wait --collect {MCD_OS} fetch {image}"
        ))
        .unwrap();
    machine.switch(bundle, image).unwrap();
    let wrong = machine.vm.shell(&format!(
        "target=$(ls -td /ostree/deploy/slipway/deploy/*.[0-9] | head -1)\n\
         setfiles -n -v -F -r $target $target/{CONTEXTS} $target/etc | grep -v '{OTHERS} ' || true"
    ));
    assert_eq!(wrong.unwrap(), "", "labels in the target before its boot");
}

#[test]
#[ignore = "needs root, debootstrap tree, qemu"]
fn a_host_that_enforces_is_updated_and_every_path_has_its_policys_label() {
    let mut machine = Machine::enforcing().unwrap();
    assert_clean(&machine, "the guard's installation");

    let none = configs::none().unwrap();
    let image = machine.push(&second_os()).unwrap();
    let full = configs::full(&image).unwrap();
    switch(
        &machine,
        &configs::plan("a1", &none, &full).unwrap(),
        &image,
    );
    reboot(&mut machine, "proved");
    assert_clean(&machine, "an update of everything");
    assert_domains(
        &machine,
        "an update of everything",
        &["guard", "guard --verify"],
    );
    let written = [
        "/etc/managed/secret",
        SHADOWED,
        "/home/core/notes",
        "/home/core/.ssh/authorized_keys.d/ignition",
        "/usr/local/bin/tool",
        "/var/lib/managed/data",
        "/etc/systemd/system/own.service",
    ];
    let expected = [
        "etc_t",
        "etc_t",
        "user_home_t",
        "ssh_home_t",
        "bin_t",
        "var_lib_t",
        "systemd_unit_t",
    ];
    assert_eq!(labels(&machine, &written), expected);

    let third = machine.push(&other_labels()).unwrap();
    let other = configs::full(&third).unwrap();
    switch(
        &machine,
        &configs::plan("a2", &full, &other).unwrap(),
        &third,
    );
    machine
        .vm
        .shell("echo late >/etc/late; chcon -t tmp_t /etc/late; mkdir /etc/pki-late; echo x >/etc/pki-late/cert")
        .unwrap();
    reboot(&mut machine, "proved");
    assert_clean(&machine, "a target whose policy differs");
    assert_domains(&machine, "a target whose policy differs", &["guard"]);
    let differ = [
        "/etc/managed/secret",
        "/etc/managed/packed",
        "/etc/late",
        "/etc/pki-late/cert",
    ];
    let expected = ["shadow_t", "net_conf_t", "etc_t", "etc_t"];
    assert_eq!(labels(&machine, &differ), expected);

    let failing = second_os().failing_kubelet();
    let fails = machine.push(&failing).unwrap();
    let bundle = configs::plan("a3", &other, &configs::full(&fails).unwrap()).unwrap();
    switch(&machine, &bundle, &fails);
    reboot(&mut machine, "rolled-back");
    assert_clean(&machine, "a target that fails");
    assert_eq!(labels(&machine, &differ), expected);
}

#[test]
#[ignore = "needs root, debootstrap tree, qemu"]
fn a_host_that_enforces_is_changed_without_a_reboot_and_pivoted() {
    let mut machine = Machine::enforcing().unwrap();
    let none = configs::none().unwrap();
    let quiet = configs::quiet("rendered-1", "first", &service("first")).unwrap();
    let changed = configs::quiet("rendered-2", "second", &service("second")).unwrap();
    for (attempt, from, to) in [("a1", &none, &quiet), ("a2", &quiet, &changed)] {
        let directory = machine
            .put(&configs::plan(attempt, from, to).unwrap())
            .unwrap();
        machine
            .vm
            .shell(&format!(
                "{MCD_OS} rehearse {directory} && {MCD_OS} apply {directory}"
            ))
            .unwrap();
        assert_clean(&machine, "a change without a reboot");
    }
    let written = ["/etc/managed/quiet", "/home/core/quiet"];
    assert_eq!(labels(&machine, &written), ["etc_t", "user_home_t"]);

    let image = machine.push(&second_os()).unwrap();
    machine
        .vm
        .shell(&format!("{MCD} pivot {image} || [ $? = 4 ]"))
        .unwrap();
    reboot(&mut machine, "proved");
    assert_eq!(machine.view().unwrap()["booted"]["os_image"], json!(image));
    assert_clean(&machine, "a pivot");
    assert_domains(&machine, "a pivot", &["guard"]);
    assert_eq!(labels(&machine, &written), ["etc_t", "user_home_t"]);
}

/// Reboots, and waits until the attempt has ended in this way.
fn reboot(machine: &mut Machine, outcome: &str) {
    let before = machine.vm.wait_booted(MACHINE_BOOTED_WITHIN).unwrap();
    drop(machine.vm.shell("systemctl reboot"));
    loop {
        let boot = machine.journal_under_way().unwrap();
        if boot.id == before.id {
            continue;
        }
        let view = machine.view().unwrap();
        assert_eq!(
            view["last"]["outcome"],
            outcome,
            "{view}\n{}",
            machine.log()
        );
        return;
    }
}

#[test]
#[ignore = "needs root, debootstrap tree, qemu"]
fn a_host_that_enforces_without_the_module_says_so() {
    let machine = Machine::enforcing().unwrap();
    let status = || machine.vm.shell(&format!("{MCD} status")).unwrap();
    let why = "enforcing without Slipway's policy module";
    assert!(!status().contains(why), "{}", status());
    machine
        .vm
        .shell(&format!(
            "dd if={WITHOUT_MODULE} of=/sys/fs/selinux/load bs=8M status=none"
        ))
        .unwrap();
    assert!(status().contains(why), "{}", status());
}
