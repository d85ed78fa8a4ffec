//! The `fence` form: every address confined to the tenant's reservation (DESIGN «fence»).

/// No allocation of a reservation lies within this many bytes of either end, and as many bytes beyond either end
/// map a sink, too; so a fenced base may have an immediate offset of up to this size added.
pub const GUARD_BYTES: u64 = 16 << 20;
