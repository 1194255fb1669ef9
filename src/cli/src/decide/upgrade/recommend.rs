//! `slipway upgrade recommend`: which updates there are, and what speaks against them.
//!
//! - `precheck`: what alerts say against an update

mod precheck;

use std::collections::{BTreeMap, BTreeSet};

use release::Version;
use serde::Serialize;

pub(crate) use self::precheck::PrecheckReport;
use super::summary::{channel_line, missing};
use super::version::{Caution, OfferedUpdate, VersionView, cautioned};
use crate::decide::blocks::{block, columns};
use crate::decide::object::ObjectCondition;

/// Newest updates of a minor release that are shown unless all are requested.
const SHOWN: usize = 2;

/// Where the first column ends at least.
const VERSION_WIDTH: usize = 11;

const FINE: &str = "no known issues relevant to this cluster";

#[derive(Clone, Debug, Default)]
pub(crate) struct RecommendWish {
    pub(crate) version: Option<String>,
    pub(crate) show_outdated: bool,
    pub(crate) accept: BTreeSet<String>,
    pub(crate) quiet: bool,
}

/// Options that make no sense together.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecommendRefused {
    #[error("--quiet can only be set when --version is set")]
    QuietWithoutVersion,
    #[error("when --version is set, --show-outdated-releases is unnecessary")]
    OutdatedWithVersion,
}

impl RecommendWish {
    /// What is wrong before the cluster is read: options that make no sense together.
    pub(crate) fn check(&self) -> Result<(), RecommendRefused> {
        if self.version.is_none() && self.quiet {
            return Err(RecommendRefused::QuietWithoutVersion);
        }
        if self.version.is_some() && self.show_outdated {
            return Err(RecommendRefused::OutdatedWithVersion);
        }
        Ok(())
    }

    /// What stands before an issue that is accepted.
    fn mark(&self, issue: &str) -> &'static str {
        if self.accept.contains(issue) {
            "accepted "
        } else {
            ""
        }
    }
}

/// The view, and what speaks against an update that is not accepted.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecommendView {
    #[serde(skip)]
    pub(crate) text: String,
    /// What is printed to standard error, before the text.
    #[serde(skip)]
    pub(crate) warnings: Vec<String>,
    /// What is refused: an error after the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    pub(crate) precheck: PrecheckReport,
    /// Updates, newest first.
    pub(crate) updates: Vec<OfferedUpdate>,
}

impl RecommendView {
    /// Judges the updates.
    pub(crate) fn new(
        version: VersionView<'_>,
        precheck: PrecheckReport,
        wish: &RecommendWish,
    ) -> Self {
        let updates = all_updates(version);
        let mut found = Found::default();
        head(version, &precheck, wish, &mut found);
        let error = if let Some(wanted) = &wish.version {
            one(version, &updates, wanted, wish, &mut found)
                .or_else(|| found.verdict(wanted, &wish.accept))
        } else {
            found.text.push_str(&minors(&updates, wish.show_outdated));
            None
        };
        if wish.quiet {
            found = Found::default();
        }
        Self {
            text: found.text,
            warnings: found.warnings,
            error,
            precheck,
            updates,
        }
    }
}

/// The text about an update, and the names of its issues.
#[derive(Default)]
struct Found {
    text: String,
    warnings: Vec<String>,
    issues: BTreeSet<String>,
}

impl Found {
    /// The error where something is not accepted; else what is accepted is named.
    fn verdict(&mut self, wanted: &str, accept: &BTreeSet<String>) -> Option<String> {
        let list = |issues: Vec<&String>| {
            let names: Vec<&str> = issues.into_iter().map(String::as_str).collect();
            names.join(",")
        };
        let open = list(self.issues.difference(accept).collect());
        if !open.is_empty() {
            self.text.push('\n');
            return Some(format!(
                "issues that apply to this cluster but which were not included in --accept: {open}"
            ));
        }
        if !self.issues.is_empty() {
            let accepted = list(self.issues.iter().collect());
            self.text.extend([format!(
                "Update to {wanted} has {FINE} other than the accepted {accepted}.\n"
            )]);
        }
        None
    }
}

