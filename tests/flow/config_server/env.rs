//! A cluster with pools, the config server beside it, and machines that ask.

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use api::machineconfiguration::{ControllerConfig, ControllerConfigSpec, MachineConfigPool};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use k8s_openapi::ByteString;
use kube::Api;
use kube::api::PostParams;
use lab::control_plane::{Process, definitions};
use lab::{PATIENCE, free_address, manifest, wait};
use serde_json::{Value, json};
use testbed::http::{self, HttpReply};
use testbed::{ApiServer, Authority, objects, workspace};

pub(crate) const NAMESPACE: &str = "openshift-machine-config-operator";

/// What tokens of machines are made for.
pub(crate) const AUDIENCE: &str = "machine-config-server";

/// A cluster with the config server's objects.
pub(crate) struct Site {
    pub(crate) api: ApiServer,
    /// Signs the server's certificate.
    pub(crate) authority: Authority,
    /// Signs those of clients.
    pub(crate) signer: Authority,
}

impl Deref for Site {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        &self.api
    }
}

impl Site {
    pub(crate) async fn start(name: &str) -> Result<Self> {
        let api = ApiServer::start("config-server", name).await?;
        manifest::define(api.objects.client(), &definitions()?).await?;
        for component in ["daemon", "config-server"] {
            let objects = manifest::component(&workspace().join("deploy").join(component))?;
            manifest::apply(api.objects.client(), &objects).await?;
        }
        let signer = Authority::make("signer of clients")?;
        // The lab's API server knows tokens only.
        api.publish_signer(&signer).await?;
        Ok(Self {
            api,
            authority: Authority::make("authority of the config server")?,
            signer,
        })
    }

