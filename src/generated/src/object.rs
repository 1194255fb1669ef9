//! A generated MachineConfig, and the status of the object that it is generated for.

use api::machineconfiguration::{
    MachineConfigSpec, SettingCondition, SettingConditionType, annotation, label,
};
use api::{ConditionStatus, condition};
use ignition::{Config, File, Resource, content};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

/// API version of MachineConfigs and of the kinds that select pools.
pub const API_VERSION: &str = "machineconfiguration.openshift.io/v1";

/// Mode of a generated file.
const MODE: u32 = 0o644;

/// Why a file of a MachineConfig cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The whole configuration cannot be read.
    #[error(transparent)]
    Config(#[from] ignition::Error),
    /// There are no bytes at this path.
    #[error("{0} cannot be read")]
    Decode(String, #[source] content::Error),
    /// The bytes at this path are not text.
    #[error("{0} is not text")]
    NotText(String),
}

/// A file of a generated MachineConfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedFile {
    /// Where it lies on the host.
    pub path: String,
    pub text: String,
}

/// The object that a MachineConfig was generated for, and that controls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maker {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub name: String,
    pub uid: String,
}

/// A MachineConfig that is to be there.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratedConfig {
    pub name: String,
    /// The role that it is labelled with: the pool's name.
    pub role: String,
    /// Whom it belongs to; nothing where it is made from several objects.
    pub maker: Option<Maker>,
    /// The platform that it is a base configuration of; nothing where it is none.
    pub platform: Option<&'static str>,
    pub spec: Value,
}

impl GeneratedConfig {
    /// One that writes files.
    pub fn of_files(
        name: String,
        role: &str,
        maker: Option<Maker>,
        files: &[GeneratedFile],
    ) -> Self {
        let mut config = Config::new();
        config.storage.files = files
            .iter()
            .map(|file| File {
                path: file.path.clone(),
                mode: Some(MODE),
                overwrite: Some(true),
                contents: Resource {
                    source: Some(content::to_data_url(file.text.as_bytes())),
                    ..Resource::default()
                },
                ..File::default()
            })
            .collect();
        Self {
            name,
            role: role.to_owned(),
            maker,
            platform: None,
            spec: json!({ "config": config.to_value() }),
        }
    }

    /// The whole object, made by a build of the controller.
    pub fn to_object(&self, build: &str) -> Value {
        let mut object = json!({
            "apiVersion": API_VERSION,
            "kind": "MachineConfig",
            "metadata": {
                "name": self.name,
                "labels": { label::ROLE: self.role },
                "annotations": { annotation::GENERATED_BY_CONTROLLER_VERSION: build }
            },
            "spec": self.spec
        });
        if let (Some(maker), Some(metadata)) = (&self.maker, object.get_mut("metadata")) {
            let owner = json!({
                "apiVersion": maker.api_version,
                "kind": maker.kind,
                "name": maker.name,
                "uid": maker.uid,
                "controller": true,
                "blockOwnerDeletion": true
            });
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("ownerReferences".to_owned(), json!([owner]));
            }
        }
        if let (Some(platform), Some(metadata)) = (self.platform, object.get_mut("metadata"))
            && let Some(annotations) = metadata.get_mut("annotations")
        {
            annotations[annotation::BASE_TEMPLATE] = json!(platform);
        }
        object
    }
}

/// The text of a file that a MachineConfig writes; nothing where it does not.
///
/// # Errors
/// [`Error`].
pub fn file_of(spec: &MachineConfigSpec, path: &str) -> Result<Option<String>, Error> {
    let config = spec.config.clone().unwrap_or_default();
    let (config, _) = ignition::read_as_it_is(&config)?;
    let mut files = config.storage.files.iter();
    let Some(file) = files.find(|file| file.path == path) else {
        return Ok(None);
    };
    let bytes =
        content::decode(&file.contents).map_err(|error| Error::Decode(path.to_owned(), error))?;
    let text = String::from_utf8(bytes).map_err(|_| Error::NotText(path.to_owned()))?;
    Ok(Some(text))
}

/// What becomes of an object that selects pools. `E` is why one of its kind is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingOutcome<E> {
    pub name: String,
    /// The annotation with its number; nothing where it has none yet.
    pub suffix: Option<String>,
    /// Names of its MachineConfigs, which are its finalizers.
    pub configs: Vec<String>,
    /// What the message has behind `Success`.
    pub remarks: Vec<String>,
    /// Whether it is followed, or why not.
    pub result: Result<(), E>,
}

