//! The data plane: submission and completion rings in one sealed memfd.
//!
//! The mediator makes the memory ([`host::HostRings`]), the tenant maps it
//! ([`client::ClientRings`]). Each queue has one producer and one consumer
//! ([`queue`]); who may write which word is listed in [`layout`]. Either end
//! may fall asleep: [`gridmux_sync::park`] holds the protocol that never loses
//! a wake-up.
//!
//! Who trusts whom: the mediator trusts nothing in this memory. It keeps its
//! own copy of every index it writes, bounds every index it reads, copies an
//! entry once and looks at the copy. The tenant believes the mediator's
//! contents, but still bounds its indices.

#[cfg(not(loom))]
mod barrier;
#[cfg(not(loom))]
pub mod client;
pub mod entry;
#[cfg(not(loom))]
mod futex;
#[cfg(not(loom))]
pub mod host;
pub mod layout;
#[cfg(not(loom))]
mod map;
pub mod queue;

pub use entry::{
    BadEntry, CompletionEntry, CompletionStatus, Copy, DeviceCopy, Launch, Memset, Operation,
    SubmissionEntry, Width,
};
pub use layout::{RELEASE_STREAMS, RingLayout};

use thiserror::Error;

/// Errors of the rings.
#[derive(Debug, Error)]
pub enum RingError {
    /// The shape of the rings makes no sense.
    #[error("ring layout refused: {0}")]
    Layout(#[from] layout::LayoutError),
    /// The memory could not be made, sealed or mapped.
    #[error("ring memory: {0}; check RLIMIT_NOFILE and the memory limit")]
    Memory(#[from] std::io::Error),
    /// The memory handed over is not what it claims to be.
    #[error("ring memory refused: {0}")]
    Refused(#[from] crate::memory::MemoryError),
    /// The peer wrote indices that no honest peer can write.
    #[error("the peer corrupted the ring: {0}; the channel must be closed")]
    Corrupt(#[from] queue::Corrupt),
    /// The peer closed the rings.
    #[error("the mediator closed the channel: {0:?}; reconnect")]
    Closed(HostState),
    /// Arguments that lie outside the argument area or are misaligned.
    #[error(
        "arguments at {offset}+{len} are outside the argument area of {area} bytes or not 8-byte aligned"
    )]
    Arguments {
        /// Byte offset in the argument area.
        offset: u32,
        /// Length in bytes.
        len: u32,
        /// Size of the argument area in bytes.
        area: u32,
    },
}

/// Why an entry was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PushError {
    /// There is no room now: the peer has not taken what was written before.
    #[error("the ring is full")]
    Full,
    /// The arguments would not fit into an empty argument area.
    #[error("{0} bytes of kernel parameters are more than the channel can carry")]
    ArgumentsTooLarge(usize),
    /// The peer wrote indices that no honest peer can write.
    #[error("the peer corrupted the ring: {0}; the channel must be closed")]
    Corrupt(#[from] queue::Corrupt),
}

/// State of the channel as the mediator tells it, in a word that only the mediator writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostState {
    /// Submissions are served.
    Open,
    /// The device failed: everything on it is lost; reconnect.
    DeviceLost,
    /// The mediator cut this channel.
    Closed,
    /// The client's tenant is configured no more.
    Removed,
    /// The service was stopped by its operator.
    Stopped,
}

impl HostState {
    pub(crate) fn from_raw(raw: u32) -> Self {
        match raw {
            0 => Self::Open,
            1 => Self::DeviceLost,
            3 => Self::Stopped,
            4 => Self::Removed,
            _ => Self::Closed,
        }
    }

    pub(crate) fn to_raw(self) -> u32 {
        match self {
            Self::Open => 0,
            Self::DeviceLost => 1,
            Self::Closed => 2,
            Self::Stopped => 3,
            Self::Removed => 4,
        }
    }
}

/// What the tenant says it is doing; the virtual clock of a modelled device
/// holds only while a tenant is [`TenantState::Running`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantState {
    /// It was handed a completion, or submitted, and will go on at once.
    Running,
    /// It consumed every completion and waits for the next one.
    Waiting,
    /// It spends host time of its own; nothing waits for it.
    Thinking,
}

impl TenantState {
    /// Packs the state with the count of completions consumed when it was
    /// written, so that both are read in one load: the low two bits are the
    /// state, the rest the count modulo 2^62.
    pub(crate) fn pack(self, consumed: u64) -> u64 {
        let raw = match self {
            Self::Thinking => 0,
            Self::Running => 1,
            Self::Waiting => 2,
        };
        (consumed << 2) | raw
    }

    /// Reads a packed word; any unknown state counts as running, and waiting
    /// counts only if every completion `pushed` so far was consumed.
    pub(crate) fn unpack(word: u64, pushed: u64) -> Self {
        match word & 3 {
            0 => Self::Thinking,
            2 if word >> 2 == (pushed << 2) >> 2 => Self::Waiting,
            _ => Self::Running,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HostState;
    use std::collections::BTreeSet;

    /// Returns the state that is listed behind this one; none behind the last. A state that is added does not compile
    /// until it is listed here.
    fn next(state: HostState) -> Option<HostState> {
        match state {
            HostState::Open => Some(HostState::DeviceLost),
            HostState::DeviceLost => Some(HostState::Closed),
            HostState::Closed => Some(HostState::Removed),
            HostState::Removed => Some(HostState::Stopped),
            HostState::Stopped => None,
        }
    }

    #[test]
    fn every_host_state_has_a_word_of_its_own_that_says_it() {
        let states: Vec<HostState> =
            std::iter::successors(Some(HostState::Open), |state| next(*state)).collect();
        for state in &states {
            assert_eq!(HostState::from_raw(state.to_raw()), *state);
        }
        let words: BTreeSet<u32> = states.iter().map(|state| state.to_raw()).collect();
        assert_eq!(words.len(), states.len(), "{words:?}");
        // Fresh memory is an open channel, and what no mediator of this version writes a closed one.
        assert_eq!(HostState::from_raw(0), HostState::Open);
        let unknown = words.last().unwrap() + 1;
        for word in [unknown, u32::MAX] {
            assert_eq!(HostState::from_raw(word), HostState::Closed);
        }
    }
}
