//! Durations of kernels' blocks, learnt from what ran: one store for a device, shared by its policy, the learner that
//! fills it ([`crate::learner`]) and whoever else predicts how long a launch lasts.
//!
//! A profile is the mean duration of a block of one kernel and block shape ([`ProfileKey`]). In the service each tenant
//! has its own of a kernel, though others run the same text ([`crate::ids::KernelKey::of_tenant`]): how long a block
//! lasts depends on the arguments, which a tenant can choose so that others' predictions were wrong. A profile forgives
//! when it was wrong: what was learnt before never weighs more than the last two waves of blocks, so that a kernel
//! whose blocks last otherwise, because its input has another size, is known anew within a few waves.
//!
//! Blocks that ran **alone**, with no other kernel on the device, say more than those that ran **beside** others. The
//! first of the former replace what was learnt from the latter. A profile from blocks alone holds beside others too,
//! as long as the blocks there are no quicker than it says and at most [`COMPANY`] times slower. What contradicts it
//! uses it up, block by block; once as many have contradicted it as it was learnt from, it begins anew from them.
//!
//! What was **told** of a kernel, by a file ([`Profiles::tell`]), may be of other inputs, or wrong: it counts as one
//! wave of blocks at most, and blocks that last more than [`COMPANY`] times as long, or less than that part of it, use
//! it up whether they are alone or not. Once blocks agree with it, it is a profile like others.
//!
//! Rules: a policy that has a profile of a kernel does not measure that kernel; reading takes no lock and never waits;
//! one thread learns (what several learn at the same time may be lost). The store holds [`CAPACITY`] profiles; one more
//! takes the place of that which was learnt from the fewest blocks: a tenant with thousands of kernels can make others'
//! forgotten, which are then learnt anew, but not wrong.

use crate::ids::ProfileKey;
use gridmux_sync::shim::Arc;
use gridmux_sync::word_map::WordMap;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Profiles in a store. Few under loom, which follows every word.
pub const CAPACITY: usize = if cfg!(loom) { 2 } else { 4096 };

/// Blocks that a profile counts at most.
pub const MOST_BLOCKS: u32 = 1 << 20;
/// The longest duration of a block that is believed, in nanoseconds: eleven days.
pub const MOST_NS: f64 = 1e15;

/// Waves of blocks that what was learnt before weighs at most.
const WAVES: u64 = 2;
/// Blocks that it weighs at most where a wave has fewer.
const LEAST_WAVES: u64 = 8;
/// Blocks beside others may last this many times as long as alone without contradicting it.
pub const COMPANY: f64 = 4.0;
/// Blocks beside others that last less than this part of what they last alone contradict it.
const QUICKER: f64 = 0.8;

/// The bit of a packed profile that says that it was told. Counts of blocks stay below it.
const TOLD: u64 = 1 << 30;
const _: () = assert!((MOST_BLOCKS as u64) < TOLD);

/// Durations by kernel and block shape. Clones share one table.
#[derive(Clone)]
pub struct Profiles {
    table: Arc<WordMap>,
    /// Nothing is learnt through this one.
    is_fixed: bool,
}

impl fmt::Debug for Profiles {
    /// Leaves the table out, which has thousands of entries.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Profiles").finish_non_exhaustive()
    }
}

/// What is known of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Mean duration of a block in nanoseconds.
    pub block_ns: f64,
    /// Blocks that stand behind it, [`MOST_BLOCKS`] at most.
    pub blocks: u32,
    /// These blocks had the device to themselves.
    pub alone: bool,
}

/// Blocks that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Their number.
    pub blocks: u64,
    /// The sum of their residences in nanoseconds.
    pub ran_ns: u64,
    /// No other kernel was on the device meanwhile.
    pub alone: bool,
    /// Blocks of the kernel that were resident at once.
    pub wave: u64,
}

impl Default for Profiles {
    /// Returns an empty store.
    fn default() -> Self {
        Self {
            table: Arc::new(WordMap::new(CAPACITY)),
            is_fixed: false,
        }
    }
}

impl Profiles {
    /// Returns the same store, into which nothing is learnt through this one: what an oracle knows stays as it is.
    #[must_use]
    pub fn fixed(&self) -> Self {
        Self {
            is_fixed: true,
            ..self.clone()
        }
    }

    /// Returns the duration of a block in nanoseconds.
    #[must_use]
    pub fn block_ns(&self, key: ProfileKey) -> Option<f64> {
        self.get(key).map(|profile| profile.block_ns)
    }

