//! A host of the lab as a Node of the control plane.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lab::audit::{self, nodes};
use lab::control_plane::{ControlPlane, Options};
use lab::host::{BOOTED_WITHIN, Host, HostSpec};
use lab::tree::Tree;
use lab::{Lab, PATIENCE};

/// How long a kubelet may take to say that its Node is Ready. It takes 1 to 2 s.
const READY_WITHIN: Duration = PATIENCE;

/// Boot id of the Node once it is Ready and `wanted` holds of the id.
fn ready(control_plane: &ControlPlane, wanted: impl Fn(&str) -> bool) -> Result<String> {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        let output = "jsonpath={.items[*].status.nodeInfo.bootID} \
                      {.items[*].status.conditions[?(@.type=='Ready')].status}";
        let seen = control_plane.kubectl(&["get", "nodes", "--output", output])?;
        if let Some((boot_id, "True")) = seen.split_once(' ')
            && wanted(boot_id)
        {
            return Ok(boot_id.to_owned());
        }
        ensure!(
            Instant::now() < deadline,
            "not Ready within {READY_WITHIN:?}: {seen}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
#[ignore = "needs root, a host and the control-plane binary"]
fn a_host_is_ready_by_its_kubelet_and_is_not_while_it_is_down() -> Result<()> {
    let lab = Lab::create()?;
    let options = Options::for_hosts(lab.address().into(), vec!["worker-0".into()]);
    let control_plane = Arc::new(ControlPlane::start(&options)?);

    let [a, b, c, _] = lab.address().octets();
    let address = Ipv4Addr::new(a, b, c, 10);
    let arguments = format!("--node-name=worker-0 --node-ip={address}");
    let binary = control_plane.programs().binary();
    let reports = Arc::clone(&control_plane);
    let spec = HostSpec::new("worker-0", Tree::ready()?.base())
        .kubelet(
            &control_plane.node_kubeconfig("worker-0")?,
            &arguments,
            control_plane.ca_pem(),
        )
        .bin(binary.parent().context("the binary is in no folder")?)
        .when_down(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime
                .unwrap()
                .block_on(reports.host_is_down("worker-0"))
                .unwrap();
        });
    let mut host = Host::create(&lab, spec)?;
    assert_eq!(host.address(), address);
    host.start()?;
    host.wait_booted(BOOTED_WITHIN)?;
    let first = ready(&control_plane, |_| true)?;
    let ask =
        "exec 3<>/dev/tcp/127.0.0.1/10248; printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3";
    let health = host.run(["bash", "-c", ask])?;
    assert!(health.starts_with("HTTP/1.0 200 OK"), "{health}");
    assert!(health.ends_with("\r\n\r\nok"), "{health}");
    let logs = |query: &str| {
        let path = format!("/api/v1/nodes/worker-0/proxy/logs/{query}");
        control_plane.kubectl(&["get", "--raw", &path])
    };
    let of_kubelet = logs("?query=kubelet")?;
    assert!(
        of_kubelet.contains("Starting to listen"),
        "what the kubelet logged: {of_kubelet}"
    );
    host.run(["sh", "-c", "echo written >/var/log/lab.log"])?;
    assert_eq!(logs("lab.log")?, "written\n");
    assert!(logs("")?.contains(">lab.log<"));
    let begun = Instant::now();
    host.reboot()?;
    let second = ready(&control_plane, |boot_id| boot_id != first)?;
    println!(
        "ready {:.1} s after the reboot was asked for",
        begun.elapsed().as_secs_f64()
    );
    assert_eq!(
        host.run(["cat", "/proc/sys/kernel/random/boot_id"])?,
        second
    );
    host.stop()?;

    let events = audit::load(&control_plane.audit_log())?;
    let histories = nodes::histories(&events);
    let away = nodes::intervals(&histories["worker-0"], |node| !node.is_ready);
    let ended: Vec<_> = away.iter().map(|away| away.until.is_some()).collect();
    // Before the first boot, during the reboot, and since the stop.
    assert_eq!(ended, [true, true, false], "{away:#?}");
    Ok(())
}
