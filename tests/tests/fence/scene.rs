//! A GPU with two tenants' partitions side by side, and a kernel of one that goes for the other.
//!
//! Rule: the attacker knows everything: the neighbour's addresses, the layout, the form it will be given. What must
//! hold is that the neighbour's bytes, the counters and everything else in the domain stay as they were, and that the
//! launch ends without a fault of the device.

use gridmux_hw_model::drive::{DriveError, FormedKernel, Run};
use gridmux_hw_model::{DomainId, Gpu, GpuConfig, LoadError, Partition};
use gridmux_policy::units::Cycles;
use gridmux_ptx::Module;
use gridmux_ptx::boxes::SubBox;
use gridmux_ptx::control::{Control, FAULT_KIND_AT, FAULT_LINE_AT, instance_bytes, place_offset};
use gridmux_ptx::forms::fence::{FenceMode, FenceOptions};
use gridmux_ptx::forms::{Form, Options, Shape, rewrite};
use gridmux_ptx::protocol::{Gate, Workers};

/// What became of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ended; the fault that it recorded, kind and line, zeros for none.
    Ended(u32, u32),
    /// The rewrite refused it.
    Refused(String),
    /// The device refused the launch.
    NotLaunched(String),
    /// The device faulted.
    Faulted(String),
}

/// Streaming multiprocessors that the instance has room for.
const SMS: u32 = 132;
/// Bytes of each buffer.
pub(crate) const BUFFER: u64 = 64 << 10;

/// The scene.
pub(crate) struct Scene {
    gpu: Gpu,
    domain: DomainId,
    /// The attacker's partition.
    pub(crate) own: Partition,
    /// Its buffer.
    pub(crate) buffer: u64,
    /// The neighbour's buffers.
    pub(crate) neighbour: Vec<u64>,
    /// Memory of nobody's in the domain: what the service keeps there.
    service: u64,
    instance: u64,
    /// Zero each block's shared memory.
    pub(crate) zero_shared: bool,
}

impl Scene {
    /// Fills everything with patterns.
    pub(crate) fn new() -> Self {
        Self::on(GpuConfig::builtin("h200").expect("built in"))
    }

    /// Returns the same on a GPU that faults when shared memory is read before it is written.
    pub(crate) fn with_dirty_shared_memory() -> Self {
        let mut config = GpuConfig::builtin("h200").expect("built in");
        config.checks.uninitialised_shared = true;
        Self::on(config)
    }

    fn on(config: GpuConfig) -> Self {
        let mut gpu = Gpu::new(config);
        let memory = gpu.memory_mut();
        let domain = memory.create_domain(40 << 30).expect("address space");
        let own = memory.reserve(domain, 1 << 20).expect("room");
        let other = memory.reserve(domain, 1 << 20).expect("room");
        let buffer = memory.alloc_in(own, BUFFER).expect("fits");
        let neighbour: Vec<u64> = (0..3)
            .map(|_| memory.alloc_in(other, BUFFER).expect("fits"))
            .collect();
        let service = memory.alloc(domain, BUFFER).expect("fits");
        let bytes = u64::from(instance_bytes(SMS));
        let instance = memory.alloc(domain, bytes).expect("fits");
        let mut scene = Self {
            gpu,
            domain,
            own,
            buffer,
            neighbour,
            service,
            instance,
            zero_shared: false,
        };
        scene.fill();
        scene
    }

    fn pattern(place: u64) -> Vec<u8> {
        let word = |n: u64| (n ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..BUFFER / 8)
            .flat_map(|n| word(n).to_le_bytes())
            .collect()
    }

    /// Buffers that nobody but their owner may change.
    fn guarded(&self) -> Vec<u64> {
        let mut all = self.neighbour.clone();
        all.push(self.service);
        all
    }

    fn fill(&mut self) {
        let all = self.guarded();
        let memory = self.gpu.memory_mut();
        for address in all {
            memory
                .write(self.domain, address, &Self::pattern(address))
                .expect("inside");
        }
        memory
            .fill(self.domain, self.buffer, BUFFER, 0)
            .expect("inside");
    }

    /// Returns whether everybody else's bytes are as they were.
    pub(crate) fn is_untouched(&self) -> bool {
        let same = |address: &u64| self.read(*address) == Self::pattern(*address);
        self.guarded().iter().all(same)
    }

