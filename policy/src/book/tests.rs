//! The book in small cases, losses included.

use super::Book;
use super::shares::FORGOTTEN_NS;
use crate::class::Class;
use crate::event::Event;
use crate::ids::{GroupId, ProfileKey, RowId, TenantId};
use crate::shape::{BlockShape, DeviceShape};
use crate::units::Nanos;

const DEVICE: DeviceShape = DeviceShape::small(4);
const GRACE: Nanos = Nanos(100);
const A: TenantId = TenantId(0);

fn block(threads: u32) -> BlockShape {
    BlockShape {
        threads,
        registers: threads,
        shared_bytes: 0,
    }
}

fn tenant(id: TenantId) -> Event {
    Event::Tenant {
        tenant: id,
        weight: 1,
        class: Class::Normal,
    }
}

fn row_new(row: u32, tenant: TenantId, threads: u32) -> Event {
    row_that_spills(row, tenant, threads, false)
}

fn row_that_spills(row: u32, tenant: TenantId, threads: u32, spill: bool) -> Event {
    Event::RowNew {
        row: RowId(row),
        tenant,
        block: block(threads),
        profile: ProfileKey(0),
        spill,
    }
}

fn arrive(row: u32, blocks: u64, at: u64) -> Event {
    Event::Arrive {
        row: RowId(row),
        launch: at,
        blocks,
        at: Nanos(at),
    }
}

fn blocks(row: u32, started: u32, ended: u32, at: u64) -> Event {
    Event::Blocks {
        row: RowId(row),
        group: GroupId::UNKNOWN,
        launch: 0,
        started,
        ended,
        ran_ns: u64::from(ended) * 40,
        at: Nanos(at),
    }
}

fn ended(row: u32, at: u64) -> Event {
    Event::Ended {
        row: RowId(row),
        launch: 0,
        at: Nanos(at),
    }
}

fn counters(row: u32, open_launches: u32, live: u32, waiting: u64, at: u64) -> Event {
    Event::Counters {
        row: RowId(row),
        open_launches,
        live,
        waiting,
        ended: 0,
        at: Nanos(at),
    }
}

fn after(events: &[Event]) -> Book {
    let mut book = Book::new(&DEVICE);
    events.iter().for_each(|event| book.observe(event));
    book
}

/// Waiting, live and open launches of a row.
fn counts(book: &Book, row: u32) -> (u64, u32, u32) {
    let row = book.row(RowId(row)).expect("the row is known");
    (row.waiting, row.live, row.open_launches)
}

fn open(book: &Book, tenant: TenantId) -> u32 {
    book.tenant(tenant).expect("known").open_launches
}

#[test]
fn a_launch_is_followed_from_arrival_to_its_end() {
    let mut book = after(&[tenant(A), row_new(3, A, 256)]);
    assert!(book.active().next().is_none());
    book.take_demand_changed();
    book.observe(&arrive(3, 10, 5));
    assert!(book.take_demand_changed());
    assert_eq!(counts(&book, 3), (10, 0, 1));
    book.observe(&blocks(3, 6, 2, 20));
    assert_eq!(counts(&book, 3), (4, 4, 1));
    assert_eq!(book.row(RowId(3)).map(|row| row.stay_ns), Some(40.0));
    book.observe(&blocks(3, 4, 8, 30));
    book.observe(&ended(3, 30));
    assert_eq!((counts(&book, 3), open(&book, A)), ((0, 0, 0), 0));
    book.advance(Nanos(129));
    book.expire(GRACE);
    assert_eq!(book.active().count(), 1, "its grace lasts");
    book.take_demand_changed();
    book.advance(Nanos(130));
    book.expire(GRACE);
    assert_eq!(book.active().count(), 0);
    assert!(book.take_demand_changed());
    assert!(!book.row(RowId(3)).expect("known").works);
}

#[test]
fn one_idle_row_expires_and_its_tenant_stays() {
    let mut book = after(&[tenant(A), row_new(0, A, 256), row_new(1, A, 128)]);
    book.observe(&arrive(0, 8, 10));
    book.observe(&arrive(1, 8, 10));
    book.observe(&ended(1, 50));
    book.take_demand_changed();
    book.advance(Nanos(150));
    book.expire(GRACE);
    let works = [0, 1].map(|row| book.row(RowId(row)).expect("known").works);
    assert_eq!((works, book.active().count()), ([true, false], 1));
    assert!(book.take_demand_changed());
}

