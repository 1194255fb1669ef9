//! Ways back: before the reboot, after it, by hand and by itself.

use lab::PATIENCE;
use lab::host::BOOTED_WITHIN;
use lab::tree::Overlay;
use node_update::plan::Bundle;
use node_update::verify::Expectation;
use serde_json::json;
use testbed::{single_host, until_blocking};

use super::configs;
use super::site::{PAUSE, Site, differences};

fn plan(site: &Site, overlay: &Overlay) -> Bundle {
    let os = site.push(overlay).unwrap();
    configs::to_full("a1", &os).unwrap()
}

/// Boots a target that does not hold and is to stay, until it was given up; what is seen then.
fn stay_in(site: &Site, plan: &Bundle) -> serde_json::Value {
    let image = plan.plan.deploy.clone().unwrap().image.unwrap();
    site.expect(0, &["fetch", &image]).unwrap();
    let directory = site.put(plan).unwrap();
    site.expect(4, &["apply", &directory, "--stay"]).unwrap();
    site.host.reboot().unwrap();
    until_blocking("the target to fail", PATIENCE, PAUSE, || {
        let view = site.view()?;
        let has_failed = view["journal"]["stage"] == "failed";
        Ok(if has_failed {
            Ok(view)
        } else {
            Err(view.to_string())
        })
    })
    .unwrap()
}

fn hasty() -> Site {
    Site::with(|spec, _| single_host::proved_within(spec, 3)).unwrap()
}

/// Reboots a host into a target that it leaves again; how the attempt ended.
fn goes_back_by_itself(site: &Site) -> serde_json::Value {
    let seen = site.host.boots().len();
    site.host.reboot().unwrap();
    // The second boot after this is one that the host asked for itself.
    site.host
        .wait_booted_after(seen + 1, BOOTED_WITHIN)
        .unwrap();
    let last = site.wait_ended().unwrap();
    assert_eq!(last["outcome"], "rolled-back", "{last}");
    last
}

