//! What the health checks find: questions to other servers, and judgements of what is watched.

use chassis::report::Chain;
use jiff::Timestamp;

use super::errors::CapacityError;
use super::{Pass, UpgradeOperator, running};
use crate::monitoring::{self, validation_metrics};
use upgrade_plan::capacity;
use upgrade_plan::health::{self, HealthFinding, alerts};
use upgrade_plan::node_view::PoolProgress;
use upgrade_plan::series;

impl UpgradeOperator {
    /// All findings. Without the gate `PreHealthCheck` only alerts and operators are checked.
    pub(super) async fn find(&self, pass: &Pass) -> Vec<HealthFinding> {
        let mut findings = Vec::new();
        findings.extend(self.check_alerts(pass).await);
        let operators = self.caches.operators.table();
        let operators = operators
            .values()
            .map(|one| (one.name.as_str(), &one.status));
        findings.extend(health::check_operators(operators));
        if pass.config.has_all_health_checks {
            findings.extend(self.check_capacity(pass).await);
            let (nodes, pools) = (self.caches.nodes.table(), self.caches.pools.table());
            let pools: Vec<&PoolProgress> = pools.values().map(AsRef::as_ref).collect();
            findings.extend(health::check_nodes(
                nodes.values().map(AsRef::as_ref),
                &pools,
            ));
            findings.extend(self.check_budgets().await);
            findings.extend(self.ask_validation().await);
        }
        findings
    }

    /// All findings, also as metrics.
    pub(super) async fn findings(&self, pass: &Pass) -> Vec<HealthFinding> {
        let findings = self.find(pass).await;
        let version = running(&pass.version);
        for reason in HealthFinding::REASONS {
            let is_found = findings.iter().any(|finding| finding.reason() == reason);
            let labels = [
                ("state", pass.entry.phase.as_str()),
                ("version", version.as_str()),
                ("reason", reason),
            ];
            let value = f64::from(u8::from(is_found));
            self.metrics.set(series::HEALTH_FAILED, &labels, value);
        }
        findings
    }

    async fn check_alerts(&self, pass: &Pass) -> Option<HealthFinding> {
        match self.alerts(pass).await {
            Ok(names) if names.is_empty() => None,
            Ok(names) => Some(HealthFinding::CriticalAlerts(names)),
            Err(error) => {
                let why = Chain(&error).to_string();
                Some(HealthFinding::AlertsUnknown(why))
            }
        }
    }

    async fn alerts(&self, pass: &Pass) -> Result<Vec<String>, monitoring::Error> {
        let ask = |query: String| async move {
            let response = self.monitoring.query(&self.requests, &query, pass.now);
            response.await
        };
        let response = ask(alerts::SCRAPED_QUERY.to_owned()).await?;
        alerts::check_scraped(response.status, &response.body)?;
        let response = ask(alerts::alert_query(&pass.config)).await?;
        Ok(alerts::read_alerts(response.status, &response.body)?)
    }

    async fn check_capacity(&self, pass: &Pass) -> Option<HealthFinding> {
        if !pass.upgrade.spec.capacity_reservation {
            return None;
        }
        let error = self.machine_pools(pass).await.err()?;
        let why = Chain(&error).to_string();
        Some(HealthFinding::NoMachinePool(why))
    }

    /// Whether there are MachineSets to copy.
    pub(super) async fn machine_pools(&self, pass: &Pass) -> Result<(), CapacityError> {
        let sets = self.requests.machine_sets().await?;
        capacity::originals(&sets, &pass.config)?;
        Ok(())
    }

    async fn check_budgets(&self) -> Option<HealthFinding> {
        let budgets = match self.requests.budgets().await {
            Ok(budgets) => budgets,
            Err(error) => {
                let why = Chain(&error).to_string();
                return Some(HealthFinding::BudgetsUnknown(why));
            }
        };
        let namespace = |budget: &serde_json::Value| {
            let namespace = budget.pointer("/metadata/namespace");
            namespace
                .and_then(|text| text.as_str())
                .unwrap_or_default()
                .to_owned()
        };
        let blocking = budgets.iter().filter(|budget| {
            health::is_users_namespace(&namespace(budget)) && health::blocks_drains(budget)
        });
        let blocking: Vec<(String, String)> = blocking
            .map(|budget| (namespace(budget), capacity::name(budget).to_owned()))
            .collect();
        (!blocking.is_empty()).then_some(HealthFinding::BlockingBudgets(blocking))
    }

    async fn ask_validation(&self) -> Option<HealthFinding> {
        match validation_metrics(&self.requests).await {
            Ok(text) => {
                let reports = text.is_some_and(|text| health::reports_budgets(&text));
                reports.then_some(HealthFinding::ReportedBudgets)
            }
            Err(error) => {
                let why = Chain(&error).to_string();
                Some(HealthFinding::ValidationUnknown(why))
            }
        }
    }

    /// Publishes whether a paging alert fired during the upgrade, once a process and version.
    pub(super) async fn publish_result(&self, pass: &Pass) -> Result<(), monitoring::Error> {
        let (Some(start), Some(end)) = (&pass.entry.start_time, &pass.entry.complete_time) else {
            return Ok(());
        };
        let version = pass.entry.version.as_str();
        if self.metrics.has(series::RESULT, ("version", version)) {
            return Ok(());
        }
        let query = paging_query(start.0, end.0);
        let response = self
            .monitoring
            .query(&self.requests, &query, pass.now)
            .await?;
        let alerts = alerts::read_all_alerts(response.status, &response.body)?;
        let preceding = pass.entry.preceding_version.as_str();
        let joined = alerts.join(",");
        let labels = [
            ("preceding_version", preceding),
            ("stream", stream(preceding, version)),
            ("version", version),
            ("alerts", joined.as_str()),
        ];
        let value = f64::from(u8::from(alerts.is_empty()));
        self.metrics.set(series::RESULT, &labels, value);
        Ok(())
    }
}

/// The query for paging alerts that fired during an upgrade.
fn paging_query(start: Timestamp, end: Timestamp) -> String {
    format!(
        "count_over_time(ALERTS{{alertstate=\"firing\",alertname=~\"{}\"}}[{}s] @ {})",
        alerts::OWN_ALERTS.join("|"),
        end.duration_since(start).as_secs().max(1),
        end.as_second()
    )
}

/// Whether an upgrade led to another minor release.
fn stream(preceding: &str, version: &str) -> &'static str {
    let parse = |text: &str| {
        text.parse::<release::Version>()
            .map(|version| version.minor())
    };
    match (parse(preceding), parse(version)) {
        (Ok(before), Ok(after)) if before == after => "z",
        (Ok(_), Ok(_)) => "y",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn stream_is_that_of_the_minor_release() {
        let table = [
            ("4.16.3", "4.16.4", "z"),
            ("4.16.3", "4.17.0", "y"),
            ("", "4.17.0", "unknown"),
        ];
        for (preceding, version, expected) in table {
            assert_eq!(super::stream(preceding, version), expected);
        }
    }
}
