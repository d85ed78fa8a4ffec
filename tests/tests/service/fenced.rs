//! Contract: with `device.isolation = "fenced"` all clients share one context, and no kernel of one reaches memory of
//! another: not by any address, not by a variable. What was a fault of the device is one of the launch, with its line;
//! what cannot be fenced is refused by name; variables have their initial values and are found by name.

use gridmux_channel::ring::{CompletionStatus, DeviceCopy, Memset, Operation, Width};
use gridmux_ptx::Module;
use gridmux_ptx::forms::{Form, FormVerdicts};
use gridmux_tenant::{Args, Buffer, ClientError, Gpu, Kernel, Stream};
use gridmux_tests::{Bench, Bystander, RawTenant, Service, ServiceBuilder, assert_names, failure};
use gridmux_workloads::{Size, workloads};
use std::fs;
use std::path::Path;

const BYTES: usize = 64 << 10;

fn fenced() -> ServiceBuilder {
    ServiceBuilder::new(&[("good", 1), ("bad", 1)]).device_key("isolation = \"fenced\"")
}

/// Returns a module with a kernel `k` of two addresses: `%own` and `%target`; `%i` is the thread's number.
fn module(declared: &str, body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n{declared}\n\
         .visible .entry k(.param .u64 own, .param .u64 target)\n{{\n\
         .reg .b64 %own, %target, %a, %b;\n.reg .b32 %i, %r, %s;\n.reg .pred %p;\n\
         ld.param.u64 %own, [own];\nld.param.u64 %target, [target];\nmov.u32 %i, %tid.x;\nmov.u32 %r, 0xdeadbeef;\n\
         {body}\nret;\n}}\n"
    )
}

fn kernel(gpu: &Gpu, text: &str) -> Result<Kernel, ClientError> {
    gpu.module(text.as_bytes())?.kernel("k")
}

/// A tenant whose buffers nobody else may read or change.
struct Victim {
    stream: Stream,
    buffers: Vec<Buffer>,
}

impl Victim {
    fn new(gpu: &Gpu) -> Self {
        let stream = gpu.stream().expect("a stream");
        let buffers = (0..3).map(|n| {
            let buffer = gpu.alloc(BYTES as u64).expect("memory");
            stream
                .copy_to(&buffer, 0, &Self::pattern(n))
                .expect("it is copied");
            buffer
        });
        let buffers = buffers.collect();
        Self { stream, buffers }
    }

    fn pattern(n: u8) -> Vec<u8> {
        let all = (0..=u8::MAX).cycle().take(BYTES);
        all.map(|at| at.wrapping_mul(31).wrapping_add(n + 1))
            .collect()
    }

    fn address(&self) -> u64 {
        self.buffers[1].address()
    }

    fn is_untouched(&self) -> bool {
        (0..).zip(&self.buffers).all(|(n, buffer)| {
            let mut bytes = vec![0; BYTES];
            let read = self.stream.copy_from(buffer, 0, &mut bytes);
            read.expect("it is read");
            bytes == Self::pattern(n)
        })
    }
}

/// Stores all over: at the neighbour's address and around it, at every power of two, and beyond a name.
const EVERYWHERE: &str = "mul.wide.u32 %a, %i, 4;\nadd.s64 %a, %target, %a;\nst.global.u32 [%a], %r;\n\
    st.global.u32 [%a+16000000], %r;\nst.u32 [%a], %r;\natom.global.add.u32 %s, [%a], %r;\n\
    mov.u64 %b, 1;\nshl.b64 %b, %b, %i;\nst.global.u32 [%b], %r;\nxor.b64 %b, %b, %target;\nst.global.u32 [%b], %r;\n\
    st.global.u32 [mine+8000000000], %r;\nadd.s64 %a, %target, 3;\nst.global.u64 [%a], %b;\nred.global.max.u32 [%b], %r;\n\
    mov.u64 %a, mine;\nsub.s64 %b, %target, %a;\nadd.s64 %a, %a, %b;\nst.global.u32 [%a], %r;";

/// Copies the neighbour's bytes into its own buffer.
const STEAL: &str = "mul.wide.u32 %a, %i, 4;\nadd.s64 %b, %target, %a;\nld.global.u32 %r, [%b];\n\
    add.s64 %b, %own, %a;\nst.global.u32 [%b], %r;";

