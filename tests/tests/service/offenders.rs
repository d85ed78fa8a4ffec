//! Contract: a tenant whose kernels never end, or print without end, keeps nobody from getting on, with the limits that
//! the service has by default or with lower ones; and it loses nothing but its own launches.

use gridmux_channel::ring::CompletionStatus;
use gridmux_tenant::{Args, Event};
use gridmux_testkit::kernels::PRINTING;
use gridmux_tests::{Bystander, ENDLESS, RawTenant, Service, ServiceBuilder, bare_launch, until};

/// Launches of the honest tenant that are to complete beside the offender.
const LAUNCHES: u64 = 2;

/// Lets tenant `bad` offend while tenant `good` works, and leave: then, or, with what `offend` returns, afterwards.
fn beside_a_bystander<T>(builder: ServiceBuilder, offend: impl FnOnce(&Service, &Bystander) -> T) {
    let service = builder.start();
    let host = service.statistics().host_pid;
    let bystander = Bystander::start(&service, "good", "vecadd");
    let leaves_later = offend(&service, &bystander);
    bystander.finish();
    assert_eq!(service.tenant("good").usage.failed, 0);
    drop(leaves_later);
    service.await_gone("bad");
    assert_eq!(service.statistics().host_pid, host);
}

fn two_tenants() -> ServiceBuilder {
    ServiceBuilder::new(&[("good", 1), ("bad", 1)])
}

#[test]
fn an_endless_kernel_at_the_default_budget_keeps_nobody_waiting() {
    beside_a_bystander(two_tenants(), |service, bystander| {
        // The client library would wait for the launches before it leaves; this tenant leaves while they run.
        let mut bad = RawTenant::connect(&service.socket(), "bad");
        let module = bad.load(ENDLESS.as_bytes()).unwrap();
        for _ in 0..3 {
            bad.push(0, bare_launch(&module, [64, 1, 1], [256, 1, 1]));
        }
        until("the endless kernel to be on the device", || {
            (service.tenant("bad").usage.slices > 0).then_some(())
        });
        bystander.await_more(LAUNCHES);
        let usage = service.tenant("bad").usage;
        assert_eq!((usage.pending, usage.completed), (3, 0), "{usage:?}");
    });
}

#[test]
fn a_printf_flood_ends_with_its_budget_and_its_tenant_goes_behind() {
    let builder = two_tenants().limit("kernel_budget_cpu_seconds", 1);
    beside_a_bystander(builder, |service, bystander| {
        let gpu = service.gpu("bad");
        let module = gpu.module(PRINTING.as_bytes()).unwrap();
        let kernel = module.kernel("printing").unwrap();
        let stream = gpu.stream().unwrap();
        // More lines than a thread prints within its budget.
        let args = Args::new().u64(0).u32(u32::MAX);
        let launch = |_| stream.launch(&kernel, 64, 256, 0, &args).unwrap();
        let events: Vec<Event> = (0..3).map(launch).collect();
        bystander.await_more(LAUNCHES);
        for event in &events[..2] {
            let error = event.wait().unwrap_err();
            assert_eq!(error.status(), Some(CompletionStatus::Budget), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("limits.kernel_budget_cpu_seconds"), "{text}");
        }
        until("the tenant to be behind the others", || {
            service.tenant("bad").usage.is_behind.then_some(())
        });
        bystander.await_more(LAUNCHES);
        // The library waits for the third launch before it leaves, which has its turn when the others are gone.
        (gpu, module, stream)
    });
}
