//! The fence attacked: kernels that reach for a neighbour's memory, or for a fault that would poison a shared context.
//!
//! Each attack runs in every fenced form and mode that it can take. Afterwards the neighbour's bytes are as they were,
//! and the launch has ended without a fault of the device, or the rewrite had refused it with a reason. The same
//! attacks without the fence do harm, so that none of these tests passes for want of trying.

mod found;
mod global;
mod pointers;
mod refused;
mod scene;
mod shared;
mod stopped;

use gridmux_ptx::forms::Form;
use gridmux_ptx::forms::fence::FenceMode;
use scene::{Outcome, Scene};

const MODES: [FenceMode; 3] = [FenceMode::Window, FenceMode::HighBits, FenceMode::Mask];
const FORMS: [Form; 3] = [Form::FENCE, Form::FENCE_SLICE, Form::FENCE_WORKER];

/// Returns a kernel around some instructions: `%own` is the attacker's buffer, `%target` the neighbour's, `%i` the
/// thread.
fn kernel(before: &str, body: &str) -> String {
    declaring(before, "", body)
}

/// Returns the same with declarations of its own.
fn declaring(before: &str, declared: &str, body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n{before}\n\
         .visible .entry k(.param .u64 own, .param .u64 target)\n{{\n\
         {declared}.reg .b64 %own, %target, %a, %b, %c;\n.reg .b32 %i, %r, %s, %t, %u, %v;\n.reg .pred %p, %q;\n\
         .reg .f32 %f;\n\
         ld.param.u64 %own, [own];\nld.param.u64 %target, [target];\nmov.u32 %i, %tid.x;\nmov.u32 %r, 0xdeadbeef;\n\
         {body}\nret;\n}}\n"
    )
}

/// Runs a kernel with a launch's grid, threads of a block and bytes of dynamic shared memory in every fenced form with
/// each of these modes. Gives `check` each outcome, the scene afterwards, and what to call the run in messages.
fn everywhere(
    name: &str,
    ptx: &str,
    modes: &[FenceMode],
    launch: ([u32; 3], u32, u32),
    check: impl Fn(Outcome, &Scene, &str),
) {
    for form in FORMS {
        for mode in modes {
            let mut scene = Scene::new();
            let params = [scene.buffer, scene.neighbour[1]];
            let outcome = scene.run(ptx, (form, *mode), &params, launch);
            check(outcome, &scene, &format!("{name}, {form}, {mode:?}"));
        }
    }
}

/// Runs a kernel as [`everywhere`] does, and checks that it ends without a fault.
fn ends(
    name: &str,
    ptx: &str,
    modes: &[FenceMode],
    launch: ([u32; 3], u32, u32),
    check: impl Fn(&Scene, &str),
) {
    everywhere(name, ptx, modes, launch, |outcome, scene, what| {
        assert_eq!(outcome, Outcome::Ended(0, 0), "{what}");
        check(scene, what);
    });
}

/// Runs an attack everywhere: no run faults or changes somebody else's memory. Gives `check` each outcome.
fn attack(name: &str, ptx: &str, check: impl Fn(Outcome, &str)) {
    everywhere(
        name,
        ptx,
        &MODES,
        ([3, 1, 1], 64, 512),
        |outcome, scene, what| {
            let has_faulted = matches!(outcome, Outcome::Faulted(_));
            assert!(!has_faulted, "{what}: {outcome:?}");
            let is_untouched = scene.is_untouched();
            assert!(is_untouched, "{what}: somebody else's memory has changed");
            check(outcome, what);
        },
    );
}

/// Checks that every fenced form carries an attack and survives it.
fn survives(name: &str, ptx: &str) {
    attack(name, ptx, |outcome, what| {
        assert!(matches!(outcome, Outcome::Ended(..)), "{what}: {outcome:?}");
    });
}

/// Runs a kernel as it is and checks that it ends; returns the scene.
fn unfenced(ptx: &str, launch: ([u32; 3], u32, u32)) -> Scene {
    let mut scene = Scene::new();
    let params = [scene.buffer, scene.neighbour[1]];
    let whole = (Form::WHOLE, FenceMode::Window);
    let outcome = scene.run(ptx, whole, &params, launch);
    assert_eq!(outcome, Outcome::Ended(0, 0), "without the fence");
    scene
}

/// Without the fence, the attack changes somebody's memory or faults.
fn is_harmful(ptx: &str) -> bool {
    let mut scene = Scene::new();
    let params = [scene.buffer, scene.neighbour[1]];
    let whole = (Form::WHOLE, FenceMode::Window);
    let outcome = scene.run(ptx, whole, &params, ([3, 1, 1], 64, 512));
    !scene.is_untouched() || matches!(outcome, Outcome::Faulted(_))
}

/// Attacks that stay in the attacker's own partition, whose holes are mapped, even without the fence.
const HARMLESS: [&str; 4] = [
    "far behind a name",
    "before a name",
    "the end of the partition",
    "the start of the partition",
];

fn does_harm(name: &str, ptx: &str) {
    if HARMLESS.contains(&name) {
        assert!(!is_harmful(ptx), "{name} does harm");
        return;
    }
    assert!(is_harmful(ptx), "{name} is harmless");
}
