//! Hosts that run their pods for real: processes, probes, logs, mounts and Services.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lab::control_plane::{ControlPlane, Options};
use lab::host::{BOOTED_WITHIN, Containers, Host, HostSpec};
use lab::registry::Registry;
use lab::tree::Tree;
use lab::wait::until_blocking;
use lab::{Lab, PATIENCE};

/// Time between two polls by kubectl, which takes as long itself.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// The last that the programs of a host said.
const JOURNAL: &str = "journalctl --no-pager --output=cat --unit=kubelet --unit=containerd \
    --unit=kube-proxy | grep --invert-match 'config path' | tail --lines=14";

/// Hosts whose pods are processes.
struct Cluster {
    // Dropped in this order.
    hosts: Vec<Host>,
    control_plane: Arc<ControlPlane>,
    _registry: Registry,
    /// From the start of the hosts until all Nodes were Ready.
    ready_after: Duration,
    lab: Lab,
}

impl Cluster {
    fn start(names: &[&str]) -> Result<Self> {
        let lab = Lab::create()?;
        let registry = Registry::start(&lab)?;
        let nodes = names.iter().map(ToString::to_string).collect();
        let options = Options::for_hosts(lab.address().into(), nodes);
        let control_plane = Arc::new(ControlPlane::start(&options)?);
        let containers = Containers::new(&control_plane, &registry)?;
        let mut cluster = Self {
            hosts: Vec::new(),
            control_plane,
            _registry: registry,
            ready_after: Duration::ZERO,
            lab,
        };
        for name in names {
            cluster.add_host(name, &containers)?;
        }
        let begun = Instant::now();
        for host in &cluster.hosts {
            host.wait_booted(BOOTED_WITHIN)?;
            cluster.node_is_ready(host.name())?;
        }
        cluster.ready_after = begun.elapsed();
        Ok(cluster)
    }

    fn add_host(&mut self, name: &str, containers: &Containers) -> Result<()> {
        let [a, b, c, _] = self.lab.address().octets();
        // The lab numbers its hosts from 10.
        let address = Ipv4Addr::new(a, b, c, 10 + u8::try_from(self.hosts.len())?);
        let kubeconfig = self.control_plane.node_kubeconfig(name)?;
        let arguments = format!("--node-name={name} --node-ip={address}");
        let binary = self.control_plane.programs().binary();
        let (reports, node) = (Arc::clone(&self.control_plane), name.to_owned());
        let spec = HostSpec::new(name, Tree::ready()?.base())
            .containers(containers, address, &kubeconfig, &arguments)
            .bin(binary.parent().context("the binary is in no folder")?)
            .when_down(move || report_down(&reports, &node));
        let mut host = Host::create(&self.lab, spec)?;
        host.start()?;
        self.hosts.push(host);
        Ok(())
    }

    fn node_is_ready(&self, node: &str) -> Result<()> {
        let output = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
        self.until(&["get", "node", node, "--output", output], "True")
    }

    #[expect(clippy::disallowed_methods, reason = "a run's own file")]
    fn apply(&self, yaml: &str) -> Result<()> {
        let file = self.lab.dir().join("objects.yaml");
        fs::write(&file, yaml)?;
        self.kubectl(&["apply", "--filename", &file.display().to_string()])?;
        Ok(())
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        Ok(self.control_plane.kubectl(arguments)?.trim_end().to_owned())
    }

    /// Waits until kubectl prints `wanted`. An error is one of the start, and shown in the end.
    fn until(&self, arguments: &[&str], wanted: &str) -> Result<()> {
        let what = format!("`kubectl {}` to print {wanted:?}", arguments.join(" "));
        until_blocking(&what, PATIENCE, POLL_EVERY, || {
            Ok(match self.kubectl(arguments) {
                Ok(printed) if printed == wanted => Ok(()),
                Ok(printed) => Err(printed),
                Err(error) => Err(format!("{error:#}")),
            })
        })
        .with_context(|| self.pods())
    }

    /// For a failure.
    fn pods(&self) -> String {
        let get = ["describe", "pods"];
        let all = self.kubectl(&get).unwrap_or_default();
        let host = self.hosts.first();
        let journal = host.map(|host| host.exec(["sh", "-c", JOURNAL]));
        let journal = journal.and_then(Result::ok).map(|output| output.stdout);
        format!("{all}\n{}", journal.unwrap_or_default())
    }

    /// Readiness of the pods that carry a label, in one line.
    fn ready(&self, label: &str, wanted: &str) -> Result<()> {
        let output = "jsonpath={.items[*].status.containerStatuses[*].ready}";
        self.until(
            &["get", "pods", "--selector", label, "--output", output],
            wanted,
        )
    }
}

/// That a cluster on its way down cannot know says nothing of the test.
fn report_down(control_plane: &ControlPlane, node: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    if let Ok(runtime) = runtime {
        drop(runtime.block_on(control_plane.host_is_down(node)));
    }
}

const POD: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {page: first, other: not mounted}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {token: secret}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: registry.lab/busybox:1
    command: [sh, -c, 'echo started; exec httpd -f -p 8080 -h /tmp']
    readinessProbe:
      httpGet: {port: 8080, path: /ready}
      periodSeconds: 1
    volumeMounts:
    - {name: settings, mountPath: /settings}
    - {name: settings, mountPath: /page, subPath: page}
    - {name: key, mountPath: /key, readOnly: true}
  volumes:
  - {name: settings, configMap: {name: settings}}
  - {name: key, secret: {secretName: key}}
