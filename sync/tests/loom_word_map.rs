//! Explores the interleavings of readers and writers of a map of words; one test per invariant of `word_map`.
#![cfg(loom)]

use gridmux_sync::word_map::WordMap;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

fn explore(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(body);
}

/// Returns a value that tells its key.
fn value(key: u64, n: u64) -> u64 {
    key * 100 + n
}

fn set(map: &WordMap, key: u64, n: u64) -> bool {
    let writer = map.try_write();
    writer.is_some_and(|mut writer| {
        // Key 2 is worth most, so that others take each other's place.
        writer.set(key, value(key, n), |value| u64::from(value / 100 == 2));
        true
    })
}

/// Starts a thread that works on the map.
fn with<R: 'static>(
    map: &Arc<WordMap>,
    work: impl FnOnce(&WordMap) -> R + 'static,
) -> JoinHandle<R> {
    let map = Arc::clone(map);
    thread::spawn(move || work(&map))
}

#[test]
fn w1_key_and_value_belong_together() {
    explore(|| {
        // Two slots, which are those of every key.
        let map = Arc::new(WordMap::new(2));
        set(&map, 1, 0);
        set(&map, 2, 0);
        let writing = with(&map, |map| {
            // All in one slot.
            for (key, n) in [(3, 0), (1, 1)] {
                assert!(set(map, key, n), "nobody else writes");
            }
        });
        let reading = with(&map, |map| {
            if let Some(found) = map.get(1) {
                assert_eq!(found / 100, 1, "W1");
            }
        });
        reading.join().unwrap();
        writing.join().unwrap();
        assert_eq!(map.get(1), Some(value(1, 1)), "W2");
        assert_eq!(map.get(3), None);
    });
}

#[test]
fn w1_holds_where_one_writer_replaces_a_key_and_another_sets_it() {
    explore(|| {
        let map = Arc::new(WordMap::new(2));
        set(&map, 1, 0);
        set(&map, 2, 0);
        let one = with(&map, |map| set(map, 3, 0));
        let other = with(&map, |map| set(map, 3, 1));
        let reading = with(&map, |map| {
            if let Some(found) = map.get(1) {
                assert_eq!(found / 100, 1, "W1");
            }
        });
        reading.join().unwrap();
        let (one, other) = (one.join().unwrap(), other.join().unwrap());
        assert!(one || other, "one got the right");
    });
}

#[test]
fn w2_what_was_set_before_is_found_beside_other_writes() {
    explore(|| {
        let map = Arc::new(WordMap::new(2));
        set(&map, 1, 0);
        let writing = with(&map, |map| set(map, 1, 1) && set(map, 2, 0));
        let reading = with(&map, |map| [map.get(1), map.get(1)]);
        let [first, second] = reading.join().unwrap().map(|found| found.expect("W2"));
        assert!(
            first / 100 == 1 && second / 100 == 1 && first <= second,
            "{first}, {second}"
        );
        assert!(writing.join().unwrap(), "nobody else writes");
        assert_eq!((map.get(1), map.get(2)), {
            (Some(value(1, 1)), Some(value(2, 0)))
        });
    });
}

#[test]
fn w3_one_of_two_writers_gives_up_and_no_key_stands_twice() {
    explore(|| {
        let map = Arc::new(WordMap::new(2));
        let other = with(&map, |map| set(map, 1, 1));
        let own = with(&map, |map| set(map, 1, 2));
        let (own, other) = (own.join().unwrap(), other.join().unwrap());
        assert!(own || other, "one got the right");
        let pairs: Vec<_> = map.pairs().collect();
        assert_eq!(pairs.len(), 1, "W3: {pairs:?}");
        let set_by = [(other, value(1, 1)), (own, value(1, 2))];
        assert!(set_by.contains(&(true, pairs[0].1)), "W1: {pairs:?}");
    });
}