fn attack(gpu: &Gpu, text: &str, target: u64) -> (Result<(), ClientError>, Vec<u8>) {
    let stream = gpu.stream().expect("a stream");
    let own = gpu.alloc(BYTES as u64).expect("memory");
    let attacking = kernel(gpu, text).and_then(|kernel| {
        let args = Args::new().buffer(&own).u64(target);
        stream.launch(&kernel, 7, 64, 0, &args)?.wait()
    });
    let mut bytes = vec![0; 256];
    stream.copy_from(&own, 0, &mut bytes).expect("it is read");
    (attacking.map(drop), bytes)
}

fn hostile_beside_honest(service: &Service) {
    let host = service.statistics().host_pid;
    let bystander = Bystander::start(service, "good", "reduction");
    let (good, bad) = (service.gpu("good"), service.gpu("bad"));
    let victim = Victim::new(&good);
    let declared = ".global .align 4 .u32 mine[4];";
    let (ended, _) = attack(&bad, &module(declared, EVERYWHERE), victim.address());
    ended.expect("no address faults");
    let (ended, stolen) = attack(&bad, &module("", STEAL), victim.address());
    ended.expect("no address faults");
    assert_ne!(
        stolen[..],
        Victim::pattern(1)[..256],
        "it has read what is not its own"
    );
    assert!(victim.is_untouched());
    bystander.finish();
    assert_eq!(
        service.statistics().host_pid,
        host,
        "the device host is the same"
    );
    assert_eq!(service.tenant("good").usage.failed, 0);
}

#[test]
fn a_hostile_kernel_reaches_nobody_without_timing() {
    hostile_beside_honest(&fenced().functional().start());
}

#[test]
fn a_hostile_kernel_reaches_nobody_with_timing() {
    hostile_beside_honest(&fenced().start());
}

/// The same attack does harm where its kernel need not be fenced, so that it is the fence that keeps it off.
#[test]
fn what_runs_unfenced_by_permission_reaches_everybody() {
    let permitted = fenced().device_key("unfenceable = \"shared\"");
    let service = permitted.functional().start();
    let (good, bad) = (service.gpu("good"), service.gpu("bad"));
    let victim = Victim::new(&good);
    let print = ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);";
    let store = "st.global.u32 [%target], %r;\nsetp.ne.u32 %p, %r, %r;\n@!%p bra $end;\n\
        { .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %own; st.param.b64 [a], %own;\n\
        call (r), vprintf, (f, a); }\n$end:";
    let (ended, _) = attack(&bad, &module(print, store), victim.address());
    ended.expect("it runs");
    assert!(!victim.is_untouched());
    // Kernels that can be fenced are, all the same.
    let (ended, stolen) = attack(&bad, &module("", STEAL), victim.address());
    ended.expect("it runs");
    assert_ne!(stolen[..], Victim::pattern(1)[..256]);
}

#[test]
fn what_once_escaped_the_fence_does_not_in_the_service() {
    let service = fenced().functional().start();
    let host = service.statistics().host_pid;
    let (good, bad) = (service.gpu("good"), service.gpu("bad"));
    let victim = Victim::new(&good);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forms/fence/found");
    let (mut launched, mut refused) = (0, 0);
    for file in fs::read_dir(folder).expect("the folder is there") {
        let path = file.expect("it can be listed").path();
        let text = fs::read_to_string(&path).expect("it is text");
        match attack(&bad, &text, victim.address()).0 {
            Ok(()) => launched += 1,
            Err(error) => {
                refused += 1;
                println!("{}: {error}", path.display());
            }
        }
        assert!(victim.is_untouched(), "{}", path.display());
    }
    println!("{launched} ran, {refused} were refused or failed");
    assert!(launched + refused > 20 && launched > 5);
    assert_eq!(service.statistics().host_pid, host);
}

#[test]
fn a_recorded_fault_ends_its_launch_with_the_line() {
    let service = fenced().functional().start();
    let bystander = Bystander::start(&service, "good", "vecadd");
    let gpu = service.gpu("bad");
    let buffer = gpu.alloc(BYTES as u64).expect("memory");
    let args = Args::new().buffer(&buffer).u64(0);
    let function = ".func put(.param .b64 at) { .reg .b64 %x; ld.param.b64 %x, [at]; ret; }";
    let wild = "{ .param .b64 a; st.param.b64 [a], %own;\nproto: .callprototype _ (.param .b64 x);\nmov.u64 %b, put;\n\
        add.s64 %b, %b, 3;\ncall %b, (a), proto; }";
    let cases = [
        (
            "",
            "setp.eq.u32 %p, %i, 5;\n@%p trap;",
            "trap",
            CompletionStatus::Trap,
        ),
        ("", "brkpt;", "brkpt", CompletionStatus::Trap),
        (function, wild, "call", CompletionStatus::MemoryFault),
    ];
    for (declared, body, what, status) in cases {
        let text = module(declared, body);
        let line = text
            .lines()
            .position(|line| line.contains(what) && !line.contains(".call"));
        let line = line.expect("it is there") + 1;
        let k = kernel(&gpu, &text).expect("it can be fenced");
        let error = failure(&gpu, &k, 32, &args, status);
        assert_names(&error, &[what, &format!("PTX line {line}"), "block 0"]);
    }
    // The next launch has counters of its own.
    let bench = Bench::set_up(&gpu, "vecadd", Size::Tiny, 1).expect("it is set up");
    bench.run(&gpu).expect("it runs");
    bystander.finish();
}

