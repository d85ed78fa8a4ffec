//! How much longer a tenant's work takes than it would alone.

/// For how long a tenant was busy, and how long the same would have taken it alone, in nanoseconds.
///
/// By HSM's arithmetic (Zhao, Jahre and Eeckhout, ASPLOS 2020): a kernel progresses with the blocks that reside over
/// the time that one takes, so that its slowdown is the residency alone over that together, times a block's time
/// together over that alone. Residency alone is what a tenant could hold at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// It was busy.
    pub busy_ns: f64,
    /// Its launches could not have begun then, alone or not.
    pub idle_ns: f64,
    /// The rest would have taken this long alone, if its blocks took as long.
    pub alone_ns: f64,
}

impl Pace {
    /// Returns how many times longer it took than alone, where a block alone takes `block_alone` of what it took;
    /// `None` before any block ended.
    #[must_use]
    pub fn slowdown(&self, block_alone: f64) -> Option<f64> {
        let alone_ns = self.alone_ns.mul_add(block_alone, self.idle_ns);
        (self.alone_ns > 0.0).then(|| self.busy_ns / alone_ns)
    }
}
