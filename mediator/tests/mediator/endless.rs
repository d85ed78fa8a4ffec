//! A kernel that does not end keeps nobody else's launches from being issued.

use crate::modelled::{ModelRig, SPIN, Shape, StreamLoop};

/// Returns a stream of `count` launches of `blocks` blocks, whose threads go round their loop `rounds` times.
fn stream(blocks: u32, rounds: u32, count: u64) -> StreamLoop {
    StreamLoop {
        shape: Shape::new(blocks, 128, 0, rounds),
        ahead: 1,
        count,
    }
}

#[test]
fn launches_of_others_run_to_their_end_while_an_endless_kernel_runs() {
    for policy in ["fifo", "smk-p", "gridmux"] {
        let mut rig = ModelRig::new(policy);
        let (evil, good) = (rig.tenant(1), rig.tenant(1));
        // A block of it runs for 2^32 rounds, some seconds of device time.
        let evil = rig.client_of(evil, SPIN, &[stream(1, u32::MAX, 1)]);
        rig.run_until(100_000);
        let good = rig.client_of(good, SPIN, &[stream(64, 100, 20)]);
        rig.run_until(2_000_000);
        let done = |client| rig.done.iter().filter(|done| done.client == client).count();
        assert_eq!(done(evil), 0, "{policy}: it does not end");
        assert_eq!(done(good), 20, "{policy}");
        assert!(rig.done.iter().all(|done| done.status == 0), "{policy}");
    }
}
