//! A map from words to words of fixed capacity: any number of readers, which never wait, and one writer at a time.
//!
//! A key may stand in one of [`PROBES`] neighbouring slots, which follow from its hash. A slot has a version: 0 while
//! it is empty, odd while its key is being replaced, even else. A reader takes the value of a slot only if the version
//! is the same before and after, so that key and value belong together; a new value for the same key is one store, and
//! needs no new version.
//!
//! Invariants, which `tests/loom_word_map.rs` explores:
//!
//! - **W1** A reader gets a value that was set for its key, or none.
//! - **W2** A key that was set before the read, and that nothing replaced, is found.
//! - **W3** Of two writers one gives up, and no key stands in two slots.
//!
//! Rules: a read takes at most [`PROBES`] looks. Where all slots of a new key are taken, it replaces the key whose
//! value the writer says is worth least. Nothing is removed otherwise.

use crate::shim::{AtomicBool, AtomicU64, Ordering, fence};

/// Slots in which a key may stand. Few under loom, which explores every look.
pub const PROBES: usize = if cfg!(loom) { 2 } else { 8 };

/// The map.
#[derive(Debug)]
pub struct WordMap {
    slots: Box<[Slot]>,
    is_written: AtomicBool,
}

/// One key and its value.
#[derive(Debug)]
struct Slot {
    /// 0: empty; odd: being replaced.
    version: AtomicU64,
    key: AtomicU64,
    value: AtomicU64,
}

/// Result of a look at a slot.
enum Look {
    Empty,
    /// It is being replaced: the old key is no longer in the map, and the new one not yet.
    Changing,
    Pair(u64, u64),
}

impl Slot {
    fn new() -> Self {
        Self {
            version: AtomicU64::new(0),
            key: AtomicU64::new(0),
            value: AtomicU64::new(0),
        }
    }

    fn look(&self) -> Look {
        // Acquire: pairs with the Release at the end of `Slot::replace`, so that key and value are at least as new.
        let version = self.version.load(Ordering::Acquire);
        // Relaxed: ordered by the fence below.
        let key = self.key.load(Ordering::Relaxed);
        let value = self.value.load(Ordering::Relaxed);
        // Acquire: pairs with the Release fence in `Slot::replace`. If key or value is of a later replacement, the load
        // behind this fence sees at least the odd version that came before them.
        fence(Ordering::Acquire);
        // relaxed: ordered by the fence above.
        let changed = self.version.load(Ordering::Relaxed) != version;
        match version {
            0 => Look::Empty,
            _ if version % 2 == 1 || changed => Look::Changing,
            _ => Look::Pair(key, value),
        }
    }

    /// Replaces key and value; the one writer's.
    fn replace(&self, key: u64, value: u64) {
        // Relaxed: writers alone write it, and each sees what the one before did (`WordMap::try_write`).
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        // Release: pairs with the Acquire fence in `Slot::look`.
        fence(Ordering::Release);
        self.key.store(key, Ordering::Relaxed);
        self.value.store(value, Ordering::Relaxed);
        // Release: pairs with the Acquire load in `Slot::look`.
        self.version.store(version + 2, Ordering::Release);
    }
}

impl WordMap {
    /// Returns an empty map with at least `capacity` slots.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let slots = capacity.max(PROBES).next_power_of_two();
        Self {
            slots: (0..slots).map(|_| Slot::new()).collect(),
            is_written: AtomicBool::new(false),
        }
    }

    /// Returns how many keys it can hold at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: u64) -> Option<u64> {
        for slot in self.places(key) {
            match slot.look() {
                // Slots fill up in this order and are never emptied.
                Look::Empty => return None,
                Look::Pair(found, value) if found == key => return Some(value),
                Look::Pair(..) | Look::Changing => {}
            }
        }
        None
    }

    /// Returns the keys and values, each pair as it was at some time during the call.
    pub fn pairs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.slots.iter().filter_map(|slot| match slot.look() {
            Look::Pair(key, value) => Some((key, value)),
            Look::Empty | Look::Changing => None,
        })
    }

    /// Returns the right to write; none while another has it.
    #[must_use]
    pub fn try_write(&self) -> Option<Writer<'_>> {
        // Acquire: pairs with the Release in `Writer::drop`, so that a writer sees what the one before did.
        let was_written = self.is_written.swap(true, Ordering::Acquire);
        (!was_written).then_some(Writer { map: self })
    }

    /// Returns the slots in which a key may stand, in the order in which they fill up.
    fn places(&self, key: u64) -> impl Iterator<Item = &Slot> {
        // Fibonacci hashing: the high bits of the product depend on every bit of the key.
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mask = self.slots.len() - 1;
        let first = usize::try_from(hash).unwrap_or(0);
        (0..PROBES).map(move |step| &self.slots[first.wrapping_add(step) & mask])
    }
}

