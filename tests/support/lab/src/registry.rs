//! A registry for one lab: Debian's `docker-registry`, which logs every request it answers.
//!
//! - `log`: requests, with client and time

mod log;

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

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

/// How long it may take to answer. It takes 0.1 s.
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

    /// Stops answering: connections are refused.
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
            let settings = settings(*self.address.ip(), port, &self.dir.join("data")) + auth;
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
fn settings(address: Ipv4Addr, port: u16, data: &Path) -> String {
    format!(
        "version: 0.1\n\
         log: {{level: info, formatter: json, accesslog: {{disabled: true}}}}\n\
         storage: {{filesystem: {{rootdirectory: '{}'}}, maintenance: {{uploadpurging: {{enabled: false}}}}}}\n\
         http: {{addr: '{address}:{port}', secret: lab}}\n",
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
