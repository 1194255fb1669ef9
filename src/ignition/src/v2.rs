//! Configurations of specification 2.0 to 2.2, translated into 3.5, and 3.5 printed as 2.2.
//!
//! Specification 2 allows what 3 does not: the same file, unit or user twice. The last one wins, as
//! it does on a host that follows the list; then each member is translated into specification
//! 3.
//!
//! Source: `docs/reference/controller.md`, "Ignition versions"; `coreos/ign-converter`,
//! `translate/v23tov30`.

mod dedupe;
mod print;
mod schema;
mod translate;

use serde_json::Value;

use super::{CORE, Config, Error, Problem, Warning, read};

/// Reads and translates a configuration of version 2.x.
pub(super) fn read(value: &Value) -> Result<(Config, Vec<Warning>), Error> {
    let mut value = value.clone();
    read::drop_nulls(&mut value);
    let (two, warnings) = read::typed::<schema::Config>(&value)?;
    let problems = untranslatable(&two);
    if !problems.is_empty() {
        return Err(Error::Invalid(problems));
    }
    Ok((translate::translate(dedupe::dedupe(two)), warnings))
}

/// What of specification 3.1 version 2.2 has no words for.
pub(super) fn unprintable(config: &Config) -> Vec<Problem> {
    print::unprintable(config)
}

/// A configuration in the words of 2.2, which has some for all of it.
pub(super) fn print(config: &Config) -> Value {
    print::print(config)
}

/// What specification 3 has no words for.
fn untranslatable(two: &schema::Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut refuse = |field: String, why: String| problems.push(Problem { field, why });
    if !two.networkd.units.is_empty() {
        refuse(
            "networkd.units".to_owned(),
            "networkd units are not supported".to_owned(),
        );
    }
    let storage = &two.storage;
    let nodes = storage
        .files
        .iter()
        .enumerate()
        .map(|(index, file)| ("files", index, &file.filesystem))
        .chain(
            (storage.directories.iter().enumerate())
                .map(|(index, directory)| ("directories", index, &directory.filesystem)),
        )
        .chain(
            storage
                .links
                .iter()
                .enumerate()
                .map(|(index, link)| ("links", index, &link.filesystem)),
        );
    for (kind, index, filesystem) in nodes {
        if filesystem != "root" {
            let why = format!("filesystem must be \"root\", is {filesystem:?}");
            refuse(format!("storage.{kind}[{index}].filesystem"), why);
        }
    }
    for (index, filesystem) in storage.filesystems.iter().enumerate() {
        if filesystem.name != "root" {
            let why = format!("filesystem must be \"root\", is {:?}", filesystem.name);
            refuse(format!("storage.filesystems[{index}].name"), why);
        }
    }
    for (index, user) in two.passwd.users.iter().enumerate() {
        if user.name != CORE {
            let why = format!(
                "unexpected user with name: {}. Only core user is supported",
                user.name
            );
            refuse(format!("passwd.users[{index}].name"), why);
        }
        if user.create.is_some() {
            let why = "is deprecated and cannot be translated".to_owned();
            refuse(format!("passwd.users[{index}].create"), why);
        }
    }
    problems
}
