//! Tests of the whole backend: what needs no driver, and one pass over a real GPU where there is one.

use super::module::Module;
use super::tables::{Function, KernelEntry, Tables};
use super::{OpenCuda, blocks_of, find_copy, find_device_copy, open};
use crate::compiler::{Wanted, admit, hash_of, translate};
use crate::device::cuda::allocator::Range;
use crate::device::cuda::buffer::HostBuffer;
use crate::device::{
    AllocationUnits, BufferId, Command, CompiledModule, CopyCommand, Device, DeviceControl,
    DeviceCopyCommand, DeviceError, DeviceKernelId, DeviceReport, Direction, DomainId,
    KernelLimits, LaneId, LaunchCommand, Level, MemsetCommand, Outcome, Tag,
};
use crate::waker::Waker;
use gridmux_channel::memory::{Protection, SealedMemfd, TenantBuffer};
use gridmux_channel::ring::{CompletionStatus, Width};
use gridmux_launch::Control;
use gridmux_policy::shape::DeviceShape;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::Arc;

const H200: DeviceShape = DeviceShape::h200(132);

fn limits() -> KernelLimits {
    KernelLimits {
        id: DeviceKernelId(0),
        static_shared_bytes: 0,
        registers_per_thread: 32,
        max_threads_per_block: 1024,
        units: AllocationUnits {
            registers: 256,
            shared_bytes: 128,
            reserved_shared_bytes: 1024,
        },
    }
}

fn tag(lane: u8) -> Tag {
    Tag {
        lane: LaneId(lane),
        generation: 1,
    }
}

fn launch(grid: [u32; 3], block: [u32; 3]) -> LaunchCommand {
    LaunchCommand {
        tag: tag(0),
        level: Level::LOWEST,
        launch: 0,
        is_last: true,
        domain: DomainId(0),
        kernel: DeviceKernelId(0),
        grid,
        first_block: [0; 3],
        block,
        dynamic_shared_bytes: 0,
        is_cooperative: false,
        budget_cycles: 0,
        params_bytes: 0,
    }
}

fn tenant_buffer(bytes: u64) -> TenantBuffer {
    let memfd = SealedMemfd::create("test", bytes).unwrap();
    let protection = Protection {
        read: true,
        write: true,
    };
    TenantBuffer::new(
        memfd.as_fd().try_clone_to_owned().unwrap(),
        0,
        bytes,
        protection,
    )
    .unwrap()
}

#[test]
fn no_more_blocks_count_as_resident_than_the_sms_hold() {
    let entry = KernelEntry {
        domain: DomainId(0),
        function: Function(ptr::null_mut()),
        limits: limits(),
        places: Arc::new([]),
        stamps: false,
        module: Arc::new(Module::none()),
    };
    let small = blocks_of(&launch([10, 2, 1], [256, 1, 1]), &entry, &H200);
    assert_eq!((small.all, small.resident), (20, 20));
    let large = blocks_of(&launch([100_000, 1, 1], [256, 1, 1]), &entry, &H200);
    assert_eq!((large.all, large.resident), (100_000, 132 * 8));
    let huge = blocks_of(
        &launch([u32::MAX, 65535, 65535], [1024, 1, 1]),
        &entry,
        &H200,
    );
    assert_eq!((huge.all, huge.resident), (u32::MAX, 132 * 2));
}

#[test]
fn a_copy_must_stay_inside_an_allocation_and_its_buffer() {
    let ranges: Arc<[Range]> = Arc::new([Range {
        start: 0x10_0000,
        bytes: 4096,
    }]);
    let buffer = Arc::new(HostBuffer::map(&tenant_buffer(4096), false).unwrap());
    let tables = Tables {
        allocations: Arc::new([(0, ranges)].into_iter().collect()),
        buffers: Arc::new([(5, buffer)].into_iter().collect()),
        ..Tables::default()
    };
    let good = CopyCommand {
        tag: tag(0),
        domain: DomainId(0),
        direction: Direction::FromDevice,
        buffer: BufferId(5),
        buffer_offset: 0,
        address: 0x10_0000,
        bytes: 4096,
        rest_bytes: 0,
    };
    assert!(find_copy(&tables, &good).is_ok());
    type Change = fn(&mut CopyCommand);
    let changes: [(Change, CompletionStatus); 6] = [
        (|copy| copy.bytes = 4097, CompletionStatus::BadAddress),
        (|copy| copy.address = 0, CompletionStatus::BadAddress),
        (|copy| copy.domain.0 = 1, CompletionStatus::BadAddress),
        (|copy| copy.buffer.0 = 6, CompletionStatus::BadIova),
        (|copy| copy.buffer_offset = 1, CompletionStatus::BadIova),
        (
            |copy| copy.buffer_offset = u64::MAX,
            CompletionStatus::BadIova,
        ),
    ];
    for (change, status) in changes {
        let mut bad = good;
        change(&mut bad);
        let refused = find_copy(&tables, &bad).err().map(|(status, _)| status);
        assert_eq!(refused, Some(status), "{bad:?}");
    }
}

