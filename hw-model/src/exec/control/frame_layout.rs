//! The layout of a function's frame on a thread's stack, as the compiler decides it and instructions use it.
//!
//! Rule: offsets are bytes from the frame's beginning; [`super::frame`] says what lies where.

/// What a function's own frame looks like to its instructions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FrameLayout {
    /// The function is a kernel, whose frame begins at offset 0.
    pub(crate) is_entry: bool,
    /// Offset of the results.
    pub(crate) returns_at: u32,
    /// End of the frame, where frames of callees begin.
    pub(crate) bytes: u32,
    /// Room that callees' parameters and results take behind it.
    pub(crate) outgoing_bytes: u32,
    /// A pair of registers holds what `malloc` and `free` take and give.
    pub(crate) uses_heap: bool,
    /// `alloca` moves the end of the frame, which then stands in a register.
    pub(crate) moves: bool,
}

impl FrameLayout {
    /// Returns how many registers a function keeps for itself: the frame pointer and, where it moves, the stack
    /// pointer.
    pub(crate) fn reserved(&self) -> u16 {
        self.scratch() + 2 * u16::from(self.uses_heap)
    }

    /// Returns the first register of the pair for `malloc` and `free`.
    pub(crate) fn scratch(&self) -> u16 {
        u16::from(!self.is_entry) + u16::from(self.moves)
    }

    /// Returns the register that holds the end of the frame where it moves.
    pub(crate) fn stack_pointer(&self) -> u16 {
        u16::from(!self.is_entry)
    }

    /// Returns the offset of results behind parameters.
    pub(crate) fn returns_at(params_bytes: u32) -> u32 {
        params_bytes
            .checked_next_multiple_of(16)
            .unwrap_or(u32::MAX)
    }
}
