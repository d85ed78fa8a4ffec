//! Contract: bad input gets an error of its own that names the thing; the tenant that gave it keeps its channel, and
//! another tenant that works meanwhile notices nothing.

use gridmux_channel::control::{ControlRequest, ModulePart};
use gridmux_channel::memory::{Protection, SealedMemfd};
use gridmux_channel::ring::{CompletionStatus, Copy, DeviceCopy, Launch, Memset, Operation, Width};
use gridmux_tenant::{Args, ClientError, Gpu};
use gridmux_tests::{
    Bench, Bystander, ENDLESS, RawTenant, Service, ServiceBuilder, assert_names, failure, run,
};
use gridmux_workloads::{Size, by_name};
use std::os::fd::AsFd;

fn vecadd_ptx() -> &'static str {
    by_name("vecadd").expect("it is in the table").ptx
}

/// Runs `misbehave` as tenant `bad` while tenant `good` works, and then lets `bad` compute something right over the
/// same connection.
fn beside_a_bystander(builder: ServiceBuilder, misbehave: impl FnOnce(&Gpu, &Service)) {
    let service = builder.start();
    let host = service.statistics().host_pid;
    let bystander = Bystander::start(&service, "good", "reduction");
    let gpu = service.gpu("bad");
    misbehave(&gpu, &service);
    let bench = Bench::set_up(&gpu, "vecadd", Size::Tiny, 1).unwrap();
    bench.run(&gpu).unwrap();
    assert_eq!(service.tenant("good").usage.failed, 0);
    bystander.finish();
    assert_eq!(
        service.statistics().host_pid,
        host,
        "the device host is the same"
    );
}

fn two_tenants() -> ServiceBuilder {
    ServiceBuilder::new(&[("good", 1), ("bad", 1)])
}

#[test]
fn a_module_that_is_no_ptx_is_refused_with_line_and_column() {
    beside_a_bystander(two_tenants(), |gpu, _| {
        let ptx = vecadd_ptx();
        let end = ptx.rfind('}').unwrap();
        let error = gpu.module(&ptx.as_bytes()[..end]).unwrap_err();
        let open = ptx.lines().position(|line| line == "{").unwrap() + 1;
        let place = format!("{open}:1:");
        assert_names(
            &error,
            &["the module is not valid PTX", &place, "not closed"],
        );

        let line = ptx
            .lines()
            .position(|line| line.contains("ld.param"))
            .unwrap();
        let column = ptx.lines().nth(line).unwrap().find("ld.param").unwrap();
        let broken = ptx.replacen("ld.param", "?d.param", 1);
        let place = format!("{}:{}:", line + 1, column + 1);
        assert_names(
            &gpu.module(broken.as_bytes()).unwrap_err(),
            &["not valid PTX", &place, "?d.param"],
        );

        let mut bytes = ptx.as_bytes().to_vec();
        bytes[ptx.find("ld.param").unwrap()] = 0xff;
        assert_names(&gpu.module(&bytes).unwrap_err(), &["not valid PTX", &place]);

        let none = ".version 8.0\n.target sm_80\n.address_size 64\n";
        let nothing = gpu.module(none.as_bytes()).unwrap();
        assert_names(&nothing.kernel("k").unwrap_err(), &["no kernel `k`"]);
        assert_names(&gpu.module(b"").unwrap_err(), &["0 bytes"]);
    });
}

/// Returns the request to link and load what stands at these addresses, each with its length.
fn load(parts: &[(u64, u64)]) -> ControlRequest {
    let parts = parts.iter().map(|&(iova, len)| ModulePart { iova, len });
    ControlRequest::LoadModule {
        parts: parts.collect(),
    }
}

