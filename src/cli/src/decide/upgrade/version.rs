//! What ClusterVersion says, read for the views and requests.

use api::stop::StopSwitch;
use serde::Serialize;
use serde_json::Value;

use crate::decide::blocks::newest_first;
use crate::decide::object::{ClusterObject, ObjectCondition, condition, text};

/// A release that the cluster may be updated to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct OfferedUpdate {
    pub(crate) version: String,
    pub(crate) image: String,
    pub(crate) url: String,
    /// Of a conditional one: why it may not be recommended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) caution: Option<Caution>,
}

/// Why an update may not be recommended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Caution {
    /// Of the condition `Recommended`: `False` or `Unknown`; `True` where no risk applies.
    pub(crate) recommended: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Caution {
    /// Without the condition `Recommended`.
    pub(crate) fn unknown() -> Self {
        Self {
            recommended: "Unknown".to_owned(),
            reason: String::new(),
            message: String::new(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct VersionView<'a>(pub(crate) &'a ClusterObject);

impl<'a> VersionView<'a> {
    pub(crate) fn condition(self, kind: &str) -> Option<ObjectCondition<'a>> {
        self.0.condition(kind)
    }

    pub(crate) fn is(self, kind: &str) -> bool {
        self.condition(kind)
            .is_some_and(|condition| condition.is_true())
    }

    /// Who stopped the cluster, since when and why, in a sentence; none if it goes on.
    pub(crate) fn stopped(self) -> Option<String> {
        let switch = StopSwitch::read(Some(&self.0.annotations()))?;
        Some(format!("The cluster is stopped {switch}"))
    }

    pub(crate) fn desired_version(self) -> &'a str {
        self.0.text("/status/desired/version")
    }

    pub(crate) fn desired_image(self) -> &'a str {
        self.0.text("/status/desired/image")
    }

    /// Channels that hold the release.
    pub(crate) fn known_channels(self) -> Vec<&'a str> {
        let list = self.0.list("/status/desired/channels");
        list.iter().filter_map(Value::as_str).collect()
    }

    /// Recommended updates, newest first.
    pub(crate) fn available(self) -> Vec<OfferedUpdate> {
        let list = self.0.list("/status/availableUpdates").iter();
        sorted(list.map(|release| offered(release, None)).collect())
    }

    /// Conditional updates that are not recommended now, newest first.
    pub(crate) fn conditional(self) -> Vec<OfferedUpdate> {
        let list = self.0.list("/status/conditionalUpdates").iter();
        let updates = list.filter_map(|update| {
            let conditions = update.get("conditions").and_then(Value::as_array);
            let conditions = conditions.map_or(&[][..], Vec::as_slice);
            let caution = match condition(conditions, "Recommended") {
                Some(found) if found.is_true() => return None,
                Some(found) => Caution {
                    recommended: found.status.to_owned(),
                    reason: found.reason.to_owned(),
                    message: found.message.to_owned(),
                },
                None => Caution::unknown(),
            };
            Some(offered(update.get("release")?, Some(caution)))
        });
        sorted(updates.collect())
    }
}

fn offered(release: &Value, caution: Option<Caution>) -> OfferedUpdate {
    OfferedUpdate {
        version: text(release, "/version").to_owned(),
        image: text(release, "/image").to_owned(),
        url: text(release, "/url").to_owned(),
        caution,
    }
}

/// Updates that may not be recommended, as text: those of one reason and message together, which
/// stand below them once.
pub(crate) fn cautioned<'a>(updates: impl IntoIterator<Item = &'a OfferedUpdate>) -> String {
    let mut groups: Vec<(&str, &str, String)> = Vec::new();
    for update in updates {
        let (reason, message) = update.caution.as_ref().map_or(("", ""), |caution| {
            (caution.reason.as_str(), caution.message.as_str())
        });
        let lines = format!("  Version: {}\n  Image: {}\n", update.version, update.image);
        let group = groups
            .iter_mut()
            .find(|(of_reason, of_message, _)| (*of_reason, *of_message) == (reason, message));
        match group {
            Some((.., text)) => text.push_str(&lines),
            None => groups.push((reason, message, lines)),
        }
    }
    let groups = groups.iter().map(|(reason, message, lines)| {
        let message = message.replace('\n', "\n  ");
        format!("\n{lines}  Reason: {reason}\n  Message: {message}\n")
    });
    groups.collect()
}

fn sorted(mut updates: Vec<OfferedUpdate>) -> Vec<OfferedUpdate> {
    updates.sort_by(|one, other| newest_first(&one.version, &other.version));
    updates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_of_one_risk_have_its_text_once() {
        let update = |version: &str, reason: &str| OfferedUpdate {
            version: version.to_owned(),
            image: format!("image-{version}"),
            url: String::new(),
            caution: Some(Caution {
                recommended: "False".to_owned(),
                reason: reason.to_owned(),
                message: format!("first of {reason}\nsecond"),
            }),
        };
        let updates = [
            update("4.2.2", "A"),
            update("4.2.1", "B"),
            update("4.2.0", "A"),
        ];
        let expected = "\n  Version: 4.2.2\n  Image: image-4.2.2\n  Version: 4.2.0\n  Image: image-4.2.0\n  \
             Reason: A\n  Message: first of A\n  second\n\
             \n  Version: 4.2.1\n  Image: image-4.2.1\n  Reason: B\n  Message: first of B\n  second\n";
        assert_eq!(cautioned(&updates), expected);
    }
}
