//! A real control plane for one run: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.
//!
//! Authorization is Node and RBAC with NodeRestriction, each host has a `system:node:<name>` token,
//! and the audit log, which [`crate::audit`] reads, is complete.
//!
//! - `arguments`: how each is called
//! - `credentials`: users, tokens and kubeconfigs
//! - `process`: children that end with their owner
//! - `kubelet`: a kubelet without a host
//! - `outage`: what a cluster does when a host goes down
#![expect(
    clippy::disallowed_methods,
    reason = "the lab runs programs and writes a run's own files; it is no part of what it tests"
)]

mod arguments;
mod credentials;
mod kubelet;
mod outage;
pub(crate) mod process;

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, ResourceExt as _};
use tempfile::TempDir;

pub use prebuilt::control_plane::{Older, Program, Programs};

pub(crate) use self::arguments::SERVICES;
use self::arguments::{Files, Listen};
use self::credentials::User;
pub use self::kubelet::LocalKubelet;
pub use self::process::Process;
use crate::{PATIENCE, ports, upstream_data};

/// How long the control plane may take to come up. It takes 3 s on an idle machine of two cores.
const UP_WITHIN: Duration = PATIENCE;

/// Time between two polls at whether it is up.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// How long a token of a service account is good for.
const TOKEN_SECS: i64 = 24 * 60 * 60;

/// Which programs a control plane has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parts {
    /// All: pods are made, scheduled and deleted.
    #[default]
    All,
    /// etcd and the API server. Objects are kept, and no controller acts on them.
    Api,
}

/// What a control plane is made for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address to listen on. Unspecified (`0.0.0.0`) for all of this machine's.
    pub bind: IpAddr,
    /// Address by which hosts reach it, such as their bridge's.
    pub address: IpAddr,
    /// Further addresses that the serving certificate is good for, such as qemu's `10.0.2.2`.
    pub also: Vec<IpAddr>,
    /// Names of the nodes that get a token.
    pub nodes: Vec<String>,
    /// Authority whose certificates clients may show, PEM. Without one, all clients have tokens.
    pub client_authority: Option<String>,
    /// Its programs.
    pub parts: Parts,
    /// Existing, empty folder for the run's files, kept afterwards. Without one they are in a
    /// temporary folder, and gone with the control plane.
    pub dir: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind: Ipv4Addr::LOCALHOST.into(),
            address: Ipv4Addr::LOCALHOST.into(),
            also: Vec::new(),
            nodes: Vec::new(),
            client_authority: None,
            parts: Parts::All,
            dir: None,
        }
    }
}

impl Options {
    /// For hosts behind a bridge: listens everywhere, known by the bridge's address.
    pub fn for_hosts(address: IpAddr, nodes: Vec<String>) -> Self {
        Self {
            bind: Ipv4Addr::UNSPECIFIED.into(),
            address,
            nodes,
            ..Self::default()
        }
    }
}

/// A running control plane. Stopped when dropped.
#[derive(Debug)]
pub struct ControlPlane {
    /// In the order they were started; dropped in reverse by [`Drop`].
    processes: Vec<Process>,
    programs: Programs,
    files: Files,
    listen: Listen,
    ca_pem: Vec<u8>,
    nodes: Vec<(String, User)>,
    /// The lab's own hand, where it plays a part of the cluster's surroundings.
    surroundings: User,
    /// The kube-proxies of hosts.
    proxy: User,
    /// Last, so that the files go after the programs.
    _temporary: Option<TempDir>,
}

