//! Names of kernels as their compilers mangled them, and as their authors wrote them.
//!
//! Rule: a name that is not mangled is its own other form.

use cpp_demangle::{DemangleOptions, Symbol};
use std::fmt::{self, Write as _};

/// Most bytes of a demangled name; a longer one is shown mangled, because a short mangled name can stand for a
/// demangled one of any length.
const LONGEST: usize = 4096;

/// Most bytes of a mangled name that is demangled: the time for one grows faster than its length.
const LONGEST_MANGLED: usize = 2048;

/// A demangled name in the making, which takes no more than [`LONGEST`] bytes.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

/// Returns a name as its author wrote it: C++ with the types of parameters, Rust without the hash.
pub(crate) fn shown(name: &str) -> String {
    written(name, DemangleOptions::new().no_return_type())
}

/// Returns a name as its author wrote it, without the types of parameters.
pub(crate) fn brief(name: &str) -> String {
    written(name, DemangleOptions::new().no_return_type().no_params())
}

/// Returns whether somebody who writes `asked` means the kernel `name`: its name as it is, or as its author wrote it,
/// with or without the types of parameters.
pub(crate) fn is_meant(asked: &str, name: &str) -> bool {
    let same = |other: &str| {
        let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
        letters(asked) == letters(other)
    };
    asked == name || same(&shown(name)) || same(&brief(name))
}

fn written(name: &str, options: DemangleOptions) -> String {
    if name.len() > LONGEST_MANGLED {
        return name.to_owned();
    }
    let mut written = Bounded(String::new());
    let outcome = match (rustc_demangle::try_demangle(name), Symbol::new(name)) {
        (Ok(rust), _) => write!(written, "{rust:#}"),
        (Err(_), Ok(symbol)) => symbol.structured_demangle(&mut written, &options),
        (Err(_), Err(_)) => Err(fmt::Error),
    };
    match outcome {
        Ok(()) => written.0,
        Err(_) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_meant, shown};

    const NBODY: &str = "_Z5nbodyP4BodyP6float3i";
    const SCALE: &str = "_Z5scaleIfEvPT_S0_i";
    const RUST: &str = "_ZN7kernels3add17h0123456789abcdefE";

    /// Returns the digits of a substitution's number.
    fn base36(number: u32) -> String {
        let digit = |n: u32| {
            char::from_digit(n, 36)
                .expect("a digit")
                .to_ascii_uppercase()
        };
        match number {
            0..36 => digit(number).to_string(),
            _ => format!("{}{}", digit(number / 36), digit(number % 36)),
        }
    }

    #[test]
    fn names_are_shown_as_they_were_written() {
        for (name, due) in [
            (NBODY, "nbody(Body*, float3*, int)"),
            (SCALE, "scale<float>(float*, float, int)"),
            (RUST, "kernels::add"),
            ("_RNvC7kernels3add", "kernels::add"),
            ("vecadd", "vecadd"),
            ("_Z", "_Z"),
        ] {
            assert_eq!(shown(name), due);
        }
        // Each parameter is a pair of the one before it.
        let pairs = (1..20).map(|n| format!("1pIS{0}_S{0}_E", base36(2 * n)));
        let bomb = format!("_Z1f1pIiiE{}", pairs.collect::<String>());
        assert!(shown(&bomb).len() <= 4096 + bomb.len());
    }

    #[test]
    fn a_kernel_is_asked_for_by_any_form_of_its_name() {
        for asked in [
            NBODY,
            "nbody(Body*, float3*, int)",
            "nbody(Body*,float3*,int)",
            "nbody",
        ] {
            assert!(is_meant(asked, NBODY), "{asked}");
        }
        for asked in ["scale<float>", "scale<float>(float*, float, int)"] {
            assert!(is_meant(asked, SCALE), "{asked}");
        }
        assert!(is_meant("kernels::add", RUST));
        assert!(is_meant("vecadd", "vecadd"));
        for asked in ["nbod", "nbody(int)", "scale<double>", ""] {
            assert!(
                !is_meant(asked, NBODY) && !is_meant(asked, SCALE),
                "{asked}"
            );
        }
    }
}
