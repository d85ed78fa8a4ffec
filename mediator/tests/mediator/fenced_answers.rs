//! What a compiler returns of a module that is to be fenced: which kernels can be launched, where variables are, and
//! that nothing that does not fit is taken over.

use gridmux_mediator::compiler::{AnswerError, Translated, Wanted, admit, hash_of, translate};
use gridmux_mediator::device::{CompiledModule, Fence, Unfenceable};
use gridmux_ptx::forms::Form;
use gridmux_ptx::forms::fence::FenceMode;
use gridmux_ptx::kernel::Entry;

/// One kernel that can be cut, one that cannot, one with a barrier of the grid, one with a texture, and a variable.
const MODULE: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.global .align 4 .u32 count = 5;\n\
    .global .texref image;\n\
    .visible .entry cut(.param .u64 p)\n{\n.reg .b64 %a;\n.reg .b32 %r;\nld.param.u64 %a, [p];\n\
    mov.u32 %r, %ctaid.x;\nst.global.u32 [%a], %r;\nld.global.u32 %r, [count];\nret;\n}\n\
    .visible .entry uncut(.param .u64 p)\n{\n.reg .b64 %a;\nld.param.u64 %a, [p];\nmov.u64 %a, %gridid;\n\
    st.global.u64 [count], %a;\nret;\n}\n\
    .visible .entry grid(.param .u64 p)\n{\n.reg .b32 %r;\nmov.u32 %r, %envreg1;\nst.global.u32 [count], %r;\nret;\n}\n\
    .visible .entry texture(.param .u64 p)\n{\n.reg .b32 %r<4>;\n\
    tex.2d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [image, {%r0, %r1}];\nret;\n}\n";

fn wanted(unfenceable: Unfenceable) -> Wanted {
    let mode = FenceMode::Window;
    Wanted {
        stamps: false,
        fence: Some(Fence { mode, unfenceable }),
    }
}

fn module(unfenceable: Unfenceable) -> CompiledModule {
    let wanted = wanted(unfenceable);
    let answer = translate(vec![MODULE.into()], wanted).unwrap();
    admit(answer, hash_of(&[MODULE.into()]), wanted).unwrap()
}

fn forms(module: &CompiledModule) -> Vec<Option<Form>> {
    let kernels = module.kernels.iter();
    kernels.map(|kernel| Some(kernel.entry()?.form())).collect()
}

#[test]
fn kernels_are_fenced_or_refused_by_name() {
    let module = module(Unfenceable::Refused);
    assert_eq!(
        forms(&module),
        [Some(Form::FENCE_SLICE), Some(Form::FENCE), None, None]
    );
    let why = |n: usize| module.kernels[n].unusable().unwrap_or_default();
    assert_eq!((why(0), why(1)), (String::new(), String::new()));
    for (n, words) in [(2, ["'grid'", "whole grid"]), (3, ["'texture'", "`image`"])] {
        assert!(words.iter().all(|word| why(n).contains(word)), "{}", why(n));
    }
    let globals: Vec<_> = module
        .globals
        .iter()
        .map(|of| (&*of.name, of.bytes))
        .collect();
    assert!(globals.contains(&("count", 4)), "{globals:?}");
    assert!(
        globals.iter().all(|(name, _)| !name.starts_with('$')),
        "{globals:?}"
    );
    let placed = module.placed.expect("a variable is placed");
    assert_eq!(placed.variables[0].init, [5]);
}

#[test]
fn what_cannot_be_fenced_runs_as_it_is_by_permission() {
    let module = module(Unfenceable::Shared);
    let due = [Form::FENCE_SLICE, Form::FENCE, Form::WHOLE];
    assert_eq!(forms(&module)[..3], due.map(Some));
    assert!(
        module.kernels[..3]
            .iter()
            .all(|kernel| kernel.refused.is_none())
    );
}

fn refusal(change: impl FnOnce(&mut Translated)) -> AnswerError {
    let wanted = wanted(Unfenceable::Refused);
    let mut answer = translate(vec![MODULE.into()], wanted).unwrap();
    change(&mut answer);
    admit(answer, hash_of(&[MODULE.into()]), wanted)
        .map(drop)
        .unwrap_err()
}

#[test]
fn what_does_not_fit_is_refused() {
    let error = refusal(|answer| answer.kernels[0].entries[0].fence = Some(FenceMode::Mask));
    assert!(matches!(error, AnswerError::Form { .. }), "{error}");
    let placed = |answer: &mut Translated| answer.placed.take().expect("a variable is placed");
    let error = refusal(|answer| {
        let mut changed = placed(answer);
        changed.pointer = "count".to_owned();
        answer.placed = Some(changed);
    });
    assert!(matches!(error, AnswerError::Pointer(_)), "{error}");
    let error = refusal(|answer| {
        let mut changed = placed(answer);
        changed.variables[0].offset = u64::MAX;
        answer.placed = Some(changed);
    });
    assert!(matches!(error, AnswerError::Placed(_)), "{error}");
    // Nobody asked for a fence.
    let fenced = translate(vec![MODULE.into()], wanted(Unfenceable::Refused)).unwrap();
    let admitted = admit(fenced, hash_of(&[MODULE.into()]), Wanted::default());
    assert!(admitted.is_err());
}

#[test]
fn an_entry_without_a_fence_is_not_launched() {
    let wanted = wanted(Unfenceable::Refused);
    let plain = translate(vec![MODULE.into()], Wanted::default()).unwrap();
    assert!(
        plain.kernels[0]
            .entries
            .iter()
            .all(|entry: &Entry| entry.fence.is_none())
    );
    let module = admit(plain, hash_of(&[MODULE.into()]), wanted).unwrap();
    assert_eq!(forms(&module), [None; 4]);
}
