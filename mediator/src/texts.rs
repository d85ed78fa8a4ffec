//! Texts of failures, kept until somebody asks for them.
//!
//! Rules: there is room for a fixed number; when it is full the text that was kept longest goes, whatever its key; a
//! text is given once.

use std::collections::{BTreeMap, HashMap};

/// A bounded store of texts by key.
#[derive(Debug)]
pub(crate) struct Texts {
    most: usize,
    /// Text and number of insertion by key.
    by_key: HashMap<u64, (u64, String)>,
    /// Key by number of insertion.
    by_age: BTreeMap<u64, u64>,
    next: u64,
}

impl Texts {
    /// Makes an empty store for at most `most` texts.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            by_key: HashMap::new(),
            by_age: BTreeMap::new(),
            next: 0,
        }
    }

    /// Keeps a text; the oldest one goes when there is no room, and an older one of the same key goes in any case.
    pub(crate) fn keep(&mut self, key: u64, text: String) {
        self.take(key);
        while self.by_key.len() >= self.most {
            let Some((_, oldest)) = self.by_age.pop_first() else {
                break;
            };
            self.by_key.remove(&oldest);
        }
        let number = self.next;
        self.next += 1;
        self.by_age.insert(number, key);
        self.by_key.insert(key, (number, text));
    }

    /// Returns a text, once.
    pub(crate) fn take(&mut self, key: u64) -> Option<String> {
        let (number, text) = self.by_key.remove(&key)?;
        self.by_age.remove(&number);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::Texts;

    #[test]
    fn the_oldest_text_goes_and_not_that_of_the_smallest_key() {
        let mut texts = Texts::new(2);
        texts.keep(9, "first".into());
        texts.keep(1, "second".into());
        texts.keep(5, "third".into());
        assert_eq!(texts.take(9), None);
        assert_eq!(texts.take(1).as_deref(), Some("second"));
        assert_eq!(texts.take(5).as_deref(), Some("third"));
        assert_eq!(texts.take(5), None, "a text is given once");
    }

    #[test]
    fn a_key_that_is_used_again_keeps_its_newest_text_for_its_full_time() {
        let mut texts = Texts::new(2);
        texts.keep(1, "old".into());
        texts.keep(2, "other".into());
        texts.keep(1, "new".into());
        texts.keep(3, "third".into());
        assert_eq!(texts.take(2), None);
        assert_eq!(texts.take(1).as_deref(), Some("new"));
    }
}
