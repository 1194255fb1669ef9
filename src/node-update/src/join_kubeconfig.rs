//! The kubeconfig by which a node joins its cluster. No configuration has to bring it.

use machineconfig::spec::NodeConfig;

use crate::decode::decode;
use crate::plan::Mode;
use crate::unit_settings;

pub const JOIN_KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";

/// Its mode: it has a credential.
///
/// Source: `docs/reference/daemon.md`, "Files".
pub const JOIN_KUBECONFIG_MODE: Mode = Mode(0o600);

/// What a configuration says of [`JOIN_KUBECONFIG`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKubeconfig {
    /// The file is one of its own, with a mode of its own.
    OfConfiguration,
    /// A unit, such as the kubelet, names it.
    Needed,
    NotNamed,
}

/// What a configuration says of [`JOIN_KUBECONFIG`].
pub fn join_kubeconfig(config: &NodeConfig) -> JoinKubeconfig {
    let (desired, _) = decode(&config.spec);
    if desired.file(JOIN_KUBECONFIG).is_some() {
        return JoinKubeconfig::OfConfiguration;
    }
    let units = unit_settings::units(&desired);
    let mut settings = units.values().flat_map(|unit| &unit.settings);
    if settings.any(|setting| names(&setting.value)) {
        JoinKubeconfig::Needed
    } else {
        JoinKubeconfig::NotNamed
    }
}

/// Whether a word of a setting is the path, alone or as the value of an option.
fn names(setting: &str) -> bool {
    let mut words = setting.split_whitespace();
    words.any(|word| word.rsplit('=').next() == Some(JOIN_KUBECONFIG))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(config: &Value) -> JoinKubeconfig {
        let object = json!({"metadata": {"name": "r"}, "spec": {"config": config}});
        join_kubeconfig(&NodeConfig::in_force(&object).unwrap().0)
    }

    #[test]
    fn a_unit_that_names_the_file_needs_it() {
        let unit = |text: &str| {
            json!({
                "ignition": {"version": "3.5.0"},
                "systemd": {"units": [{"name": "kubelet.service", "contents": text}]}
            })
        };
        for (text, said) in [
            (
                "[Service]\nExecStart=/bin/kubelet \\\n  --bootstrap-kubeconfig=/etc/kubernetes/kubeconfig \\\n  --v=2\n",
                JoinKubeconfig::Needed,
            ),
            (
                "[Unit]\nConditionPathExists=/etc/kubernetes/kubeconfig\n",
                JoinKubeconfig::Needed,
            ),
            (
                "[Service]\nExecStart=/bin/kubelet --kubeconfig=/var/lib/kubelet/kubeconfig\n",
                JoinKubeconfig::NotNamed,
            ),
            (
                "[Service]\nExecStart=/bin/x /etc/kubernetes/kubeconfig.d\n",
                JoinKubeconfig::NotNamed,
            ),
        ] {
            assert_eq!(of(&unit(text)), said, "{text}");
        }
        let file = json!({
            "ignition": {"version": "3.5.0"},
            "storage": {"files": [{"path": JOIN_KUBECONFIG, "contents": {"source": "data:,x"}}]}
        });
        assert_eq!(of(&file), JoinKubeconfig::OfConfiguration);
    }
}