";

#[test]
#[ignore = "needs root, a host and the control-plane binary"]
fn a_pod_is_a_process_with_probes_logs_and_mounts() -> Result<()> {
    let cluster = Cluster::start(&["worker-0"])?;
    let host = &cluster.hosts[0];
    cluster.apply(POD)?;
    let exec = |command: &[&str]| cluster.kubectl(&[&["exec", "web", "--"], command].concat());

    // It runs, and what its probe asks for is not there.
    cluster.until(&["logs", "web"], "started")?;
    cluster.ready("app=web", "false")?;
    exec(&["touch", "/tmp/ready"])?;
    cluster.ready("app=web", "true")?;
    exec(&["rm", "/tmp/ready"])?;
    cluster.ready("app=web", "false")?;

    assert_eq!(exec(&["cat", "/key/token"])?, "secret");
    assert_eq!(exec(&["ls", "/settings"])?, "other\npage");
    assert_eq!(exec(&["cat", "/page"])?, "first");
    let mounts = exec(&["cat", "/proc/mounts"])?;
    let is_tmpfs = |line: &str| line.starts_with("tmpfs /key tmpfs ro");
    assert!(mounts.lines().any(is_tmpfs), "{mounts}");
    // The API server, by its Service.
    let connect = "nc -w 10 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null";
    exec(&["sh", "-c", connect])?;
    // Logs of the host's services, which no pod's are.
    let query = "/api/v1/nodes/worker-0/proxy/logs/?query=containerd";
    let journal = cluster.kubectl(&["get", "--raw", query])?;
    assert!(journal.contains("containerd["), "{journal}");
    // A pod's clock is the host's, of this boot.
    let uptime = exec(&["cut", "-d.", "-f1", "/proc/uptime"])?;
    let of_host = host.run(["cut", "-d.", "-f1", "/proc/uptime"])?;
    let apart = of_host.parse::<u64>()?.abs_diff(uptime.parse()?);
    assert!(apart <= 10, "{uptime} s in a pod, {of_host} s on its host");

    println!(
        "ready {:.1} s after the start",
        cluster.ready_after.as_secs_f64()
    );
    println!("memory of the host: {} MiB", memory_mib(host)?);
    exec(&["touch", "/tmp/ready"])?;
    let begun = Instant::now();
    host.reboot()?;
    cluster.node_is_ready("worker-0")?;
    println!(
        "ready {:.1} s after the reboot was asked for",
        begun.elapsed().as_secs_f64()
    );
    // A container of its own: the file is gone with the one before.
    cluster.until(&["logs", "web"], "started")?;
    cluster.ready("app=web", "false")?;
    Ok(())
}

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {app: web}}
      containers:
      - name: web
        image: registry.lab/busybox:1
        command: [sh, -c, 'hostname >/tmp/index.html; exec httpd -f -p 8080 -h /tmp']
        readinessProbe:
          httpGet: {port: 8080, path: /}
          periodSeconds: 1
";

#[test]
#[ignore = "needs root, a host and the control-plane binary"]
fn a_service_reaches_the_pods_of_all_hosts() -> Result<()> {
    let cluster = Cluster::start(&["worker-0", "worker-1"])?;
    cluster.apply(SERVICE)?;
    cluster.ready("app=web", "true true")?;
    let names = "jsonpath={.items[*].metadata.name}";
    let pods = cluster.kubectl(&["get", "pods", "--output", names])?;
    let pods: Vec<_> = pods.split(' ').collect();
    let address = "jsonpath={.spec.clusterIP}";
    let address = cluster.kubectl(&["get", "service", "web", "--output", address])?;
    let ask = format!("timeout 5 wget -q -O - http://{address}/");
    for from in &pods {
        for to in &pods {
            let what = format!("{to} to answer {from} by the Service");
            until_blocking(&what, PATIENCE, POLL_EVERY, || {
                let printed = cluster.kubectl(&["exec", from, "--", "sh", "-c", &ask]);
                Ok(match printed {
                    Ok(printed) if printed == *to => Ok(()),
                    Ok(printed) => Err(printed),
                    Err(error) => Err(format!("{error:#}")),
                })
            })?;
        }
    }
    // Without a pod behind it, it reaches nothing.
    cluster.kubectl(&["scale", "deployment", "web", "--replicas=0"])?;
    cluster.ready("app=web", "")?;
    let printed =
        cluster.hosts[0].exec(["bash", "-c", &format!("exec 3<>/dev/tcp/{address}/80")])?;
    ensure!(printed.code != Some(0), "a Service without pods answers");
    Ok(())
}

/// What all processes of a host take, shared pages counted in parts.
fn memory_mib(host: &Host) -> Result<u64> {
    let sum =
        "cat /proc/[0-9]*/smaps_rollup 2>/dev/null | awk '/^Pss:/ {sum += $2} END {print sum}'";
    let kib: u64 = host.run(["bash", "-c", sum])?.trim().parse()?;
    Ok(kib / 1024)
}
