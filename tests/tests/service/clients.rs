//! Contract: a tenant is who is accounted, a client is who is connected. Any number of clients of a tenant share its
//! limits and its counters; who a client may be is the configuration's word and the kernel's.

use gridmux_channel::control::{
    CONTROL_VERSION, ControlCode, ControlReply, ControlRequest, MAX_REPLY_BYTES,
};
use gridmux_channel::memory::Protection;
use gridmux_channel::ring::{CompletionStatus, Copy, Launch, Operation};
use gridmux_channel::session::{CallError, Session};
use gridmux_tenant::{ClientError, Gpu};
use gridmux_tests::{Bench, RawTenant, ServiceBuilder, assert_names, connect, until};
use gridmux_workloads::Size;

const CLIENTS: usize = 200;
const TENANTS: usize = 100;

#[track_caller]
fn refused(outcome: Result<Gpu, ClientError>, parts: &[&str]) {
    let Err(error) = outcome else {
        panic!("a client was let in");
    };
    assert_names(&error, parts);
}

#[test]
fn two_clients_of_a_tenant_share_its_limit_and_its_counters() {
    const MIB: u64 = 1 << 20;
    let service = ServiceBuilder::new(&[("pair", 1), ("other", 1)])
        .tenant_key("pair", "memory_limit_bytes = 16777216")
        .start();
    let (one, two) = (service.gpu("pair"), service.gpu("pair"));
    assert_ne!(one.welcome().client, two.welcome().client);
    assert_eq!(one.welcome().tenant_id, two.welcome().tenant_id);
    for (gpu, workload) in [(&one, "vecadd"), (&two, "reduction"), (&one, "matmul")] {
        let bench = Bench::set_up(gpu, workload, Size::Tiny, 3).unwrap();
        bench.run(gpu).unwrap();
    }
    let tenant = service.tenant("pair");
    assert_eq!((tenant.clients.len(), tenant.latency.count), (2, 3));
    assert_eq!(service.tenant("other").clients.len(), 0);

    let held = one.alloc(10 * MIB).unwrap();
    let parts = ["10485760 bytes", "16777216", "tenant pair", "clients (2)"];
    assert_names(&two.alloc(10 * MIB).unwrap_err(), &parts);
    assert!(
        two.usage().unwrap().memory_bytes >= 10 * MIB,
        "the tenant's"
    );
    drop(held);
    // What one client gives back is the other's as soon as no operation under way can use it.
    let room = until("the memory that was given back", || {
        two.alloc(10 * MIB).ok()
    });
    drop(room);

    drop(one);
    let left = until("the end of one client", || {
        let tenant = service.tenant("pair");
        (tenant.clients.len() == 1).then_some(tenant)
    });
    assert_eq!(left.latency.count, 3, "history survives clients");
    drop(two);
    service.await_gone("pair");
    let tenant = service.tenant("pair");
    assert_eq!((tenant.memory_used_bytes, tenant.usage.pending), (0, 0));
    assert_eq!(tenant.latency.count, 3);
}

#[test]
fn a_client_is_refused_a_tenant_that_it_may_not_be_and_may_be_another() {
    let service = ServiceBuilder::new(&[("theirs", 1), ("ours", 1), ("none", 1)])
        .tenant_key("theirs", "user = 4294967000")
        .tenant_key("none", "cgroup = \"/no/such/group\"")
        .start();
    for foreign in ["theirs", "none", "unheard-of"] {
        refused(
            connect(&service.socket(), foreign),
            &["may not be tenant", foreign, "you may be: ours"],
        );
    }
    let gpu = Gpu::connect(service.socket()).unwrap();
    assert_eq!(gpu.welcome().tenant, "ours", "the first that it may be");
    let again = gpu.reconnect().unwrap();
    assert_eq!(again.welcome().tenant, "ours");
}

#[test]
fn a_process_that_matches_no_tenant_is_told_so_and_disconnected() {
    let service = ServiceBuilder::new(&[("theirs", 1)])
        .tenant_key("theirs", "user = 4294967000")
        .start();
    for _ in 0..100 {
        refused(Gpu::connect(service.socket()), &["matches no tenant"]);
    }
    let mut session = Session::connect(&service.socket()).unwrap();
    let hello = ControlRequest::Hello {
        name: "stranger".into(),
        client_version: CONTROL_VERSION,
        tenant: Some("theirs".into()),
    };
    let error = session.control(&hello).unwrap_err();
    assert!(
        matches!(&error, CallError::Control(error) if error.code == ControlCode::Denied),
        "{error:?}"
    );
    until("the stranger to be disconnected", || {
        session.is_closed().then_some(())
    });
    assert_eq!(service.statistics().host_restarts, 0);
}

