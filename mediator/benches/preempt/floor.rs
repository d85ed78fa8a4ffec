//! The bare device under a latency program and batch programs, with the hardware's priorities and no mediator: what
//! sharing the memory costs under any scheduler.

use crate::HEAD_START_NS;
use crate::modelled::{Shape, StreamLoop};
use gridmux_hw_model::config::GpuConfig;
use gridmux_hw_model::{DomainId, Gpu, Kernel, Launch, Level, QueueId, Report};
use gridmux_policy::units::Cycles;
use gridmux_ptx::Module;
use std::sync::Arc;

/// Memory of all programs together.
const MEMORY_BYTES: u64 = 1 << 24;

/// A program's stream: a queue, a level, and launches that are kept submitted until all are.
struct Stream {
    level: Level,
    of: StreamLoop,
    submitted: u64,
    in_flight: u32,
}

/// The device and its streams; the first one is the latency program's.
struct Floor {
    gpu: Gpu,
    domain: DomainId,
    kernel: Arc<Kernel>,
    out: u64,
    streams: Vec<Stream>,
    /// When each of the latency program's launches was submitted, in nanoseconds.
    submitted: Vec<u64>,
    /// From submission to the end of each of them.
    took: Vec<u64>,
}

/// Runs a kernel as a latency program, at the device's highest level, beside batch programs of it that have begun
/// before, at its lowest; returns the time from submission to the end of each of its launches, in nanoseconds.
pub(super) fn co_run(gpu: GpuConfig, ptx: &str, own: StreamLoop, batch: &[Shape]) -> Vec<u64> {
    let highest = Level(gpu.launch.priority_levels - 1);
    let mut gpu = Gpu::new(gpu);
    let memory = gpu.memory_mut();
    let domain = memory.create_domain(MEMORY_BYTES).expect("room");
    let out = memory.alloc(domain, 4096).expect("room");
    let module = Module::parse(ptx.as_bytes().to_vec()).expect("it is PTX");
    let program = module.decode().expect("it is understood");
    let loaded = gpu
        .load(domain, &program, ptx.as_bytes())
        .expect("it loads");
    let batch = batch.iter().map(|shape| Stream {
        level: Level::LOWEST,
        of: StreamLoop::endless(*shape, 2),
        submitted: 0,
        in_flight: 0,
    });
    // The latency program comes later.
    let latency = Stream {
        level: highest,
        of: StreamLoop { count: 0, ..own },
        submitted: 0,
        in_flight: 0,
    };
    let mut floor = Floor {
        kernel: loaded.kernel("reads").expect("the kernel"),
        gpu,
        domain,
        out,
        streams: std::iter::once(latency).chain(batch).collect(),
        submitted: Vec::new(),
        took: Vec::new(),
    };
    while floor.gpu.now_ns().0 < HEAD_START_NS {
        floor.step(HEAD_START_NS);
    }
    floor.streams[0].of.count = own.count;
    while (floor.took.len() as u64) < own.count {
        floor.step(u64::MAX >> 8);
    }
    floor.took
}

impl Floor {
    /// Submits what there is room for, and lets time pass until something ends or a time is reached.
    fn step(&mut self, until_ns: u64) {
        for place in 0..self.streams.len() {
            let stream = &self.streams[place];
            if stream.in_flight < stream.of.ahead && stream.submitted < stream.of.count {
                self.launch(place);
            }
        }
        let until = Cycles(self.gpu.config().ns_to_cycles(until_ns) + 1);
        let mut reports = Vec::new();
        self.gpu.advance(until, &mut reports);
        for report in reports {
            match report {
                Report::Ended { tag, end, .. } => self.end(tag, end),
                Report::Faulted { fault, .. } => panic!("{fault}"),
                _ => {}
            }
        }
    }

    fn launch(&mut self, place: usize) {
        let shape = self.streams[place].of.shape;
        let mut params = self.out.to_le_bytes().to_vec();
        params.extend(shape.rounds.to_le_bytes());
        let stream = &mut self.streams[place];
        let launch = Launch {
            queue: QueueId(u8::try_from(place).expect("few streams")),
            level: stream.level,
            tag: (place as u64) << 32 | stream.submitted,
            domain: self.domain,
            kernel: Arc::clone(&self.kernel),
            grid: [shape.blocks, 1, 1],
            block: [shape.threads.into(), 1, 1],
            dynamic_shared_bytes: shape.shared_bytes,
            params: &params,
            budget: None,
        };
        stream.submitted += 1;
        stream.in_flight += 1;
        if place == 0 {
            self.submitted.push(self.gpu.now_ns().0);
        }
        self.gpu.launch(launch).expect("it is taken");
    }

    fn end(&mut self, tag: u64, end: Cycles) {
        let place = usize::try_from(tag >> 32).expect("a stream");
        self.streams[place].in_flight -= 1;
        if place == 0 {
            let launch = usize::try_from(tag & 0xffff_ffff).expect("a launch");
            let end_ns = self.gpu.config().cycles_to_ns(end.0);
            self.took.push(end_ns - self.submitted[launch]);
        }
    }
}
