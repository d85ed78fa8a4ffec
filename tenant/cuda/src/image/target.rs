//! What code is built for, and whether a device runs it (PTX ISA section 11.1).

use super::{Capability, ImageError};

/// What is checked of a text for any device: its version only.
pub(super) const ANY_DEVICE: Capability = Capability(0);

/// The newest version of PTX that is known: that of CUDA 13.5, whose driver this library stands for.
const NEWEST_VERSION: (u32, u32) = (9, 5);
/// The number of words at a text's beginning that are searched for its header.
const HEADER_WORDS: usize = 16;

/// An architecture; of two that a device runs the greater one fits it better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) number: u32,
    pub(super) reach: Reach,
}

/// Where a target's code runs, the narrowest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// On its architecture and all later ones.
    Later,
    /// On those of its family, whose numbers differ in the last digit.
    Family,
    /// On its own only.
    Own,
}

impl Target {
    /// Reads a word of a `.target` directive; `None` where it names no architecture.
    fn parse(word: &str) -> Option<Self> {
        let rest = word
            .strip_prefix("sm_")
            .or_else(|| word.strip_prefix("compute_"))?;
        let (number, reach) = match rest.as_bytes().last()? {
            b'a' => (&rest[..rest.len() - 1], Reach::Own),
            b'f' => (&rest[..rest.len() - 1], Reach::Family),
            _ => (rest, Reach::Later),
        };
        let number = number.parse().ok()?;
        Some(Self { number, reach })
    }

    pub(super) fn runs_on(self, device: Capability) -> bool {
        match self.reach {
            Reach::Later => self.number <= device.0,
            Reach::Family => self.number <= device.0 && self.number / 10 == device.0 / 10,
            Reach::Own => self.number == device.0,
        }
    }

    /// Returns whether it is of machine code that a device runs: what is for its own architecture, or for an earlier
    /// one of the same generation.
    pub(super) fn is_machine_code_of(self, device: Capability) -> bool {
        self.runs_on(device) && self.number / 10 == device.0 / 10
    }

    pub(super) fn name(self) -> String {
        let suffix = match self.reach {
            Reach::Later => "",
            Reach::Family => "f",
            Reach::Own => "a",
        };
        format!("sm_{}{suffix}", self.number)
    }
}

