//! A token bucket: limits a rate to a burst and a number of tokens a second.

use std::time::Instant;

/// One bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Tokens that it holds as of a time.
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// Makes one that is full.
    pub(crate) fn new(burst: f64, now: Instant) -> Self {
        Self {
            tokens: burst,
            at: now,
        }
    }

    /// Takes tokens, if there are that many; it is filled with `rate` a second, and holds `burst`.
    pub(crate) fn take(&mut self, tokens: f64, (rate, burst): (f64, f64), now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * rate).min(burst);
        self.at = now;
        let has_some = self.tokens >= tokens;
        if has_some {
            self.tokens -= tokens;
        }
        has_some
    }

    /// Returns when it was asked last.
    pub(crate) fn at(&self) -> Instant {
        self.at
    }
}
