//! Which point the next run of a scenario is for.

/// After so many runs without a kill, the points that only some runs have are left untried.
const ENDED_MAX: usize = 16;

/// The points of a scenario, handed out to runs that may be side by side.
///
/// The number of system calls in a pull varies. A run that ends before its point is repeated, up to
/// 16 times, if another run reached that point.
#[derive(Debug)]
pub(super) struct Schedule {
    stride: usize,
    /// The first point of a sample.
    first: usize,
    next: usize,
    /// Points that a run did not reach.
    missed: Vec<usize>,
    /// The most that a run had.
    most: usize,
    ended: usize,
    /// How often a point was handed out again.
    again: usize,
    is_given_up: bool,
}

impl Schedule {
    /// Each `stride`th point; which of the first ones it begins with is `sample`'s to choose.
    pub(super) const fn new(stride: usize, sample: usize) -> Self {
        let first = sample % stride;
        Self {
            stride,
            first,
            next: first,
            missed: Vec::new(),
            most: 0,
            ended: 0,
            again: 0,
            is_given_up: false,
        }
    }

    /// The point of the next run, from 0; none if nothing is left to be tried.
    pub(super) fn take(&mut self) -> Option<usize> {
        if self.is_given_up {
            return None;
        }
        let again = self.missed.iter().position(|point| *point < self.most);
        if let Some(index) = again.filter(|_| self.ended < ENDED_MAX) {
            self.again += 1;
            return Some(self.missed.swap_remove(index));
        }
        if self.ended > 0 && self.next >= self.most {
            return None;
        }
        let point = self.next;
        self.next += self.stride;
        Some(point)
    }

    /// A run was killed at its point, the last of so many.
    pub(super) fn killed(&mut self, points: usize) {
        self.most = self.most.max(points);
    }

    /// A run ended after so many points, before its own came. A scenario with fewer points than a
    /// sample begins with has one of them tried instead.
    pub(super) fn ended(&mut self, point: usize, points: usize) {
        self.most = self.most.max(points);
        self.ended += 1;
        let is_short = point == self.first && points > 0;
        self.missed
            .push(if is_short { point % points } else { point });
    }

    /// How often a point was handed out again, and which ones that some run had were never reached.
    pub(super) fn gone(&self) -> (usize, Vec<usize>) {
        let mut left = self.missed.clone();
        left.retain(|point| *point < self.most);
        left.sort_unstable();
        (self.again, left)
    }

    pub(super) const fn give_up(&mut self) {
        self.is_given_up = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a scenario alone that has so many points in each run; those at which it was killed.
    fn go(stride: usize, sample: usize, points: usize) -> Vec<usize> {
        let mut schedule = Schedule::new(stride, sample);
        let mut killed = Vec::new();
        while let Some(point) = schedule.take() {
            if point < points {
                schedule.killed(point + 1);
                killed.push(point);
            } else {
                schedule.ended(point, points);
            }
        }
        killed
    }

    #[test]
    fn each_strideth_point_is_tried_once() {
        assert_eq!(go(1, 0, 4), [0, 1, 2, 3]);
        assert_eq!(go(3, 0, 7), [0, 3, 6]);
        assert_eq!(go(20, 0, 1), [0]);
        assert_eq!(go(1, 0, 0), [0; 0]);
    }

    #[test]
    fn samples_together_try_each_point() {
        let mut tried: Vec<_> = (0..3).flat_map(|sample| go(3, sample, 7)).collect();
        tried.sort_unstable();
        assert_eq!(tried, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(go(1, 0xffff, 4), [0, 1, 2, 3], "no sample, but all");
    }

    #[test]
    fn a_scenario_shorter_than_where_a_sample_begins_has_a_point_tried() {
        assert_eq!(go(20, 19, 1), [0]);
        assert_eq!(go(20, 19, 4), [3]);
        assert_eq!(go(20, 8, 5), [3]);
        assert_eq!(go(20, 19, 0), [0; 0]);
    }

    #[test]
    fn a_point_that_another_run_had_is_tried_again() {
        let mut schedule = Schedule::new(1, 0);
        let both = [schedule.take(), schedule.take()];
        assert_eq!(both, [Some(0), Some(1)], "side by side");
        schedule.ended(0, 0);
        assert_eq!(schedule.take(), None, "no run had one");
        schedule.killed(2);
        assert_eq!(schedule.take(), Some(0));
        schedule.killed(1);
        assert_eq!(schedule.take(), None);
    }

    #[test]
    fn points_of_a_longer_run_are_tried_again() {
        let mut schedule = Schedule::new(1, 0);
        let side_by_side: Vec<_> = (0..4).filter_map(|_| schedule.take()).collect();
        assert_eq!(side_by_side, [0, 1, 2, 3]);
        schedule.killed(1);
        schedule.ended(1, 1);
        schedule.ended(2, 2);
        schedule.ended(3, 3);
        let mut again: Vec<_> = std::iter::from_fn(|| schedule.take()).collect();
        again.sort_unstable();
        assert_eq!(again, [1, 2]);
    }

    #[test]
    fn a_point_that_never_comes_again_is_left() {
        let mut schedule = Schedule::new(1, 0);
        let _first = schedule.take();
        let _second = schedule.take();
        schedule.killed(2);
        schedule.ended(0, 0);
        let mut again = 0;
        while let Some(point) = schedule.take() {
            assert_eq!(point, 0);
            schedule.ended(point, 0);
            again += 1;
        }
        assert_eq!(again, ENDED_MAX - 1);
        assert_eq!(schedule.gone(), (ENDED_MAX - 1, vec![0]));
    }

    #[test]
    fn a_scenario_that_was_given_up_has_no_points_left() {
        let mut schedule = Schedule::new(1, 0);
        schedule.give_up();
        assert_eq!(schedule.take(), None);
    }
}
