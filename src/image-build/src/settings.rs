//! Time limit, resources and nodes of a pool's builds.

use std::collections::BTreeMap;

use api::IntOrString;
use api::quantity;
use api::rollout::{ImageBuildSpec, RolloutPolicy};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::refusal::BuildRefusal;

/// How long a build may take where nothing is set.
const TIMEOUT: SignedDuration = SignedDuration::from_hours(1);

/// Least time of a build: a pull of the base image alone takes minutes.
const SHORTEST: SignedDuration = SignedDuration::from_mins(1);

/// What the pod requests where nothing is set: storage for the base image, the build and its layer.
const REQUESTS: [(&str, &str); 3] = [
    ("cpu", "500m"),
    ("memory", "1Gi"),
    ("ephemeral-storage", "10Gi"),
];

/// How a pool's image is built.
///
/// Source: `docs/reference/rollout-policy.md`, `spec.imageBuild`.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildSettings {
    /// How long a build may take, all its tries together.
    pub timeout: SignedDuration,
    /// `resources` of the container.
    pub resources: Value,
    /// Labels of nodes, beside operating system and architecture.
    pub node_selector: BTreeMap<String, String>,
    /// `tolerations` of the pod.
    pub tolerations: Vec<Value>,
}

impl BuildSettings {
    /// Reads those of a pool's policy; without one, the defaults.
    ///
    /// # Errors
    /// The first field whose value cannot be followed.
    pub fn read(policy: Option<&RolloutPolicy>) -> Result<Self, BuildRefusal> {
        let Some(policy) = policy else {
            return Self::parse("", &ImageBuildSpec::default());
        };
        let name = policy.metadata.name.as_deref().unwrap_or_default();
        let default = ImageBuildSpec::default();
        let spec = policy.spec.image_build.as_ref().unwrap_or(&default);
        Self::parse(&format!("RolloutPolicy {name}"), spec)
    }

    fn parse(object: &str, spec: &ImageBuildSpec) -> Result<Self, BuildRefusal> {
        let refuse = |field: &str, why: String| {
            BuildRefusal::new(&object, &format!("spec.imageBuild.{field}"), why)
        };
        let timeout = match spec.timeout.as_deref() {
            None => TIMEOUT,
            Some(text) => timeout(text).map_err(|why| refuse("timeout", why))?,
        };
        let resources = spec.resources.clone().unwrap_or_default();
        let mut requests: BTreeMap<String, String> = REQUESTS
            .iter()
            .map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned()))
            .collect();
        requests.extend(
            amounts(&resources.requests)
                .map_err(|(name, why)| refuse(&format!("resources.requests.{name}"), why))?,
        );
        let limits = amounts(&resources.limits)
            .map_err(|(name, why)| refuse(&format!("resources.limits.{name}"), why))?;
        let mut tolerations = Vec::new();
        for (toleration, place) in spec.tolerations.iter().zip(0_usize..) {
            let field = |member: &str| format!("tolerations[{place}].{member}");
            check_toleration(toleration).map_err(|(member, why)| refuse(&field(member), why))?;
            let value = serde_json::to_value(toleration)
                .map_err(|error| refuse(&field("key"), error.to_string()))?;
            tolerations.push(value);
        }
        if let Some(empty) = spec.node_selector.keys().find(|key| key.is_empty()) {
            return Err(refuse("nodeSelector", format!("{empty:?} is no label")));
        }
        let mut both = json!({ "requests": requests });
        if let Some(both) = both.as_object_mut().filter(|_| !limits.is_empty()) {
            both.insert("limits".to_owned(), json!(limits));
        }
        Ok(Self {
            timeout,
            resources: both,
            node_selector: spec.node_selector.clone(),
            tolerations,
        })
    }
}

fn timeout(text: &str) -> Result<SignedDuration, String> {
    let parsed: Option<SignedDuration> = text.parse().ok();
    let duration = parsed.ok_or_else(|| format!("{text:?} is no duration such as 45m or 1h30m"))?;
    if duration < SHORTEST {
        return Err(format!("{text:?} is less than 1m"));
    }
    Ok(duration)
}

/// Amounts of resources; else the resource whose amount is none, and why.
fn amounts(
    written: &BTreeMap<String, IntOrString>,
) -> Result<BTreeMap<String, String>, (String, String)> {
    let amounts = written.iter().map(|(name, amount)| {
        let text = match amount {
            IntOrString::Int(number) => number.to_string(),
            IntOrString::String(text) => text.clone(),
        };
        if name.is_empty() || !quantity::is_amount(&text) {
            return Err((
                name.clone(),
                format!("{text:?} is no amount such as 500m or 2Gi"),
            ));
        }
        Ok((name.clone(), text))
    });
    amounts.collect()
}

