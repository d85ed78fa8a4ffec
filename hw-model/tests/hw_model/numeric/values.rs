//! Edge values and random ones of the floating-point formats and of integers.

use crate::support::exact::{F16, F32, F64, Format};
use crate::support::opcode::{Table, columns};
use gridmux_workloads::Prng;

/// Zeros, subnormal numbers, the ends of the ranges, neighbours of one and half-way cases, both signs; NaN and
/// infinities.
pub(crate) fn edges(format: Format) -> Vec<u64> {
    let one =
        ((1_u64 << (format.bits - format.precision as u32)) / 2 - 1) << (format.precision - 1);
    let implied = 1_u64 << (format.precision - 1);
    let top = crate::support::exact::infinity(false, format);
    let mut positive = vec![
        0,
        1,
        2,
        implied / 2 + 1,
        implied - 1,
        implied,
        implied + 1,
        one - 1,
        one,
        one + 1,
        one + implied / 2,
        one + implied,
        one + 3 * implied + 5,
        top - 1,
        top,
        top | implied / 2,
    ];
    if format == F32 || format == F64 {
        positive.push(one - 24 * implied);
        positive.push(one + 24 * implied + 1);
    }
    let sign = 1 << (format.bits - 1);
    let negative: Vec<u64> = positive.iter().map(|v| v | sign).collect();
    positive.extend(negative);
    positive
}

/// Returns a number whose exponent lies near one's, or anywhere.
pub(crate) fn random(format: Format) -> impl Fn(&mut Prng) -> u64 {
    move |prng| {
        let bits = prng.next_u64() >> (64 - format.bits);
        if prng.below(4) == 0 {
            return bits;
        }
        let fraction_bits = format.precision as u32 - 1;
        let one = (1_u64 << (format.bits - 2 - fraction_bits)) - 1;
        let spread = if format == F16 { 8 } else { 30 };
        let exponent = one + u64::from(prng.below(spread)) - u64::from(spread / 2);
        let sign = bits >> (format.bits - 1) << (format.bits - 1);
        sign | exponent << fraction_bits | bits & ((1 << fraction_bits) - 1)
    }
}

/// Columns of a format: `count` of them.
pub(crate) fn floats(format: Format, count: usize) -> Vec<Vec<u64>> {
    mixed(&vec![format; count])
}

/// Columns of several formats.
pub(crate) fn mixed(formats: &[Format]) -> Vec<Vec<u64>> {
    let edges: Vec<Vec<u64>> = formats.iter().map(|f| edges(*f)).collect();
    let edges: Vec<&[u64]> = edges.iter().map(Vec::as_slice).collect();
    let random: Vec<_> = formats.iter().map(|f| random(*f)).collect();
    let random: Vec<&dyn Fn(&mut Prng) -> u64> = random.iter().map(|f| f as _).collect();
    columns(&edges, &random, 1100)
}

/// Columns of integers of `bits` bits.
pub(crate) fn integers(bits: u32, count: usize) -> Vec<Vec<u64>> {
    let mask = if bits == 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    };
    let high = 1_u64 << (bits - 1);
    let edges: Vec<u64> = [
        0,
        1,
        2,
        3,
        7,
        8,
        15,
        31,
        32,
        33,
        63,
        0x7f,
        0x80,
        0xff,
        high - 1,
        high,
        high + 1,
        mask - 1,
        mask,
        0x0123_4567_89ab_cdef & mask,
    ]
    .iter()
    .map(|v| v & mask)
    .collect();
    let random = |prng: &mut Prng| (prng.next_u64() >> prng.below(64)) & mask;
    columns(
        &vec![edges.as_slice(); count],
        &vec![&random as &dyn Fn(&mut Prng) -> u64; count],
        900,
    )
}

/// Extends the sign from `bits`.
pub(crate) fn signed(v: u64, bits: u32) -> i128 {
    i128::from((v << (64 - bits)) as i64 >> (64 - bits))
}

/// Returns the value as its type reads it.
pub(crate) fn value(v: u64, bits: u32, is_signed: bool) -> i128 {
    if is_signed {
        signed(v, bits)
    } else {
        i128::from(v & (u64::MAX >> (64 - bits)))
    }
}

/// Turns subnormal inputs and results into zeros of their sign.
pub(crate) fn flushed(bits: u64, format: Format) -> u64 {
    let fraction_bits = format.precision as u32 - 1;
    let sign = bits >> (format.bits - 1) << (format.bits - 1);
    let magnitude = bits & !(1 << (format.bits - 1));
    if magnitude >> fraction_bits == 0 {
        sign
    } else {
        bits
    }
}

/// Checks an instruction on integers: the bits of its inputs and of its output, and what it must give.
pub(crate) fn table(body: &str, bits: &[u32], output: u32, want: impl Fn(&[u64]) -> u64) {
    let most = *bits.iter().max().expect("inputs");
    let columns = integers(most, bits.len());
    let types: Vec<String> = bits.iter().map(|b| format!("b{b}")).collect();
    let inputs: Vec<&str> = types.iter().map(String::as_str).collect();
    let cut: Vec<Vec<u64>> = columns
        .into_iter()
        .zip(bits)
        .map(|(column, bits)| {
            column
                .into_iter()
                .map(|v| v & (u64::MAX >> (64 - bits)))
                .collect()
        })
        .collect();
    Table::new(body, &inputs, &format!("b{output}"), &cut).check_bits(want);
}
