//! A program on a host runs as a DaemonSet's container would, and comes back as one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use lab::host::{BOOTED_WITHIN, Host, HostSpec, Pod, PodSpec, Propagation};
use lab::tree::Tree;
use lab::wait::until_blocking;
use lab::{Lab, PATIENCE};
use nix::sys::signal::{Signal, kill};

/// Time for what takes a second or less.
const SOON: Duration = PATIENCE;

fn booted() -> Host {
    let tree = Tree::ready().unwrap();
    let lab = Lab::create().unwrap();
    let mut host = Host::create(&lab, HostSpec::new("node", tree.base())).unwrap();
    host.start().unwrap();
    host.wait_booted(BOOTED_WITHIN).unwrap();
    host
}

/// A container with a shell that runs `script`, and sleeps then; it says `sleeping` when a SIGTERM
/// ends it.
fn shell(script: &str) -> PodSpec {
    let sleep = "trap 'exit 0' TERM; echo sleeping; while :; do /bin/sleep 0.1; done";
    let script = format!("{script}\n{sleep}");
    let programs = ["/bin/sh", "/bin/sleep", "/bin/ls", "/bin/cat", "/bin/touch"];
    let spec = PodSpec::new("daemon", ["/bin/sh", "-ec", &script]);
    programs.into_iter().fold(spec, |spec, program| {
        spec.program(Path::new(program), program)
    })
}

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let pause = Duration::from_millis(1);
    let found = || Ok(holds().then_some(()).ok_or_else(|| "not yet".to_owned()));
    until_blocking(what, SOON, pause, found).unwrap();
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn a_container_sees_the_host_only_where_it_is_mounted() {
    let host = booted();
    let folder = tempfile::tempdir().unwrap();
    fs::copy("/proc/self/comm", folder.path().join("token")).unwrap();
    let spec = shell(
        "/bin/ls / /secret; /bin/cat /proc/1/comm /proc/sys/kernel/random/boot_id; \
         /bin/touch /rootfs/etc/from-container /tmp/x; /bin/touch /x || echo read-only; \
         echo written >/mine/x; /bin/touch /rootfs/usr/x || echo also",
    )
    .host_path("/", "/rootfs", Propagation::HostToContainer)
    .host_path("/var/opt", "/mine", Propagation::None)
    .folder(folder.path(), "/secret")
    .empty_dir("/tmp");
    let pod = Pod::start(&host, spec).unwrap();
    let log = || fs::read_to_string(pod.log()).unwrap_or_default();
    wait_for("the script's end", || log().contains("also"));

    let text = log();
    let root: Vec<_> = text
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .collect();
    let expected = [
        "bin", "dev", "etc", "lib", "lib64", "mine", "proc", "rootfs", "secret", "sys", "tmp",
    ];
    assert_eq!(root, expected, "{text}");
    for line in ["token", "systemd", host.boots()[0].id.as_str(), "read-only"] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is not in {text}"
        );
    }
    host.run(["test", "-e", "/etc/from-container"]).unwrap();
    assert_eq!(host.run(["cat", "/var/opt/x"]).unwrap(), "written");
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn a_mount_made_on_the_host_later_appears_in_a_container() {
    let host = booted();
    let pod =
        Pod::start(
            &host,
            shell("while ! /bin/ls /rootfs/mnt/late; do /bin/sleep 0.1; done; echo seen")
                .host_path("/", "/rootfs", Propagation::HostToContainer),
        )
        .unwrap();
    pod.wait_running(SOON).unwrap();
    host.run(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]).unwrap();
    host.run(["touch", "/mnt/late"]).unwrap();
    wait_for("the mount", || {
        fs::read_to_string(pod.log()).unwrap().contains("seen")
    });
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn what_is_killed_is_started_again_until_it_is_stopped() {
    let host = booted();
    let mut pod = Pod::start(&host, shell("")).unwrap();
    let first = pod.wait_running(SOON).unwrap();
    pod.signal(Signal::SIGKILL).unwrap();
    wait_for("a second start", || pod.starts() == 2);
    let second = pod.wait_running(SOON).unwrap();
    assert_ne!(first, second);
    // Before its trap is set, a SIGTERM is lost: the first process of a namespace ignores it.
    wait_for("the second one's trap", || {
        let log = fs::read_to_string(pod.log()).unwrap();
        log.rsplit_once("--- ")
            .is_some_and(|(_, since)| since.contains("sleeping"))
    });

    pod.stop(SOON).unwrap();
    assert!(kill(second, None).is_err());
    assert_eq!(pod.starts(), 2);
    assert!(
        fs::read_to_string(pod.log())
            .unwrap()
            .trim_end()
            .ends_with("exit status: 0")
    );
}

#[test]
#[ignore = "needs root, debootstrap tree"]
fn a_container_goes_with_the_host_and_comes_back_with_it() {
    let mut host = booted();
    let pod = Pod::start(&host, shell("")).unwrap();
    let first = pod.wait_running(SOON).unwrap();
    host.reboot().unwrap();
    wait_for("the start after the reboot", || pod.starts() == 2);
    assert!(kill(first, None).is_err());

    let second = pod.wait_running(SOON).unwrap();
    host.kill().unwrap();
    wait_for("its end", || kill(second, None).is_err());
    host.start().unwrap();
    wait_for("the start after the power cut", || pod.starts() == 3);
}
