//! Floating point: arithmetic in both precisions, and approximate functions.

use super::{floats_32, floats_64, run, slices};
use gridmux_workloads::Prng;

/// Equal, both NaN counting as equal.
fn same_f32(got: u64, want: f32) -> bool {
    let got = f32::from_bits(got as u32);
    got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan())
}

pub(super) fn float_32(body: &str, want: impl Fn(f32, f32, f32) -> f32) {
    let inputs = floats_32();
    let got = run("b32", "f", "b32", "f", body, slices(&inputs));
    for (n, got) in got.iter().enumerate() {
        let [a, b, c] = [0, 1, 2].map(|k| f32::from_bits(inputs[k][n] as u32));
        let want = want(a, b, c);
        assert!(
            same_f32(*got, want),
            "{body} of {a:e}, {b:e}, {c:e}: {:e} instead of {want:e}",
            f32::from_bits(*got as u32)
        );
    }
}

fn ftz(v: f32) -> f32 {
    if v.is_subnormal() {
        0.0_f32.copysign(v)
    } else {
        v
    }
}

#[test]
fn single_precision() {
    // A double holds the exact product of two singles, and rounds a sum of two harmlessly (53 > 2 * 24 + 1 bits).
    float_32("add.rn.f32 %f0, %f1, %f2;", |a, b, _| {
        (f64::from(a) + f64::from(b)) as f32
    });
    float_32("sub.f32 %f0, %f1, %f2;", |a, b, _| {
        (f64::from(a) - f64::from(b)) as f32
    });
    float_32("mul.f32 %f0, %f1, %f2;", |a, b, _| {
        (f64::from(a) * f64::from(b)) as f32
    });
    float_32("mul.ftz.f32 %f0, %f1, %f2;", |a, b, _| {
        ftz((f64::from(ftz(a)) * f64::from(ftz(b))) as f32)
    });
    float_32("add.sat.f32 %f0, %f1, %f2;", |a, b, _| {
        let sum = f64::from(a) + f64::from(b);
        if sum.is_nan() {
            0.0
        } else {
            sum.clamp(0.0, 1.0) as f32 + 0.0
        }
    });
    float_32("fma.rn.f32 %f0, %f1, %f2, %f3;", f32::mul_add);
    float_32("div.rn.f32 %f0, %f1, %f2;", |a, b, _| {
        (f64::from(a) / f64::from(b)) as f32
    });
    float_32("sqrt.rn.f32 %f0, %f1;", |a, _, _| {
        f64::from(a).sqrt() as f32
    });
    float_32("rcp.rn.f32 %f0, %f1;", |a, _, _| {
        (1.0 / f64::from(a)) as f32
    });
    float_32("abs.f32 %f0, %f1;", |a, _, _| {
        f32::from_bits(a.to_bits() & 0x7fff_ffff)
    });
    float_32("neg.f32 %f0, %f1;", |a, _, _| {
        f32::from_bits(a.to_bits() ^ 0x8000_0000)
    });
    float_32("copysign.f32 %f0, %f1, %f2;", |a, b, _| {
        f32::from_bits(b.to_bits() & 0x7fff_ffff | a.to_bits() & 0x8000_0000)
    });
    let pick = |a: f32, b: f32, smaller: bool| match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b => {
            if a.is_sign_negative() == smaller {
                a
            } else {
                b
            }
        }
        _ => {
            if (a < b) == smaller {
                a
            } else {
                b
            }
        }
    };
    float_32("min.f32 %f0, %f1, %f2;", |a, b, _| pick(a, b, true));
    float_32("max.f32 %f0, %f1, %f2;", |a, b, _| pick(a, b, false));
}

#[test]
fn double_precision() {
    let run_64 = |body: &str, want: &dyn Fn(f64, f64, f64) -> f64| {
        let inputs = floats_64();
        let got = run("b64", "fd", "b64", "fd", body, slices(&inputs));
        for (n, got) in got.iter().enumerate() {
            let [a, b, c] = [0, 1, 2].map(|k| f64::from_bits(inputs[k][n]));
            let (got, want) = (f64::from_bits(*got), want(a, b, c));
            let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
            assert!(
                same,
                "{body} of {a:e}, {b:e}, {c:e}: {got:e} instead of {want:e}"
            );
        }
    };
    run_64("add.f64 %fd0, %fd1, %fd2;", &|a, b, _| a + b);
    run_64("mul.f64 %fd0, %fd1, %fd2;", &|a, b, _| a * b);
    run_64("fma.rn.f64 %fd0, %fd1, %fd2, %fd3;", &f64::mul_add);
    run_64("div.rn.f64 %fd0, %fd1, %fd2;", &|a, b, _| a / b);
    run_64("sqrt.rn.f64 %fd0, %fd1;", &|a, _, _| a.sqrt());
}

