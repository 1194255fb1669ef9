//! An upgrade that waits: it is validated, and started when its time has come.

use chassis::report::Chain;
use jiff::SignedDuration;
use release::Version;
use release::update_graph::{DEFAULT_SERVICE, UpdateGraph};
use web::update_service::{self, GraphRequest};

use super::errors::{GraphError, ValidationError};
use super::{Error, Pass, UpgradeOperator};
use crate::architecture::ARCHITECTURE;
use crate::monitoring;
use upgrade_plan::health;
use upgrade_plan::notice::NoticeState;
use upgrade_plan::phase::{self, PhaseEvent};
use upgrade_plan::schedule;
use upgrade_plan::validation;

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
                    let error = Chain(&error).to_string();
                    tracing::warn!(error, "cannot announce what the check in advance found");
                }
            }
        }
        pass.entry.phase = phase::next(Some(&pass.entry.phase), PhaseEvent::Checked)?;
        Ok(())
    }
}

/// Whether the update service offers a version to another in the desired channel.
pub(super) async fn check_offered(
    pass: &Pass,
    current: &Version,
    desired: &Version,
) -> Result<(), ValidationError> {
    let graph = graph(pass, current).await?;
    let offers = graph.offers(current);
    let offers = offers.ok_or_else(|| GraphError::Unknown(current.clone()))?;
    Ok(validation::in_graph(desired, &offers)?)
}

/// What the update service offers to a version in the desired channel.
async fn graph(pass: &Pass, current: &Version) -> Result<UpdateGraph, GraphError> {
    let url = graph_url(pass, &current.to_string())?;
    let client = monitoring::plain_client()?;
    let response = update_service::graph(&client, &url).await?;
    if !response.status.is_success() {
        let (status, text) = (response.status, String::new());
        return Err(web::Error::Status { url, status, text }.into());
    }
    Ok(UpdateGraph::parse_for(&response.body, current)?)
}

/// The address of the desired channel at the update service.
fn graph_url(pass: &Pass, current: &str) -> Result<String, GraphError> {
    let spec = &pass.version.spec;
    let groups: Vec<usize> = spec.cluster_id.split('-').map(str::len).collect();
    let is_hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    if groups != [8, 4, 4, 4, 12] || !spec.cluster_id.chars().all(is_hex) {
        return Err(GraphError::ClusterId(spec.cluster_id.clone()));
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
    Ok(request.url()?)
}
