//! `slipway upgrade preflight`: has the version operator check a release, and shows all that it
//! found.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use api::config::preflight::{PREFLIGHT, PREFLIGHT_RESULT, PreflightRecord, PreflightState};
use release::Version;
use serde_json::json;
use tokio::time::Instant;

use super::arguments::PreflightArgs;
use super::requests::ClusterRequests;
use crate::decide::object::ClusterObject;
use crate::decide::upgrade::request::{ImageRefused, UpgradeDecision, check_image};
use crate::failure::{Ending, Usage};
use crate::kubeconfig::ClusterArgs;
use crate::output::show;

/// Time between two looks at the outcome.
const EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PreflightWish {
    /// The outcome that is there.
    Look,
    /// A check of this version or image.
    Check(String),
    /// Neither request nor outcome.
    Clear,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum PreflightRefused {
    // The sentence has the whole cause: it is no source.
    #[error("--to must be a semantic version: {error}")]
    NoVersion { error: release::version::Error },
    #[error(transparent)]
    Image(#[from] ImageRefused),
    #[error("--to-image must name the image by its digest")]
    NoDigest,
    #[error("only one of --to or --to-image may be provided")]
    VersionAndImage,
    #[error("--clear may not be specified with --to or --to-image")]
    ClearWithTarget,
}

impl PreflightWish {
    /// Reads the options.
    ///
    /// # Errors
    /// The option that cannot be, before the cluster is read.
    pub(super) fn of(arguments: &PreflightArgs) -> Result<Self, PreflightRefused> {
        match (&arguments.to, &arguments.to_image, arguments.clear) {
            (None, None, false) => Ok(Self::Look),
            (None, None, true) => Ok(Self::Clear),
            (Some(to), None, false) => match to.parse::<Version>() {
                Ok(_) => Ok(Self::Check(to.clone())),
                Err(error) => Err(PreflightRefused::NoVersion { error }),
            },
            (None, Some(image), false) => {
                check_image(image)?;
                if !image.contains('@') {
                    return Err(PreflightRefused::NoDigest);
                }
                Ok(Self::Check(image.clone()))
            }
            (Some(_), Some(_), _) => Err(PreflightRefused::VersionAndImage),
            (_, _, true) => Err(PreflightRefused::ClearWithTarget),
        }
    }

    /// What is changed of ClusterVersion. An outcome that is there is removed, so that the same
    /// release is checked again.
    pub(super) fn decide(&self, version: &ClusterObject) -> Option<UpgradeDecision> {
        let present = version.annotation(PREFLIGHT);
        let (request, message) = match self {
            Self::Look => return None,
            Self::Check(request) => (Some(request), format!("Requested preflight of {request}\n")),
            Self::Clear
                if present.is_empty() && version.annotation(PREFLIGHT_RESULT).is_empty() =>
            {
                return Some(UpgradeDecision::nothing(
                    "info: No preflight is requested\n".to_owned(),
                ));
            }
            Self::Clear => (None, "Cleared the preflight\n".to_owned()),
        };
        let annotations = json!({ PREFLIGHT: request, PREFLIGHT_RESULT: null });
        Some(UpgradeDecision {
            patch: Some(json!({ "metadata": { "annotations": annotations } })),
            message,
            warnings: Vec::new(),
        })
    }
}

/// Waits for the outcome of a request and shows it.
///
/// # Errors
/// It is not there in time, or cannot be read.
pub(super) async fn follow(
    access: &ClusterArgs,
    requests: &ClusterRequests,
    request: &str,
    limit: Duration,
) -> anyhow::Result<Ending> {
    let deadline = Instant::now() + limit;
    loop {
        let object = requests.version().await?;
        let found = object.annotation(PREFLIGHT);
        if found != request {
            bail!("the preflight of {request} was replaced: {found:?} is requested now");
        }
        let record = outcome(&object)?;
        if let Some(record) = &record
            && record.request == request
            && record.state != PreflightState::Running
        {
            return shown(access, record);
        }
        if Instant::now() >= deadline {
            let why = if record.is_some() {
                "is still under way"
            } else {
                "has not begun: the version operator waits while another release is requested or \
                 applied"
            };
            let secs = limit.as_secs();
            bail!("the preflight of {request} {why}, after {secs} s");
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Shows the outcome that is there.
///
/// # Errors
/// There is none, or it cannot be read.
pub(super) fn look(access: &ClusterArgs, object: &ClusterObject) -> anyhow::Result<Ending> {
    match outcome(object)? {
        Some(record) => shown(access, &record),
        None if object.annotation(PREFLIGHT).is_empty() => Err(anyhow!(
            "no preflight is requested; --to or --to-image requests one"
        )),
        None => Err(anyhow!(
            "the preflight of {} has not begun",
            object.annotation(PREFLIGHT)
        )),
    }
}

fn outcome(object: &ClusterObject) -> anyhow::Result<Option<PreflightRecord>> {
    let text = object.annotation(PREFLIGHT_RESULT);
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = serde_json::from_str(text);
    parsed.with_context(|| {
        format!("ClusterVersion version: annotation {PREFLIGHT_RESULT} cannot be read")
    })
}

fn shown(access: &ClusterArgs, record: &PreflightRecord) -> anyhow::Result<Ending> {
    show(access.output, record, || text(record))?;
    Ok(if record.state == PreflightState::Failed {
        Ending::NeedsAttention
    } else {
        Ending::Done
    })
}

fn text(record: &PreflightRecord) -> String {
    let count = record.failures.len() + record.more_failures;
    let state = match record.state {
        PreflightState::Running => "under way".to_owned(),
        PreflightState::Passed => "passed".to_owned(),
        PreflightState::Failed if count == 1 => "1 failure".to_owned(),
        PreflightState::Failed => format!("{count} failures"),
    };
    let PreflightRecord { request, at, .. } = record;
    let mut lines = vec![format!("Preflight of {request}: {state}")];
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            lines.push(format!("  {name:<10} {value}"));
        }
    };
    row("Version:", &record.version);
    row("Image:", &record.image);
    row("Since:", &at.to_string());
    let checked = format!("{} accepted by the API server", record.checked);
    row("Manifests:", &checked);
    for pool in &record.pools {
        let rehearsed = if pool.node.is_empty() {
            String::new()
        } else {
            format!(", rehearsed on {}", pool.node)
        };
        let pool = format!("{} renders {}{rehearsed}", pool.pool, pool.config);
        row("Pool:", &pool);
    }
    let mut list = |head: &str, items: &[String], more: usize| {
        if items.is_empty() {
            return;
        }
        lines.extend([String::new(), format!("{head}:")]);
        let indented = |item: &String| format!("  * {}", item.replace('\n', "\n    "));
        lines.extend(items.iter().map(indented));
        if more > 0 {
            lines.push(format!("  * and {more} more"));
        }
    };
    list("Failures", &record.failures, record.more_failures);
    list("Not checked", &record.not_checked, 0);
    lines.push(String::new());
    lines.join("\n")
}

/// Refuses options before the cluster is read.
pub(super) fn wish(arguments: &PreflightArgs) -> anyhow::Result<PreflightWish> {
    Ok(PreflightWish::of(arguments).map_err(Usage::of)?)
}

#[cfg(test)]
mod tests {
    use api::config::preflight::RenderedPool;
    use serde_json::{Value, json};

    use super::*;

    fn arguments(to: Option<&str>, to_image: Option<&str>, clear: bool) -> PreflightArgs {
        PreflightArgs {
            to: to.map(str::to_owned),
            to_image: to_image.map(str::to_owned),
            clear,
            timeout_secs: 1,
        }
    }

    fn object(annotations: &Value) -> ClusterObject {
        ClusterObject(json!({ "metadata": { "annotations": annotations } }))
    }

    #[test]
    fn options_name_one_release_or_none() {
        let image = "quay.example/r@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let check = |text: &str| Ok(PreflightWish::Check(text.to_owned()));
        let failed = |text: &str| Err(text.to_owned());
        for (options, expected) in [
            (arguments(None, None, false), Ok(PreflightWish::Look)),
            (arguments(None, None, true), Ok(PreflightWish::Clear)),
            (arguments(Some("4.2.0"), None, false), check("4.2.0")),
            (arguments(None, Some(image), false), check(image)),
            (
                arguments(Some("4.2.0"), Some(image), false),
                failed("only one of --to or --to-image may be provided"),
            ),
            (
                arguments(Some("4.2.0"), None, true),
                failed("--clear may not be specified with --to or --to-image"),
            ),
            (
                arguments(None, Some("quay.example/r:4"), false),
                failed("--to-image must name the image by its digest"),
            ),
        ] {
            let wish = PreflightWish::of(&options).map_err(|error| error.to_string());
            assert_eq!(wish, expected);
        }
        let error = PreflightWish::of(&arguments(Some("4.x"), None, false)).unwrap_err();
        assert_eq!(
            Usage::of(error).to_string(),
            "--to must be a semantic version: \"4.x\" is no semantic version"
        );
    }

    #[test]
    fn a_request_removes_the_outcome_of_the_one_before() {
        let wish = PreflightWish::Check("4.2.0".to_owned());
        let decision = wish.decide(&object(&json!({}))).unwrap();
        let annotations = json!({ PREFLIGHT: "4.2.0", PREFLIGHT_RESULT: null });
        let patch = json!({ "metadata": { "annotations": annotations } });
        assert_eq!(decision.patch, Some(patch));
        assert_eq!(PreflightWish::Look.decide(&object(&json!({}))), None);
        let clear = PreflightWish::Clear;
        assert_eq!(clear.decide(&object(&json!({}))).unwrap().patch, None);
        for annotation in [PREFLIGHT, PREFLIGHT_RESULT] {
            let decision = clear.decide(&object(&json!({ annotation: "x" }))).unwrap();
            let annotations = json!({ PREFLIGHT: null, PREFLIGHT_RESULT: null });
            let patch = json!({ "metadata": { "annotations": annotations } });
            assert_eq!(decision.patch, Some(patch));
        }
    }

    #[test]
    fn all_failures_are_printed_at_once() {
        let record: PreflightRecord = serde_json::from_value(json!({
            "request": "4.2.0", "version": "4.2.0", "image": "q/r@sha256:1", "state": "Failed",
            "at": "2026-01-02T03:04:05Z", "checked": 7,
            "failures": ["service \"a\": port 70000", "MachineConfigPool infra: spec.fips"],
            "moreFailures": 2, "notChecked": ["nodes: none is rehearsed"]
        }))
        .unwrap();
        let pool = RenderedPool {
            pool: "worker".to_owned(),
            config: "rendered-worker-1".to_owned(),
            node: "w1".to_owned(),
            ..RenderedPool::default()
        };
        let record = PreflightRecord {
            pools: vec![pool],
            ..record
        };
        assert_eq!(
            text(&record),
            "\
Preflight of 4.2.0: 4 failures
  Version:   4.2.0
  Image:     q/r@sha256:1
  Since:     2026-01-02T03:04:05Z
  Manifests: 7 accepted by the API server
  Pool:      worker renders rendered-worker-1, rehearsed on w1

Failures:
  * service \"a\": port 70000
  * MachineConfigPool infra: spec.fips
  * and 2 more

Not checked:
  * nodes: none is rehearsed
"
        );
    }

    #[test]
    fn an_outcome_that_is_not_there_or_unreadable_is_an_error() {
        let access = ClusterArgs {
            kubeconfig: None,
            output: None,
        };
        for (annotations, expected) in [
            (json!({}), "no preflight is requested"),
            (
                json!({ PREFLIGHT: "4.2.0" }),
                "the preflight of 4.2.0 has not begun",
            ),
            (
                json!({ PREFLIGHT_RESULT: "{" }),
                "annotation slipway.dev/preflight-result cannot be read",
            ),
        ] {
            let error = look(&access, &object(&annotations)).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
