//! Names of a function's registers, kept as one text.
//!
//! A function has about as many registers as instructions, and hardly any of their names is ever read; a string for
//! each would cost more than the instructions do.

use std::ops::Index;

/// Names by register, as [`RegId`](super::RegId) numbers them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegisterNames {
    text: String,
    /// Where each name ends in `text`; it starts where the one before ends.
    ends: Vec<u32>,
}

impl RegisterNames {
    /// Adds the name of the next register, in parts.
    pub(crate) fn push(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.text.push_str(part));
        // Every name comes from a token of a source that is at most 64 MiB long, a vector's in at most eight lanes.
        self.ends
            .push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    /// Returns how many registers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns every name, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|n| &self[n])
    }
}

impl Index<usize> for RegisterNames {
    type Output = str;

    fn index(&self, n: usize) -> &str {
        let start = n.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[n] as usize]
    }
}
