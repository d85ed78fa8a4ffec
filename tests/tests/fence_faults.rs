//! A recorded fault, from the instruction to the end of its instance, with another tenant on the same GPU.
//!
//! Rule: the tenant whose kernel faults loses what was still to run, learns what happened and where, and nobody else
//! notices: no fault of the device, and the neighbour's instance ends with every block run.

use gridmux_hw_model::drive::{FormedKernel, Run};
use gridmux_hw_model::{Gpu, GpuConfig, Partition, Report};
use gridmux_policy::units::Cycles;
use gridmux_ptx::Module;
use gridmux_ptx::boxes::Grid;
use gridmux_ptx::control::Control;
use gridmux_ptx::forms::fence::FaultKind;
use gridmux_ptx::forms::{Form, KernelForm, LaunchGrid, Options, rewrite};
use gridmux_ptx::protocol::instance::recorded_fault;
use gridmux_ptx::protocol::{Gate, Host, Instance, RecordedFault, Workers};

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

    /// Returns the host's half of a tenant's launch.
    fn host(self, form: &KernelForm) -> Host {
        let grid = [BLOCKS, 1, 1];
        match self {
            Mode::Gate { window, depth } => {
                let LaunchGrid::Planes(axis) = form.grid else {
                    panic!("a gate is cut across an axis")
                };
                Host::Gate(Gate::new(Grid(grid), axis, window, depth).expect("a sound launch"))
            }
            Mode::Worker { chunk } => {
                assert!(chunk <= form.most_chunk, "{} at most", form.most_chunk);
                let control = Control::workers(grid, [64, 1, 1], (chunk, 2), 0).expect("few");
                let caps = [CAP; SMS as usize];
                let workers = Workers::new(control.total, &caps).expect("there are tickets");
                Host::Workers(workers, control)
            }
        }
    }
}

/// Where one tenant's launches run.
struct Place {
    own: Partition,
    run: Run,
    out: u64,
}

impl Place {
    fn words(&self, gpu: &Gpu, at: u64, count: u32) -> Vec<u32> {
        let mut bytes = vec![0; 4 * count as usize];
        gpu.memory()
            .read(self.own.domain, at, &mut bytes)
            .expect("inside");
        let word = |b: &[u8]| u32::from_le_bytes(b.try_into().expect("four bytes"));
        bytes.chunks_exact(4).map(word).collect()
    }

    /// Returns the blocks that have run.
    fn ran(&self, gpu: &Gpu) -> Vec<u32> {
        let marks = self.words(gpu, self.out, BLOCKS);
        assert!(marks.iter().all(|m| [0, RAN].contains(m)));
        (0..BLOCKS).filter(|n| marks[*n as usize] == RAN).collect()
    }
}

/// One tenant's launch.
struct Tenant {
    place: Place,
    instance: Instance,
}

impl Tenant {
    fn new(gpu: &mut Gpu, (own, queue): (Partition, u8), mode: Mode, bad: u32) -> Self {
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
        let host = mode.host(&form);
        let memory = gpu.memory_mut();
        let out = memory.alloc_in(own, u64::from(4 * BLOCKS)).expect("room");
        let kernel = FormedKernel {
            kernel: loaded.kernel("k").expect("it is called k"),
            form,
            partition: own,
            grid: [BLOCKS, 1, 1],
            block: [64, 1, 1],
            dynamic_shared_bytes: 0,
            params: [&out.to_le_bytes()[..], &bad.to_le_bytes()].concat(),
            budget: None,
        };
        let mut run = Run::new(kernel, true).with_names(u64::from(bad) << 32, (queue, 8));
        let instance = run.begin(gpu, host).expect("room");
        Self {
            place: Place { own, run, out },
            instance,
        }
    }

    /// Does what the protocol asks for now.
    fn step(&mut self, gpu: &mut Gpu) {
        let mut on = self.place.run.on(gpu);
        self.instance.step(&mut on).expect("it launches");
    }

    fn hear(&mut self, gpu: &mut Gpu, report: Report) {
        let run = &mut self.place.run;
        run.hear(report).expect("the device does not fault");
        while let Some(number) = run.take_ended() {
            let ended = self.instance.launch_ended(&mut run.on(gpu), number);
            ended.expect("its memory is there");
        }
    }

    fn fault(&mut self, gpu: &mut Gpu) -> Option<RecordedFault> {
        recorded_fault(&mut self.place.run.on(gpu)).expect("its memory is there")
    }
}

/// Runs both until both have ended, or long enough.
fn run(gpu: &mut Gpu, tenants: &mut [Tenant; 2]) {
    let mut reports = Vec::new();
    for _ in 0..5000 {
        tenants.iter_mut().for_each(|t| t.step(gpu));
        if tenants.iter().all(|t| t.instance.has_ended()) {
            return;
        }
        gpu.advance(Cycles(gpu.now().0 + 2000), &mut reports);
        for report in reports.drain(..) {
            tenants.iter_mut().for_each(|t| t.hear(gpu, report.clone()));
        }
    }
    panic!(
        "they do not end: {:?} {:?}",
        tenants[0].instance, tenants[1].instance
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
    let mut tenants = [(BAD, 0), (u32::MAX, 8)].map(|(bad, queue)| {
        let own = gpu.memory_mut().reserve(domain, 1 << 20).expect("room");
        Tenant::new(&mut gpu, (own, queue), mode, bad)
    });
    run(&mut gpu, &mut tenants);
    let [faulty, other] = &mut tenants;

    assert!(faulty.instance.is_faulted(), "{mode:?}");
    let line = TEXT.lines().position(|l| l.contains("trap"));
    let recorded = RecordedFault {
        kind: FaultKind::Trap as u32,
        line: u32::try_from(line.expect("it traps") + 1).expect("few"),
        block: BAD,
    };
    assert_eq!(faulty.fault(&mut gpu), Some(recorded), "{mode:?}");
    // Those that were resident go on to their end; the rest never start.
    let ran = faulty.place.ran(&gpu);
    assert!(
        ran.len() < BLOCKS as usize / 2,
        "{mode:?}: {} blocks ran",
        ran.len()
    );
    assert!(!other.instance.is_faulted(), "{mode:?}");
    assert_eq!(other.place.ran(&gpu).len(), BLOCKS as usize, "{mode:?}");
    assert_eq!(other.fault(&mut gpu), None, "{mode:?}");

    if let (Host::Gate(gate), Mode::Gate { window: BLOCKS, .. }) = (faulty.instance.host(), mode) {
        // One launch, so that its table speaks of all: blocks that the device let in, and blocks that it turned away.
        assert_eq!(faulty.place.run.tally().launches, 1);
        let table = faulty.place.run.counters() + gate.table_at(0);
        let marks = faulty.place.words(&gpu, table, BLOCKS / 4);
        let is_refused = |n: &u32| marks[*n as usize / 4] >> (8 * (n % 4)) & 0xff != 0;
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
