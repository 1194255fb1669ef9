//! From a configuration to what must hold on a host that is in it.

use std::collections::BTreeMap;

use crate::decode::decode;
use crate::desired::{Desired, DesiredUnit};
use crate::disruption::Live;
use crate::paths::is_never_verified;
use crate::plan::Expectation;
use crate::unit_settings::{self, named_file};
use crate::well_known::{CRIO, KUBELET};
use machineconfig::spec::NodeConfig;

/// Units without which a host is no node; required where they exist.
const NODE_UNITS: [&str; 2] = [KUBELET, CRIO];

/// What must hold on a host in a configuration, in the order of `docs/reference/daemon.md`,
/// "Verification".
///
/// Shape: `image` is the layered image of the node, as its record names it. Files that change
/// without a configuration are left out, as are keys and passwords.
pub fn expectations(config: &NodeConfig, image: Option<&str>) -> Vec<Expectation> {
    expectations_of(config, image, &decode(&config.spec).0)
}

/// What of a configuration can be changed on a host by hand: its files, masks and enablement, in
/// the order of [`expectations`].
pub fn files_and_units(config: &NodeConfig) -> Vec<Expectation> {
    let mut expected = expectations(config, None);
    expected.retain(Expectation::is_file_or_unit);
    expected
}

/// [`expectations`], where the configuration was decoded already: `desired` is what it wants.
pub(crate) fn expectations_of(
    config: &NodeConfig,
    image: Option<&str>,
    desired: &Desired,
) -> Vec<Expectation> {
    let mut expected = vec![Expectation::Record {
        config: config.name.clone(),
        image: image.map(ToOwned::to_owned),
    }];
    expected.extend(kernel_arguments(&config.spec.split_kernel_arguments()));
    let files = desired
        .files
        .iter()
        // Not what Slipway adds: a host that another program configured does not have it.
        .filter(|file| !file.is_own && !is_never_verified(&file.path));
    expected.extend(files.map(|file| Expectation::File {
        path: file.path.clone(),
        file: file.state.clone(),
    }));
    for unit in &desired.units {
        if unit.is_masked() {
            expected.push(Expectation::Masked {
                unit: unit.name.clone(),
            });
        } else if let Some(enabled) = unit.enabled.filter(|_| !unit.is_template()) {
            expected.push(Expectation::Enabled {
                unit: unit.name.clone(),
                enabled,
            });
        }
    }
    let runs = |name: &&str| desired.unit(name).is_none_or(|unit| !unit.is_masked());
    let units = NODE_UNITS.into_iter().filter(runs);
    expected.extend(units.map(|unit| Expectation::Active {
        unit: unit.to_owned(),
    }));
    expected
}

impl Expectation {
    const fn is_file_or_unit(&self) -> bool {
        match self {
            Self::File { .. } | Self::Masked { .. } | Self::Enabled { .. } => true,
            Self::Record { .. }
            | Self::KernelArgument { .. }
            | Self::Runs { .. }
            | Self::Started { .. }
            | Self::Active { .. } => false,
        }
    }
}

/// What must hold of the units that an update touches: those of the configuration that are enabled
/// and new or changed, or name a file that changes, and those that the live change restarts or
/// reloads.
pub(crate) fn started(
    before: &Desired,
    after: &Desired,
    changed: &[&str],
    live: &[Live],
) -> Vec<Expectation> {
    let files = unit_settings::changed_files(before, after);
    let texts = unit_settings::units(after);
    let is_touched = |unit: &&DesiredUnit| {
        let is_changed = changed.contains(&unit.name.as_str());
        let text = || texts.get(unit.name.as_str());
        is_changed || text().is_some_and(|text| named_file(after, text, &files).is_some())
    };
    let enabled = after
        .units
        .iter()
        .filter(|unit| unit.enabled == Some(true) && !unit.is_masked() && !unit.is_template())
        .filter(is_touched)
        .map(|unit| unit.name.as_str());
    let acted_on = live.iter().filter_map(|action| match action {
        Live::Restart(unit) | Live::Reload(unit) => Some(unit.as_str()),
        Live::DaemonReload => None,
    });
    let mut units: Vec<&str> = Vec::new();
    for unit in enabled.chain(acted_on) {
        // More is required of these: they must run.
        if !units.contains(&unit) && !NODE_UNITS.contains(&unit) {
            units.push(unit);
        }
    }
    units
        .into_iter()
        .map(|unit| Expectation::Started {
            unit: unit.to_owned(),
        })
        .collect()
}

