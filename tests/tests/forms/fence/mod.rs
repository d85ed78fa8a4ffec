//! The fence attacked: kernels that reach for a neighbour's memory, or for a fault that would poison a shared context.
//!
//! Each attack runs in every fenced form and mode that it can take. Afterwards the neighbour's bytes are as they were,
//! and the launch has ended without a fault of the device, or the rewrite had refused it with a reason. The same
//! attacks without the fence do harm, so that none of these tests passes for want of trying.

mod global;
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

/// Runs an attack everywhere; gives how many combinations ran and what they recorded.
fn attack(name: &str, ptx: &str) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for form in FORMS {
        for mode in MODES {
            let mut scene = Scene::new();
            let params = [scene.buffer, scene.neighbour[1]];
            let outcome = scene.run(ptx, (form, mode), &params, ([3, 1, 1], 64, 512));
            assert!(
                !matches!(outcome, Outcome::Faulted(_)),
                "{name}, {form}, {mode:?}: {outcome:?}"
            );
            assert!(
                scene.is_untouched(),
                "{name}, {form}, {mode:?}: somebody else's memory has changed"
            );
            outcomes.push(outcome);
        }
    }
    outcomes
}

/// An attack that every fenced form carries and survives.
fn survives(name: &str, ptx: &str) {
    for outcome in attack(name, ptx) {
        assert!(matches!(outcome, Outcome::Ended(..)), "{name}: {outcome:?}");
    }
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
