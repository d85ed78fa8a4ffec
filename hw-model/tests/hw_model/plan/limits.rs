//! Tenants' limits in `plan` mode: what all rows of a tenant hold together, on each SM and on the device, and which of
//! their blocks leave when a limit is lowered; and when a cap is said to be reached.

use crate::support::plan::{Busy, Limit, Stage, all, plan_of, row};
use gridmux_hw_model::{BlockChange, GpuConfig};
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::plan::{NO_CAP, Plan, Preemption, QuotaRule};
use gridmux_policy::shape::SmUnits;

const A: RowId = RowId(1);
const B: RowId = RowId(2);

/// One eighth of an SM's block slots, which is what a block of 64 threads holds of this chip.
const EIGHTH: u64 = SmUnits::ONE.0 / 8;

/// Returns two rows of tenant 0 with 8 blocks an SM each, B of the better rank, under these limits in eighths of an SM.
fn limited(preemption: Preemption, on_sm: u64, device: u64) -> impl Fn(&GpuConfig) -> Plan {
    move |config| {
        let eighths = |n: u64| match n {
            u64::MAX => SmUnits::MAX,
            n => SmUnits(n * EIGHTH),
        };
        let rows = [row(A, NO_CAP, 0).rank(1), row(B, NO_CAP, 0).rank(0)];
        let limit = Limit {
            tenant: TenantId(0),
            device: eighths(device),
            groups: vec![eighths(on_sm)],
        };
        let groups = [all(config, preemption)];
        plan_of(config, &groups, &rows, &[limit], QuotaRule::default())
    }
}

/// Returns what each row of a stage of two rows holds on each of four SMs, by events.
fn residents(stage: &Stage) -> [[usize; 4]; 2] {
    let mut held = [[0; 4]; 2];
    for event in &stage.events {
        let held = &mut held[usize::from(event.row == B)][event.sm.index()];
        match event.change {
            BlockChange::Placed | BlockChange::SwitchedIn { .. } => *held += 1,
            _ => *held -= 1,
        }
    }
    held
}

#[test]
fn a_tenants_rows_hold_its_limit_together_and_not_more() {
    // A row of another tenant takes what is left: the limit is not its own.
    let other = RowId(7);
    for (on_sm, device, own) in [
        (3, u64::MAX, 12),
        (u64::MAX, 5, 5),
        (3, 13, 12),
        (4, 13, 13),
    ] {
        let mut stage = Stage::new(4, limited(Preemption::Drain, on_sm, device));
        stage.launch_each(Busy::blocks(16), [A, B]);
        stage.launch(Busy {
            tag: 3,
            row: other,
            tenant: TenantId(1),
            blocks: 64,
            ..Busy::default()
        });
        stage.until(8000);
        let of_other = stage.placed().iter().filter(|e| e.row == other).count();
        assert_eq!(of_other, 32 - own, "{on_sm} {device}");
        let held = stage.bench.gpu.held(TenantId(0)).blocks();
        assert_eq!(held, own as u64, "{on_sm} {device}");
        stage.finish();
        assert_eq!(stage.bench.gpu.held(TenantId(0)).blocks(), 0);
    }
}

#[test]
fn a_lowered_limit_takes_blocks_of_the_worst_rank_first_and_of_the_youngest_launch() {
    // On each SM 4 blocks of A, which came first, and 4 of B, which has the better rank.
    for (on_sm, device, expected) in [(5, 32, [[1; 4], [4; 4]]), (3, 32, [[0; 4], [3; 4]])] {
        let mut stage = Stage::new(4, limited(Preemption::Switch, 8, 32));
        stage.launch_each(Busy::blocks(16).rounds(50_000), [A, B]);
        stage.until(10_000);
        assert_eq!(residents(&stage), [[4; 4]; 2]);
        stage.plan(limited(Preemption::Switch, on_sm, device));
        stage.pass(10_000);
        assert_eq!(residents(&stage), expected, "{on_sm}");
        stage.bench.gpu.kill(1);
        stage.bench.gpu.kill(2);
        assert_eq!(stage.bench.gpu.held(TenantId(0)).blocks(), 0);
    }
}

#[test]
fn a_lowered_limit_on_the_device_takes_the_worst_blocks_of_all_sms() {
    let mut stage = Stage::new(4, limited(Preemption::Switch, 8, 32));
    stage.launch_each(Busy::blocks(16).rounds(50_000), [A, B]);
    stage.until(10_000);
    // All of A's 16 and the 3 highest numbers of B's.
    stage.plan(limited(Preemption::Switch, 8, 13));
    stage.pass(10_000);
    assert_eq!(stage.bench.gpu.held(TenantId(0)).blocks(), 13);
    let gone = stage.switched_out();
    let of = |row| gone.iter().filter(move |e| e.row == row);
    assert_eq!([of(A).count(), of(B).count()], [16, 3]);
    let highest: Vec<u64> = of(B).map(|e| e.block).collect();
    assert!(highest.iter().all(|block| *block >= 13), "{highest:?}");
    // What left comes back when there is room again, the better rank first.
    stage.plan(limited(Preemption::Switch, 8, 32));
    stage.pass(20_000);
    let sums = residents(&stage).map(|of| of.iter().sum::<usize>());
    assert_eq!(sums, [16, 16]);
    assert_eq!(stage.switched_in().len(), 19);
}
