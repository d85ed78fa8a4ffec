//! How much longer a tenant's work takes than it would alone.

/// For how long a tenant was busy, and how long the same would have taken it alone, in nanoseconds.
///
/// Time in which no other tenant had a launch open is what it would have been alone. Of the rest, by HSM's arithmetic
/// (Zhao, Jahre and Eeckhout, ASPLOS 2020): a kernel progresses with the blocks that reside over the time that one
/// takes, so that its slowdown is the residency alone over that together, times a block's time together over that
/// alone. Residency alone is what a tenant could hold at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// It was busy.
    pub busy_ns: f64,
    /// It was busy and no other tenant had a launch open, or had had one just before.
    pub solo_ns: f64,
    /// There was company and its launches could not have begun then, alone or not.
    pub idle_ns: f64,
    /// What it could not have submitted sooner would have taken this long alone, however long its blocks take.
    pub submitting_ns: f64,
    /// The rest would have taken this long alone, if its blocks took as long.
    pub alone_ns: f64,
}

impl Pace {
    /// Returns how many times longer it took than alone, where a block alone takes `block_alone` of what it took in
    /// company; `None` before it was alone or any block ended in company.
    #[must_use]
    pub fn slowdown(&self, block_alone: f64) -> Option<f64> {
        let same_ns = self.idle_ns + self.solo_ns + self.submitting_ns;
        let alone_ns = self.alone_ns.mul_add(block_alone, same_ns);
        // Less than a nanosecond may be what rounding left.
        (self.alone_ns + self.submitting_ns + self.solo_ns >= 1.0).then(|| self.busy_ns / alone_ns)
    }
}
