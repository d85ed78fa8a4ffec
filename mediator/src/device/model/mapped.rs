//! Where tenants' buffers stand in device memory that kernels reach.
//!
//! Rule: a buffer stands there until its place is freed, also when it is not registered any more: copies under way that
//! name it find it there.

use crate::device::{BufferId, DomainId};
use std::collections::{BTreeMap, HashMap};

/// Places by buffer, and buffers by place: domain and first address.
#[derive(Debug, Default)]
pub(super) struct MappedBuffers {
    places: HashMap<u32, (DomainId, u64)>,
    buffers: BTreeMap<(u32, u64), u32>,
}

impl MappedBuffers {
    /// Returns where a buffer stands.
    pub(super) fn place_of(&self, buffer: BufferId) -> Option<(DomainId, u64)> {
        self.places.get(&buffer.0).copied()
    }

    /// Takes note that a buffer stands at a place that no other has.
    pub(super) fn insert(&mut self, buffer: BufferId, domain: DomainId, address: u64) {
        self.places.insert(buffer.0, (domain, address));
        self.buffers.insert((domain.0, address), buffer.0);
    }

    /// Forgets what stands at a place.
    pub(super) fn remove(&mut self, domain: DomainId, address: u64) {
        if let Some(buffer) = self.buffers.remove(&(domain.0, address)) {
            self.places.remove(&buffer);
        }
    }

    /// Forgets what stands in a domain.
    pub(super) fn remove_all(&mut self, domain: DomainId) {
        let all = (domain.0, 0)..=(domain.0, u64::MAX);
        let gone: Vec<u64> = self.buffers.range(all).map(|((_, at), _)| *at).collect();
        for address in gone {
            self.remove(domain, address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BufferId, DomainId, MappedBuffers};

    #[test]
    fn what_stands_somewhere_goes_with_its_place_or_its_domain() {
        let mut mapped = MappedBuffers::default();
        let [one, two] = [DomainId(1), DomainId(2)];
        for (number, domain, address) in [(1, one, 0), (2, one, u64::MAX), (3, two, 0), (4, one, 7)]
        {
            mapped.insert(BufferId(number), domain, address);
        }
        assert_eq!(mapped.place_of(BufferId(2)), Some((one, u64::MAX)));
        mapped.remove(one, 7);
        mapped.remove(two, 7);
        assert_eq!(mapped.place_of(BufferId(4)), None);
        mapped.remove_all(one);
        let left = [1, 2, 3].map(|number| mapped.place_of(BufferId(number)));
        assert_eq!(left, [None, None, Some((two, 0))]);
        assert_eq!((mapped.places.len(), mapped.buffers.len()), (1, 1));
    }
}
