//! The least slice whose overhead is tolerable (section 4.1).
//!
//! Slices cost a launch each, and the time in which an SM waits for the next one. The least slice is the smallest
//! multiple of the number of SMs with which the kernel takes at most [`TOLERABLE`] longer than in one piece.

/// Overhead of slicing that is tolerable, as a part of the kernel's time in one piece (section 4.1: p = 2 %).
pub const TOLERABLE: f64 = 0.02;

/// Returns the overhead of slices of so many blocks, `Ts / Tns - 1` (section 5.2), if each slice costs `launch_ns`
/// beside the time that its waves of blocks take.
///
/// `resident` blocks are on the device at once, which last `block_ns` each.
#[must_use]
pub fn overhead(blocks: u64, resident: u64, block_ns: f64, launch_ns: f64) -> f64 {
    let waves = blocks as f64 / resident.max(1) as f64;
    let works = waves * block_ns;
    match works > 0.0 {
        true => launch_ns / works,
        false => f64::INFINITY,
    }
}

/// Returns the least slice in blocks: the smallest multiple of `sms` whose overhead is tolerable, `total` at most.
#[must_use]
pub fn least(sms: u16, total: u64, overhead: impl Fn(u64) -> f64) -> u64 {
    let each = u64::from(sms.max(1));
    let tolerable = |waves: &u64| overhead(waves * each) <= TOLERABLE;
    // Overheads fall with the size, so the first that is tolerable is found by halving.
    let (mut below, mut reached) = (0, total.div_ceil(each).max(1));
    if !tolerable(&reached) {
        return total;
    }
    while below + 1 < reached {
        let middle = below + (reached - below) / 2;
        match tolerable(&middle) {
            true => reached = middle,
            false => below = middle,
        }
    }
    (reached * each).min(total)
}

#[cfg(test)]
mod tests {
    use super::{least, overhead};

    #[test]
    fn slices_are_multiples_of_the_sms_and_cost_two_percent() {
        // 14 SMs of 4 blocks that last 100 us: a launch of 6 us is 2 % of three waves.
        let cost = |blocks| overhead(blocks, 56, 100_000.0, 6_000.0);
        assert!((cost(168) - 0.02).abs() < 1e-12);
        assert_eq!(least(14, 10_000, cost), 168);
        assert_eq!(least(14, 10_000, |_| 0.0), 14);
    }

    #[test]
    fn a_kernel_that_is_too_short_goes_in_one_piece() {
        let cost = |blocks| overhead(blocks, 56, 1_000.0, 6_000.0);
        assert_eq!(least(14, 500, cost), 500);
        assert_eq!(least(14, 5, |_| 0.0), 5);
    }

    #[test]
    fn nothing_to_run_has_a_result() {
        assert_eq!(least(14, 0, |_| 0.0), 0);
        assert_eq!(least(0, 7, |_| 0.0), 1);
        assert!(overhead(0, 0, 0.0, 0.0).is_infinite());
    }
}