/// A row's books were replaced when a launch came with another block shape, and its live blocks
/// were held against the tenant for ever.
#[test]
fn two_block_shapes_keep_both_books() {
    let mut book = after(&[tenant(A), row_new(0, A, 256), row_new(1, A, 128)]);
    book.observe(&arrive(0, 20, 1));
    book.observe(&blocks(0, 8, 0, 2));
    book.observe(&arrive(1, 30, 3));
    book.observe(&blocks(1, 5, 0, 4));
    assert_eq!(counts(&book, 0), (12, 8, 1));
    assert_eq!((counts(&book, 1), open(&book, A)), ((25, 5, 1), 2));
    // The first shape again, as a program does that alternates.
    book.observe(&row_new(0, A, 256));
    book.observe(&arrive(0, 20, 5));
    assert_eq!(counts(&book, 0), (32, 8, 2));
    for row in [0, 1] {
        book.observe(&ended(row, 9));
    }
    book.observe(&ended(0, 9));
    for row in [0, 1] {
        assert_eq!(counts(&book, row), (0, 0, 0));
    }
    assert_eq!(open(&book, A), 0);
}

#[test]
fn a_row_takes_its_open_launches_along() {
    let mut book = after(&[tenant(A), row_new(0, A, 256), row_new(1, A, 128)]);
    book.observe(&arrive(0, 20, 1));
    book.observe(&arrive(0, 20, 1));
    book.observe(&arrive(1, 20, 1));
    book.take_demand_changed();
    book.observe(&Event::RowGone { row: RowId(0) });
    assert!(book.take_demand_changed());
    assert!(book.row(RowId(0)).is_none());
    assert_eq!(open(&book, A), 1);
    // What comes late changes nothing.
    book.observe(&ended(0, 9));
    book.observe(&blocks(0, 3, 3, 9));
    book.observe(&counters(0, 4, 4, 4, 9));
    assert_eq!(open(&book, A), 1);
    // The number again, for another tenant.
    book.observe(&tenant(TenantId(5)));
    book.observe(&row_new(1, TenantId(5), 64));
    assert_eq!((open(&book, A), counts(&book, 1)), (0, (0, 0, 0)));
    book.observe(&Event::TenantGone {
        tenant: TenantId(5),
    });
    assert!(book.row(RowId(1)).is_none());
}

#[test]
fn counters_after_a_loss_equal_fresh_books() {
    let b = TenantId(1);
    let mut book = after(&[tenant(A), row_new(0, A, 256), row_new(1, A, 128)]);
    for at in [1, 2, 3] {
        book.observe(&arrive(0, 100, at));
        book.observe(&arrive(1, 7, at));
    }
    book.observe(&blocks(0, 50, 20, 4));
    // Lost: row 0's blocks and ends, that row 1 is gone, that a tenant came with row 2.
    book.observe(&Event::Lost { n: 9 });
    let truth = [
        tenant(A),
        row_new(0, A, 256),
        counters(0, 1, 12, 40, 500),
        tenant(b),
        row_new(2, b, 64),
        counters(2, 2, 3, 4, 500),
        Event::Resynced,
    ];
    truth.iter().for_each(|event| book.observe(event));
    let fresh = after(&truth);
    for row in [0, 2] {
        assert_eq!(counts(&book, row), counts(&fresh, row));
        assert!(book.row(RowId(row)).expect("known").works);
    }
    for tenant in [A, b] {
        let rows = |book: &Book| book.tenant(tenant).map(|t| t.rows.clone());
        assert_eq!(open(&book, tenant), open(&fresh, tenant));
        assert_eq!(rows(&book), rows(&fresh));
    }
    assert!(book.row(RowId(1)).is_none(), "it was not named again");
    assert_eq!(book.active().count(), 2);
    // From here on both go the same way.
    book.observe(&ended(0, 700));
    assert_eq!(counts(&book, 0), (0, 0, 0));
}

