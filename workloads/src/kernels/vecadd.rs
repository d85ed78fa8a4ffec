//! Streaming: `sum = a + b`. The tolerance is zero, because one IEEE addition has one answer.

use super::{floats, output, random_f32};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::{Bounded, Expected};
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "vecadd",
    summary: "streaming: one addition for twelve bytes of memory traffic",
    class: Class::Memory,
    entry: "vecadd",
    ptx: include_str!("../../ptx/vecadd.ptx"),
    elements: "elements of each vector",
    rounds: None,
    limits: Limits::of(1 << 28, 0),
    sizes: [(3_000, 0), (100_000, 0), (2_500_000, 0)],
    build,
};

const THREADS: u32 = 256;

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let n = params.elements as usize;
    WORKLOAD.launch(
        params,
        [params.elements.div_ceil(THREADS), 1, 1],
        [THREADS, 1, 1],
        vec![
            random_f32(&mut prng, n, -1.0, 1.0),
            random_f32(&mut prng, n, -1.0, 1.0),
            output(n),
            Arg::U32(params.elements),
        ],
        reference,
    )
}

/// Returns the sum in `f64` rounded once: with 53 bits against 24 the double rounding is harmless.
fn reference(_: &Params, args: &[Arg]) -> Vec<Expected> {
    let sum = |(a, b): (f32, f32)| {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "rounding to single precision is meant"
        )]
        let rounded = (f64::from(a) + f64::from(b)) as f32;
        Bounded::exact(f64::from(rounded))
    };
    let pairs = floats(&args[0]).into_iter().zip(floats(&args[1]));
    vec![Expected::F32(pairs.map(sum).collect())]
}
