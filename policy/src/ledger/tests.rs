//! The books in small cases, losses included.

use super::Ledger;
use crate::class::Class;
use crate::event::Event;
use crate::ids::{GroupId, ProfileKey, RowId, TenantId};
use crate::shape::{BlockShape, DeviceShape};
use crate::units::Nanos;

const DEVICE: DeviceShape = DeviceShape {
    sms: 4,
    threads: 1024,
    blocks: 8,
    registers: 65_536,
    shared_bytes: 49_152,
    submission_ns: 0,
};
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
    Event::RowNew {
        row: RowId(row),
        tenant,
        block: block(threads),
        profile: ProfileKey(0),
        spill: false,
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

fn after(events: &[Event]) -> Ledger {
    let mut ledger = Ledger::new(&DEVICE);
    events.iter().for_each(|event| ledger.observe(event));
    ledger
}

/// Waiting, live and open launches of a row.
fn book(ledger: &Ledger, row: u32) -> (u64, u32, u32) {
    let book = ledger.row(RowId(row)).expect("the row is known");
    (book.waiting, book.live, book.open_launches)
}

fn open(ledger: &Ledger, tenant: TenantId) -> u32 {
    ledger.tenant_book(tenant).expect("known").open_launches
}

#[test]
fn a_launch_is_followed_from_arrival_to_its_end() {
    let mut ledger = after(&[tenant(A), row_new(3, A, 256)]);
    assert!(ledger.active().next().is_none());
    ledger.take_changed();
    ledger.observe(&arrive(3, 10, 5));
    assert!(ledger.take_changed());
    assert_eq!(book(&ledger, 3), (10, 0, 1));
    ledger.observe(&blocks(3, 6, 2, 20));
    assert_eq!(book(&ledger, 3), (4, 4, 1));
    assert_eq!(ledger.row(RowId(3)).map(|row| row.stay_ns), Some(40.0));
    ledger.observe(&blocks(3, 4, 8, 30));
    ledger.observe(&ended(3, 30));
    assert_eq!((book(&ledger, 3), open(&ledger, A)), ((0, 0, 0), 0));
    ledger.advance(Nanos(129));
    ledger.expire(GRACE);
    assert_eq!(ledger.active().count(), 1, "its grace lasts");
    ledger.take_changed();
    ledger.advance(Nanos(130));
    ledger.expire(GRACE);
    assert_eq!(ledger.active().count(), 0);
    assert!(ledger.take_changed());
    assert!(!ledger.row(RowId(3)).expect("known").works);
}

#[test]
fn one_idle_row_expires_and_its_tenant_stays() {
    let mut ledger = after(&[tenant(A), row_new(0, A, 256), row_new(1, A, 128)]);
    ledger.observe(&arrive(0, 8, 10));
    ledger.observe(&arrive(1, 8, 10));
    ledger.observe(&ended(1, 50));
    ledger.take_changed();
    ledger.advance(Nanos(150));
    ledger.expire(GRACE);
    let works = [0, 1].map(|row| ledger.row(RowId(row)).expect("known").works);
    assert_eq!((works, ledger.active().count()), ([true, false], 1));
    assert!(ledger.take_changed());
}

/// A row's books were replaced when a launch came with another block shape, and its live blocks
/// were held against the tenant for ever.
#[test]
fn two_block_shapes_keep_both_books() {
    let mut ledger = after(&[tenant(A), row_new(0, A, 256), row_new(1, A, 128)]);
    ledger.observe(&arrive(0, 20, 1));
    ledger.observe(&blocks(0, 8, 0, 2));
    ledger.observe(&arrive(1, 30, 3));
    ledger.observe(&blocks(1, 5, 0, 4));
    assert_eq!(book(&ledger, 0), (12, 8, 1));
    assert_eq!((book(&ledger, 1), open(&ledger, A)), ((25, 5, 1), 2));
    // The first shape again, as a program does that alternates.
    ledger.observe(&row_new(0, A, 256));
    ledger.observe(&arrive(0, 20, 5));
    assert_eq!(book(&ledger, 0), (32, 8, 2));
    for row in [0, 1] {
        ledger.observe(&ended(row, 9));
    }
    ledger.observe(&ended(0, 9));
    for row in [0, 1] {
        assert_eq!(book(&ledger, row), (0, 0, 0));
    }
    assert_eq!(open(&ledger, A), 0);
}

#[test]
fn a_row_takes_its_open_launches_along() {
    let mut ledger = after(&[tenant(A), row_new(0, A, 256), row_new(1, A, 128)]);
    ledger.observe(&arrive(0, 20, 1));
    ledger.observe(&arrive(0, 20, 1));
    ledger.observe(&arrive(1, 20, 1));
    ledger.take_changed();
    ledger.observe(&Event::RowGone { row: RowId(0) });
    assert!(ledger.take_changed());
    assert!(ledger.row(RowId(0)).is_none());
    assert_eq!(open(&ledger, A), 1);
    // What comes late changes nothing.
    ledger.observe(&ended(0, 9));
    ledger.observe(&blocks(0, 3, 3, 9));
    ledger.observe(&counters(0, 4, 4, 4, 9));
    assert_eq!(open(&ledger, A), 1);
    // The number again, for another tenant.
    ledger.observe(&tenant(TenantId(5)));
    ledger.observe(&row_new(1, TenantId(5), 64));
    assert_eq!((open(&ledger, A), book(&ledger, 1)), (0, (0, 0, 0)));
    ledger.observe(&Event::TenantGone {
        tenant: TenantId(5),
    });
    assert!(ledger.row(RowId(1)).is_none());
}

#[test]
fn counters_after_a_loss_equal_fresh_books() {
    let b = TenantId(1);
    let mut ledger = after(&[tenant(A), row_new(0, A, 256), row_new(1, A, 128)]);
    for at in [1, 2, 3] {
        ledger.observe(&arrive(0, 100, at));
        ledger.observe(&arrive(1, 7, at));
    }
    ledger.observe(&blocks(0, 50, 20, 4));
    // Lost: row 0's blocks and ends, that row 1 is gone, that a tenant came with row 2.
    ledger.observe(&Event::Lost { n: 9 });
    let truth = [
        tenant(A),
        row_new(0, A, 256),
        counters(0, 1, 12, 40, 500),
        tenant(b),
        row_new(2, b, 64),
        counters(2, 2, 3, 4, 500),
    ];
    truth.iter().for_each(|event| ledger.observe(event));
    let fresh = after(&truth);
    ledger.advance(Nanos(500) + GRACE);
    ledger.expire(GRACE);
    for row in [0, 2] {
        assert_eq!(book(&ledger, row), book(&fresh, row));
        assert!(ledger.row(RowId(row)).expect("known").works);
    }
    for tenant in [A, b] {
        let rows = |ledger: &Ledger| ledger.tenant_book(tenant).map(|t| t.rows.clone());
        assert_eq!(open(&ledger, tenant), open(&fresh, tenant));
        assert_eq!(rows(&ledger), rows(&fresh));
    }
    assert!(ledger.row(RowId(1)).is_none(), "it was not named again");
    assert_eq!(ledger.active().count(), 2);
    // From here on both go the same way.
    ledger.observe(&ended(0, 700));
    assert_eq!(book(&ledger, 0), (0, 0, 0));
}

#[test]
fn a_tenant_whose_end_was_lost_is_dropped() {
    let b = TenantId(1);
    let mut ledger = after(&[tenant(A), row_new(0, A, 256), tenant(b), row_new(1, b, 256)]);
    ledger.observe(&arrive(0, 10, 1));
    ledger.observe(&arrive(1, 10, 1));
    ledger.observe(&Event::Lost { n: 1 });
    let named = [tenant(A), row_new(0, A, 256), counters(0, 1, 0, 10, 2)];
    named.iter().for_each(|event| ledger.observe(event));
    ledger.expire(GRACE);
    assert_eq!(ledger.active().count(), 2, "it may yet be named");
    ledger.advance(Nanos(2) + GRACE);
    ledger.expire(GRACE);
    assert!(ledger.tenant_book(b).is_none() && ledger.row(RowId(1)).is_none());
    assert_eq!((ledger.active().count(), open(&ledger, A)), (1, 1));
}

#[test]
fn grids_without_end_saturate() {
    let mut ledger = after(&[tenant(A), row_new(0, A, 256)]);
    for at in 0..3 {
        ledger.observe(&arrive(0, u64::MAX / 2, at));
    }
    ledger.observe(&blocks(0, u32::MAX, 0, 3));
    ledger.observe(&blocks(0, u32::MAX, 0, 3));
    ledger.planned();
    assert_eq!(book(&ledger, 0).1, u32::MAX);
}

#[test]
fn shares_count_from_when_a_tenant_is_active() {
    let mut ledger = after(&[tenant(A), row_new(0, A, 256)]);
    let share = |held, entitled| Event::Share {
        tenant: A,
        held,
        entitled,
        at: Nanos(2),
    };
    ledger.observe(&share(50.0, 10.0));
    ledger.observe(&arrive(0, 10, 3));
    ledger.observe(&share(60.0, 15.0));
    // One reading was lost; the next makes it good.
    ledger.observe(&share(90.0, 25.0));
    assert_eq!(ledger.tenant_book(A).expect("known").excess, 25.0);
}
