//! How each program of the control plane is called. Pure.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// Addresses of Services.
pub(crate) const SERVICES: &str = "10.96.0.0/16";

/// Of [`SERVICES`] the first: the Service `kubernetes`, by which pods reach the API server.
const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// Where a run's files are, all in one folder.
#[derive(Clone, Debug)]
pub(super) struct Files {
    dir: PathBuf,
}

impl Files {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn ca(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// Authority of certificates that clients show.
    pub(super) fn client_ca(&self) -> PathBuf {
        self.dir.join("client-ca.crt")
    }

    pub(super) fn tokens(&self) -> PathBuf {
        self.dir.join("tokens.csv")
    }

    /// The database.
    pub(super) fn database(&self) -> PathBuf {
        self.dir.join("etcd")
    }

    /// What was saved of it.
    pub(super) fn backup(&self) -> PathBuf {
        self.dir.join("etcd-backup")
    }

    pub(super) fn audit_policy(&self) -> PathBuf {
        self.dir.join("audit-policy.yaml")
    }

    pub(super) fn audit_log(&self) -> PathBuf {
        self.dir.join("audit.log")
    }

    pub(super) fn kubeconfig(&self, of: &str) -> PathBuf {
        self.dir.join(format!("{of}.kubeconfig"))
    }

    /// One flag with a path of this folder.
    fn flag(&self, flag: &str, file: &str) -> String {
        format!("--{flag}={}/{file}", self.dir.display())
    }
}

/// Where the API server listens, and by which addresses it is reached.
#[derive(Clone, Debug)]
pub(super) struct Listen {
    pub(super) bind: IpAddr,
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) also: Vec<IpAddr>,
    /// etcd's port, on loopback. Not a socket: etcd before 3.6 takes no path for one.
    pub(super) etcd_port: u16,
    /// etcd's port for peers, which it has none of.
    pub(super) etcd_peer_port: u16,
    /// Whether clients may show certificates.
    pub(super) takes_certificates: bool,
}

impl Listen {
    fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    /// URL for clients that are not on this machine's loopback.
    pub(super) fn url(&self) -> String {
        url(self.address, self.port)
    }

    /// URL for this machine.
    pub(super) fn local_url(&self) -> String {
        let local = if self.bind.is_unspecified() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            self.bind
        };
        url(local, self.port)
    }
}

fn url(address: IpAddr, port: u16) -> String {
    format!("https://{}", std::net::SocketAddr::new(address, port))
}

pub(super) fn pki(files: &Files, listen: &Listen) -> Vec<String> {
    let mut addresses = vec![Ipv4Addr::LOCALHOST.into(), SERVICE.into(), listen.address];
    addresses.extend(&listen.also);
    if !listen.bind.is_unspecified() {
        addresses.push(listen.bind);
    }
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    vec![
        format!("--dir={}", files.dir().display()),
        "--dns=localhost,kubernetes,kubernetes.default,kubernetes.default.svc".into(),
        format!("--ip={}", addresses.join(",")),
    ]
}

pub(super) fn etcd(files: &Files, listen: &Listen) -> Vec<String> {
    vec![
        "--name=lab".into(),
        files.flag("data-dir", "etcd"),
        format!("--listen-client-urls={}", listen.etcd_url()),
        format!("--advertise-client-urls={}", listen.etcd_url()),
        // The advertised one is not used.
        format!(
            "--listen-peer-urls=http://127.0.0.1:{}",
            listen.etcd_peer_port
        ),
        // What is in it lasts as long as the run.
        "--unsafe-no-fsync=true".into(),
        "--log-level=warn".into(),
    ]
}

pub(super) fn api_server(files: &Files, listen: &Listen) -> Vec<String> {
    let is_alone = listen.address.is_loopback();
    let reconciler = if is_alone { "none" } else { "lease" };
    let mut arguments = vec![
        format!("--etcd-servers={}", listen.etcd_url()),
        format!("--bind-address={}", listen.bind),
        format!("--secure-port={}", listen.port),
        format!("--advertise-address={}", listen.address),
        // Where there are hosts, pods go through the `kubernetes` Service; an endpoint may not be
        // a loopback address.
        format!("--endpoint-reconciler-type={reconciler}"),
        format!("--service-cluster-ip-range={SERVICES}"),
        files.flag("tls-cert-file", "apiserver.crt"),
        files.flag("tls-private-key-file", "apiserver.key"),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        files.flag("service-account-key-file", "sa.pub"),
        files.flag("service-account-signing-key-file", "sa.key"),
        files.flag("token-auth-file", "tokens.csv"),
        // Kubelets know it by this for logs and exec. Names of hosts are not resolved here.
        files.flag("kubelet-client-certificate", "kubelet-client.crt"),
        files.flag("kubelet-client-key", "kubelet-client.key"),
        "--kubelet-preferred-address-types=InternalIP".into(),
        "--authorization-mode=Node,RBAC".into(),
        "--enable-admission-plugins=NodeRestriction".into(),
        "--allow-privileged=true".into(),
        "--profiling=false".into(),
        files.flag("audit-policy-file", "audit-policy.yaml"),
        files.flag("audit-log-path", "audit.log"),
        // Written before the answer is sent, so that nothing is lost and the order can be trusted.
        "--audit-log-mode=blocking".into(),
        // In MiB; without it the log is rotated away at 100.
        "--audit-log-maxsize=1000000".into(),
    ];
    if listen.takes_certificates {
        // It publishes this one in ConfigMap kube-system/extension-apiserver-authentication.
        arguments.push(format!("--client-ca-file={}", files.client_ca().display()));
    }
    arguments
}

pub(super) fn controller_manager(files: &Files) -> Vec<String> {
    vec![
        files.flag("kubeconfig", "controller-manager.kubeconfig"),
        files.flag("root-ca-file", "ca.crt"),
        files.flag("service-account-private-key-file", "sa.key"),
        "--use-service-account-credentials=true".into(),
        "--leader-elect=false".into(),
        "--profiling=false".into(),
        // Its own metrics and health port: nothing asks, and none need be free.
        "--secure-port=0".into(),
        // A host that dies unseen is NotReady after this; more than the kubelet's 10 s lease.
        "--node-monitor-period=1s".into(),
        "--node-monitor-grace-period=12s".into(),
        "--kube-api-qps=200".into(),
        "--kube-api-burst=400".into(),
    ]
}

pub(super) fn scheduler(files: &Files) -> Vec<String> {
    vec![
        files.flag("kubeconfig", "scheduler.kubeconfig"),
        "--leader-elect=false".into(),
        "--profiling=false".into(),
        "--secure-port=0".into(),
        "--kube-api-qps=200".into(),
        "--kube-api-burst=400".into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_reached_by_loopback_here_and_by_address_elsewhere() {
        let listen = Listen {
            bind: Ipv4Addr::UNSPECIFIED.into(),
            address: Ipv4Addr::new(10, 88, 0, 1).into(),
            port: 6443,
            also: vec![Ipv4Addr::new(10, 0, 2, 2).into()],
            etcd_port: 2379,
            etcd_peer_port: 2380,
            takes_certificates: false,
        };
        assert_eq!(listen.url(), "https://10.88.0.1:6443");
        assert_eq!(listen.local_url(), "https://127.0.0.1:6443");
        let pki = pki(&Files::new("/run".into()), &listen);
        assert_eq!(
            pki.last().unwrap(),
            "--ip=127.0.0.1,10.96.0.1,10.88.0.1,10.0.2.2"
        );
    }
}
