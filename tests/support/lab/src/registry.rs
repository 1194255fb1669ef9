//! A registry for one lab: Debian's `docker-registry`, which logs every request it serves.
//!
//! - `doors`: HTTPS by a private CA, and a token service
//! - `log`: requests, with client and time

mod doors;
mod log;

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use self::doors::{Pair, TokenService};
pub use self::log::{Request, parse};
use crate::PATIENCE;
use crate::control_plane::process::Process;
use crate::image::Image;
use crate::place::Lab;
use crate::program::{command, run};

/// Port of the one that lets everybody in. The bridge's address is the lab's own, so that no two
/// meet.
const PORT: u16 = 5000;

/// Port of the one that lets no client in.
const CLOSED_PORT: u16 = 5001;

/// Port of the one that speaks HTTPS, by a certificate of its own.
const TLS_PORT: u16 = 5002;

/// Ports of the one that asks for a token, and of the service that gives them.
const TOKEN_PORT: u16 = 5003;
const TOKEN_SERVICE_PORT: u16 = 5004;

/// How long it may take to respond. It takes 0.1 s.
const UP_WITHIN: Duration = PATIENCE;

/// A running registry, plain HTTP, at the lab's bridge. Stopped when dropped.
#[derive(Debug)]
pub struct Registry {
    dir: PathBuf,
    address: SocketAddrV4,
    /// None while it is stopped.
    processes: Vec<Process>,
    /// How often it was started, for a log of each time.
    starts: u32,
    tokens: Option<TokenService>,
    /// Kept as long as the files.
    _lab: Lab,
}

impl Registry {
    /// Starts one, empty, for the hosts of a lab.
    ///
    /// # Errors
    ///
    /// The lab has one already, or it does not come up.
    pub fn start(lab: &Lab) -> Result<Self> {
        let dir = lab.dir().join("registry");
        fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let address = SocketAddrV4::new(lab.address(), PORT);
        let mut registry = Self {
            dir,
            address,
            processes: Vec::new(),
            starts: 0,
            tokens: None,
            _lab: lab.clone(),
        };
        registry.resume()?;
        Ok(registry)
    }

    /// `address:port`, as hosts and this machine reach it. Anybody may read and write.
    pub fn location(&self) -> String {
        self.address.to_string()
    }

    /// `address:port` of the same content, which refuses every client.
    pub fn closed_location(&self) -> String {
        SocketAddrV4::new(*self.address.ip(), CLOSED_PORT).to_string()
    }

    /// Opens a door to the same content that speaks HTTPS; its `address:port`, and the certificate
    /// that a client has to trust.
    ///
    /// # Errors
    ///
    /// It does not come up.
    pub fn open_tls(&mut self) -> Result<(String, String)> {
        let address = *self.address.ip();
        let pair = Pair::make(&self.dir, "registry", &format!("IP:{address}"))?;
        let http = pair.tls();
        self.open("tls", TLS_PORT, &http, "")?;
        let certificate = fs::read_to_string(&pair.certificate)?;
        Ok((format!("{address}:{TLS_PORT}"), certificate))
    }

    /// Opens a door to the same content, plain HTTP, for clients with a token, which a service
    /// gives for `login`, `user:password`; its `address:port`.
    ///
    /// # Errors
    ///
    /// It does not come up.
    pub fn open_with_tokens(&mut self, login: &str) -> Result<String> {
        let address = *self.address.ip();
        let service = SocketAddrV4::new(address, TOKEN_SERVICE_PORT);
        let tokens = TokenService::start(&self.dir, service, login)?;
        let auth = tokens.auth();
        self.tokens = Some(tokens);
        self.open("tokens", TOKEN_PORT, "", &auth)?;
        Ok(format!("{address}:{TOKEN_PORT}"))
    }

    /// How many tokens the service gave.
    pub fn tokens_served(&self) -> u32 {
        self.tokens.as_ref().map_or(0, TokenService::served)
    }

    fn open(&mut self, name: &str, port: u16, http: &str, auth: &str) -> Result<()> {
        let settings = settings(*self.address.ip(), port, http, &self.dir.join("data")) + auth;
        let process = launch(&self.dir.join(name), &settings)?;
        self.processes.push(process);
        self.wait(SocketAddrV4::new(*self.address.ip(), port))
    }

    /// Stops answering: connections are refused. Doors that were opened stay closed.
    pub fn stop(&mut self) {
        self.processes.clear();
    }

