//! Kernel arguments as `--arg` takes them, in the order of the kernel's parameters.
//!
//! `u32=5`, `s32=-1`, `u64=7`, `s64=-7`, `f32=1.5`, `f64=1.5`, `hex=0a0b…` (the raw bytes of a structure passed by
//! value), `in=FILE` (a buffer with the file's bytes), `in=random:TYPE:COUNT[:SEED]` (a buffer of random numbers),
//! `out=BYTES:FILE` (a zeroed buffer, written to the file afterwards), `inout=FILE:FILE` (both).

use super::random::Random;
use crate::files::MOST_DATA;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One argument.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Argument {
    /// A scalar or a structure, little-endian.
    Value(Vec<u8>),
    /// A buffer in device memory; the kernel gets its address.
    Buffer {
        /// Where its bytes come from, or how many zeroes it holds.
        from: Source,
        /// Where its bytes go afterwards.
        to: Option<PathBuf>,
    },
}

/// First contents of a buffer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// A file's bytes.
    File(PathBuf),
    /// A buffer of zeros, of this length in bytes.
    Zeroes(u64),
    /// Random numbers.
    Random(Random),
}

impl Argument {
    /// Returns bytes of the buffer, 0 for a value; a file that cannot be looked at counts as empty, because reading it
    /// will say why.
    pub(super) fn buffer_bytes(&self) -> u64 {
        match self {
            Self::Value(_) => 0,
            Self::Buffer {
                from: Source::Zeroes(bytes),
                ..
            } => *bytes,
            Self::Buffer {
                from: Source::Random(random),
                ..
            } => random.bytes(),
            Self::Buffer {
                from: Source::File(file),
                ..
            } => std::fs::metadata(file).map_or(0, |data| data.len()),
        }
    }

    /// Returns the file that the buffer goes to afterwards, if it goes to one.
    pub(super) fn target(&self) -> Option<&Path> {
        match self {
            Self::Buffer { to, .. } => to.as_deref(),
            Self::Value(_) => None,
        }
    }

    /// Returns the file that its bytes come from, if they come from one.
    pub(super) fn source(&self) -> Option<&Path> {
        match self {
            Self::Buffer {
                from: Source::File(file),
                ..
            } => Some(file),
            Self::Buffer { .. } | Self::Value(_) => None,
        }
    }
}

impl FromStr for Argument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, value) = text
            .split_once('=')
            .ok_or_else(|| format!("{text:?} is not KIND=VALUE"))?;
        let bytes = match kind {
            "u32" => unsigned(value)
                .and_then(|v| u32::try_from(v).ok())
                .map(|v| v.to_le_bytes().to_vec()),
            "u64" => unsigned(value).map(|v| v.to_le_bytes().to_vec()),
            "s32" => value.parse::<i32>().ok().map(|v| v.to_le_bytes().to_vec()),
            "s64" => value.parse::<i64>().ok().map(|v| v.to_le_bytes().to_vec()),
            "f32" => value.parse::<f32>().ok().map(|v| v.to_le_bytes().to_vec()),
            "f64" => value.parse::<f64>().ok().map(|v| v.to_le_bytes().to_vec()),
            "hex" => hex(value),
            "in" => {
                let from = match value.strip_prefix("random:") {
                    Some(random) => Source::Random(random.parse()?),
                    None => Source::File(path(value)?),
                };
                return Ok(Self::Buffer { from, to: None });
            }
            "out" => return out(value),
            "inout" if value.starts_with("random:") => {
                return Err("random numbers are for `in=`; `inout=` takes FILE:FILE".to_owned());
            }
            "inout" => return inout(value),
            _ => {
                return Err(format!(
                    "there is no kind {kind:?}; use u32, s32, u64, s64, f32, f64, hex, in, out, inout"
                ));
            }
        };
        bytes
            .map(Self::Value)
            .ok_or_else(|| format!("{value:?} is no {kind} value"))
    }
}

/// Parses a decimal number, or a hexadecimal one after `0x`.
fn unsigned(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits.filter(|digits| !digits.is_empty() && digits.len().is_multiple_of(2))?;
    digits
        .chunks_exact(2)
        .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok())
        .collect()
}

fn path(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("a file's name is missing".to_owned()),
        name => Ok(PathBuf::from(name)),
    }
}

fn out(value: &str) -> Result<Argument, String> {
    let (bytes, file) = value
        .split_once(':')
        .ok_or_else(|| format!("{value:?} is not BYTES:FILE, as out=256:result.bin"))?;
    let bytes = unsigned(bytes).filter(|bytes| *bytes > 0);
    let bytes = bytes.ok_or_else(|| format!("{value:?} has no number of bytes of at least 1"))?;
    if bytes > MOST_DATA {
        return Err(format!(
            "a buffer has at most {MOST_DATA} bytes (1 GiB), not {bytes}"
        ));
    }
    Ok(Argument::Buffer {
        from: Source::Zeroes(bytes),
        to: Some(path(file)?),
    })
}

fn inout(value: &str) -> Result<Argument, String> {
    let (from, to) = value
        .split_once(':')
        .ok_or_else(|| format!("{value:?} is not FILE:FILE, as inout=first.bin:result.bin"))?;
    Ok(Argument::Buffer {
        from: Source::File(path(from)?),
        to: Some(path(to)?),
    })
}

#[cfg(test)]
mod tests {
    use super::{Argument, Source};

    fn value(text: &str) -> Option<Vec<u8>> {
        match text.parse() {
            Ok(Argument::Value(bytes)) => Some(bytes),
            _ => None,
        }
    }

    #[test]
    fn values_are_little_endian() {
        assert_eq!(value("u32=5"), Some(vec![5, 0, 0, 0]));
        assert_eq!(value("u64=0x100"), Some(vec![0, 1, 0, 0, 0, 0, 0, 0]));
        assert_eq!(value("s32=-1"), Some(vec![255; 4]));
        assert_eq!(value("f32=1.5"), Some(1.5_f32.to_le_bytes().to_vec()));
        assert_eq!(value("hex=0aFf"), Some(vec![10, 255]));
        for wrong in [
            "u32=-1",
            "u32=4294967296",
            "hex=abc",
            "hex=",
            "f32=x",
            "i8=1",
            "5",
        ] {
            assert!(wrong.parse::<Argument>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn buffers_come_from_files_and_go_to_files() {
        let buffer = |from, to: Option<&str>| {
            Ok(Argument::Buffer {
                from,
                to: to.map(Into::into),
            })
        };
        assert_eq!("in=a".parse(), buffer(Source::File("a".into()), None));
        assert_eq!("out=16:b".parse(), buffer(Source::Zeroes(16), Some("b")));
        assert_eq!(
            "inout=a:b".parse(),
            buffer(Source::File("a".into()), Some("b"))
        );
        for wrong in [
            "in=",
            "out=16",
            "out=0:b",
            "inout=a",
            "inout=:b",
            "out=1073741825:b",
        ] {
            assert!(wrong.parse::<Argument>().is_err(), "{wrong}");
        }
    }
}
