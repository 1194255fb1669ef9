//! Reverting before the reboot, rolling back after it, by hand and automatically.

use lab::PATIENCE;
use lab::host::BOOTED_WITHIN;
use lab::tree::Overlay;
use node_update::plan::{Bundle, Expectation};
use serde_json::json;
use testbed::single_host::MCD_BROUGHT as MCD;
use testbed::{single_host, until_blocking};

use super::configs;
use super::env::{Env, PAUSE, differences};

fn plan(env: &Env, overlay: &Overlay) -> Bundle {
    let os = env.push(overlay).unwrap();
    configs::to_full("a1", &os).unwrap()
}

/// Boots a target that does not hold and is to stay, until it was given up; what is seen then.
fn stay_in(env: &Env, plan: &Bundle) -> serde_json::Value {
    let image = plan.plan.deploy.clone().unwrap().image.unwrap();
    env.expect(0, &["fetch", &image]).unwrap();
    let directory = env.put(plan).unwrap();
    env.expect(4, &["apply", &directory, "--stay"]).unwrap();
    env.host.reboot().unwrap();
    until_blocking("the target to fail", PATIENCE, PAUSE, || {
        let view = env.view()?;
        let has_failed = view["journal"]["stage"] == "failed";
        Ok(if has_failed {
            Ok(view)
        } else {
            Err(view.to_string())
        })
    })
    .unwrap()
}

fn hasty() -> Env {
    Env::with(|spec, _| single_host::proved_within(spec, 3)).unwrap()
}

/// Reboots a host into a target that it leaves again; how the attempt ended.
fn rolls_back(env: &Env) -> serde_json::Value {
    let seen = env.host.boots().len();
    env.host.reboot().unwrap();
    // The second boot after this is one that the host asked for itself.
    env.host.wait_booted_after(seen + 1, BOOTED_WITHIN).unwrap();
    let last = env.wait_ended().unwrap();
    assert_eq!(last["outcome"], "rolled-back", "{last}");
    last
}

