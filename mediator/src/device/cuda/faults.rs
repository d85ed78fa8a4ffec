//! Texts of failed operations, kept until somebody asks.
//!
//! Rule: written and read on failure paths only, which is why a lock may guard them.

use crate::device::Tag;
use crate::lock::CountedMutex;
use std::collections::BTreeMap;

/// Texts that are kept; a tenant that never asks must not fill the memory.
const FAULTS: usize = 256;

/// The texts by tag.
#[derive(Debug, Default)]
pub(super) struct Faults(CountedMutex<BTreeMap<u64, String>>);

impl Faults {
    /// Keeps a text; an old one goes when there are too many.
    pub(super) fn keep(&self, tag: Tag, text: String) {
        let mut texts = self.0.lock();
        while texts.len() >= FAULTS {
            texts.pop_first();
        }
        texts.insert(tag.to_bits(), text);
    }

    /// The text of a failed operation, once.
    pub(super) fn take(&self, tag: Tag) -> Option<String> {
        self.0.lock().remove(&tag.to_bits())
    }
}
