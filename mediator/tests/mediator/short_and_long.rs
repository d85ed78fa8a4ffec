//! Tenants of short blocks beside one of long blocks, under the policy that holds shares, on the timed model: no launch
//! is kept from the device while others go there.

use crate::modelled::{ModelRig, SPIN, Shape, StreamLoop};
use gridmux_policy::Class;

const RUN_NS: u64 = 4_000_000;
/// Longest wait of a launch: some blocks of the tenant whose blocks are long, each of about 50 us.
const MOST_WAIT_NS: u64 = 250_000;

const fn endless(blocks: u32, threads: u16, rounds: u32, ahead: u32) -> StreamLoop {
    StreamLoop::endless(Shape::new(blocks, threads, 0, rounds), ahead)
}

#[test]
fn a_launch_goes_to_the_device_at_once() {
    let mut rig = ModelRig::new("smk-p");
    let short = rig.tenant(1);
    let long = rig.tenant(1);
    let served = rig.tenant_of(1, Class::Latency);
    let clients = [
        rig.client_of(short, SPIN, &[endless(400, 128, 1, 1)]),
        rig.client_of(long, SPIN, &[endless(256, 32, 1_400, 2); 2]),
        rig.client_of(served, SPIN, &[endless(8, 32, 140, 1)]),
    ];
    rig.run_until(RUN_NS);
    for client in clients {
        let own = || rig.done.iter().filter(|done| done.client == client);
        let waits = own().map(|done| done.start - done.submitted);
        // The one that is open now was submitted when the last had ended.
        let open = RUN_NS - own().map(|done| done.end).max().expect("launches end");
        let longest = waits.max().expect("launches start");
        println!("client {client}: longest wait {longest} ns, and {open} ns since an end");
        assert!(longest.max(open) <= MOST_WAIT_NS, "client {client}");
    }
}
