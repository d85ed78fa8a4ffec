//! One header for all parts: `.version`, `.target` and `.address_size` (PTX ISA section 11.1).
//!
//! Code for a target runs on its own architecture and on later ones, so the highest target fits all parts. One with `a`
//! (`sm_90a`) runs only on its own, one with `f` (`sm_100f`) on those of its family, whose numbers differ in the last
//! digit.

use super::Part;
use super::error::{LinkError, shown};
use crate::decode::Program;

/// What a part's header says.
#[derive(Debug, Clone)]
pub(super) struct Header {
    version: (u8, u8),
    address_size: u8,
    target: Target,
    /// `texmode_independent`.
    independent_textures: bool,
    /// `map_f64_to_f32`.
    demotes_doubles: bool,
}

/// An architecture; later ones compare as greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Target {
    number: u32,
    reach: Reach,
}

/// Where a target's code runs, the narrowest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// On its architecture and all later ones.
    Later,
    /// On those of its family (`f`).
    Family,
    /// On its own only (`a`).
    Own,
}

impl Target {
    fn parse(word: &str) -> Option<Self> {
        let rest = word
            .strip_prefix("sm_")
            .or_else(|| word.strip_prefix("compute_"))?;
        let (digits, reach) = match rest.as_bytes().last()? {
            b'a' => (&rest[..rest.len() - 1], Reach::Own),
            b'f' => (&rest[..rest.len() - 1], Reach::Family),
            _ => (rest, Reach::Later),
        };
        let number = digits.parse().ok()?;
        Some(Self { number, reach })
    }

    /// Returns whether code for this target runs on every device that code for `other` runs on.
    fn runs_as(self, other: Self) -> bool {
        match self.reach {
            Reach::Later => self.number <= other.number,
            Reach::Family => {
                other.reach != Reach::Later
                    && self.number <= other.number
                    && self.number / 10 == other.number / 10
            }
            Reach::Own => self == other,
        }
    }

    /// Returns the target for a module of code for both: one of them, or the higher number with the narrower reach;
    /// `None` when no device runs both.
    fn with(self, other: Self) -> Option<Self> {
        let number = self.number.max(other.number);
        let reach = self.reach.max(other.reach);
        let both = Self { number, reach };
        (self.runs_as(both) && other.runs_as(both)).then_some(both)
    }

    fn word(self) -> String {
        let suffix = match self.reach {
            Reach::Later => "",
            Reach::Family => "f",
            Reach::Own => "a",
        };
        format!("sm_{}{suffix}", self.number)
    }
}

impl Header {
    /// Reads the header of a part, whose name is for errors.
    pub(super) fn new(part: &str, program: &Program) -> Result<Self, LinkError> {
        let mut words = program.target.split(',').map(str::trim);
        let target = words.next().and_then(Target::parse);
        let target = target.ok_or_else(|| LinkError::Target {
            part: part.to_owned(),
            target: shown(&program.target),
        })?;
        let options: Vec<&str> = words.collect();
        Ok(Self {
            version: program.version,
            address_size: program.address_size,
            target,
            independent_textures: options.contains(&"texmode_independent"),
            demotes_doubles: options.contains(&"map_f64_to_f32"),
        })
    }

    /// Returns how two headers contradict each other, if they do.
    fn contradiction(&self, other: &Self) -> Option<String> {
        if self.address_size != other.address_size {
            return Some(format!(
                "addresses have {} bits and {} bits",
                self.address_size, other.address_size
            ));
        }
        if self.independent_textures != other.independent_textures {
            return Some("only one has `texmode_independent`".to_owned());
        }
        if self.demotes_doubles != other.demotes_doubles {
            return Some("only one has `map_f64_to_f32`".to_owned());
        }
        None
    }
}

/// Returns the text of one header that fits all parts.
///
/// # Errors
/// [`LinkError::Header`], which names two parts and says how their headers contradict each other.
pub(super) fn merge(parts: &[Part], headers: &[Header]) -> Result<String, LinkError> {
    let Some((first, rest)) = headers.split_first() else {
        return Err(LinkError::Nothing);
    };
    let mut merged = first.clone();
    // The part that the merged target comes from.
    let mut target_from = 0;
    for (n, header) in rest.iter().enumerate() {
        let error = |with: usize, what: String| LinkError::Header {
            first: parts[with].name.clone(),
            second: parts[n + 1].name.clone(),
            what,
        };
        if let Some(what) = merged.contradiction(header) {
            return Err(error(0, what));
        }
        let Some(target) = merged.target.with(header.target) else {
            let (one, other) = (merged.target.word(), header.target.word());
            return Err(error(
                target_from,
                format!("no device runs code for {one} and for {other}"),
            ));
        };
        if target != merged.target {
            (merged.target, target_from) = (target, n + 1);
        }
        merged.version = merged.version.max(header.version);
    }
    let mut target = merged.target.word();
    if merged.independent_textures {
        target.push_str(", texmode_independent");
    }
    if merged.demotes_doubles {
        target.push_str(", map_f64_to_f32");
    }
    let (major, minor) = merged.version;
    Ok(format!(
        ".version {major}.{minor}\n.target {target}\n.address_size {}\n",
        merged.address_size
    ))
}

#[cfg(test)]
mod tests {
    use super::Target;

    fn both(a: &str, b: &str) -> Option<String> {
        let target = |word| Target::parse(word).expect("a target");
        let one = target(a).with(target(b)).map(Target::word);
        let other = target(b).with(target(a)).map(Target::word);
        assert_eq!(one, other, "{a} and {b}");
        one
    }

    #[test]
    fn the_target_fits_both() {
        for (a, b, fits) in [
            ("sm_70", "sm_80", Some("sm_80")),
            ("compute_80", "sm_80", Some("sm_80")),
            ("sm_80", "sm_90a", Some("sm_90a")),
            ("sm_90", "sm_90a", Some("sm_90a")),
            ("sm_100", "sm_90a", None),
            ("sm_90a", "sm_100a", None),
            ("sm_100f", "sm_103f", Some("sm_103f")),
            ("sm_100f", "sm_103a", Some("sm_103a")),
            ("sm_100f", "sm_103", Some("sm_103f")),
            ("sm_100f", "sm_120f", None),
            ("sm_100a", "sm_100f", Some("sm_100a")),
            ("sm_103f", "sm_100a", None),
        ] {
            assert_eq!(both(a, b).as_deref(), fits, "{a} and {b}");
        }
    }
}
