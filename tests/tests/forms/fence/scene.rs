//! A GPU with two tenants' partitions side by side, and a kernel of one that goes for the other.
//!
//! Rule: the attacker knows everything: the neighbour's addresses, the layout, the form it will be given. What must
//! hold is that the neighbour's bytes, the counters and everything else in the domain stay as they were, and that the
//! launch ends without a fault of the device.

use gridmux_hw_model::{DomainId, DriveError, Gpu, GpuConfig, LoadError, Partition, Run, RunSetup};
use gridmux_launch::{Limits, Pace};
use gridmux_policy::units::Cycles;
use gridmux_ptx::Module;
use gridmux_ptx::forms::fence::{FenceMode, FenceOptions};
use gridmux_ptx::forms::{Form, Options, rewrite};
use gridmux_tests::formed::Formed;

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
        let mut scene = Self {
            gpu,
            domain,
            own,
            buffer,
            neighbour,
            service,
            zero_shared: false,
        };
        scene.fill();
        scene
    }

    fn pattern(address: u64) -> Vec<u8> {
        let word = |n: u64| (n ^ address).wrapping_mul(0x9e37_79b9_7f4a_7c15);
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
            ..Options::default()
        };
        let rewritten = rewrite(&module, &program, &options, |_| form);
        let k = rewritten
            .kernels
            .into_iter()
            .find(|k| k.name == "k")
            .expect("it is called k");
        let entry = match k.into_entry() {
            Ok(entry) => entry,
            Err(refusal) => return Outcome::Refused(refusal.to_string()),
        };
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
        let setup = RunSetup {
            kernel,
            domain: self.domain,
            block: [block, 1, 1],
            dynamic_shared_bytes: shared + entry.extra_shared_bytes(),
            budget: Some(Cycles(20_000_000)),
        };
        let mut formed = Formed {
            entry,
            run: Run::new(setup, false),
            partition: self.own,
            grid,
            params: params.iter().flat_map(|p| p.to_le_bytes()).collect(),
            stamps: None,
        };
        let limits = Limits {
            slice_blocks: u32::MAX,
            pace: Pace::InFlight(1),
            workers: 3,
        };
        let result = formed.launch(&mut self.gpu, limits);
        self.gpu.unload(&loaded);
        match result {
            Ok(None) => Outcome::Ended(0, 0),
            Ok(Some(fault)) => Outcome::Ended(fault.kind, fault.line),
            Err(DriveError::Fault(error)) => Outcome::Faulted(format!("{error}\n{text}")),
            Err(DriveError::Launch(error)) => Outcome::NotLaunched(error.to_string()),
            Err(error) => panic!("{error}"),
        }
    }
}
