//! Comparing what a launch wrote with what the host reference expects.
//!
//! A floating-point expectation carries one absolute tolerance per element, so that a reference can state a bound that
//! it can justify (for a dot product: the rounding bound times the sum of magnitudes) and not one loose number.

use crate::half;
use thiserror::Error;

/// What one output buffer must hold.
#[derive(Debug, Clone)]
pub(crate) enum Expected {
    /// Exactly these words.
    U32(Vec<u32>),
    /// Exactly these double words.
    U64(Vec<u64>),
    /// Single-precision floats within `tolerance` of `value`; never a NaN.
    F32(Vec<Bounded>),
    /// Double-precision floats, in the same way.
    F64(Vec<Bounded>),
    /// Half-precision floats, in the same way.
    F16(Vec<Bounded>),
    /// Exactly these bytes.
    Bytes(Vec<u8>),
    /// These words in any order: a kernel that takes places by an atomic counter fills them in the order of its
    /// threads.
    AnyOrder(Vec<u32>),
}

/// A value and how far from it an answer may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounded {
    pub(crate) value: f64,
    pub(crate) tolerance: f64,
}

/// Why the outputs of a launch are wrong.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Mismatch {
    /// The number of buffers handed over is not the number of `Out` and `InOut` arguments.
    #[error(
        "{got} output buffers were handed over, the launch has {want}: give the Out and InOut ones in order"
    )]
    Buffers {
        /// Buffers that the case has.
        want: usize,
        /// Buffers that were handed over.
        got: usize,
    },
    /// A buffer has another length than its argument.
    #[error("output {output} is {got} bytes long, its buffer has {want}")]
    Length {
        /// Position among the outputs.
        output: usize,
        /// Bytes of the argument.
        want: usize,
        /// Bytes that were handed over.
        got: usize,
    },
    /// Values differ.
    #[error(
        "output {output}: {wrong} of {total} values are wrong, first [{index}]: {got}, expected {want} within \
         {tolerance:e}"
    )]
    Value {
        /// Position among the outputs.
        output: usize,
        /// Index of the first wrong value, in elements.
        index: usize,
        /// What the launch wrote there.
        got: String,
        /// What the reference has there.
        want: String,
        /// Allowed absolute difference; 0 means exact.
        tolerance: f64,
        /// How many values are wrong.
        wrong: usize,
        /// How many values the buffer has.
        total: usize,
    },
}

pub(crate) fn check<B: AsRef<[u8]>>(expected: &[Expected], outputs: &[B]) -> Result<(), Mismatch> {
    if expected.len() != outputs.len() {
        return Err(Mismatch::Buffers {
            want: expected.len(),
            got: outputs.len(),
        });
    }
    for (output, (want, got)) in expected.iter().zip(outputs).enumerate() {
        let got = got.as_ref();
        let half = |bytes| half::to_f64(u16::from_le_bytes(bytes));
        let single = |bytes| f64::from(f32::from_le_bytes(bytes));
        match want {
            Expected::U32(want) => exact(output, want, got, u32::from_le_bytes),
            Expected::U64(want) => exact(output, want, got, u64::from_le_bytes),
            Expected::Bytes(want) => exact(output, want, got, u8::from_le_bytes),
            Expected::F16(want) => bounded(output, want, got, half),
            Expected::F32(want) => bounded(output, want, got, single),
            Expected::F64(want) => bounded(output, want, got, f64::from_le_bytes),
            Expected::AnyOrder(want) => {
                let (mut want, mut words) = (want.clone(), words(got));
                want.sort_unstable();
                words.sort_unstable();
                let sorted: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
                exact(output, &want, &sorted, u32::from_le_bytes)
            }
        }?;
    }
    Ok(())
}

fn exact<const BYTES: usize, W: std::fmt::Display + PartialEq>(
    output: usize,
    want: &[W],
    got: &[u8],
    decode: fn([u8; BYTES]) -> W,
) -> Result<(), Mismatch> {
    compare(output, want, got, decode, W::eq, |_| 0.0)
}

fn bounded<const BYTES: usize>(
    output: usize,
    want: &[Bounded],
    got: &[u8],
    decode: fn([u8; BYTES]) -> f64,
) -> Result<(), Mismatch> {
    compare(output, want, got, decode, Bounded::holds, |want| {
        want.tolerance
    })
}

fn compare<const BYTES: usize, W: std::fmt::Display, G: std::fmt::Display>(
    output: usize,
    want: &[W],
    got: &[u8],
    decode: fn([u8; BYTES]) -> G,
    agree: fn(&W, &G) -> bool,
    tolerance: fn(&W) -> f64,
) -> Result<(), Mismatch> {
    if got.len() != want.len() * BYTES {
        return Err(Mismatch::Length {
            output,
            want: want.len() * BYTES,
            got: got.len(),
        });
    }
    let (chunks, _) = got.as_chunks::<BYTES>();
    let mut differing = chunks
        .iter()
        .map(|chunk| decode(*chunk))
        .zip(want)
        .enumerate()
        .filter(|(_, (got, want))| !agree(want, got));
    match differing.next() {
        None => Ok(()),
        Some((index, (got, want_here))) => Err(Mismatch::Value {
            output,
            index,
            got: got.to_string(),
            want: want_here.to_string(),
            tolerance: tolerance(want_here),
            wrong: 1 + differing.count(),
            total: want.len(),
        }),
    }
}

/// Returns the words of a buffer; a rest shorter than a word is left out, which the comparison's length then shows.
fn words(bytes: &[u8]) -> Vec<u32> {
    let (chunks, _) = bytes.as_chunks();
    chunks
        .iter()
        .map(|chunk| u32::from_le_bytes(*chunk))
        .collect()
}

impl Bounded {
    /// Returns a value that an answer may be `tolerance` away from.
    pub(crate) const fn within(value: f64, tolerance: f64) -> Self {
        Self { value, tolerance }
    }

    /// Returns a value that an answer must be equal to.
    pub(crate) const fn exact(value: f64) -> Self {
        Self::within(value, 0.0)
    }

    /// Returns whether a number is near enough. Written so that a NaN fails: every comparison with it is false.
    fn holds(&self, got: &f64) -> bool {
        (got - self.value).abs() <= self.tolerance
    }
}

impl std::fmt::Display for Bounded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounded, Expected, Mismatch, check};

    fn bytes(values: &[f32]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    #[test]
    fn tolerance_is_a_closed_bound_and_nan_fails() {
        let want = [Expected::F32(vec![Bounded::within(1.0, 0.5); 2])];
        assert_eq!(check(&want, &[bytes(&[1.5, 0.5])]), Ok(()));
        assert!(check(&want, &[bytes(&[1.5, f32::NAN])]).is_err());
        let error = check(&want, &[bytes(&[1.0, 2.0])]).expect_err("2.0 is out of bounds");
        assert!(
            matches!(
                error,
                Mismatch::Value {
                    index: 1,
                    wrong: 1,
                    total: 2,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn counts_and_lengths_are_checked() {
        let want = [Expected::U32(vec![1, 2])];
        assert_eq!(
            check::<Vec<u8>>(&want, &[]),
            Err(Mismatch::Buffers { want: 1, got: 0 })
        );
        assert_eq!(
            check(&want, &[vec![0; 7]]),
            Err(Mismatch::Length {
                output: 0,
                want: 8,
                got: 7
            })
        );
    }
}