/// Each argument once, with how often it is named; in order of first mention.
fn kernel_arguments(arguments: &[String]) -> Vec<Expectation> {
    let mut times: BTreeMap<&String, usize> = BTreeMap::new();
    for argument in arguments {
        *times.entry(argument).or_default() += 1;
    }
    let mentioned = arguments.iter();
    mentioned
        .filter_map(|argument| {
            let times = times.remove(argument)?;
            Some(Expectation::KernelArgument {
                argument: argument.clone(),
                times,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plan::{Digest, FileState, Mode, Owners};
    use machineconfig::spec::Spec;

    fn expected(spec: &Value) -> Vec<Expectation> {
        let object = json!({"metadata": {"name": "rendered-worker-1"}, "spec": spec});
        expectations(&NodeConfig::parse(&object).unwrap().0, None)
    }

    #[test]
    fn units_that_an_update_touches_are_asked() {
        let desired = |script: &str, units: &Value| {
            let config = json!({"ignition": {"version": "3.5.0"}, "systemd": {"units": units},
                "storage": {"files": [{"path": "/usr/local/bin/x",
                    "contents": {"source": format!("data:,{script}")}}]}});
            decode(&Spec::parse(&json!({"config": config})).unwrap().0).0
        };
        let unit = |name: &str, program: &str| {
            json!({"name": name, "enabled": true,
            "contents": format!("[Service]\nExecStart={program}\n")})
        };
        let units = json!([
            unit("new.service", "/bin/a"),
            unit("runs-x.service", "/usr/local/bin/x"),
            unit("other.service", "/bin/b"),
            unit("new@.service", "/bin/a"),
            {"name": "off.service", "contents": "[Service]\n", "enabled": false},
            {"name": "masked.service", "mask": true, "enabled": true},
        ]);
        let (before, after) = (desired("1", &json!([])), desired("2", &units));
        let changed = [
            "new.service",
            "new@.service",
            "off.service",
            "masked.service",
        ];
        let live = [
            Live::DaemonReload,
            Live::Restart("restarted.service".to_owned()),
            Live::Reload(CRIO.to_owned()),
        ];
        let started_units = started(&before, &after, &changed, &live);
        let expected = ["new.service", "runs-x.service", "restarted.service"].map(|unit| {
            Expectation::Started {
                unit: unit.to_owned(),
            }
        });
        assert_eq!(started_units, expected);
        assert_eq!(started(&after, &after, &[], &[]), []);
    }

    fn file(path: &str, text: &str, mode: u32) -> Expectation {
        Expectation::File {
            path: path.to_owned(),
            file: FileState {
                digest: Digest::of(text.as_bytes()),
                mode: Mode(mode),
                owner: Owners::ROOT,
            },
        }
    }

    #[test]
    fn all_that_can_be_checked_is_expected_in_order() {
        let spec = json!({
            "kernelArguments": ["b a", "b"],
            "config": {"ignition": {"version": "3.5.0"},
                "storage": {"files": [
                    {"path": "/etc/x", "contents": {"source": "data:,x"}, "mode": 384},
                    {"path": "/etc/kubernetes/kubelet-ca.crt", "contents": {"source": "data:,ca"}},
                ]},
                "systemd": {"units": [
                    {"name": "a.service", "contents": "[Service]\n", "enabled": true,
                     "dropins": [{"name": "1.conf", "contents": "[Unit]\n"}, {"name": "2.conf"}]},
                    {"name": "b.service", "contents": "[Service]\n", "mask": true, "enabled": true},
                    {"name": "c@.service", "enabled": true},
                    {"name": "d.service", "enabled": false},
                    {"name": "crio.service", "mask": true},
                ]},
            },
        });
        let unit = |name: &str| name.to_owned();
        assert_eq!(
            expected(&spec),
            [
                Expectation::Record {
                    config: "rendered-worker-1".to_owned(),
                    image: None
                },
                Expectation::KernelArgument {
                    argument: "b".to_owned(),
                    times: 2
                },
                Expectation::KernelArgument {
                    argument: "a".to_owned(),
                    times: 1
                },
                file("/etc/x", "x", 0o600),
                file("/etc/systemd/system/a.service", "[Service]\n", 0o644),
                file("/etc/systemd/system/a.service.d/1.conf", "[Unit]\n", 0o644),
                Expectation::Enabled {
                    unit: unit("a.service"),
                    enabled: true
                },
                Expectation::Masked {
                    unit: unit("b.service")
                },
                Expectation::Enabled {
                    unit: unit("d.service"),
                    enabled: false
                },
                Expectation::Masked {
                    unit: unit("crio.service")
                },
                Expectation::Active {
                    unit: unit("kubelet.service")
                },
            ]
        );
    }
}
