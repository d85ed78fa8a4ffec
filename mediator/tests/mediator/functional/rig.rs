//! A modelled device without a dispatcher: a test hands it commands and reads its reports.

use gridmux_channel::memory::{Protection, SealedMemfd, TenantBuffer};
use gridmux_launch::Control;
use gridmux_mediator::compiler::compile;
use gridmux_mediator::device::Isolation;
use gridmux_mediator::device::model::{self, ModelDevice};
use gridmux_mediator::device::{
    BufferId, Command, CopyCommand, Device, DeviceControl, DeviceModuleId, DeviceReport, Direction,
    DomainId, LaneId, LaunchCommand, Level, LoadedKernel, Outcome, Tag, Timing,
};
use gridmux_mediator::waker::Waker;
use gridmux_policy::units::Nanos;
use gridmux_workloads::{Arg, Case, Role};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a test waits for something that must happen, in a build that is not optimised.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) use crate::modelled::SPIN;

/// A loaded kernel, and whether it takes the control block.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) loaded: LoadedKernel,
    is_sliced: bool,
}

/// Progress of an operation so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) placed: u32,
    pub(crate) retired: u32,
    pub(crate) ran_ns: u64,
    pub(crate) ended: Option<Outcome>,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// A shape of launches.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
}

impl Shape {
    pub(crate) fn line(blocks: u32, threads: u32) -> Self {
        Self {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared_bytes: 0,
        }
    }
}

pub(crate) struct Rig {
    device: ModelDevice,
    pub(crate) control: Arc<dyn DeviceControl>,
    generations: [u32; 32],
    launches: u64,
    pub(crate) budget_cycles: u64,
    pub(crate) seen: HashMap<u64, Progress>,
    permitted: bool,
}

impl Rig {
    pub(crate) fn new(timing: Timing) -> Self {
        Self::with(timing, "h200", 8, Duration::from_secs(100))
    }

    pub(crate) fn with(timing: Timing, gpu: &str, sms: u16, cpu_budget: Duration) -> Self {
        let waker = Arc::new(Waker::new().expect("a waker"));
        let setup = model::Setup {
            timing,
            memory_bytes: 4 << 30,
            cpu_budget,
            isolation: Isolation::Shared,
        };
        let open = model::open(gpu, Some(sms), setup, &waker);
        let open = open.expect("a device");
        Self {
            device: open.device,
            control: open.control,
            generations: [0; 32],
            launches: 0,
            budget_cycles: u64::MAX / 2,
            seen: HashMap::new(),
            permitted: false,
        }
    }

    pub(crate) fn domain(&self) -> DomainId {
        self.control.create_domain(2 << 30).expect("a domain")
    }

    /// Loads a module; its kernels by name.
    pub(crate) fn load(&self, domain: DomainId, ptx: &str) -> Result<Vec<Kernel>, String> {
        self.load_module(domain, ptx).map(|(_, kernels)| kernels)
    }

    /// Loads a module; its handle, and its kernels by name.
    pub(crate) fn load_module(
        &self,
        domain: DomainId,
        ptx: &str,
    ) -> Result<(DeviceModuleId, Vec<Kernel>), String> {
        let module = compile(ptx.as_bytes().to_vec()).map_err(|error| error.to_string())?;
        let loaded = self.control.load(domain, &module);
        let loaded = loaded.map_err(|error| error.to_string())?;
        let kernels = loaded.kernels.into_iter().map(|loaded| {
            let is_sliced = loaded
                .compiled
                .entry()
                .is_some_and(|entry| entry.form().has_control());
            Kernel { loaded, is_sliced }
        });
        Ok((loaded.id, kernels.collect()))
    }

    pub(crate) fn kernel(&self, domain: DomainId, ptx: &str) -> Kernel {
        self.load(domain, ptx).expect("the module loads").remove(0)
    }

    pub(crate) fn alloc(&self, domain: DomainId, bytes: u64) -> u64 {
        self.control.alloc(domain, bytes).expect("memory")
    }

