//! The update as `status` and `watch` show it: as one.

use std::collections::BTreeSet;

use api::machineconfiguration::MachineConfigPool;
use chassis::report::Chain;
use jiff::Timestamp;
use release::Version;
use serde::Serialize;

use super::facts::{PoolPause, name, record};
use super::step::applied;
use crate::decide::object::ClusterObject;

/// An update of the control plane alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ControlPlaneOnlyView {
    /// Versions of the start, between, and at the end; empty where the record cannot be read.
    path: Vec<String>,
    /// Which hop is under way or next; none once both are done, or where that is not known.
    hop: Option<u8>,
    /// Pools that it keeps paused.
    paused: BTreeSet<String>,
    /// Its pools that it does not keep paused any more.
    resumed: BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    #[serde(skip_serializing_if = "String::is_empty")]
    by: String,
    /// What a person should know.
    notes: Vec<String>,
}

impl ControlPlaneOnlyView {
    /// Reads the record of a ClusterVersion, and what became of its pools. None where no such
    /// update is under way.
    pub(crate) fn of(version: &ClusterObject, pools: &[MachineConfigPool]) -> Option<Self> {
        let paused = pools
            .iter()
            .filter(|pool| PoolPause::of(pool) == PoolPause::Own);
        let paused: BTreeSet<String> = paused.map(|pool| name(pool).to_owned()).collect();
        let mut this = Self {
            path: Vec::new(),
            hop: None,
            paused,
            resumed: BTreeSet::new(),
            since: None,
            by: String::new(),
            notes: Vec::new(),
        };
        let record = match record(version) {
            Ok(Some(record)) => record,
            Ok(None) if this.paused.is_empty() => return None,
            Ok(None) => {
                let why = "no update is recorded that resumes these pools; `slipway upgrade \
                           --control-plane-only --clear` does";
                this.notes.push(why.to_owned());
                return Some(this);
            }
            Err(why) => {
                this.notes.push(format!("ClusterVersion version: {why}"));
                return Some(this);
            }
        };
        for pool in pools
            .iter()
            .filter(|pool| record.pools.contains(name(pool)))
        {
            let name = name(pool);
            match PoolPause::of(pool) {
                PoolPause::Own => {}
                PoolPause::Resumed => {
                    this.resumed.insert(name.to_owned());
                }
                PoolPause::ResumedByPerson => this.notes.push(format!(
                    "pool {name}: a person resumed it; its nodes are updated with each hop"
                )),
                PoolPause::Other => this
                    .notes
                    .push(format!("pool {name}: another one paused it; it stays so")),
            }
        }
        match hop(version, [&record.from, &record.through, &record.to]) {
            Ok(hop) => this.hop = hop,
            Err(why) => this.notes.push(why),
        }
        this.path = vec![record.from, record.through, record.to];
        this.since = Some(record.since);
        this.by = record.by;
        Some(this)
    }

    /// Whether a person should read it.
    pub(crate) const fn needs_attention(&self) -> bool {
        !self.notes.is_empty()
    }

    /// All of it in one line.
    pub(crate) fn line(&self) -> String {
        let list = |names: &BTreeSet<String>| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            names.join(", ")
        };
        let mut parts = Vec::new();
        if !self.path.is_empty() {
            let hop = self.hop.map_or_else(
                || "both hops done".to_owned(),
                |hop| format!("hop {hop} of 2"),
            );
            let is_known = self.notes.is_empty() || self.hop.is_some();
            let hop = if is_known {
                hop
            } else {
                "hop not known".to_owned()
            };
            parts.push(format!("{}, {hop}", self.path.join(" -> ")));
        }
        let who = if self.by.is_empty() {
            String::new()
        } else {
            format!(", by {}", self.by)
        };
        let since = self
            .since
            .map_or_else(String::new, |since| format!(" (since {since:.0}{who})"));
        if !self.paused.is_empty() {
            parts.push(format!("pools paused: {}{since}", list(&self.paused)));
        } else if !self.resumed.is_empty() {
            parts.push(format!("pools not paused: {}{since}", list(&self.resumed)));
        }
        parts.extend(self.notes.iter().cloned());
        format!("Control plane only: {}", parts.join("; "))
    }
}

