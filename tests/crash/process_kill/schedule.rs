//! Which point the next run of a way is for.

/// So often a way ends uncut at most before points that only some of its runs have are left.
const UNCUT_MAX: usize = 16;

/// The points of a way, handed out to runs that may go side by side.
///
/// Runs of a way differ: a pull has a point or two more in one than in the next. So a run that ends before its
/// point comes is no proof that there is none, and the point is handed out again where another run had it.
#[derive(Debug)]
pub(super) struct Turns {
    stride: usize,
    /// The first point of a sample.
    first: usize,
    next: usize,
    /// Points that a run did not come to.
    missed: Vec<usize>,
    /// The most that a run had.
    most: usize,
    uncut: usize,
    /// How often a point was handed out again.
    again: usize,
    is_given_up: bool,
}

impl Turns {
    /// Each `stride`th point; which of the first ones it begins with is `sample`'s to choose.
    pub(super) const fn new(stride: usize, sample: usize) -> Self {
        let first = sample % stride;
        Self {
            stride,
            first,
            next: first,
            missed: Vec::new(),
            most: 0,
            uncut: 0,
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
        if let Some(index) = again.filter(|_| self.uncut < UNCUT_MAX) {
            self.again += 1;
            return Some(self.missed.swap_remove(index));
        }
        if self.uncut > 0 && self.next >= self.most {
            return None;
        }
        let point = self.next;
        self.next += self.stride;
        Some(point)
    }

    /// A run was cut at its point, the last of so many.
    pub(super) fn cut(&mut self, points: usize) {
        self.most = self.most.max(points);
    }

    /// A run ended after so many points, before its own came. A way with fewer points than a sample begins with has
    /// one of them tried instead.
    pub(super) fn uncut(&mut self, point: usize, points: usize) {
        self.most = self.most.max(points);
        self.uncut += 1;
        let is_short = point == self.first && points > 0;
        self.missed
            .push(if is_short { point % points } else { point });
    }

    /// How often a point was handed out again, and which ones that some run had were never come to.
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

    /// Goes a way alone that has so many points in each run; those at which it was cut.
    fn go(stride: usize, sample: usize, points: usize) -> Vec<usize> {
        let mut turns = Turns::new(stride, sample);
        let mut cut = Vec::new();
        while let Some(point) = turns.take() {
            if point < points {
                turns.cut(point + 1);
                cut.push(point);
            } else {
                turns.uncut(point, points);
            }
        }
        cut
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
    fn a_way_shorter_than_where_a_sample_begins_has_a_point_tried() {
        assert_eq!(go(20, 19, 1), [0]);
        assert_eq!(go(20, 19, 4), [3]);
        assert_eq!(go(20, 8, 5), [3]);
        assert_eq!(go(20, 19, 0), [0; 0]);
    }

    #[test]
    fn a_point_that_another_run_had_is_tried_again() {
        let mut turns = Turns::new(1, 0);
        let both = [turns.take(), turns.take()];
        assert_eq!(both, [Some(0), Some(1)], "side by side");
        turns.uncut(0, 0);
        assert_eq!(turns.take(), None, "no run had one");
        turns.cut(2);
        assert_eq!(turns.take(), Some(0));
        turns.cut(1);
        assert_eq!(turns.take(), None);
    }

    #[test]
    fn a_longer_run_that_nobody_cut_has_the_way_gone_on() {
        let mut turns = Turns::new(1, 0);
        let side_by_side: Vec<_> = (0..4).filter_map(|_| turns.take()).collect();
        assert_eq!(side_by_side, [0, 1, 2, 3]);
        turns.cut(1);
        turns.uncut(1, 1);
        turns.uncut(2, 2);
        turns.uncut(3, 3);
        let mut again: Vec<_> = std::iter::from_fn(|| turns.take()).collect();
        again.sort_unstable();
        assert_eq!(again, [1, 2]);
    }

    #[test]
    fn a_point_that_never_comes_again_is_left() {
        let mut turns = Turns::new(1, 0);
        let _first = turns.take();
        let _second = turns.take();
        turns.cut(2);
        turns.uncut(0, 0);
        let mut again = 0;
        while let Some(point) = turns.take() {
            assert_eq!(point, 0);
            turns.uncut(point, 0);
            again += 1;
        }
        assert_eq!(again, UNCUT_MAX - 1);
        assert_eq!(turns.gone(), (UNCUT_MAX - 1, vec![0]));
    }

    #[test]
    fn what_was_given_up_has_no_turns() {
        let mut turns = Turns::new(1, 0);
        turns.give_up();
        assert_eq!(turns.take(), None);
    }
}