#[test]
fn a_module_over_the_limit_is_refused_before_it_is_read() {
    let service = two_tenants().start();
    let bystander = Bystander::start(&service, "good", "reduction");
    let mut bad = RawTenant::connect(&service.socket(), "bad");
    let limit = 64 << 20;
    let memfd = SealedMemfd::create("oversized", limit + 4096).unwrap();
    let iova = 1 << 40;
    bad.session
        .dma_map(iova, limit + 4096, 0, Protection::READ, memfd.as_fd())
        .unwrap();
    let error = bad
        .session
        .control(&load(&[(iova, limit), (iova, 1)]))
        .unwrap_err();
    assert_names(
        &error,
        &["67108865 bytes", "67108864", "limits.module_bytes"],
    );
    let error = bad.session.control(&load(&[(0x5000, 4096)])).unwrap_err();
    assert_names(&error, &["0x5000", "not mapped"]);
    let error = bad.session.control(&load(&[])).unwrap_err();
    assert_names(&error, &["0 texts", "1 to 256"]);
    let error = bad.session.control(&load(&[(iova, 1); 257])).unwrap_err();
    assert_names(&error, &["257 texts", "1 to 256"]);
    let error = bad
        .session
        .control(&load(&[(iova, 1), (iova, 0)]))
        .unwrap_err();
    assert_names(&error, &["part 2 of 2 is empty"]);
    bad.load(vecadd_ptx().as_bytes()).unwrap();
    bystander.finish();
}

#[test]
fn a_kernel_that_does_not_exist_is_named() {
    beside_a_bystander(two_tenants(), |gpu, _| {
        let module = gpu.module(vecadd_ptx().as_bytes()).unwrap();
        assert_names(&module.kernel("vecsub").unwrap_err(), &["vecsub", "vecadd"]);
    });
}

#[test]
fn a_shape_that_no_device_takes_is_refused() {
    beside_a_bystander(two_tenants(), |gpu, _| {
        let bench = Bench::set_up(gpu, "vecadd", Size::Tiny, 2).unwrap();
        let refused = |grid: [u32; 3], block: [u32; 3], shared, parts: &[&str]| {
            let stream = gpu.stream().unwrap();
            let launched = stream.launch(&bench.kernel, grid, block, shared, bench.args());
            let error = launched.and_then(|event| event.wait()).unwrap_err();
            let is_shape = error.status() == Some(CompletionStatus::BadShape);
            assert!(
                is_shape || matches!(&error, ClientError::Block { .. }),
                "{error:?}"
            );
            assert_names(&error, parts);
        };
        refused([0, 1, 1], [32, 1, 1], 0, &["grid dimension x is zero"]);
        refused([1, 1, 1], [32, 0, 1], 0, &["block dimension y is zero"]);
        let wide = ["grid dimension y is 65536", "65535"];
        refused([1, 65_536, 1], [32, 1, 1], 0, &wide);
        let long = ["grid dimension x", "2147483647"];
        refused([1 << 31, 1, 1], [32, 1, 1], 0, &long);
        refused([1 << 30, 65_535, 1], [32, 1, 1], 0, &["2^32 blocks"]);
        refused([1, 1, 1], [32, 32, 2], 0, &["2048 threads", "1024"]);
        refused([1, 1, 1], [70_000, 1, 1], 0, &["70000", "vecadd"]);
        let shared = ["1048576 bytes of shared memory"];
        refused([1, 1, 1], [32, 1, 1], 1 << 20, &shared);
        bench.run(gpu).unwrap();
    });
}

#[test]
fn parameters_that_do_not_fit_are_refused_by_the_client() {
    beside_a_bystander(two_tenants(), |gpu, _| {
        let bench = Bench::set_up(gpu, "vecadd", Size::Tiny, 3).unwrap();
        let launch = |args: &Args| {
            bench
                .stream
                .launch(&bench.kernel, 1, 32, 0, args)
                .map(drop)
                .unwrap_err()
        };
        assert_names(
            &launch(&Args::new().u64(0)),
            &["vecadd", "takes 4 parameters, 1"],
        );
        let narrow = Args::new().u64(0).u64(0).u32(0).u32(0);
        assert_names(
            &launch(&narrow),
            &["vecadd", "parameter 2 takes 8 bytes, 4"],
        );
        let misaligned = Args::new().u64(0).bytes(&[0; 8], 4).u64(0).u32(0);
        assert_names(
            &launch(&misaligned),
            &["vecadd", "parameter 1 is aligned to 8 bytes, not to 4"],
        );
        bench.run(gpu).unwrap();
    });
}