    fn tag(&mut self, lane: u8) -> Tag {
        let generation = &mut self.generations[usize::from(lane)];
        *generation += 1;
        Tag {
            lane: LaneId(lane),
            generation: *generation,
        }
    }

    fn submit(&mut self, command: &Command, params: &[u8]) {
        assert!(self.device.submit(command, params).is_ok(), "room");
    }

    pub(crate) fn launch(
        &mut self,
        lane: u8,
        domain: DomainId,
        kernel: &Kernel,
        shape: Shape,
        params: &[u8],
    ) -> Tag {
        let control = Control::slice([0; 3], shape.grid);
        let params = match kernel.is_sliced {
            true => control.before(params),
            false => params.to_vec(),
        };
        let tag = self.tag(lane);
        self.launches += 1;
        let command = Command::Launch(LaunchCommand {
            tag,
            level: Level::LOWEST,
            launch: self.launches,
            is_last: true,
            domain,
            kernel: kernel.loaded.limits.id,
            grid: shape.grid,
            first_block: [0; 3],
            block: shape.block,
            dynamic_shared_bytes: shape.shared_bytes,
            is_cooperative: false,
            budget_cycles: self.budget_cycles,
            params_bytes: u32::try_from(params.len()).expect("short"),
        });
        self.submit(&command, &params);
        tag
    }

    /// Launches [`SPIN`] for a number of rounds.
    pub(crate) fn spin(&mut self, lane: u8, domain: DomainId, shape: Shape, rounds: u32) -> Tag {
        let kernel = self.kernel(domain, SPIN);
        let mut params = self.alloc(domain, 256).to_le_bytes().to_vec();
        params.extend(rounds.to_le_bytes());
        self.launch(lane, domain, &kernel, shape, &params)
    }

    pub(crate) fn copy(
        &mut self,
        lane: u8,
        domain: DomainId,
        direction: Direction,
        (buffer, address, bytes): (BufferId, u64, u64),
    ) -> Tag {
        let tag = self.tag(lane);
        let command = Command::Copy(CopyCommand {
            tag,
            domain,
            direction,
            buffer,
            buffer_offset: 0,
            address,
            bytes,
            rest_bytes: 0,
        });
        self.submit(&command, &[]);
        tag
    }

    pub(crate) fn command(&mut self, lane: u8, make: impl FnOnce(Tag) -> Command) -> Tag {
        let tag = self.tag(lane);
        self.submit(&make(tag), &[]);
        tag
    }

    pub(crate) fn kill(&mut self, tag: Tag) {
        self.submit(&Command::Kill(tag), &[]);
    }

    /// Returns what is known of an operation.
    pub(crate) fn of(&self, tag: Tag) -> Progress {
        self.seen.get(&tag.to_bits()).copied().unwrap_or_default()
    }

    /// Takes the reports that are there.
    pub(crate) fn poll(&mut self) {
        if self.device.has_virtual_clock() && !self.permitted {
            let until = Nanos(u64::MAX);
            self.submit(&Command::PassTime { until }, &[]);
            self.permitted = true;
        }
        while let Some(report) = self.device.poll() {
            match report {
                DeviceReport::Placed { tag, blocks, .. } => self.entry(tag).placed += blocks,
                DeviceReport::Retired {
                    tag, blocks, ran, ..
                } => {
                    let seen = self.entry(tag);
                    seen.retired += blocks;
                    seen.ran_ns += ran.0;
                    assert!(seen.retired <= seen.placed, "{seen:?}");
                }
                DeviceReport::Ended {
                    tag,
                    start,
                    end,
                    outcome,
                } => {
                    let seen = self.entry(tag);
                    assert_eq!(seen.ended, None, "it ends once");
                    (seen.start_ns, seen.end_ns) = (start.0, end.0);
                    seen.ended = Some(outcome);
                }
                DeviceReport::BlockEnded { .. } => panic!("it cannot tell blocks apart"),
                DeviceReport::Paused { .. } => self.permitted = false,
            }
        }
    }

    fn entry(&mut self, tag: Tag) -> &mut Progress {
        self.seen.entry(tag.to_bits()).or_default()
    }

