//! Which parts of reserved addresses are accessible.

use parking_lot::RwLock;

/// The accessible parts of a reservation: first bytes and ends, by offset, without neighbours that touch.
#[derive(Debug, Default)]
pub struct Extents(RwLock<Vec<(u64, u64)>>);

impl Extents {
    /// Makes these the accessible parts.
    pub fn set(&self, extents: Vec<(u64, u64)>) {
        *self.0.write() = extents;
    }

    /// Returns whether all of some bytes are accessible.
    #[must_use]
    pub fn covers(&self, offset: u64, len: u64) -> bool {
        let Some(end) = offset.checked_add(len) else {
            return false;
        };
        let extents = self.0.read();
        extents
            .iter()
            .any(|(first, last)| *first <= offset && end <= *last)
    }
}

#[cfg(test)]
mod tests {
    use super::Extents;

    #[test]
    fn bytes_are_covered_by_one_extent_or_not_at_all() {
        let extents = Extents::default();
        assert!(!extents.covers(0, 1));
        extents.set(vec![(10, 20), (30, 40)]);
        assert!(extents.covers(10, 10) && extents.covers(39, 1) && extents.covers(30, 0));
        for (offset, len) in [(9, 2), (19, 2), (10, 30), (20, 1), (40, 1), (30, u64::MAX)] {
            assert!(!extents.covers(offset, len), "{offset} {len}");
        }
    }
}
