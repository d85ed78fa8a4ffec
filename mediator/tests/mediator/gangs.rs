//! Kernels whose blocks wait for each other, of several tenants: none is kept from its end by another one that holds
//! the rest of the device.

use crate::modelled::{Done, ModelRig, SMS, SPIN, Shape, StreamLoop};
use crate::scripted::{Rig, launch, named, sliced, submit};
use gridmux_channel::ring::CompletionStatus;
use gridmux_mediator::device::Residency;
use gridmux_ptx::Kernel;
use gridmux_ptx::kernel::Entry;
use std::sync::Arc;

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

/// A tenant that always comes first takes what comes free: a gang that could not be placed in its time would hold its
/// room in vain for as long as the other works.
#[test]
fn gangs_beside_one_that_comes_first_rest_and_go_on() {
    const FROM_NS: u64 = 4_000_000;
    const TO_NS: u64 = 6_000_000;
    let mut rig = ModelRig::new("gridmux");
    let (first, second) = (rig.tenant(1), rig.tenant(1));
    let short = StreamLoop::endless(Shape::new(16, 256, 0, 560), 1);
    rig.client(first, &[short; 2]);
    let gang = launches(2 * u32::from(SMS) - 1, 2_800);
    let gangs = rig.client_of(second, GANG, &[gang; 4]);
    rig.run_until(FROM_NS);
    let held = |rig: &ModelRig| [first, second].map(|tenant| rig.usage(tenant).held_sm_ns);
    let before = held(&rig);
    rig.run_until(TO_NS);
    let late = |done: &&Done| done.client == gangs && done.end >= FROM_NS;
    let late = rig.done.iter().filter(late).count();
    assert!(late >= 5, "{late} gangs in 2 ms, of 0.1 ms each");
    let after = held(&rig);
    let held = [0, 1].map(|tenant| after[tenant] - before[tenant]);
    let part = 2.0 * held[0] / (held[0] + held[1]);
    assert!(part >= 0.8, "{part} of half of what both held");
}

/// A device that sees every block tells when a gang has started; one that estimates it does not know before its end.
#[test]
fn a_gang_has_its_turn_until_it_is_known_to_have_started() {
    for (residency, at_once) in [(Residency::Exact, 2), (Residency::Stamped, 1)] {
        let mut rig = Rig::on_real_clock(named("fifo"), 8192);
        rig.bench.borrow_mut().residency = residency;
        let gang = Arc::new(Kernel {
            is_gang: true,
            entries: vec![Entry::whole("k")],
            ..Kernel::clone(&sliced(16))
        });
        let wires = [0, 1].map(|slot| {
            let wire = rig.join(slot, 1);
            rig.add_kernel(slot, Arc::clone(&gang));
            wire
        });
        for wire in &wires {
            submit(wire, launch(1, [2, 1, 1], [32, 1, 1]));
        }
        rig.turns(20);
        let on_device = |rig: &Rig| rig.bench.borrow().in_flight.len();
        assert_eq!(on_device(&rig), at_once, "{residency}");
        while on_device(&rig) > 0 {
            rig.bench.borrow_mut().pass_time();
            rig.turns(20);
        }
        let ended = wires.map(|wire| wire.borrow().cookies());
        assert_eq!(ended, [[1], [1]], "{residency}");
    }
}
