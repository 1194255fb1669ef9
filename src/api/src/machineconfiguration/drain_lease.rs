//! The lease of a node's drain: who removes pods from it in the daemon's place.

use std::fmt;

use jiff::Timestamp;

/// Value of [`super::annotation::DRAIN_LEASE`].
///
/// Shape: `<holder> <since> <renewed>`, times in RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainLease {
    /// Who has it; a word.
    pub holder: String,
    /// Since when.
    pub since: Timestamp,
    /// When its holder renewed it last, by the holder's clock.
    pub renewed: Timestamp,
}

impl DrainLease {
    /// Seconds that it holds after a renewal. Others measure that from when they saw it, by a clock
    /// that cannot be set.
    pub const SECS: u64 = 180;

    /// Reads the annotation. A text of another form is no lease.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let lease = Self {
            holder: words.next().filter(|word| !word.is_empty())?.to_owned(),
            since: words.next()?.parse().ok()?,
            renewed: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(lease)
    }
}

impl fmt::Display for DrainLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.holder, self.since, self.renewed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_is_read_as_it_is_written_and_other_texts_are_none() {
        let text = "muo 2026-11-21T19:00:00Z 2026-11-21T19:01:00Z";
        assert_eq!(DrainLease::parse(text).unwrap().to_string(), text);
        for other in [
            "",
            "muo",
            "muo soon later",
            &format!("{text} x"),
            &text[3..],
        ] {
            assert_eq!(DrainLease::parse(other), None, "{other:?}");
        }
    }
}
