//! How much of a release is applied: a number that never falls.

use std::fmt;
use std::str::FromStr;

/// The most that was done of a release: kept on the ClusterVersion, so that a version operator that
/// is replaced in the middle of an update goes on from there.
///
/// Source: `docs/reference/cvo.md`, "What Slipway is to do better".
///
/// Shape: `<version hash> <done> <total>`, as annotation [`CHECKPOINT`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Hash of the release's manifests.
    pub version_hash: String,
    /// Manifests that were done.
    pub done: usize,
    /// Manifests in all: those that the cluster applies, and no others.
    pub total: usize,
}

/// Annotation of the ClusterVersion.
pub const CHECKPOINT: &str = "slipway.dev/progress";

/// Percentage points between stored checkpoints; each costs a write.
const STEP: usize = 5;

impl Checkpoint {
    /// The checkpoint of a pass that has done `done` of `total`.
    #[must_use]
    pub fn advance(&self, version_hash: &str, done: usize, total: usize) -> Self {
        let kept = if self.version_hash == version_hash {
            self.in_terms_of(total)
        } else {
            0
        };
        Self {
            version_hash: version_hash.to_owned(),
            done: done.max(kept).min(total),
            total,
        }
    }

    pub const fn percent(&self) -> usize {
        match self.total {
            0 => 100,
            total => self.done * 100 / total,
        }
    }

    /// Whether it is to be stored where `stored` is.
    pub fn is_ahead_of(&self, stored: &Self) -> bool {
        self.version_hash != stored.version_hash
            || self.total != stored.total
            || self.percent() >= stored.percent() + STEP
    }

    /// The same share of another total: an override or capability may change it. Rounded up, so
    /// that the percentage does not fall.
    fn in_terms_of(&self, total: usize) -> usize {
        if self.total == total || self.total == 0 {
            return self.done;
        }
        (self.done * total).div_ceil(self.total)
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            version_hash,
            done,
            total,
        } = self;
        write!(f, "{version_hash} {done} {total}")
    }
}

impl FromStr for Checkpoint {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split(' ');
        let mut next = || words.next().ok_or(());
        let checkpoint = Self {
            version_hash: next()?.to_owned(),
            done: next()?.parse().map_err(|_| ())?,
            total: next()?.parse().map_err(|_| ())?,
        };
        let is_whole = next().is_err() && checkpoint.done <= checkpoint.total;
        is_whole.then_some(checkpoint).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn restart_resumes_from_the_checkpoint() {
        let stored: Checkpoint = "hash 40 100".parse().unwrap();
        assert_eq!(stored.advance("hash", 3, 100).done, 40);
        assert_eq!(stored.advance("hash", 41, 100).done, 41);
        assert_eq!(stored.advance("other", 3, 100).done, 3);
        assert_eq!(stored.advance("hash", 0, 50).percent(), 40);
        for text in ["", "hash", "hash 1", "hash a 2", "hash 3 2", "hash 1 2 3"] {
            assert!(text.parse::<Checkpoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn checkpoint_is_stored_in_steps() {
        let of = |done| Checkpoint::default().advance("hash", done, 200);
        assert!(!of(9).is_ahead_of(&of(0)));
        assert!(of(10).is_ahead_of(&of(0)));
        assert!(of(0).is_ahead_of(&Checkpoint::default()));
    }

    proptest! {
        #[test]
        fn percentage_never_falls_and_ends_at_100(
            passes in prop::collection::vec((0_usize..=50, 1_usize..=50, any::<bool>()), 1..20),
        ) {
            let (mut current, mut stored) = (Checkpoint::default(), Checkpoint::default());
            for (done, total, is_restart) in passes {
                if is_restart {
                    current = stored.to_string().parse().unwrap_or_default();
                }
                let before = current.percent() * usize::from(!current.version_hash.is_empty());
                current = current.advance("h", done.min(total), total);
                prop_assert!(current.percent() >= before);
                if current.is_ahead_of(&stored) {
                    stored = current.clone();
                }
                prop_assert_eq!(current.advance("h", total, total).percent(), 100);
            }
        }
    }
}