#[test]
fn submissions_that_make_no_sense_are_refused_by_the_mediator() {
    use CompletionStatus::{BadArguments, BadKernel, BadShape};
    let service = two_tenants().start();
    let bystander = Bystander::start(&service, "good", "reduction");
    let mut bad = RawTenant::connect(&service.socket(), "bad");
    let module = bad.load(vecadd_ptx().as_bytes()).unwrap();
    let kernel = module.kernels[0].clone();
    let launch = Launch {
        kernel: kernel.handle,
        grid: [1, 1, 1],
        block: [32, 1, 1],
        shared_bytes: 0,
        args_offset: 0,
        args_len: kernel.params_bytes,
        is_cooperative: false,
    };
    let short = kernel.params_bytes - 4;
    let wants = format!(
        "{} bytes of parameters, the launch has {short}",
        kernel.params_bytes
    );
    let area = format!("4+{} lie outside", kernel.params_bytes);
    type Change = fn(&mut Launch);
    let cases: [(Change, CompletionStatus, &str); 6] = [
        (|it| it.args_len -= 4, BadArguments, &wants),
        (|it| it.args_offset = 4, BadArguments, &area),
        (
            |it| it.args_offset = u32::MAX - 7,
            BadArguments,
            "outside the argument area",
        ),
        (|it| it.kernel = 999, BadKernel, "kernel handle 999"),
        (|it| it.grid[0] = 0, BadShape, "grid dimension x is zero"),
        (
            |it| it.block = [1024, 1024, 64],
            BadShape,
            "67108864 threads",
        ),
    ];
    for (change, status, text) in cases {
        let mut launch = launch;
        change(&mut launch);
        let (found, said) = bad.submit(Operation::Launch(launch));
        assert_eq!(found, status, "{launch:?}: {said}");
        assert_names(&said, &[text]);
    }
    let (status, said) = bad.submit_on(77, Operation::Barrier);
    assert_eq!(status, CompletionStatus::BadStream);
    assert_names(&said, &["stream 77"]);
    assert_eq!(bad.submit(Operation::Barrier).0, CompletionStatus::Ok);
    bystander.finish();
}

fn memset(address: u64, len: u64) -> Operation {
    elements(address, len, 1, Width::One)
}

fn elements(address: u64, len: u64, value: u32, width: Width) -> Operation {
    Operation::Memset(Memset {
        address,
        len,
        value,
        width,
    })
}

/// Returns a copy of a page to the device.
fn to_device(iova: u64, address: u64) -> Operation {
    let len = 4096;
    Operation::CopyToDevice(Copy { iova, address, len })
}

/// Returns a copy of a page from the device.
fn from_device(iova: u64, address: u64) -> Operation {
    let len = 4096;
    Operation::CopyFromDevice(Copy { iova, address, len })
}

fn on_device(from: u64, to: u64) -> Operation {
    Operation::CopyOnDevice(DeviceCopy { from, to, len: 8 })
}

#[test]
fn a_memset_of_broken_elements_is_refused_by_the_mediator() {
    let service = two_tenants().start();
    let mut bad = RawTenant::connect(&service.socket(), "bad");
    let address = bad.alloc(4096);
    for (operation, said) in [
        (
            elements(address + 2, 8, 0, Width::Four),
            "elements of 4 bytes",
        ),
        (elements(address, 7, 0, Width::Two), "a memset of 7 bytes"),
        (elements(address, 8, 1 << 16, Width::Two), "0x10000"),
        (elements(address, 8, 256, Width::One), "0x100"),
    ] {
        let (status, text) = bad.submit(operation);
        assert_eq!(status, CompletionStatus::BadEntry, "{operation:?}");
        assert_names(&text, &[said]);
    }
    let good = elements(address, 4096, 7, Width::Four);
    assert_eq!(bad.submit(good).0, CompletionStatus::Ok);
    // A wait for what was never submitted is over at once.
    let wait = Operation::Wait { cookie: u64::MAX };
    assert_eq!(bad.submit(wait).0, CompletionStatus::Ok);
}

