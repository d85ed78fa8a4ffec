//! A recorded fault, from the instruction to the end of its instance, with another tenant on the same GPU.
//!
//! Rule: the tenant whose kernel faults loses what was still to run, learns what happened and where, and nobody else
//! notices: no fault of the device, and the neighbour's instance ends with every block run.

use gridmux_hw_model::{DomainId, Gpu, GpuConfig, Kernel, Launch, Partition, QueueId, Report};
use gridmux_policy::units::Cycles;
use gridmux_ptx::Module;
use gridmux_ptx::boxes::Grid;
use gridmux_ptx::control::{
    self, Control, FAULT_BLOCK_AT, FAULT_KIND_AT, FAULT_LINE_AT, place_offset,
};
use gridmux_ptx::forms::fence::FaultKind;
use gridmux_ptx::forms::{Form, KernelForm, LaunchGrid, Options, rewrite};
use gridmux_ptx::protocol::{Gate, Workers, Write, worker};
use std::sync::Arc;

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

/// The host's half of one tenant's launch.
#[derive(Debug)]
enum Host {
    Gate(Gate),
    Workers(Workers),
}

impl Host {
    fn has_ended(&self) -> bool {
        match self {
            Self::Gate(gate) => gate.has_ended(),
            Self::Workers(workers) => workers.has_ended(),
        }
    }

    fn is_faulted(&self) -> bool {
        match self {
            Self::Gate(gate) => gate.is_faulted(),
            Self::Workers(workers) => workers.is_faulted(),
        }
    }
}

/// One tenant's launch.
struct Tenant {
    domain: DomainId,
    own: Partition,
    kernel: Arc<Kernel>,
    form: KernelForm,
    host: Host,
    counters: u64,
    out: u64,
    /// The kernel's own parameters.
    params: Vec<u8>,
    /// What a worker's launches have in common.
    control: Control,
    /// Its launches' tags begin here; tag and number of those in flight.
    first_tag: u64,
    flying: Vec<(u64, u32)>,
}

/// Blocks of a worker's ticket; none for a gate.
type Chunk = Option<u32>;

impl Tenant {
    fn new(
        gpu: &mut Gpu,
        (domain, own): (DomainId, Partition),
        form: Form,
        chunk: Chunk,
        bad: u32,
    ) -> Self {
        let module = Module::parse(TEXT).expect("it parses");
        let program = module.decode().expect("it decodes");
        let made = rewrite(&module, &program, &Options::default(), |_| form);
        let kernel_form = made.kernels[0].clone();
        assert_eq!(kernel_form.reason, None, "{form}");
        let module = Module::parse(made.bytes.clone()).expect("it parses");
        let program = module.decode().expect("it decodes");
        let loaded = gpu.load_in(own, &program, &made.bytes).expect("it loads");
        let grid = [BLOCKS, 1, 1];
        let (host, image, control) = match (chunk, kernel_form.grid) {
            (Some(chunk), _) => {
                let control = Control::workers(grid, chunk, 10, 0).expect("few");
                let workers = Workers::new(control.total, &[3; SMS as usize]).expect("blocks");
                let image = workers.memory();
                (Host::Workers(workers), image, control)
            }
            (None, LaunchGrid::Planes(axis)) => {
                let gate = Gate::new(Grid(grid), axis, 24, 2).expect("a sound launch");
                let mut image = vec![0; usize::try_from(gate.bytes()).expect("few")];
                let opening = Gate::opening();
                image[opening.at as usize..][..4].copy_from_slice(&opening.value.to_le_bytes());
                (Host::Gate(gate), image, Control::default())
            }
            (None, grid) => panic!("a gate with a grid of {grid:?}"),
        };
        let memory = gpu.memory_mut();
        let out = memory.alloc_in(own, u64::from(4 * BLOCKS)).expect("room");
        let counters = memory.alloc(domain, image.len() as u64).expect("room");
        memory.write(domain, counters, &image).expect("inside");
        let mut params = out.to_le_bytes().to_vec();
        params.extend(bad.to_le_bytes());
        Self {
            domain,
            own,
            kernel: loaded.kernel("k").expect("it is called k"),
            form: kernel_form,
            host,
            counters,
            out,
            params,
            control: Control {
                counters,
                ..control
            },
            first_tag: u64::from(bad) << 32,
            flying: Vec::new(),
        }
    }

    fn words(&self, gpu: &Gpu, at: u64, count: u32) -> Vec<u32> {
        let mut bytes = vec![0; 4 * count as usize];
        gpu.memory()
            .read(self.domain, at, &mut bytes)
            .expect("inside");
        let word = |b: &[u8]| u32::from_le_bytes(b.try_into().expect("four bytes"));
        bytes.chunks_exact(4).map(word).collect()
    }

    fn write(&self, gpu: &mut Gpu, write: Write) {
        let (at, bytes) = (
            self.counters + u64::from(write.at),
            write.value.to_le_bytes(),
        );
        gpu.memory_mut()
            .write(self.domain, at, &bytes)
            .expect("inside");
    }

    /// Does what the protocol asks for now.
    fn steps(&mut self, gpu: &mut Gpu, queue: u8) {
        match &self.host {
            Host::Gate(_) => self.gate_steps(gpu, queue),
            Host::Workers(_) => self.worker_steps(gpu, queue),
        }
    }

