//! A cluster with pools, the config server beside it, and machines that ask.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::{ControllerConfig, ControllerConfigSpec, MachineConfigPool};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use lab::control_plane::{ControlPlane, Process, definitions};
use lab::{PATIENCE, free_address, manifest, wait};
use serde_json::{Value, json};
use testbed::{Authority, Programs, api_server};

pub(crate) const NAMESPACE: &str = "openshift-machine-config-operator";

/// What tokens of machines are made for.
pub(crate) const AUDIENCE: &str = "machine-config-server";

/// Where the API server publishes who signs the certificates of its clients. The lab's API server
/// knows tokens only, so the suite writes it.
const SIGNERS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: { name: extension-apiserver-authentication, namespace: kube-system }
";

/// A cluster with the config server's objects.
pub(crate) struct Site {
    pub(crate) control_plane: ControlPlane,
    pub(crate) client: Client,
    pub(crate) dir: PathBuf,
    /// Signs the server's certificate.
    pub(crate) authority: Authority,
    /// Signs those of clients.
    pub(crate) signer: Authority,
}

impl Site {
    pub(crate) async fn start(name: &str) -> Result<Self> {
        let (control_plane, dir) = api_server("config-server", name).await?;
        let client = control_plane.client().await?;
        manifest::define(&client, &definitions()?).await?;
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
        for component in ["daemon", "config-server"] {
            let objects = manifest::component(&deploy.join(component))?;
            manifest::apply(&client, &objects).await?;
        }
        let signer = Authority::make("signer of clients")?;
        let mut signers = manifest::parse(SIGNERS)?;
        signers[0].data["data"] = json!({ "client-ca-file": signer.pem });
        manifest::apply(&client, &signers).await?;
        Ok(Self {
            control_plane,
            client,
            dir,
            authority: Authority::make("authority of the config server")?,
            signer,
        })
    }

    /// Writes an object of the cluster.
    pub(crate) async fn apply(&self, object: &Value) -> Result<()> {
        let objects = manifest::parse(&object.to_string())?;
        manifest::apply(&self.client, &objects).await.map(drop)
    }

    /// Writes a rendered configuration.
    pub(crate) async fn config(&self, name: &str, spec: &Value) -> Result<()> {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": name }, "spec": spec,
        });
        self.apply(&object).await
    }

    /// Writes a configuration that was rendered for a pool.
    pub(crate) async fn owned_config(&self, name: &str, spec: &Value, pool: &str) -> Result<()> {
        let pools = Api::<MachineConfigPool>::all(self.client.clone());
        let uid = pools.get(pool).await?.metadata.uid;
        let owner = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "name": pool, "uid": uid, "controller": true, "blockOwnerDeletion": true,
        });
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": name, "ownerReferences": [owner] }, "spec": spec,
        });
        self.apply(&object).await
    }

    /// A kubeconfig with a certificate of the client authority, as a kubelet has one.
    pub(crate) fn certificate_kubeconfig(&self, name: &str, user: &str) -> PathBuf {
        let certificate = self.dir.join(format!("{name}-client"));
        self.signer
            .issue(&certificate, user, "system:nodes")
            .unwrap();
        let path = self.kubeconfig(&format!("{name}.kubeconfig"), "unused");
        let text = std::fs::read_to_string(&path).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["users"][0]["user"] = json!({
            "client-certificate": certificate.with_extension("crt"),
            "client-key": certificate.with_extension("key"),
        });
        std::fs::write(&path, config.to_string()).unwrap();
        path
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
        self.apply(&object).await?;
        let status = json!({ "status": {
            "configuration": { "name": old }, "updatedMachineCount": updated, "conditions": [],
            "machineCount": 3, "readyMachineCount": 0, "unavailableMachineCount": 0,
            "degradedMachineCount": 0,
        } });
        let pools = Api::<MachineConfigPool>::all(self.client.clone());
        let patch = Patch::Merge(status);
        pools
            .patch_status(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Writes the certificates that new machines get.
    pub(crate) async fn kubelet_ca(&self, bundle: &str) -> Result<()> {
        let bundle = BASE64.encode(bundle);
        let configs = Api::<ControllerConfig>::all(self.client.clone());
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
        let patch = Patch::Merge(json!({ "spec": { "kubeAPIServerServingCAData": bundle } }));
        configs.patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// A token of an account, made for an audience; without one for the API server.
    pub(crate) async fn token(&self, account: &str, audience: Option<&str>) -> Result<String> {
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: audience.map(|audience| vec![audience.to_owned()]),
                expiration_seconds: Some(3600),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), NAMESPACE);
        let made = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await?;
        made.status
            .and_then(|status| status.token)
            .context("an answer without a token")
    }

    /// A kubeconfig with a token.
    pub(crate) fn kubeconfig(&self, name: &str, token: &str) -> PathBuf {
        let authority = self.control_plane.ca_pem();
        let authority = BASE64.encode(authority);
        let server = self.control_plane.server_url();
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{ "name": "lab", "cluster": {
                "server": server, "certificate-authority-data": authority,
            } }],
            "users": [{ "name": "lab", "user": { "token": token } }],
            "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "lab" } }],
        });
        let path = self.dir.join(name);
        std::fs::write(&path, text.to_string()).unwrap();
        path
    }

    /// Starts the server; ready once it knows its pools.
    pub(crate) async fn serve(&self, name: &str, arguments: &[&str]) -> Result<Server> {
        let token = self.token("machine-config-server", None).await?;
        let kubeconfig = self.kubeconfig(&format!("{name}.kubeconfig"), &token);
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
        let program = Programs::built()?.path("mcs")?;
        let mut process = Process::start(name, &program, all, &self.dir)?;
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
                Ok(answer) if answer.status == 200 => Ok(()),
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

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl HttpReply {
    /// A header's value; empty where it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
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

    /// Asks by curl, which is another's client.
    pub(crate) fn ask(&self, url: &str, arguments: &[String]) -> Result<HttpReply> {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--include", "--max-time", "60"])
            .args(["--noproxy", "*", "--cacert"])
            .arg(&self.trusted)
            .args(arguments)
            .arg(url)
            .env_remove("https_proxy")
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "curl: {}", said.trim());
        let text = String::from_utf8(output.stdout)?;
        let (head, body) = text.split_once("\r\n\r\n").context("no end of headers")?;
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        Ok(HttpReply {
            status,
            head: head.to_owned(),
            body: body.to_owned(),
        })
    }

    /// Waits until an answer is as it should be.
    pub(crate) async fn until(
        &self,
        what: &str,
        path: &str,
        arguments: &[String],
        is_so: impl Fn(&HttpReply) -> bool,
    ) -> Result<HttpReply> {
        wait::until(what, PATIENCE, async || {
            let answer = self.get(path, arguments);
            Ok(if is_so(&answer) {
                Ok(answer)
            } else {
                Err(format!("{} {}", answer.status, answer.head))
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
            let said = String::from_utf8_lossy(&output.stdout);
            ensure!(output.status.success(), "{stage}: {said}");
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