/// What the API server would refuse in the Job, with the member's name.
fn check_toleration(
    toleration: &k8s_openapi::api::core::v1::Toleration,
) -> Result<(), (&'static str, String)> {
    let operator = toleration.operator.as_deref().unwrap_or("Equal");
    let key = toleration.key.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    if !["Equal", "Exists"].contains(&operator) {
        return Err((
            "operator",
            format!("{operator:?} is neither Equal nor Exists"),
        ));
    }
    if key.is_empty() && operator == "Equal" {
        return Err((
            "key",
            "it is empty, which only operator Exists allows".to_owned(),
        ));
    }
    if operator == "Exists"
        && toleration
            .value
            .as_deref()
            .is_some_and(|value| !value.is_empty())
    {
        return Err(("value", "it is set beside operator Exists".to_owned()));
    }
    if !["", "NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        let why = format!("{effect:?} is none of NoSchedule, PreferNoSchedule and NoExecute");
        return Err(("effect", why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(image_build: &Value) -> RolloutPolicy {
        serde_json::from_value(json!({
            "apiVersion": "slipway.dev/v1alpha1", "kind": "RolloutPolicy",
            "metadata": { "name": "worker" }, "spec": { "imageBuild": image_build },
        }))
        .unwrap()
    }

    fn read(image_build: &Value) -> Result<BuildSettings, String> {
        BuildSettings::read(Some(&policy(image_build))).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn what_is_absent_has_its_default() {
        let default = BuildSettings::read(None).unwrap();
        assert_eq!(default, read(&Value::Null).unwrap());
        assert_eq!(default.timeout, SignedDuration::from_hours(1));
        assert_eq!(
            default.resources,
            json!({ "requests": { "cpu": "500m", "memory": "1Gi", "ephemeral-storage": "10Gi" } })
        );
        let set = read(&json!({
            "timeout": "45m",
            "resources": { "requests": { "memory": "2Gi", "cpu": 2 }, "limits": { "memory": "4Gi" } },
            "nodeSelector": { "build": "" },
            "tolerations": [{ "key": "build", "operator": "Exists" }],
        }))
        .unwrap();
        assert_eq!(set.timeout, SignedDuration::from_mins(45));
        assert_eq!(
            set.resources,
            json!({
                "requests": { "cpu": "2", "memory": "2Gi", "ephemeral-storage": "10Gi" },
                "limits": { "memory": "4Gi" },
            })
        );
        assert_eq!(set.node_selector.get("build").map(String::as_str), Some(""));
        assert_eq!(
            set.tolerations,
            [json!({ "key": "build", "operator": "Exists" })]
        );
    }

    #[test]
    fn what_cannot_be_followed_is_named() {
        let at = "RolloutPolicy worker: spec.imageBuild.";
        for (spec, why) in [
            (
                json!({ "timeout": "soon" }),
                "timeout: \"soon\" is no duration such as 45m or 1h30m",
            ),
            (
                json!({ "timeout": "30s" }),
                "timeout: \"30s\" is less than 1m",
            ),
            (
                json!({ "timeout": "-1h" }),
                "timeout: \"-1h\" is less than 1m",
            ),
            (
                json!({ "resources": { "requests": { "memory": "much" } } }),
                "resources.requests.memory: \"much\" is no amount such as 500m or 2Gi",
            ),
            (
                json!({ "resources": { "limits": { "cpu": -1 } } }),
                "resources.limits.cpu: \"-1\" is no amount such as 500m or 2Gi",
            ),
            (
                json!({ "tolerations": [{ "operator": "Exists" }, { "operator": "In" }] }),
                "tolerations[1].operator: \"In\" is neither Equal nor Exists",
            ),
            (
                json!({ "tolerations": [{ "value": "x" }] }),
                "tolerations[0].key: it is empty, which only operator Exists allows",
            ),
            (
                json!({ "tolerations": [{ "key": "a", "operator": "Exists", "value": "x" }] }),
                "tolerations[0].value: it is set beside operator Exists",
            ),
            (
                json!({ "tolerations": [{ "key": "a", "effect": "Never" }] }),
                "tolerations[0].effect: \"Never\" is none of NoSchedule, PreferNoSchedule and NoExecute",
            ),
            (
                json!({ "nodeSelector": { "": "x" } }),
                "nodeSelector: \"\" is no label",
            ),
        ] {
            assert_eq!(read(&spec), Err(format!("{at}{why}")));
        }
    }
}
