//! Buffers of random numbers, as `in=random:f32:65536[:SEED]` asks for them.
//!
//! Rules: equal seeds give equal bytes on every machine; integers are uniform over all values of their type, and floats
//! over 0 to 1, 1 not included. Without a seed the argument's number is it, so that two buffers differ.

use crate::files::MOST_DATA;
use gridmux_workloads::Prng;
use std::str::FromStr;

/// The type of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    /// An integer, with its size in bytes; signed and unsigned integers of a size have the same bits.
    Integer(usize),
    F16,
    F32,
    F64,
}

/// Types by name; those of equal size have equal bytes.
const TYPES: [(&str, Number); 11] = [
    ("u8", Number::Integer(1)),
    ("u16", Number::Integer(2)),
    ("u32", Number::Integer(4)),
    ("u64", Number::Integer(8)),
    ("s8", Number::Integer(1)),
    ("s16", Number::Integer(2)),
    ("s32", Number::Integer(4)),
    ("s64", Number::Integer(8)),
    ("f16", Number::F16),
    ("f32", Number::F32),
    ("f64", Number::F64),
];

impl Number {
    fn bytes(self) -> usize {
        match self {
            Self::Integer(bytes) => bytes,
            Self::F16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Appends one of them.
    fn append(self, random: &mut Prng, to: &mut Vec<u8>) {
        let bits = random.next_u64();
        match self {
            Self::Integer(bytes) => {
                // The upper bits are the better mixed ones.
                let number = bits >> (64 - 8 * bytes);
                to.extend_from_slice(&number.to_le_bytes()[..bytes]);
            }
            Self::F16 => to.extend_from_slice(&half(bits >> 53).to_le_bytes()),
            Self::F32 => {
                let number = (bits >> 40) as f32 / 16_777_216.0;
                to.extend_from_slice(&number.to_le_bytes());
            }
            Self::F64 => {
                let number = (bits >> 11) as f64 / 9_007_199_254_740_992.0;
                to.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
}

/// Returns the bits of `n` / 2048 in half precision, for `n` below 2048, where it is exact.
fn half(n: u64) -> u16 {
    let Some(exponent) = n.checked_ilog2() else {
        return 0;
    };
    // A fraction of 1.m times 2^(exponent - 11), which is a normal number.
    let fraction = (n << (10 - exponent)) & 0x3ff;
    u16::try_from(u64::from(exponent + 4) << 10 | fraction).unwrap_or(0)
}

/// A buffer of random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Random {
    number: Number,
    count: u64,
    /// The argument's number where it is not given.
    seed: Option<u64>,
}

impl Random {
    /// Returns its length in bytes.
    pub(super) fn bytes(self) -> u64 {
        self.count.saturating_mul(self.number.bytes() as u64)
    }

    /// Returns the numbers, as the bytes of a buffer; `argument` is the seed where none is given.
    pub(super) fn contents(self, argument: u64) -> Vec<u8> {
        let mut random = Prng::new(self.seed.unwrap_or(argument));
        let mut bytes = Vec::new();
        for _ in 0..self.count {
            self.number.append(&mut random, &mut bytes);
        }
        bytes
    }
}

impl FromStr for Random {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let found = TYPES.iter().find(|(known, _)| *known == name);
        let Some((_, number)) = found else {
            let known = TYPES.map(|(name, _)| name).join(", ");
            return Err(format!("there is no type {name:?}; use {known}"));
        };
        let wrong = || format!("{text:?} is not TYPE:COUNT[:SEED] with a count of at least 1");
        let count = parts.next().and_then(|count| count.parse().ok());
        let seed = parts.next().map(|seed| seed.parse::<u64>());
        let seed = seed.transpose().map_err(|_| wrong())?;
        let random = Self {
            number: *number,
            count: count.filter(|count| *count > 0).ok_or_else(wrong)?,
            seed,
        };
        match (parts.next(), random.bytes()) {
            (Some(_), _) => Err(wrong()),
            (None, bytes) if bytes > MOST_DATA => Err(format!(
                "a buffer has at most {MOST_DATA} bytes (1 GiB), not {bytes}"
            )),
            (None, _) => Ok(random),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Random, TYPES, half};

    fn contents(text: &str, argument: u64) -> Vec<u8> {
        text.parse::<Random>().unwrap().contents(argument)
    }

    #[test]
    fn equal_seeds_give_equal_bytes_and_others_do_not() {
        for (name, number) in TYPES {
            let seeded = format!("{name}:1000:7");
            let bytes = contents(&seeded, 0);
            assert_eq!(bytes.len(), 1000 * number.bytes(), "{name}");
            assert_eq!(bytes, contents(&seeded, 1), "{name}");
            assert_eq!(bytes, contents(&format!("{name}:1000"), 7), "{name}");
            assert_ne!(bytes, contents(&format!("{name}:1000:8"), 7), "{name}");
        }
        // As the generator's reference implementation has them for this seed.
        let first = 6_457_827_717_110_365_317_u64.to_le_bytes();
        assert_eq!(contents("u64:1:1234567", 0), first);
    }

    #[test]
    fn floats_lie_between_0_and_1_and_fill_the_space() {
        let f32s = contents("f32:4096:1", 0);
        let f32s = f32s
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        let f64s = contents("f64:4096:1", 0);
        let f64s = f64s
            .chunks_exact(8)
            .map(|b| f64::from_le_bytes(b.try_into().unwrap()));
        for numbers in [f32s.map(f64::from).collect::<Vec<_>>(), f64s.collect()] {
            assert!(numbers.iter().all(|n| (0.0..1.0).contains(n)));
            let mean = numbers.iter().sum::<f64>() / 4096.0;
            assert!((mean - 0.5).abs() < 0.02, "{mean}");
        }
        assert_eq!(
            [0, 1, 1024, 1536, 2047].map(half),
            [0, 0x1000, 0x3800, 0x3a00, 0x3bff]
        );
        assert!(
            contents("f16:4096:1", 0)
                .chunks_exact(2)
                .all(|b| b[1] < 0x3c)
        );
    }

    #[test]
    fn what_is_none_is_refused() {
        for (wrong, due) in [
            ("bf16:4", "u8, u16"),
            ("f32", "COUNT"),
            ("f32:0", "at least 1"),
            ("f32:4:x", "SEED"),
            ("f32:4:1:2", "SEED"),
            ("f64:134217729", "1 GiB"),
            ("u8:18446744073709551615", "1 GiB"),
        ] {
            let error = wrong.parse::<Random>().unwrap_err();
            assert!(error.contains(due), "{wrong}: {error}");
        }
    }
}