    /// Answers again after [`Self::stop`], with what it had.
    ///
    /// # Errors
    ///
    /// It does not come up.
    pub fn resume(&mut self) -> Result<()> {
        let silly = format!(
            "auth: {{silly: {{realm: 'http://{}/token', service: lab}}}}\n",
            self.closed_location()
        );
        for (name, port, auth) in [("open", PORT, ""), ("closed", CLOSED_PORT, silly.as_str())] {
            let settings = settings(*self.address.ip(), port, "", &self.dir.join("data")) + auth;
            let dir = self.dir.join(format!("{name}-{}", self.starts));
            self.processes.push(launch(&dir, &settings)?);
        }
        self.starts += 1;
        for port in [PORT, CLOSED_PORT] {
            self.wait(SocketAddrV4::new(*self.address.ip(), port))?;
        }
        Ok(())
    }

    /// Puts an image under `name`, such as `os:v2`; its pull spec, by digest.
    ///
    /// # Errors
    ///
    /// The registry is stopped, or its disk is full.
    pub fn push(&self, image: &Image, name: &str) -> Result<String> {
        self.push_layout(&image.layout, name)
    }

    /// The same for the only image of an OCI layout.
    ///
    /// # Errors
    ///
    /// As [`Self::push`].
    pub fn push_layout(&self, layout: &Path, name: &str) -> Result<String> {
        let repository = name.split(':').next().unwrap_or(name);
        let digest = tempfile::NamedTempFile::new_in(&self.dir)?;
        run(command("skopeo")
            .args([
                "copy",
                "--quiet",
                "--dest-tls-verify=false",
                "--insecure-policy",
            ])
            .arg(format!("--digestfile={}", digest.path().display()))
            .arg(format!("oci:{}", layout.display()))
            .arg(format!("docker://{}/{name}", self.address)))?;
        let digest = fs::read_to_string(digest.path())?;
        Ok(format!(
            "{}/{repository}@{}",
            self.address,
            digest.trim_end()
        ))
    }

    /// The file that holds a blob.
    ///
    /// # Errors
    ///
    /// It is no SHA-256 digest.
    pub fn blob(&self, digest: &str) -> Result<PathBuf> {
        let hex = digest
            .strip_prefix("sha256:")
            .context("no SHA-256 digest")?;
        let start = hex.get(..2).context("no SHA-256 digest")?;
        let blobs = self.dir.join("data/docker/registry/v2/blobs/sha256");
        Ok(blobs.join(start).join(hex).join("data"))
    }

    /// Everything that was asked so far, in the order it was answered.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn requests(&self) -> Result<Vec<Request>> {
        let mut requests = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path().join("registry.log");
            match fs::read_to_string(&path) {
                Ok(text) => requests.extend(parse(&text)?),
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => return Err(error).context("cannot read the registry's log"),
            }
        }
        requests.sort_by_key(|request| request.finished);
        Ok(requests)
    }

    fn wait(&mut self, address: SocketAddrV4) -> Result<()> {
        let deadline = Instant::now() + UP_WITHIN;
        while TcpStream::connect_timeout(&address.into(), UP_WITHIN).is_err() {
            for process in &mut self.processes {
                process.check()?;
            }
            if Instant::now() >= deadline {
                bail!("the registry does not listen on {address} within {UP_WITHIN:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// As YAML. JSON lines carry the time to the nanosecond, which the access log does not.
fn settings(address: Ipv4Addr, port: u16, http: &str, data: &Path) -> String {
    format!(
        "version: 0.1\n\
         log: {{level: info, formatter: json, accesslog: {{disabled: true}}}}\n\
         storage: {{filesystem: {{rootdirectory: '{}'}}, delete: {{enabled: true}}, \
         maintenance: {{uploadpurging: {{enabled: false}}}}}}\n\
         http: {{addr: '{address}:{port}', secret: lab{http}}}\n",
        data.display()
    )
}

#[expect(clippy::disallowed_methods, reason = "a run's own file")]
fn launch(dir: &Path, settings: &str) -> Result<Process> {
    fs::create_dir(dir)?;
    let file = dir.join("config.yml");
    fs::write(&file, settings)?;
    Process::start(
        "registry",
        Path::new("docker-registry"),
        [Path::new("serve"), &file],
        dir,
    )
}
