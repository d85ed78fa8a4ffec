//! What binds a tenant: why what it has submitted is not on the device.
//!
//! An attempt to hand an operation over that fails leaves its reason at the tenant's account, or, where nothing more
//! was tried, at the queue. Now and then, and before its thread sleeps, the dispatcher says what follows for each
//! tenant that has something submitted ([`Binding`]).
//!
//! Rules: a reason is what holds now, not what was; where several operations of a tenant wait for different reasons it
//! is the newest one. Time is the machine's monotonic clock, from when the reason became this one.

use serde::{Deserialize, Serialize};

/// A reason.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Why {
    /// It has nothing submitted.
    #[default]
    Idle,
    /// All that it submitted is on the device, or as much of it as keeps the device busy.
    Nothing,
    /// What is first in its streams waits for the program or for another stream.
    Streams,
    /// An operator has paused it.
    Paused,
    /// Its launches keep ending at their budget, and others have some to run.
    Behind,
    /// The thread that submits launches is busy, or it is the turn of others there.
    Submission,
    /// A gang has its turn, or gangs are paused.
    Gang,
    /// It has its part of the device's queues, or these are full.
    Queues,
    /// Launches of others go first, or their blocks hold the device.
    Order,
    /// A cap of the plan on its kernel.
    Cap,
    /// Its limit in the plan.
    Limit,
    /// No block of its kernel has ended yet, so that it gets a small window.
    Unproven,
    /// It was refused device memory.
    Memory,
}

impl Why {
    /// Every reason, by number.
    pub const ALL: [Self; 13] = [
        Self::Idle,
        Self::Nothing,
        Self::Streams,
        Self::Paused,
        Self::Behind,
        Self::Submission,
        Self::Gang,
        Self::Queues,
        Self::Order,
        Self::Cap,
        Self::Limit,
        Self::Unproven,
        Self::Memory,
    ];

    /// Returns its name, which is that of its JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Nothing => "nothing",
            Self::Streams => "streams",
            Self::Paused => "paused",
            Self::Behind => "behind",
            Self::Submission => "submission",
            Self::Gang => "gang",
            Self::Queues => "queues",
            Self::Order => "order",
            Self::Cap => "cap",
            Self::Limit => "limit",
            Self::Unproven => "unproven",
            Self::Memory => "memory",
        }
    }

    /// Returns what holds a launch back that stands behind one which this holds back.
    pub(in crate::dispatch) fn behind_it(self) -> Self {
        match self {
            Self::Submission | Self::Gang | Self::Queues => self,
            _ => Self::Order,
        }
    }
}

/// What binds a tenant, and since when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The reason.
    pub why: Why,
    /// From when it holds, in nanoseconds of the machine's monotonic clock; 0 where nobody has said it.
    pub since_ns: u64,
}

/// Bits of a word for the reason; the others, which last for 36 years, are for the time.
const WHY_BITS: u32 = 4;
const _: () = assert!(Why::ALL.len() <= 1 << WHY_BITS);

impl Binding {
    /// Returns it as one word, so that nobody reads the reason of one and the time of another.
    pub(super) fn to_word(self) -> u64 {
        self.since_ns << WHY_BITS | self.why as u64
    }

    /// Takes a word apart.
    pub(super) fn of_word(word: u64) -> Self {
        let place = usize::try_from(word & ((1 << WHY_BITS) - 1)).unwrap_or(0);
        Self {
            why: Why::ALL.get(place).copied().unwrap_or_default(),
            since_ns: word >> WHY_BITS,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Binding, Why};

    #[test]
    fn a_word_holds_each_reason_and_its_time() {
        for (place, why) in (0..).zip(Why::ALL) {
            assert_eq!(why as usize, place);
            assert_eq!(serde_json::to_value(why).unwrap(), why.name());
            let binding = Binding {
                why,
                since_ns: 1 << 59,
            };
            assert_eq!(Binding::of_word(binding.to_word()), binding);
        }
        assert_eq!(Binding::of_word(0), Binding::default());
        assert_eq!(Binding::of_word(15).why, Why::Idle, "no reason has it");
    }
}
