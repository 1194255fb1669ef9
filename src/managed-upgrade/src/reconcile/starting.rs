//! An upgrade that waits: it is validated, and started when its time has come.

use std::time::Duration;

use api::ConditionStatus;
use api::upgrade::UpgradeConfig;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use operator::Next;
use release::Version;
use release::update_graph::{DEFAULT_SERVICE, UpdateGraph};
use web::update_service::{self, GraphRequest};

use super::sync::Refreshed;
use super::{Error, POLL, Pass, UpgradeOperator, VALID, image};
use crate::architecture::ARCHITECTURE;
use crate::fleet_client::retry_policy;
use crate::monitoring;
use upgrade_plan::health;
use upgrade_plan::notice::NoticeState;
use upgrade_plan::phase::{self, PhaseEvent};
use upgrade_plan::schedule::{self, StartDecision};
use upgrade_plan::series;
use upgrade_plan::validation::{self, ConfigVerdict, InvalidUpgrade};

/// How often the time of an upgrade is compared with the clock, which may be set.
const CLOCK: SignedDuration = SignedDuration::from_mins(10);

/// An advance health check is made so long before the start, or longer.
const ADVANCE: SignedDuration = SignedDuration::from_mins(120);

impl UpgradeOperator {
    /// New: what may hold the upgrade is announced long before its start.
    pub(super) async fn check_in_advance(&self, pass: &mut Pass) -> Result<(), Error> {
        let start = schedule::parse_start(&pass.upgrade.spec.upgrade_at);
        let is_far = start.is_ok_and(|start| start.duration_since(pass.now) > ADVANCE);
        if is_far && pass.config.has_all_health_checks {
            let findings = self.findings(pass).await;
            if !findings.is_empty() {
                let why = health::announcement(&findings);
                // Another try would come too late to be in advance: it is logged, and goes on.
                if let Err(error) = self.announce(pass, NoticeState::PreHealthCheck, &why).await {
                    tracing::warn!(error, "cannot announce what the check in advance found");
                }
            }
        }
        pass.entry.phase = phase::next(Some(&pass.entry.phase), PhaseEvent::Checked)?;
        Ok(())
    }

    /// Pending: validated, and started when the time has come. None: the next phase has begun.
    pub(super) async fn pending(&self, pass: &mut Pass) -> Result<Option<Next>, Error> {
        let start = schedule::parse_start(&pass.upgrade.spec.upgrade_at);
        let decision = start.map(|start| {
            let config = &pass.config;
            schedule::decide(start, config.window, &config.windows, pass.now)
        });
        let is_due = !matches!(decision, Ok(StartDecision::Wait(_)));
        let verdict = if let Ok(StartDecision::Stale(why)) = &decision {
            Err(why.clone())
        } else {
            let verdict = self.validate(pass, is_due).await;
            verdict.map_err(|invalid| invalid.to_string())
        };
        self.metrics.set(
            series::VALIDATION_FAILED,
            &[],
            f64::from(u8::from(verdict.is_err())),
        );
        if let Ok(Some(version)) = &verdict
            && self.adopt_version(pass, version).await?
        {
            return Ok(Some(Next::After(Duration::from_secs(1))));
        }
        if let Err(why) = verdict {
            let is_new = pass
                .entry
                .condition(VALID)
                .is_none_or(|known| known.message != why);
            pass.note(VALID, false, "Invalid", &why);
            if is_new {
                tracing::warn!(reason = why, "the UpgradeConfig is not followed");
            }
            // ClusterVersion and the UpgradeConfig are watched; a server is asked again.
            let poll = Duration::from_mins(1);
            let asks_registry = !pass.upgrade.spec.desired.image.is_empty();
            return Ok(Some(if is_due || asks_registry {
                Next::After(poll)
            } else {
                Next::Settled
            }));
        }
        let said = validation::valid_message(&pass.upgrade.spec.desired);
        pass.note(VALID, true, "Valid", &said);
        if let Ok(StartDecision::Wait(left)) = decision {
            let wait = left.min(CLOCK).saturating_add(SignedDuration::from_secs(1));
            let wait = Duration::try_from(wait).unwrap_or(POLL);
            return Ok(Some(Next::After(wait)));
        }
        if let Some(fleet) = pass.config.fleet.clone() {
            // What the source withdrew since it was last read does not start, nor does anything
            // while the source cannot be read.
            match self.refresh(&fleet, retry_policy(fleet.routes)).await {
                Ok(Refreshed::Same) => self.note_source(pass),
                Ok(Refreshed::Doubted) => {
                    self.read_source_again();
                    return Ok(Some(Next::After(POLL)));
                }
                Ok(Refreshed::Changed) => {
                    self.read_source_again();
                    pass.entry.phase = phase::next(Some(&pass.entry.phase), PhaseEvent::Changed)?;
                    return Ok(Some(Next::After(Duration::from_secs(1))));
                }
                Err(_) => {
                    self.note_source(pass);
                    return Ok(Some(Next::Retry));
                }
            }
        }
        // What the watch has not delivered yet counts too: a withdrawal before the start does.
        let latest = self.requests.upgrade().await?;
        let is_same = |latest: &UpgradeConfig| {
            latest.spec == pass.upgrade.spec
                && latest.metadata.uid == pass.upgrade.metadata.uid
                && latest.metadata.deletion_timestamp.is_none()
        };
        if !latest.as_ref().is_some_and(is_same) {
            tracing::info!("the UpgradeConfig was changed or withdrawn at its start");
            // The watch delivers what it is now.
            pass.entry.phase = phase::next(Some(&pass.entry.phase), PhaseEvent::Changed)?;
            return Ok(Some(Next::After(Duration::from_secs(1))));
        }
        pass.entry.phase = phase::next(Some(&pass.entry.phase), PhaseEvent::Ready)?;
        pass.entry.start_time = Some(Time(pass.now));
        tracing::info!(version = pass.entry.version, "the upgrade starts");
        Ok(None)
    }

