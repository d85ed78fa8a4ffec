//! Kernels whose blocks wait for each other, of several tenants, on the timed model: none is kept from its end by
//! another one that holds the rest of the device.

use crate::modelled::{ModelRig, SMS, SPIN, Shape, StreamLoop};
use gridmux_channel::ring::CompletionStatus;

/// A kernel whose blocks wait until all of them have started.
const GANG: &str = include_str!("gang.ptx");
const RUN_NS: u64 = 1_500_000;

/// Launches, one after another: of the gangs a part of the device that leaves too little for another one.
const fn launches(blocks: u32, rounds: u32) -> StreamLoop {
    StreamLoop::endless(Shape::new(blocks, 1024, 0, rounds), 1)
}

#[test]
fn gangs_of_several_tenants_go_one_after_another() {
    let blocks = 2 * u32::from(SMS) - 1;
    for policy in ["fifo", "smk-p", "gridmux"] {
        let mut rig = ModelRig::new(policy);
        let (first, second, other) = (rig.tenant(1), rig.tenant(3), rig.tenant(2));
        let gangs = [
            rig.client_of(first, GANG, &[launches(blocks, 200)]),
            rig.client_of(second, GANG, &[launches(blocks, 100)]),
        ];
        // Its blocks end one by one, so that a gang's blocks start one by one.
        let mixed = [launches(3, 350), launches(2, 800), launches(3, 1_300)];
        rig.client_of(other, SPIN, &mixed);
        rig.run_until(RUN_NS);
        let ended = |client| {
            let own = rig.done.iter().filter(move |done| done.client == client);
            own.map(|done| done.status)
        };
        for client in gangs {
            println!(
                "{policy}: {} launches of client {client}",
                ended(client).count()
            );
            assert!(ended(client).count() >= 5, "{policy}: client {client}");
            let ok = CompletionStatus::Ok as u32;
            assert!(ended(client).all(|status| status == ok), "{policy}");
        }
    }
}