/// The right to write, until it is dropped.
#[derive(Debug)]
pub struct Writer<'a> {
    map: &'a WordMap,
}

impl Writer<'_> {
    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: u64) -> Option<u64> {
        self.map.get(key)
    }

    /// Sets the value of a key. Where there is no slot left for it, the key takes the place of the one whose value has
    /// the least `worth`, the first of several.
    pub fn set(&mut self, key: u64, value: u64, worth: impl Fn(u64) -> u64) {
        let mut least: Option<(&Slot, u64)> = None;
        for slot in self.map.places(key) {
            match slot.look() {
                Look::Pair(found, _) if found == key => {
                    // Release: pairs with the Acquire fence in `Slot::look`. A reader that sees the value sees the
                    // version of the key's replacement too, which another writer may have made.
                    fence(Ordering::Release);
                    // Relaxed: the fence before it orders it; readers may see it late.
                    slot.value.store(value, Ordering::Relaxed);
                    return;
                }
                Look::Pair(_, other) => {
                    let worth = worth(other);
                    if least.is_none_or(|(_, least)| worth < least) {
                        least = Some((slot, worth));
                    }
                }
                // None is changing: this is the one writer.
                Look::Empty | Look::Changing => {
                    slot.replace(key, value);
                    return;
                }
            }
        }
        if let Some((slot, _)) = least {
            slot.replace(key, value);
        }
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `WordMap::try_write`.
        self.map.is_written.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{PROBES, WordMap};

    #[test]
    fn values_are_found_by_key_and_replaced() {
        let map = WordMap::new(64);
        assert_eq!((map.capacity(), map.get(0)), (64, None));
        let mut writer = map.try_write().expect("nobody else writes");
        for key in [0, u64::MAX, 7] {
            writer.set(key, key ^ 1, |_| 0);
        }
        writer.set(7, 70, |_| 0);
        assert!(map.try_write().is_none(), "one at a time");
        drop(writer);
        assert!(map.try_write().is_some());
        assert_eq!([0, u64::MAX, 7].map(|key| map.get(key)), {
            [Some(1), Some(u64::MAX ^ 1), Some(70)]
        });
        let mut pairs: Vec<_> = map.pairs().collect();
        pairs.sort_unstable();
        assert_eq!(pairs, [(0, 1), (7, 70), (u64::MAX, u64::MAX ^ 1)]);
    }

    #[test]
    fn a_full_map_gives_up_what_is_worth_least() {
        let map = WordMap::new(PROBES);
        let keys = 1..=PROBES as u64;
        let mut writer = map.try_write().expect("nobody else writes");
        for key in keys.clone() {
            writer.set(key, 100 - key, |value| value);
        }
        writer.set(50, 1000, |value| value);
        let gone = PROBES as u64;
        assert_eq!((map.get(gone), map.get(50)), (None, Some(1000)));
        for key in keys.filter(|key| *key != gone) {
            assert_eq!(map.get(key), Some(100 - key));
        }
        assert_eq!(map.pairs().count(), PROBES);
    }

    #[test]
    fn it_holds_nearly_all_keys_up_to_half_of_its_slots() {
        let map = WordMap::new(4096);
        let mut writer = map.try_write().expect("nobody else writes");
        for key in 0..2048_u64 {
            writer.set(key.wrapping_mul(0xcbf2_9ce4_8422_2325), key, |value| value);
        }
        let held = map.pairs().count();
        assert!(held > 2000, "{held} of 2048 keys in 4096 slots");
    }
}