/// Which hop is under way or next; none once both are done.
fn hop(version: &ClusterObject, path: [&str; 3]) -> Result<Option<u8>, String> {
    let (head, is_completed) = applied(version);
    let minor = |text: &str| {
        let parsed = text.parse::<Version>();
        parsed
            .map(|version| version.minor())
            .map_err(|error| format!("not known which hop it is: {}", Chain(&error)))
    };
    let head = minor(head)?;
    let [from, through, to] = [minor(path[0])?, minor(path[1])?, minor(path[2])?];
    if head == from || (head == through && !is_completed) {
        Ok(Some(1))
    } else if head == through || (head == to && !is_completed) {
        Ok(Some(2))
    } else if head == to {
        Ok(None)
    } else {
        Err(format!(
            "the cluster is at {}.{}, which is not on the way",
            head.0, head.1
        ))
    }
}

#[cfg(test)]
mod tests {
    use api::config::control_plane_only::CONTROL_PLANE_ONLY;
    use serde_json::json;

    use super::super::fixture::{THROUGH, TO, cluster, mark, pool, pools, recorded, resumed};
    use super::*;

    fn line(version: &ClusterObject, pools: &[MachineConfigPool]) -> Option<String> {
        ControlPlaneOnlyView::of(version, pools).map(|view| view.line())
    }

    #[test]
    fn an_update_is_one_line_from_its_start_to_its_end() {
        const HEAD: &str = "Control plane only: 4.16.30 -> 4.17.20 -> 4.18.9, ";
        const PAUSED: &str = "pools paused: infra, worker (since 2026-01-02T03:04:05Z, by admin)";
        const RESUMED: &str =
            "pools not paused: infra, worker (since 2026-01-02T03:04:05Z, by admin)";
        let paused = || pools(&[mark("infra"), mark("worker")]);
        let free = || pools(&[pool("infra"), pool("worker")]);
        for (history, pools, expected) in [
            (
                ("4.16.30", "Completed"),
                paused(),
                format!("{HEAD}hop 1 of 2; {PAUSED}"),
            ),
            (
                (THROUGH, "Partial"),
                paused(),
                format!("{HEAD}hop 1 of 2; {PAUSED}"),
            ),
            (
                (THROUGH, "Completed"),
                paused(),
                format!("{HEAD}hop 2 of 2; {PAUSED}"),
            ),
            (
                (TO, "Partial"),
                paused(),
                format!("{HEAD}hop 2 of 2; {PAUSED}"),
            ),
            (
                (TO, "Completed"),
                free(),
                format!("{HEAD}both hops done; {RESUMED}"),
            ),
            (
                ("4.19.1", "Completed"),
                paused(),
                format!(
                    "{HEAD}hop not known; {PAUSED}; the cluster is at 4.19, which is not on the way"
                ),
            ),
            (
                ("x", "Completed"),
                paused(),
                format!(
                    "{HEAD}hop not known; {PAUSED}; not known which hop it is: \"x\" is no semantic version: unexpected character 'x' while parsing major version number"
                ),
            ),
        ] {
            let found = line(&recorded(history).version, &pools).unwrap();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_others_did_is_named() {
        let mut other = pool("infra");
        other["spec"]["paused"] = json!(true);
        let objects = pools(&[other, resumed("worker")]);
        let version = recorded((THROUGH, "Completed")).version;
        let view = ControlPlaneOnlyView::of(&version, &objects).unwrap();
        assert!(view.needs_attention());
        assert_eq!(
            view.line(),
            "Control plane only: 4.16.30 -> 4.17.20 -> 4.18.9, hop 2 of 2; pool infra: another one \
             paused it; it stays so; pool worker: a person resumed it; its nodes are updated with \
             each hop"
        );
    }

    #[test]
    fn without_a_record_there_is_no_update_unless_a_pool_has_the_mark() {
        let version = cluster().version;
        let mut other = pool("worker");
        other["spec"]["paused"] = json!(true);
        assert_eq!(line(&version, &pools(&[pool("infra"), other])), None);
        assert_eq!(
            line(&version, &pools(&[mark("worker")])).unwrap(),
            "Control plane only: pools paused: worker; no update is recorded that resumes these \
             pools; `slipway upgrade --control-plane-only --clear` does"
        );
        let mut version = recorded((THROUGH, "Completed")).version;
        version.0["metadata"]["annotations"][CONTROL_PLANE_ONLY] = json!("{");
        let view = ControlPlaneOnlyView::of(&version, &pools(&[mark("worker")])).unwrap();
        assert!(view.needs_attention());
        let line = view.line();
        assert!(
            line.contains("annotation slipway.dev/control-plane-only: cannot read it: EOF"),
            "{line}"
        );
    }
}