#[test]
fn a_tenant_whose_end_was_lost_is_dropped() {
    let b = TenantId(1);
    let mut book = after(&[tenant(A), row_new(0, A, 256), tenant(b), row_new(1, b, 256)]);
    book.observe(&arrive(0, 10, 1));
    book.observe(&arrive(1, 10, 1));
    book.observe(&Event::Lost { n: 1 });
    let named = [tenant(A), row_new(0, A, 256), counters(0, 1, 0, 10, 2)];
    named.iter().for_each(|event| book.observe(event));
    assert_eq!(book.active().count(), 2, "it may yet be named");
    book.observe(&Event::Resynced);
    assert!(book.tenant(b).is_none() && book.row(RowId(1)).is_none());
    assert_eq!((book.active().count(), open(&book, A)), (1, 1));
}

#[test]
fn grids_without_end_saturate() {
    let mut book = after(&[tenant(A), row_new(0, A, 256)]);
    for at in 0..3 {
        book.observe(&arrive(0, u64::MAX / 2, at));
    }
    book.observe(&blocks(0, u32::MAX, 0, 3));
    book.observe(&blocks(0, u32::MAX, 0, 3));
    book.planned();
    assert_eq!(counts(&book, 0).1, u32::MAX);
}

#[test]
fn deficits_of_active_tenants_are_bounded() {
    let mut book = after(&[tenant(A), row_new(0, A, 256)]);
    book.observe(&share(0.0, 50.0, 2));
    let excess = |book: &Book| book.tenant(A).expect("known").excess_per_weight(Nanos(2));
    assert_eq!(excess(&book), -50.0);
    book.bound_deficits(20.0);
    assert_eq!(excess(&book), -50.0, "it has nothing to do");
    book.observe(&arrive(0, 10, 2));
    book.bound_deficits(20.0);
    assert_eq!(excess(&book), -20.0);
}

fn share(held: f64, entitled: f64, at: u64) -> Event {
    Event::Share {
        tenant: A,
        held,
        entitled,
        at: Nanos(at),
    }
}

#[test]
fn an_excess_of_late_is_bounded_repaid_from_the_bound_and_forgotten() {
    let mut book = Book::new(&DEVICE).with_excess_bound(100.0);
    book.observe(&tenant(A));
    for (held, entitled, excess) in [
        (60.0, 10.0, 50.0),
        (9_000.0, 100.0, 100.0),
        (9_000.0, 130.0, 70.0),
    ] {
        book.observe(&share(held, entitled, 1));
        assert_eq!(book.late_excess(A, Nanos(1)), excess);
    }
    #[allow(clippy::cast_possible_truncation, reason = "a second")]
    let later = Nanos(1 + FORGOTTEN_NS as u64);
    let left = book.late_excess(A, later);
    assert!((left - 70.0 / std::f64::consts::E).abs() < 1e-9, "{left}");
    book.observe(&share(9_000.0, 9_000.0, later.0));
    assert_eq!(book.late_excess(A, later), -100.0, "a deficit likewise");
    book.observe(&Event::TenantGone { tenant: A });
    assert_eq!(book.late_excess(A, later), 0.0);
}

#[test]
fn an_excess_is_told_in_time_of_what_a_tenant_is_entitled_to() {
    let mut book = after(&[tenant(A)]);
    let excess = |book: &Book, at, from| {
        let tenant = book.tenant(A).expect("known");
        tenant.excess_time(Nanos(at), from, 4.0)
    };
    // Excesses are forgotten, within a second.
    let is = |found: f64, due: f64| assert!((found / due - 1.0).abs() < 0.1, "{found}, not {due}");
    // Of a new one the first readings may be late: it counts as entitled to its weight's four SMs.
    book.observe(&share(-1e4, 0.0, 10_000_000));
    is(excess(&book, 10_000_000, 0.0), -2_500.0);
    // Two SMs for a millisecond; then, at the same instant, what is left of them.
    book.observe(&share(1.5e6 - 1e4, 1.5e6, 11_000_000));
    book.observe(&share(2e6 - 1e4, 2e6, 11_000_000));
    for at in 12..30_u32 {
        let entitled = 2e6 * f64::from(at - 10);
        book.observe(&share(entitled - 1e4, entitled, u64::from(at) * 1_000_000));
    }
    let now = 29_000_000;
    is(excess(&book, now, 0.0), -5_000.0);
    is(excess(&book, now, 3e4), -20_000.0);
    // A pause is not counted.
    let entitled = 3.8e7 + 1.0;
    book.observe(&share(entitled - 1e4, entitled, 39_000_000));
    is(excess(&book, now, 0.0), -5_000.0);
    // Entitled to nothing for long, it counts as entitled to a fiftieth of its weight's SMs.
    for at in 40..60 {
        book.observe(&share(entitled - 1e4, entitled, at * 1_000_000));
    }
    is(excess(&book, now, 0.0), -1e4 / 0.08);
}

