//! An alert as Prometheus returns it.

use jiff::Timestamp;
use serde_json::Value;

use crate::decide::object::{text, time};

/// Alerts of budgets that may hold up the drain of a node.
const BUDGETS: [&str; 2] = ["PodDisruptionBudgetAtLimit", "PodDisruptionBudgetLimit"];

#[derive(Clone, Copy, Debug)]
pub(crate) struct AlertView<'a>(&'a Value);

impl<'a> AlertView<'a> {
    /// Alerts of a response that fire: those that are only pending do not count, nor does what has
    /// no name, by which it could be accepted or looked for.
    pub(crate) fn firing(response: &'a Value) -> impl Iterator<Item = Self> {
        let alerts = response.pointer("/data/alerts").and_then(Value::as_array);
        let alerts = alerts.into_iter().flatten().map(Self);
        alerts.filter(|alert| alert.state() != "pending" && !alert.name().is_empty())
    }

    /// Whether a response has all alerts.
    ///
    /// # Errors
    /// Why it may not.
    pub(crate) fn check_whole(response: &Value) -> Result<(), String> {
        if response
            .pointer("/data/alerts")
            .is_none_or(|alerts| !alerts.is_array())
        {
            let why = text(response, "/error");
            let separator = if why.is_empty() { "" } else { ": " };
            return Err(format!("the answer has no data.alerts{separator}{why}"));
        }
        let whole = release::prometheus::partial::check_whole(response);
        whole.map_err(|partial| partial.to_string())
    }

    pub(crate) fn name(self) -> &'a str {
        self.label("alertname")
    }

    pub(crate) fn severity(self) -> &'a str {
        self.label("severity")
    }

    pub(crate) fn state(self) -> &'a str {
        text(self.0, "/state")
    }

    /// A label; empty where it has none.
    pub(crate) fn label(self, name: &str) -> &'a str {
        self.part("labels", name)
    }

    /// Since when it fires.
    pub(crate) fn since(self) -> Option<Timestamp> {
        time(self.0, "/activeAt")
    }

    /// Whether it is of a budget that may hold up the drain of a node.
    pub(crate) fn is_of_budget(self) -> bool {
        BUDGETS.contains(&self.name())
    }

    /// What it says, else its name.
    pub(crate) fn summary(self) -> &'a str {
        match self.annotation("summary") {
            "" => self.name(),
            summary => summary,
        }
    }

    /// A sentence with what it means. Older alerts say it in `message`.
    pub(crate) fn description(self) -> String {
        let parts = ["description", "message"].map(|name| self.annotation(name));
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if parts.is_empty() {
            return "The alert has no description.".to_owned();
        }
        format!("The alert description is: {}", parts.join(" | "))
    }

    /// Address of what to do about it, else a phrase.
    pub(crate) fn runbook(self) -> &'a str {
        match self.annotation("runbook_url") {
            "" => "<alert does not have a runbook_url annotation>",
            runbook => runbook,
        }
    }

    fn annotation(self, name: &str) -> &'a str {
        self.part("annotations", name)
    }

    fn part(self, of: &str, name: &str) -> &'a str {
        let value = self.0.get(of).and_then(|all| all.get(name));
        value.and_then(Value::as_str).unwrap_or_default()
    }
}
