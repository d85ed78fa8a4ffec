//! A recorded fault, from the instruction to the end of its instance, with another tenant on the same GPU.
//!
//! Rule: the tenant whose kernel faults loses what was still to run, learns what happened and where, and nobody else
//! notices: no fault of the device, and the neighbour's instance ends with every block run.

use gridmux_hw_model::{Gpu, GpuConfig, Kernel, Launch, Partition, QueueId, Report};
use gridmux_policy::units::Cycles;
use gridmux_ptx::Module;
use gridmux_ptx::boxes::Grid;
use gridmux_ptx::control::{
    self, Control, FAULT_BLOCK_AT, FAULT_KIND_AT, FAULT_LINE_AT, bitmap_words,
};
use gridmux_ptx::forms::fence::FaultKind;
use gridmux_ptx::forms::{Form, KernelForm, LaunchGrid, Options, rewrite};
use gridmux_ptx::protocol::{Gate, Workers, Write, worker};
use std::sync::Arc;

/// Streaming multiprocessors, few so that most blocks are still to run when one faults.
const SMS: u16 = 2;
const BLOCKS: u32 = 600;
/// Most workers of a tenant on an SM.
const CAP: u32 = 3;
/// The block that faults.
const BAD: u32 = 37;
/// What a block writes when it has run.
const RAN: u32 = 7;

/// Block `bad` traps, in a thread that is not the first; every other writes its mark.
const TEXT: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
    .visible .entry k(.param .u64 out, .param .u32 bad)\n{\n\
    .reg .b64 %o, %a;\n.reg .b32 %b, %i, %w, %s;\n.reg .pred %p, %q;\n\
    ld.param.u64 %o, [out];\nld.param.u32 %w, [bad];\nmov.u32 %b, %ctaid.x;\nmov.u32 %i, %tid.x;\n\
    setp.eq.u32 %p, %b, %w;\nsetp.eq.and.u32 %q, %i, 5, %p;\n@%q trap;\n\
    mov.u32 %s, 0;\n$more:\nadd.u32 %s, %s, 1;\nsetp.lt.u32 %q, %s, 50;\n@%q bra $more;\n\
    setp.ne.u32 %q, %i, 0;\n@%q bra $done;\n\
    mul.wide.u32 %a, %b, 4;\nadd.s64 %a, %o, %a;\nmov.u32 %s, 7;\nst.global.u32 [%a], %s;\n$done:\nret;\n}\n";

/// How a tenant's grid is run.
#[derive(Debug, Clone, Copy)]
enum Mode {
    Gate { window: u32, depth: u32 },
    Worker { chunk: u32 },
}

impl Mode {
    fn form(self) -> Form {
        match self {
            Mode::Gate { .. } => Form::FENCE_GATE,
            Mode::Worker { .. } => Form::FENCE_WORKER,
        }
    }
}

/// The host's half of an instance.
#[derive(Debug)]
enum Host {
    Gate(Gate),
    /// And what all its launches' control blocks hold.
    Workers(Workers, Control),
}

impl Host {
    /// The host, and what its instance's memory holds at the start.
    fn new(mode: Mode, form: &KernelForm) -> (Self, Vec<u8>) {
        let grid = [BLOCKS, 1, 1];
        match mode {
            Mode::Gate { window, depth } => {
                let LaunchGrid::Planes(axis) = form.grid else {
                    panic!("a gate is cut across an axis")
                };
                let gate = Gate::new(Grid(grid), axis, window, depth).expect("a sound launch");
                let mut memory = vec![0; usize::try_from(gate.bytes()).expect("small")];
                let opening = Gate::opening();
                memory[opening.at as usize..][..4].copy_from_slice(&opening.value.to_le_bytes());
                (Self::Gate(gate), memory)
            }
            Mode::Worker { chunk } => {
                assert!(chunk <= form.most_chunk, "{} at most", form.most_chunk);
                let control = Control::workers(grid, chunk, 0, 0).expect("few");
                let caps = [CAP; SMS as usize];
                let workers = Workers::new(control.total, &caps).expect("there are tickets");
                let memory = workers.memory();
                (Self::Workers(workers, control), memory)
            }
        }
    }

    fn has_ended(&self) -> bool {
        match self {
            Self::Gate(gate) => gate.has_ended(),
            Self::Workers(workers, _) => workers.has_ended(),
        }
    }

    fn is_faulted(&self) -> bool {
        match self {
            Self::Gate(gate) => gate.is_faulted(),
            Self::Workers(workers, _) => workers.is_faulted(),
        }
    }

    /// The launch to be made now: its number, its blocks, what is written before it, its control block.
    fn next_launch(&mut self, counters: u64) -> Option<(u32, u32, Vec<Write>, Control)> {
        match self {
            Self::Gate(gate) => {
                let launch = gate.next_launch()?;
                assert_eq!(launch.table, None, "the host does not close the gate");
                let control = gate.control(&launch, counters);
                Some((launch.number, launch.part.dims[0], Vec::new(), control))
            }
            Self::Workers(workers, control) => {
                let launch = workers.next_launch()?;
                let control = Control {
                    counters,
                    ..*control
                };
                Some((launch.number, launch.blocks, vec![launch.announce], control))
            }
        }
    }
}

