//! The SM model with our workloads: each launch is a case with data of its own, and its result is compared with the
//! reference once all have ended.

use super::model::CPU_BUDGET;
use super::rig::Machine;
use super::tap::{LaunchIndex, Request};
use crate::functional::rig::buffer;
use crate::modelled::client_kernel;
use gridmux_mediator::compiler::compile;
use gridmux_mediator::device::Isolation;
use gridmux_mediator::device::model::{self, ModelDevice};
use gridmux_mediator::device::{
    Command, CopyCommand, Device, DeviceControl, DeviceReport, Direction, DomainId, LaneId,
    Outcome, Tag, Timing,
};
use gridmux_mediator::dispatch::client::ClientKernel;
use gridmux_mediator::waker::Waker;
use gridmux_policy::conformance::{Load, LoadLaunch};
use gridmux_policy::ids::TenantId;
use gridmux_policy::shape::{BlockShape, DeviceShape};
use gridmux_policy::units::Nanos;
use gridmux_workloads::{Arg, Case, Role, Size, by_name};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A tenant's workload: tenant, its weight, the workload, its stream, and when its launches arrive, in nanoseconds.
type Part = (u32, u32, &'static str, u16, &'static [u64]);

/// Kernels that compute, that wait for memory and that live in the cache; one tenant has two of them.
const MIX: &[Part] = &[
    (0, 1, "tea", 0, &[0, 30_000]),
    (1, 2, "vecadd", 0, &[3_000, 20_000]),
    (1, 2, "stencil3d", 1, &[6_000, 25_000]),
    (2, 1, "matmul", 0, &[9_000, 10_000, 11_000]),
];

/// When the first launch arrives: the data is on the device by then.
const BEGIN: u64 = 2_000_000;

/// Returns the case of a launch.
fn case(place: LaunchIndex) -> Case {
    let workload = by_name(MIX[place.0].2).expect("a workload");
    workload.case(Size::Small, place.1 as u64 + 1)
}

/// Returns the loads that [`Workloads`] is for.
pub(crate) fn loads() -> Vec<Load> {
    let load = |(place, (tenant, weight, _, stream, arrivals)): (usize, &Part)| {
        let launch = |(n, at): (usize, &u64)| LoadLaunch {
            at: Nanos(BEGIN + at),
            blocks: u32::try_from(case((place, n)).blocks()).expect("a small grid"),
            block_ns: Nanos(0),
        };
        Load {
            tenant: TenantId(*tenant),
            weight: *weight,
            block: BlockShape {
                threads: case((place, 0)).block.iter().product(),
                shared_bytes: case((place, 0)).dynamic_shared_bytes,
                ..BlockShape::default()
            },
            computes: false,
            stream: u8::try_from(*stream).expect("few streams"),
            launches: arrivals.iter().enumerate().map(launch).collect(),
        }
    };
    MIX.iter().enumerate().map(load).collect()
}

/// A launch's data in device memory.
struct Prepared {
    place: LaunchIndex,
    domain: DomainId,
    request: Request,
    outputs: Vec<(u64, usize)>,
}

/// The model with the data of every launch.
pub(crate) struct Workloads {
    device: Option<ModelDevice>,
    control: Arc<dyn DeviceControl>,
    domains: Vec<DomainId>,
    prepared: Vec<Prepared>,
    copies: u32,
}

/// Returns four SMs of a V100 with everything in place.
pub(crate) fn open() -> Box<dyn Machine> {
    let waker = Arc::new(Waker::new().expect("a waker"));
    let setup = model::Setup {
        timing: Timing::Timed,
        memory_bytes: 1 << 30,
        cpu_budget: CPU_BUDGET,
        isolation: Isolation::Shared,
    };
    let open = model::open("v100", Some(4), setup, &waker);
    let mut open = open.expect("built in");
    let mut tenants: Vec<u32> = MIX.iter().map(|part| part.0).collect();
    tenants.dedup();
    let domain = |_: &u32| open.control.create_domain(1 << 26).expect("a domain");
    let mut machine = Workloads {
        device: None,
        domains: tenants.iter().map(domain).collect(),
        control: open.control,
        prepared: Vec::new(),
        copies: 0,
    };
    for (load, part) in MIX.iter().enumerate() {
        let client = tenants.iter().position(|tenant| *tenant == part.0);
        for launch in 0..part.4.len() {
            let domain = machine.domains[client.expect("listed")];
            machine.prepare(&mut open.device, domain, (load, launch));
        }
    }
    assert!(open.device.now().0 < BEGIN, "{}", open.device.now());
    machine.device = Some(open.device);
    Box::new(machine)
}

