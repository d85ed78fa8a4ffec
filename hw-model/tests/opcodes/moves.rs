//! Conversions, data that goes across lanes, and special registers.

use super::float::float_32;
use super::{floats_32, int_32, run, slices};

#[test]
fn conversions() {
    let inputs = floats_32();
    let to_int = |body: &str, want: &dyn Fn(f64) -> i64| {
        let got = run("b32", "f", "b32", "r", body, slices(&inputs));
        for (n, got) in got.iter().enumerate() {
            let a = f64::from(f32::from_bits(inputs[0][n] as u32));
            let want = if a.is_nan() { 0 } else { want(a) };
            assert_eq!(*got as u32, want as u32, "{body} of {a}");
        }
    };
    let (low, high) = (f64::from(i32::MIN), f64::from(i32::MAX));
    to_int("cvt.rzi.s32.f32 %r0, %f1;", &|a| {
        a.trunc().clamp(low, high) as i64
    });
    to_int("cvt.rni.s32.f32 %r0, %f1;", &|a| {
        a.round_ties_even().clamp(low, high) as i64
    });
    to_int("cvt.rmi.s32.f32 %r0, %f1;", &|a| {
        a.floor().clamp(low, high) as i64
    });
    to_int("cvt.rpi.u32.f32 %r0, %f1;", &|a| {
        a.ceil().clamp(0.0, f64::from(u32::MAX)) as i64
    });
    int_32("cvt.rn.f32.s32 %f1, %r1;\nmov.b32 %r0, %f1;", |a, _, _| {
        (f64::from(a as i32) as f32).to_bits()
    });
    int_32("cvt.rz.f32.u32 %f1, %r1;\nmov.b32 %r0, %f1;", |a, _, _| {
        // Toward zero: the 24 leading bits.
        let spare = 8_u32.saturating_sub(a.leading_zeros());
        ((a >> spare << spare) as f32).to_bits()
    });
    int_32("cvt.u16.u32 %h1, %r1;\ncvt.s32.s16 %r0, %h1;", |a, _, _| {
        i32::from(a as u16 as i16) as u32
    });
    int_32("cvt.s32.s8 %r0, %r1;", |a, _, _| {
        i32::from(a as u8 as i8) as u32
    });
    int_32("cvt.sat.u8.s32 %r0, %r1;", |a, _, _| {
        (a as i32).clamp(0, 255) as u32
    });
    int_32(
        "cvt.s64.s32 %l1, %r1;\nshr.u64 %l1, %l1, 16;\ncvt.u32.u64 %r0, %l1;",
        |a, _, _| (i64::from(a as i32) >> 16) as u32,
    );
    float_32(
        "cvt.f64.f32 %fd1, %f1;\nmul.f64 %fd1, %fd1, 0d3FF0000000000000;\ncvt.rn.f32.f64 %f0, %fd1;",
        |a, _, _| a,
    );
    float_32("cvt.rni.f32.f32 %f0, %f1;", |a, _, _| {
        f64::from(a).round_ties_even() as f32
    });
    int_32(
        "mov.b64 %l1, {%r1, %r2};\nmov.b64 {%r4, %r5}, %l1;\nsub.u32 %r0, %r5, %r4;",
        |a, b, _| b.wrapping_sub(a),
    );
}

#[test]
fn data_across_lanes() {
    let values: Vec<u64> = (0..64).map(|n| n * 3 + 1).collect();
    let lane_of = |n: usize| n % 32;
    let cases: [(&str, &dyn Fn(usize) -> u64); 6] = [
        ("shfl.sync.down.b32 %r0, %r1, 4, 31, -1;", &|n| {
            values[if lane_of(n) + 4 > 31 { n } else { n + 4 }]
        }),
        ("shfl.sync.up.b32 %r0, %r1, 3, 0, -1;", &|n| {
            values[if lane_of(n) < 3 { n } else { n - 3 }]
        }),
        ("shfl.sync.bfly.b32 %r0, %r1, 5, 31, -1;", &|n| {
            values[n ^ 5]
        }),
        ("shfl.sync.idx.b32 %r0, %r1, 2, 0x181f, -1;", &|n| {
            values[n / 8 * 8 + 2]
        }),
        (
            "and.b32 %r4, %r1, 1;\nsetp.eq.u32 %p1, %r4, 1;\nvote.sync.ballot.b32 %r0, %p1, -1;",
            &|n| {
                (0..32)
                    .filter(|k| values[n / 32 * 32 + k] & 1 == 1)
                    .fold(0, |m, k| m | 1 << k)
            },
        ),
        ("redux.sync.add.u32 %r0, %r1, -1;", &|n| {
            values[n / 32 * 32..n / 32 * 32 + 32].iter().sum()
        }),
    ];
    for (body, want) in cases {
        let got = run("b32", "r", "b32", "r", body, [&values, &values, &values]);
        for (n, got) in got.iter().enumerate() {
            assert_eq!(*got, want(n), "{body} in lane {n}");
        }
    }
}

#[test]
fn special_registers() {
    let zeros = vec![0; 192];
    let body = "mov.u32 %r4, %laneid;\nmov.u32 %r5, %nctaid.x;\nmov.u32 %r6, %ntid.x;\n\
                mad.lo.u32 %r0, %r5, 10000, %r6;\n\
                mad.lo.u32 %r0, %r4, 100, %r0;";
    let got = run("b32", "r", "b32", "r", body, [&zeros, &zeros, &zeros]);
    for (n, got) in got.iter().enumerate() {
        assert_eq!(*got, 3 * 10_000 + 64 + n as u64 % 32 * 100);
    }
}
