//! Memory, modules and buffers that a client gave back and that its operations may still use.
//!
//! Rules: a release waits until a fence says that every operation admitted before it has ended; a client has one fence
//! under way at a time, and what is given back meanwhile waits for the next one. So a client costs the dispatcher one
//! fence, however much it gives back.

use crate::device::{BufferId, DeviceModuleId};
use gridmux_ptx::Kernel;
use std::sync::Arc;

/// One thing to be released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Release {
    /// Device memory.
    Memory {
        /// Its address.
        address: u64,
        /// Its size in bytes.
        bytes: u64,
    },
    /// An unloaded module.
    Module {
        /// Its handle.
        id: DeviceModuleId,
        /// Bytes of the host's memory that it takes.
        host_bytes: u64,
        /// Its kernels, kept so long that the dispatcher's handles are never the last ones.
        kernels: Vec<Arc<Kernel>>,
    },
    /// A buffer of the client's own memory.
    Buffer(BufferId),
    /// A texture or a surface, by its handle.
    Object(u64),
}

/// Releases in the order in which they were asked for.
#[derive(Debug, Default)]
pub(super) struct DeferredReleases {
    /// How many of them are buffers.
    buffers: usize,
    /// How many of them are textures and surfaces.
    objects: usize,
    /// Number of the newest fence.
    number: u64,
    /// Released when the fence under way is answered.
    fenced: Vec<Release>,
    /// Came after that fence was sent.
    waiting: Vec<Release>,
}

impl DeferredReleases {
    /// Returns how many releases wait.
    pub(super) fn len(&self) -> usize {
        self.fenced.len() + self.waiting.len()
    }

    /// Returns how many buffers wait.
    pub(super) fn buffers(&self) -> usize {
        self.buffers
    }

    /// Returns how many textures and surfaces wait.
    pub(super) fn objects(&self) -> usize {
        self.objects
    }

    /// Returns whether nothing is to be released.
    pub(super) fn is_empty(&self) -> bool {
        self.fenced.is_empty() && self.waiting.is_empty()
    }

    /// Returns everything that is to be released.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Release> {
        self.fenced.iter().chain(&self.waiting)
    }

    /// Returns how much device memory is to be released, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let bytes = |release: &Release| match release {
            Release::Memory { bytes, .. } => *bytes,
            Release::Module { .. } | Release::Buffer(_) | Release::Object(_) => 0,
        };
        self.iter().map(bytes).sum()
    }

    /// Adds a release; returns the number of the fence to send, unless one is under way.
    pub(super) fn add(&mut self, release: Release) -> Option<u64> {
        self.buffers += usize::from(matches!(release, Release::Buffer(_)));
        self.objects += usize::from(matches!(release, Release::Object(_)));
        self.waiting.push(release);
        self.next_fence()
    }

    /// Takes what the fence of that number lets go, and the number of the next fence to send, if there is more.
    pub(super) fn reached(&mut self, number: u64) -> (Vec<Release>, Option<u64>) {
        if number != self.number {
            return (Vec::new(), None);
        }
        let released = std::mem::take(&mut self.fenced);
        for release in &released {
            self.buffers -= usize::from(matches!(release, Release::Buffer(_)));
            self.objects -= usize::from(matches!(release, Release::Object(_)));
        }
        (released, self.next_fence())
    }

    fn next_fence(&mut self) -> Option<u64> {
        if !self.fenced.is_empty() || self.waiting.is_empty() {
            return None;
        }
        self.fenced = std::mem::take(&mut self.waiting);
        self.number += 1;
        Some(self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::{BufferId, DeferredReleases, Release};

    fn memory(address: u64) -> Release {
        Release::Memory { address, bytes: 10 }
    }

    #[test]
    fn what_comes_while_a_fence_is_under_way_waits_for_the_next_one() {
        let mut deferred = DeferredReleases::default();
        assert_eq!(deferred.add(memory(1)), Some(1));
        assert_eq!(deferred.add(memory(2)), None);
        assert_eq!(deferred.add(memory(3)), None);
        assert_eq!(deferred.memory_bytes(), 30);
        assert_eq!(deferred.reached(7), (Vec::new(), None));
        assert_eq!(
            deferred.reached(1),
            (vec![memory(1)], Some(2)),
            "the second fence covers both that came later"
        );
        assert_eq!(deferred.reached(2), (vec![memory(2), memory(3)], None));
        assert!(deferred.is_empty());
        assert_eq!(deferred.add(memory(4)), Some(3));
    }
    #[test]
    fn each_kind_is_counted_for_itself() {
        let mut deferred = DeferredReleases::default();
        deferred.add(memory(1));
        deferred.add(Release::Object(1));
        for number in 0..3 {
            deferred.add(Release::Buffer(BufferId(number)));
        }
        let counts =
            |deferred: &DeferredReleases| (deferred.len(), deferred.buffers(), deferred.objects());
        assert_eq!(counts(&deferred), (5, 3, 1));
        deferred.reached(1);
        assert_eq!(counts(&deferred), (4, 3, 1));
        deferred.reached(2);
        assert_eq!(counts(&deferred), (0, 0, 0));
    }
}