const VARIABLES: &str = ".visible .global .align 4 .u32 count = 41;\n\
    .visible .global .align 8 .b8 bytes[16] = {1, 2, 3, 4, 5, 6, 7, 8};\n\
    .visible .global .align 8 .u64 table[3] = {count, generic(bytes)+4, 9};\n\
    .visible .global .align 256 .b8 room[100000];\n\
    .visible .const .align 4 .u32 factor[2] = {3, 1000};";

/// Follows the table's addresses, and counts.
const FOLLOW: &str = "ld.global.u64 %a, [table];\natom.global.add.u32 %s, [%a], 1;\nst.global.u32 [%own], %s;\n\
    ld.global.u64 %a, [table+8];\nld.u32 %s, [%a];\nst.global.u32 [%own+4], %s;\n\
    ld.const.u32 %s, [factor+4];\nst.global.u32 [%own+8], %s;\nld.global.u32 %s, [table+16];\n\
    st.global.u32 [room+99996], %s;\nld.global.u32 %s, [count];\nst.global.u32 [%own+12], %s;";

#[test]
fn variables_have_their_values_and_are_found_by_name() {
    for builder in [fenced(), fenced().functional()] {
        let service = builder.start();
        // Two clients, each with variables of its own.
        for name in ["good", "bad"] {
            let gpu = service.gpu(name);
            let stream = gpu.stream().expect("a stream");
            let own = gpu.alloc(BYTES as u64).expect("memory");
            let text = module(VARIABLES, FOLLOW);
            let loaded = gpu.module(text.as_bytes()).expect("it loads");
            let k = loaded.kernel("k").expect("it is fenced");
            let args = Args::new().buffer(&own).u64(0);
            let words = |buffer: &Buffer, offset| {
                let mut bytes = [0; 16];
                stream
                    .copy_from(buffer, offset, &mut bytes)
                    .expect("it is read");
                let word = |n: usize| u32::from_le_bytes(bytes[4 * n..][..4].try_into().unwrap());
                [word(0), word(1), word(2), word(3)]
            };
            let global = |name: &str| loaded.global(name).expect("the module has it");
            for round in 0..2 {
                let launch = stream.launch(&k, 1, 1, 0, &args);
                launch.and_then(|event| event.wait()).expect("it runs");
                assert_eq!(words(&own, 0), [41 + round, 0x0807_0605, 1000, 42 + round]);
            }
            assert_eq!(words(&global("room"), 100_000 - 16)[3], 9);
            // What the host writes, kernels see.
            let count = global("count");
            stream
                .copy_to(&count, 0, &7_u32.to_le_bytes())
                .expect("it is written");
            stream
                .copy_to(&global("factor"), 4, &8_u32.to_le_bytes())
                .expect("it is written");
            let launch = stream.launch(&k, 1, 1, 0, &args);
            launch.and_then(|event| event.wait()).expect("it runs");
            assert_eq!(words(&own, 0), [7, 0x0807_0605, 8, 8]);
            let names: Vec<_> = loaded.globals().iter().map(|of| &*of.name).collect();
            assert!(names.iter().all(|name| !name.starts_with('$')), "{names:?}");
            let mut table = [0; 24];
            stream
                .copy_from(&global("table"), 0, &mut table)
                .expect("it is read");
            assert_eq!(table[..8], count.address().to_le_bytes());
        }
    }
}

