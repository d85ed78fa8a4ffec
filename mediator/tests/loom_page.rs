//! The page of statistics under loom: every interleaving of a writer and a reader.
//!
//! Invariants: **I1** what a reader takes is one publication's words, whole; **I2** a reader that reads again gets the
//! same publication or a newer one.
#![cfg(loom)]

use gridmux_mediator::page::index::{Head, Unread, publish, read, words_for};
use gridmux_sync::shim::{Arc, AtomicU64, thread};

/// Words of a copy.
const CAPACITY: usize = 2;
/// Publications: the third one takes the place of the first.
const PUBLICATIONS: u64 = 3;

/// Publishes the words of a sequence, which are the same in both words and differ from every other sequence's.
fn write(page: &[AtomicU64], sequence: u64) {
    let head = Head {
        sequence,
        length: 8 * CAPACITY as u64,
        checksum: 100 + sequence,
    };
    publish(page, CAPACITY, &head, &[sequence * 10; CAPACITY]);
}

/// Reads once; returns the sequence, or nothing where each attempt met the writer.
fn look(page: &[AtomicU64]) -> Option<u64> {
    let mut words = Vec::new();
    match read(page, CAPACITY, &mut words) {
        Ok(head) => {
            // I1.
            assert_eq!(words, [head.sequence * 10; CAPACITY]);
            assert_eq!(head.checksum, 100 + head.sequence);
            Some(head.sequence)
        }
        Err(Unread::Busy) => None,
        Err(other) => panic!("{other:?}"),
    }
}

/// Explores a writer beside a reader that reads `looks` times; `preemptions` bounds how often a thread is interrupted.
fn explore(looks: usize, preemptions: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let words = words_for(CAPACITY);
        let page: Arc<Vec<AtomicU64>> = Arc::new((0..words).map(|_| AtomicU64::new(0)).collect());
        write(&page, 1);
        let writer = {
            let page = Arc::clone(&page);
            thread::spawn(move || (2..=PUBLICATIONS).for_each(|sequence| write(&page, sequence)))
        };
        let seen: Vec<u64> = (0..looks).filter_map(|_| look(&page)).collect();
        // I2.
        assert!(seen.is_sorted(), "{seen:?}");
        writer.join().unwrap();
        assert_eq!(look(&page), Some(PUBLICATIONS));
    });
}

#[test]
fn i1_a_reader_takes_whole_publications() {
    explore(1, 3);
}

#[test]
fn i2_a_reader_takes_them_in_order() {
    explore(2, 2);
}
