//! Contract: on a functional device programs get the same results, tenants share it, and nobody keeps the others from
//! being served; what a kernel prints comes to its tenant, and a module is usable as far as its kernels are.

use gridmux_mediator::device::Timing;
use gridmux_tenant::{Args, ClientError, CompletionStatus, Printed};
use gridmux_tests::{Bench, Bystander, RawTenant, ServiceBuilder, bare_launch, until};
use gridmux_workloads::{Size, workloads};

/// A kernel that never ends, one that prints, and one that no modelled GPU runs.
const MODULE: &str = include_str!("functional_device.ptx");

fn two_tenants() -> ServiceBuilder {
    ServiceBuilder::new(&[("a", 1), ("b", 1)]).functional()
}

#[test]
fn every_workload_gives_its_references_results_while_another_tenant_works() {
    let service = two_tenants().start();
    assert_eq!(
        service.statistics().host.device.timing,
        Some(Timing::Functional)
    );
    let bystander = Bystander::start(&service, "b", "reduction");
    let gpu = service.gpu("a");
    assert!(gpu.facts().is_model && gpu.facts().name.contains("functional"));
    for workload in workloads() {
        let bench = Bench::set_up(&gpu, workload.name, Size::Small, 3).expect("it is set up");
        bench.run(&gpu).expect("it runs");
    }
    bystander.finish();
    assert_eq!(service.tenant("b").usage.failed, 0);
}