    /// Writes a rendered configuration.
    pub(crate) async fn config(&self, name: &str, spec: &Value) -> Result<()> {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": name }, "spec": spec,
        });
        self.apply(&object.to_string()).await
    }

    /// Writes a configuration that was rendered for a pool.
    pub(crate) async fn owned_config(&self, name: &str, spec: &Value, pool: &str) -> Result<()> {
        let uid = self.objects.pool(pool).await?.metadata.uid;
        let owner = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "name": pool, "uid": uid, "controller": true, "blockOwnerDeletion": true,
        });
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": name, "ownerReferences": [owner] }, "spec": spec,
        });
        self.apply(&object.to_string()).await
    }

    /// A kubeconfig with a certificate of the client authority, as a kubelet has one.
    pub(crate) fn certificate_kubeconfig(&self, name: &str, user: &str) -> PathBuf {
        let certificate = self.dir.join(format!("{name}-client"));
        self.signer
            .issue(&certificate, user, "system:nodes")
            .unwrap();
        let user = json!({
            "client-certificate": certificate.with_extension("crt"),
            "client-key": certificate.with_extension("key"),
        });
        let file = format!("{name}.kubeconfig");
        self.kubeconfig(&file, &user).unwrap()
    }

    /// Writes a pool: its new configuration, the one that all its nodes run, and how many run the
    /// new one.
    pub(crate) async fn pool(&self, name: &str, new: &str, old: &str, updated: i32) -> Result<()> {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": { "name": name },
            "spec": {
                "configuration": { "name": new },
                "nodeSelector": { "matchLabels": { format!("node-role.kubernetes.io/{name}"): "" } },
            },
        });
        self.apply(&object.to_string()).await?;
        let status = json!({
            "configuration": { "name": old }, "updatedMachineCount": updated, "conditions": [],
            "machineCount": 3, "readyMachineCount": 0, "unavailableMachineCount": 0,
            "degradedMachineCount": 0,
        });
        let pools: Api<MachineConfigPool> = self.all();
        objects::set_status(&pools, name, &status).await
    }

    /// Writes the certificates that new machines get.
    pub(crate) async fn kubelet_ca(&self, bundle: &str) -> Result<()> {
        let bundle = BASE64.encode(bundle);
        let configs: Api<ControllerConfig> = self.all();
        let name = api::machineconfiguration::controller_config::NAME;
        if configs.get_opt(name).await?.is_none() {
            let some = ByteString(b"some".to_vec());
            let spec = ControllerConfigSpec {
                ip_families: "IPv4".to_owned(),
                kube_api_server_serving_ca_data: some.clone(),
                root_ca_data: some,
                ..ControllerConfigSpec::default()
            };
            let new = ControllerConfig::new(name, spec);
            configs.create(&PostParams::default(), &new).await?;
        }
        let change = json!({ "spec": { "kubeAPIServerServingCAData": bundle } });
        objects::merge(&configs, name, &change).await
    }

    /// A token of an account, made for an audience; without one for the API server.
    pub(crate) fn token(&self, account: &str, audience: Option<&str>) -> Result<String> {
        let namespace = format!("--namespace={NAMESPACE}");
        let audience = audience.map(|audience| format!("--audience={audience}"));
        let mut create = vec!["create", "token", account, &namespace];
        create.extend(audience.as_deref());
        Ok(self.control_plane.kubectl(&create)?.trim().to_owned())
    }

    /// Starts the server; ready once it knows its pools.
    pub(crate) async fn serve(&self, name: &str, arguments: &[&str]) -> Result<Server> {
        let token = json!({ "token": self.token("machine-config-server", None)? });
        let kubeconfig = self.kubeconfig(&format!("{name}.kubeconfig"), &token)?;
        let certificate = self.dir.join(name);
        self.authority
            .issue(&certificate, "machine-config-server", "test")?;
        let ca = self.dir.join("api-ca.crt");
        std::fs::write(&ca, self.control_plane.ca_pem())?;
        let trusted = self.dir.join("mcs-ca.crt");
        std::fs::write(&trusted, &self.authority.pem)?;
        let [secure, plain, status] = [free_address()?, free_address()?, free_address()?];
        let mut all = vec![
            "start".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--apiserver-url={}", self.control_plane.server_url()),
            format!("--apiserver-ca-file={}", ca.display()),
            format!("--listen={secure}"),
            format!("--plain-listen={plain}"),
            format!("--metrics-url={status}"),
            format!("--cert={}", certificate.with_extension("crt").display()),
            format!("--key={}", certificate.with_extension("key").display()),
            "--v=4".to_owned(),
        ];
        all.extend(arguments.iter().map(ToString::to_string));
        let mut process = self.run(name, "mcs", all)?;
        let mut server = Server {
            secure,
            plain,
            status,
            certificate,
            trusted,
            log: self.dir.join(format!("{name}.log")),
            process: None,
        };
        wait::until("the server to be ready", PATIENCE, async || {
            process.check()?;
            let ready = server.ask(&format!("http://{status}/readyz"), &[]);
            Ok(match ready {
                Ok(reply) if reply.status == 200 => Ok(()),
                other => Err(format!("{other:?}")),
            })
        })
        .await?;
        server.process = Some(process);
        Ok(server)
    }
}

/// A running server.
pub(crate) struct Server {
    pub(crate) secure: SocketAddr,
    pub(crate) plain: SocketAddr,
    status: SocketAddr,
    /// Its certificate, without the end of the name.
    pub(crate) certificate: PathBuf,
    pub(crate) trusted: PathBuf,
    log: PathBuf,
    process: Option<Process>,
}

/// Arguments of curl for a bearer token.
pub(crate) fn bearer(token: &str) -> [String; 2] {
    ["--header".into(), format!("Authorization: Bearer {token}")]
}

/// Arguments of curl for a version of Ignition's specification.
pub(crate) fn version(version: &str) -> [String; 2] {
    let kind = "application/vnd.coreos.ignition+json";
    [
        "--header".into(),
        format!("Accept: {kind};version={version}, */*;q=0.1"),
    ]
}

impl Server {
    /// Asks for a path of the secure port.
    pub(crate) fn get(&self, path: &str, arguments: &[String]) -> HttpReply {
        self.ask(&format!("https://{}{path}", self.secure), arguments)
            .unwrap()
    }

