//! Explores the interleavings of threads that add, use and remove objects; one test per invariant of `table`.
#![cfg(loom)]

use gridmux_sync::table::Table;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::{self, JoinHandle};

const KIND: u8 = 7;

fn explore(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(body);
}

/// An object that knows its own number.
type Numbers = Table<u64>;

fn add(table: &Numbers) -> u64 {
    *table.add(|number| number).expect("there is room")
}

/// Starts a thread that works on the table.
fn with<R: 'static>(
    table: &Arc<Numbers>,
    work: impl FnOnce(&Numbers) -> R + 'static,
) -> JoinHandle<R> {
    let table = Arc::clone(table);
    thread::spawn(move || work(&table))
}

#[test]
fn t1_one_remover_gets_the_object() {
    explore(|| {
        let table = Arc::new(Numbers::new(KIND));
        let number = add(&table);
        let remove = move |table: &Numbers| table.remove(number).map(|object| *object);
        let (one, other) = (with(&table, remove), with(&table, remove));
        let found = table.get(number).map(|object| *object);
        assert!(found.is_none_or(|object| object == number), "T2");
        let got = [one.join().unwrap(), other.join().unwrap()];
        assert!(
            got == [Some(number), None] || got == [None, Some(number)],
            "T1: {got:?}"
        );
        assert!(table.get(number).is_none() && table.all().is_empty());
    });
}

#[test]
fn t1_remover_and_remove_all_share_the_objects() {
    explore(|| {
        let table = Arc::new(Numbers::new(KIND));
        let (first, second) = (add(&table), add(&table));
        let alone = with(&table, move |table| table.remove(first).is_some());
        let all = table.remove_all(|_| true);
        let alone = alone.join().unwrap();
        let mut got: Vec<u64> = all.iter().map(|object| **object).collect();
        got.extend(alone.then_some(first));
        got.sort_unstable();
        assert_eq!(got, [first, second], "T1");
        // Two slots are free: had one been given back twice, a third object would take the place of another.
        let later = [add(&table), add(&table), add(&table)];
        for number in later {
            assert_eq!(table.get(number).as_deref(), Some(&number), "T3");
        }
    });
}

#[test]
fn t2_a_number_never_names_the_next_object_of_its_slot() {
    explore(|| {
        let table = Arc::new(Numbers::new(KIND));
        let first = add(&table);
        let replace = with(&table, move |table| {
            table.remove(first).expect("nobody else removes it");
            add(table)
        });
        let use_first = with(&table, move |table| {
            let found = table.get(first).map(|object| *object);
            assert!(found.is_none_or(|object| object == first), "T2: {found:?}");
        });
        // Its number is old or not; what it removes is its own.
        let second = replace.join().unwrap();
        assert!(table.remove(first).is_none(), "T2");
        assert_eq!(table.get(second).as_deref(), Some(&second));
        use_first.join().unwrap();
    });
}

#[test]
fn t3_what_is_added_beside_a_removal_of_all_stays_or_is_removed() {
    explore(|| {
        let table = Arc::new(Numbers::new(KIND));
        let early = add(&table);
        let adding = with(&table, |table| [add(table), add(table)]);
        let removed = table.remove_all(|_| true);
        let [second, third] = adding.join().unwrap();
        let left = table.all();
        let mut found: Vec<u64> = removed.iter().chain(&left).map(|object| **object).collect();
        let mut added = vec![early, second, third];
        found.sort_unstable();
        added.sort_unstable();
        assert_eq!(found, added, "T3");
        for object in &left {
            assert_eq!(table.get(**object).as_deref(), Some(&**object), "T3");
        }
        for object in &removed {
            assert!(table.get(**object).is_none(), "T1");
        }
    });
}

/// An object whose memory loom watches, and which counts that it was dropped.
struct Watched {
    word: UnsafeCell<u32>,
    dropped: Arc<AtomicUsize>,
}

impl Watched {
    fn read(&self) -> u32 {
        // SAFETY: only `drop` writes, after the last use; loom finds out if it does not.
        self.word.with(|word| unsafe { *word })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: nobody else has it any more; loom finds out if somebody has.
        self.word.with_mut(|word| unsafe { *word = 0 });
        // Relaxed: read after the threads were joined.
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: the word is written by `drop` alone, which has the object for itself.
unsafe impl Sync for Watched {}

#[test]
fn t4_an_object_lives_until_its_last_use_ends() {
    explore(|| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let table = Arc::new(Table::new(KIND));
        let mut number = 0;
        let make = |its| {
            number = its;
            Watched {
                word: UnsafeCell::new(5),
                dropped: Arc::clone(&dropped),
            }
        };
        drop(table.add(make));
        let destroying = {
            let table = Arc::clone(&table);
            thread::spawn(move || assert!(table.remove(number).is_some()))
        };
        if let Some(object) = table.get(number) {
            thread::yield_now();
            assert_eq!(object.read(), 5, "T4");
        }
        destroying.join().unwrap();
        // Relaxed: the thread was joined.
        assert_eq!(dropped.load(Ordering::Relaxed), 1, "T4");
    });
}

#[test]
fn t5_numbers_are_given_once() {
    explore(|| {
        let table = Arc::new(Numbers::new(KIND));
        let early = add(&table);
        // One takes the slot that was given back, another a new one.
        let removing = with(&table, move |table| {
            table.remove(early).expect("nobody else removes it");
            add(table)
        });
        let (one, two) = (add(&table), removing.join().unwrap());
        assert!(one != two && one != early && two != early, "T5");
        for number in [one, two] {
            assert_eq!(table.get(number).as_deref(), Some(&number), "T5");
        }
    });
}
