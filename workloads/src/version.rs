//! The version that a module's text is given, so that drivers older than the compiler that wrote it take it.

use std::borrow::Cow;

/// The version that modules are given: that of CUDA 12.0, which knows `sm_90`.
const VERSION: (u32, u32) = (8, 0);

/// Returns a module's text with a version that drivers of CUDA 12.0 and later compile.
///
/// A later version is replaced: compilers write their own, whatever a module uses.
#[must_use]
pub fn portable(ptx: &str) -> Cow<'_, str> {
    let directive = ".version ";
    let Some(start) = ptx.find(directive).map(|at| at + directive.len()) else {
        return Cow::Borrowed(ptx);
    };
    let end = ptx[start..]
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .map_or(ptx.len(), |length| start + length);
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let mut parts = ptx[start..end].split('.');
    let version = (number(parts.next()), number(parts.next()));
    match version > VERSION {
        true => Cow::Owned(format!(
            "{}{}.{}{}",
            &ptx[..start],
            VERSION.0,
            VERSION.1,
            &ptx[end..]
        )),
        false => Cow::Borrowed(ptx),
    }
}

#[cfg(test)]
mod tests {
    use super::portable;

    #[test]
    fn only_a_later_version_is_replaced() {
        let module = |version: &str| format!("// made\n.version {version}\n.target sm_80\n");
        for (version, due) in [
            ("9.5", "8.0"),
            ("8.0", "8.0"),
            ("7.1", "7.1"),
            ("8.10", "8.0"),
        ] {
            assert_eq!(portable(&module(version)), module(due));
        }
    }
}