/// All updates; those to a higher minor release have a risk where the cluster says that it cannot
/// be updated to one.
fn all_updates(version: VersionView<'_>) -> Vec<OfferedUpdate> {
    let mut updates = version.available();
    updates.extend(version.conditional());
    updates.sort_by(|one, other| crate::decide::blocks::newest_first(&one.version, &other.version));
    let minor = |text: &str| text.parse::<Version>().ok().map(|version| version.minor());
    let own = minor(version.desired_version());
    if let Some(upgradeable) = version
        .condition("Upgradeable")
        .filter(|found| found.status == "False")
    {
        for update in &mut updates {
            if minor(&update.version) <= own {
                continue;
            }
            let before = update.caution.take();
            let (reason, message) = match before {
                // The cluster may have counted it among the risks itself.
                Some(before) if before.message.contains(upgradeable.message) => {
                    (before.reason, before.message)
                }
                Some(before) => (
                    "MultipleReasons".to_owned(),
                    format!("{}\n\n{}", upgradeable.message, before.message),
                ),
                None => (
                    upgradeable.reason.to_owned(),
                    upgradeable.message.to_owned(),
                ),
            };
            update.caution = Some(Caution {
                recommended: "False".to_owned(),
                reason,
                message,
            });
        }
    }
    updates
}

/// What stands above the updates.
fn head(
    version: VersionView<'_>,
    precheck: &PrecheckReport,
    wish: &RecommendWish,
    found: &mut Found,
) {
    conditions(version, wish, found);
    prechecks(precheck, wish, &mut found.text);
    let acceptances = precheck.findings.iter();
    found
        .issues
        .extend(acceptances.map(|finding| finding.acceptance.clone()));
    retrieval(version, wish, found);
    let upstream = version.0.text("/spec/upstream");
    if upstream.is_empty() {
        found.text.push_str(
            "Upstream update service is unset, so the cluster will use an appropriate default.\n",
        );
    } else {
        found
            .text
            .extend([format!("Upstream update service: {upstream}\n")]);
    }
    found.text.push_str(&channel_line(version));
}

/// Whether the cluster fails, or is being updated. What cannot be read is an issue, too.
fn conditions(version: VersionView<'_>, wish: &RecommendWish, found: &mut Found) {
    let mark = wish.mark("Failing");
    match version.condition("Failing") {
        Some(failing) if failing.status == "False" => {}
        Some(failing) => {
            found.issues.insert("Failing".to_owned());
            let head = format!("{mark}Failing");
            found.text.push_str(&block(&head, &failing));
        }
        None => {
            found.issues.insert("Failing".to_owned());
            found.warnings.push(format!("{mark}{}", missing("Failing")));
        }
    }
    if let Some(progressing) = version
        .condition("Progressing")
        .filter(ObjectCondition::is_true)
    {
        found.issues.insert("Progressing".to_owned());
        found.text.extend([format!(
            "{}info: An update is in progress.  You may wish to let this update complete before requesting a new update.\n  {}\n\n",
            wish.mark("Progressing"),
            progressing.message.replace('\n', "\n  ")
        )]);
    }
}