impl Workloads {
    /// Puts the data of a launch on the device.
    fn prepare(&mut self, device: &mut dyn Device, domain: DomainId, place: LaunchIndex) {
        let case = case(place);
        let (mut addresses, mut outputs) = (Vec::new(), Vec::new());
        for arg in &case.args {
            if let Arg::Buffer { bytes, role } = arg {
                let address = self.control.alloc(domain, bytes.len() as u64);
                let address = address.expect("memory");
                self.copy(
                    device,
                    domain,
                    address,
                    &mut bytes.clone(),
                    Direction::ToDevice,
                );
                addresses.push(address);
                if !matches!(role, Role::In) {
                    outputs.push((address, bytes.len()));
                }
            }
        }
        self.prepared.push(Prepared {
            place,
            domain,
            request: Request {
                grid: case.grid,
                block: case.block.map(|n| u16::try_from(n).expect("a block")),
                shared_bytes: case.dynamic_shared_bytes,
                args: case.pack_params(&addresses),
            },
            outputs,
        });
    }

    /// Copies bytes to or from the device, and waits until that is done.
    fn copy(
        &mut self,
        device: &mut dyn Device,
        domain: DomainId,
        address: u64,
        bytes: &mut [u8],
        direction: Direction,
    ) {
        let (buffer, file) = buffer(&*self.control, bytes);
        self.copies += 1;
        let tag = Tag {
            lane: LaneId(31),
            // No number that a dispatcher comes to.
            generation: u32::MAX - self.copies,
        };
        let copy = Command::Copy(CopyCommand {
            tag,
            domain,
            direction,
            buffer,
            buffer_offset: 0,
            address,
            bytes: bytes.len() as u64,
            rest_bytes: 0,
        });
        assert!(device.submit(&copy, &[]).is_ok(), "room");
        let until = Nanos(u64::MAX);
        let mut permitted = false;
        loop {
            if !permitted {
                permitted = device.submit(&Command::PassTime { until }, &[]).is_ok();
            }
            match device.poll() {
                Some(DeviceReport::Paused { .. }) => permitted = false,
                Some(DeviceReport::Ended {
                    tag: ended,
                    outcome,
                    ..
                }) if ended == tag => {
                    assert_eq!(outcome, Outcome::Done);
                    break;
                }
                _ => std::thread::yield_now(),
            }
        }
        // The clock stands still before anybody else gives a permit.
        assert!(device.submit(&Command::Pause, &[]).is_ok(), "room");
        while !matches!(device.poll(), Some(DeviceReport::Paused { .. })) {
            std::thread::yield_now();
        }
        if matches!(direction, Direction::FromDevice) {
            file.read_exact_at(bytes, 0).expect("it has that much");
        }
        self.control.unregister_buffer(buffer);
    }
}

impl Machine for Workloads {
    fn device(&mut self) -> Box<dyn Device> {
        Box::new(self.device.take().expect("asked for once"))
    }

    fn shape(&self) -> DeviceShape {
        self.control.facts().shape
    }

    fn max_shared_bytes(&self) -> u32 {
        self.control.facts().max_shared_bytes_per_block
    }

    fn domain(&mut self, client: u16) -> DomainId {
        self.domains[usize::from(client)]
    }

    fn kernel(&mut self, domain: DomainId, load: u32) -> ClientKernel {
        let ptx = case((load as usize, 0)).ptx;
        let module = compile(ptx.as_bytes().to_vec()).expect("the module compiles");
        client_kernel(&*self.control, domain, &module)
    }

    fn request(&self, place: LaunchIndex) -> Option<Request> {
        let own = self.prepared.iter().find(|own| own.place == place);
        own.map(|own| own.request.clone())
    }

    fn judge(&mut self, device: &mut dyn Device) {
        for own in std::mem::take(&mut self.prepared) {
            let mut outputs = Vec::new();
            for (address, bytes) in &own.outputs {
                let mut read = vec![0; *bytes];
                self.copy(
                    device,
                    own.domain,
                    *address,
                    &mut read,
                    Direction::FromDevice,
                );
                outputs.push(read);
            }
            let case = case(own.place);
            let right = case.verify(&outputs);
            right.unwrap_or_else(|error| panic!("{} {:?}: {error}", case.workload, own.place));
        }
    }
}