#[test]
fn a_client_of_another_version_is_told_both_versions() {
    let service = ServiceBuilder::new(&[("ours", 1)]).start();
    let mut session = Session::connect(&service.socket()).unwrap();
    let hello = ControlRequest::Hello {
        name: "old".into(),
        client_version: CONTROL_VERSION - 1,
        tenant: None,
    };
    let Err(CallError::Control(error)) = session.control(&hello) else {
        panic!("another version was accepted");
    };
    assert_eq!(error.code, ControlCode::Version);
    for version in [CONTROL_VERSION - 1, CONTROL_VERSION] {
        let said = format!("version {version}");
        let speaks = format!("speaks {version}");
        assert!(
            error.message.contains(&said) || error.message.contains(&speaks),
            "{version} is not in {error}"
        );
    }
}

#[test]
fn limits_on_clients_are_named_and_free_again_when_one_leaves() {
    let service = ServiceBuilder::new(&[("few", 1), ("many", 1)])
        .tenant_key("few", "clients = 1")
        .limit("clients", 3)
        .start();
    let first = service.gpu("few");
    refused(
        connect(&service.socket(), "few"),
        &["its limit is 1", "tenant few"],
    );
    let others = [service.gpu("many"), service.gpu("many")];
    refused(connect(&service.socket(), "many"), &["limits.clients", "3"]);
    drop(first);
    until("the place of the one that left", || {
        connect(&service.socket(), "few").ok()
    });
    drop(others);
}

#[test]
fn streams_are_given_back_and_asked_for_again_at_once() {
    let service = ServiceBuilder::new(&[("only", 1)]).start();
    let mut raw = RawTenant::connect(&service.socket(), "only");
    let ControlReply::Stream(first) = raw.session.control(&ControlRequest::CreateStream).unwrap()
    else {
        panic!("a stream was due");
    };
    let destroy = ControlRequest::DestroyStream { stream: first };
    raw.session.control(&destroy).unwrap();
    let error = raw.session.control(&destroy);
    // Either it has ended, or it is about to: it cannot be destroyed twice.
    assert!(matches!(error, Err(CallError::Control(_))), "{error:?}");

    // Every number there is, given back and asked for again at once, any number of times.
    for _ in 0..3 {
        let mut streams = Vec::new();
        for _ in 0..31 {
            match raw.session.control(&ControlRequest::CreateStream).unwrap() {
                ControlReply::Stream(number) => streams.push(number),
                other => panic!("{other:?}"),
            }
        }
        let full = raw.session.control(&ControlRequest::CreateStream);
        assert!(matches!(full, Err(CallError::Control(_))), "{full:?}");
        for stream in streams {
            let destroy = ControlRequest::DestroyStream { stream };
            raw.session.control(&destroy).unwrap();
        }
    }
}

/// Adds 1 to a word of the module's and stores the sum to a word of a buffer, after a while.
const SLOW: &str = include_str!("slow.ptx");

#[test]
fn what_is_given_back_stays_until_operations_under_way_have_ended() {
    const LAUNCHES: u64 = 100;
    const LIMIT: u64 = 16 << 20;
    let service = ServiceBuilder::new(&[("only", 1)])
        .tenant_key("only", &format!("memory_limit_bytes = {LIMIT}"))
        .start();
    let mut raw = RawTenant::connect(&service.socket(), "only");
    let address = raw.alloc(LIMIT / 2);
    let module = raw.load(SLOW.as_bytes()).unwrap();
    let args_offset = raw.rings.place_args(&address.to_le_bytes()).unwrap();
    let launch = Operation::Launch(Launch {
        kernel: module.kernels[0].handle,
        grid: [8, 1, 1],
        block: [128, 1, 1],
        shared_bytes: 0,
        args_offset,
        args_len: 8,
        is_cooperative: false,
    });
    let (iova, len) = raw.map(&[0; 4096], Protection::READ);
    let copy = Operation::CopyToDevice(Copy { iova, address, len });
    for _ in 0..LAUNCHES {
        raw.push(0, launch);
    }
    raw.push(0, copy);
    // The copy stands behind the launches, so it holds its buffer for as long as any of them is under way.
    until("everything to be admitted", || {
        let usage = service.tenant("only").usage;
        (usage.submitted == LAUNCHES + 1).then_some(())
    });
    let handle = module.handle;
    raw.session.dma_unmap(iova, len).unwrap();
    raw.session
        .control(&ControlRequest::UnloadModule { module: handle })
        .unwrap();
    raw.session
        .control(&ControlRequest::Free { address })
        .unwrap();
    let twice = raw.session.control(&ControlRequest::Free { address });
    assert!(matches!(twice, Err(CallError::Control(_))), "{twice:?}");
    // There is room for this only once the other half is free: the answer waits for that, instead of being refused.
    let next = raw.alloc(LIMIT / 2 + (1 << 20));
    for _ in 0..=LAUNCHES {
        let entry = raw.rings.pop_completion().unwrap();
        let entry = entry.expect("all that was under way has ended before the memory was free");
        assert_eq!(entry.status, CompletionStatus::Ok as u32, "{entry:?}");
    }
    raw.session
        .control(&ControlRequest::Free { address: next })
        .unwrap();
    until("everything that was given back", || {
        (service.tenant("only").memory_used_bytes == 0).then_some(())
    });
}