#[test]
fn a_history_that_nobody_saw_is_no_excess_of_late() {
    // A policy that replaces another receives the launches that are open.
    let lost = Event::Lost { n: 1 };
    let mut book = after(&[lost, tenant(A), Event::Resynced]);
    let late_excess = |book: &Book| book.late_excess(A, Nanos(1));
    book.observe(&share(9_000.0, 10.0, 1));
    assert_eq!(late_excess(&book), 0.0);
    book.observe(&share(9_030.0, 20.0, 1));
    assert_eq!(late_excess(&book), 20.0);
    // Nor of a tenant that has work when it is met.
    let met = [lost, tenant(A), row_new(3, A, 256), counters(3, 1, 4, 4, 1)];
    let mut late = after(&[&met[..], &[Event::Resynced]].concat());
    late.observe(&share(9_000.0, 10.0, 1));
    assert_eq!(late.late_excess(A, Nanos(1)), 0.0);
    // Who is named again after a loss keeps its excess; who is not is gone.
    for (events, excess) in [
        (vec![lost, tenant(A), Event::Resynced], 20.0),
        (vec![lost, Event::Resynced], 0.0),
    ] {
        events.iter().for_each(|event| book.observe(event));
        assert_eq!(late_excess(&book), excess);
    }
}

/// Returns a book that knows one row, number 3, of a tenant.
fn with_row(spill: bool) -> Book {
    after(&[tenant(A), row_that_spills(3, A, 256, spill)])
}

fn ended_of(launch: u64) -> Event {
    Event::Ended {
        row: RowId(3),
        launch,
        at: Nanos(9),
    }
}

fn blocks_of(launch: u64, ended: u32) -> Event {
    Event::Blocks {
        row: RowId(3),
        group: GroupId(0),
        launch,
        started: 0,
        ended,
        ran_ns: 1,
        at: Nanos(9),
    }
}

/// Returns the blocks that each open launch of a row has left, in order of arrival.
fn left(book: &Book) -> Vec<u64> {
    book.jobs[3].iter().map(super::Job::left).collect()
}

#[test]
fn after_a_loss_a_launch_that_is_named_ends_by_its_name() {
    let mut book = with_row(false);
    // Launches 1 and 2 were lost, 3 came later.
    for event in [
        counters(3, 2, 4, 6, 9),
        arrive(3, 5, 3),
        blocks_of(3, 2),
        ended_of(3),
    ] {
        book.observe(&event);
    }
    assert_eq!(left(&book), [10]);
    book.observe(&ended_of(1));
    book.observe(&ended_of(2));
    assert!(left(&book).is_empty());
}

#[test]
fn blocks_that_become_known_after_their_launch_arrived_are_counted() {
    let mut book = with_row(false);
    book.observe(&arrive(3, 0, 1));
    book.observe(&blocks_of(1, 1));
    book.observe(&counters(3, 1, 6, 93, 9));
    assert_eq!((left(&book), book.jobs[3][0].blocks), (vec![99], 100));
    book.observe(&arrive(3, 0, 2));
    book.take_changed();
    book.observe(&counters(3, 2, 6, 93, 9));
    assert!(!book.take_changed(), "nothing new");
    book.observe(&counters(3, 2, 6, 195, 9));
    assert!(book.take_changed());
    assert_eq!(left(&book), [101, 100]);
    let numbers: Vec<u64> = book.jobs[3].iter().map(|job| job.launch).collect();
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn counters_that_cannot_be_are_taken() {
    let mut book = with_row(false);
    for event in [
        counters(3, u32::MAX, u32::MAX, u64::MAX, 9),
        arrive(3, u64::MAX, 1),
        counters(3, 0, u32::MAX, u64::MAX, 9),
        counters(3, 0, 1, 1, 9),
    ] {
        book.observe(&event);
    }
    assert!(left(&book).is_empty());
}

#[test]
fn what_binds_no_spill_row_does_not_make_it_shorter() {
    // Four blocks of 256 threads on each of four SMs.
    assert_eq!(with_row(false).resident(RowId(3)), 16);
    assert_eq!(with_row(true).resident(RowId(3)), 16);
    assert_eq!(with_row(true).resident(RowId(7)), 1);
}
