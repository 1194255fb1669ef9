//! What a host needs to run pods: containerd, the network of its pods, kube-proxy.
//!
//! All are files that an installer leaves. Pods have addresses of their own behind a bridge on each
//! host, [`POD_NETWORKS`] by the host's last octet, and hosts have a route to each other's pods.

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::spec::HostSpec;
use crate::container_runtime::{ContainerRuntime, OCI_RUNTIME_NAME};
use crate::control_plane::{ControlPlane, SERVICES};
use crate::image::busybox;
use crate::registry::Registry;

/// Name of the lab's registry in pull specs of pods.
const REGISTRY_NAME: &str = "registry.lab";

/// A small image with a shell and its tools, which waits until it is ended.
pub const BUSYBOX: &str = "registry.lab/busybox:1";

/// Where Debian's package of CNI plugins has its programs, on this machine.
const CNI_PLUGINS: &str = "/usr/lib/cni";

/// Before the last octet of a host's address, the network of its pods, of 254 addresses.
const POD_NETWORKS: [u8; 2] = [10, 98];

/// Hosts of a lab that know the way to each other's pods, by the last octet of their addresses.
const HOSTS: std::ops::Range<u8> = 10..26;

/// Where containerd answers, inside.
const ENDPOINT: &str = "unix:///run/containerd/containerd.sock";

const CONTAINERD_SERVICE: &str = include_str!("containers/containerd.service");
const PROXY_SERVICE: &str = include_str!("containers/kube-proxy.service");
const NETWORK_SERVICE: &str = include_str!("containers/pod-network.service");
/// Has systemd start the others with the kubelet.
const KUBELET_DROP_IN: &str = include_str!("containers/kubelet.conf");

/// What runs the pods of a lab's hosts for real.
#[derive(Clone, Debug)]
pub struct Containers {
    runtime: ContainerRuntime,
    /// Pull spec of [`BUSYBOX`] by digest.
    busybox: String,
    /// Speaks plain HTTP; `address:port`.
    registry: String,
    /// Certificate of the authority that signed the API server's client certificate, PEM.
    client_ca: Vec<u8>,
    proxy_kubeconfig: String,
}

impl Containers {
    /// containerd, with images from the lab's registry, for hosts of a control plane.
    ///
    /// # Errors
    ///
    /// containerd cannot be built, or its first image cannot be put into the registry.
    pub fn new(control_plane: &ControlPlane, registry: &Registry) -> Result<Self> {
        Ok(Self {
            runtime: ContainerRuntime::find()?,
            busybox: registry.push_layout(&busybox()?, "busybox:1")?,
            registry: registry.location(),
            client_ca: control_plane.ca_pem().to_vec(),
            proxy_kubeconfig: control_plane.proxy_kubeconfig(),
        })
    }
}

impl HostSpec {
    /// With a kubelet that runs pods by containerd, in place of [`Self::kubelet`]: `kubeconfig` and
    /// `arguments` are the same. `address` is the one that the host will have.
    #[must_use]
    pub fn containers(
        self,
        containers: &Containers,
        address: Ipv4Addr,
        kubeconfig: &str,
        arguments: &str,
    ) -> Self {
        let arguments = format!("{arguments} --real-pods --container-runtime-endpoint={ENDPOINT}");
        let registry = &containers.registry;
        let hosts = |name: &str| format!("/etc/containerd/certs.d/{name}/hosts.toml");
        let server = format!("server = \"http://{registry}\"\n");
        let unit = |name: &str| format!("/etc/systemd/system/{name}");
        let mut spec = self;
        spec.routes_pods = true;
        spec.kubelet(kubeconfig, &arguments, &containers.client_ca)
            .bind(containers.runtime.dir(), "containers")
            .bind(Path::new(CNI_PLUGINS), "cni")
            .file(
                "/etc/containerd/config.toml",
                settings(&containers.busybox),
                0o644,
            )
            .file(&hosts(registry), server.as_str(), 0o644)
            .file(&hosts(REGISTRY_NAME), server.as_str(), 0o644)
            .file(
                "/etc/cni/net.d/10-lab.conflist",
                network(address).to_string(),
                0o644,
            )
            .file("/etc/lab/routes", routes(address), 0o644)
            .file(&unit("containerd.service"), CONTAINERD_SERVICE, 0o644)
            .file(&unit("kube-proxy.service"), PROXY_SERVICE, 0o644)
            .file(&unit("pod-network.service"), NETWORK_SERVICE, 0o644)
            .file(
                &unit("kubelet.service.d/10-containers.conf"),
                KUBELET_DROP_IN,
                0o644,
            )
            .file(
                "/var/lib/kube-proxy/kubeconfig",
                containers.proxy_kubeconfig.as_str(),
                0o600,
            )
            // containerd copies both into pods. There is no name server.
            .file("/etc/hosts", "127.0.0.1 localhost\n", 0o644)
            .file("/etc/resolv.conf", "", 0o644)
    }
}

/// containerd's settings. What is left out serves file systems and devices that no host has.
fn settings(pause: &str) -> String {
    format!(
        "version = 3
# What it stores lasts as long as the run, and is pulled again if it does not.
[plugins.'io.containerd.metadata.v1.bolt']
no_sync = true
[plugins.'io.containerd.nri.v1.nri']
disable = true
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{pause}'
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = '/etc/containerd/certs.d'
[plugins.'io.containerd.cri.v1.runtime']
enable_cdi = false
# What a host in namespaces may not do.
restrict_oom_score_adj = true
enable_unprivileged_ports = false
enable_unprivileged_icmp = false
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['/run/lab/cni']
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = 'host'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.host]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.host.options]
BinaryName = '/run/lab/containers/{OCI_RUNTIME_NAME}'
# systemd-nspawn allows no keyrings.
NoNewKeyring = true
"
    )
}

/// The network of a host's pods, for the CNI plugins.
fn network(address: Ipv4Addr) -> serde_json::Value {
    let [.., host] = address.octets();
    json!({
        "cniVersion": "1.0.0",
        "name": "lab",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "pods",
                "isGateway": true,
                // A pod reaches itself by a Service.
                "hairpinMode": true,
                // This machine, which has the API server, knows no way back to pods.
                "ipMasq": true,
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/run/cni",
                    "ranges": [[{ "subnet": pods_of(host) }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    })
}

/// Commands of `ip -batch`: the way to the pods of all other hosts, and one to Services, without
/// which the kernel does not ask kube-proxy's rules.
fn routes(address: Ipv4Addr) -> String {
    let [a, b, c, this] = address.octets();
    let of_host = |host: u8| {
        let way = Ipv4Addr::new(a, b, c, host);
        format!("route replace {} via {way}\n", pods_of(host))
    };
    let others = HOSTS.filter(|host| *host != this).map(of_host);
    let services = format!(
        "route replace {SERVICES} via {}\n",
        Ipv4Addr::new(a, b, c, 1)
    );
    others.chain([services]).collect()
}

fn pods_of(host: u8) -> String {
    let [a, b] = POD_NETWORKS;
    format!("{a}.{b}.{host}.0/24")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_know_the_way_to_each_others_pods() {
        let address = Ipv4Addr::new(10, 97, 3, 11);
        let routes = routes(address);
        assert!(routes.contains("route replace 10.98.10.0/24 via 10.97.3.10\n"));
        assert!(!routes.contains("10.98.11.0"), "{routes}");
        let subnet = "/plugins/0/ipam/ranges/0/0/subnet";
        assert_eq!(network(address).pointer(subnet).unwrap(), "10.98.11.0/24");
    }
}