#[test]
#[ignore = "needs the lab"]
fn before_the_reboot_the_switch_is_taken_back() {
    let site = Site::new().unwrap();
    let (before, entries) = (site.snapshot().unwrap(), site.entries().unwrap());
    site.switch(&plan(&site, &Overlay::version("second")))
        .unwrap();
    assert_ne!(site.entries().unwrap(), entries);
    site.expect(0, &["rollback"]).unwrap();
    assert_eq!(site.entries().unwrap(), entries);
    assert_eq!(site.deployments_on_disk().unwrap(), 1);
    assert_eq!(differences(&before, &site.snapshot().unwrap()), [""; 0]);
    site.host
        .run(["systemctl", "is-active", "kubelet.service"])
        .unwrap();
    let timer = ["systemctl", "is-active", "slipway-kubelet-a1.timer"];
    assert_ne!(site.host.exec(timer).unwrap().code, Some(0));
    assert_eq!(site.view().unwrap()["last"]["outcome"], "undone");
    site.expect(0, &["rollback"]).unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_target_whose_checks_fail_goes_back_by_itself_and_is_held() {
    leaves(&Overlay::version("second").failing_kubelet());
}

#[test]
#[ignore = "needs the lab"]
fn a_target_whose_kubelet_never_comes_to_run_goes_back_by_itself_and_is_held() {
    leaves(&Overlay::version("second").hanging_kubelet());
}

#[test]
#[ignore = "needs the lab"]
fn a_target_whose_kubelet_is_kept_from_running_goes_back_by_itself_and_is_held() {
    let kept = "[Unit]\nConditionPathExists=/nowhere\n";
    let path = "/usr/lib/systemd/system/kubelet.service.d/10-kept.conf";
    leaves(&Overlay::version("second").file(path, kept, 0o644));
}

#[test]
#[ignore = "needs the lab"]
fn a_kubelet_that_waits_for_others_is_waited_for() {
    let site = hasty();
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
    let mut plan = plan(&site, &overlay);
    plan.plan.expect.push(Expectation::Runs {
        unit: "kubelet.service".to_owned(),
    });
    site.switch(&plan).unwrap();
    let last = site.reboot().unwrap();
    assert_eq!(last["outcome"], "proved", "{last}");
}

/// A host leaves a target with this kubelet, for its kubelet.
fn leaves(overlay: &Overlay) {
    let site = hasty();
    let before = site.snapshot().unwrap();
    let booted = site.host.boots().pop().unwrap().deployment;
    let mut plan = plan(&site, overlay);
    plan.plan.expect.push(Expectation::Runs {
        unit: "kubelet.service".to_owned(),
    });
    site.switch(&plan).unwrap();
    let last = goes_back_by_itself(&site);
    assert!(
        last["cause"].as_str().unwrap().contains("kubelet.service"),
        "{last}"
    );
    assert_eq!(site.host.boots().pop().unwrap().deployment, booted);
    assert_eq!(differences(&before, &site.snapshot().unwrap()), [""; 0]);
    let view = site.view().unwrap();
    assert_eq!(view["held"]["config"], "rendered-full");
    assert_eq!(view["next"], json!(null), "a reboot stays where it is");
    site.host
        .run(["systemctl", "is-active", "kubelet.service"])
        .unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_target_whose_first_boot_cannot_be_finished_goes_back_by_itself_and_is_held() {
    let site = hasty();
    let booted = site.host.boots().pop().unwrap().deployment;
    site.switch(&plan(&site, &Overlay::version("second")))
        .unwrap();
    // Since the rehearsal somebody put something into the way of a file outside of the deployment.
    site.host
        .run(["mkdir", "-p", "/home/core/notes/x"])
        .unwrap();
    let before = site.snapshot().unwrap();
    let last = goes_back_by_itself(&site);
    let cause = last["cause"].as_str().unwrap();
    assert!(cause.contains("file /home/core/notes"), "{last}");
    assert_eq!(site.host.boots().pop().unwrap().deployment, booted);
    assert_eq!(differences(&before, &site.snapshot().unwrap()), [""; 0]);
    assert_eq!(site.view().unwrap()["held"]["config"], "rendered-full");
}

#[test]
#[ignore = "needs the lab"]
fn a_target_that_is_to_stay_is_held_and_stays_booted() {
    let site = hasty();
    let mut plan = plan(&site, &Overlay::version("second").failing_kubelet());
    plan.plan.expect.push(Expectation::Runs {
        unit: "kubelet.service".to_owned(),
    });
    let view = stay_in(&site, &plan);
    assert_eq!(view["booted"]["version"], "second");
    assert_eq!(view["held"]["config"], "rendered-full");
    let look_again = ["guard", "--prove", "--deadline", "0"];
    site.expect(1, &look_again).unwrap();
    assert_eq!(site.view().unwrap()["journal"]["stage"], "failed");
    site.expect(4, &["rollback"]).unwrap();
    assert_eq!(site.reboot().unwrap()["outcome"], "rolled-back");
}

#[test]
#[ignore = "needs the lab"]
fn a_target_that_stays_and_is_mended_is_proved() {
    let site = hasty();
    let mut plan = plan(&site, &Overlay::version("second"));
    let unit = "mended.service".to_owned();
    plan.plan.expect.push(Expectation::Runs { unit });
    stay_in(&site, &plan);
    let mend = "printf '[Service]\\nType=oneshot\\nRemainAfterExit=yes\\nExecStart=/bin/true\\n' \
                > /etc/systemd/system/mended.service && systemctl start mended.service";
    site.host.run(["sh", "-c", mend]).unwrap();
    site.expect(0, &["guard", "--prove", "--deadline", "0"])
        .unwrap();
    let view = site.view().unwrap();
    assert_eq!(view["last"]["outcome"], "proved", "{view}");
    assert_eq!(view["held"], json!(null));
}

#[test]
#[ignore = "needs the lab"]
fn a_booted_target_can_be_taken_back_by_hand() {
    // The checks never hold, so that there is time.
    let site = Site::new().unwrap();
    let before = site.snapshot().unwrap();
    let mut plan = plan(&site, &Overlay::version("second").failing_kubelet());
    plan.plan.expect.push(Expectation::Runs {
        unit: "kubelet.service".to_owned(),
    });
    site.switch(&plan).unwrap();
    site.host.reboot().unwrap();
    site.host.run(["test", "-e", "/home/core/notes"]).unwrap();
    assert_eq!(site.view().unwrap()["journal"]["stage"], "booted");
    site.expect(4, &["rollback"]).unwrap();
    assert_eq!(site.reboot().unwrap()["outcome"], "rolled-back");
    assert_eq!(differences(&before, &site.snapshot().unwrap()), [""; 0]);
}

#[test]
#[ignore = "needs the lab"]
fn a_host_that_booted_something_else_is_taken_as_it_is() {
    let site = Site::new().unwrap();
    site.switch(&plan(&site, &Overlay::version("second")))
        .unwrap();
    let third = site
        .host_lab
        .tree
        .commit(&Overlay::version("third"))
        .unwrap();
    site.host.pull(&third).unwrap();
    site.host
        .run(["ostree", "admin", "deploy", "--no-prune", &third.checksum])
        .unwrap();
    let last = site.reboot().unwrap();
    assert_eq!(last["outcome"], "adopted", "{last}");
    assert_eq!(site.view().unwrap()["booted"]["version"], "third");
}
