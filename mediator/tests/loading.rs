//! Loading a module onto the model: what it keeps others from, and what it is said to take.

use gridmux_mediator::compiler::compile;
use gridmux_mediator::device::model::{self, OpenModel};
use gridmux_mediator::device::{DeviceControl, DomainId, Timing};
use gridmux_mediator::waker::Waker;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HEAD: &str = ".version 7.0\n.target sm_70\n.address_size 64\n";

fn open() -> (OpenModel, DomainId) {
    let waker = Arc::new(Waker::new().unwrap());
    let budget = Duration::from_secs(100);
    let open = model::open("h200", Some(4), Timing::Functional, 4 << 30, budget, &waker).unwrap();
    let domain = open.control.create_domain(1 << 30).unwrap();
    (open, domain)
}

/// A kernel whose blocks go everywhere: `blocks` of them, each with a branch to one far away.
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
    let is_loaded = AtomicBool::new(false);
    let (took, longest) = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let start = Instant::now();
            let loaded = control.load(domain, &module);
            let took = start.elapsed();
            // Release: pairs with the Acquire below.
            is_loaded.store(true, Ordering::Release);
            loaded.map(|_| took).unwrap()
        });
        let mut longest = Duration::ZERO;
        // Acquire: pairs with the Release above.
        while !is_loaded.load(Ordering::Acquire) {
            let start = Instant::now();
            control.used_bytes(domain);
            longest = longest.max(start.elapsed());
        }
        (load.join().unwrap(), longest)
    });
    assert!(longest < took / 2, "{longest:?} of {took:?}");
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