    /// Whether the upgrade can be followed. Some: the version that its image says it is.
    async fn validate(&self, pass: &Pass, is_due: bool) -> Result<Option<Version>, InvalidUpgrade> {
        let spec = &pass.upgrade.spec;
        let config = &pass.config;
        let accepted = &config.accepted_risks;
        match validation::judge(spec, &pass.version, accepted, config.verifies_graph)? {
            ConfigVerdict::Valid => Ok(None),
            // The registry is asked when the image is seen, and at the start.
            ConfigVerdict::AskImage { .. } if !is_due && pass.has_read_image() => Ok(None),
            ConfigVerdict::AskImage { current, image } => {
                image::read_version(&image, &current).await.map(Some)
            }
            ConfigVerdict::AskGraph { current, desired } => {
                // The service is asked once when the upgrade is seen, and at the start.
                let known = pass.entry.condition(VALID);
                if !is_due && known.is_some_and(|known| known.status == ConditionStatus::True) {
                    return Ok(None);
                }
                let unknown = |why: String| InvalidUpgrade {
                    field: "spec.desired.version",
                    why: format!("cannot ask the update service: {why}"),
                };
                let said =
                    |error: &dyn std::error::Error| chassis::report::Chain(error).to_string();
                let url = graph_url(pass, &current.to_string()).map_err(unknown)?;
                let client = monitoring::plain_client().map_err(unknown)?;
                let response = update_service::graph(&client, &url).await;
                let response = response.map_err(|error| unknown(said(&error)))?;
                if !response.status.is_success() {
                    return Err(unknown(format!("{url} answers {}", response.status)));
                }
                let graph = UpdateGraph::parse_for(&response.body, &current)
                    .map_err(|error| unknown(said(&error)))?;
                let offers = graph.offers(&current);
                let offers =
                    offers.ok_or_else(|| unknown(format!("it does not know {current}")))?;
                validation::in_graph(&desired, &offers).map(|()| None)
            }
        }
    }
}

/// Where the update service is asked about the desired channel.
fn graph_url(pass: &Pass, current: &str) -> Result<String, String> {
    let spec = &pass.version.spec;
    let groups: Vec<usize> = spec.cluster_id.split('-').map(str::len).collect();
    let is_hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    if groups != [8, 4, 4, 4, 12] || !spec.cluster_id.chars().all(is_hex) {
        return Err(format!(
            "spec.clusterID {:?} of ClusterVersion is no UUID",
            spec.cluster_id
        ));
    }
    let service = if spec.upstream.is_empty() {
        DEFAULT_SERVICE
    } else {
        spec.upstream.as_str()
    };
    let architecture = pass
        .version
        .status
        .as_ref()
        .map(|status| &status.desired.architecture);
    let architecture = match architecture.map(String::as_str) {
        Some("Multi") => "multi",
        _ => ARCHITECTURE,
    };
    let request = GraphRequest {
        service,
        architecture,
        channel: &pass.upgrade.spec.desired.channel,
        cluster: Some((&spec.cluster_id, current)),
    };
    request.url().map_err(|error| error.to_string())
}
