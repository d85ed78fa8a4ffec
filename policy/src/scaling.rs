//! What an SM would issue with its equal share of the device's bandwidth, from what it issued beside SMs that used
//! another part (Warped-Slicer, section IV-A, equations 2 to 4).

use crate::readings::Counts;
use crate::shape::DeviceShape;
use crate::side_by_side::Point;

/// How a window's instructions per cycle are scaled for the bandwidth that other SMs used meanwhile, because their
/// numbers of blocks were others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scaling {
    /// To what an equal share of the device's bandwidth lets an SM issue, which is all that is left to it where all SMs
    /// run as many blocks: equation 3 with `B_scaled` the lesser of what the SM had and that share, and `phi_mem` 1
    /// where it is the share (equation 2). Nothing is scaled where the device's bandwidth is not known.
    #[default]
    Share,
    /// By equation 4 as it is printed, `psi = CTA_i / CTA_avg - 1`. That is the inverse of what equation 3 becomes with
    /// the paper's own premise, bandwidth in proportion to blocks: an SM with more blocks than the average has more
    /// than the share that is left to it where all have as many.
    Printed,
    /// Not at all.
    None,
}

impl Scaling {
    /// Returns the factor of a point's instructions per cycle, `1 + phi_mem psi` (equation 3). The misses of an
    /// instruction are taken to be as many whatever the number of blocks, as in the paper.
    #[must_use]
    pub fn factor(self, counts: &Counts, point: &Point, shape: &DeviceShape) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Printed => {
                let psi = f64::from(point.blocks) / point.mean - 1.0;
                1.0 + counts.memory_part() * psi
            }
            Self::Share => {
                let device = f64::from(shape.dram_bytes_per_kcycle) / 1000.0;
                let share = device / f64::from(shape.sms.max(1));
                let had = counts.dram_bytes_per_cycle();
                match share > 0.0 && had > share {
                    true => share / had,
                    false => 1.0,
                }
            }
        }
    }
}
