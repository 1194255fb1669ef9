//! A machine boots what the entries name, loses what was not written, and counts boots.
//!
//! Emulated: a boot takes half a minute.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::TcpListener;

use lab::Lab;
use lab::host::HostSpec;
use lab::tree::{Overlay, Tree};
use lab::vm::{MACHINE_BOOTED_WITHIN, Vm, VmBoot};

fn booted() -> (Tree, Lab, Vm, VmBoot) {
    let tree = Tree::ready().unwrap();
    let lab = Lab::create().unwrap();
    let mut vm = Vm::create(&lab, HostSpec::new("machine", tree.base())).unwrap();
    vm.start().unwrap();
    let boot = vm.wait_booted(MACHINE_BOOTED_WITHIN).unwrap();
    (tree, lab, vm, boot)
}

/// Brings a commit into the machine's repository; the machine is off.
fn pull(vm: &mut Vm, commit: &lab::tree::Commit) {
    vm.with_sysroot(|sysroot| lab::host::pull_into(sysroot, commit))
        .unwrap();
}

#[test]
#[ignore = "needs root, debootstrap tree, qemu"]
fn a_machine_boots_its_deployment_and_then_another() {
    let (tree, lab, mut vm, boot) = booted();
    assert_eq!(boot.deployment.checksum, tree.base().checksum);
    let status = vm.shell("ostree admin status").unwrap();
    assert!(
        status.starts_with(&format!("* slipway {}.0", tree.base().checksum)),
        "{status}"
    );
    assert_eq!(vm.shell("systemctl is-system-running").unwrap(), "running");
    for dir in ["/usr", "/sysroot", "/boot"] {
        let output = vm.exec(&["/usr/bin/touch", &format!("{dir}/x")]).unwrap();
        assert!(
            output.stderr.contains("Read-only file system"),
            "{dir}: {output:?}"
        );
    }
    let listener = TcpListener::bind((lab.address(), 0)).unwrap();
    let (address, port) = (lab.address(), listener.local_addr().unwrap().port());
    vm.shell(&format!("exec 3<>/dev/tcp/{address}/{port}"))
        .unwrap();

    vm.power_off().unwrap();
    let v2 = tree
        .commit(&Overlay::version("v2").another_kernel())
        .unwrap();
    pull(&mut vm, &v2);
    vm.start().unwrap();
    vm.wait_booted(MACHINE_BOOTED_WITHIN).unwrap();
    vm.shell(&format!("ostree admin deploy --karg=three {}", v2.checksum))
        .unwrap();
    let next = vm.reboot().unwrap();
    assert_eq!(next.deployment.checksum, v2.checksum);
    assert!(next.options.contains(" three"), "{}", next.options);
    assert!(
        vm.shell("cat /etc/os-release")
            .unwrap()
            .contains("OSTREE_VERSION='v2'")
    );
}

#[test]
#[ignore = "needs root, debootstrap tree, qemu"]
fn a_power_cut_loses_what_was_not_synced() {
    let (_tree, _lab, mut vm, before) = booted();
    vm.shell("echo old >/var/file && sync && echo kept >/var/kept && sync /var/kept")
        .unwrap();
    vm.shell("sync && echo lost >/var/lost").unwrap();
    vm.cut_power();
    assert!(!vm.is_on());
    let snapshot = vm.snapshot("after-the-cut").unwrap();

    vm.start().unwrap();
    let after = vm.wait_booted(MACHINE_BOOTED_WITHIN).unwrap();
    assert_ne!(before.id, after.id);
    assert_eq!(vm.shell("cat /var/file /var/kept").unwrap(), "old\nkept");
    // Made, and not a byte of it written.
    assert_eq!(vm.shell("cat /var/lost 2>/dev/null || true").unwrap(), "");

    vm.shell("echo new >/var/file && sync").unwrap();
    vm.restore(&snapshot).unwrap();
    let file = vm.with_sysroot(|sysroot| {
        Ok(std::fs::read_to_string(
            sysroot.join("ostree/deploy/slipway/var/file"),
        )?)
    });
    assert_eq!(file.unwrap(), "old\n");
}

#[test]
#[ignore = "needs root, debootstrap tree, qemu"]
fn a_target_that_panics_is_left_when_its_tries_are_used_up() {
    let (tree, _lab, mut vm, _boot) = booted();
    vm.power_off().unwrap();
    let bad = tree.commit(&Overlay::version("bad").panics()).unwrap();
    pull(&mut vm, &bad);
    vm.start().unwrap();
    let before = vm.wait_booted(MACHINE_BOOTED_WITHIN).unwrap();
    vm.shell(&format!("ostree admin deploy {}", bad.checksum))
        .unwrap();
    // Two tries, as an update writes it.
    vm.shell(
        "mount -o remount,rw /boot && cd /boot/grub2 && \
         printf '# GRUB Environment Block\\nboot_counter=2\\nboot_success=0\\n' >grubenv && \
         truncate --size=1024 grubenv && tr '\\0' '#' <grubenv >filled && cat filled >grubenv && \
         sync && systemctl reboot",
    )
    .unwrap();
    let after = vm
        .wait_booted_after(Some(&before), MACHINE_BOOTED_WITHIN * 3)
        .unwrap();
    assert_eq!(after.deployment, before.deployment);
    let console = vm.console().unwrap();
    assert_eq!(console.matches("Kernel panic").count(), 2, "{console}");
    assert!(console.contains("lab: no tries left"), "{console}");
    assert!(
        vm.shell("cat /boot/grub2/grubenv")
            .unwrap()
            .contains("boot_counter=-1\n")
    );
}
