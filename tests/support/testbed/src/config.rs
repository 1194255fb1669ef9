//! MachineConfigs, as an administrator writes them.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use api::machineconfiguration::label;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use machineconfig::spec::NodeConfig;
use serde_json::{Map, Value, json};

/// `spec` of a MachineConfig. A section that it has nothing for is left out.
#[derive(Clone, Debug, Default)]
pub struct Config {
    os: String,
    arguments: Vec<String>,
    files: Vec<Value>,
    units: Vec<Value>,
    users: Vec<Value>,
}

impl Config {
    /// One that asks for nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// With an OS by its pull spec.
    #[must_use]
    pub fn os(mut self, image: impl Into<String>) -> Self {
        self.os = image.into();
        self
    }

    /// With a kernel argument.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// With files.
    #[must_use]
    pub fn files(mut self, files: impl IntoIterator<Item = File>) -> Self {
        self.files.extend(files.into_iter().map(File::value));
        self
    }

    /// With units, each an Ignition unit.
    #[must_use]
    pub fn units(mut self, units: impl IntoIterator<Item = Value>) -> Self {
        self.units.extend(units);
        self
    }

    /// With SSH keys of user `core`.
    #[must_use]
    pub fn keys(self, keys: &[&str]) -> Self {
        self.user(json!({ "name": "core", "sshAuthorizedKeys": keys }))
    }

    /// With an Ignition user.
    #[must_use]
    pub fn user(mut self, user: Value) -> Self {
        self.users.push(user);
        self
    }

    /// `spec`.
    pub fn spec(&self) -> Value {
        let mut spec = Map::new();
        if !self.os.is_empty() {
            spec.insert("osImageURL".to_owned(), json!(self.os));
        }
        if !self.arguments.is_empty() {
            spec.insert("kernelArguments".to_owned(), json!(self.arguments));
        }
        let sections = [
            ("storage", "files", &self.files),
            ("systemd", "units", &self.units),
            ("passwd", "users", &self.users),
        ];
        let mut config = Map::new();
        for (section, list, values) in sections {
            if !values.is_empty() {
                config.insert(section.to_owned(), json!({ list: values }));
            }
        }
        if !config.is_empty() {
            config.insert("ignition".to_owned(), json!({ "version": "3.4.0" }));
            spec.insert("config".to_owned(), config.into());
        }
        spec.into()
    }

    /// The MachineConfig of this name, for a role.
    pub fn object(&self, name: &str, role: &str) -> Value {
        object(name, role, &self.spec())
    }

    /// The whole, as a configuration that was rendered under this name.
    pub fn rendered(&self, name: &str) -> Result<NodeConfig> {
        let object = json!({ "metadata": { "name": name }, "spec": self.spec() });
        let (config, _) = NodeConfig::parse(&object).context("the test's own configuration")?;
        Ok(config)
    }
}

/// The MachineConfig of this name, for a role.
pub(crate) fn object(name: &str, role: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": { "name": name, "labels": { label::ROLE: role } },
        "spec": spec,
    })
}

/// A file of a configuration: `0644`, of `root`.
#[derive(Clone, Debug)]
pub struct File {
    path: String,
    content: Vec<u8>,
    is_compressed: bool,
    mode: u32,
    owner: Option<String>,
}

impl File {
    /// One with a text.
    pub fn new(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            content: content.into(),
            is_compressed: false,
            mode: 0o644,
            owner: None,
        }
    }

    /// Compressed on its way.
    #[must_use]
    pub fn compressed(mut self) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let written = encoder.write_all(&self.content);
        // Memory takes all of it.
        self.content = written.and_then(|()| encoder.finish()).unwrap_or_default();
        self.is_compressed = true;
        self
    }

    /// With these permission bits.
    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Of the user and the group of this name.
    #[must_use]
    pub fn owner(mut self, name: &str) -> Self {
        self.owner = Some(name.to_owned());
        self
    }

    /// As Ignition writes it.
    fn value(self) -> Value {
        let source = format!("data:;base64,{}", BASE64.encode(self.content));
        let contents = if self.is_compressed {
            json!({ "source": source, "compression": "gzip" })
        } else {
            json!({ "source": source })
        };
        let mut file = Map::new();
        file.insert("path".to_owned(), json!(self.path));
        file.insert("mode".to_owned(), json!(self.mode));
        for field in ["user", "group"] {
            if let Some(name) = &self.owner {
                file.insert(field.to_owned(), json!({ "name": name }));
            }
        }
        file.insert("contents".to_owned(), contents);
        file.into()
    }
}

/// An enabled unit with these contents.
pub fn unit(name: &str, contents: &str) -> Value {
    json!({ "name": name, "enabled": true, "contents": contents })
}

/// The same with a drop-in.
pub fn unit_with_drop_in(name: &str, contents: &str, (file, text): (&str, &str)) -> Value {
    let drop_ins = [json!({ "name": file, "contents": text })];
    json!({ "name": name, "enabled": true, "contents": contents, "dropins": drop_ins })
}

/// The unit of a new host's first boot, with the programs where the lab brings them.
pub fn first_boot_unit() -> Value {
    let text = include_str!("../../../../systemd/machine-config-daemon-firstboot.service");
    let brought =
        "[Service]\nExecStart=\nExecStart=/run/lab/programs/mcd firstboot-complete-machineconfig\n";
    let name = "machine-config-daemon-firstboot.service";
    unit_with_drop_in(name, text, ("10-lab.conf", brought))
}

/// A masked unit.
pub fn masked(name: &str) -> Value {
    json!({ "name": name, "mask": true })
}

/// Contents of a service that runs once, stays, and can be reloaded.
pub fn service(description: &str) -> String {
    format!(
        "[Unit]\nDescription={description}\n[Service]\nType=oneshot\nRemainAfterExit=true\n\
         ExecStart=/bin/true\nExecReload=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_without_content_are_left_out() {
        assert_eq!(Config::new().spec(), json!({}));
        let spec = Config::new().os("image").argument("a=1").spec();
        assert_eq!(
            spec,
            json!({ "osImageURL": "image", "kernelArguments": ["a=1"] })
        );
        let spec = Config::new().keys(&["ssh-rsa A"]).spec();
        let users = json!([{ "name": "core", "sshAuthorizedKeys": ["ssh-rsa A"] }]);
        let config = json!({ "ignition": { "version": "3.4.0" }, "passwd": { "users": users } });
        assert_eq!(spec, json!({ "config": config }));
    }

    #[test]
    fn files_are_what_the_product_reads() {
        let files = [
            File::new("/etc/a", "text").mode(0o600).owner("chrony"),
            File::new("/etc/b", "text").compressed(),
        ];
        let config = Config::new()
            .files(files)
            .units([unit("a.service", &service("a"))]);
        config.rendered("rendered-a").unwrap();
        let files = config.spec()["config"]["storage"]["files"].clone();
        assert_eq!(files[0]["contents"]["source"], "data:;base64,dGV4dA==");
        assert_eq!(files[0]["group"]["name"], "chrony");
        assert_eq!(files[1]["contents"]["compression"], "gzip");
    }
}