#[test]
fn copies_out_of_bounds_are_refused_by_the_mediator() {
    let service = two_tenants().start();
    let bystander = Bystander::start(&service, "good", "reduction");
    let mut bad = RawTenant::connect(&service.socket(), "bad");
    let address = bad.alloc(4096);
    let (iova, size) = bad.map(&[7; 4096], Protection::READ_WRITE);
    let (sealed, _) = bad.map(&[1; 4096], Protection::READ);
    let bad_address = CompletionStatus::BadAddress;
    let bad_iova = CompletionStatus::BadIova;
    let beyond = address + (1 << 40);
    let (shifted, far) = (iova + 8, iova + size + (1 << 30));
    let hex = |address: u64| format!("{address:#x}");
    let cases = [
        (to_device(iova, beyond), bad_address, hex(beyond)),
        (from_device(iova, 0), bad_address, hex(0)),
        (memset(beyond, 8), bad_address, hex(beyond)),
        (memset(address, u64::MAX), bad_address, hex(address)),
        (on_device(beyond, address), bad_address, hex(beyond)),
        (on_device(address, beyond), bad_address, hex(beyond)),
        (to_device(shifted, address), bad_iova, hex(shifted)),
        (
            from_device(far, address),
            bad_iova,
            "outside every mapped".into(),
        ),
        (from_device(u64::MAX, address), bad_iova, hex(u64::MAX)),
        (from_device(sealed, address), bad_iova, hex(sealed)),
    ];
    for (operation, status, text) in cases {
        let (found, said) = bad.submit(operation);
        assert_eq!(found, status, "{operation:?}: {said}");
        assert_names(&said, &[&text]);
    }
    let good = bad.submit(to_device(iova, address));
    assert_eq!(good.0, CompletionStatus::Ok);
    bystander.finish();
}

#[test]
fn copies_out_of_bounds_are_refused_by_the_client() {
    let service = two_tenants().start();
    let gpu = service.gpu("bad");
    let stream = gpu.stream().unwrap();
    let buffer = gpu.alloc(100).unwrap();
    assert_names(
        &stream.copy_to(&buffer, 96, &[0; 8]).unwrap_err(),
        &["8 bytes at offset 96", "100 bytes"],
    );
    assert_names(
        &stream
            .copy_from(&buffer, u64::MAX, &mut [0; 8])
            .unwrap_err(),
        &["outside the buffer"],
    );
}

#[test]
fn an_access_out_of_bounds_in_a_kernel_names_kernel_and_address() {
    beside_a_bystander(two_tenants(), |gpu, _| {
        let bench = Bench::set_up(gpu, "vecadd", Size::Tiny, 4).unwrap();
        let wild = 0x7abc_0000_0000_u64;
        let inputs: Vec<u64> = bench.buffers().map(|buffer| buffer.address()).collect();
        let args = Args::new().u64(inputs[0]).u64(inputs[1]).u64(wild).u32(32);
        let error = failure(gpu, &bench.kernel, 32, &args, CompletionStatus::MemoryFault);
        assert_names(
            &error,
            &[
                "kernel 'vecadd'",
                "wrote 4 bytes",
                "0x7abc00000000",
                "PTX line",
            ],
        );
        bench.run(gpu).unwrap();
    });
}

#[test]
fn an_endless_kernel_ends_with_its_budget() {
    let budget = 1_000_000;
    beside_a_bystander(
        two_tenants().limit("kernel_budget_cycles", budget),
        |gpu, _| {
            let module = gpu.module(ENDLESS.as_bytes()).unwrap();
            let kernel = module.kernel("endless").unwrap();
            let error = failure(gpu, &kernel, 32, &Args::new(), CompletionStatus::Budget);
            assert_names(&error, &["kernel 'endless'", "budget of 1000000 cycles"]);
        },
    );
}

#[test]
fn a_second_service_in_the_folder_is_told_who_owns_it() {
    beside_a_bystander(two_tenants(), |_, service| {
        let folder = service.folder().to_str().unwrap();
        let line = format!(
            "serve --config {folder}/gridmux.toml --run-dir {folder} --instance second --tenant good"
        );
        let (code, said) = run(line.split_whitespace());
        assert_eq!(code, Some(1));
        let text = said["error"].as_str().unwrap().to_owned();
        assert_names(&text, &[folder, &format!("process {}", service.pid())]);
    });
}

#[test]
fn an_unknown_key_in_the_configuration_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gridmux.toml");
    for (text, key) in [
        ("schema_version = 1\npolcy = \"fifo\"\n", "polcy"),
        (
            "schema_version = 1\n[limits]\nkernel_budget = 5\n",
            "kernel_budget",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        let (code, said) = run(["serve", "--config", path.to_str().unwrap()]);
        assert_eq!(code, Some(1));
        let text = said["error"].as_str().unwrap().to_owned();
        assert_names(&text, &[path.to_str().unwrap(), key]);
    }
}
