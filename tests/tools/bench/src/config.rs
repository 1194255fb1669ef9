//! The configuration that the measured node is in: large, and changed in small ways.

use serde_json::{Value, json};
use testbed::config::File;

/// Its files.
const FILES: u32 = 300;

/// Its units.
const UNITS: u32 = 40;

/// Bytes of each file, so that the whole, rendered, has about 150 kB.
const FILE_BYTES: usize = 300;

/// Directory of its files.
const DIR: &str = "/etc/bench";

/// The file that a service is reloaded for.
const RELOADED_FOR: u32 = 2;

/// That service.
const SERVICE: &str = "bench-000.service";
/// Where it writes a line each time.
pub(crate) const RELOADS: &str = "/run/bench-reloads";

/// How many files another revision changes.
pub(crate) const CHANGED_FILES: u32 = 3;

/// One state of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    /// In the contents of the files that change without a reboot.
    pub(crate) revision: u32,
    /// In a kernel argument, which changes by a reboot.
    pub(crate) boot: u32,
    /// Pull spec of the OS; none for the one of the pool.
    pub(crate) image: Option<String>,
}

impl Config {
    /// `spec` of its MachineConfig.
    pub(crate) fn spec(&self) -> Value {
        let config = testbed::config::Config::new()
            .os(self.image.as_deref().unwrap_or_default())
            .argument(format!("slipway.bench={}", self.boot))
            .files((0..FILES).map(|number| self.file(number)))
            .units((0..UNITS).map(unit));
        config.spec()
    }

    fn file(&self, number: u32) -> File {
        let revision = if number < CHANGED_FILES {
            self.revision
        } else {
            0
        };
        let line = format!("file {number} of {FILES}, revision {revision}\n");
        let content: String = line.chars().cycle().take(FILE_BYTES).collect();
        File::new(path(number), content)
    }
}

/// What a change of the files does, as `nodeDisruptionPolicy` of a MachineConfiguration has it.
pub(crate) fn policies() -> Value {
    let reload = json!({ "type": "Reload", "reload": { "serviceName": SERVICE } });
    json!({
        "files": [
            { "path": path(RELOADED_FOR), "actions": [reload] },
            { "path": DIR, "actions": [{ "type": "None" }] },
        ],
    })
}

fn path(number: u32) -> String {
    format!("{DIR}/{number:03}.conf")
}

/// A service that runs and can be reloaded, and others that are only there.
fn unit(number: u32) -> Value {
    let is_service = number == 0;
    let (start, enabled) = if is_service {
        ("sleep infinity", true)
    } else {
        ("true", false)
    };
    let contents = format!(
        "[Unit]\nDescription=Unit {number} of {UNITS} of the benchmark\n\n\
         [Service]\nExecStart=/bin/{start}\nExecReload=/bin/sh -c 'echo {number} >>{RELOADS}'\n\n\
         [Install]\nWantedBy=multi-user.target\n"
    );
    json!({ "name": format!("bench-{number:03}.service"), "enabled": enabled, "contents": contents })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_large_as_the_figures_say() {
        let length = Config::default().spec().to_string().len();
        assert!((150_000..155_000).contains(&length), "{length}");
    }

    #[test]
    fn a_revision_changes_three_files_and_nothing_else() {
        let old = Config::default();
        let new = Config {
            revision: 7,
            ..old.clone()
        };
        let (mut old, new) = (old.spec(), new.spec());
        let files = |spec: &Value| {
            spec["config"]["storage"]["files"]
                .as_array()
                .unwrap()
                .clone()
        };
        let pairs: Vec<_> = files(&old).into_iter().zip(files(&new)).collect();
        assert_eq!(pairs.iter().filter(|(old, new)| old != new).count(), 3);
        assert!(pairs.iter().all(|(old, new)| old["path"] == new["path"]));
        old["config"]["storage"] = new["config"]["storage"].clone();
        assert_eq!(old, new);
    }

    #[test]
    fn the_policy_reloads_a_service_that_the_configuration_has() {
        let spec = Config::default().spec();
        let first = &spec["config"]["systemd"]["units"][0];
        assert!(first["name"] == SERVICE && first["enabled"] == true);
        assert_eq!(policies()["files"][0]["path"], "/etc/bench/002.conf");
    }
}
