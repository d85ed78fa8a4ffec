//! A recorded fault, from the instruction to the end of its launch, with another tenant on the same GPU.
//!
//! Rule: the tenant whose kernel faults loses what was still to run, learns what happened and where, and nobody else
//! notices: no fault of the device, and the neighbour's launch ends with every block run.

use gridmux_hw_model::{Gpu, GpuConfig, Partition, Report, Run, RunSetup};
use gridmux_launch::{Action, Answer, Launcher, Limits, Pace, RecordedFault, step};
use gridmux_policy::units::Cycles;
use gridmux_ptx::Module;
use gridmux_ptx::forms::fence::FaultKind;
use gridmux_ptx::forms::{Form, Options, rewrite};
use gridmux_ptx::kernel::Entry;
use gridmux_tests::formed::{Formed, progress};

/// Streaming multiprocessors, few so that most blocks are still to run when one faults.
const SMS: u16 = 2;
const BLOCKS: u32 = 600;
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
    Slices { blocks: u32, in_flight: u32 },
    Workers { count: u32, chunk: u32 },
}

impl Mode {
    fn form(self) -> Form {
        match self {
            Mode::Slices { .. } => Form::FENCE_SLICE,
            Mode::Workers { .. } => Form::FENCE_WORKER,
        }
    }

    fn limits(self) -> Limits {
        match self {
            Mode::Slices { blocks, in_flight } => Limits {
                slice_blocks: blocks,
                pace: Pace::InFlight(in_flight),
                workers: 1,
            },
            Mode::Workers { count, .. } => Limits {
                slice_blocks: 1,
                pace: Pace::InFlight(1),
                workers: count,
            },
        }
    }

    fn changed(self, entry: Entry) -> Entry {
        match self {
            Mode::Slices { .. } => entry,
            Mode::Workers { chunk, .. } => Entry { chunk, ..entry },
        }
    }
}

/// One tenant's launch.
struct Tenant {
    own: Partition,
    formed: Formed,
    launcher: Launcher,
    out: u64,
}

impl Tenant {
    fn new(gpu: &mut Gpu, (own, queue): (Partition, u8), mode: Mode, bad: u32) -> Self {
        let module = Module::parse(TEXT).expect("it parses");
        let program = module.decode().expect("it decodes");
        let made = rewrite(&module, &program, &Options::default(), |_| mode.form());
        let entry = made.kernels[0].clone().into_entry();
        let entry = mode.changed(entry.expect("it takes the form"));
        assert_eq!(entry.form(), mode.form());
        let module = Module::parse(made.bytes.clone()).expect("it parses");
        let program = module.decode().expect("it decodes");
        let loaded = gpu.load_in(own, &program, &made.bytes).expect("it loads");
        let memory = gpu.memory_mut();
        let out = memory.alloc_in(own, u64::from(4 * BLOCKS)).expect("room");
        let setup = RunSetup {
            kernel: loaded.kernel("k").expect("it is called k"),
            domain: own.domain,
            block: [64, 1, 1],
            dynamic_shared_bytes: entry.extra_shared_bytes(),
            budget: None,
        };
        let formed = Formed {
            entry,
            run: Run::new(setup, true).with_names(u64::from(bad) << 32, (queue, 8)),
            partition: own,
            grid: [BLOCKS, 1, 1],
            params: [&out.to_le_bytes()[..], &bad.to_le_bytes()].concat(),
            stamps: None,
        };
        let launcher = formed.launcher(mode.limits()).expect("the fence takes it");
        Self {
            own,
            formed,
            launcher,
            out,
        }
    }

    /// Does what is to be done now, and waits for nothing.
    fn act(&mut self, gpu: &mut Gpu) {
        while !matches!(self.launcher.next_action(), Action::Wait | Action::End(_)) {
            let stepped = step(&mut self.launcher, &mut self.formed.on(gpu));
            assert!(stepped.expect("it launches").is_continue());
        }
    }

    fn hear(&mut self, report: Report) {
        let run = &mut self.formed.run;
        run.hear(report).expect("the device does not fault");
        while let Some(happened) = run.take_happened() {
            self.launcher.note(Answer::from(progress(happened)));
        }
    }

    /// Returns the fault at the end of its launches; `None` before that.
    fn end(&self) -> Option<Option<RecordedFault>> {
        match self.launcher.next_action() {
            Action::End(fault) => Some(fault),
            _ => None,
        }
    }

    /// Returns the blocks that have run.
    fn ran(&self, gpu: &Gpu) -> Vec<u32> {
        let mut bytes = vec![0; 4 * BLOCKS as usize];
        let memory = gpu.memory();
        memory
            .read(self.own.domain, self.out, &mut bytes)
            .expect("inside");
        let word = |b: &[u8]| u32::from_le_bytes(b.try_into().expect("four bytes"));
        let marks: Vec<u32> = bytes.chunks_exact(4).map(word).collect();
        assert!(marks.iter().all(|m| [0, RAN].contains(m)));
        (0..BLOCKS).filter(|n| marks[*n as usize] == RAN).collect()
    }
}

/// Runs both until both have ended, or long enough.
fn run(gpu: &mut Gpu, tenants: &mut [Tenant; 2]) {
    let mut reports = Vec::new();
    for _ in 0..5000 {
        tenants.iter_mut().for_each(|t| t.act(gpu));
        if tenants.iter().all(|t| t.end().is_some()) {
            return;
        }
        gpu.advance(Cycles(gpu.now().0 + 2000), &mut reports);
        for report in reports.drain(..) {
            tenants.iter_mut().for_each(|t| t.hear(report.clone()));
        }
    }
    panic!(
        "they do not end: {:?} {:?}",
        tenants[0].launcher, tenants[1].launcher
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
    let [faulty, other] = &tenants;

    let line = TEXT.lines().position(|l| l.contains("trap"));
    let recorded = RecordedFault {
        kind: FaultKind::Trap as u32,
        line: u32::try_from(line.expect("it traps") + 1).expect("few"),
        block: BAD,
    };
    assert_eq!(faulty.end(), Some(Some(recorded)), "{mode:?}");
    // Those that were resident go on to their end; the rest never start.
    let ran = faulty.ran(&gpu);
    assert!(
        ran.len() < BLOCKS as usize / 2,
        "{mode:?}: {} blocks ran",
        ran.len()
    );
    assert_eq!(other.end(), Some(None), "{mode:?}");
    assert_eq!(other.ran(&gpu).len(), BLOCKS as usize, "{mode:?}");
}

#[test]
fn a_fault_ends_its_own_slices_and_no_other() {
    check(Mode::Slices {
        blocks: 24,
        in_flight: 2,
    });
}

#[test]
fn a_fault_ends_its_own_workers_and_no_other() {
    for chunk in [1, 4] {
        check(Mode::Workers { count: 6, chunk });
    }
}