#[test]
fn what_cannot_be_fenced_is_refused_by_name_and_the_rest_runs() {
    let service = fenced().functional().start();
    let gpu = service.gpu("bad");
    let texture = ".global .texref image;";
    let fetch = "tex.2d.v4.u32.s32 {%r, %s, %i, %r}, [image, {%i, %i}];";
    let fine = module("", "st.global.u32 [%own], %r;").replace("entry k", "entry fine");
    let (_, fine) = fine.split_once(".visible").expect("a kernel");
    let both = format!("{}.visible{fine}", module(texture, fetch));
    let loaded = gpu.module(both.as_bytes()).expect("one of two can run");
    loaded.kernel("fine").expect("it can be fenced");
    let refused = loaded.kernel("k").expect("it is named");
    let why = refused.info().unusable.clone().unwrap_or_default();
    assert_names(
        &why,
        &["'k'", "cannot be fenced", "device.unfenceable", "line "],
    );
    let stream = gpu.stream().expect("a stream");
    let args = Args::new().u64(0).u64(0);
    let launch = stream.launch(&refused, 1, 32, 0, &args);
    let error = launch
        .and_then(|event| event.wait())
        .expect_err("it is not launched");
    assert_names(&error, &["cannot be fenced"]);
    let error = kernel(
        &gpu,
        &module(
            ".visible .global .attribute(.managed) .u32 shared_by_both;",
            "st.global.u32 [shared_by_both], %r;",
        ),
    );
    assert_names(
        &error.expect_err("it cannot be placed"),
        &["shared_by_both", "managed"],
    );
}

#[test]
fn every_workload_gives_its_references_results() {
    let service = fenced().functional().start();
    let bystander = Bystander::start(&service, "good", "reduction");
    let gpu = service.gpu("bad");
    let mut ran = 0;
    for workload in workloads() {
        let parsed = Module::parse(workload.ptx).expect("it parses");
        let program = parsed.decode().expect("it decodes");
        let case = workload.case(Size::Small, 3);
        let (id, _) = program.kernel(case.entry).expect("it has its kernel");
        let verdicts = FormVerdicts::new(&parsed, &program);
        match Bench::set_up(&gpu, workload.name, Size::Small, 3) {
            Ok(bench) => {
                bench
                    .run(&gpu)
                    .unwrap_or_else(|error| panic!("{}: {error}", workload.name));
                ran += 1;
            }
            Err(error) => {
                println!("{}: {error}", workload.name);
                let is_refused =
                    verdicts.refusal(id, Form::FENCE).is_some() || verdicts.syncs_grid(id);
                assert!(is_refused, "{}: {error}", workload.name);
            }
        }
    }
    println!("{ran} of {} ran", workloads().len());
    assert!(2 * ran > workloads().len());
    bystander.finish();
}

#[test]
fn a_client_that_leaves_gives_everything_back_and_the_next_finds_it_empty() {
    let service = fenced().functional().start();
    let text = module(VARIABLES, FOLLOW);
    let free = service
        .gpu("bad")
        .memory_info()
        .expect("it says")
        .free_bytes;
    service.await_gone("bad");
    for _ in 0..3 {
        let gpu = service.gpu("bad");
        let stream = gpu.stream().expect("a stream");
        let loaded = gpu.module(text.as_bytes()).expect("it loads");
        let held = free - gpu.memory_info().expect("it says").free_bytes;
        assert!(held >= 100_000, "variables count: {held}");
        let buffer = gpu.alloc(1 << 20).expect("memory");
        let mut bytes = vec![1; 1 << 20];
        stream
            .copy_from(&buffer, 0, &mut bytes)
            .expect("it is read");
        assert!(bytes.iter().all(|byte| *byte == 0), "what another one left");
        stream
            .fill(&buffer, 0, 1 << 20, 0xaa)
            .expect("it is filled");
        stream.synchronize().expect("it ends");
        drop((buffer, loaded, stream, gpu));
        service.await_gone("bad");
    }
    let gpu = service.gpu("bad");
    assert_eq!(gpu.memory_info().expect("it says").free_bytes, free);
}

#[test]
fn host_operations_stay_in_the_clients_memory() {
    let service = fenced().functional().start();
    let good = service.gpu("good");
    let victim = Victim::new(&good);
    let mut raw = RawTenant::connect(&service.socket(), "bad");
    let own = raw.alloc(4096);
    let fill = |address, len| {
        Operation::Memset(Memset {
            address,
            len,
            value: 0xaa,
            width: Width::One,
        })
    };
    let copy = |from, to| {
        Operation::CopyOnDevice(DeviceCopy {
            from,
            to,
            len: 4096,
        })
    };
    assert_eq!(raw.submit(fill(own, 4096)).0, CompletionStatus::Ok);
    for operation in [
        fill(victim.address(), 4096),
        copy(own, victim.address()),
        copy(victim.address(), own),
        // Its own reservation, where nothing is allocated.
        fill(own + (1 << 30), 16),
        fill(own, 8192),
    ] {
        let (status, text) = raw.submit(operation);
        assert_eq!(status, CompletionStatus::BadAddress, "{text}");
    }
    assert!(victim.is_untouched());
}