    /// Takes reports until something holds.
    pub(crate) fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.poll();
            if holds(self) {
                return;
            }
            assert!(Instant::now() < deadline, "{what} did not happen");
            std::thread::yield_now();
        }
    }

    /// Waits for the end of an operation.
    pub(crate) fn end_of(&mut self, tag: Tag) -> Outcome {
        self.until("an end", |rig| rig.of(tag).ended.is_some());
        self.of(tag).ended.expect("it ended")
    }

    pub(crate) fn fault(&self, tag: Tag) -> String {
        self.control.take_fault(tag).expect("a text")
    }

    /// Returns a buffer of the tenant's with these bytes.
    pub(crate) fn buffer(&self, bytes: &[u8]) -> (BufferId, File) {
        buffer(&*self.control, bytes)
    }

    /// Copies bytes to the device.
    pub(crate) fn write(&mut self, domain: DomainId, address: u64, bytes: &[u8]) {
        let (buffer, _) = self.buffer(bytes);
        let place = (buffer, address, bytes.len() as u64);
        let tag = self.copy(31, domain, Direction::ToDevice, place);
        assert_eq!(self.end_of(tag), Outcome::Done);
        self.control.unregister_buffer(buffer);
    }

    /// Copies bytes from the device.
    pub(crate) fn read(&mut self, domain: DomainId, address: u64, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        let (buffer, file) = self.buffer(&read);
        let place = (buffer, address, bytes as u64);
        let tag = self.copy(31, domain, Direction::FromDevice, place);
        assert_eq!(self.end_of(tag), Outcome::Done);
        self.control.unregister_buffer(buffer);
        file.read_exact_at(&mut read, 0).expect("it has that much");
        read
    }

    /// Runs a workload's case; the bytes of its outputs.
    pub(crate) fn run(&mut self, ptx: &str, case: &Case) -> Vec<Vec<u8>> {
        let domain = self.domain();
        let kernel = self.kernel(domain, ptx);
        let mut params = Vec::new();
        let mut outputs = Vec::new();
        for arg in &case.args {
            let bytes = match arg {
                Arg::Buffer { bytes, role } => {
                    let address = self.alloc(domain, bytes.len() as u64);
                    self.write(domain, address, bytes);
                    if !matches!(role, Role::In) {
                        outputs.push((address, bytes.len()));
                    }
                    address.to_le_bytes().to_vec()
                }
                scalar => scalar.scalar_bytes().expect("no buffer"),
            };
            params.resize(params.len().next_multiple_of(bytes.len()), 0);
            params.extend(bytes);
        }
        let shape = Shape {
            grid: case.grid,
            block: case.block,
            shared_bytes: case.dynamic_shared_bytes,
        };
        let tag = self.launch(0, domain, &kernel, shape, &params);
        assert_eq!(self.end_of(tag), Outcome::Done);
        let blocks: u32 = case.grid.iter().product();
        let seen = self.of(tag);
        assert_eq!((seen.placed, seen.retired), (blocks, blocks));
        let read = |(address, bytes): &(u64, usize)| self.read(domain, *address, *bytes);
        let read: Vec<_> = outputs.iter().map(read).collect();
        self.control.destroy_domain(domain);
        read
    }
}

/// Returns a buffer of a tenant's with these bytes.
pub(crate) fn buffer(control: &dyn DeviceControl, bytes: &[u8]) -> (BufferId, File) {
    let size = (bytes.len() as u64).next_multiple_of(4096);
    let memfd = SealedMemfd::create("test", size).expect("a memfd");
    let file: File = memfd.as_fd().try_clone_to_owned().expect("a copy").into();
    file.write_all_at(bytes, 0).expect("room");
    let protection = Protection {
        read: true,
        write: true,
    };
    let own = memfd.as_fd().try_clone_to_owned().expect("a copy");
    let buffer = TenantBuffer::new(own, 0, size, protection).expect("it is sealed");
    let id = control.register_buffer(Arc::new(buffer));
    (id.expect("a place"), file)
}
