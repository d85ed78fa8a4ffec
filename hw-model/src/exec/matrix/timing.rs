//! How long a matrix product of a warp takes, by its shape and types.
//!
//! The multiply-adds of a product hold the unit at the rate of the factors' type. Along k it takes passes of
//! `pass_bits`, each of which adds to the sums of the one before it, so that passes add to the latency.
//! Rule: where a chip has no unit for a type, the single-precision units do its multiply-adds one by one.

use crate::config::{Pipeline, Pipelines, Tensor, TensorRates, WARP_LANES};
use crate::exec::op::Pipe;

/// Types of factors that have a rate of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Factor {
    F16,
    Tf32,
    F8,
    F64,
    Int8,
    Int4,
    Bits,
}

/// What one instruction of a warp multiplies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatrixWork {
    /// Multiply-adds.
    pub(crate) products: u32,
    /// Sums.
    pub(crate) results: u32,
    /// Bits along k.
    pub(super) k_bits: u32,
    pub(super) factor: Factor,
}

impl TensorRates {
    fn of(&self, factor: Factor) -> u32 {
        match factor {
            Factor::F16 => self.f16,
            Factor::Tf32 => self.tf32,
            Factor::F8 => self.f8,
            Factor::F64 => self.f64,
            Factor::Int8 => self.int8,
            Factor::Int4 => self.int4,
            Factor::Bits => self.bits,
        }
    }
}

impl MatrixWork {
    /// Returns the pipeline that does it, and its latency and interval there.
    pub(crate) fn timing(&self, p: &Pipelines) -> (Pipe, Pipeline) {
        let units = u32::from(p.units.tensor);
        match &p.tensor {
            Some(tensor) if units != 0 && tensor.rates.of(self.factor) != 0 => {
                (Pipe::Tensor, self.in_unit(tensor, units))
            }
            _ => (Pipe::Fp32, self.one_by_one(p)),
        }
    }

    fn in_unit(&self, tensor: &Tensor, units: u32) -> Pipeline {
        let rate = tensor.rates.of(self.factor);
        let multiplying = (self.products * units).div_ceil(rate);
        let along_k = self.k_bits.div_ceil(tensor.pass_bits);
        let side_by_side = self.results.div_ceil(tensor.pass_results);
        let interval = (tensor.setup * side_by_side + multiplying).max(1);
        // The last of those side by side begins when the others have begun.
        let begun = multiplying - multiplying / side_by_side;
        Pipeline {
            latency: tensor.latency + (along_k - 1) * tensor.pass_latency + begun,
            interval,
        }
    }

    fn one_by_one(&self, p: &Pipelines) -> Pipeline {
        let instructions = self.products.div_ceil(WARP_LANES);
        let interval = instructions * p.fp32.interval;
        Pipeline {
            latency: interval + p.fp32.latency,
            interval,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Factor, MatrixWork};
    use crate::GpuConfig;
    use crate::exec::Pipe;

    fn work([m, n, k]: [u32; 3], bits: u32, factor: Factor) -> MatrixWork {
        MatrixWork {
            products: m * n * k,
            results: m * n,
            k_bits: k * bits,
            factor,
        }
    }

    fn timing(gpu: &str, work: MatrixWork) -> (Pipe, u32, u32) {
        let config = GpuConfig::builtin(gpu).expect("built in");
        let (pipe, timing) = work.timing(&config.pipelines);
        (pipe, timing.latency, timing.interval)
    }

    #[test]
    fn twice_the_depth_takes_a_pass_more_and_twice_the_unit() {
        let (_, once, half) = timing("a100", work([16, 8, 8], 16, Factor::F16));
        let (_, twice, whole) = timing("a100", work([16, 8, 16], 16, Factor::F16));
        assert_eq!((half, whole), (4, 8));
        assert_eq!(twice - once, 8);
    }

    #[test]
    fn narrower_factors_go_deeper_in_the_same_time() {
        let halves = timing("a100", work([16, 8, 16], 16, Factor::F16));
        assert_eq!(halves, timing("a100", work([16, 8, 32], 8, Factor::Int8)));
        assert_eq!(halves, timing("a100", work([16, 8, 8], 32, Factor::Tf32)));
    }

    #[test]
    fn a_type_without_a_unit_is_left_to_single_precision() {
        let wanted = work([16, 8, 8], 32, Factor::Tf32);
        assert_eq!(timing("v100", wanted).0, Pipe::Fp32);
        assert_eq!(timing("a100", wanted).0, Pipe::Tensor);
        // 1024 multiply-adds are 32 instructions.
        assert_eq!(timing("gtx980", wanted), (Pipe::Fp32, 32 + 6, 32));
    }
}