/// One tenant's launch.
struct Tenant {
    own: Partition,
    kernel: Arc<Kernel>,
    form: KernelForm,
    host: Host,
    counters: u64,
    out: u64,
    bad: u32,
    /// Launches made so far.
    launches: u64,
    /// Tag and number of those in flight.
    flying: Vec<(u64, u32)>,
}

impl Tenant {
    fn new(gpu: &mut Gpu, own: Partition, mode: Mode, bad: u32) -> Self {
        let module = Module::parse(TEXT).expect("it parses");
        let program = module.decode().expect("it decodes");
        let made = rewrite(&module, &program, &Options::default(), |_| mode.form());
        let form = made.kernels[0].clone();
        assert_eq!((form.form, &form.reason), (mode.form(), &None));
        let fence = form.fence.expect("it is fenced");
        assert!(fence.accepts(own.base, own.mask()), "{fence:?}");
        let module = Module::parse(made.bytes.clone()).expect("it parses");
        let program = module.decode().expect("it decodes");
        let loaded = gpu.load_in(own, &program, &made.bytes).expect("it loads");
        let (host, image) = Host::new(mode, &form);
        let memory = gpu.memory_mut();
        let out = memory.alloc_in(own, u64::from(4 * BLOCKS)).expect("room");
        let domain = own.domain;
        let counters = memory.alloc(domain, image.len() as u64).expect("room");
        memory.write(domain, counters, &image).expect("inside");
        Self {
            own,
            kernel: loaded.kernel("k").expect("it is called k"),
            form,
            host,
            counters,
            out,
            bad,
            launches: 0,
            flying: Vec::new(),
        }
    }

    fn words(&self, gpu: &Gpu, at: u64, count: u32) -> Vec<u32> {
        let mut bytes = vec![0; 4 * count as usize];
        gpu.memory()
            .read(self.own.domain, at, &mut bytes)
            .expect("inside");
        let word = |b: &[u8]| u32::from_le_bytes(b.try_into().expect("four bytes"));
        bytes.chunks_exact(4).map(word).collect()
    }

    /// A word of the counters.
    fn counter(&self, gpu: &Gpu, at: u32) -> u32 {
        self.words(gpu, self.counters + u64::from(at), 1)[0]
    }

    /// The parameters of a launch that has this control block.
    fn params(&self, control: Control) -> Vec<u8> {
        let control = Control {
            fence_base: self.own.base,
            fence_mask: self.own.mask(),
            ..control
        };
        let mut params = self.out.to_le_bytes().to_vec();
        params.extend(self.bad.to_le_bytes());
        let at = self.form.control_offset.expect("a control block");
        params.resize(at as usize, 0);
        params.extend(control.to_bytes());
        params
    }

    /// Does what the protocol asks for now.
    fn steps(&mut self, gpu: &mut Gpu, queue: u8) {
        self.observe(gpu);
        while let Some((number, blocks, writes, control)) = self.host.next_launch(self.counters) {
            for write in writes {
                let at = self.counters + u64::from(write.at);
                gpu.memory_mut()
                    .write(self.own.domain, at, &write.value.to_le_bytes())
                    .expect("inside");
            }
            let tag = (u64::from(self.bad) << 32) + self.launches;
            self.launches += 1;
            self.flying.push((tag, number));
            gpu.launch(Launch {
                queue: QueueId(queue + u8::try_from(number % 8).expect("small")),
                tag,
                domain: self.own.domain,
                kernel: self.kernel.clone(),
                grid: [blocks, 1, 1],
                block: [64, 1, 1],
                dynamic_shared_bytes: self.form.extra_shared_bytes,
                params: &self.params(control),
                budget: None,
            })
            .expect("it launches");
        }
    }

    /// What the host of workers wants to know. That of a gate asks when a launch ends.
    fn observe(&mut self, gpu: &Gpu) {
        if !matches!(&self.host, Host::Workers(workers, _) if workers.wants_observation()) {
            return;
        }
        let words = self.words(
            gpu,
            self.counters,
            control::instance_bytes(u32::from(SMS)) / 4,
        );
        let at = |offset: u32| words[offset as usize / 4];
        let members: Vec<u32> = (0..u32::from(SMS))
            .map(|sm| at(control::place_offset(sm) + 4))
            .collect();
        let Host::Workers(workers, _) = &mut self.host else {
            return;
        };
        if at(FAULT_KIND_AT) != 0 {
            workers.fault_recorded();
        }
        workers.observe(&worker::Observation {
            next: at(control::NEXT_AT),
            placed: at(control::PLACED_AT),
            members: &members,
        });
    }

