//! Contract: what a client asks of the device beyond launches and copies is really done, through the real service:
//! copies and fills on the device, waits across streams, module variables, and the facts that programs ask for.

use gridmux_channel::control::ControlCode;
use gridmux_channel::session::CallError;
use gridmux_tenant::{Args, ClientError, ConnectOptions, Gpu};
use gridmux_tests::{Service, ServiceBuilder};

/// A variable that a kernel counts in, a constant that it adds, and memory of its own that it spills to.
const PTX: &str = include_str!("counter.ptx");

fn service() -> Service {
    ServiceBuilder::new(&[("one", 1)]).start()
}

fn connect(service: &Service) -> Gpu {
    service.gpu("one")
}

#[test]
fn memory_is_copied_and_filled_without_the_host() {
    let service = service();
    let gpu = connect(&service);
    let stream = gpu.stream().unwrap();
    let from = gpu.alloc_of::<u32>(1 << 20).unwrap();
    let to = gpu.alloc_of::<u32>(1 << 20).unwrap();
    let values: Vec<u32> = (0..1 << 20).collect();
    stream.upload(&from, &values).unwrap();
    stream.fill(to.untyped(), 0, 4 << 20, 0).unwrap();
    // More than one piece of the copy engine, from and to odd places.
    let len = (3 << 20) + 7;
    stream
        .copy_on_device(from.untyped(), 5, to.untyped(), 9, len)
        .unwrap();
    stream.fill_u16(to.untyped(), 0, 6, 0x0102).unwrap();
    stream
        .fill_u32(to.untyped(), (4 << 20) - 8, 8, 0x0a0b_0c0d)
        .unwrap();
    let mut back = vec![0; 1 << 20];
    stream.download(&to, &mut back).unwrap();
    let bytes =
        |values: &[u32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let mut expected = vec![0_u8; 4 << 20];
    let len = usize::try_from(len).unwrap();
    expected[9..9 + len].copy_from_slice(&bytes(&values)[5..5 + len]);
    expected[..6].copy_from_slice(&[2, 1, 2, 1, 2, 1]);
    expected[(4 << 20) - 8..].copy_from_slice(&[13, 12, 11, 10, 13, 12, 11, 10]);
    assert!(bytes(&back) == expected, "the memory holds something else");
}

#[test]
fn a_copy_on_the_device_takes_device_time_in_proportion() {
    let service = service();
    let gpu = connect(&service);
    let stream = gpu.stream().unwrap();
    let (from, to) = (gpu.alloc(64 << 20).unwrap(), gpu.alloc(64 << 20).unwrap());
    let took = |bytes| {
        let before = stream.record().unwrap().wait().unwrap();
        stream.copy_on_device(&from, 0, &to, 0, bytes).unwrap();
        let after = stream.record().unwrap().wait().unwrap();
        after.end_ns - before.end_ns
    };
    let (small, large) = (took(1 << 20), took(64 << 20));
    assert!(large > 2 * small, "{small} and {large} ns");
}

#[test]
fn a_stream_waits_for_an_event_of_another() {
    let service = service();
    let gpu = connect(&service);
    let slow = gpu.module(PTX.as_bytes()).unwrap().kernel("slow").unwrap();
    let (first, second) = (gpu.stream().unwrap(), gpu.stream().unwrap());
    let out = gpu.alloc(4).unwrap();
    let args = |value, rounds| Args::new().buffer(&out).u32(value).u32(rounds);
    let run = |value: u32, wait: bool| {
        let long = first.launch(&slow, 1, 1, 0, &args(value, 20_000)).unwrap();
        let mark = first.record().unwrap();
        if wait {
            second.wait_event(&mark).unwrap();
        }
        let short = second.launch(&slow, 1, 1, 0, &args(value + 1, 1)).unwrap();
        (long.wait().unwrap(), short.wait().unwrap())
    };
    let (long, short) = run(10, false);
    assert!(
        short.end_ns < long.end_ns,
        "without the wait the short one overtakes: {short:?}, {long:?}"
    );
    let (long, short) = run(20, true);
    assert!(long.end_ns <= short.start_ns, "{long:?}, {short:?}");
    let mut last = [0; 4];
    second.copy_from(&out, 0, &mut last).unwrap();
    assert_eq!(u32::from_le_bytes(last), 21, "the short one wrote last");
}

#[test]
fn a_modules_variables_are_memory_of_the_tenants() {
    let service = service();
    let gpu = connect(&service);
    let module = gpu.module(PTX.as_bytes()).unwrap();
    let stream = gpu.stream().unwrap();
    let names: Vec<_> = module
        .globals()
        .iter()
        .map(|global| (global.name.as_str(), global.bytes))
        .collect();
    assert_eq!(names, [("counter", 4), ("scratch", 40), ("step", 4)]);
    let (counter, step) = (
        module.global("counter").unwrap(),
        module.global("step").unwrap(),
    );
    let mut value = [0; 4];
    stream.copy_from(&counter, 0, &mut value).unwrap();
    assert_eq!(u32::from_le_bytes(value), 5, "its initial value");
    stream.copy_to(&counter, 0, &100_u32.to_le_bytes()).unwrap();
    stream.copy_to(&step, 0, &7_u32.to_le_bytes()).unwrap();
    let out = gpu.alloc(4).unwrap();
    let count = module.kernel("count").unwrap();
    let args = Args::new().buffer(&out);
    stream
        .launch(&count, 1, 1, 0, &args)
        .unwrap()
        .wait()
        .unwrap();
    stream.copy_on_device(&counter, 0, &out, 0, 4).unwrap();
    stream.copy_from(&out, 0, &mut value).unwrap();
    assert_eq!(u32::from_le_bytes(value), 107);
    assert!(matches!(
        module.global("spill"),
        Err(ClientError::NoGlobal { .. })
    ));
}

#[test]
fn kernels_and_the_device_say_what_programs_ask() {
    let service = service();
    let gpu = connect(&service);
    let module = gpu.module(PTX.as_bytes()).unwrap();
    let count = module.kernel("count").unwrap();
    let info = count.info();
    let facts = gpu.facts();
    assert!(info.local_bytes >= 24, "{info:?}");
    assert_eq!(
        (info.const_bytes, info.static_shared_bytes),
        (4, 128),
        "{info:?}"
    );
    assert_eq!(
        info.max_dynamic_shared_bytes,
        facts.shared_bytes_per_block - 128
    );
    assert_eq!(info.ptx_version, 80);
    assert_eq!(facts.compute_capability, (9, 0));
    assert_eq!(
        (facts.sm.threads, facts.sm.blocks, facts.warp_size),
        (2048, 32, 32)
    );
    assert_eq!((facts.sm.registers, facts.sm.register_unit), (65_536, 256));
    assert_eq!(
        (facts.sm.shared_bytes, facts.sm.shared_unit_bytes),
        (233_472, 128)
    );
    assert_eq!(facts.default_shared_bytes_per_block, 48 << 10);
    assert_eq!(facts.reserved_shared_bytes_per_block, 1024);
    assert_eq!(facts.max_block, [1024, 1024, 64]);
    assert_eq!(facts.max_grid, [0x7fff_ffff, 65_535, 65_535]);
    assert!(facts.l2_bytes > 0 && facts.memory_clock_khz > 0 && facts.memory_bus_bits > 0);
    assert_eq!((facts.constant_bytes, facts.copy_engines), (64 << 10, 2));
    assert_eq!(facts.concurrent_kernels, 128);
    let before = gpu.memory_info().unwrap();
    let _held = gpu.alloc(1 << 20).unwrap();
    let after = gpu.memory_info().unwrap();
    assert_eq!(before.total_bytes, after.total_bytes);
    assert_eq!(before.free_bytes - after.free_bytes, 1 << 20);
}

#[test]
fn an_allocation_of_nothing_is_a_bad_request() {
    let service = service();
    match connect(&service).alloc(0) {
        Err(ClientError::Call(CallError::Control(error))) => {
            assert_eq!(error.code, ControlCode::BadRequest);
            assert!(error.message.contains("0 bytes"), "{error:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn launches_and_operations_are_counted_apart() {
    let service = service();
    let gpu = connect(&service);
    let count = gpu.module(PTX.as_bytes()).unwrap().kernel("count").unwrap();
    let stream = gpu.stream().unwrap();
    let out = gpu.alloc(4).unwrap();
    stream.fill(&out, 0, 4, 0).unwrap();
    for _ in 0..3 {
        let args = Args::new().buffer(&out);
        stream.launch(&count, 1, 1, 0, &args).unwrap();
    }
    let mut back = [0; 4];
    stream.copy_from(&out, 0, &mut back).unwrap();
    stream.synchronize().unwrap();
    let usage = gpu.usage().unwrap();
    assert_eq!(usage.launches, 3, "{usage:?}");
    assert!(usage.operations >= 5, "a fill and a copy more: {usage:?}");
}

#[test]
fn a_client_names_the_tenant_that_it_is() {
    let service = service();
    let ask = |tenant: &str| {
        let options = ConnectOptions {
            name: "client".into(),
            tenant: Some(tenant.into()),
        };
        Gpu::connect_to(service.socket(), options)
    };
    let denied = |tenant: &str| match ask(tenant) {
        Err(ClientError::Call(CallError::Control(error))) => error,
        other => panic!("{tenant:?}: {other:?}"),
    };
    let error = denied("two");
    assert_eq!(error.code, ControlCode::Denied);
    assert!(error.message.contains("\"two\""), "{error:?}");
    let longest = "x".repeat(32);
    assert_eq!(denied(&longest).code, ControlCode::Denied);
    let over = ask(&format!("{longest}x"));
    assert!(
        matches!(over, Err(ClientError::TenantName { most: 32, .. })),
        "{over:?}"
    );
    let gpu = ask("one").unwrap();
    assert_eq!(gpu.welcome().tenant, "one");
    assert_eq!(gpu.welcome().name, "client");
}

#[test]
fn threads_of_one_client_compute_side_by_side() {
    let service = service();
    let gpu = connect(&service);
    let slow = gpu.module(PTX.as_bytes()).unwrap().kernel("slow").unwrap();
    std::thread::scope(|scope| {
        for number in 0..4_u32 {
            let (gpu, slow) = (&gpu, slow.clone());
            scope.spawn(move || {
                let stream = gpu.stream().unwrap();
                for round in 0..20 {
                    let out = gpu.alloc(4).unwrap();
                    let value = number * 1000 + round;
                    let args = Args::new().buffer(&out).u32(value).u32(50);
                    let event = stream.launch(&slow, 1, 1, 0, &args).unwrap();
                    event.wait().unwrap();
                    let mut back = [0; 4];
                    stream.copy_from(&out, 0, &mut back).unwrap();
                    assert_eq!(u32::from_le_bytes(back), value);
                }
                gpu.think();
            });
        }
    });
    assert_eq!(service.tenant("one").usage.failed, 0);
}
