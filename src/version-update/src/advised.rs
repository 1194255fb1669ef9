//! Updates and their risks: what the service advises, what queries found, and alerts.

use jiff::Timestamp;
use release::update_graph::UpdateRisk;

use crate::retrieved_updates::RetrievedUpdates;
use crate::risk::QueryCache;
use crate::upgradeable::{self, UpgradeRisk};

/// Updates and their risks.
#[derive(Debug, Clone, Default)]
pub struct Advised {
    /// What the update service advises; none before the first request.
    pub updates: Option<RetrievedUpdates>,
    /// What queries of risks found.
    pub queries: QueryCache,
    /// When alerts were read, and the risks that they are.
    pub alerts: Option<(Timestamp, Vec<UpdateRisk>)>,
}

impl Advised {
    /// The same, with alerts as risks of each update, and `upgradeable_risks` as those of updates
    /// to another minor release than `current`.
    #[must_use]
    pub fn with_own_risks(mut self, upgradeable_risks: &[UpgradeRisk], current: &str) -> Self {
        let Some((_, alerts)) = self.alerts.take() else {
            // Before alerts were read, no update is without their risks: what the status has stays.
            self.updates = None;
            return self;
        };
        let updates = self.updates.as_mut();
        if let Some((_, offers)) = updates.and_then(|updates| updates.found.as_mut()) {
            for offer in &mut offers.offers {
                offer.risks.extend(alerts.iter().cloned());
            }
            upgradeable::join(offers, upgradeable_risks, current);
        }
        self
    }
}