#[test]
fn a_launch_of_an_unloaded_module_names_a_kernel_that_is_not_there() {
    let service = ServiceBuilder::new(&[("only", 1)]).start();
    let mut raw = RawTenant::connect(&service.socket(), "only");
    let module = raw.load(SLOW.as_bytes()).unwrap();
    let unload = ControlRequest::UnloadModule {
        module: module.handle,
    };
    raw.session.control(&unload).unwrap();
    let args_offset = raw.rings.place_args(&0_u64.to_le_bytes()).unwrap();
    let launch = Operation::Launch(Launch {
        kernel: module.kernels[0].handle,
        grid: [1, 1, 1],
        block: [32, 1, 1],
        shared_bytes: 0,
        args_offset,
        args_len: 8,
        is_cooperative: false,
    });
    raw.push(0, launch);
    let entry = until("the completion", || raw.rings.pop_completion().unwrap());
    assert_eq!(
        entry.status,
        CompletionStatus::BadKernel as u32,
        "{entry:?}"
    );
}

#[test]
fn a_module_that_no_reply_can_describe_is_refused_and_unloaded() {
    const BYTES: u64 = 1 << 20;
    // There is room for the module's variable and kernels once, but not twice.
    const KERNELS: usize = 2100;
    let service = ServiceBuilder::new(&[("only", 1)])
        .tenant_key("only", &format!("memory_limit_bytes = {}", BYTES * 3 / 2))
        .start();
    let mut raw = RawTenant::connect(&service.socket(), "only");
    let module = |name: &str| {
        let kernels = (0..KERNELS).map(|n| format!(".visible .entry {name}{n}() {{ ret; }}\n"));
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .global .b8 x[{BYTES}];\n{}",
            kernels.collect::<String>()
        )
    };
    let overlong = module(&"k".repeat(MAX_REPLY_BYTES / KERNELS));
    for _ in 0..3 {
        let error = raw.load(overlong.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("the reply cannot be sent"), "{error}");
        until("the memory of the module's variable", || {
            (service.tenant("only").memory_used_bytes == 0).then_some(())
        });
    }
    // One that can be described takes what they gave back.
    let short = module(&"k".repeat(512));
    let loaded = raw.load(short.as_bytes()).unwrap();
    assert_eq!((loaded.kernels.len(), loaded.globals.len()), (KERNELS, 1));
}

#[test]
fn two_hundred_clients_of_a_hundred_tenants_launch_once_each() {
    let names: Vec<String> = (0..TENANTS).map(|number| format!("t{number}")).collect();
    let tenants: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let service = ServiceBuilder::new(&tenants).start();
    let clients: Vec<Gpu> = (0..CLIENTS)
        .map(|number| service.gpu(&names[number % TENANTS]))
        .collect();
    let statistics = service.statistics();
    assert!(
        statistics
            .host
            .tenants
            .iter()
            .all(|tenant| tenant.clients.len() == 2)
    );
    for gpu in &clients {
        gpu.think();
    }
    for gpu in &clients {
        let bench = Bench::set_up(gpu, "vecadd", Size::Tiny, 1).unwrap();
        bench.run(gpu).unwrap();
    }
    let statistics = service.statistics();
    for tenant in &statistics.host.tenants {
        assert_eq!(tenant.latency.count, 2, "{}", tenant.tenant.name);
        assert_eq!(tenant.usage.failed, 0, "{}", tenant.tenant.name);
    }
    drop(clients);
    until("the end of all clients", || {
        let tenants = service.statistics().host.tenants;
        tenants
            .iter()
            .all(|tenant| tenant.clients.is_empty() && tenant.usage.pending == 0)
            .then_some(())
    });
    assert_eq!(service.statistics().host.memory_used_bytes, 0);
}