#[test]
#[ignore = "needs the lab"]
fn before_the_reboot_the_switch_is_reverted() {
    let env = Env::new().unwrap();
    let (before, entries) = (env.snapshot().unwrap(), env.entries().unwrap());
    env.switch(&plan(&env, &Overlay::version("second")))
        .unwrap();
    assert_ne!(env.entries().unwrap(), entries);
    env.expect(0, &["rollback"]).unwrap();
    assert_eq!(env.entries().unwrap(), entries);
    assert_eq!(env.deployments_on_disk().unwrap(), 1);
    assert_eq!(differences(&before, &env.snapshot().unwrap()), [""; 0]);
    env.host
        .run(["systemctl", "is-active", "kubelet.service"])
        .unwrap();
    let timer = ["systemctl", "is-active", "slipway-kubelet-a1.timer"];
    assert_ne!(env.host.exec(timer).unwrap().code, Some(0));
    assert_eq!(env.view().unwrap()["last"]["outcome"], "undone");
    env.expect(0, &["rollback"]).unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_target_whose_checks_fail_is_rolled_back_and_held() {
    leaves(&Overlay::version("second").failing_kubelet());
}

#[test]
#[ignore = "needs the lab"]
fn a_target_whose_kubelet_never_runs_is_rolled_back_and_held() {
    leaves(&Overlay::version("second").hanging_kubelet());
}

#[test]
#[ignore = "needs the lab"]
fn a_verification_that_dies_again_and_again_keeps_its_deadline() {
    let env = Env::with(|spec, _| {
        let soon = "[Service]\nRestartSec=1\n";
        let path = "/etc/systemd/system/slipway-verify.service.d/20-soon.conf";
        single_host::proved_within(spec, 6).file(path, soon, 0o644)
    })
    .unwrap();
    let mut plan = plan(&env, &Overlay::version("second").failing_kubelet());
    plan.plan.expect.push(Expectation::Runs {
        unit: "kubelet.service".to_owned(),
    });
    env.switch(&plan).unwrap();
    let seen = env.host.boots().len();
    env.host.reboot().unwrap();
    // Each life is shorter than the deadline.
    let dies = "sleep 4; systemctl kill --signal=KILL slipway-verify.service";
    for _ in 0..4 {
        if env.host.boots().len() > seen + 1 {
            break;
        }
        drop(env.host.exec(["sh", "-c", dies]));
    }
    env.host.wait_booted_after(seen + 1, BOOTED_WITHIN).unwrap();
    assert_eq!(env.wait_ended().unwrap()["outcome"], "rolled-back");
}

#[test]
#[ignore = "needs the lab"]
fn a_target_whose_kubelet_is_kept_from_running_is_rolled_back_and_held() {
    let kept = "[Unit]\nConditionPathExists=/nowhere\n";
    let path = "/usr/lib/systemd/system/kubelet.service.d/10-kept.conf";
    leaves(&Overlay::version("second").file(path, kept, 0o644));
}

#[test]
#[ignore = "needs the lab"]
fn a_kubelet_that_waits_for_others_is_waited_for() {
    let env = hasty();
    let network = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sleep 20\n";
    let after = "[Unit]\nWants=slow-network.service\nAfter=slow-network.service\n";
    let units = "/usr/lib/systemd/system";
    let overlay = Overlay::version("second")
        .file(&format!("{units}/slow-network.service"), network, 0o644)
        .file(
            &format!("{units}/kubelet.service.d/10-slow.conf"),
            after,
            0o644,
        );
    let mut plan = plan(&env, &overlay);
    plan.plan.expect.push(Expectation::Runs {
        unit: "kubelet.service".to_owned(),
    });
    env.switch(&plan).unwrap();
    let last = env.reboot().unwrap();
    assert_eq!(last["outcome"], "proved", "{last}");
}

/// A host leaves a target with this kubelet, for its kubelet.
fn leaves(overlay: &Overlay) {
    let env = hasty();
    let before = env.snapshot().unwrap();
    let booted = env.host.boots().pop().unwrap().deployment;
    let mut plan = plan(&env, overlay);
    plan.plan.expect.push(Expectation::Runs {
        unit: "kubelet.service".to_owned(),
    });
    env.switch(&plan).unwrap();
    let last = rolls_back(&env);
    assert!(
        last["cause"].as_str().unwrap().contains("kubelet.service"),
        "{last}"
    );
    assert_eq!(env.host.boots().pop().unwrap().deployment, booted);
    assert_eq!(differences(&before, &env.snapshot().unwrap()), [""; 0]);
    let view = env.view().unwrap();
    assert_eq!(view["held"]["config"], "rendered-full");
    assert_eq!(view["next"], json!(null), "a reboot stays where it is");
    env.host
        .run(["systemctl", "is-active", "kubelet.service"])
        .unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_target_whose_first_boot_cannot_be_finished_is_rolled_back_and_held() {
    let env = hasty();
    let booted = env.host.boots().pop().unwrap().deployment;
    env.switch(&plan(&env, &Overlay::version("second")))
        .unwrap();
    // Since the rehearsal, a directory appeared at the path of a file outside of the deployment.
    env.host.run(["mkdir", "-p", "/home/core/notes/x"]).unwrap();
    let before = env.snapshot().unwrap();
    let last = rolls_back(&env);
    let cause = last["cause"].as_str().unwrap();
    assert!(cause.contains("file /home/core/notes"), "{last}");
    assert_eq!(env.host.boots().pop().unwrap().deployment, booted);
    assert_eq!(differences(&before, &env.snapshot().unwrap()), [""; 0]);
    assert_eq!(env.view().unwrap()["held"]["config"], "rendered-full");
}

#[test]
#[ignore = "needs the lab"]
fn a_target_that_is_to_stay_is_held_and_stays_booted() {
    let env = hasty();
    let mut plan = plan(&env, &Overlay::version("second").failing_kubelet());
    plan.plan.expect.push(Expectation::Runs {
        unit: "kubelet.service".to_owned(),
    });
    let view = stay_in(&env, &plan);
    assert_eq!(view["booted"]["version"], "second");
    assert_eq!(view["held"]["config"], "rendered-full");
    let verify_again = ["guard", "--verify", "--deadline", "0"];
    env.expect(1, &verify_again).unwrap();
    assert_eq!(env.view().unwrap()["journal"]["stage"], "failed");
    env.expect(4, &["rollback"]).unwrap();
    assert_eq!(env.reboot().unwrap()["outcome"], "rolled-back");
}

#[test]
#[ignore = "needs the lab"]
fn a_target_that_stays_and_is_repaired_is_verified() {
    let env = hasty();
    let mut plan = plan(&env, &Overlay::version("second"));
    let unit = "mended.service".to_owned();
    plan.plan.expect.push(Expectation::Runs { unit });
    stay_in(&env, &plan);
    let mend = "printf '[Service]\\nType=oneshot\\nRemainAfterExit=yes\\nExecStart=/bin/true\\n' \
                > /etc/systemd/system/mended.service && systemctl start mended.service";
    env.host.run(["sh", "-c", mend]).unwrap();
    env.expect(0, &["guard", "--verify", "--deadline", "0"])
        .unwrap();
    let view = env.view().unwrap();
    assert_eq!(view["last"]["outcome"], "proved", "{view}");
    assert_eq!(view["held"], json!(null));
}

#[test]
#[ignore = "needs the lab"]
fn a_booted_target_can_be_rolled_back_by_hand() {
    // The checks never hold, so that there is time.
    let env = Env::new().unwrap();
    let before = env.snapshot().unwrap();
    let mut plan = plan(&env, &Overlay::version("second").failing_kubelet());
    plan.plan.expect.push(Expectation::Runs {
        unit: "kubelet.service".to_owned(),
    });
    env.switch(&plan).unwrap();
    env.host.reboot().unwrap();
    env.host.run(["test", "-e", "/home/core/notes"]).unwrap();
    assert_eq!(env.view().unwrap()["journal"]["stage"], "booted");
    env.expect(4, &["rollback"]).unwrap();
    assert_eq!(env.reboot().unwrap()["outcome"], "rolled-back");
    assert_eq!(differences(&before, &env.snapshot().unwrap()), [""; 0]);
}

#[test]
#[ignore = "needs the lab"]
fn a_host_that_booted_something_else_is_adopted() {
    let env = Env::new().unwrap();
    env.switch(&plan(&env, &Overlay::version("second")))
        .unwrap();
    let third = env
        .host_lab
        .tree
        .commit(&Overlay::version("third"))
        .unwrap();
    env.host.pull(&third).unwrap();
    env.host
        .run(["ostree", "admin", "deploy", "--no-prune", &third.checksum])
        .unwrap();
    let last = env.reboot().unwrap();
    assert_eq!(last["outcome"], "adopted", "{last}");
    assert_eq!(env.view().unwrap()["booted"]["version"], "third");
}

#[test]
#[ignore = "needs the lab"]
fn what_others_write_is_carried_back_where_a_verified_target_is_left() {
    let env = Env::new().unwrap();
    let os = env.push(&Overlay::version("second")).unwrap();
    let (from, to) = (configs::none().unwrap(), configs::argument(&os).unwrap());
    env.switch(&configs::plan("a1", &from, &to).unwrap())
        .unwrap();
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");
    let run = |script: &str| env.host.run(["sh", "-c", script]).unwrap();
    run("echo since >/etc/since; echo late >/etc/late; useradd --system late");
    for (verb, since) in [("boot-previous", "since"), ("boot-previous", "again")] {
        env.expect(4, &[verb]).unwrap();
        env.host.reboot().unwrap();
        assert_eq!(run("cat /etc/since /etc/late"), format!("{since}\nlate"));
        run("getent passwd late; echo again >/etc/since");
    }
    assert_eq!(env.view().unwrap()["booted"]["version"], "second");
}

#[test]
#[ignore = "needs the lab"]
fn by_hand_an_update_leads_back_where_deployments_share_what_differs() {
    let env = Env::new().unwrap();
    let (none, full) = (
        configs::none().unwrap(),
        configs::full(configs::FIRST_OS).unwrap(),
    );
    for (attempt, from, to) in [("a1", &none, &full), ("a2", &full, &none)] {
        let plan = configs::plan(attempt, from, to).unwrap();
        env.switch(&plan).unwrap();
        assert_eq!(env.reboot().unwrap()["outcome"], "proved");
    }
    let tool = "/usr/local/bin/tool";
    assert_ne!(env.host.exec(["cat", tool]).unwrap().code, Some(0));
    let output = env.host.exec([MCD, "rollback"]).unwrap();
    assert_eq!(output.code, Some(4), "{output:?}");
    assert_eq!(
        output.stdout,
        format!("an update leads back to {}\n", full.name)
    );
    assert!(output.stderr.contains(tool), "{output:?}");
    let view = env.view().unwrap();
    assert_eq!(view["held"]["config"], none.name.as_str());
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");
    assert_eq!(env.view().unwrap()["booted"]["config"], full.name.as_str());
    assert_eq!(env.stat(tool).unwrap().1, "#!/bin/sh");

    // What stops an update stops it, too, and what was held is held.
    env.host
        .run(["sh", "-c", "echo by hand >/etc/managed/secret"])
        .unwrap();
    let output = env.host.exec([MCD, "rollback"]).unwrap();
    assert_eq!(output.code, Some(3), "{output:?}");
    assert!(output.stderr.contains("/etc/managed/secret"), "{output:?}");
    assert_eq!(env.view().unwrap()["held"], view["held"]);
    env.expect(1, &["verify"]).unwrap();
}
