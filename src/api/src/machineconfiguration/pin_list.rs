//! Which pinned image sets a Node is to have, and has.

use std::collections::BTreeMap;
use std::fmt;

/// Characters of a set's uid in a [`PinStamp`]: they tell a set from a later one of its name.
const UID_CHARS: usize = 8;

/// Value of [`super::annotation::DESIRED_PINS`] and [`super::annotation::CURRENT_PINS`]: one
/// content of each set, by name.
///
/// Shape: `<name>=<generation>.<uid>` joined by commas, in the order of names; of the uid the first
/// characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PinList(pub BTreeMap<String, PinStamp>);

/// One content of a pinned image set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinStamp {
    /// Its `metadata.generation`.
    pub generation: i64,
    /// How its `metadata.uid` begins.
    uid: String,
}

impl PinStamp {
    /// The content of a set as it was read.
    pub fn new(generation: i64, uid: &str) -> Self {
        Self {
            generation,
            uid: uid.chars().take(UID_CHARS).collect(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (generation, uid) = text.split_once('.')?;
        Some(Self {
            generation: generation.parse().ok()?,
            uid: uid.to_owned(),
        })
    }
}

impl fmt::Display for PinStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.generation, self.uid)
    }
}

impl PinList {
    /// The list that an annotation's value is. An empty text is no set.
    pub fn parse(text: &str) -> Option<Self> {
        let entries = text.split(',').filter(|entry| !entry.is_empty());
        let entries = entries.map(|entry| {
            let (name, stamp) = entry.split_once('=')?;
            Some((name.to_owned(), PinStamp::parse(stamp)?))
        });
        entries.collect::<Option<_>>().map(Self)
    }

    /// Whether it names no set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for PinList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, stamp)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{name}={stamp}")?;
        }
        Ok(())
    }
}

/// Why a node does not have its pinned images yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotPinnedReason {
    /// They do not fit on the disk. Nothing is pulled until the sets or the disk change.
    NoRoom,
    /// Images could not be pulled or pinned; it is tried again.
    Failed,
    /// It would end the same: a set that is none, a host without a container runtime of a kind that
    /// is supported.
    Refused,
}

impl NotPinnedReason {
    const ALL: [Self; 3] = [Self::NoRoom, Self::Failed, Self::Refused];

    /// The word in the annotation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoRoom => "NoRoom",
            Self::Failed => "Failed",
            Self::Refused => "Refused",
        }
    }
}

/// Value of [`super::annotation::NOT_PINNED`].
///
/// Shape: `<reason>: <cause>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotPinned {
    /// What kind of cause it is.
    pub reason: NotPinnedReason,
    /// For people.
    pub cause: String,
}

impl NotPinned {
    /// The cause that an annotation's value names.
    pub fn parse(text: &str) -> Option<Self> {
        let (word, cause) = text.split_once(": ")?;
        let mut reasons = NotPinnedReason::ALL.into_iter();
        Some(Self {
            reason: reasons.find(|reason| reason.as_str() == word)?,
            cause: cause.to_owned(),
        })
    }
}

impl fmt::Display for NotPinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.as_str(), self.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_is_printed() {
        let list = PinList(BTreeMap::from([
            ("b".to_owned(), PinStamp::new(1, "0a1b2c3d-4e5f")),
            ("a.example".to_owned(), PinStamp::new(12, "ffff")),
        ]));
        let text = "a.example=12.ffff,b=1.0a1b2c3d";
        assert_eq!(list.to_string(), text);
        assert_eq!(PinList::parse(text), Some(list));
        assert_eq!(PinList::parse(""), Some(PinList::default()));
        for broken in ["a", "a=1", "a=x.u", "a=1.u,b"] {
            assert_eq!(PinList::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_cause_is_read_as_it_is_printed() {
        for reason in NotPinnedReason::ALL {
            let cause = NotPinned {
                reason,
                cause: "set a: 3 bytes lack".to_owned(),
            };
            assert_eq!(NotPinned::parse(&cause.to_string()), Some(cause));
        }
        assert_eq!(NotPinned::parse("Else: x"), None);
    }
}
