//! Special functions: European option prices in closed form (F. Black, M. Scholes, 1973).
//!
//! The reference works in `f64` and takes the normal distribution from its Taylor series, not from the kernel's
//! rational approximation. The tolerance is 5·10⁻⁴ of a currency unit for prices up to 60: the fast logarithm's
//! absolute error of 2⁻²¹ (PTX ISA, `lg2.approx`) grows by 1/(σ√T) ≤ 9 in d₁ and by S φ(d) ≤ 20 in the price, which
//! makes 10⁻⁴; the rest is room for the other approximations.

use super::{floats, output, random_f32};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::{Bounded, Expected};
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "black_scholes",
    summary: "special functions: exponentials, logarithms, roots and divisions",
    class: Class::Memory,
    entry: "black_scholes",
    ptx: include_str!("../../ptx/black_scholes.ptx"),
    elements: "options",
    rounds: None,
    limits: Limits::of(1 << 28, 0),
    sizes: [(700, 0), (25_000, 0), (600_000, 0)],
    build,
};

const THREADS: u32 = 128;
const RATE: f32 = 0.03;
const VOLATILITY: f32 = 0.25;
const TOLERANCE: f64 = 5e-4;

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let n = params.elements as usize;
    WORKLOAD.launch(
        params,
        [params.elements.div_ceil(THREADS), 1, 1],
        [THREADS, 1, 1],
        vec![
            random_f32(&mut prng, n, 10.0, 50.0),
            random_f32(&mut prng, n, 10.0, 60.0),
            random_f32(&mut prng, n, 0.2, 5.0),
            output(n),
            output(n),
            Arg::F32(RATE),
            Arg::F32(VOLATILITY),
            Arg::U32(params.elements),
        ],
        reference,
    )
}

fn reference(_: &Params, args: &[Arg]) -> Vec<Expected> {
    let (rate, volatility) = (f64::from(RATE), f64::from(VOLATILITY));
    let (strikes, years) = (floats(&args[1]), floats(&args[2]));
    let mut calls = Vec::with_capacity(strikes.len());
    let mut puts = Vec::with_capacity(strikes.len());
    for ((spot, strike), years) in floats(&args[0]).into_iter().zip(strikes).zip(years) {
        let (spot, strike, years) = (f64::from(spot), f64::from(strike), f64::from(years));
        let spread = volatility * years.sqrt();
        let d1 = ((spot / strike).ln() + (rate + volatility * volatility / 2.0) * years) / spread;
        let discounted = strike * (-rate * years).exp();
        let call = spot * normal(d1) - discounted * normal(d1 - spread);
        calls.push(Bounded::within(call, TOLERANCE));
        // The put follows from put-call parity, where the kernel prices it by itself.
        puts.push(Bounded::within(call + discounted - spot, TOLERANCE));
    }
    vec![Expected::F32(calls), Expected::F32(puts)]
}

/// Returns the cumulative normal distribution: Φ(x) = ½ + φ(x) (x + x³/3 + x⁵/(3·5) + …)
/// (G. Marsaglia, "Evaluating the normal distribution", Journal of Statistical Software 11, 2004).
fn normal(x: f64) -> f64 {
    if x.abs() > 8.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut term, mut sum, mut divisor) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        divisor += 2.0;
        term *= x * x / divisor;
        sum += term;
    }
    0.5 + sum * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

#[cfg(test)]
mod tests {
    use super::normal;

    /// Compares with tabulated values of Φ.
    #[test]
    fn normal_distribution() {
        for (x, want) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_543),
            (-1.96, 0.024_997_895_148_220),
            (3.0, 0.998_650_101_968_370),
        ] {
            assert!((normal(x) - want).abs() < 1e-14, "{x}: {}", normal(x));
        }
    }
}