impl ControlPlane {
    /// Starts one, building the programs first where they are missing; returns when objects can be
    /// made in namespace `default`, pods too where it has all parts.
    ///
    /// Blocks; from async code call it by `spawn_blocking`.
    ///
    /// # Errors
    /// The build fails, or a program ends or is not ready in time; with the end of its log.
    pub fn start(options: &Options) -> Result<Self> {
        if let Some(notice) = not_used(std::env::var_os("KUBECONFIG").as_deref()) {
            // Where standard error is closed, nothing reads it.
            drop(writeln!(std::io::stderr(), "{notice}"));
        }
        let programs = Programs::find()?;
        let (dir, temporary) = if let Some(dir) = &options.dir {
            (dir.clone(), None)
        } else {
            let dir = tempfile::Builder::new()
                .prefix("slipway-control-plane-")
                .tempdir()?;
            (dir.path().to_path_buf(), Some(dir))
        };
        let files = Files::new(dir.canonicalize()?);
        let [port, etcd_port, etcd_peer_port] = ports::take()?;
        let listen = Listen {
            bind: options.bind,
            address: options.address,
            port,
            also: options.also.clone(),
            etcd_port,
            etcd_peer_port,
            takes_certificates: options.client_authority.is_some(),
        };
        run(
            &programs.path(Program::Pki),
            &arguments::pki(&files, &listen),
        )?;

        let admin = User::new("lab-admin", "system:masters")?;
        let surroundings = User::new("lab-surroundings", "system:masters")?;
        let controllers = User::new("system:kube-controller-manager", "")?;
        let scheduler = User::new("system:kube-scheduler", "")?;
        let proxy = User::new("system:kube-proxy", "")?;
        let nodes = options
            .nodes
            .iter()
            .map(|node| Ok((node.clone(), User::node(node)?)))
            .collect::<Result<Vec<_>>>()?;

        let ca_pem = fs::read(files.ca())?;
        if let Some(authority) = &options.client_authority {
            fs::write(files.client_ca(), authority)?;
        }
        let components = [&admin, &surroundings, &controllers, &scheduler, &proxy];
        let users = components
            .into_iter()
            .chain(nodes.iter().map(|(_, user)| user));
        fs::write(files.tokens(), credentials::token_file(users))?;
        fs::write(
            files.audit_policy(),
            include_str!("control_plane/audit-policy.yaml"),
        )?;
        for (of, user) in [
            ("admin", &admin),
            ("controller-manager", &controllers),
            ("scheduler", &scheduler),
        ] {
            fs::write(
                files.kubeconfig(of),
                user.kubeconfig(&listen.local_url(), &ca_pem),
            )?;
        }

        let mut this = Self {
            processes: Vec::new(),
            programs,
            files,
            listen,
            ca_pem,
            nodes,
            surroundings,
            proxy,
            _temporary: temporary,
        };
        this.launch(Program::Etcd, &arguments::etcd(&this.files, &this.listen))?;
        this.launch(
            Program::ApiServer,
            &arguments::api_server(&this.files, &this.listen),
        )?;
        this.wait(async |client| {
            let namespaces = Api::<Namespace>::all(client.clone());
            Ok(is_ready(client).await && namespaces.get_opt("default").await?.is_some())
        })?;
        if options.parts == Parts::Api {
            return Ok(this);
        }
        this.launch(
            Program::ControllerManager,
            &arguments::controller_manager(&this.files),
        )?;
        this.launch(Program::Scheduler, &arguments::scheduler(&this.files))?;
        this.wait(async |client| {
            let accounts = Api::<ServiceAccount>::namespaced(client, "default");
            Ok(accounts.get_opt("default").await?.is_some())
        })?;
        Ok(this)
    }