    fn ended(&mut self, gpu: &Gpu, tag: u64) {
        let Some(at) = self.flying.iter().position(|(other, _)| *other == tag) else {
            return;
        };
        let (_, number) = self.flying.swap_remove(at);
        let fault = self.counter(gpu, FAULT_KIND_AT) != 0;
        match &mut self.host {
            Host::Gate(gate) => assert!(
                !gate.launch_ended(number, fault),
                "the host does not close the gate"
            ),
            Host::Workers(workers, _) => workers.launch_ended(number),
        }
    }

    /// The blocks that have run.
    fn ran(&self, gpu: &Gpu) -> Vec<u32> {
        let marks = self.words(gpu, self.out, BLOCKS);
        assert!(marks.iter().all(|m| [0, RAN].contains(m)));
        (0..BLOCKS).filter(|n| marks[*n as usize] == RAN).collect()
    }
}

/// Runs both until both have ended, or long enough.
fn run(gpu: &mut Gpu, tenants: &mut [Tenant; 2]) {
    let mut reports = Vec::new();
    for _ in 0..5000 {
        for (queue, tenant) in [0, 8].into_iter().zip(tenants.iter_mut()) {
            tenant.steps(gpu, queue);
        }
        if tenants.iter().all(|t| t.host.has_ended()) {
            return;
        }
        gpu.advance(Cycles(gpu.now().0 + 2000), &mut reports);
        for report in reports.drain(..) {
            match report {
                Report::Ended { tag, .. } => tenants.iter_mut().for_each(|t| t.ended(gpu, tag)),
                Report::Faulted { fault, .. } => panic!("the device faulted: {fault}"),
                _ => {}
            }
        }
    }
    panic!(
        "they do not end: {:?} {:?}",
        tenants[0].host, tenants[1].host
    );
}

/// Runs a tenant whose block [`BAD`] faults next to one that does not fault, and checks what became of both.
fn check(mode: Mode) {
    let mut config = GpuConfig::builtin("h200").expect("built in");
    config.sm.count = SMS;
    let mut gpu = Gpu::new(config);
    let domain = gpu
        .memory_mut()
        .create_domain(40 << 30)
        .expect("address space");
    let mut tenants = [BAD, u32::MAX].map(|bad| {
        let own = gpu.memory_mut().reserve(domain, 1 << 20).expect("room");
        Tenant::new(&mut gpu, own, mode, bad)
    });
    run(&mut gpu, &mut tenants);
    let [faulty, other] = &tenants;

    assert!(faulty.host.is_faulted(), "{mode:?}");
    let line = TEXT.lines().position(|l| l.contains("trap"));
    let line = u32::try_from(line.expect("it traps") + 1).expect("few");
    let recorded =
        [FAULT_KIND_AT, FAULT_LINE_AT, FAULT_BLOCK_AT].map(|at| faulty.counter(&gpu, at));
    assert_eq!(recorded, [FaultKind::Trap as u32, line, BAD], "{mode:?}");
    // Those that were resident go on to their end; the rest never start.
    let ran = faulty.ran(&gpu);
    assert!(
        ran.len() < BLOCKS as usize / 2,
        "{mode:?}: {} blocks ran",
        ran.len()
    );
    assert!(!other.host.is_faulted(), "{mode:?}");
    assert_eq!(other.ran(&gpu).len(), BLOCKS as usize, "{mode:?}");
    assert_eq!(other.counter(&gpu, FAULT_KIND_AT), 0, "{mode:?}");

    if let (Host::Gate(gate), Mode::Gate { window: BLOCKS, .. }) = (&faulty.host, mode) {
        // One launch, so that its bitmap speaks of all: blocks that the device let in, and blocks that it turned away.
        assert_eq!(faulty.launches, 1);
        let table = faulty.counters + gate.table_at(0);
        let refused = faulty.words(&gpu, table, bitmap_words(BLOCKS));
        let is_refused = |n: &u32| refused[*n as usize / 32] >> (n % 32) & 1 == 1;
        let let_in: Vec<u32> = (0..BLOCKS).filter(|n| !is_refused(n)).collect();
        assert!(let_in.contains(&BAD), "{mode:?}");
        let others =
            |blocks: &[u32]| -> Vec<u32> { blocks.iter().copied().filter(|n| *n != BAD).collect() };
        assert_eq!(others(&ran), others(&let_in), "{mode:?}");
    }
}

#[test]
fn a_fault_closes_its_own_gate_and_no_other() {
    check(Mode::Gate {
        window: 24,
        depth: 2,
    });
    // The host launches all at once, so that nobody but the device closes the gate.
    check(Mode::Gate {
        window: BLOCKS,
        depth: 1,
    });
}

#[test]
fn a_fault_ends_its_own_workers_and_no_other() {
    for chunk in [1, 4] {
        check(Mode::Worker { chunk });
    }
}
