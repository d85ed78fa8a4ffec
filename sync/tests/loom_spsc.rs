//! Explores every interleaving of the ring's two ends.
#![cfg(loom)]

use gridmux_sync::spsc::ring;
use loom::thread;

fn explore(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(body);
}

#[test]
fn s1_items_come_out_in_order_each_once() {
    explore(|| {
        let (mut producer, mut consumer) = ring::<u32>(2);
        let pushing = thread::spawn(move || {
            let mut pushed = 0;
            for _ in 0..5 {
                if producer.try_push(pushed).is_ok() {
                    pushed += 1;
                }
            }
            pushed
        });
        let mut popped = Vec::new();
        for _ in 0..4 {
            popped.extend(consumer.try_pop());
        }
        let pushed = pushing.join().unwrap();
        popped.extend(std::iter::from_fn(|| consumer.try_pop()));
        assert_eq!(popped, (0..pushed).collect::<Vec<_>>(), "S1");
    });
}

#[test]
fn s2_a_slot_is_never_read_and_written_at_once() {
    // One slot: each push reuses what the pop before it read. Loom watches the slot itself.
    explore(|| {
        let (mut producer, mut consumer) = ring::<[u64; 2]>(1);
        let pushing = thread::spawn(move || {
            (0..4)
                .filter(|&item| producer.try_push([item, !item]).is_ok())
                .count()
        });
        let mut popped = 0;
        for _ in 0..4 {
            if let Some([item, complement]) = consumer.try_pop() {
                assert_eq!(item, !complement, "S2: a torn item");
                popped += 1;
            }
        }
        let pushed = pushing.join().unwrap();
        popped += std::iter::from_fn(|| consumer.try_pop()).count();
        assert_eq!(popped, pushed);
    });
}

#[test]
fn s2_draining_frees_only_what_was_read() {
    explore(|| {
        let (mut producer, mut consumer) = ring::<u32>(2);
        let pushing = thread::spawn(move || {
            let mut pushed = 0;
            for _ in 0..4 {
                pushed += u32::from(producer.try_push(pushed).is_ok());
            }
            pushed
        });
        let mut popped = Vec::new();
        for _ in 0..2 {
            consumer.drain(|item| popped.push(item));
        }
        let pushed = pushing.join().unwrap();
        consumer.drain(|item| popped.push(item));
        assert_eq!(popped, (0..pushed).collect::<Vec<_>>(), "S1");
    });
}

#[test]
fn s3_a_push_into_a_ring_with_room_never_fails() {
    // Wait-free: one attempt is enough, whatever the other end is doing.
    explore(|| {
        let (mut producer, mut consumer) = ring::<u32>(2);
        let popping = thread::spawn(move || (0..3).filter_map(|_| consumer.try_pop()).count());
        assert_eq!(producer.try_push(1), Ok(()), "S3");
        assert_eq!(producer.try_push(2), Ok(()), "S3");
        assert!(popping.join().unwrap() <= 2);
    });
}
