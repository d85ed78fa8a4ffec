//! The reader's path on real threads: newest plan, no allocation, every plan freed.

use gridmux_policy::{DeviceId, DeviceShape, KernelId, Plan, PlanBuilder, Publisher, RowLimits};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::thread;

const DEVICE: DeviceShape = DeviceShape {
    sms: 4,
    threads: 1024,
    blocks: 8,
    registers: 65_536,
    shared_bytes: 49_152,
};

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what each thread asks of the allocator.
struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn plan(cap: u16) -> Plan {
    let mut plan = PlanBuilder::new(DeviceId(0), &DEVICE);
    plan.default_row(RowLimits::capped(cap));
    plan.build().expect("a plan without groups is valid")
}

#[test]
fn readers_follow_and_never_call_the_allocator() {
    let mut publisher = Publisher::new(plan(1));
    let readers: Vec<_> = (0..2).map(|_| publisher.reader()).collect();
    thread::scope(|scope| {
        for mut reader in readers {
            scope.spawn(move || {
                let before = CALLS.with(Cell::get);
                let mut epoch = 0;
                while epoch < 1001 {
                    let plan = reader.read();
                    assert!(plan.epoch >= epoch, "epochs never fall");
                    epoch = plan.epoch;
                    let cap = u32::try_from(epoch % 7).unwrap() * 4;
                    assert!(epoch == 1 || plan.cap_total(KernelId(0)) == cap);
                }
                assert_eq!(CALLS.with(Cell::get), before, "a read allocated or freed");
            });
        }
        for _ in 0..1000 {
            let next = u16::try_from((publisher.epoch() + 1) % 7).unwrap();
            publisher.publish(plan(next));
        }
    });
    assert_eq!(publisher.newest().epoch, 1001);
}
