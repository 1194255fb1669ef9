//! How long an update takes: upstream's formula, and what this cluster's own history says.

use jiff::Timestamp;

/// Seconds of an hour: what an update of the control plane takes without a record of earlier ones.
const HOUR: f64 = 3600.0;

/// An update that has moved for less is too young for the formula.
const YOUNG: f64 = 300.0;

/// What is added to an estimate, so that it is rather too long.
const CAUTION: f64 = 1.2;

/// How far the time is when this share of the operators is updated.
///
/// Source: fitted by upstream to updates of test clusters.
fn time_share(completion: f64) -> f64 {
    let c = completion;
    if c < 0.25 {
        -0.030_788_78 + 2.628_86 * c - 3.823_954 * c.powi(2)
    } else if c < 0.9 {
        0.185_121_5 + 1.649_94 * c - 4.676_898 * c.powi(2) + 5.451_824 * c.powi(3)
            - 2.125_286 * c.powi(4)
    } else {
        25_053.32 - 107_394.3 * c + 172_527.2 * c.powi(2) - 123_107.0 * c.powi(3)
            + 32_921.81 * c.powi(4)
    }
}

/// Seconds that are left; negative once the update takes longer than thought.
///
/// Units: seconds. `baseline` is what the last update took; an hour, if none. `progressed` is from
/// the start to when an operator last began to move; `completion` is the share of updated ones.
pub(crate) fn estimate(
    baseline: Option<f64>,
    progressed: f64,
    elapsed: f64,
    completion: f64,
) -> f64 {
    let share = time_share(completion);
    let total = if completion > 0.0 && share > 0.0 && progressed > YOUNG {
        progressed / share
    } else {
        baseline.unwrap_or(HOUR)
    };
    let left = total - elapsed;
    if left < 0.0 {
        left / CAUTION
    } else {
        left * CAUTION
    }
}

/// What this cluster's own updates took: the middle, and between which all lie.
///
/// Units: seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryEstimate {
    /// Seconds that half of them took at most.
    pub(crate) median_seconds: i64,
    /// The shortest and the longest.
    pub(crate) range_seconds: (i64, i64),
    pub(crate) updates: usize,
}

impl HistoryEstimate {
    /// Fewer updates say nothing.
    const LEAST: usize = 3;

    /// Of updates that took so long; none of too few.
    pub(crate) fn of(mut took: Vec<i64>) -> Option<Self> {
        took.sort_unstable();
        if took.len() < Self::LEAST {
            return None;
        }
        Some(Self {
            median_seconds: *took.get(took.len() / 2)?,
            range_seconds: (*took.first()?, *took.last()?),
            updates: took.len(),
        })
    }
}

/// Seconds from one time to another.
pub(crate) fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    (to - from).total(jiff::Unit::Second).unwrap_or_default()
}

/// Whole seconds.
#[expect(
    clippy::cast_possible_truncation,
    reason = "an update takes less than years"
)]
pub(crate) fn whole(seconds: f64) -> i64 {
    seconds.trunc() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::blocks::rounded;

    #[test]
    fn estimates_are_those_of_upstream() {
        let minutes = |minutes: f64| minutes * 60.0;
        for (progressed, elapsed, completion, expected) in [
            (30.0, 30.0, 0.0, 36 * 60),
            (30.0, 30.0, 0.2, 69 * 60),
            (30.0, 30.0, 0.75, 50 * 60),
            (20.0, 20.0, 0.99, 290),
        ] {
            let left = estimate(
                Some(minutes(60.0)),
                minutes(progressed),
                minutes(elapsed),
                completion,
            );
            let left = rounded(left);
            assert!((left - expected).abs() <= 10, "{completion}: {left}");
        }
    }

    #[test]
    fn few_updates_are_no_history() {
        assert_eq!(HistoryEstimate::of(vec![60, 120]), None);
        let history = HistoryEstimate::of(vec![300, 100, 200]).unwrap();
        assert_eq!(
            (history.median_seconds, history.range_seconds),
            (200, (100, 300))
        );
    }
}
