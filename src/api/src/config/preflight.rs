//! A preflight of another release: how it is requested on the ClusterVersion, its outcome, and what
//! the release's own machine-config controller is given and answers.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Release;

/// Annotation of the ClusterVersion that names a release: a version that is offered or was
/// applied, or a pull spec.
pub const PREFLIGHT: &str = "slipway.dev/preflight";

/// Annotation with the outcome, as [`PreflightRecord`] in JSON.
pub const PREFLIGHT_RESULT: &str = "slipway.dev/preflight-result";

/// Failures that are named; the others are counted. All annotations of an object together have at
/// most 256 KiB.
const FAILURES: usize = 100;

/// Characters of a failure.
const FAILURE_CHARS: usize = 400;

/// How far a preflight is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreflightState {
    /// It is under way.
    Running,
    /// Nothing was found.
    Passed,
    /// The failures are all that was found.
    Failed,
}

/// The outcome of a preflight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreflightRecord {
    /// The annotation that it answers.
    pub request: String,
    /// Version of the release, once it is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Pull spec of the release.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// How far it is.
    pub state: PreflightState,
    /// When that was.
    pub at: Timestamp,
    /// Manifests that the API server has checked.
    #[serde(default)]
    pub checked: usize,
    /// Pools that the release's controller has rendered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<RenderedPool>,
    /// Why the release would not be applied, in the order of its manifests.
    #[serde(default)]
    pub failures: Vec<String>,
    /// Failures that are not named.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_failures: usize,
    /// What cannot be known before the release is applied.
    #[serde(default)]
    pub not_checked: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PreflightFindings {
    /// Manifests that the API server has checked.
    pub checked: usize,
    /// Pools that the release's controller has rendered.
    pub pools: Vec<RenderedPool>,
    /// Why the release would not be applied.
    pub failures: Vec<String>,
    /// What cannot be known before the release is applied.
    pub not_checked: Vec<String>,
}

impl PreflightRecord {
    /// A preflight that begins.
    pub fn begin(request: &str, release: &Release, at: Timestamp) -> Self {
        Self {
            request: request.to_owned(),
            version: release.version.clone(),
            image: release.image.clone(),
            state: PreflightState::Running,
            at,
            checked: 0,
            pools: Vec::new(),
            failures: Vec::new(),
            more_failures: 0,
            not_checked: Vec::new(),
        }
    }

    /// The same at its end.
    #[must_use]
    pub fn end(self, findings: PreflightFindings, at: Timestamp) -> Self {
        let is_passed = findings.failures.is_empty();
        let (failures, more_failures) = bounded(findings.failures);
        let (mut not_checked, more) = bounded(findings.not_checked);
        if more > 0 {
            not_checked.push(format!("and {more} more"));
        }
        Self {
            state: if is_passed {
                PreflightState::Passed
            } else {
                PreflightState::Failed
            },
            at,
            checked: findings.checked,
            pools: findings.pools.into_iter().take(FAILURES).collect(),
            failures,
            more_failures,
            not_checked,
            ..self
        }
    }
}

fn bounded(texts: Vec<String>) -> (Vec<String>, usize) {
    let more = texts.len().saturating_sub(FAILURES);
    let cut = |text: String| text.chars().take(FAILURE_CHARS).collect();
    (texts.into_iter().take(FAILURES).map(cut).collect(), more)
}

/// Prefix of the variables in which `mcc render` finds a [`NextRelease`]; a number follows, from 0.
/// One variable has at most 128 KiB, so that a release may take several.
pub const RELEASE_VARIABLE: &str = "SLIPWAY_NEXT_RELEASE_";

/// Bytes of the text in one variable: Linux takes 128 KiB with its name.
const VARIABLE_BYTES: usize = 96 << 10;

/// Bytes of a release in variables: the Job with them must fit into the API server's store.
pub const MAX_RELEASE_BYTES: usize = 1 << 20;

/// Bytes of the outcome: a container's last message has 4096.
const OUTCOME_BYTES: usize = 4000;

/// Characters of a pool's failure, the most that still fit.
const POOL_FAILURE_CHARS: [usize; 6] = [1200, 600, 300, 150, 80, 0];

/// Why there is no [`NextRelease`] in the environment.
#[derive(Debug, thiserror::Error)]
pub enum VariableError {
    /// The first variable is missing.
    #[error("variable {RELEASE_VARIABLE}0 is not set")]
    Missing,
    /// Together they are no release.
    #[error("variables {RELEASE_VARIABLE}0 and on")]
    Read(#[source] serde_json::Error),
}

/// What a release changes of what pools are rendered from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NextRelease {
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// Its MachineConfigs and pools as the cluster would have them, and the `ConfigMap`s that name
    /// its images.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// MachineConfigs that it deletes.
    #[serde(default)]
    pub deleted: Vec<String>,
}

impl NextRelease {
    /// The texts of the variables, in their order. None if it is larger than
    /// [`MAX_RELEASE_BYTES`].
    pub fn to_variables(&self) -> Option<Vec<String>> {
        // It always serializes. The kubelet replaces `$(NAME)` and `$$` in variables; in JSON the
        // character is only ever part of a text.
        let text = serde_json::to_string(self).unwrap_or_default();
        let text = text.replace('$', "\\u0024");
        if text.len() > MAX_RELEASE_BYTES {
            return None;
        }
        let mut rest = text.as_str();
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (part, left) = rest.split_at(rest.floor_char_boundary(VARIABLE_BYTES));
            parts.push(part.to_owned());
            rest = left;
        }
        Some(parts)
    }

    /// Reads them back; `variable` yields one by its name.
    ///
    /// # Errors
    /// [`VariableError`].
    pub fn of_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, VariableError> {
        let names = (0..).map(|number: usize| format!("{RELEASE_VARIABLE}{number}"));
        let text: String = names.map_while(|name| variable(&name)).collect();
        if text.is_empty() {
            return Err(VariableError::Missing);
        }
        serde_json::from_str(&text).map_err(VariableError::Read)
    }
}