#[test]
fn both_ends_of_a_copy_on_the_device_must_stay_inside_allocations() {
    let range = |start| Range { start, bytes: 4096 };
    let ranges: Arc<[Range]> = Arc::new([range(0x10_0000), range(0x20_0000)]);
    let tables = Tables {
        allocations: Arc::new([(0, ranges)].into_iter().collect()),
        ..Tables::default()
    };
    let good = DeviceCopyCommand {
        tag: tag(0),
        domain: DomainId(0),
        from: 0x10_0800,
        to: 0x20_0000,
        bytes: 0x800,
        rest_bytes: 0,
    };
    assert!(find_device_copy(&tables, &good).is_ok());
    let changes: [fn(&mut DeviceCopyCommand); 4] = [
        |copy| copy.from = 0x10_0801,
        |copy| copy.to = 0x20_0801,
        |copy| copy.to = u64::MAX,
        |copy| copy.domain.0 = 1,
    ];
    for change in changes {
        let mut bad = good;
        change(&mut bad);
        let refused = find_device_copy(&tables, &bad).err();
        let refused = refused.map(|(status, _)| status);
        assert_eq!(refused, Some(CompletionStatus::BadAddress), "{bad:?}");
    }
}

/// A kernel that writes its thread's number plus a parameter.
const PTX: &str = include_str!("iota.ptx");

/// Submits a command and collects its reports up to the end.
fn run(device: &mut super::CudaDevice, command: &Command) -> Vec<DeviceReport> {
    run_with(device, command, &[])
}

/// As [`run`], with a launch's parameters.
fn run_with(device: &mut super::CudaDevice, command: &Command, params: &[u8]) -> Vec<DeviceReport> {
    device.submit(command, params).unwrap();
    let mut reports = Vec::new();
    loop {
        match device.poll() {
            Some(report @ DeviceReport::Ended { .. }) => {
                reports.push(report);
                return reports;
            }
            Some(report) => reports.push(report),
            None => std::thread::yield_now(),
        }
    }
}

fn is_done(reports: &[DeviceReport]) -> bool {
    matches!(reports.last(), Some(DeviceReport::Ended { outcome: Outcome::Done, start, end, .. }) if start <= end)
}

/// A real GPU with one tenant's memory on it.
struct Gpu {
    device: super::CudaDevice,
    control: Arc<dyn DeviceControl>,
    domain: DomainId,
    buffer: Arc<TenantBuffer>,
    buffer_id: BufferId,
    address: u64,
}

