//! How many nodes of a pool may be out of service at once.

use std::num::NonZeroUsize;

use api::IntOrString;
use api::machineconfiguration::label::role;

/// Most nodes of a pool that are out of service at once: the claim of a round names them in an
/// annotation of the pool, and the annotations of an object share 256 KiB.
pub const MOST_AT_ONCE: usize = 1000;

/// Why a pool has no budget, and so no rollout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pool {pool}: spec.maxUnavailable: {fault}")]
pub struct InvalidBudget {
    pub pool: String,
    fault: Fault,
}

/// What is wrong with the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("{0} is not a number of nodes")]
    Number(i64),
    #[error("{0:?} is neither a number nor a percentage such as \"10%\"")]
    Text(String),
}

/// Computes how many of the `size` nodes of `pool` may be out of service at once.
///
/// Shape: `size` counts the nodes of a shared budget too. Absent is 1; a percentage is rounded
/// down; 0 is 1, or nothing would ever be updated. The pools `master` and `arbiter` have 1. No pool
/// has more than [`MOST_AT_ONCE`].
/// Units: nodes.
///
/// # Errors
/// For anything but a number from 0 on or `<number>%`.
///
/// Source: MachineConfigPool `spec.maxUnavailable`; upstream's node controller, which however
/// blocks for ever on a negative number and knows no limit for the control plane.
pub fn budget(
    pool: &str,
    max_unavailable: Option<&IntOrString>,
    size: usize,
) -> Result<NonZeroUsize, InvalidBudget> {
    let invalid = |fault| InvalidBudget {
        pool: pool.to_owned(),
        fault,
    };
    let configured = match max_unavailable {
        None => 1,
        Some(IntOrString::Int(number)) => {
            usize::try_from(*number).map_err(|_| invalid(Fault::Number(*number)))?
        }
        Some(IntOrString::String(text)) => {
            parse_percentage(text, size).ok_or_else(|| invalid(Fault::Text(text.clone())))?
        }
    };
    // The nodes of a control plane vote in etcd. Two of three that are out lose the quorum, and of
    // five, two that are out leave it to the next that fails.
    let limit = if role::is_control_plane(pool) {
        1
    } else {
        MOST_AT_ONCE
    };
    Ok(NonZeroUsize::new(configured.min(limit)).unwrap_or(NonZeroUsize::MIN))
}

fn parse_percentage(text: &str, size: usize) -> Option<usize> {
    let percent: u32 = text.strip_suffix('%')?.parse().ok()?;
    Some(percentage(percent, size))
}

/// A share of `size` nodes, rounded down.
pub(crate) fn percentage(percent: u32, size: usize) -> usize {
    // 32 bits times any number of nodes fits 128 bits, and a quotient too large for usize is more
    // than all nodes.
    let nodes = u128::from(percent) * (size as u128) / 100;
    usize::try_from(nodes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use api::IntOrString;

    use super::{InvalidBudget, MOST_AT_ONCE, budget};

    fn of(max: impl Into<IntOrString>, size: usize) -> Result<usize, InvalidBudget> {
        budget("worker", Some(&max.into()), size).map(usize::from)
    }

    #[test]
    fn numbers_and_percentages() {
        for (max, size, expected) in [
            (IntOrString::Int(0), 10, 1),
            (IntOrString::Int(1), 10, 1),
            (IntOrString::Int(3), 2, 3),
            (IntOrString::Int(5_000_000_000), 5000, MOST_AT_ONCE),
            ("10%".into(), 9, 1),
            ("10%".into(), 10, 1),
            ("10%".into(), 29, 2),
            ("0%".into(), 50, 1),
            ("50%".into(), 0, 1),
            ("100%".into(), 7, 7),
            ("250%".into(), 4, 10),
            ("4294967295%".into(), 100, MOST_AT_ONCE),
        ] {
            assert_eq!(of(max.clone(), size), Ok(expected), "{max} of {size}");
        }
        assert_eq!(budget("worker", None, 100).unwrap().get(), 1);
    }

    #[test]
    fn invalid_value_is_reported_with_pool_field_and_value() {
        assert_eq!(
            of(-1, 10).unwrap_err().to_string(),
            "pool worker: spec.maxUnavailable: -1 is not a number of nodes"
        );
        for text in [
            "abc",
            "",
            "%",
            "10",
            "-10%",
            "1.5%",
            "10 %",
            "10%%",
            "99999999999%",
        ] {
            assert_eq!(
                of(text, 10).unwrap_err().to_string(),
                format!(
                    "pool worker: spec.maxUnavailable: {text:?} is neither a number nor a percentage such as \"10%\""
                )
            );
        }
    }

    #[test]
    fn two_voters_of_etcd_are_never_out() {
        for max in [IntOrString::from("100%"), IntOrString::Int(2)] {
            for size in 0..8 {
                for pool in ["master", "arbiter"] {
                    let budget = budget(pool, Some(&max), size).unwrap();
                    assert_eq!(budget.get(), 1, "{pool}, {size}");
                }
            }
        }
    }
}
