//! Contract: copies and fills move in short pieces, tenants by weight, and a short one waits for no long one.

use crate::scripted::{Rig, SharedWire, on_stream, submit};
use gridmux_channel::ring::{Memset, Operation, Width};
use gridmux_mediator::dispatch::transfers::PIECE_BYTES;
use gridmux_mediator::dispatch::{Message, Slot};

fn fill(wire: &SharedWire, stream: u16, cookie: u64, bytes: u64) {
    let memset = Memset {
        address: 0x1000,
        len: bytes,
        value: 7,
        width: Width::Four,
    };
    submit(wire, on_stream(stream, cookie, Operation::Memset(memset)));
}

#[test]
fn a_fill_goes_in_pieces_that_follow_each_other_and_say_what_is_left() {
    let mut rig = Rig::live("fifo");
    let wire = rig.join(0, 1);
    let bytes = 2 * PIECE_BYTES + 4096;
    fill(&wire, 0, 1, bytes);
    fill(&wire, 0, 2, 0);
    rig.settle(1000);
    let bench = rig.bench.borrow();
    let pieces: Vec<_> = bench
        .fills
        .iter()
        .map(|(_, at, n, rest)| (*at, *n, *rest))
        .collect();
    let expected = [
        (0x1000, PIECE_BYTES, PIECE_BYTES + 4096),
        (0x1000 + PIECE_BYTES, PIECE_BYTES, 4096),
        (0x1000 + 2 * PIECE_BYTES, 4096, 0),
    ];
    assert_eq!(pieces, expected);
    let wire = wire.borrow();
    assert_eq!(wire.cookies(), [1, 2], "one of no bytes completes, too");
    assert!(wire.completions.iter().all(|entry| entry.status == 0));
}

#[test]
fn tenants_move_bytes_by_weight_whatever_streams_they_use() {
    let mut rig = Rig::live("fifo");
    let (light, heavy) = (rig.join(0, 1), rig.join(1, 3));
    for stream in 1..4 {
        rig.tell(Message::AddStream(Slot(0), stream));
    }
    for stream in 0..4 {
        fill(&light, stream, u64::from(stream), 30 * PIECE_BYTES);
    }
    fill(&heavy, 0, 0, 60 * PIECE_BYTES);
    rig.settle(10_000);
    let bench = rig.bench.borrow();
    assert!(bench.most_in_flight <= 2, "{}", bench.most_in_flight);
    // As long as both have something to move.
    let last = bench.fills.iter().rposition(|(domain, ..)| *domain == 1);
    let together = &bench.fills[..last.expect("the heavy one moved something")];
    let of_light = together.iter().filter(|(domain, ..)| *domain == 0).count();
    assert!(of_light.abs_diff(20) <= 2, "{of_light} beside 60");
    assert_eq!(bench.fills.len(), 180);
}

#[test]
fn a_short_fill_waits_for_two_pieces_of_a_long_one_at_most() {
    let mut rig = Rig::live("fifo");
    let (long, short) = (rig.join(0, 1), rig.join(1, 1));
    fill(&long, 0, 0, 1 << 36);
    rig.settle(20);
    let before = rig.bench.borrow().fills.len();
    fill(&short, 0, 1, 4096);
    rig.settle(40);
    let bench = rig.bench.borrow();
    let place = bench.fills.iter().position(|(domain, ..)| *domain == 1);
    let place = place.expect("it was handed over");
    assert!(place <= before + 1, "{place} after {before}");
    assert_eq!(short.borrow().completions.len(), 1);
}
