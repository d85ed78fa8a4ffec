//! The block scheduler of `plan` mode holds which SMs a plan gives to whom.

use crate::support::part_of;
use crate::support::plan::{Busy, GroupOf, Row, Stage, all, plan_of, row};
use gridmux_hw_model::GpuConfig;
use gridmux_policy::ids::{RowId, SmId};
use gridmux_policy::plan::{Cell, Plan, Preemption, QuotaRule};
use gridmux_policy::sm_set::SmSet;

const A: RowId = RowId(1);
const B: RowId = RowId(2);

/// Returns a plan for four SMs: A may hold `blocks[0]` blocks on each of the first three, B `blocks[1]` on the last.
fn apart(config: &GpuConfig, blocks: [u16; 2]) -> Plan {
    let groups = [SmSet::range(0, 3), SmSet::range(3, 4)].map(|sms| GroupOf {
        sms,
        ..all(config, Preemption::Drain)
    });
    let caps = |id, caps: [u16; 2]| Row {
        cells: caps.map(Cell::capped).to_vec(),
        ..row(id, 0, 0)
    };
    let rows = [caps(A, [blocks[0], 0]), caps(B, [0, blocks[1]])];
    plan_of(config, &groups, &rows, &[], QuotaRule::default())
}

#[test]
fn kernels_stay_on_the_sms_of_their_groups() {
    let mut stage = Stage::new(4, |config| apart(config, [2, 5]));
    stage.launch_each(Busy::blocks(20), [A, B]);
    stage.pass(6000);
    let held = |row| stage.placed().iter().filter(|e| e.row == row).count();
    assert_eq!(
        [held(A), held(B)],
        [6, 5],
        "as many as the caps let in at first"
    );
    stage.finish();
    for event in &stage.events {
        assert_eq!(event.sm == SmId(3), event.row == B, "{event:?}");
    }
}

#[test]
fn a_launch_that_arrives_while_blocks_of_another_start_without_pause_finds_its_sms() {
    // A's blocks end sooner than they can start, so that some of its room is free all the time, and several of them
    // start between two looks at what is on the SMs.
    let mut config = part_of("h200", 4);
    config.launch.block_interval_cycles = 20.0;
    config.launch.block_cycles = 1;
    let mut stage = Stage::on(config, |config| apart(config, [8, 8]));
    for (tag, row, blocks) in [(1, A, 1000), (2, B, 8)] {
        stage.launch(Busy {
            tag,
            row,
            blocks,
            rounds: 1,
            ..Busy::default()
        });
    }
    stage.finish();
    let at = |row| {
        let placed = stage.placed().into_iter();
        placed.filter(move |e| e.row == row).map(|e| e.at)
    };
    let (first_of_b, last_of_a) = (at(B).min(), at(A).max());
    assert!(
        first_of_b < last_of_a,
        "B had its SM only from {first_of_b:?} on, when A had started its last block in {last_of_a:?}"
    );
}