/// Checks that a device runs a PTX text, by its first `.version` and `.target`. A text without them is the service's to
/// refuse; a device whose capability is not known runs code for any target.
///
/// # Errors
/// [`ImageError::NewerVersion`], [`ImageError::LaterTarget`].
pub(super) fn check(text: &[u8], device: Capability) -> Result<(), ImageError> {
    let mut words = words(text).take(HEADER_WORDS);
    while let Some(word) = words.next() {
        match word {
            ".version" => {
                let version = words.next().and_then(|word| word.split_once('.'));
                let number = |word: &str| word.parse().ok();
                let version = version.and_then(|(a, b)| Some((number(a)?, number(b)?)));
                if let Some(version) = version.filter(|version| *version > NEWEST_VERSION) {
                    return Err(ImageError::NewerVersion {
                        version,
                        newest: NEWEST_VERSION,
                    });
                }
            }
            ".target" => {
                let target = words.next().and_then(Target::parse);
                let refused = target.filter(|target| device.0 != 0 && !target.runs_on(device));
                return match refused {
                    None => Ok(()),
                    Some(target) => Err(ImageError::LaterTarget {
                        target: target.name(),
                        device,
                    }),
                };
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether a text begins as PTX does: with its version, behind blanks and comments.
pub(super) fn is_ptx(text: &[u8]) -> bool {
    words(text).next() == Some(".version")
}

/// Returns the words of a PTX text, which blanks, commas and comments part; what is no UTF-8 ends them.
fn words(text: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_ascii_start();
            if let Some(line) = rest.strip_prefix(b"//") {
                let end = line.iter().position(|byte| *byte == b'\n');
                rest = &line[end.unwrap_or(line.len())..];
            } else if let Some(comment) = rest.strip_prefix(b"/*") {
                let end = comment.windows(2).position(|pair| pair == b"*/")?;
                rest = &comment[end + 2..];
            } else if let Some(next) = rest.strip_prefix(b",") {
                rest = next;
            } else {
                break;
            }
        }
        let parts = |at: usize| {
            let from = &rest[at..];
            rest[at].is_ascii_whitespace()
                || rest[at] == b','
                || from.starts_with(b"//")
                || from.starts_with(b"/*")
        };
        let end = (0..rest.len()).find(|at| parts(*at)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        std::str::from_utf8(word)
            .ok()
            .filter(|word| !word.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::{Capability, Target, check, is_ptx};

    #[test]
    fn ptx_begins_with_its_version() {
        for text in [
            ".version 8.0",
            "\n\t.version",
            "/* a\n// */ // b\n.version/**/8",
        ] {
            assert!(is_ptx(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "hello",
            ".target sm_80\n.version 8.0",
            "// .version 8.0",
            ".versions 8",
            "/*",
        ] {
            assert!(!is_ptx(text.as_bytes()), "{text}");
        }
        assert!(!is_ptx(&[0xde, 0xe5, 0xec]));
    }

    #[test]
    fn machine_code_runs_within_its_generation() {
        for (word, runs) in [
            ("sm_80", [true, true, false]),
            ("sm_86", [false, true, false]),
            ("sm_90a", [false, false, true]),
            ("sm_100f", [false, false, false]),
        ] {
            let target = Target::parse(word).expect("a target");
            let found = [80, 86, 90].map(|number| target.is_machine_code_of(Capability(number)));
            assert_eq!(found, runs, "{word}");
        }
    }

    #[test]
    fn a_target_runs_on_its_device_and_on_later_ones() {
        for (word, runs) in [
            ("sm_20", [true, true, true]),
            ("compute_90", [true, true, true]),
            ("sm_90a", [true, false, false]),
            ("sm_100", [false, true, true]),
            ("sm_100f", [false, true, true]),
            ("sm_100a", [false, true, false]),
            ("sm_103", [false, false, true]),
            ("sm_120f", [false, false, false]),
        ] {
            let target = Target::parse(word).expect("a target");
            let found = [90, 100, 103].map(|number| target.runs_on(Capability(number)));
            assert_eq!(found, runs, "{word}");
        }
        for none in ["sm_", "sm_a", "texmode_independent", "90", ""] {
            assert_eq!(Target::parse(none), None, "{none}");
        }
    }

    #[test]
    fn what_a_device_does_not_run_is_refused() {
        let refused = |text: &str, device| {
            let refused = check(text.as_bytes(), Capability(device)).err();
            refused.map(|error| error.to_string()).unwrap_or_default()
        };
        for (text, device, due) in [
            (".version 9.0\n.target sm_90\n", 90, ""),
            (".version 9.5 .target sm_90a,debug", 90, ""),
            (
                "// .version 99.0\n/* .target sm_120 */.version 8.0 // c\n.target/**/sm_80",
                90,
                "",
            ),
            (
                ".version 8.0\n.target sm_100, debug",
                90,
                "for sm_100, and the device (sm_90)",
            ),
            (".version 8.0 .target sm_80a", 90, "for sm_80a"),
            (".version 8.0 .target sm_120", 0, ""),
            (
                ".version 9.6\n.target sm_80",
                90,
                ".version 9.6 is newer than 9.5",
            ),
            (".version 99.0\n.target sm_120", 0, "is newer"),
            (".version x\n.target y", 90, ""),
            (".version", 90, ""),
            (".version 8.0 /* never ends", 90, ""),
            ("", 90, ""),
        ] {
            let said = refused(text, device);
            assert_eq!(said.is_empty(), due.is_empty(), "{text}: {said}");
            assert!(said.contains(due), "{said}");
        }
        assert!(check(b"\xff\xfe .target sm_120", Capability(90)).is_ok());
    }
}