/// What the checks found, those that are accepted apart.
fn prechecks(precheck: &PrecheckReport, wish: &RecommendWish, text: &mut String) {
    if !precheck.fine.is_empty() {
        let fine = precheck.fine.iter();
        let fine: Vec<String> = fine.map(|name| format!("{name} (AsExpected)")).collect();
        text.extend([format!(
            "The following conditions found no cause for concern in updating this cluster to later releases: {}\n\n",
            fine.join(", ")
        )]);
    }
    let (accepted, open): (Vec<_>, Vec<_>) = precheck
        .findings
        .iter()
        .partition(|finding| wish.accept.contains(&finding.acceptance));
    for (findings, note) in [
        (accepted, ", but were explicitly accepted via --accept"),
        (open, ""),
    ] {
        if findings.is_empty() {
            continue;
        }
        let names = findings.iter().map(|finding| finding.r#type.as_str());
        text.extend([format!(
            "The following conditions found cause for concern in updating this cluster to later releases{note}: {}\n\n",
            names.collect::<Vec<_>>().join(", ")
        )]);
    }
    for finding in &precheck.findings {
        text.extend([format!(
            "{}{}={}:\n\n  Reason: {}\n  Message: {}\n\n",
            wish.mark(&finding.acceptance),
            finding.r#type,
            finding.status,
            finding.reason,
            finding.message.replace('\n', "\n  ")
        )]);
    }
}

/// Whether the list of updates is up to date.
fn retrieval(version: VersionView<'_>, wish: &RecommendWish, found: &mut Found) {
    const ISSUE: &str = "CannotRetrieveUpdates";
    let why = match version.condition("RetrievedUpdates") {
        Some(retrieved) if retrieved.is_true() => return,
        Some(retrieved) => format!(
            "Cannot refresh available updates:\n  Reason: {}\n  Message: {}\n",
            retrieved.reason,
            retrieved.message.replace('\n', "\n  ")
        ),
        None => missing("RetrievedUpdates"),
    };
    found.issues.insert(ISSUE.to_owned());
    found.warnings.push(format!("{}{why}", wish.mark(ISSUE)));
}

/// The updates of each minor release, the newest first.
fn minors(updates: &[OfferedUpdate], show_outdated: bool) -> String {
    if updates.is_empty() {
        return "No updates available. You may still upgrade to a specific release image with --to-image or wait for new updates to be available.\n".to_owned();
    }
    let mut minors: BTreeMap<(u64, u64), Vec<&OfferedUpdate>> = BTreeMap::new();
    for update in updates {
        if let Ok(version) = update.version.parse::<Version>() {
            minors.entry(version.minor()).or_default().push(update);
        }
    }
    let mut text = String::new();
    for ((major, minor), updates) in minors.iter().rev() {
        text.extend([format!("\nUpdates to {major}.{minor}:\n")]);
        let shown = if show_outdated {
            updates.len()
        } else {
            SHOWN.min(updates.len())
        };
        let (shown, rest) = updates.split_at_checked(shown).unwrap_or((updates, &[]));
        let mut rows = vec![vec!["VERSION".to_owned(), "ISSUES".to_owned()]];
        let mut bad = Vec::new();
        for update in shown {
            match &update.caution {
                Some(caution) if show_outdated => {
                    rows.push(vec![update.version.clone(), caution.reason.clone()]);
                }
                Some(_) => bad.push(*update),
                None => rows.push(vec![update.version.clone(), FINE.to_owned()]),
            }
        }
        if rows.len() > 1 {
            text.push_str(&columns(2, 1, VERSION_WIDTH, &rows));
        }
        let has_blocks = !bad.is_empty();
        text.push_str(&cautioned(bad));
        if !rest.is_empty() {
            if has_blocks {
                text.push('\n');
            }
            text.extend([format!(
                "And {} older {major}.{minor} updates you can see with '--show-outdated-releases' or '--version VERSION'.\n",
                rest.len()
            )]);
        }
    }
    text
}

/// One update; an error where there is none.
fn one(
    version: VersionView<'_>,
    updates: &[OfferedUpdate],
    wanted: &str,
    wish: &RecommendWish,
    found: &mut Found,
) -> Option<String> {
    const ISSUE: &str = "ConditionalUpdateRisk";
    if wanted == version.desired_version() {
        return Some(format!("the cluster runs {wanted} already"));
    }
    found.text.push('\n');
    let Some(update) = updates.iter().find(|update| update.version == wanted) else {
        return Some(no_update(updates, wanted));
    };
    let out = &mut found.text;
    match &update.caution {
        None => out.extend([format!("Update to {wanted} has {FINE}.\n")]),
        Some(caution) => {
            out.extend([format!(
                "Update to {wanted} Recommended={}:\n",
                caution.recommended
            )]);
        }
    }
    out.extend([format!("Image: {}\n", update.image)]);
    if !update.url.is_empty() {
        out.extend([format!("Release URL: {}\n", update.url)]);
    }
    if let Some(caution) = &update.caution {
        let reason = if wish.accept.contains(ISSUE) {
            format!("accepted {} via {ISSUE}", caution.reason)
        } else {
            caution.reason.clone()
        };
        out.extend([format!(
            "Reason: {reason}\nMessage: {}\n",
            caution.message.replace('\n', "\n  ")
        )]);
        found.issues.insert(ISSUE.to_owned());
    }
    None
}

/// Why an update cannot be shown.
fn no_update(updates: &[OfferedUpdate], wanted: &str) -> String {
    let minor = |text: &str| text.parse::<Version>().ok().map(|version| version.minor());
    let (major, of_wanted) = minor(wanted).unwrap_or_default();
    let minors: Vec<(u64, u64)> = updates
        .iter()
        .filter_map(|update| minor(&update.version))
        .collect();
    let context = format!("so cannot display context for the requested release {wanted}");
    if minors.is_empty() {
        format!("no updates available, {context}")
    } else if minors.iter().all(|(other, _)| *other != major) {
        format!("no updates to {major} available, {context}")
    } else if minors.contains(&(major, of_wanted)) {
        format!(
            "no update to {wanted} available, so cannot display context for the requested release"
        )
    } else {
        format!("no updates to {major}.{of_wanted} available, {context}")
    }
}

#[cfg(test)]
mod tests;
