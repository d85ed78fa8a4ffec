//! Options for the compiler: a real architecture becomes the virtual one of the same number.

use std::ffi::{CStr, CString};

/// What an architecture's option is called, in both of its forms.
const NAMES: [&str; 2] = ["--gpu-architecture", "-arch"];
/// How real and virtual architectures begin; the number and the suffixes `a` and `f` follow.
const REAL: &str = "sm_";
const VIRTUAL: &str = "compute_";

/// Returns the options with virtual architectures for the real ones among them; nothing if there is no real one.
#[must_use]
pub fn for_virtual(options: &[&CStr]) -> Option<Vec<CString>> {
    let mut changed = false;
    let mut is_value = false;
    let mut rewritten = Vec::with_capacity(options.len());
    for option in options {
        let new = option
            .to_str()
            .ok()
            .and_then(|text| rewritten_option(text, is_value));
        is_value = NAMES
            .iter()
            .any(|name| option.to_bytes() == name.as_bytes());
        changed |= new.is_some();
        rewritten.push(new.unwrap_or_else(|| (*option).to_owned()));
    }
    changed.then_some(rewritten)
}

/// Returns an option that names a real architecture, or the value of one, with the virtual one.
fn rewritten_option(text: &str, is_value: bool) -> Option<CString> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) if NAMES.contains(&name) => (name, value),
        None if is_value => ("", text),
        _ => return None,
    };
    let number = value.strip_prefix(REAL)?;
    let equals = if name.is_empty() { "" } else { "=" };
    CString::new(format!("{name}{equals}{VIRTUAL}{number}")).ok()
}

#[cfg(test)]
mod tests {
    use super::for_virtual;
    use std::ffi::{CStr, CString};

    fn rewritten(options: &[&CStr]) -> Option<Vec<String>> {
        let owned = |option: CString| option.into_string().unwrap();
        for_virtual(options).map(|options| options.into_iter().map(owned).collect())
    }

    #[test]
    fn a_real_architecture_becomes_the_virtual_one() {
        for (given, expected) in [
            (c"--gpu-architecture=sm_90", "--gpu-architecture=compute_90"),
            (c"-arch=sm_90a", "-arch=compute_90a"),
            (c"-arch=sm_100f", "-arch=compute_100f"),
        ] {
            assert_eq!(
                rewritten(&[c"-lineinfo", given, c"-DA=sm_80"]),
                Some(vec![
                    "-lineinfo".into(),
                    expected.into(),
                    "-DA=sm_80".into()
                ])
            );
        }
        assert_eq!(
            rewritten(&[c"-arch", c"sm_80", c"-I", c"sm_80"]),
            Some(
                ["-arch", "compute_80", "-I", "sm_80"]
                    .map(String::from)
                    .to_vec()
            )
        );
    }

    #[test]
    fn options_without_one_stay() {
        assert_eq!(rewritten(&[]), None);
        assert_eq!(rewritten(&[c"-arch=compute_80", c"-G"]), None);
        assert_eq!(rewritten(&[c"-arch"]), None);
        assert_eq!(rewritten(&[c"-D=sm_80", c"sm_80", c"-arch=native"]), None);
    }
}