    /// Returns what is known of a kernel.
    #[must_use]
    pub fn get(&self, key: ProfileKey) -> Option<Profile> {
        self.table.get(key.0).map(Profile::unpack)
    }

    /// Says how long a block takes that has the device to itself. A duration that no block can have is not taken.
    pub fn set(&self, key: ProfileKey, block_ns: f64) {
        let profile = Profile {
            block_ns,
            blocks: MOST_BLOCKS,
            alone: true,
        };
        self.put(key, profile);
    }

    /// Sets what is known of a kernel; returns false if its numbers are out of range, or another thread writes.
    pub fn put(&self, key: ProfileKey, profile: Profile) -> bool {
        self.write(key, profile, 0)
    }

    /// Sets what was told of a kernel, which blocks have yet to agree with; returns as [`Profiles::put`] does.
    pub fn tell(&self, key: ProfileKey, profile: Profile) -> bool {
        self.write(key, profile, TOLD)
    }

    fn write(&self, key: ProfileKey, profile: Profile, told: u64) -> bool {
        let writer = self.table.try_write().filter(|_| profile.is_sound());
        let is_set = writer.map(|mut writer| {
            writer.set(key.0, profile.pack() | told, |word| {
                Profile::unpack(word).blocks.into()
            });
        });
        is_set.is_some()
    }

    /// Updates what is known of a kernel with blocks that ended. What no blocks can have done is not taken.
    pub fn learn(&self, key: ProfileKey, seen: &Seen) {
        let Some(new) = Profile::of(seen).filter(|_| !self.is_fixed) else {
            return;
        };
        let (profile, told) = match self.table.get(key.0) {
            None => (new, 0),
            Some(word) if word & TOLD == 0 => (Profile::unpack(word).after(&new, seen.wave), 0),
            Some(word) => Profile::unpack(word).told_after(&new, seen.wave),
        };
        self.write(key, profile, told);
    }

    /// Returns every profile, in order of keys.
    #[must_use]
    pub fn all(&self) -> Vec<(ProfileKey, Profile)> {
        let pairs = self.table.pairs();
        let mut all: Vec<_> = pairs
            .map(|(key, word)| (ProfileKey(key), Profile::unpack(word)))
            .collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }
}

impl Profile {
    /// Returns what blocks say by themselves; nothing if there are none, or no block can have run so long.
    fn of(seen: &Seen) -> Option<Self> {
        let profile = Self {
            block_ns: seen.ran_ns as f64 / seen.blocks as f64,
            blocks: capped(seen.blocks),
            alone: seen.alone,
        };
        profile.is_sound().then_some(profile)
    }

    /// Returns the duration of a block in whole nanoseconds, at least 1.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a duration is positive and at most MOST_NS"
    )]
    pub fn whole_ns(&self) -> u64 {
        self.block_ns.max(1.0) as u64
    }

    /// Returns whether its numbers are in range.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let blocks = 1..=MOST_BLOCKS;
        blocks.contains(&self.blocks) && self.block_ns > 0.0 && self.block_ns <= MOST_NS
    }

    /// Returns what is known after more blocks, of which `wave` were resident at once.
    fn after(&self, new: &Self, wave: u64) -> Self {
        match (self.alone, new.alone) {
            (false, true) => *new,
            (true, false) => self.beside(new),
            (true, true) | (false, false) => self.mean(new, wave),
        }
    }

    /// Returns the mean of what is known and more blocks of the same kind.
    fn mean(&self, new: &Self, wave: u64) -> Self {
        let most = wave.saturating_mul(WAVES).max(LEAST_WAVES);
        let old = self.blocks.min(capped(most));
        let blocks = old.saturating_add(new.blocks);
        let sum = self.block_ns * f64::from(old) + new.block_ns * f64::from(new.blocks);
        Self {
            block_ns: sum / f64::from(blocks),
            blocks: blocks.min(MOST_BLOCKS),
            alone: self.alone,
        }
    }

    /// Returns what is known alone after blocks that ran beside others.
    fn beside(&self, new: &Self) -> Self {
        let agrees = QUICKER * self.block_ns..=COMPANY * self.block_ns;
        match self.blocks.checked_sub(new.blocks) {
            _ if agrees.contains(&new.block_ns) => *self,
            Some(blocks) if blocks > 0 => Self { blocks, ..*self },
            _ => *new,
        }
    }

    /// Returns what is known after more blocks, where this was told; and [`TOLD`] if they do not agree and have not used
    /// it up yet.
    fn told_after(&self, new: &Self, wave: u64) -> (Self, u64) {
        let blocks = self.blocks.min(capped(wave.max(1)));
        let told = Self { blocks, ..*self };
        let agrees = self.block_ns / COMPANY..=self.block_ns * COMPANY;
        match blocks.checked_sub(new.blocks) {
            _ if agrees.contains(&new.block_ns) => (told.after(new, wave), 0),
            Some(blocks) if blocks > 0 => (Self { blocks, ..told }, TOLD),
            _ => (*new, 0),
        }
    }

    /// Returns it in one word: the duration as the bits of an `f32`, whether alone, and the blocks.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a duration to 24 bits is exact enough"
    )]
    fn pack(self) -> u64 {
        let block_ns = (self.block_ns as f32).max(f32::MIN_POSITIVE);
        u64::from(block_ns.to_bits()) << 32 | u64::from(self.alone) << 31 | u64::from(self.blocks)
    }

    #[allow(clippy::cast_possible_truncation, reason = "the halves of the word")]
    fn unpack(word: u64) -> Self {
        Self {
            block_ns: f32::from_bits((word >> 32) as u32).into(),
            blocks: word as u32 & (TOLD as u32 - 1),
            alone: word & 1 << 31 != 0,
        }
    }
}

