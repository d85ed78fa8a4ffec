//! What the dispatcher says of its rows when the control thread asks.

use crate::scripted::{Rig, launch, submit};
use gridmux_mediator::dispatch::reading::{Role, RowReading, RowReadings};
use gridmux_mediator::dispatch::rows::ROWS_PER_TENANT;
use gridmux_mediator::dispatch::{Message, Notice};
use gridmux_policy::ids::TenantId;

/// Reads all rows; returns them, and how often the dispatcher was asked.
fn read(rig: &mut Rig) -> (Vec<RowReading>, usize) {
    let mut rows = Vec::new();
    let mut asked = 0;
    let mut readings = Box::<RowReadings>::default();
    while !readings.is_over {
        rig.tell(Message::ReadRows(readings));
        let _ = rig.dispatcher.turn();
        asked += 1;
        let answer = rig.notices().find_map(|notice| match notice {
            Notice::Rows(readings) => Some(readings),
            _ => None,
        });
        readings = answer.expect("a turn answers");
        rows.extend(readings.rows.iter().cloned());
    }
    (rows, asked)
}

#[test]
fn a_row_says_what_it_has_on_the_device_and_what_was_learnt_of_it() {
    let mut rig = Rig::new("fifo");
    let wire = rig.join(0, 1);
    assert!(read(&mut rig).0.is_empty(), "nobody has launched anything");
    rig.bench.borrow_mut().refuses_permits = true;
    submit(&wire, launch(1, [1000, 1, 1], [256, 1, 1]));
    rig.settle(100);
    let (rows, _) = read(&mut rig);
    let [row] = rows.as_slice() else {
        panic!("{rows:?}");
    };
    assert_eq!((row.tenant, row.block.threads), (TenantId(0), 256));
    assert_eq!((row.level, row.role), (Some(0), Some(Role::Filler)));
    assert_eq!((row.is_proven, row.lasts_ns, row.ended), (false, 0, 0));
    let piece = row.piece.unwrap();
    assert_eq!(
        (piece.blocks, piece.launch_blocks, piece.work_ns),
        (1, 1000, 0)
    );
    rig.bench.borrow_mut().refuses_permits = false;
    rig.settle(10_000);
    let (rows, _) = read(&mut rig);
    let row = &rows[0];
    assert_eq!((row.level, row.role, row.live), (None, None, 0));
    assert_eq!((row.is_proven, row.ended, row.waiting), (true, 1000, 0));
    assert!(row.lasts_ns >= row.mean_ns && row.mean_ns > 0, "{row:?}");
    assert!(row.piece.is_some_and(|piece| piece.work_ns > 0), "{row:?}");
}

#[test]
fn every_row_is_said_once_however_many_answers_it_takes() {
    let mut rig = Rig::new("smk-p");
    let wires: Vec<_> = (0..4).map(|slot| rig.join(slot, 1)).collect();
    for wire in &wires {
        for threads in 1..=ROWS_PER_TENANT {
            let threads = u16::try_from(32 * threads).unwrap();
            submit(wire, launch(threads.into(), [2, 1, 1], [threads, 1, 1]));
            rig.settle(10_000);
        }
    }
    let (rows, asked) = read(&mut rig);
    assert_eq!(rows.len(), 4 * ROWS_PER_TENANT);
    assert!(rows.is_sorted_by(|one, other| one.id < other.id));
    assert!(asked > 9, "{asked} answers");
}
