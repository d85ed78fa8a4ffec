//! Loading a module onto the model: what it keeps others from, and what it is said to take.

use gridmux_mediator::compiler::compile;
use gridmux_mediator::device::Isolation;
use gridmux_mediator::device::model::{self, OpenModel};
use gridmux_mediator::device::{DeviceControl, DomainId, Timing};
use gridmux_mediator::waker::Waker;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const HEAD: &str = ".version 7.0\n.target sm_70\n.address_size 64\n";

fn open() -> (OpenModel, DomainId) {
    let waker = Arc::new(Waker::new().unwrap());
    let budget = Duration::from_secs(100);
    let setup = model::Setup {
        timing: Timing::Functional,
        memory_bytes: 4 << 30,
        cpu_budget: budget,
        isolation: Isolation::Shared,
    };
    let open = model::open("h200", Some(4), setup, &waker).unwrap();
    let domain = open.control.create_domain(1 << 30).unwrap();
    (open, domain)
}

/// Returns a kernel whose blocks go everywhere: `blocks` of them, each with a branch to one far away.
fn tangled(blocks: usize) -> String {
    let mut text = format!("{HEAD}.visible .entry k() {{\n.reg .pred %p;\n.reg .u32 %r;\n");
    for n in 0..blocks {
        let target = n * 7919 % blocks;
        writeln!(text, "L{n}: add.u32 %r, %r, 1;\n@%p bra L{target};").unwrap();
    }
    text + "ret;\n}\n"
}

#[test]
fn others_use_the_device_while_a_large_module_is_loaded() {
    let module = compile(tangled(100_000).into()).unwrap();
    let (open, domain) = open();
    let control: &dyn DeviceControl = &*open.control;
    let (begun, is_loaded) = (AtomicBool::new(false), AtomicBool::new(false));
    let answers = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            // Release: pairs with the Acquire below.
            begun.store(true, Ordering::Release);
            let loaded = control.load(domain, &module);
            // Release: pairs with the Acquire below.
            is_loaded.store(true, Ordering::Release);
            loaded.map(drop).unwrap();
        });
        // Acquire: pairs with the Release above.
        while !begun.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let mut answers = 0;
        // Acquire: pairs with the Release above.
        while !is_loaded.load(Ordering::Acquire) {
            control.used_bytes(domain);
            answers += 1;
        }
        load.join().unwrap();
        answers
    });
    // A lock that was held for all of the loading would let two through: before it is taken, and after it.
    assert!(answers > 100, "{answers}");
}

#[test]
fn a_module_takes_memory_in_proportion_to_its_instructions() {
    let (open, domain) = open();
    let bytes = |blocks: usize| {
        let module = compile(tangled(blocks).into()).unwrap();
        let loaded = open.control.load(domain, &module).unwrap();
        open.control.unload(domain, loaded.id);
        loaded.host_bytes
    };
    let (small, large) = (bytes(1000), bytes(10_000));
    assert!((9..=11).contains(&(large / small)), "{small} and {large}");
    // An instruction is never less than an operation and its origin.
    assert!(small > 2000 * 64, "{small}");
}

#[test]
fn kernels_that_each_call_the_same_large_functions_are_refused_before_they_fill_the_host() {
    let mut text = format!("{HEAD}.func f() {{\n.reg .u32 %r;\n");
    for _ in 0..100_000 {
        text += "add.u32 %r, %r, 1;\n";
    }
    text += "ret;\n}\n";
    for n in 0..100 {
        let comment = "/".repeat(128);
        writeln!(
            text,
            "{comment}\n.visible .entry k{n}() {{ call.uni f; ret; }}"
        )
        .unwrap();
    }
    let (open, domain) = open();
    let loaded = open
        .control
        .load(domain, &compile(text.into()).unwrap())
        .unwrap();
    let refused: Vec<&str> = loaded
        .kernels
        .iter()
        .filter_map(|k| k.unusable.as_deref())
        .collect();
    // 4 Mi operations hold 41 times 100,003.
    assert_eq!(refused.len(), 59);
    assert!(
        refused[0].contains("kernel 'k41'") && refused[0].contains("4194304"),
        "{}",
        refused[0]
    );
}

#[test]
fn shared_memory_beyond_32_bits_is_refused_with_its_size() {
    let (open, domain) = open();
    let text = format!(
        "{HEAD}.visible .entry k() {{\n.shared .b8 big[6442450944];\n.reg .u64 %r;\nmov.u64 %r, big;\nret;\n}}\n"
    );
    let module = compile(text.into()).unwrap();
    let error = open
        .control
        .load(domain, &module)
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(error.contains("6442450944"), "{error}");
}

#[test]
fn local_memory_is_refused_with_its_size_whatever_that_is_modulo_32_bits() {
    let (open, domain) = open();
    for bytes in [
        65_537_u64,
        1 << 31,
        (1 << 32) - 1,
        1 << 32,
        (1 << 32) + 16,
        1 << 40,
    ] {
        let text = format!(
            "{HEAD}.visible .entry k() {{\n.local .b8 big[{bytes}];\n.reg .u64 %r;\nmov.u64 %r, big;\nret;\n}}\n"
        );
        // The front end may refuse it as well as the model does.
        let refused = compile(text.into()).map_err(|error| error.to_string());
        let refused = refused.and_then(|module| {
            let loaded = open.control.load(domain, &module);
            loaded.map(drop).map_err(|error| error.to_string())
        });
        let error = refused.expect_err("no thread has so much");
        assert!(error.contains("local"), "{bytes}: {error}");
    }
}

/// A module of 64 times as many pairs of blocks would take 64 times as long if pairs mattered, and 8 times as long if
/// blocks do. It is processor time of this thread, so that whatever else the machine does is not counted, though a busy
/// neighbour's use of the caches is: hence the least of three, and a bound between the two.
#[test]
fn a_tangled_module_loads_in_time_in_proportion_to_its_blocks() {
    let (open, domain) = open();
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    let used = || std::time::Duration::from(nix::time::clock_gettime(clock).unwrap());
    let least = |blocks: usize| {
        let module = compile(tangled(blocks).into()).unwrap();
        let load = |_| {
            let before = used();
            let loaded = open.control.load(domain, &module).unwrap();
            let took = used() - before;
            open.control.unload(domain, loaded.id);
            took
        };
        (0..3).map(load).min().unwrap()
    };
    let (small, large) = (least(10_000), least(80_000));
    assert!(large < small * 24, "{small:?} and {large:?}");
}
