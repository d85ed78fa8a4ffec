//! A tenant that is alone, and one that comes: the newcomer's first block starts within two windows of 200 us and one
//! block of the tenant that was alone, whatever that one runs. Under the default policy on the timed model, in device
//! time.

use crate::modelled::{Budgets, ModelRig, SPIN, Shape, StreamLoop};
use gridmux_policy::ids::TenantId;

/// Longest wait of a newcomer, besides one block of the tenant that was alone.
const MOST_WAIT_NS: u64 = 400_000;

/// SMs of the device: as few as two share, because a run costs the host as much as its SMs execute.
const SMS: u16 = 2;

const fn shape(blocks: u32, threads: u16, rounds: u32) -> Shape {
    Shape::new(blocks, threads, 0, rounds)
}

fn rig() -> ModelRig {
    ModelRig::with("gridmux", SMS, Budgets::default())
}

/// Returns the longest that a launch of one wave takes: its blocks run side by side.
fn block_ns(ptx: &str, of: Shape) -> u64 {
    let mut rig = rig();
    let tenant = rig.tenant(1);
    let wave = Shape {
        blocks: of.blocks.min(u32::from(SMS) * 2048 / u32::from(of.threads)),
        ..of
    };
    let one = StreamLoop {
        shape: wave,
        ahead: 1,
        count: 3,
    };
    rig.client_of(tenant, ptx, &[one]);
    rig.run();
    // The first launch is cut into small windows.
    let times = rig.done.iter().skip(1).map(|done| done.end - done.start);
    times.max().expect("launches")
}

/// Connects newcomers of a tenant at times after the tenant alone began; returns what the first block of each waited.
fn waits(ptx: &str, alone: &[StreamLoop], arrivals: &[u64]) -> Vec<u64> {
    let mut rig = rig();
    let tenant = rig.tenant(1);
    let other = rig.tenant(1);
    let alone = rig.client_of(tenant, ptx, alone);
    let one = StreamLoop {
        shape: shape(2, 256, 5),
        ahead: 1,
        count: 1,
    };
    let come = |(rig, other): (&mut ModelRig, TenantId), at: &u64| {
        rig.run_until(*at);
        assert!(!rig.is_over(alone), "the tenant alone is still at work");
        let client = rig.client(other, &[one]);
        rig.run_programs(&[client]);
        let done = rig.done.iter().find(|done| done.client == client);
        let done = done.expect("it has completed");
        assert_eq!(done.status, 0);
        done.start - done.submitted
    };
    arrivals
        .iter()
        .map(|at| come((&mut rig, other), at))
        .collect()
}

fn judge(name: &str, ptx: &str, alone: &[StreamLoop], arrivals: &[u64]) {
    let longest = alone.iter().map(|stream| block_ns(ptx, stream.shape)).max();
    let longest = longest.expect("a stream");
    let waits = waits(ptx, alone, arrivals);
    let most = waits.iter().max().expect("arrivals");
    println!("{name}: a block {longest} ns, waited at most {most}: {waits:?}");
    assert!(
        *most <= MOST_WAIT_NS + longest,
        "{name}: waited {most} ns, a block takes {longest} ns"
    );
}

/// Returns the same launches in each of some streams, submitted well ahead.
fn backlog(streams: usize, shape: Shape) -> Vec<StreamLoop> {
    vec![StreamLoop::endless(shape, 8); streams]
}

#[test]
fn short_kernels_in_a_long_backlog() {
    for streams in [1, 8] {
        for (name, shape) in [("2 us", shape(16, 256, 50)), ("20 us", shape(16, 256, 500))] {
            let name = format!("{name} in {streams} streams");
            judge(
                &name,
                SPIN,
                &backlog(streams, shape),
                &[300_000, 471_000, 652_300],
            );
        }
    }
}

#[test]
fn medium_kernels_in_a_long_backlog() {
    for streams in [1, 4, 8] {
        let name = format!("150 us in {streams} streams");
        let shape = shape(16, 256, 4_000);
        judge(
            &name,
            SPIN,
            &backlog(streams, shape),
            &[900_000, 1_831_000, 2_777_000],
        );
    }
}

#[test]
fn long_kernels_in_windows() {
    for streams in [1, 3] {
        let name = format!("2 ms of short blocks in {streams} streams");
        let shape = shape(800, 256, 1_000);
        judge(
            &name,
            SPIN,
            &backlog(streams, shape),
            &[5_000, 900_000, 1_911_000],
        );
    }
}

#[test]
fn long_blocks() {
    for streams in [1, 3] {
        let name = format!("blocks of 1 ms in {streams} streams");
        let shape = shape(160, 256, 25_000);
        judge(
            &name,
            SPIN,
            &backlog(streams, shape),
            &[20_000, 1_600_000, 5_171_000],
        );
    }
}

/// Returns a kernel that reads the number of its launch, so that it cannot be cut.
fn uncuttable() -> String {
    let read = ".reg .u64 %gi;\n    mov.u64 %gi, %gridid;\n    ld.param.u64 %rd1, [out];";
    SPIN.replace("ld.param.u64 %rd1, [out];", read)
}

#[test]
fn kernels_that_cannot_be_cut() {
    let ptx = uncuttable();
    for streams in [1, 8] {
        let name = format!("whole launches of 150 us in {streams} streams");
        let shape = shape(16, 256, 4_000);
        judge(
            &name,
            &ptx,
            &backlog(streams, shape),
            &[900_000, 1_831_000, 2_777_000],
        );
    }
}
