//! What is known of updates: what the service advises, what queries found, and alerts.

use jiff::Timestamp;
use release::update_graph::UpdateRisk;

use crate::advice::Advice;
use crate::risk::QueryCache;
use crate::upgradeable::{self, UpgradeRisk};

/// What is known of updates.
#[derive(Debug, Clone, Default)]
pub struct Advised {
    /// What the update service advises; none before it was asked.
    pub advice: Option<Advice>,
    /// What queries of risks found.
    pub queries: QueryCache,
    /// When alerts were read, and the risks that they are.
    pub alerts: Option<(Timestamp, Vec<UpdateRisk>)>,
}

impl Advised {
    /// The same, with alerts as risks of each update, and `opposition` as those of updates to
    /// another minor release than `current`.
    #[must_use]
    pub fn with_own_risks(mut self, opposition: &[UpgradeRisk], current: &str) -> Self {
        let Some((_, alerts)) = self.alerts.take() else {
            // Before alerts were read, no update is without their risks: what the status has stays.
            self.advice = None;
            return self;
        };
        let advice = self.advice.as_mut();
        if let Some((_, offers)) = advice.and_then(|advice| advice.found.as_mut()) {
            for offer in &mut offers.offers {
                offer.risks.extend(alerts.iter().cloned());
            }
            upgradeable::join(offers, opposition, current);
        }
        self
    }
}
