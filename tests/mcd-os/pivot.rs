//! `mcd pivot` and `mcd status` on a host without a cluster.

use lab::image::Image;
use lab::tree::Overlay;
use observer::{host, shutdown};

use testbed::single_host::MCD_BROUGHT as MCD;

use super::configs;
use super::env::Env;

#[test]
#[ignore = "needs the lab"]
fn a_host_is_pivoted_to_either_form_of_image() {
    let env = Env::untouched().unwrap();
    let native = env.push(&Overlay::version("second")).unwrap();
    let output = env.host.exec([MCD, "pivot", &native]).unwrap();
    assert_eq!(output.code, Some(4), "{output:?}");
    let status = env.host.run([MCD, "status"]).unwrap();
    assert!(
        status.contains("reason     the boot loader names the target"),
        "{status}"
    );
    assert!(
        status.contains("next       no configuration, OS second "),
        "{status}"
    );
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");
    assert_eq!(env.view().unwrap()["booted"]["os_image"], native.as_str());

    let commit = env
        .host_lab
        .tree
        .commit(&Overlay::version("third"))
        .unwrap();
    let image = Image::with_repository(&commit).unwrap();
    let image = env.host_lab.registry.push(&image, "content:third").unwrap();
    let seen = env.host.boots().len();
    shutdown::listen(&env.host).unwrap();
    let output = env.host.exec([MCD, "pivot", "--reboot", &image]).unwrap();
    assert!(output.code.is_none_or(|code| code == 0), "{output:?}");
    env.host
        .wait_booted_after(seen, lab::host::BOOTED_WITHIN)
        .unwrap();
    assert_eq!(env.wait_ended().unwrap()["outcome"], "proved");
    assert_eq!(
        shutdown::heard(&env.host).unwrap(),
        ["announced", "waited for"]
    );
    let view = env.view().unwrap();
    assert_eq!(
        (&view["booted"]["version"], &view["booted"]["os_image"]),
        (&"third".into(), &image.as_str().into())
    );
    assert_eq!(view["rollback"]["version"], "second");
    let status = env.host.run([MCD, "status"]).unwrap();
    assert!(status.starts_with("phase      Idle\n"), "{status}");
    let json = env.host.run([MCD, "status", "--json"]).unwrap();
    let mut expected = view;
    expected["phase"] = "Idle".into();
    expected["reason"] = serde_json::Value::Null;
    expected["lacks_selinux_module"] = false.into();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&json).unwrap(),
        expected
    );
}

/// What the test above is judged by.
#[test]
#[ignore = "needs the lab"]
fn a_forced_reboot_is_not_announced() {
    let env = Env::untouched().unwrap();
    let seen = env.host.boots().len();
    shutdown::listen(&env.host).unwrap();
    drop(env.host.exec(["systemctl", "reboot", "--force"]));
    env.host
        .wait_booted_after(seen, lab::host::BOOTED_WITHIN)
        .unwrap();
    assert_eq!(shutdown::heard(&env.host).unwrap(), [""; 0]);
}

#[test]
#[ignore = "needs the lab"]
fn a_pivoted_host_keeps_its_configuration() {
    let env = Env::new().unwrap();
    let full = configs::full(configs::FIRST_OS).unwrap();
    env.switch(&configs::plan("a1", &configs::none().unwrap(), &full).unwrap())
        .unwrap();
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");
    let image = env.push(&Overlay::version("second")).unwrap();
    let output = env.host.exec([MCD, "pivot", &image]).unwrap();
    assert_eq!(output.code, Some(4), "{output:?}");
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");
    let view = env.view().unwrap();
    assert_eq!(view["booted"]["config"], "rendered-full");
    assert_eq!(
        view["booted"]["image"],
        image.as_str(),
        "named, as the configuration asks for another"
    );
    assert_eq!(env.stat("/etc/managed/secret").unwrap().1, "secret");
    env.expect(0, &["verify"]).unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_pivot_to_the_booted_image_changes_nothing_and_a_reverted_one_keeps_the_way_back() {
    let env = Env::untouched().unwrap();
    let second = env.push(&Overlay::version("second")).unwrap();
    let output = env.host.exec([MCD, "pivot", &second]).unwrap();
    assert_eq!(output.code, Some(4), "{output:?}");
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");
    let words = ["journalctl", "-b", "-o", "cat", "-u", "slipway-guard"];
    let printed = env.host.exec(words).unwrap().stdout;
    assert!(!printed.is_empty(), "the guard ran");
    assert!(
        !printed.contains("/etc"),
        "nothing changed there: {printed}"
    );
    let (before, entries) = (host::snapshot(&env.host).unwrap(), env.entries().unwrap());
    let view = env.view().unwrap();
    let output = env.host.exec([MCD, "pivot", "--reboot", &second]).unwrap();
    assert_eq!(output.code, Some(0), "{output:?}");
    let printed = format!("nothing to do: {second} is booted\n");
    assert_eq!(output.stdout, printed);
    assert_eq!(env.view().unwrap(), view);
    assert_eq!(env.entries().unwrap(), entries);
    let after = host::snapshot(&env.host).unwrap();
    assert_eq!(host::differences(&before, &after), [""; 0]);
    // Another one that is reverted leaves the previous deployment.
    let third = env.push(&Overlay::version("third")).unwrap();
    let output = env.host.exec([MCD, "pivot", &third]).unwrap();
    assert_eq!(output.code, Some(4), "{output:?}");
    env.expect(0, &["rollback"]).unwrap();
    let view = env.view().unwrap();
    assert_eq!(view["booted"]["version"], "second");
    assert_eq!(view["rollback"]["version"], "v1");
    // And by hand back to that one, which is then the other's way back.
    let output = env.host.exec([MCD, "rollback"]).unwrap();
    assert_eq!(output.code, Some(4), "{output:?}");
    let view = env.view().unwrap();
    assert_eq!(view["next"]["version"], "v1");
    let output = env.host.exec([MCD, "rollback"]).unwrap();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(env.view().unwrap()["next"], serde_json::Value::Null);
    let output = env.host.exec([MCD, "rollback"]).unwrap();
    assert_eq!(output.code, Some(4), "{output:?}");
    env.host.reboot().unwrap();
    let view = env.view().unwrap();
    assert_eq!(view["booted"]["version"], "v1");
    assert_eq!(view["rollback"]["version"], "second");
}

#[test]
#[ignore = "needs the lab"]
fn a_pivot_that_is_refused_changes_nothing() {
    let env = Env::untouched().unwrap();
    let nothing = format!("{}/absent:1", env.host_lab.registry.location());
    let no_kernel = Overlay::version("no-kernel").without_kernel();
    let no_kernel = env.push(&no_kernel).unwrap();
    let before = host::snapshot(&env.host).unwrap();
    for (image, why) in [(nothing, "manifest unknown"), (no_kernel, "kernel")] {
        let output = env.host.exec([MCD, "pivot", &image]).unwrap();
        assert_eq!(output.code, Some(3), "{output:?}");
        assert!(output.stderr.contains(why), "{output:?}");
        let after = host::snapshot(&env.host).unwrap();
        assert_eq!(host::differences(&before, &after), [""; 0]);
        let plans = env.host.run(["ls", "/var/lib/slipway/plans"]);
        assert_eq!(plans.unwrap_or_default(), "");
    }
}