    fn worker_steps(&mut self, gpu: &mut Gpu, queue: u8) {
        let words = self.words(gpu, self.counters, place_offset(u32::from(SMS)) / 4);
        let at = |offset: u32| words[offset as usize / 4];
        let Host::Workers(workers) = &mut self.host else {
            return;
        };
        if workers.wants_observation() {
            if at(FAULT_KIND_AT) != 0 {
                workers.fault_recorded();
            }
            let members: Vec<u32> = (0..u32::from(SMS))
                .map(|sm| at(place_offset(sm) + 4))
                .collect();
            workers.observe(&worker::Observation {
                next: at(control::NEXT_AT),
                placed: at(control::PLACED_AT),
                members: &members,
            });
        }
        let launches: Vec<_> = std::iter::from_fn(|| workers.next_launch()).collect();
        for launch in launches {
            self.write(gpu, launch.announce);
            let grid = [launch.blocks, 1, 1];
            self.launch(gpu, (queue, launch.number), grid, self.control);
        }
    }

    fn gate_steps(&mut self, gpu: &mut Gpu, queue: u8) {
        while let Host::Gate(gate) = &mut self.host
            && let Some(launch) = gate.next_launch()
        {
            let table_at = self.counters + gate.table_at(launch.number);
            let control = gate.control(&launch, self.counters);
            for (at, word) in (table_at..).step_by(4).zip(launch.table.iter().flatten()) {
                gpu.memory_mut()
                    .write(self.domain, at, &word.to_le_bytes())
                    .expect("inside");
            }
            self.launch(gpu, (queue, launch.number), launch.part.dims, control);
        }
    }

    fn launch(
        &mut self,
        gpu: &mut Gpu,
        (queue, number): (u8, u32),
        grid: [u32; 3],
        control: Control,
    ) {
        let control = Control {
            fence_base: self.own.base,
            fence_mask: self.own.mask(),
            ..control
        };
        let mut params = self.params.clone();
        let control_at = self.form.control_offset.expect("a control block");
        params.resize(control_at as usize, 0);
        params.extend(control.to_bytes());
        let tag = self.first_tag + self.flying.len() as u64 + u64::from(number) * 1000;
        self.flying.push((tag, number));
        gpu.launch(Launch {
            queue: QueueId(queue + u8::try_from(number % 8).expect("small")),
            tag,
            domain: self.domain,
            kernel: self.kernel.clone(),
            grid,
            block: [64, 1, 1],
            dynamic_shared_bytes: self.form.extra_shared_bytes,
            params: &params,
            budget: None,
        })
        .expect("it launches");
    }

    fn ended(&mut self, gpu: &Gpu, tag: u64) {
        let Some(at) = self.flying.iter().position(|(other, _)| *other == tag) else {
            return;
        };
        let (_, number) = self.flying.swap_remove(at);
        let fault = self.words(gpu, self.counters + u64::from(FAULT_KIND_AT), 1)[0];
        let refused = match &self.host {
            Host::Workers(_) => Vec::new(),
            Host::Gate(gate) => {
                let at = self.counters + gate.table_at(number);
                self.words(gpu, at, gate.words(number))
            }
        };
        match &mut self.host {
            Host::Workers(workers) => workers.launch_ended(number),
            Host::Gate(gate) => {
                if gate.launch_ended(number, fault != 0) {
                    gate.observe(number, &refused);
                }
            }
        }
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

#[test]
fn a_fault_ends_its_own_instance_and_no_other() {
    let forms = [
        (Form::FENCE_GATE, None),
        (Form::FENCE_WORKER, Some(1)),
        (Form::FENCE_WORKER, Some(4)),
    ];
    for (form, chunk) in forms {
        let mut config = GpuConfig::builtin("h200").expect("built in");
        config.sm.count = SMS;
        let mut gpu = Gpu::new(config);
        let domain = gpu
            .memory_mut()
            .create_domain(40 << 30)
            .expect("address space");
        let mut tenants = [BAD, u32::MAX].map(|bad| {
            let own = gpu.memory_mut().reserve(domain, 1 << 20).expect("room");
            Tenant::new(&mut gpu, (domain, own), form, chunk, bad)
        });
        run(&mut gpu, &mut tenants);
        let [faulty, other] = &tenants;

        assert!(faulty.host.is_faulted(), "{form}");
        let counters = faulty.words(&gpu, faulty.counters, 16);
        let at = |offset: u32| counters[offset as usize / 4];
        let line = TEXT
            .lines()
            .position(|l| l.contains("trap"))
            .expect("it traps")
            + 1;
        let recorded = (
            at(FAULT_KIND_AT),
            at(FAULT_LINE_AT) as usize,
            at(FAULT_BLOCK_AT),
        );
        assert_eq!(recorded, (FaultKind::Trap as u32, line, BAD), "{form}");
        let ran = |t: &Tenant| {
            let marks = t.words(&gpu, t.out, BLOCKS);
            assert!(marks.iter().all(|m| [0, RAN].contains(m)), "{form}");
            marks.iter().filter(|m| **m == RAN).count()
        };
        // Those that were resident go on to their end; the rest never start.
        let before = ran(faulty);
        assert!(before < BLOCKS as usize / 2, "{form}: {before} blocks ran");

        assert!(!other.host.is_faulted(), "{form}");
        assert_eq!(ran(other), BLOCKS as usize, "{form}");
        let kind = other.words(&gpu, other.counters + u64::from(FAULT_KIND_AT), 1)[0];
        assert_eq!(kind, 0, "{form}");
    }
}
