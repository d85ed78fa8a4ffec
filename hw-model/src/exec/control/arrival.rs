//! What a warp tells its block at a barrier, and what the block answers.
//!
//! Rule: a warp has moved behind the barrier when it reports its arrival; the answer lets its lanes go on.

/// Lanes that come to a block barrier.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// Barrier number, below 16.
    pub(crate) id: u8,
    /// Threads that complete it, where the instruction says.
    pub(crate) threads: Option<u32>,
    /// Lanes that arrive.
    pub(crate) lanes: u32,
    /// Those whose predicate holds, for a reduction.
    pub(crate) votes: u32,
    /// Lanes of the warp that live.
    pub(crate) alive: u32,
    /// No lane of the warp can go on before a barrier completes.
    pub(crate) stalled: bool,
}

/// Barriers that have just completed, and what their reductions found.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Released {
    pub(crate) ids: u16,
    pub(crate) votes: [Tally; 16],
}

/// A block-wide reduction of predicates.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) yes: u32,
    pub(crate) all: bool,
}
