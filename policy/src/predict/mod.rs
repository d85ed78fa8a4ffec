//! How long a kernel runs: predictions from the structure of its grid (SRTF, sections 3 and 4).
//!
//! A kernel alone runs in waves of as many blocks as reside, so its runtime follows from the duration of one block:
//! [`staircase`] (equation 1) before it runs, [`simple_slicing`] (equation 2) while it does. Execution is cut into
//! slices at every arrival and every end of a kernel, because residency and co-runners change there; within a slice the
//! duration of a block is taken as constant.
//!
//! [`PerSm`] keeps what the paper's hardware does, one duration for each kernel and SM; [`Durations`] pools them, which
//! is what policies use. [`slowdowns`] are what a schedule of predicted kernels leads to.
//!
//! Rule: predictions of nearly equal kernels change places all the time, so that a kernel keeps its place until another
//! one's remaining time is clearly less ([`takes_over`]).

pub mod co_run;
mod per_sm;
mod pooled;
pub mod slowdowns;

pub use per_sm::{PerSm, Slicing};
pub use pooled::Durations;

/// A kernel takes over from the present one if its remaining time is less than this part of that one's.
pub const HYSTERESIS: f64 = 0.9;

/// Returns the runtime of a kernel that runs `blocks` blocks of duration `t` on an SM that holds `resident` of them
/// (SRTF, equation 1).
#[must_use]
pub fn staircase(blocks: u64, resident: u64, t: f64) -> f64 {
    blocks.div_ceil(resident.max(1)) as f64 * t
}

/// Returns the runtime of a kernel that was active for so long and has `left` of its blocks to end (SRTF, equation 2).
#[must_use]
pub fn simple_slicing(active: f64, left: u64, resident: u64, t: f64) -> f64 {
    active + left as f64 * t / resident.max(1) as f64
}

/// Returns whether a kernel that needs `remaining` takes over from one that needs `present`.
#[must_use]
pub fn takes_over(remaining: f64, present: f64) -> bool {
    remaining < HYSTERESIS * present
}

#[cfg(test)]
mod tests {
    use super::{simple_slicing, staircase, takes_over};

    #[test]
    fn equations_by_hand() {
        assert!((simple_slicing(100.0, 30, 10, 50.0) - 250.0).abs() < 1e-9);
        // Figure 2: N = 3R with R = 4.
        assert!((staircase(12, 4, 50.0) - 150.0).abs() < 1e-9);
        assert!((staircase(13, 4, 50.0) - 200.0).abs() < 1e-9);
    }

    #[test]
    fn nearly_equal_kernels_keep_their_places() {
        assert!(!takes_over(95.0, 100.0) && !takes_over(100.0, 95.0));
        assert!(takes_over(85.0, 100.0));
    }
}
