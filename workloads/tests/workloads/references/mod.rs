//! The references against the kernels' own arithmetic: each kernel is written a second time here, in single precision
//! and in the kernel's order, as plain loops over its threads. The reference must accept its result, and must refuse
//! it once any one value is changed.

mod floats;
mod integers;

use gridmux_workloads::{Arg, Case, Size, by_name, workloads};

fn bytes(arg: &Arg) -> &[u8] {
    match arg {
        Arg::Buffer { bytes, .. } => bytes,
        other => panic!("{other:?} is no buffer"),
    }
}

fn f32s(arg: &Arg) -> Vec<f32> {
    bytes(arg)
        .as_chunks()
        .0
        .iter()
        .map(|c| f32::from_le_bytes(*c))
        .collect()
}

fn u32s(arg: &Arg) -> Vec<u32> {
    bytes(arg)
        .as_chunks()
        .0
        .iter()
        .map(|c| u32::from_le_bytes(*c))
        .collect()
}

fn u64s(arg: &Arg) -> Vec<u64> {
    bytes(arg)
        .as_chunks()
        .0
        .iter()
        .map(|c| u64::from_le_bytes(*c))
        .collect()
}

fn le(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn vecadd(case: &Case) -> Vec<Vec<u8>> {
    let sums: Vec<f32> = f32s(&case.args[0])
        .iter()
        .zip(f32s(&case.args[1]))
        .map(|(a, b)| a + b)
        .collect();
    vec![le(&sums)]
}

fn matmul(case: &Case) -> Vec<Vec<u8>> {
    let n = case.params.elements as usize;
    let (a, b) = (f32s(&case.args[0]), f32s(&case.args[1]));
    let dot = |cell: usize| {
        (0..n).fold(0.0f32, |sum, k| {
            a[cell / n * n + k].mul_add(b[k * n + cell % n], sum)
        })
    };
    vec![le(&(0..n * n).map(dot).collect::<Vec<_>>())]
}

/// Returns the kernel's rational approximation of the normal distribution.
fn cumulative_normal(x: f32) -> f32 {
    let t = 1.0 / 0.231_641_9_f32.mul_add(x.abs(), 1.0);
    let series = [
        1.330_274_4_f32,
        -1.821_256,
        1.781_477_9,
        -0.356_563_8,
        0.319_381_54,
    ]
    .into_iter()
    .reduce(|sum, coefficient| sum.mul_add(t, coefficient))
    .expect("five coefficients");
    let tail = 0.398_942_3 * (-0.5 * x * x).exp() * series * t;
    if x > 0.0 { 1.0 - tail } else { tail }
}

fn black_scholes(case: &Case) -> Vec<Vec<u8>> {
    let (Arg::F32(rate), Arg::F32(volatility)) = (&case.args[5], &case.args[6]) else {
        panic!("parameters 5 and 6 are floats");
    };
    let (spots, strikes, years) = (
        f32s(&case.args[0]),
        f32s(&case.args[1]),
        f32s(&case.args[2]),
    );
    let price = |i: usize| {
        let (s, k, t) = (spots[i], strikes[i], years[i]);
        let spread = volatility * t.sqrt();
        let d1 = ((s / k).ln() + (0.5 * volatility * volatility + rate) * t) / spread;
        let discounted = k * (-rate * t).exp();
        let (n1, n2) = (cumulative_normal(d1), cumulative_normal(d1 - spread));
        (
            s * n1 - discounted * n2,
            discounted * (1.0 - n2) - s * (1.0 - n1),
        )
    };
    let (calls, puts): (Vec<f32>, Vec<f32>) = (0..spots.len()).map(price).unzip();
    vec![le(&calls), le(&puts)]
}

fn stencil3d(case: &Case) -> Vec<Vec<u8>> {
    let extent: Vec<usize> = case.args[4..]
        .iter()
        .map(|arg| match arg {
            Arg::U32(extent) => *extent as usize,
            other => panic!("{other:?} is no extent"),
        })
        .collect();
    let (nx, ny, nz) = (extent[0], extent[1], extent[2]);
    let from = f32s(&case.args[0]);
    let cell = |i: usize| {
        let (x, y, z) = (i % nx, i / nx % ny, i / nx / ny);
        let inside =
            (1..nx - 1).contains(&x) && (1..ny - 1).contains(&y) && (1..nz - 1).contains(&z);
        if !inside {
            return from[i];
        }
        let plane = nx * ny;
        let around = (from[i - 1] + from[i + 1])
            + (from[i - nx] + from[i + nx])
            + (from[i - plane] + from[i + plane]);
        0.1f32.mul_add(around, 0.4 * from[i])
    };
    vec![le(&(0..nx * ny * nz).map(cell).collect::<Vec<_>>())]
}

fn reduction(case: &Case) -> Vec<Vec<u8>> {
    let total = u32s(&case.args[0])
        .into_iter()
        .fold(u32s(&case.args[1])[0], u32::wrapping_add);
    vec![total.to_le_bytes().to_vec()]
}

fn spmv(case: &Case) -> Vec<Vec<u8>> {
    let (starts, columns) = (u32s(&case.args[0]), u32s(&case.args[1]));
    let (values, x) = (f32s(&case.args[2]), f32s(&case.args[3]));
    let row = |ends: &[u32]| {
        (ends[0] as usize..ends[1] as usize).fold(0.0f32, |sum, i| {
            values[i].mul_add(x[columns[i] as usize], sum)
        })
    };
    vec![le(&starts.windows(2).map(row).collect::<Vec<_>>())]
}

fn fma_loop(case: &Case) -> Vec<Vec<u8>> {
    let chain = |start: f32| (0..case.params.rounds * 8).fold(start, |v, _| v.mul_add(0.999, 0.5));
    let thread = |i: u64| {
        (0..8u8)
            .map(|c| chain(f32::from(c) + (i % 1024) as f32))
            .sum::<f32>()
    };
    vec![le(&(0..case.threads()).map(thread).collect::<Vec<_>>())]
}

fn pointer_chase(case: &Case) -> Vec<Vec<u8>> {
    let (links, cursors) = (u64s(&case.args[0]), u64s(&case.args[1]));
    let Arg::U32(hops) = case.args[2] else {
        panic!("parameter 2 is the number of hops");
    };
    let walk = |start: u64| {
        (0..hops).fold(start, |at, _| {
            links[usize::try_from(at / 8).expect("an offset in the ring")]
        })
    };
    vec![
        cursors
            .into_iter()
            .flat_map(|start| walk(start).to_le_bytes())
            .collect(),
    ]
}

/// Pairs the table with the second implementations.
fn run(case: &Case) -> Vec<Vec<u8>> {
    match case.workload {
        "vecadd" => vecadd(case),
        "matmul" => matmul(case),
        "black_scholes" => black_scholes(case),
        "stencil3d" => stencil3d(case),
        "reduction" => reduction(case),
        "spmv" => spmv(case),
        "fma_loop" => fma_loop(case),
        "pointer_chase" => pointer_chase(case),
        "sad" => integers::sad(case),
        "tea" => integers::tea(case),
        "mri_q" => floats::mri_q(case),
        "sha1" => integers::sha1(case),
        "aes" => integers::aes(case),
        "histogram" => integers::histogram(case),
        "lbm" => floats::lbm(case),
        "nlm" => floats::nlm(case),
        "raytrace" => floats::raytrace(case),
        "cutcp" => floats::cutcp(case),
        "hotspot" => floats::hotspot(case),
        "bfs" => integers::bfs(case),
        other => panic!("{other} has no second implementation here: write one"),
    }
}

#[test]
fn references_accept_the_kernels_arithmetic() {
    for workload in workloads() {
        for size in [Size::Tiny, Size::Small] {
            for seed in 1..4 {
                let case = workload.case(size, seed);
                if let Err(mismatch) = case.verify(&run(&case)) {
                    panic!("{} {size} seed {seed}: {mismatch}", workload.name);
                }
            }
        }
    }
}

#[test]
fn references_refuse_one_changed_value() {
    for workload in workloads() {
        let case = workload.case(Size::Tiny, 9);
        let right = run(&case);
        for output in 0..right.len() {
            let mut wrong = right.clone();
            let last_value = wrong[output].len() - 4;
            // Exponent, sign or a high bit: a difference that no tolerance covers.
            wrong[output][last_value + 3] ^= 0x41;
            case.verify(&wrong).expect_err(workload.name);
        }
    }
}

/// Checks that a kernel which drops the last product of each row does not pass the tolerance of the dot product.
#[test]
fn a_dropped_product_is_found() {
    let case = by_name("matmul")
        .expect("in the table")
        .case(Size::Small, 2);
    let n = case.params.elements as usize;
    let (a, b) = (f32s(&case.args[0]), f32s(&case.args[1]));
    let short: Vec<f32> = (0..n * n)
        .map(|cell| {
            (0..n - 1).fold(0.0f32, |sum, k| {
                a[cell / n * n + k].mul_add(b[k * n + cell % n], sum)
            })
        })
        .collect();
    case.verify(&[le(&short)])
        .expect_err("one product in each row is missing");
}
