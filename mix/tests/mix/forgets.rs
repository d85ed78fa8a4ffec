//! The guard of the combined policy forgets: a tenant that used room which nobody else could use does not stand behind
//! a newcomer for it.

use gridmux_mix::event::{
    Contention, EventConfig, EventDriver, EventExecutor, EventKernel, EventSubmission, Work,
};
use gridmux_mix::{DriverOptions, Engine};
use gridmux_policy::{
    BlockShape, Class, Cycles, DeviceId, DeviceShape, Profiles, TenantId, by_name,
};
use std::sync::Arc;

/// Four SMs that hold four blocks each; a cycle is a nanosecond.
const DEVICE: EventConfig = EventConfig {
    shape: DeviceShape {
        sms: 4,
        threads: 1024,
        blocks: 4,
        registers: 1,
        shared_bytes: 1,
        submission_ns: 0,
    },
    clock_mhz: 1000,
    contention: Contention::NONE,
};
const MILLISECOND: u64 = 1_000_000;
/// How long A used the room that B could not, and how long C is watched beside both.
const HISTORY: Cycles = Cycles(10_000 * MILLISECOND);
const WATCHED: Cycles = Cycles(1_000 * MILLISECOND);
/// Of what A would hold without a history, the least that it holds with one: the guard's bound is half a window, 25 ms
/// of the device, beyond what is let pass, and an equal part of the device among three repays that in 75 ms of the
/// second that is watched. A launch of 10 ms that waits meanwhile may end that much later.
const LEAST_KEPT: f64 = 0.85;

/// A tenant that launches one kernel after another, and the blocks of a launch.
#[derive(Clone, Copy)]
struct Looper {
    tenant: TenantId,
    blocks: u64,
}

const A: Looper = Looper {
    tenant: TenantId(0),
    blocks: 160,
};
/// Its launches fill a quarter of the device.
const B: Looper = Looper {
    tenant: TenantId(1),
    blocks: 4,
};
const C: Looper = Looper {
    tenant: TenantId(2),
    blocks: 160,
};

/// The device under the combined policy, with tenants that loop.
struct Scene {
    driver: EventDriver,
    loopers: Vec<(Looper, Arc<EventKernel>)>,
}

impl Scene {
    fn new() -> Self {
        let policy = by_name("gridmux", DeviceId(0), &DEVICE.shape, &Profiles::default());
        let engine = EventExecutor::new(DEVICE);
        let options = DriverOptions::default();
        let policy = policy.expect("it is listed");
        Self {
            driver: EventDriver::new(engine, policy, DeviceId(0), options),
            loopers: Vec::new(),
        }
    }

    fn join(&mut self, looper: Looper, at: Cycles) {
        self.driver.tenant(looper.tenant, 1, Class::Normal);
        let kernel = EventKernel {
            name: looper.tenant.to_string(),
            block: BlockShape {
                threads: 256,
                ..BlockShape::default()
            },
            pressure: 0.0,
            sensitivity: 0.0,
        };
        self.loopers.push((looper, Arc::new(kernel)));
        self.launch(looper.tenant, at);
    }

    fn launch(&mut self, tenant: TenantId, at: Cycles) {
        let mut loopers = self.loopers.iter();
        let looper = loopers.find(|(looper, _)| looper.tenant == tenant);
        let (looper, kernel) = looper.expect("it joined");
        let submission = EventSubmission {
            queue: 0,
            kernel: Arc::clone(kernel),
            blocks: looper.blocks,
            work: Work::Random {
                mean: 1e6,
                deviation: 0.0,
            },
        };
        let submitted = self.driver.submit(tenant, submission, at);
        submitted.expect("it fits");
    }

    /// Lets time pass until a cycle; each tenant launches again as soon as its launch has ended.
    fn run_until(&mut self, until: Cycles) {
        while self.driver.engine().now() < until {
            for number in self.driver.run_to_an_end(until) {
                let outcome = self.driver.outcome(number).expect("it ended");
                let (tenant, at) = (outcome.tenant, outcome.end.expect("it ended"));
                self.launch(tenant, at);
            }
        }
    }

    /// Watches A beside B and C from a cycle on, and returns what it holds, in SM · nanoseconds.
    fn watch(mut self, from: Cycles) -> f64 {
        self.join(C, from);
        let before = self.driver.reading(A.tenant);
        self.run_until(from + WATCHED);
        self.driver.reading(A.tenant).held - before.held
    }
}

/// Returns a scene of A and B.
fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.join(A, Cycles(0));
    scene.join(B, Cycles(0));
    scene
}

#[test]
fn who_used_idle_room_for_long_gets_its_part_beside_a_newcomer() {
    let fresh = scene().watch(Cycles(0));
    let mut old = scene();
    old.run_until(HISTORY);
    let reading = old.driver.reading(A.tenant);
    let beyond = (reading.held - reading.entitled) / 4e9;
    assert!(
        beyond > 1.0,
        "A held {beyond} s of the device beyond its part"
    );
    let kept = old.watch(HISTORY) / fresh;
    assert!(kept >= LEAST_KEPT, "A holds {kept} of what it would hold");
}
