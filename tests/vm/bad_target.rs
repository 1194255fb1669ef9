//! Targets that a machine has to leave: one that does not boot, one whose kubelet fails.

use lab::tree::Overlay;
use serde_json::{Value, json};

use super::configs;
use super::machine::{Machine, differences};

/// Goes to a target, and comes back: how the attempt ended, and what the console says of it.
fn rolls_back_from(overlay: &Overlay) -> (Value, String) {
    rolls_back_by(&["rehearse", "apply"], overlay)
}

/// The same, by these verbs.
fn rolls_back_by(verbs: &[&str], overlay: &Overlay) -> (Value, String) {
    let mut machine = Machine::new().unwrap();
    let before = machine.snapshot().unwrap();
    let origin = machine.journal_under_way().unwrap();
    let image = machine.push(overlay).unwrap();
    let to = configs::full(&image).unwrap();
    let bundle = configs::plan("a1", &configs::none().unwrap(), &to).unwrap();
    machine.switch_by(&bundle, &image, verbs).unwrap();
    drop(machine.vm.shell("systemctl reboot"));

    let boot = loop {
        let boot = machine.journal_under_way().unwrap();
        if boot.id != origin.id {
            break boot;
        }
    };
    assert_eq!(boot.deployment, origin.deployment);
    assert_eq!(differences(&before, &machine.snapshot().unwrap()), [""; 0]);
    let view = machine.view().unwrap();
    assert_eq!(view["held"]["config"], "rendered-full", "{view}");
    assert_eq!(view["next"], json!(null), "a reboot stays where it is");
    let counting = machine
        .vm
        .shell("grep -c boot_counter /boot/grub2/grubenv || true");
    assert_eq!(counting.unwrap(), "0");
    machine
        .vm
        .shell("systemctl is-active kubelet.service")
        .unwrap();
    (view["last"].clone(), machine.vm.console().unwrap())
}

#[test]
#[ignore = "needs root, debootstrap tree, qemu"]
fn a_target_that_does_not_boot_is_rolled_back_after_three_tries_and_held() {
    let (last, console) = rolls_back_from(&Overlay::version("panics").panics());
    assert_eq!(last["outcome"], "rolled-back", "{last}");
    assert_eq!(console.matches("Kernel panic").count(), 3, "{console}");
}

#[test]
#[ignore = "needs root, debootstrap tree, qemu"]
fn a_target_that_is_to_stay_and_does_not_boot_is_rolled_back_after_three_tries_and_held() {
    let verbs = ["rehearse", "apply --stay"];
    let (last, console) = rolls_back_by(&verbs, &Overlay::version("panics").panics());
    assert_eq!(last["outcome"], "rolled-back", "{last}");
    assert_eq!(console.matches("Kernel panic").count(), 3, "{console}");
}

#[test]
#[ignore = "needs root, debootstrap tree, qemu"]
fn a_target_in_which_the_helper_cannot_run_is_left_by_the_boot_loaders_count() {
    // Without the rehearsal, which finds it.
    let without = Overlay::version("mute").without("/usr/lib/x86_64-linux-gnu/libostree-1.so.1");
    let (last, console) = rolls_back_by(&["apply"], &without);
    assert_eq!(last["outcome"], "rolled-back", "{last}");
    assert_eq!(
        console.matches("lab: no tries left").count(),
        1,
        "{console}"
    );
}

#[test]
#[ignore = "needs root, debootstrap tree, qemu"]
fn a_target_whose_kubelet_fails_is_rolled_back_and_held() {
    let (last, console) = rolls_back_from(&Overlay::version("no-node").failing_kubelet());
    assert_eq!(last["outcome"], "rolled-back", "{last}");
    assert!(
        last["cause"].as_str().unwrap().contains("kubelet.service"),
        "{last}"
    );
    assert!(!console.contains("Kernel panic"), "{console}");
}
