//! Jobs of administrators before and after steps.

use api::upgrade::{UpgradeConfig, upgrade_config};
use serde_json::{Map, Value, json};

use crate::step::StepName;

/// A Job that runs before or after a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Hook {
    /// Its name: part of the Job's.
    pub name: String,
    pub step: StepName,
    pub when: HookTime,
    /// Spec of the Job, as the API server takes it.
    pub job: Map<String, Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookTime {
    /// Before the step. The step waits for it.
    Before,
    /// After the step. The next one waits for it.
    After,
}

/// How far a hook's Job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookState {
    Done,
    Running,
    /// It has failed, or is another upgrade's, and why.
    Failed(String),
}

/// Longest name of a hook: with prefix and version the Job's name stays a DNS label.
const NAME: usize = 24;

/// A Job that removes itself stays for at least so many seconds: its end has to be seen.
const LEAST_TTL_SECS: i64 = 600;

impl Hook {
    /// Checks name and spec.
    ///
    /// # Errors
    /// The key and what is wrong with it.
    pub(crate) fn check(
        name: &str,
        job: &Map<String, Value>,
    ) -> Result<(), (&'static str, String)> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let is_label = name.len() <= NAME && name.bytes().all(allowed);
        if !is_label || name.is_empty() || name.starts_with('-') || name.ends_with('-') {
            let why = format!("{name:?} is no DNS label of at most {NAME} characters");
            return Err(("name", why));
        }
        if !job.get("template").is_some_and(Value::is_object) {
            return Err(("job", "the Job's spec has no template".to_owned()));
        }
        if let Some(secs) = job.get("ttlSecondsAfterFinished").and_then(Value::as_i64)
            && secs < LEAST_TTL_SECS
        {
            let why = format!(
                "ttlSecondsAfterFinished {secs} is below {LEAST_TTL_SECS}: the end of the Job \
                 could be missed"
            );
            return Err(("job", why));
        }
        Ok(())
    }

    /// Name of the Job for the upgrade to a version.
    pub fn job_name(&self, version: &str) -> String {
        let letters = version.chars().map(|c| match c {
            'a'..='z' | '0'..='9' => c,
            'A'..='Z' => c.to_ascii_lowercase(),
            _ => '-',
        });
        let version: String = letters.take(30).collect();
        format!("upgrade-{version}-{}", self.name)
    }

    /// Type of the condition that says that its Job has succeeded, which may be gone since.
    pub fn condition(&self) -> String {
        format!("Hook-{}", self.name)
    }

    /// The Job for an upgrade. It goes with the UpgradeConfig.
    pub fn to_job(&self, upgrade: &UpgradeConfig, version: &str) -> Value {
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": self.job_name(version),
                "labels": { "slipway.dev/upgrade-hook": self.name },
                "ownerReferences": [{
                    "apiVersion": "upgrade.managed.openshift.io/v1alpha1",
                    "kind": "UpgradeConfig",
                    "name": upgrade_config::NAME,
                    "uid": upgrade.metadata.uid,
                }],
            },
            "spec": self.job,
        })
    }

    /// How far the Job is.
    pub fn state(&self, job: &Value, upgrade: &UpgradeConfig) -> HookState {
        let name = job.pointer("/metadata/name").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        let owner = job
            .pointer("/metadata/ownerReferences/0/uid")
            .and_then(Value::as_str);
        if owner != upgrade.metadata.uid.as_deref() {
            let why = format!("Job {name} belongs to another UpgradeConfig");
            return HookState::Failed(why);
        }
        let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
        let find = |r#type: &str| {
            let mut conditions = conditions.into_iter().flatten();
            let text = |condition: &Value, key: &str| {
                condition
                    .get(key)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let found =
                conditions.find(|one| text(one, "type") == r#type && text(one, "status") == "True");
            found.map(|one| text(one, "message"))
        };
        if find("Complete").is_some() {
            return HookState::Done;
        }
        match find("Failed") {
            Some(why) => HookState::Failed(format!(
                "Job {name} failed: {why}; it is created again once it is deleted"
            )),
            None => HookState::Running,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::spec;

    fn hook() -> Hook {
        let job = json!({ "template": { "spec": { "restartPolicy": "Never" } } });
        Hook {
            name: "backup".to_owned(),
            step: StepName::CommenceUpgrade,
            when: HookTime::Before,
            job: job.as_object().cloned().unwrap(),
        }
    }

    fn upgrade() -> UpgradeConfig {
        let mut upgrade = UpgradeConfig::new(upgrade_config::NAME, spec());
        upgrade.metadata.uid = Some("u".to_owned());
        upgrade
    }

    #[test]
    fn job_bears_version_and_hook_and_goes_with_the_upgrade_config() {
        let job = hook().to_job(&upgrade(), "4.17.0-rc.1+AMD64");
        assert_eq!(
            job["metadata"]["name"],
            json!("upgrade-4-17-0-rc-1-amd64-backup")
        );
        assert_eq!(job["metadata"]["ownerReferences"][0]["uid"], json!("u"));
        assert_eq!(job["spec"], json!(hook().job));
    }

    #[test]
    fn job_that_removes_itself_stays_until_its_end_was_seen() {
        let check = |ttl: Value| {
            let job = json!({ "template": {}, "ttlSecondsAfterFinished": ttl });
            Hook::check("backup", job.as_object().unwrap())
        };
        assert_eq!(check(json!(600)), Ok(()));
        assert_eq!(check(Value::Null), Ok(()));
        let why = "ttlSecondsAfterFinished 0 is below 600: the end of the Job could be missed";
        assert_eq!(check(json!(0)), Err(("job", why.to_owned())));
    }

    #[test]
    fn job_is_done_running_failed_or_foreign() {
        let mut job = hook().to_job(&upgrade(), "4.16.4");
        assert_eq!(hook().state(&job, &upgrade()), HookState::Running);
        let condition = |r#type: &str, status: &str| json!({ "conditions": [{ "type": r#type, "status": status, "message": "m" }] });
        job["status"] = condition("Complete", "False");
        assert_eq!(hook().state(&job, &upgrade()), HookState::Running);
        job["status"] = condition("Complete", "True");
        assert_eq!(hook().state(&job, &upgrade()), HookState::Done);
        job["status"] = condition("Failed", "True");
        let why = "Job upgrade-4-16-4-backup failed: m; it is created again once it is deleted";
        assert_eq!(
            hook().state(&job, &upgrade()),
            HookState::Failed(why.to_owned())
        );
        let mut other = upgrade();
        other.metadata.uid = Some("v".to_owned());
        assert!(matches!(hook().state(&job, &other), HookState::Failed(_)));
    }
}
