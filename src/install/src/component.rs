//! What can be installed apart.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A part of Slipway that is installed or left out as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstallComponent {
    /// Pools, nodes and their configuration: `mcc` and `mcd`.
    MachineConfig,
    /// New machines: `mcs`.
    ConfigServer,
    /// The cluster's release: `cvo`.
    VersionOperator,
    /// Upgrades on a date: `muo`.
    ManagedUpgrade,
    /// The update service of a site.
    UpdateService,
    /// Alerts and dashboards of the others.
    Monitoring,
}

/// Why a set of components cannot be installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComponentError {
    /// No component has this name.
    #[error("there is no component {name:?}: {}", InstallComponent::names().join(", "))]
    NoComponent {
        /// As it was given.
        name: String,
    },
    /// It stands on another one.
    #[error("component {component} needs component {needs}")]
    Needs {
        /// What is asked for.
        component: InstallComponent,
        /// What is not.
        needs: InstallComponent,
    },
}

impl InstallComponent {
    /// All, in the order in which they are installed.
    pub const ALL: [Self; 6] = [
        Self::MachineConfig,
        Self::ConfigServer,
        Self::VersionOperator,
        Self::ManagedUpgrade,
        Self::UpdateService,
        Self::Monitoring,
    ];

    /// Its name on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MachineConfig => "machine-config",
            Self::ConfigServer => "config-server",
            Self::VersionOperator => "version-operator",
            Self::ManagedUpgrade => "managed-upgrade",
            Self::UpdateService => "update-service",
            Self::Monitoring => "monitoring",
        }
    }

    /// All names.
    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|it| it.name()).collect()
    }

    /// Without which it does nothing.
    const fn needs(self) -> Option<Self> {
        match self {
            Self::ConfigServer => Some(Self::MachineConfig),
            Self::MachineConfig
            | Self::VersionOperator
            | Self::ManagedUpgrade
            | Self::UpdateService
            | Self::Monitoring => None,
        }
    }
}

impl fmt::Display for InstallComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for InstallComponent {
    type Err = ComponentError;

    fn from_str(name: &str) -> Result<Self, ComponentError> {
        let mut all = Self::ALL.into_iter();
        all.find(|it| it.name() == name)
            .ok_or_else(|| ComponentError::NoComponent {
                name: name.to_owned(),
            })
    }
}

/// The components to install: those that are installed and those that are asked for; without any,
/// `machine-config`.
///
/// # Errors
/// [`ComponentError::Needs`].
pub fn choose(
    wanted: &[InstallComponent],
    installed: &BTreeSet<InstallComponent>,
) -> Result<BTreeSet<InstallComponent>, ComponentError> {
    let mut chosen: BTreeSet<_> = installed.iter().chain(wanted).copied().collect();
    if chosen.is_empty() {
        chosen.insert(InstallComponent::MachineConfig);
    }
    for component in &chosen {
        if let Some(needs) = component.needs()
            && !chosen.contains(&needs)
        {
            let component = *component;
            return Err(ComponentError::Needs { component, needs });
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::InstallComponent::{ConfigServer, MachineConfig, UpdateService};
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        for component in InstallComponent::ALL {
            assert_eq!(component.name().parse(), Ok(component));
            let json = serde_json::to_value(component).unwrap();
            assert_eq!(json, component.name());
        }
        for name in ["", "mcd", "Machine-Config"] {
            let error = name.parse::<InstallComponent>().unwrap_err().to_string();
            assert!(error.ends_with("machine-config, config-server, version-operator, managed-upgrade, update-service, monitoring"), "{error}");
        }
    }

    #[test]
    fn what_is_installed_stays_and_what_is_asked_for_is_added() {
        let set = |of: &[InstallComponent]| of.iter().copied().collect::<BTreeSet<_>>();
        for (wanted, installed, chosen) in [
            (&[][..], &[][..], &[MachineConfig][..]),
            (&[], &[UpdateService], &[UpdateService]),
            (&[UpdateService], &[], &[UpdateService]),
            (
                &[UpdateService],
                &[MachineConfig],
                &[MachineConfig, UpdateService],
            ),
        ] {
            assert_eq!(choose(wanted, &set(installed)), Ok(set(chosen)));
        }
        let error = choose(&[ConfigServer], &set(&[UpdateService])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "component config-server needs component machine-config"
        );
    }
}
