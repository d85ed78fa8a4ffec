//! Which values of a key make sense, and how a message says so.

use std::fmt;
use toml::Value;

/// Most characters of a description's name, which stands in tables, files of values and messages.
const MOST_NAME: usize = 4096;

/// The values of a key that make sense.
#[derive(Debug, Clone, Copy)]
pub(super) enum Range {
    /// All that its type has.
    Any,
    /// One to [`MOST_NAME`] printable ASCII characters.
    Name,
    /// Whole numbers between two, both included.
    Whole {
        /// The least one.
        least: u64,
        /// The greatest one; `u64::MAX` where the type is the only limit.
        most: u64,
        /// What 0 means, if that needs saying.
        zero: &'static str,
    },
    /// Numbers between two, both included.
    Number(f64, f64),
    /// Multiples of the first between the other two, both included.
    Multiple(u64, u64, u64),
    /// Powers of two between two, both included; `u64::MAX` where the type is the only limit.
    PowerOfTwo(u64, u64),
    /// A few whole numbers.
    OneOf(&'static [u64]),
    /// A list whose numbers ascend.
    Ascending,
}

impl Range {
    /// Returns whether its values are whole numbers.
    pub(super) fn is_whole(self) -> bool {
        match self {
            Self::Whole { .. } | Self::Multiple(..) | Self::PowerOfTwo(..) | Self::OneOf(_) => true,
            Self::Any | Self::Name | Self::Number(..) | Self::Ascending => false,
        }
    }

    /// Returns whether a value of the key's type lies within.
    pub(super) fn has(self, value: &Value) -> bool {
        let whole = value.as_integer().and_then(|n| u64::try_from(n).ok());
        let is_whole = |holds: &dyn Fn(u64) -> bool| whole.is_some_and(holds);
        match self {
            Self::Any => true,
            Self::Name => value.as_str().is_some_and(is_name),
            Self::Whole { least, most, .. } => is_whole(&|n| (least..=most).contains(&n)),
            Self::Number(least, most) => value
                .as_float()
                .is_some_and(|n| (least..=most).contains(&n)),
            Self::Multiple(unit, least, most) => {
                is_whole(&|n| n.is_multiple_of(unit) && (least..=most).contains(&n))
            }
            Self::PowerOfTwo(least, most) => {
                is_whole(&|n| n.is_power_of_two() && (least..=most).contains(&n))
            }
            Self::OneOf(values) => is_whole(&|n| values.contains(&n)),
            Self::Ascending => value
                .as_array()
                .is_some_and(|list| list.is_sorted_by_key(|n| n.as_integer())),
        }
    }
}

fn is_name(name: &str) -> bool {
    let printable = |c: char| c == ' ' || c.is_ascii_graphic();
    (1..=MOST_NAME).contains(&name.len()) && name.chars().all(printable)
}

/// Says what a value must be.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Any => f.write_str("every value makes sense"),
            Self::Name => write!(
                f,
                "it must have 1 to {MOST_NAME} printable ASCII characters"
            ),
            Self::Whole {
                least,
                most: u64::MAX,
                ..
            } => write!(f, "it must be at least {least}"),
            Self::Whole {
                least,
                most,
                zero: "",
            } => write!(f, "it must lie between {least} and {most}"),
            Self::Whole { least, most, zero } => {
                write!(f, "it must lie between {least} ({zero}) and {most}")
            }
            Self::Number(least, most) => write!(f, "it must lie between {least} and {most}"),
            Self::Multiple(unit, least, most) => {
                write!(f, "it must be a multiple of {unit} from {least} to {most}")
            }
            Self::PowerOfTwo(1, u64::MAX) => f.write_str("it must be a power of two"),
            Self::PowerOfTwo(least, u64::MAX) => {
                write!(f, "it must be a power of two of at least {least}")
            }
            Self::PowerOfTwo(least, most) => {
                write!(f, "it must be a power of two from {least} to {most}")
            }
            Self::OneOf([only]) => write!(f, "only {only} is modelled"),
            Self::OneOf(values) => {
                let (last, others) = values.split_last().unwrap_or((&0, &[]));
                let others: Vec<String> = others.iter().map(u64::to_string).collect();
                write!(f, "it must be {} or {last}", others.join(", "))
            }
            Self::Ascending => f.write_str("its numbers must ascend"),
        }
    }
}