#[test]
fn an_endless_kernel_ends_at_its_budget_while_others_work() {
    let service = two_tenants().limit("kernel_budget_cpu_seconds", 1).start();
    let bystander = Bystander::start(&service, "b", "vecadd");
    let gpu = service.gpu("a");
    let module = gpu.module(MODULE.as_bytes()).expect("two of three can run");
    let stream = gpu.stream().expect("a stream");
    let kernel = module.kernel("endless").expect("it is there");
    for (blocks, was_cut) in [(1, false), (1 << 16, true)] {
        let launch = stream.launch(&kernel, blocks, 64, 0, &Args::new());
        match launch.and_then(|event| event.wait()) {
            Err(ClientError::Failed {
                status, message, ..
            }) => {
                assert_eq!(status, CompletionStatus::Budget);
                assert!(message.contains("kernel_budget_cpu_seconds"), "{message}");
                let hints = message.contains("it ran in pieces: if its blocks wait");
                assert_eq!(hints, was_cut, "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
    Bench::set_up(&gpu, "vecadd", Size::Tiny, 1)
        .and_then(|bench| bench.run(&gpu))
        .expect("the tenant goes on");
    bystander.finish();
}

#[test]
fn a_client_that_leaves_takes_its_endless_kernel_along() {
    let service = two_tenants().start();
    let mut raw = RawTenant::connect(&service.socket(), "a");
    let module = raw.load(MODULE.as_bytes()).expect("two of three can run");
    raw.push(0, bare_launch(&module, [400, 1, 1], [256, 1, 1]));
    until("the start of the endless kernel", || {
        let usage = service.tenant("a").usage;
        (usage.slices > 0).then_some(())
    });
    drop(raw);
    service.await_gone("a");
    let gpu = service.gpu("b");
    Bench::set_up(&gpu, "vecadd", Size::Tiny, 1)
        .and_then(|bench| bench.run(&gpu))
        .expect("the device is free");
}

/// A kernel whose threads count to `n`.
const COUNT: &str = include_str!("count.ptx");

#[test]
fn tenants_share_the_hosts_time_by_their_weights() {
    const NAMES: [&str; 2] = ["heavy", "light"];
    let service = ServiceBuilder::new(&[(NAMES[0], 3), (NAMES[1], 1)])
        .functional()
        .start();
    let clients = NAMES.map(|name| {
        let gpu = service.gpu(name);
        let module = gpu.module(COUNT.as_bytes()).expect("it loads");
        let kernel = module.kernel("count").expect("it is there");
        (gpu, kernel)
    });
    // Long blocks: the device has work left while the host delays the dispatcher.
    let args = Args::new().u32(3000);
    // A kernel of which no block has ended gets little, whatever its tenant's weight.
    for (gpu, kernel) in &clients {
        let stream = gpu.stream().expect("a stream");
        let launch = stream.launch(kernel, 64, 256, 0, &args);
        launch.and_then(|event| event.wait()).expect("it runs");
    }
    // More than is done while the test looks on; what is left goes with the clients.
    for (gpu, kernel) in &clients {
        let stream = gpu.stream().expect("a stream");
        let event = stream.launch(kernel, 4_000_000, 256, 0, &args);
        std::mem::forget((event.expect("it is taken"), stream));
    }
    let blocks = || NAMES.map(|name| service.tenant(name).usage.blocks);
    let after = |least: [u64; 2]| {
        until("progress of both tenants", || {
            let now = blocks();
            (now[0] >= least[0] && now[1] >= least[1]).then_some(now)
        })
    };
    // The controller makes up for the start, in which one tenant comes before the other; then the shares stay.
    let mut last = after([1, 1]);
    let mut ratios = Vec::new();
    while !ratios.ends_with(&[true; 3]) {
        assert!(ratios.len() < 40, "3 to 1 is due: {ratios:?}");
        let now = after([last[0] + 1, last[1] + 100]);
        let ratio = (now[0] - last[0]) as f64 / (now[1] - last[1]) as f64;
        println!("{ratio}");
        ratios.push((2.25..4.0).contains(&ratio));
        last = now;
    }
    std::mem::forget(clients);
}

#[test]
fn a_tenant_that_prints_long_lines_keeps_nobody_waiting() {
    // Long launches of long lines, under the policy that orders launches by the device's time.
    let builder = two_tenants().policy("gridmux");
    let service = builder.limit("kernel_budget_cpu_seconds", 120).start();
    let gpu = service.gpu("a");
    let (before, rest) = MODULE.split_once("text[").expect("it is there");
    let (_, rest) = rest.split_once(';').expect("it ends");
    let line = "120, ".repeat(1000);
    let text = format!("{before}text[1001] = {{{line}0}};{rest}");
    let module = gpu.module(text.as_bytes()).expect("it can run");
    let kernel = module.kernel("prints").expect("it is there");
    let stream = gpu.stream().expect("a stream");
    let long = stream.launch(&kernel, 1 << 16, 256, 0, &Args::new());
    let long = long.expect("it is taken");
    until("a start", || {
        (service.tenant("a").usage.blocks > 0).then_some(())
    });
    let other = service.gpu("b");
    let bench = Bench::set_up(&other, "vecadd", Size::Tiny, 1).expect("it is set up");
    for _ in 0..3 {
        bench.run(&other).expect("it runs");
    }
    assert!(
        !long.is_done().expect("it answers"),
        "the long one was first"
    );
}

#[test]
fn what_a_kernel_prints_comes_to_its_own_client() {
    for builder in [two_tenants(), ServiceBuilder::new(&[("a", 1), ("b", 1)])] {
        let service = builder.start();
        let (gpu, other) = (service.gpu("a"), service.gpu("b"));
        let module = gpu.module(MODULE.as_bytes()).expect("two of three can run");
        assert!(module.prints());
        let kernel = module.kernel("prints").expect("it is there");
        let stream = gpu.stream().expect("a stream");
        let launch = stream.launch(&kernel, 3, 1, 0, &Args::new());
        launch.and_then(|event| event.wait()).expect("it runs");
        let printed = gpu.take_printed().expect("it answers");
        assert_eq!(printed.text, b"hello!\nhello!\nhello!\n");
        assert_eq!(printed.lost_bytes, 0);
        for gpu in [&gpu, &other] {
            assert_eq!(gpu.take_printed().expect("it answers"), Printed::default());
        }
    }
}

#[test]
fn a_launch_of_a_kernel_that_cannot_run_is_refused_with_the_reason() {
    for builder in [two_tenants(), ServiceBuilder::new(&[("a", 1), ("b", 1)])] {
        let service = builder.start();
        let gpu = service.gpu("a");
        let module = gpu.module(MODULE.as_bytes()).expect("two of three can run");
        let verdicts: Vec<_> = module
            .kernels()
            .iter()
            .map(|kernel| (&*kernel.name, kernel.unusable.is_some()))
            .collect();
        let expected = [("endless", false), ("prints", false), ("clusters", true)];
        assert_eq!(verdicts, expected);
        let kernel = module.kernel("clusters").expect("it is named");
        let stream = gpu.stream().expect("a stream");
        let launch = stream.launch(&kernel, 1, 32, 0, &Args::new());
        match launch.and_then(|event| event.wait()) {
            Err(ClientError::Failed {
                status, message, ..
            }) => {
                assert_eq!(status, CompletionStatus::BadKernel);
                assert_eq!(Some(&message), kernel.info().unusable.as_ref());
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_kernel_whose_grid_cannot_be_cut_says_why_to_its_client_and_to_the_operator() {
    const MODULE: &[u8] = b".version 8.0\n.target sm_80\n.address_size 64\n\
        .visible .entry asks()\n{\n.reg .b64 %rd<2>;\nmov.u64 %rd1, %gridid;\nret;\n}\n\
        .visible .entry plain()\n{\nret;\n}\n";
    let service = two_tenants().start();
    let gpu = service.gpu("a");
    let module = gpu.module(MODULE).expect("both can run");
    let undivided = |name| {
        module
            .kernel(name)
            .expect("it is named")
            .info()
            .undivided
            .clone()
    };
    assert_eq!(undivided("plain"), None);
    let reason = undivided("asks").expect("its grid cannot be cut");
    assert!(reason.contains("%gridid"), "{reason}");
    let kernel = module.kernel("asks").expect("it is named");
    let stream = gpu.stream().expect("a stream");
    let launch = stream.launch(&kernel, 300, 32, 0, &Args::new());
    launch
        .and_then(|event| event.wait())
        .expect("it runs as a whole");
    service.await_line(&["cannot be cut", "%gridid"]);
}
