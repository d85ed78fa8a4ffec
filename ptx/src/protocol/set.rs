//! The set: one kernel instance's counters, caps and slot masks in device memory.
//!
//! Little-endian 32-bit words throughout. Caps are bytes, four SMs to a word, because a stream's memory operations
//! write words; the masks follow the caps.

/// Next block to be taken.
pub const NEXT_AT: u32 = 0;
/// Blocks from here on are not to be taken now.
pub const LIMIT_AT: u32 = 4;
/// Blocks that have run to their end.
pub const DONE_AT: u32 = 8;
/// Workers that have been placed on an SM, admitted or not.
pub const PLACED_AT: u32 = 12;
/// Workers that the host has launched.
pub const LAUNCHED_AT: u32 = 16;
/// Bytes of the counters.
pub const COUNTERS_BYTES: u32 = 64;

/// Bytes of the caps of `sms` SMs, in whole words.
#[must_use]
pub const fn caps_bytes(sms: u32) -> u32 {
    sms.next_multiple_of(4)
}

/// Offset of the masks, one word per SM, from the first cap.
#[must_use]
pub const fn masks_at(sms: u32) -> u32 {
    caps_bytes(sms)
}

/// Bytes of a whole set.
#[must_use]
pub const fn set_bytes(sms: u32) -> u32 {
    COUNTERS_BYTES + caps_bytes(sms) + 4 * sms
}