/// A pool as the release's controller renders it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderedPool {
    /// Its name.
    pub pool: String,
    /// Name of the configuration.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config: String,
    /// Why there is none, with the MachineConfig and the field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure: String,
    /// The MachineConfig that holds it, for a node to rehearse.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stored: String,
    /// Why no node rehearses it, though it is another one than the pool has.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub not_rehearsed: String,
    /// The node that has fetched and rehearsed it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

/// What `mcc render` says at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderedPools {
    /// The pools; those that fail first.
    #[serde(default)]
    pub pools: Vec<RenderedPool>,
    /// Pools that are not in it, for want of room.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: usize,
}

impl RenderedPools {
    /// The outcome in a container's last message: failures are cut before pools are left out.
    pub fn to_message(mut pools: Vec<RenderedPool>) -> String {
        pools.sort_by_key(|pool| pool.failure.is_empty());
        let mut outcome = Self { pools, omitted: 0 };
        let text = |outcome: &Self| serde_json::to_string(outcome).unwrap_or_default();
        for chars in POOL_FAILURE_CHARS {
            for pool in &mut outcome.pools {
                if pool.failure.chars().count() > chars {
                    pool.failure = pool.failure.chars().take(chars).chain(['…']).collect();
                }
            }
            if text(&outcome).len() <= OUTCOME_BYTES {
                return text(&outcome);
            }
        }
        while text(&outcome).len() > OUTCOME_BYTES && outcome.pools.pop().is_some() {
            outcome.omitted += 1;
        }
        text(&outcome)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_outcome_fits_into_an_annotation() {
        let many = || vec!["x".repeat(2000); 300];
        let findings = PreflightFindings {
            checked: 7,
            pools: Vec::new(),
            failures: many(),
            not_checked: many(),
        };
        let began = PreflightRecord::begin("4.2.0", &Release::default(), Timestamp::UNIX_EPOCH);
        let ended = began.clone().end(findings, Timestamp::UNIX_EPOCH);
        assert_eq!(ended.state, PreflightState::Failed);
        assert_eq!((ended.failures.len(), ended.more_failures), (100, 200));
        let text = serde_json::to_string(&ended).unwrap();
        assert!(text.len() < 100 << 10, "{}", text.len());
        assert_eq!(
            serde_json::from_str::<PreflightRecord>(&text).unwrap(),
            ended
        );
        let passed = began.end(PreflightFindings::default(), Timestamp::UNIX_EPOCH);
        assert_eq!(passed.state, PreflightState::Passed);
    }
    #[test]
    fn a_release_in_variables_is_read_back() {
        let contents = "$(HOME) $$ ü".repeat(20_000);
        let next = NextRelease {
            version: "4.2.0".to_owned(),
            objects: vec![json!({ "kind": "MachineConfig", "spec": { "contents": contents } })],
            deleted: vec!["98-old".to_owned()],
        };
        let parts = next.to_variables().unwrap();
        assert!(parts.len() > 1);
        assert!(
            parts
                .iter()
                .all(|part| part.len() <= VARIABLE_BYTES && !part.contains('$'))
        );
        let variable = |name: &str| {
            let number = name.strip_prefix(RELEASE_VARIABLE)?;
            parts.get(number.parse::<usize>().ok()?).cloned()
        };
        assert_eq!(NextRelease::of_variables(variable).unwrap(), next);
        let error = NextRelease::of_variables(|_| None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "variable SLIPWAY_NEXT_RELEASE_0 is not set"
        );
        let error = NextRelease::of_variables(|name| name.ends_with('0').then(|| "{".to_owned()));
        let error = error.unwrap_err().to_string();
        assert_eq!(error, "variables SLIPWAY_NEXT_RELEASE_0 and on");
        let large = json!("x".repeat(MAX_RELEASE_BYTES));
        let objects = vec![large];
        let next = NextRelease {
            objects,
            ..NextRelease::default()
        };
        assert_eq!(next.to_variables(), None);
    }

    #[test]
    fn an_outcome_fits_into_the_last_message_of_a_container() {
        let rendered = |number: usize| RenderedPool {
            pool: format!("pool-{number}"),
            config: format!("rendered-pool-{number}-0123456789abcdef0123456789abcdef"),
            ..RenderedPool::default()
        };
        let failed = |failure: String| RenderedPool {
            pool: "infra".to_owned(),
            failure,
            ..RenderedPool::default()
        };
        for (count, failures, is_whole) in [(3, 1, true), (3, 9, true), (200, 9, false)] {
            let mut pools: Vec<_> = (0..count).map(rendered).collect();
            pools.extend((0..failures).map(|_| failed("ü".repeat(3000))));
            let text = RenderedPools::to_message(pools);
            assert!(text.len() <= OUTCOME_BYTES, "{}", text.len());
            let outcome: RenderedPools = serde_json::from_str(&text).unwrap();
            assert_eq!(outcome.omitted == 0, is_whole);
            assert_eq!(outcome.pools.len() + outcome.omitted, count + failures);
            let named = outcome.pools.iter().filter(|pool| !pool.failure.is_empty());
            assert_eq!(named.count(), failures, "failures come before the rest");
        }
        let short = RenderedPools::to_message(vec![failed("spec.fips: no".to_owned())]);
        assert_eq!(
            short,
            r#"{"pools":[{"pool":"infra","failure":"spec.fips: no"}]}"#
        );
    }
}