    /// Kubeconfig file of an administrator, for use on this machine.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.files.kubeconfig("admin")
    }

    /// Kubeconfig text of a node's kubelet, for use on its host.
    ///
    /// # Errors
    /// The node was not among [`Options::nodes`].
    pub fn node_kubeconfig(&self, node: &str) -> Result<String> {
        Ok(self
            .node(node)?
            .kubeconfig(&self.server_url(), &self.ca_pem))
    }

    /// Kubeconfig text of a node's kubelet that shows a certificate in place of its token: the PEM
    /// file `certificate`, which holds the key, too; a relative path is one from the kubeconfig's
    /// folder.
    ///
    /// # Errors
    /// The node was not among [`Options::nodes`].
    pub fn node_kubeconfig_with(&self, node: &str, certificate: &str) -> Result<String> {
        let (server, node) = (self.server_url(), self.node(node)?);
        Ok(node.certificate_kubeconfig(&server, &self.ca_pem, certificate))
    }

    /// Kubeconfig text of kube-proxy, for use on any host.
    pub fn proxy_kubeconfig(&self) -> String {
        self.proxy.kubeconfig(&self.server_url(), &self.ca_pem)
    }

    /// Address and port, as hosts reach it.
    pub fn server(&self) -> SocketAddr {
        (self.listen.address, self.listen.port).into()
    }

    /// `https://address:port`, as hosts reach it.
    pub fn server_url(&self) -> String {
        self.listen.url()
    }

    /// Certificate of the authority that signed the API server's, PEM.
    pub fn ca_pem(&self) -> &[u8] {
        &self.ca_pem
    }

    /// Another CA's certificate, in PEM: one that has signed nothing of this control plane.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn another_authority(&self) -> Result<Vec<u8>> {
        let directory = tempfile::tempdir()?;
        let files = Files::new(directory.path().to_path_buf());
        run(
            &self.programs.path(Program::Pki),
            &arguments::pki(&files, &self.listen),
        )?;
        Ok(fs::read(files.ca())?)
    }

    /// Ends the API server and etcd and starts them again, as a crash does; returns when they
    /// answer. The audit log goes on.
    ///
    /// Blocks; from async code call it by `block_in_place`.
    ///
    /// # Errors
    /// It has other parts than [`Parts::Api`], or does not come up.
    pub fn restart_api_server(&mut self) -> Result<()> {
        self.restart_after(|_| Ok(()))
    }

    /// Keeps a copy of all objects for [`Self::restore_backup`]. The API server and etcd are
    /// restarted for it.
    ///
    /// Blocks; from async code call it by `block_in_place`.
    ///
    /// # Errors
    /// As [`Self::restart_api_server`], or the disk is full.
    pub fn make_backup(&mut self) -> Result<()> {
        self.restart_after(|files| copy(&files.database(), &files.backup()))
    }

    /// Takes all objects back to what they were, as administrators do who restore etcd: resource
    /// versions are given out again.
    ///
    /// Blocks; from async code call it by `block_in_place`.
    ///
    /// # Errors
    /// There is no backup; else as [`Self::make_backup`].
    pub fn restore_backup(&mut self) -> Result<()> {
        self.restart_after(|files| {
            fs::remove_dir_all(files.database())?;
            copy(&files.backup(), &files.database())
        })
    }

    /// Restarts both, and does something while they are down.
    fn restart_after(&mut self, work: impl FnOnce(&Files) -> Result<()>) -> Result<()> {
        ensure!(
            self.processes.len() == 2,
            "only a control plane of Parts::Api is restarted"
        );
        while self.processes.pop().is_some() {}
        work(&self.files)?;
        self.launch(Program::Etcd, &arguments::etcd(&self.files, &self.listen))?;
        self.launch(
            Program::ApiServer,
            &arguments::api_server(&self.files, &self.listen),
        )?;
        self.wait(async |client| Ok(is_ready(client).await))
    }

    /// The audit log: JSON, one event a line, complete at any time.
    pub fn audit_log(&self) -> PathBuf {
        self.files.audit_log()
    }

    /// The programs, of which hosts need some as well.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Runs kubectl as the administrator; what it printed.
    ///
    /// # Errors
    /// It exits with another code than 0; with its standard error.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut all = vec![format!(
            "--kubeconfig={}",
            self.admin_kubeconfig().display()
        )];
        all.extend(arguments.iter().map(ToString::to_string));
        run(&self.programs.path(Program::Kubectl), &all)
    }

    /// A token of a service account, good for longer than any run.
    ///
    /// # Errors
    /// There is no such account.
    pub async fn token(&self, namespace: &str, account: &str) -> Result<String> {
        self.bound_token(namespace, account, None).await
    }

    async fn bound_token(
        &self,
        namespace: &str,
        account: &str,
        bound_object_ref: Option<BoundObjectReference>,
    ) -> Result<String> {
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECS),
                bound_object_ref,
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let accounts = Api::<ServiceAccount>::namespaced(self.client().await?, namespace);
        let response = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await
            .with_context(|| format!("cannot have a token of {namespace}/{account}"))?;
        let token = response.status.and_then(|status| status.token);
        token.context("an answer without a token")
    }

    /// A client of the administrator, for use on this machine.
    ///
    /// # Errors
    /// The kubeconfig is gone.
    pub async fn client(&self) -> Result<kube::Client> {
        let text = fs::read_to_string(self.admin_kubeconfig())?;
        connect(&text).await
    }

    /// A client with a token of a service account, for use on this machine.
    ///
    /// # Errors
    /// There is no such account.
    pub async fn client_of_account(&self, namespace: &str, account: &str) -> Result<kube::Client> {
        let token = self.token(namespace, account).await?;
        let user = User::with_token(account, token);
        connect(&self.local_kubeconfig(&user)).await
    }

    /// A client with the token that a pod has of its service account: it names the pod's node. For
    /// use on this machine.
    ///
    /// # Errors
    /// There is no such pod or account.
    pub async fn client_of_pod(&self, pod: &Pod) -> Result<kube::Client> {
        let namespace = pod.namespace().unwrap_or_default();
        let account = pod
            .spec
            .as_ref()
            .and_then(|it| it.service_account_name.as_deref());
        let account = account.context("a pod without an account")?;
        let bound = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.name_any()),
            uid: pod.uid(),
        };
        let token = self.bound_token(&namespace, account, Some(bound)).await?;
        let user = User::with_token(account, token);
        connect(&self.local_kubeconfig(&user)).await
    }

    /// A client with the credentials of a node's kubelet, for use on this machine.
    ///
    /// # Errors
    /// The node was not among [`Options::nodes`].
    pub async fn client_for_node(&self, node: &str) -> Result<kube::Client> {
        connect(&self.local_kubeconfig(self.node(node)?)).await
    }

    /// Lets the cluster know at once that a host is down, as it would find out itself after the
    /// controller manager's grace period: the Node and its pods are not Ready.
    ///
    /// To be called when the host has ended and before it is entered again. Its kubelet takes it
    /// back. In the audit log its user is `lab-surroundings`.
    ///
    /// # Errors
    /// The API server does not accept it.
    pub async fn host_is_down(&self, node: &str) -> Result<()> {
        let client = connect(&self.local_kubeconfig(&self.surroundings)).await?;
        outage::publish(&client, node).await
    }

    fn local_kubeconfig(&self, user: &User) -> String {
        user.kubeconfig(&self.listen.local_url(), &self.ca_pem)
    }

    fn node(&self, node: &str) -> Result<&User> {
        let found = self.nodes.iter().find(|(name, _)| name == node);
        let (_, user) = found.with_context(|| format!("no token was made for node {node}"))?;
        Ok(user)
    }

    fn launch(&mut self, program: Program, arguments: &[String]) -> Result<()> {
        let path = self.programs.path(program);
        let process = Process::start(program.name(), &path, arguments, self.files.dir())?;
        self.processes.push(process);
        Ok(())
    }

    /// Looks until `done` says so. An error of `done` is one of the start and tried again.
    fn wait(&mut self, done: impl AsyncFn(kube::Client) -> Result<bool> + Sync) -> Result<()> {
        let deadline = Instant::now() + UP_WITHIN;
        let kubeconfig = fs::read_to_string(self.admin_kubeconfig())?;
        let processes = &mut self.processes;
        // A thread of its own, because the caller may be inside a runtime, where none may be
        // entered.
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?
                    .block_on(async {
                        let client = connect(&kubeconfig).await?;
                        loop {
                            for process in &mut *processes {
                                process.check()?;
                            }
                            let error = match done(client.clone()).await {
                                Ok(true) => return Ok(()),
                                Ok(false) => None,
                                Err(error) => Some(error),
                            };
                            if Instant::now() >= deadline {
                                return Err(error.map_or_else(
                                    || anyhow::anyhow!("it answers, and says that it is not"),
                                    |error| error.context("the last poll failed"),
                                ));
                            }
                            tokio::time::sleep(POLL_EVERY).await;
                        }
                    })
            });
            waiting
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
        .with_context(|| format!("the control plane is not ready within {UP_WITHIN:?}"))
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        while self.processes.pop().is_some() {}
    }
}