    /// Sends a request, and trusts the server's authority.
    pub(crate) fn ask(&self, url: &str, arguments: &[String]) -> Result<HttpReply> {
        let trusted = self.trusted.display().to_string();
        http::ask(
            url,
            &[&["--cacert".to_owned(), trusted], arguments].concat(),
        )
    }

    /// Waits until a reply is as it should be.
    pub(crate) async fn until(
        &self,
        what: &str,
        path: &str,
        arguments: &[String],
        is_so: impl Fn(&HttpReply) -> bool,
    ) -> Result<HttpReply> {
        wait::until(what, PATIENCE, async || {
            let reply = self.get(path, arguments);
            Ok(if is_so(&reply) {
                Ok(reply)
            } else {
                Err(reply.head().to_owned())
            })
        })
        .await
    }

    /// The lines of the metrics page.
    pub(crate) fn metrics(&self) -> Vec<String> {
        let page = self.ask(&format!("http://{}/metrics", self.status), &[]);
        page.unwrap().body.lines().map(str::to_owned).collect()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

/// A new machine: Ignition itself, with a root directory of its own.
pub(crate) struct Machine {
    pub(crate) root: PathBuf,
    dir: PathBuf,
}

/// Where Debian has the program that an initramfs runs.
const IGNITION: &str = "/usr/lib/dracut/modules.d/30ignition/ignition";

impl Machine {
    /// A machine whose own configuration points to the server, with a token.
    pub(crate) fn provision(
        site: &Site,
        name: &str,
        server: &Server,
        trusted: &str,
        token: &str,
    ) -> Self {
        let dir = site.dir.join(name);
        let root = dir.join("root");
        // Ignition was built for hosts with SELinux and labels what it writes; here is no policy.
        let contexts = root.join("etc/selinux/none/contexts/files");
        std::fs::create_dir_all(&contexts).unwrap();
        std::fs::write(root.join("etc/selinux/config"), "SELINUXTYPE=none\n").unwrap();
        std::fs::write(contexts.join("file_contexts"), "").unwrap();
        std::fs::create_dir_all(dir.join("bin")).unwrap();
        std::os::unix::fs::symlink("/bin/true", dir.join("bin/setfiles")).unwrap();
        let trusted = BASE64.encode(trusted);
        let pointer = json!({ "ignition": {
            "version": "3.3.0",
            "config": { "merge": [{
                "source": format!("https://{}/config/worker", server.secure),
                "httpHeaders": [{ "name": "Authorization", "value": format!("Bearer {token}") }],
            }] },
            "security": { "tls": { "certificateAuthorities": [
                { "source": format!("data:;base64,{trusted}") },
            ] } },
            "timeouts": { "httpTotal": 20 },
        } });
        std::fs::write(dir.join("config.ign"), pointer.to_string()).unwrap();
        Self { root, dir }
    }

    /// Runs the stages of a first boot; what Ignition printed, if one fails.
    pub(crate) fn boot(&self) -> Result<()> {
        for stage in ["fetch", "files"] {
            let output = Command::new("timeout")
                .args([&format!("{}", Duration::from_mins(1).as_secs()), IGNITION])
                .args(["--platform=file", "--log-to-stdout"])
                .arg(format!("--stage={stage}"))
                .arg(format!("--root={}", self.root.display()))
                .arg(format!(
                    "--config-cache={}",
                    self.dir.join("cache").display()
                ))
                .env_clear()
                .env("PATH", format!("{}/bin:/usr/bin:/bin", self.dir.display()))
                .env("IGNITION_CONFIG_FILE", self.dir.join("config.ign"))
                .output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            ensure!(output.status.success(), "{stage}: {text}");
        }
        Ok(())
    }

    /// A file that was written, and its mode.
    pub(crate) fn file(&self, path: &str) -> (String, u32) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.root.join(path.trim_start_matches('/'));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        (std::fs::read_to_string(&path).unwrap(), mode & 0o7777)
    }
}
