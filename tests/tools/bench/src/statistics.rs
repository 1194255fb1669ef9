//! Middle and upper end of a few measurements. Pure.

/// The middle of the sorted values, or the mean of the two in the middle; none of none.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let upper = sorted.len() / 2;
    let lower = sorted.len().checked_sub(1)? / 2;
    Some(f64::midpoint(*sorted.get(lower)?, *sorted.get(upper)?))
}

/// The least value that at least 95 of 100 are not above, one of those measured (nearest rank): of
/// 20 the 19th. None of none.
pub(crate) fn p95(values: &[f64]) -> Option<f64> {
    percentile(values, 95)
}

/// The same of 99 of 100: of 500 the 495th.
pub(crate) fn p99(values: &[f64]) -> Option<f64> {
    percentile(values, 99)
}

fn percentile(values: &[f64], percent: usize) -> Option<f64> {
    let sorted = sorted(values);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }

    #[test]
    fn one_of_twenty_may_be_above_the_95th_percentile() {
        let values: Vec<f64> = (1..=20_u8).rev().map(f64::from).collect();
        assert_eq!(p95(&values), Some(19.0));
        assert_eq!(p95(&[7.0]), Some(7.0));
        assert_eq!(p95(&[]), None);
        let values: Vec<f64> = (1..=500_u16).map(f64::from).collect();
        assert_eq!(p99(&values), Some(495.0));
    }
}
