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

#[test]
fn a_reader_takes_whole_publications_in_order() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let words = words_for(CAPACITY);
        let page: Arc<Vec<AtomicU64>> = Arc::new((0..words).map(|_| AtomicU64::new(0)).collect());
        write(&page, 1);
        let writer = {
            let page = Arc::clone(&page);
            thread::spawn(move || {
                for sequence in 2..=PUBLICATIONS {
                    write(&page, sequence);
                }
            })
        };
        let first = look(&page).unwrap_or(0);
        let second = look(&page).unwrap_or(PUBLICATIONS);
        // I2.
        assert!(first <= second, "{first} before {second}");
        writer.join().unwrap();
        assert_eq!(look(&page), Some(PUBLICATIONS));
    });
}