/// Conditions of an object that is followed, or of which `refusal` says why it is not.
///
/// Shape: `Accepted` where `accepts`, then the one of older clients last, which read only that:
/// `Success` or `Failure`. Others are dropped. Source: `docs/reference/controller.md`,
/// "KubeletConfig".
pub fn conditions(
    before: &[SettingCondition],
    accepts: bool,
    (refusal, remarks): (Option<&str>, &[String]),
    now: Timestamp,
) -> Vec<SettingCondition> {
    use SettingConditionType::{Accepted, Failure, Success};
    let legacy = if refusal.is_none() { Success } else { Failure };
    let mut kept: Vec<SettingCondition> = before
        .iter()
        .filter(|one| (accepts && one.r#type == Accepted) || one.r#type == legacy)
        .cloned()
        .collect();
    kept.sort_by_key(|one| one.r#type != Accepted);
    let message = match refusal {
        // The first word is what clients know.
        None => [&["Success".to_owned()], remarks].concat().join("; "),
        Some(why) => format!("Error: {why}"),
    };
    for r#type in accepts.then_some(Accepted).into_iter().chain([legacy]) {
        condition::set(
            &mut kept,
            SettingCondition {
                r#type,
                status: ConditionStatus::from(refusal.is_none()),
                last_transition_time: Some(Time(now)),
                reason: String::new(),
                message: message.clone(),
            },
        );
    }
    kept
}

/// Why a pool waits for an object that selects it: its present form is not in a MachineConfig yet,
/// or is refused.
///
/// Source: `docs/reference/controller.md`, "Rendering order of work".
pub fn wait(
    kind: &str,
    name: &str,
    generation: Option<i64>,
    observed: Option<i64>,
    conditions: &[SettingCondition],
) -> Option<String> {
    if observed.is_none() || observed != generation {
        let number = |generation: Option<i64>| generation.unwrap_or_default();
        return Some(format!(
            "status for {kind} {name} is being reported for {}, expecting it for {}",
            number(observed),
            number(generation)
        ));
    }
    let last = conditions.last();
    let is_good = last.is_some_and(|last| {
        let is_known = [
            SettingConditionType::Accepted,
            SettingConditionType::Success,
        ]
        .contains(&last.r#type);
        is_known && last.status == ConditionStatus::True
    });
    if is_good {
        return None;
    }
    let why = last.map_or("it has no condition", |last| last.message.as_str());
    Some(format!("{kind} {name} has not completed: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn read(conditions: &[SettingCondition]) -> Vec<(String, bool, String, String)> {
        let time = |condition: &SettingCondition| {
            let time = condition.last_transition_time.as_ref();
            time.map(|time| time.0.to_string()).unwrap_or_default()
        };
        conditions
            .iter()
            .map(|condition| {
                (
                    condition.r#type.to_string(),
                    condition.status == ConditionStatus::True,
                    condition.message.clone(),
                    time(condition),
                )
            })
            .collect()
    }

    fn expected(list: &[(&str, bool, &str, &str)]) -> Vec<(String, bool, String, String)> {
        let owned = |(r#type, holds, message, time): &(&str, bool, &str, &str)| {
            (
                (*r#type).to_owned(),
                *holds,
                (*message).to_owned(),
                (*time).to_owned(),
            )
        };
        list.iter().map(owned).collect()
    }

    #[test]
    fn the_condition_of_older_clients_comes_last_and_times_move_with_the_status() {
        let (first, second) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let good = conditions(&[], true, (None, &[]), at(first));
        assert_eq!(
            read(&good),
            expected(&[
                ("Accepted", true, "Success", first),
                ("Success", true, "Success", first)
            ])
        );
        let remarks = ["one".to_owned(), "two".to_owned()];
        let remarked = conditions(&good, true, (None, &remarks), at(second));
        assert_eq!(remarked[0].message, "Success; one; two");
        assert_eq!(
            remarked[0].last_transition_time,
            good[0].last_transition_time
        );
        let again = conditions(&good, true, (None, &[]), at(second));
        assert_eq!(again, good);
        let bad = conditions(&good, true, (Some("no"), &[]), at(second));
        let failed = [
            ("Accepted", false, "Error: no", second),
            ("Failure", false, "Error: no", second),
        ];
        assert_eq!(read(&bad), expected(&failed));
        let runtime = conditions(&[], false, (Some("no"), &[]), at(second));
        assert_eq!(read(&runtime), expected(&failed[1..]));
    }

    #[test]
    fn a_pool_waits_until_the_present_form_is_accepted() {
        let good = conditions(&[], true, (None, &[]), at("2026-01-01T00:00:00Z"));
        let bad = conditions(&[], true, (Some("no"), &[]), at("2026-01-01T00:00:00Z"));
        let wait = |generation, observed, conditions: &[SettingCondition]| {
            super::wait(
                "KubeletConfig",
                "pods",
                Some(generation),
                observed,
                conditions,
            )
        };
        assert_eq!(
            wait(2, Some(1), &good).as_deref(),
            Some("status for KubeletConfig pods is being reported for 1, expecting it for 2")
        );
        assert_eq!(
            wait(1, None, &[]).as_deref(),
            Some("status for KubeletConfig pods is being reported for 0, expecting it for 1")
        );
        assert_eq!(
            wait(1, Some(1), &bad).as_deref(),
            Some("KubeletConfig pods has not completed: Error: no")
        );
        assert_eq!(wait(1, Some(1), &good), None);
        assert_eq!(wait(1, Some(1), &good[..1]), None);
    }
}
