//! A flag for each SM, of which those that are set are found without looking at the others.

/// The flags of a number of SMs.
#[derive(Debug)]
pub(super) struct Flags {
    words: Vec<u64>,
    sms: usize,
}

impl Flags {
    /// Returns flags of `sms` SMs, none of which is set.
    pub(super) fn new(sms: usize) -> Self {
        Self {
            words: vec![0; sms.div_ceil(64)],
            sms,
        }
    }

    pub(super) fn set(&mut self, sm: usize) {
        self.words[sm / 64] |= 1 << (sm % 64);
    }

    pub(super) fn clear(&mut self, sm: usize) {
        self.words[sm / 64] &= !(1 << (sm % 64));
    }

    /// Sets every flag.
    pub(super) fn fill(&mut self) {
        self.words.fill(u64::MAX);
        if let Some(last) = self.words.last_mut() {
            *last >>= (64 - self.sms % 64) % 64;
        }
    }

    /// Returns whether any flag is set.
    pub(super) fn any(&self) -> bool {
        self.words.iter().any(|word| *word != 0)
    }

    /// Returns the first SM from `from` on whose flag is set, going on with the first SM after the last one.
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        let (start, before) = (from / 64, (1_u64 << (from % 64)) - 1);
        let words = self.words.len();
        (0..=words).find_map(|step| {
            let at = (start + step) % words;
            let word = match step {
                0 => self.words[at] & !before,
                _ if step == words => self.words[at] & before,
                _ => self.words[at],
            };
            (word != 0).then(|| at * 64 + word.trailing_zeros() as usize)
        })
    }

    /// Calls `visit` for each SM whose flag is set, in ascending order.
    pub(super) fn each(&self, mut visit: impl FnMut(usize)) {
        for (at, word) in self.words.iter().enumerate() {
            let mut left = *word;
            while left != 0 {
                visit(at * 64 + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }

    /// Clears every flag, and calls `visit` for each SM whose flag was set, in ascending order.
    pub(super) fn take(&mut self, visit: impl FnMut(usize)) {
        self.each(visit);
        self.words.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::Flags;

    #[test]
    fn flags_are_found_in_turn() {
        for sms in [1, 15, 64, 65, 132] {
            let mut flags = Flags::new(sms);
            assert!(!flags.any() && flags.next(sms - 1).is_none());
            flags.fill();
            let mut seen = Vec::new();
            flags.take(|sm| seen.push(sm));
            assert_eq!(seen, (0..sms).collect::<Vec<_>>());
            flags.set(sms - 1);
            flags.set(sms / 2);
            for from in 0..sms {
                let expected = if from <= sms / 2 { sms / 2 } else { sms - 1 };
                assert_eq!(flags.next(from), Some(expected), "{sms} SMs from {from}");
            }
            flags.clear(sms - 1);
            let rest = (sms / 2 != sms - 1).then_some(sms / 2);
            assert_eq!(flags.next(sms - 1), rest);
        }
    }
}