/// Largest error of an approximate function, as a multiple of what the ISA allows.
fn approximation(body: &str, exact: impl Fn(f64) -> f64, allowed: impl Fn(f64, f64) -> f64) {
    let mut prng = Prng::new(3);
    let values: Vec<u64> = (0..4000)
        .map(|_| u64::from(prng.f32_in(-6.0, 6.0).to_bits()))
        .collect();
    let got = run("b32", "f", "b32", "f", body, [&values, &values, &values]);
    for (value, got) in values.iter().zip(got) {
        let a = f64::from(f32::from_bits(*value as u32));
        let (got, want) = (f64::from(f32::from_bits(got as u32)), exact(a));
        if want.is_nan() {
            assert!(got.is_nan(), "{body} of {a}: {got}");
            continue;
        }
        let limit = allowed(a, want);
        assert!(
            (got - want).abs() <= limit,
            "{body} of {a}: {got} instead of {want} ± {limit}"
        );
    }
}

#[test]
fn approximations_stay_inside_the_isa_error() {
    let relative = |bits: i32| move |_: f64, want: f64| want.abs() * 2.0_f64.powi(bits);
    let absolute = |error: f64| move |_: f64, _: f64| error;
    approximation("ex2.approx.f32 %f0, %f1;", f64::exp2, relative(-22));
    approximation(
        "lg2.approx.f32 %f0, %f1;",
        |a| if a < 0.0 { f64::NAN } else { a.log2() },
        |_, want| 2.0_f64.powi(-22) * want.abs().max(1.0),
    );
    approximation(
        "sin.approx.f32 %f0, %f1;",
        f64::sin,
        absolute(2.0_f64.powf(-20.5)),
    );
    approximation(
        "cos.approx.f32 %f0, %f1;",
        f64::cos,
        absolute(2.0_f64.powf(-20.5)),
    );
    approximation("tanh.approx.f32 %f0, %f1;", f64::tanh, relative(-11));
    approximation("rcp.approx.f32 %f0, %f1;", |a| 1.0 / a, relative(-23));
    approximation(
        "abs.f32 %f1, %f1;\nrsqrt.approx.f32 %f0, %f1;",
        |a| 1.0 / a.abs().sqrt(),
        relative(-22),
    );
    approximation(
        "abs.f32 %f1, %f1;\nsqrt.approx.f32 %f0, %f1;",
        |a| a.abs().sqrt(),
        relative(-23),
    );
}

#[test]
fn special_functions_at_the_edges() {
    let at = |body: &str, value: f32| {
        let input = [u64::from(value.to_bits())];
        f32::from_bits(run("b32", "f", "b32", "f", body, [&input, &input, &input])[0] as u32)
    };
    assert_eq!(at("ex2.approx.f32 %f0, %f1;", f32::NEG_INFINITY), 0.0);
    assert_eq!(at("ex2.approx.f32 %f0, %f1;", f32::INFINITY), f32::INFINITY);
    assert!(at("ex2.approx.f32 %f0, %f1;", f32::NAN).is_nan());
    assert_eq!(at("ex2.approx.f32 %f0, %f1;", -140.0), 2.0_f32.powi(-140));
    assert_eq!(at("lg2.approx.f32 %f0, %f1;", 0.0), f32::NEG_INFINITY);
    assert_eq!(at("lg2.approx.f32 %f0, %f1;", f32::INFINITY), f32::INFINITY);
    assert_eq!(at("lg2.approx.f32 %f0, %f1;", 1.0), 0.0);
    assert_eq!(
        at("lg2.approx.f32 %f0, %f1;", 1e-40),
        (1e-40_f32 as f64).log2() as f32
    );
    assert!(at("sin.approx.f32 %f0, %f1;", f32::INFINITY).is_nan());
}
