//! How the performance of kernels grows with their blocks on an SM, as far as it was sampled (Warped-Slicer, section
//! IV-A).
//!
//! Rules: a point that was sampled holds until its row is forgotten; a point between two that were sampled lies on the
//! line between them, one before the first on the line from nothing, and one behind the last is like the last. A
//! sampling that yields nothing to go by has failed, and its row stays unknown.

use crate::ids::RowId;

/// Curves of rows. Storage of forgotten ones is used again.
#[derive(Debug, Default)]
pub struct Curves {
    curves: Vec<Curve>,
}

/// The curve of a row.
#[derive(Debug)]
struct Curve {
    /// None while its storage is free.
    row: Option<RowId>,
    /// With 1, 2, … blocks: what was sampled.
    points: Vec<Option<f64>>,
    /// The same with what follows from it; empty until [`Curves::complete`], or where it failed.
    whole: Vec<f64>,
    /// Its sampling ended without a point above zero.
    has_failed: bool,
}

impl Curves {
    /// Begins the curve of a row that may have `most` blocks on an SM, anew if there is one.
    pub fn begin(&mut self, row: RowId, most: u16) {
        self.forget(row);
        let free = self.curves.iter().position(|curve| curve.row.is_none());
        let at = free.unwrap_or_else(|| {
            self.curves.push(Curve {
                row: None,
                points: Vec::new(),
                whole: Vec::new(),
                has_failed: false,
            });
            self.curves.len() - 1
        });
        let curve = &mut self.curves[at];
        curve.row = Some(row);
        curve.points.clear();
        curve.points.resize(most.into(), None);
        curve.whole.clear();
        curve.has_failed = false;
    }

    /// Returns whether the curve of a row has begun.
    #[must_use]
    pub fn has_begun(&self, row: RowId) -> bool {
        self.find(row).is_some()
    }

    /// Forgets the curve of a row.
    pub fn forget(&mut self, row: RowId) {
        let own = self.curves.iter_mut().find(|curve| curve.row == Some(row));
        if let Some(curve) = own {
            curve.row = None;
        }
    }

    /// Forgets all curves.
    pub fn clear(&mut self) {
        self.curves.iter_mut().for_each(|curve| curve.row = None);
    }

    /// Takes a point of a curve that has begun, unless there is one already.
    pub fn set(&mut self, row: RowId, blocks: u16, performance: f64) {
        let own = self.curves.iter_mut().find(|curve| curve.row == Some(row));
        let place = usize::from(blocks).checked_sub(1);
        let point = own
            .zip(place)
            .and_then(|(curve, at)| curve.points.get_mut(at));
        if let Some(point) = point {
            point.get_or_insert(performance);
        }
    }

    /// Returns whether a point was sampled.
    #[must_use]
    pub fn has(&self, row: RowId, blocks: u16) -> bool {
        let place = usize::from(blocks).checked_sub(1);
        let point = self.find(row).zip(place);
        point.is_some_and(|(curve, at)| curve.points.get(at).is_some_and(Option::is_some))
    }

    /// Ends the sampling of a row: what was not sampled follows from what was. It fails without a point above zero.
    pub fn complete(&mut self, row: RowId) {
        let Some(curve) = self.curves.iter_mut().find(|curve| curve.row == Some(row)) else {
            return;
        };
        curve.whole.clear();
        let is_above_zero =
            |point: &Option<f64>| point.is_some_and(|performance| performance > 0.0);
        curve.has_failed = !curve.points.iter().any(is_above_zero);
        if curve.has_failed {
            return;
        }
        let (mut before, mut from) = (0.0, 0);
        for (blocks, point) in (1_u16..).zip(&curve.points) {
            if let Some(performance) = *point {
                let step = (performance - before) / f64::from(blocks - from);
                let between = (1..=blocks - from).map(|n| before + step * f64::from(n));
                curve.whole.extend(between);
                (before, from) = (performance, blocks);
            }
        }
        curve.whole.resize(curve.points.len(), before);
    }

    /// Returns the performance of a row with 1, 2, … blocks; nothing while it is not complete.
    #[must_use]
    pub fn of(&self, row: RowId) -> &[f64] {
        self.find(row).map_or(&[], |curve| &curve.whole)
    }

    /// Returns whether the curve of a row is known.
    #[must_use]
    pub fn is_complete(&self, row: RowId) -> bool {
        !self.of(row).is_empty()
    }

    /// Returns whether the sampling of a row ended and yielded nothing.
    #[must_use]
    pub fn has_failed(&self, row: RowId) -> bool {
        self.find(row).is_some_and(|curve| curve.has_failed)
    }

    /// Forgets the rows whose sampling failed.
    pub fn forget_failed(&mut self) {
        let failed = self.curves.iter_mut().filter(|curve| curve.has_failed);
        failed.for_each(|curve| curve.row = None);
    }

    fn find(&self, row: RowId) -> Option<&Curve> {
        self.curves.iter().find(|curve| curve.row == Some(row))
    }
}

#[cfg(test)]
mod tests {
    use super::Curves;
    use crate::ids::RowId;

    #[test]
    fn what_was_not_sampled_follows_from_what_was() {
        let mut curves = Curves::default();
        let row = RowId(7);
        curves.begin(row, 7);
        assert!(curves.of(row).is_empty() && !curves.is_complete(row));
        curves.set(row, 2, 1.0);
        curves.set(row, 5, 4.0);
        curves.set(row, 5, 9.0);
        curves.set(row, 0, 9.0);
        curves.set(row, 8, 9.0);
        assert!(curves.has(row, 2) && !curves.has(row, 3) && !curves.has(RowId(0), 2));
        curves.complete(row);
        assert_eq!(curves.of(row), [0.5, 1.0, 2.0, 3.0, 4.0, 4.0, 4.0]);
    }

    #[test]
    fn a_curve_without_a_point_above_zero_has_failed_and_a_forgotten_one_is_none() {
        let mut curves = Curves::default();
        for points in [&[][..], &[(2, 0.0)]] {
            curves.begin(RowId(1), 3);
            for (blocks, performance) in points {
                curves.set(RowId(1), *blocks, *performance);
            }
            assert!(!curves.has_failed(RowId(1)), "it has not ended");
            curves.complete(RowId(1));
            assert!(curves.has_failed(RowId(1)) && !curves.is_complete(RowId(1)));
            assert!(curves.of(RowId(1)).is_empty());
        }
        curves.forget_failed();
        assert!(!curves.has_begun(RowId(1)) && !curves.has_failed(RowId(1)));
        curves.begin(RowId(2), 1);
        curves.set(RowId(2), 1, 2.0);
        curves.complete(RowId(2));
        assert_eq!(curves.of(RowId(2)), [2.0]);
        assert!(curves.of(RowId(1)).is_empty());
    }
}