/// Returns a number of blocks as profiles count them.
fn capped(blocks: u64) -> u32 {
    u32::try_from(blocks).map_or(MOST_BLOCKS, |blocks| blocks.min(MOST_BLOCKS))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{CAPACITY, MOST_BLOCKS, MOST_NS, Profile, Profiles, Seen};
    use crate::ids::ProfileKey;

    const KEY: ProfileKey = ProfileKey(7);
    const WAVE: u64 = 100;

    fn seen(blocks: u64, block_ns: u64, alone: bool) -> Seen {
        Seen {
            blocks,
            ran_ns: blocks.saturating_mul(block_ns),
            alone,
            wave: WAVE,
        }
    }

    fn ns(profiles: &Profiles) -> f64 {
        profiles.block_ns(KEY).expect("it is known")
    }

    #[test]
    fn clones_share_what_is_learnt() {
        let profiles = Profiles::default();
        let other = profiles.clone();
        assert_eq!(other.block_ns(KEY), None);
        profiles.learn(KEY, &seen(3, 1000, true));
        assert_eq!(other.block_ns(KEY), Some(1000.0));
        assert_eq!(Profiles::default().block_ns(KEY), None, "another store");
    }

    #[test]
    fn a_profile_that_is_wrong_adapts_within_a_few_waves() {
        let profiles = Profiles::default();
        for _ in 0..100 {
            profiles.learn(KEY, &seen(WAVE, 1000, true));
        }
        for _ in 0..8 {
            profiles.learn(KEY, &seen(WAVE, 50_000, true));
        }
        assert!(
            (47_500.0..=50_000.0).contains(&ns(&profiles)),
            "{}",
            ns(&profiles)
        );
        // What was said to be known for sure forgives no less.
        profiles.set(KEY, 1e6);
        for _ in 0..20 {
            profiles.learn(KEY, &seen(WAVE / 2, 1000, true));
        }
        assert!(
            (1000.0..20_000.0).contains(&ns(&profiles)),
            "{}",
            ns(&profiles)
        );
    }

    #[test]
    fn small_waves_are_averaged_over_several() {
        let profiles = Profiles::default();
        for n in 0..40 {
            let block_ns = if n % 2 == 0 { 500 } else { 1500 };
            let seen = Seen {
                wave: 1,
                ..seen(1, block_ns, true)
            };
            profiles.learn(KEY, &seen);
        }
        assert!(
            (850.0..1150.0).contains(&ns(&profiles)),
            "{}",
            ns(&profiles)
        );
    }

    #[test]
    fn blocks_alone_say_more_than_blocks_beside_others() {
        let profiles = Profiles::default();
        profiles.learn(KEY, &seen(1000, 3000, false));
        profiles.learn(KEY, &seen(1, 1000, true));
        assert_eq!(ns(&profiles), 1000.0, "the first alone");
        profiles.learn(KEY, &seen(1000, 3500, false));
        assert_eq!(ns(&profiles), 1000.0, "company explains it");
    }

    #[test]
    fn blocks_beside_others_use_up_what_they_contradict() {
        for block_ns in [100_u32, 40_000] {
            let profiles = Profiles::default();
            profiles.learn(KEY, &seen(2 * WAVE, 1000, true));
            profiles.learn(KEY, &seen(WAVE, block_ns.into(), false));
            assert_eq!(ns(&profiles), 1000.0, "one wave may be an accident");
            profiles.learn(KEY, &seen(WAVE, block_ns.into(), false));
            assert_eq!(ns(&profiles), f64::from(block_ns), "two are not");
            assert!(!profiles.get(KEY).expect("it is known").alone);
        }
    }

    #[test]
    fn what_was_told_is_dropped_within_a_wave_of_blocks_that_contradict_it() {
        for (told_ns, alone) in [
            (8_000.0, true),
            (125.0, true),
            (8_000.0, false),
            (1e9, false),
        ] {
            let profiles = Profiles::default();
            let told = Profile {
                block_ns: told_ns,
                blocks: MOST_BLOCKS,
                alone: true,
            };
            assert!(profiles.tell(KEY, told));
            profiles.learn(KEY, &seen(WAVE / 2, 1000, alone));
            assert_eq!(ns(&profiles), told_ns, "half a wave may be an accident");
            profiles.learn(KEY, &seen(WAVE / 2, 1000, alone));
            assert_eq!(ns(&profiles), 1000.0, "a wave is none");
        }
    }

    #[test]
    fn what_was_told_and_agrees_is_a_profile_like_others() {
        let profiles = Profiles::default();
        let told = Profile {
            block_ns: 1100.0,
            blocks: MOST_BLOCKS,
            alone: true,
        };
        profiles.tell(KEY, told);
        assert_eq!(profiles.get(KEY), Some(told));
        profiles.learn(KEY, &seen(WAVE, 1000, true));
        assert_eq!(ns(&profiles), 1050.0, "it counts as a wave");
        profiles.learn(KEY, &seen(WAVE, 3000, false));
        assert_eq!(ns(&profiles), 1050.0, "company explains that");
    }

    #[test]
    fn an_oracle_s_store_learns_nothing() {
        let profiles = Profiles::default();
        profiles.set(KEY, 1000.0);
        let fixed = profiles.fixed();
        fixed.learn(KEY, &seen(WAVE, 5000, true));
        assert_eq!((ns(&fixed), ns(&profiles)), (1000.0, 1000.0));
        profiles.learn(KEY, &seen(WAVE, 1000, true));
        assert_eq!(ns(&fixed), 1000.0, "it is the same store");
    }

    #[test]
    fn what_no_block_can_have_done_is_not_taken() {
        let profiles = Profiles::default();
        for (blocks, block_ns) in [(0, 5), (0, 0), (3, 0), (1, u64::MAX)] {
            let ran_ns = block_ns;
            let seen = Seen {
                ran_ns,
                ..seen(blocks, block_ns, true)
            };
            profiles.learn(KEY, &seen);
            assert_eq!(profiles.get(KEY), None, "{blocks} blocks, {ran_ns} ns");
        }
        for block_ns in [0.0, -1.0, f64::NAN, f64::INFINITY, 2.0 * MOST_NS] {
            profiles.set(KEY, block_ns);
            assert_eq!(profiles.get(KEY), None, "{block_ns}");
        }
        profiles.learn(KEY, &seen(u64::MAX, 1, true));
        let most = profiles.get(KEY).expect("it is known");
        assert_eq!(most.blocks, MOST_BLOCKS);
        assert_eq!(most.block_ns, 1.0);
    }

    #[test]
    fn a_profile_fits_in_a_word() {
        for alone in [false, true] {
            for (block_ns, blocks) in [(1.0, 1), (MOST_NS, MOST_BLOCKS), (123_456.0, 77)] {
                let profile = Profile {
                    block_ns,
                    blocks,
                    alone,
                };
                let again = Profile::unpack(profile.pack());
                assert!((again.block_ns / block_ns - 1.0).abs() < 1e-6, "{again:?}");
                assert!(again.is_sound());
                assert_eq!((again.blocks, again.alone), (blocks, alone));
            }
        }
    }

    #[test]
    fn a_full_store_gives_up_what_was_learnt_from_the_fewest_blocks() {
        let profiles = Profiles::default();
        let key = |n: u64| ProfileKey(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for n in 0..2 * CAPACITY as u64 {
            // Every eighth kernel has run for long.
            let blocks = if n % 8 == 0 { 100_000 } else { 1 + n % 5 };
            profiles.learn(key(n), &seen(blocks, 1000, true));
        }
        let all = profiles.all();
        assert!(all.len() <= CAPACITY && all.len() > CAPACITY / 2);
        assert!(all.is_sorted_by_key(|(key, _)| *key));
        let kept = (0..2 * CAPACITY as u64)
            .step_by(8)
            .filter(|n| profiles.get(key(*n)).is_some());
        assert_eq!(kept.count(), CAPACITY / 4);
    }
}
