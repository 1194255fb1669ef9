//! The lease of a node's drain, under which its daemon evicts nothing.

use api::machineconfiguration::DrainLease;
use jiff::{SignedDuration, Timestamp};

/// Holder of the lease of a node's drain.
pub const HOLDER: &str = "managed-upgrade-operator";

/// The daemon has so long to see the lease before pods are removed.
const SETTLED: SignedDuration = SignedDuration::from_secs(20);

/// A lease is renewed after a third of its length.
const RENEWED: SignedDuration = SignedDuration::from_secs(60);

/// What comes next about the lease of a node's drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseStep {
    /// Nothing: there is none, and none is needed.
    Nothing,
    /// It is taken. Pods are removed later.
    Take,
    /// It was taken a moment ago.
    Settle,
    /// It is renewed, then pods are removed.
    Renew,
    /// Pods are removed.
    Act,
    Release,
}

/// Decides about the lease, so that daemon and operator never drain one node at once.
pub fn lease_step(lease: Option<&DrainLease>, is_needed: bool, now: Timestamp) -> LeaseStep {
    let Some(lease) = lease else {
        return if is_needed {
            LeaseStep::Take
        } else {
            LeaseStep::Nothing
        };
    };
    if !is_needed {
        return LeaseStep::Release;
    }
    let length = i64::try_from(DrainLease::SECS).unwrap_or(i64::MAX);
    let age = now.duration_since(lease.renewed);
    // One that has expired may be held no more: the daemon has gone on. A clock that was set back
    // makes it begin again, too.
    if age.as_secs() >= length || age.is_negative() {
        return LeaseStep::Take;
    }
    if now.duration_since(lease.since) < SETTLED {
        return LeaseStep::Settle;
    }
    if age >= RENEWED {
        return LeaseStep::Renew;
    }
    LeaseStep::Act
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::at;

    #[test]
    fn pods_are_removed_only_under_a_lease_that_the_daemon_has_seen() {
        let secs = |secs| at(0) + SignedDuration::from_secs(secs);
        let lease = |since, renewed| DrainLease {
            holder: HOLDER.to_owned(),
            since: secs(since),
            renewed: secs(renewed),
        };
        let table = [
            (None, false, LeaseStep::Nothing),
            (None, true, LeaseStep::Take),
            (Some(lease(-1, -1)), true, LeaseStep::Settle),
            (Some(lease(-20, -20)), true, LeaseStep::Act),
            (Some(lease(-90, -60)), true, LeaseStep::Renew),
            (Some(lease(-500, -180)), true, LeaseStep::Take),
            (Some(lease(9, 9)), true, LeaseStep::Take),
            (Some(lease(-20, -20)), false, LeaseStep::Release),
        ];
        for (lease, is_needed, expected) in table {
            let found = lease_step(lease.as_ref(), is_needed, secs(0));
            assert_eq!(found, expected, "{lease:?} {is_needed}");
        }
    }
}