    /// Returns a buffer's bytes.
    pub(crate) fn read(&self, address: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(BUFFER).expect("small")];
        self.gpu
            .memory()
            .read(self.domain, address, &mut bytes)
            .expect("inside");
        bytes
    }

    /// Returns the attacker's buffer as words.
    pub(crate) fn words(&self) -> Vec<u32> {
        self.read(self.buffer)
            .chunks_exact(4)
            .map(|w| u32::from_le_bytes(w.try_into().expect("four bytes")))
            .collect()
    }

    /// Rewrites the module and runs its kernel `k`; `params` are the original's.
    pub(crate) fn run(
        &mut self,
        ptx: &str,
        (form, mode): (Form, FenceMode),
        params: &[u64],
        (grid, block, shared): ([u32; 3], u32, u32),
    ) -> Outcome {
        let module = Module::parse(ptx).unwrap_or_else(|e| panic!("{e}"));
        let program = module.decode().unwrap_or_else(|e| panic!("{e}"));
        let options = Options {
            fence: FenceOptions {
                mode,
                zero_shared: self.zero_shared,
            },
        };
        let rewritten = rewrite(&module, &program, &options, |_| form);
        let k = rewritten
            .kernels
            .iter()
            .find(|k| k.name == "k")
            .expect("it is called k");
        if let Some(reason) = &k.reason {
            return Outcome::Refused(reason.to_string());
        }
        let text = String::from_utf8(rewritten.bytes.clone()).expect("text");
        let again = Module::parse(text.clone()).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let decoded = again.decode().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let loaded = match self.gpu.load_in(self.own, &decoded, text.as_bytes()) {
            Ok(loaded) => loaded,
            Err(LoadError::Unsupported { mnemonic, .. }) => {
                println!("SKIPPED: the model does not execute {mnemonic}");
                return Outcome::Ended(0, 0);
            }
            Err(error) => panic!("{error}\n{text}"),
        };
        let kernel = loaded.kernel("k").expect("the kernel exists");
        let control = self.control(form, grid, block);
        let kernel = FormedKernel {
            kernel,
            form: k.clone(),
            partition: self.own,
            grid,
            block: [block, 1, 1],
            dynamic_shared_bytes: shared,
            params: params.iter().flat_map(|p| p.to_le_bytes()).collect(),
            budget: Some(Cycles(20_000_000)),
        };
        let blocks: u32 = grid.iter().product();
        let grid = match form.shape {
            Shape::Whole | Shape::Slice | Shape::Gate => grid,
            Shape::Worker => [blocks.min(3), 1, 1],
        };
        let mut run = Run::new(kernel, false);
        let result = run.submit(&mut self.gpu, 0, grid, control);
        self.gpu.unload(&loaded);
        match result {
            Ok(()) => Outcome::Ended(self.counter(FAULT_KIND_AT), self.counter(FAULT_LINE_AT)),
            Err(DriveError::Fault(error)) => Outcome::Faulted(format!("{error}\n{text}")),
            Err(DriveError::Launch(error)) => Outcome::NotLaunched(error.to_string()),
            Err(error) => panic!("{error}"),
        }
    }

    fn counter(&self, at: u32) -> u32 {
        let mut word = [0; 4];
        self.gpu
            .memory()
            .read(self.domain, self.instance + u64::from(at), &mut word)
            .expect("inside");
        u32::from_le_bytes(word)
    }

    fn control(&mut self, form: Form, grid: [u32; 3], block: u32) -> Control {
        let memory = self.gpu.memory_mut();
        let workers = Control::workers(grid, [block, 1, 1], (1, 1), 0).expect("the grid is small");
        let workers = Control {
            counters: self.instance,
            ..workers
        };
        let places = Workers::new(workers.total, &[16; SMS as usize]).expect("blocks");
        memory
            .write(self.domain, self.instance, &places.memory())
            .expect("inside");
        if form.shape == Shape::Gate {
            let (at, word) = (Gate::opening().at, Gate::opening().value.to_le_bytes());
            memory
                .write(self.domain, self.instance + u64::from(at), &word)
                .expect("inside");
        }
        match form.shape {
            Shape::Worker => workers,
            // A gate of a few blocks has its table where a worker has its places.
            Shape::Gate => {
                let part = SubBox {
                    offset: [0; 3],
                    dims: grid,
                };
                let table = self.instance + u64::from(place_offset(0));
                Control::gate(grid, part, false, self.instance, table)
            }
            Shape::Whole | Shape::Slice => Control {
                grid,
                counters: self.instance,
                ..Control::default()
            },
        }
    }
}