/// The folder of custom resource definitions that the lab runs on: upstream's, where its data is
/// there, else the ones generated from our types, which proves less.
///
/// # Errors
///
/// Upstream's are not there, and are required: see [`upstream_data`].
pub fn definitions() -> Result<PathBuf> {
    let upstream = upstream_data("crds", "OpenShift's own definitions; the lab runs on ours")?;
    let ours = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/crds");
    Ok(upstream.unwrap_or_else(ours))
}

/// What is said of a cluster that is named but not used: the observer judges by the audit log,
/// which only an API server of the lab's own gives it.
fn not_used(kubeconfig: Option<&OsStr>) -> Option<String> {
    let kubeconfig = kubeconfig.filter(|path| !path.is_empty())?;
    Some(format!(
        "KUBECONFIG={} is not used: the lab starts a control plane of its own, whose audit log it reads",
        kubeconfig.display()
    ))
}

async fn connect(kubeconfig: &str) -> Result<kube::Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    // What a suite asks for once is asked for once. By default a refused eviction is asked for
    // again every 10 s, up to 16 times, before the caller learns of it.
    config.default_retry = false;
    Ok(kube::Client::try_from(config)?)
}

/// Whether the API server says so itself; no answer is a no.
async fn is_ready(client: kube::Client) -> bool {
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else {
        return false;
    };
    client.request_text(request).await.is_ok()
}

/// Copies a folder to one that is not there.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let [from, to] = [from, to].map(|path| path.display().to_string());
    run(Path::new("cp"), &["-a".to_owned(), from, to]).map(drop)
}

fn run(program: &Path, arguments: &[String]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(
        output.status.success(),
        "{} {} failed ({}): {}",
        program.display(),
        arguments.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_is_not_used_is_named() {
        for nothing in [None, Some("")] {
            assert_eq!(not_used(nothing.map(OsStr::new)), None);
        }
        let notice = not_used(Some(OsStr::new("/root/config"))).unwrap();
        assert!(notice.starts_with("KUBECONFIG=/root/config is not used"));
        assert!(!notice.contains('\n'));
    }
}
