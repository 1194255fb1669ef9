//! A configuration in the words of an older specification, for a machine that knows no newer one.
//!
//! What the older one cannot say is refused by its field: a machine that left it out would not be
//! what its configuration says. Source: `docs/reference/controller.md`, "Ignition versions";
//! `coreos/ignition`, configuration specifications 2.2 and 3.1 to 3.5; `coreos/ign-converter`.

use serde_json::Value;

use super::{Config, Error, MAX_FILE_MODE, Problem, v2, version};

/// A version that configurations are printed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpecVersion {
    V2_2,
    V3_1,
    V3_2,
    V3_3,
    V3_4,
    /// 3.5.0, which every configuration is read into.
    V3_5,
}

impl SpecVersion {
    /// All, oldest first.
    pub const ALL: [Self; 6] = [
        Self::V2_2,
        Self::V3_1,
        Self::V3_2,
        Self::V3_3,
        Self::V3_4,
        Self::V3_5,
    ];

    /// As `ignition.version` has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2_2 => "2.2.0",
            Self::V3_1 => "3.1.0",
            Self::V3_2 => "3.2.0",
            Self::V3_3 => "3.3.0",
            Self::V3_4 => "3.4.0",
            Self::V3_5 => "3.5.0",
        }
    }

    /// 3.`minor`.0, if configurations are printed in it: 3.0 is not among them.
    pub const fn three(minor: u64) -> Option<Self> {
        match minor {
            1 => Some(Self::V3_1),
            2 => Some(Self::V3_2),
            3 => Some(Self::V3_3),
            4 => Some(Self::V3_4),
            5 => Some(Self::V3_5),
            _ => None,
        }
    }

    pub const fn has_kernel_arguments(self) -> bool {
        matches!(self, Self::V3_3 | Self::V3_4 | Self::V3_5)
    }

    /// The specification 3 whose members are allowed: 2.2 is made of what 3.1 can say.
    const fn minor(self) -> u8 {
        match self {
            Self::V2_2 | Self::V3_1 => 1,
            Self::V3_2 => 2,
            Self::V3_3 => 3,
            Self::V3_4 => 4,
            Self::V3_5 => 5,
        }
    }
}

impl Config {
    /// The configuration as JSON of a version: what a machine that asks for it reads.
    ///
    /// # Errors
    /// [`Error::Invalid`] with each field that the version cannot say.
    pub fn to_version(&self, target: SpecVersion) -> Result<Value, Error> {
        let mut value = self.to_value();
        let minor = target.minor();
        let name = target.as_str();
        let newer = version::drop_newer(&mut value, minor);
        let mut problems: Vec<Problem> = newer
            .into_iter()
            .map(|lost| Problem {
                field: lost.field,
                why: format!("cannot be said in specification {name}"),
            })
            .collect();
        problems.extend(values(self, minor, name));
        if target == SpecVersion::V2_2 {
            problems.extend(v2::unprintable(self));
        }
        if !problems.is_empty() {
            return Err(Error::Invalid(problems));
        }
        if target == SpecVersion::V2_2 {
            return Ok(v2::print(self));
        }
        if let Some(version) = value.pointer_mut("/ignition/version") {
            *version = Value::from(name);
        }
        Ok(value)
    }
}

/// Values of members that an older specification has, but not with these.
fn values(config: &Config, minor: u8, name: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let storage = &config.storage;
    if minor < 3 {
        for (index, filesystem) in storage.filesystems.iter().enumerate() {
            if filesystem.format.as_deref() == Some("none") {
                problems.push(Problem {
                    field: format!("storage.filesystems[{index}].format"),
                    why: format!("\"none\" cannot be said in specification {name}"),
                });
            }
        }
    }
    if minor < 4 {
        let special = |mode: Option<u32>| mode.filter(|mode| *mode > MAX_FILE_MODE);
        for (index, directory) in storage.directories.iter().enumerate() {
            if let Some(mode) = special(directory.mode) {
                problems.push(Problem {
                    field: format!("storage.directories[{index}].mode"),
                    why: format!("0{mode:o} cannot be said in specification {name}"),
                });
            }
        }
        for (field, source) in sources(config) {
            if source.starts_with("arn:") {
                problems.push(Problem {
                    field,
                    why: format!("arn: cannot be said in specification {name}"),
                });
            }
        }
    }
    problems
}

/// Every URL of a configuration, with its field.
fn sources(config: &Config) -> Vec<(String, &str)> {
    let ignition = &config.ignition;
    let merge = ignition.config.merge.iter().enumerate();
    let merge = merge.map(|(at, one)| (format!("ignition.config.merge[{at}]"), one));
    let authorities = ignition.security.tls.certificate_authorities.iter();
    let authorities = authorities.enumerate().map(|(at, one)| {
        let field = format!("ignition.security.tls.certificateAuthorities[{at}]");
        (field, one)
    });
    let files = config.storage.files.iter().enumerate();
    let files = files.flat_map(|(at, file)| {
        let appended = file.append.iter().enumerate();
        let appended =
            appended.map(move |(nth, one)| (format!("storage.files[{at}].append[{nth}]"), one));
        appended.chain([(format!("storage.files[{at}].contents"), &file.contents)])
    });
    let luks = config.storage.luks.iter().enumerate();
    let luks = luks.map(|(at, luks)| (format!("storage.luks[{at}].keyFile"), &luks.key_file));
    let replace = (
        "ignition.config.replace".to_owned(),
        &ignition.config.replace,
    );
    merge
        .chain(authorities)
        .chain(files)
        .chain(luks)
        .chain([replace])
        .filter_map(|(at, resource)| Some((format!("{at}.source"), resource.source.as_deref()?)))
        .collect()
}

#[cfg(test)]
mod tests;
