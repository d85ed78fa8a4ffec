//! Texts of failed operations, kept until somebody asks.
//!
//! Rule: written and read on failure paths only, which is why a lock may guard them.

use crate::device::Tag;
use crate::lock::CountedMutex;
use crate::texts::Texts;

/// Texts that are kept; a tenant that never asks must not fill the memory.
const FAULTS: usize = 256;

/// The texts by tag.
#[derive(Debug)]
pub(super) struct Faults(CountedMutex<Texts>);

impl Default for Faults {
    fn default() -> Self {
        Self(CountedMutex::new(Texts::new(FAULTS)))
    }
}

impl Faults {
    /// Keeps a text; the oldest goes when there are too many.
    pub(super) fn keep(&self, tag: Tag, text: String) {
        self.0.lock().keep(tag.to_bits(), text);
    }

    /// Returns the text of a failed operation, once.
    pub(super) fn take(&self, tag: Tag) -> Option<String> {
        self.0.lock().take(tag.to_bits())
    }
}
