//! `gridmux tenant show NAME --why`: what binds a tenant now, in a sentence, and since when.
//!
//! Rule: there is a sentence for each reason, and one where no device host runs, so that nothing else binds.

use super::Row;
use crate::{table, units};
use gridmux_mediator::dispatch::why::Why;
use gridmux_mediator::supervisor::HostState;
use serde::Serialize;

/// What binds a tenant.
#[derive(Debug, Serialize)]
pub(super) struct Answer<'a> {
    tenant: &'a str,
    /// The reason, as `cap`; none where no device host runs.
    binds: Option<Why>,
    /// For how long it has been this one, in milliseconds of wall time, as of when the figures were written.
    bound_for_ms: Option<u64>,
    sentence: String,
    /// Milliseconds since the device host wrote its figures.
    age_ms: u64,
    host_state: &'a HostState,
}

impl<'a> Answer<'a> {
    pub(super) fn of(row: &'a Row) -> Self {
        let no_host = match &row.host_state {
            HostState::Up => None,
            HostState::Starting => Some("a device host is starting".to_owned()),
            HostState::Down { why, .. } => Some(format!("there is no device host ({why})")),
        };
        let is_up = no_host.is_none();
        Self {
            tenant: &row.name,
            binds: is_up.then_some(row.binds),
            bound_for_ms: row.bound_for_ms.filter(|_| is_up),
            sentence: no_host.unwrap_or_else(|| sentence(row.binds).to_owned()),
            age_ms: row.age_ms,
            host_state: &row.host_state,
        }
    }

    pub(super) fn text(&self, stale: Option<&str>) -> String {
        let fields = [
            ("tenant", Some(self.tenant.to_owned())),
            ("why", Some(self.sentence.clone())),
            ("for", self.bound_for_ms.map(lasts)),
            ("figures", stale.map(ToOwned::to_owned)),
        ];
        let fields = fields.into_iter();
        table::fields(fields.filter_map(|(name, value)| Some((name, value?))))
    }
}

/// Returns milliseconds as people read them, up to days.
pub(in crate::commands) fn lasts(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => units::nanos(Some(ms.saturating_mul(1_000_000))),
        60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Returns the sentence of a reason.
pub(in crate::commands) fn sentence(why: Why) -> &'static str {
    match why {
        Why::Idle => "it has nothing to do: all that it submitted has ended",
        Why::Nothing => {
            "nothing binds it: the device has what it submitted, or as much as it takes"
        }
        Why::Streams => {
            "its own streams: what is first in each waits for the program or another stream"
        }
        Why::Paused => "an operator paused it; `gridmux tenant resume` lets it go on",
        Why::Behind => {
            "its launches keep ending at their budget, so it waits while others have work"
        }
        Why::Submission => {
            "submission: the thread that submits launches is busy, or others have their turn"
        }
        Why::Gang => "a gang: blocks that wait for each other are being placed, or gangs rest",
        Why::Queues => "the device's queues: it has its part of them, or they are full",
        Why::Order => "the order: launches of others go first, or their blocks hold the device",
        Why::Cap => "a cap: the plan lets no more blocks of its kernel reside",
        Why::Limit => "its limit: the plan lets it hold no more of the device",
        Why::Unproven => {
            "its kernel is unproven: until a block of it has ended it gets a small window"
        }
        Why::Memory => "device memory: its last request was refused, and would be still",
    }
}

/// Returns a reason in a word, for a column.
pub(in crate::commands) fn word(why: Why) -> &'static str {
    match why {
        Why::Idle => "idle",
        Why::Nothing => "-",
        Why::Streams => "streams",
        Why::Paused => "paused",
        Why::Behind => "behind",
        Why::Submission => "submission",
        Why::Gang => "gang",
        Why::Queues => "queues",
        Why::Order => "order",
        Why::Cap => "cap",
        Why::Limit => "limit",
        Why::Unproven => "unproven",
        Why::Memory => "memory",
    }
}

#[cfg(test)]
mod tests {
    use super::{lasts, sentence, word};
    use gridmux_mediator::dispatch::why::Why;
    use std::collections::BTreeSet;

    #[test]
    fn each_reason_has_a_sentence_and_a_word_of_its_own() {
        let sentences: BTreeSet<&str> = Why::ALL.into_iter().map(sentence).collect();
        let words: BTreeSet<&str> = Why::ALL.into_iter().map(word).collect();
        assert_eq!((sentences.len(), words.len()), (13, 13));
        assert!(words.iter().all(|word| word.len() <= 10));
    }

    #[test]
    fn times_are_said_in_the_units_that_people_use() {
        let said = [40, 1_500, 61_000, 3_700_000, 90_000_000].map(lasts);
        assert_eq!(said, ["40.0ms", "1.5s", "1m1s", "1h1m", "1d1h"]);
    }
}
