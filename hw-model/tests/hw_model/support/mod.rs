//! Running a workload's case, or a PTX text, on the model.
//!
//! Rule: nothing here knows what a kernel computes; the workload's own reference judges.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "each test file uses a part of this, and nobody else does"
)]

pub mod exact;
pub mod flow;
pub mod opcode;
pub mod plan;
pub mod states;

use gridmux_hw_model::{
    Advance, Counters, DomainId, Gpu, GpuConfig, Kernel, Launch, Level, QueueId, Report,
    run_functional,
};
use gridmux_policy::units::Cycles;
use gridmux_workloads::{Arg, Case, Role, Size, Workload, by_name};
use std::sync::Arc;

/// A GPU with one domain and one kernel in it.
pub struct Bench {
    pub gpu: Gpu,
    pub domain: DomainId,
}

/// Arguments of a launch in device memory.
pub struct Prepared {
    pub params: Vec<u8>,
    /// Address and bytes of each buffer that the kernel reads.
    pub inputs: Vec<(u64, usize)>,
    outputs: Vec<(u64, usize)>,
    buffers: Vec<(u64, usize)>,
}

pub struct Timed {
    /// From submission to end.
    pub cycles: u64,
    /// From the start of the first block to the end of the last one.
    pub ran: u64,
    pub counters: Counters,
}

/// Returns a part of a built-in GPU: every unit of the whole, and this number of SMs.
pub fn part_of(gpu: &str, sms: u16) -> GpuConfig {
    let config = GpuConfig::builtin(gpu).expect("built in");
    config.scaled_to_sms(sms)
}

/// Returns a case of the workload of that name.
pub fn case_of(name: &str, size: Size, seed: u64) -> Case {
    let workload = by_name(name).unwrap_or_else(|| panic!("no workload {name}"));
    workload.case(size, seed)
}

impl Bench {
    pub fn new(config: GpuConfig) -> Self {
        let mut gpu = Gpu::new(config);
        let domain = gpu
            .memory_mut()
            .create_domain(4 << 30)
            .expect("address space");
        Self { gpu, domain }
    }

    pub fn named(name: &str) -> Self {
        Self::new(GpuConfig::builtin(name).expect("built in"))
    }

    /// Returns a small part of the h200, which is made sooner than the whole and computes the same.
    pub fn small() -> Self {
        Self::new(part_of("h200", 4))
    }