impl Gpu {
    /// `None`, said on stdout, where there is no driver.
    fn open() -> Option<Self> {
        let waker = Arc::new(Waker::new().unwrap());
        let OpenCuda { device, control } = match open("0", &waker) {
            Ok(open) => open,
            Err(DeviceError::NoDevice(reason)) => {
                println!("SKIPPED: no CUDA driver ({reason})");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let domain = control.create_domain(1 << 30).unwrap();
        let buffer = Arc::new(tenant_buffer(4096));
        let buffer_id = control.register_buffer(Arc::clone(&buffer)).unwrap();
        let address = control.alloc(domain, 4096).unwrap();
        Some(Self {
            device,
            control,
            domain,
            buffer,
            buffer_id,
            address,
        })
    }

    /// Returns the tenant's whole allocation, to its buffer.
    fn copy_out(&self) -> CopyCommand {
        CopyCommand {
            tag: tag(3),
            domain: self.domain,
            direction: Direction::FromDevice,
            buffer: self.buffer_id,
            buffer_offset: 0,
            address: self.address,
            bytes: 4096,
            rest_bytes: 0,
        }
    }

    fn buffer_bytes(&self) -> Vec<u8> {
        let mut out = vec![0; 4096];
        self.buffer.read_at(0, &mut out).unwrap();
        out
    }

    fn kernels_compute(&mut self, module: &CompiledModule) {
        let kernels = self.control.load(self.domain, module).unwrap().kernels;
        assert_eq!(kernels[0].limits.max_threads_per_block, 1024);
        let fill = MemsetCommand {
            tag: tag(1),
            domain: self.domain,
            address: self.address,
            bytes: 4096,
            rest_bytes: 0,
            value: 0xeeee_eeee,
            width: Width::Four,
        };
        assert!(is_done(&run(&mut self.device, &Command::Memset(fill))));
        let mut launch = launch([7, 1, 1], [128, 1, 1]);
        (launch.tag, launch.domain, launch.kernel) = (tag(2), self.domain, kernels[0].limits.id);
        let own = [&self.address.to_le_bytes()[..], &1000_u32.to_le_bytes()].concat();
        let bytes = Control::slice([0; 3], launch.grid).before(&own);
        launch.params_bytes = 76;
        let reports = run_with(&mut self.device, &Command::Launch(launch), &bytes);
        assert!(is_done(&reports), "{reports:?}");
        assert!(
            matches!(reports[0], DeviceReport::Placed { blocks: 7, .. }),
            "{reports:?}"
        );
        assert!(
            matches!(reports[1], DeviceReport::Retired { blocks: 7, .. }),
            "{reports:?}"
        );
        let copy = self.copy_out();
        assert!(is_done(&run(&mut self.device, &Command::Copy(copy))));
        let words: Vec<u32> = self
            .buffer_bytes()
            .chunks_exact(4)
            .map(|w| u32::from_le_bytes(w.try_into().unwrap()))
            .collect();
        assert!(
            (0..896).zip(&words).all(|(i, word)| i + 1000 == *word),
            "{words:?}"
        );
        assert!(
            words[896..].iter().all(|word| *word == 0xeeee_eeee),
            "{words:?}"
        );
    }

    /// Makes a copy that must be refused for its device address, with a reason.
    fn expect_bad_address(&mut self, copy: CopyCommand) {
        let ended = run(&mut self.device, &Command::Copy(copy));
        let refused = Outcome::Failed(CompletionStatus::BadAddress);
        assert!(
            matches!(ended[..], [DeviceReport::Ended { outcome, .. }] if outcome == refused),
            "{ended:?}"
        );
        assert!(self.control.take_fault(copy.tag).is_some());
    }

    fn variables_are_copied_while_their_module_is_loaded(&mut self, module: &CompiledModule) {
        let loaded = self.control.load(self.domain, module).unwrap();
        let [variable] = &loaded.globals[..] else {
            panic!("{:?}", loaded.globals);
        };
        let copy = CopyCommand {
            address: variable.address,
            bytes: 4,
            ..self.copy_out()
        };
        assert!(is_done(&run(&mut self.device, &Command::Copy(copy))));
        assert_eq!(self.buffer_bytes()[..4], 42_u32.to_le_bytes());
        self.control.unload(self.domain, loaded.id);
        self.expect_bad_address(copy);
    }

    fn memory_is_checked(&mut self) {
        let outside = CopyCommand {
            bytes: 4097,
            rest_bytes: 0,
            ..self.copy_out()
        };
        self.expect_bad_address(outside);
        self.control.free(self.domain, self.address).unwrap();
        assert!(matches!(
            self.control.free(self.domain, self.address),
            Err(DeviceError::BadAddress { .. })
        ));
        assert_eq!(self.control.used_bytes(self.domain), 0);
    }

    fn next_tenant_finds_zeroes(&mut self) {
        self.control.destroy_domain(self.domain);
        // The dispatcher looks at the new tables, so that the next call frees what the old ones held.
        assert_eq!(self.device.poll(), None);
        let next = self.control.create_domain(1 << 30).unwrap();
        let address = self.control.alloc(next, 4096).unwrap();
        let copy = CopyCommand {
            domain: next,
            address,
            ..self.copy_out()
        };
        assert!(is_done(&run(&mut self.device, &Command::Copy(copy))));
        assert!(
            self.buffer_bytes().iter().all(|byte| *byte == 0),
            "the next tenant finds what the last one left"
        );
        self.control.unregister_buffer(self.buffer_id);
        self.control.destroy_domain(next);
        assert_eq!(self.device.poll(), None);
    }

    /// After [`Gpu::next_tenant_finds_zeroes`], which ends the first tenant's domain.
    fn bad_loads_are_refused(&self, mut module: CompiledModule) {
        assert!(matches!(
            self.control.load(self.domain, &module),
            Err(DeviceError::Backend(_))
        ));
        module.ptx = b".version 8.0\n.target sm_80\n.address_size 64\nthis is not PTX".to_vec();
        let Err(DeviceError::Load(log)) = self.control.load(self.domain, &module) else {
            panic!("nonsense was loaded");
        };
        assert!(log.contains("ptxas"), "{log}");
    }
}

/// Returns the module with blocks that stamp when they run.
fn stamped() -> CompiledModule {
    let texts = vec![PTX.into()];
    let hash = hash_of(&texts);
    let wanted = Wanted {
        stamps: true,
        ..Wanted::default()
    };
    let module = admit(translate(texts, wanted).unwrap(), hash, wanted).unwrap();
    assert!(
        module
            .kernels
            .iter()
            .all(|kernel| kernel.entry().is_some_and(|entry| entry.stamps))
    );
    module
}

#[test]
fn a_real_gpu_loads_launches_and_copies() {
    let Some(mut gpu) = Gpu::open() else {
        return;
    };
    let module = crate::compiler::compile(PTX.into()).unwrap();
    gpu.kernels_compute(&module);
    gpu.kernels_compute(&stamped());
    gpu.variables_are_copied_while_their_module_is_loaded(&module);
    gpu.memory_is_checked();
    gpu.next_tenant_finds_zeroes();
    gpu.bad_loads_are_refused(module);
    assert!(!gpu.device.is_lost());
}
