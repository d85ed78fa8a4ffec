//! Kernels that ask for clusters of more than one block (PTX ISA section 11.4.3) are refused: blocks here know
//! nothing of one another.

use super::Lines;
use crate::load_error::LoadError;
use gridmux_ptx::decode::{Function, Span};

/// Refuses a kernel whose header has `.reqnctapercluster` with more than one block.
pub(super) fn refuse(function: &Function, text: &[u8], lines: &Lines) -> Result<(), LoadError> {
    const DIRECTIVE: &[u8] = b".reqnctapercluster";
    let start = function.span.start as usize;
    let Some(rest) = text.get(start..function.span.end as usize) else {
        return Ok(());
    };
    let header = rest.split(|byte| *byte == b'{').next().unwrap_or(rest);
    let found = header.windows(DIRECTIVE.len()).position(|w| w == DIRECTIVE);
    let Some(at) = found else {
        return Ok(());
    };
    let numbers = header[at + DIRECTIVE.len()..].trim_ascii_start();
    let end = numbers
        .iter()
        .position(|b| !(b.is_ascii_digit() || b.is_ascii_whitespace() || *b == b','));
    let numbers = &numbers[..end.unwrap_or(numbers.len())];
    let of_one = |n: &[u8]| matches!(n.trim_ascii(), b"1" | b"");
    if numbers.split(|b| *b == b',').all(of_one) {
        return Ok(());
    }
    let at = u32::try_from(start + at).unwrap_or(u32::MAX);
    Err(LoadError::Unsupported {
        function: function.name.clone(),
        line: lines.of(Span { start: at, end: at }),
        mnemonic: ".reqnctapercluster".to_owned(),
    })
}