    pub fn kernel(&mut self, ptx: &str, entry: &str) -> Arc<Kernel> {
        self.try_kernel(ptx, entry)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn try_kernel(
        &mut self,
        ptx: &str,
        entry: &str,
    ) -> Result<Arc<Kernel>, gridmux_hw_model::LoadError> {
        let module = gridmux_ptx::Module::parse(ptx).unwrap_or_else(|error| panic!("{error}"));
        let program = module.decode().unwrap_or_else(|error| panic!("{error}"));
        let loaded = self.gpu.load(self.domain, &program, ptx.as_bytes())?;
        Ok(loaded.kernel(entry).expect("the kernel exists"))
    }

    pub fn buffer(&mut self, bytes: &[u8]) -> u64 {
        let memory = self.gpu.memory_mut();
        let address = memory.alloc(self.domain, bytes.len() as u64).expect("fits");
        memory.write(self.domain, address, bytes).expect("inside");
        address
    }

    pub fn words(&self, address: u64, count: usize) -> Vec<u32> {
        let mut bytes = vec![0; count * 4];
        self.gpu
            .memory()
            .read(self.domain, address, &mut bytes)
            .expect("inside");
        bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
            .collect()
    }

    pub fn prepare(&mut self, case: &Case) -> Prepared {
        self.place(&case.args)
    }

    /// Buffers in device memory, and a block of parameters.
    pub fn place(&mut self, args: &[Arg]) -> Prepared {
        let mut prepared = Prepared {
            params: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            buffers: Vec::new(),
        };
        for arg in args {
            let bytes = match arg {
                Arg::Buffer { bytes, role } => {
                    let place = (self.buffer(bytes), bytes.len());
                    prepared.buffers.push(place);
                    if !matches!(role, Role::Out) {
                        prepared.inputs.push(place);
                    }
                    if !matches!(role, Role::In) {
                        prepared.outputs.push(place);
                    }
                    place.0.to_le_bytes().to_vec()
                }
                scalar => scalar.scalar_bytes().expect("no buffer"),
            };
            let aligned = prepared.params.len().next_multiple_of(bytes.len());
            prepared.params.resize(aligned, 0);
            prepared.params.extend(bytes);
        }
        prepared
    }

    pub fn outputs(&self, prepared: &Prepared) -> Vec<Vec<u8>> {
        self.read(&prepared.outputs)
    }

    /// Returns the bytes of every buffer.
    pub fn buffers(&self, prepared: &Prepared) -> Vec<Vec<u8>> {
        self.read(&prepared.buffers)
    }

    fn read(&self, places: &[(u64, usize)]) -> Vec<Vec<u8>> {
        let read = |(address, length): &(u64, usize)| {
            let mut bytes = vec![0; *length];
            self.gpu
                .memory()
                .read(self.domain, *address, &mut bytes)
                .expect("inside");
            bytes
        };
        places.iter().map(read).collect()
    }

    pub fn release(&mut self, prepared: &Prepared) {
        for (buffer, _) in &prepared.buffers {
            self.gpu
                .memory_mut()
                .free(self.domain, *buffer)
                .expect("live");
        }
    }

    pub fn launch<'a>(&self, kernel: &Arc<Kernel>, case: &Case, params: &'a [u8]) -> Launch<'a> {
        Launch {
            queue: QueueId(0),
            level: Level::LOWEST,
            tag: 1,
            domain: self.domain,
            kernel: kernel.clone(),
            grid: case.grid,
            block: case.block,
            dynamic_shared_bytes: case.dynamic_shared_bytes,
            params,
            budget: None,
        }
    }

    pub fn simple<'a>(
        &self,
        kernel: &Arc<Kernel>,
        grid: u32,
        block: u32,
        params: &'a [u8],
    ) -> Launch<'a> {
        Launch {
            queue: QueueId(0),
            level: Level::LOWEST,
            tag: 1,
            domain: self.domain,
            kernel: kernel.clone(),
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            dynamic_shared_bytes: 0,
            params,
            budget: None,
        }
    }

    /// Runs a case with timing, alone; returns what it did and its outputs.
    pub fn run(&mut self, case: &Case) -> (Timed, Vec<Vec<u8>>) {
        let kernel = self.kernel(case.ptx, case.entry);
        let prepared = self.prepare(case);
        let launch = self.launch(&kernel, case, &prepared.params);
        let timed = self.time(launch);
        let timed = timed.unwrap_or_else(|fault| panic!("{}: {fault}", case.workload));
        (timed, self.outputs(&prepared))
    }

    /// Runs one launch with timing, alone, which must not fault.
    pub fn timed(&mut self, launch: Launch<'_>) -> Timed {
        self.time(launch).unwrap_or_else(|fault| panic!("{fault}"))
    }

    /// Runs one launch with timing, alone.
    pub fn time(&mut self, launch: Launch<'_>) -> Result<Timed, Box<gridmux_hw_model::Fault>> {
        let began = self.gpu.now().0;
        let tag = launch.tag;
        self.gpu.launch(launch).expect("accepted");
        let mut reports = Vec::new();
        loop {
            let advance = self.gpu.advance(Cycles(u64::MAX / 2), &mut reports);
            for report in reports.drain(..) {
                match report {
                    Report::Ended {
                        tag: ended,
                        first_start,
                        end,
                        counters,
                        ..
                    } if ended == tag => {
                        return Ok(Timed {
                            cycles: end.0 - began,
                            ran: end.0 - first_start.0,
                            counters,
                        });
                    }
                    Report::Faulted { fault, .. } => return Err(fault),
                    _ => {}
                }
            }
            assert_ne!(advance, Advance::Idle, "the launch vanished");
        }
    }
}

pub fn kernel_of(bench: &mut Bench, workload: &Workload) -> Arc<Kernel> {
    bench.kernel(workload.ptx, workload.entry)
}

pub fn functional(bench: &mut Bench, launch: &Launch<'_>) -> Counters {
    run_functional(&mut bench.gpu, launch).unwrap_or_else(|error| panic!("{error}"))
}
