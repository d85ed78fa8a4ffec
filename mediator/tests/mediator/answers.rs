//! What a compiler returns is read as hostile: what fits the text is taken from the text, what does not is refused.

use gridmux_mediator::compiler::{
    AnswerError, Translated, Wanted, admit, compile, hash_of, translate,
};
use gridmux_mediator::device::CompiledKernel;
use gridmux_ptx::Module;
use gridmux_ptx::decode::{StateSpace, Variable};
use gridmux_ptx::forms::fence::FenceMode;
use gridmux_ptx::forms::{Form, Reason, Refusal, Shape};
use gridmux_ptx::kernel::{Entry, FormRefusal, Mismatch};

const KERNELS: &str = include_str!("kernels.ptx");

fn honest() -> Translated {
    translate(vec![KERNELS.into()], Wanted::default()).unwrap()
}

/// Returns why an answer is refused after `change`.
fn refusal(change: impl FnOnce(&mut Translated)) -> AnswerError {
    let mut answer = honest();
    change(&mut answer);
    let hash = hash_of(&[KERNELS.into()]);
    admit(answer, hash, Wanted::default())
        .map(drop)
        .unwrap_err()
}

/// Exchanges a piece of the answer's text for one of the same meaning to nobody.
fn edit(answer: &mut Translated, from: &str, to: &str) {
    let text = String::from_utf8(std::mem::take(&mut answer.ptx)).unwrap();
    assert!(text.contains(from), "{from:?} is not in {text}");
    answer.ptx = text.replace(from, to).into();
}

#[test]
fn an_honest_answer_says_what_the_original_says() {
    for workload in gridmux_workloads::workloads() {
        let (original, _) = Module::parse(workload.ptx).unwrap().decode_each().unwrap();
        let module = compile(workload.ptx.into()).unwrap();
        assert!(!module.kernels.is_empty());
        for CompiledKernel { kernel, .. } in &module.kernels {
            let (_, function) = original.kernel(&kernel.name).unwrap();
            let whole = Entry::whole(&kernel.name);
            assert_eq!(kernel.check(&whole, function), Ok(()), "{}", kernel.name);
            assert_eq!(kernel.malformed, None, "{}", kernel.name);
        }
        let names = |program: &gridmux_ptx::decode::Program| {
            let in_memory = |v: &&Variable| {
                let space = v.space;
                v.owner.is_none() && matches!(space, StateSpace::Global | StateSpace::Const)
            };
            program
                .variables
                .iter()
                .filter(in_memory)
                .map(|v| (v.name.clone(), v.size_bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&module.program), names(&original), "nothing is added");
    }
    let module = compile(KERNELS.into()).unwrap();
    let [first, second, third] = &module.kernels[..] else {
        panic!("{:?}", module.kernels);
    };
    let (first, second) = (&first.kernel, &second.kernel);
    assert!(third.kernel.has(Form::WHOLE), "{third:?}");
    assert!(
        first.params_bytes == 12 && first.has(Form::SLICE),
        "{first:?}"
    );
    let [param] = second.params[..] else {
        panic!("{second:?}");
    };
    assert_eq!((param.offset, param.size_bytes, param.align), (0, 48, 16));
    assert!(
        second.entries.is_empty() && second.malformed.is_some(),
        "{second:?}"
    );
    assert_eq!(module.globals[0].bytes, 4);
}

#[test]
fn kernels_that_are_not_there_or_there_twice_are_refused() {
    for change in [
        (|answer: &mut Translated| answer.kernels[0].name = "third".into()) as fn(&mut _),
        |answer| answer.kernels[0].entries[0].name = "third".into(),
        |answer| answer.kernels[0].entries.clear(),
        |answer| drop(answer.kernels.pop()),
        |answer| answer.kernels.clear(),
        |answer| {
            let first = answer.kernels[0].clone();
            answer.kernels.push(first);
        },
        |answer| {
            let twice = answer.kernels[0].entries[0].clone();
            answer.kernels[0].entries.push(twice);
        },
        |answer| edit(answer, ".entry first", ".entry other"),
    ] {
        let error = refusal(change);
        assert!(matches!(error, AnswerError::Kernels(_)), "{error}");
    }
}

#[test]
fn a_control_block_must_be_where_it_is_said_to_be() {
    // A kernel without one, of which it is said that it has, and the other way.
    let error = refusal(|answer| answer.kernels[2].entries[0].shape = Shape::Slice);
    assert!(is(&error, Mismatch::Control), "{error}");
    let error = refusal(|answer| answer.kernels[0].entries[0].shape = Shape::Whole);
    assert!(is(&error, Mismatch::Params), "{error}");
    for (from, to) in [
        ("[64]", "[56]"),
        (".align 8 .b8 $p0", ".align 16 .b8 $p0"),
        ("first(", "first(.param .b64 another, "),
    ] {
        let error = refusal(|answer| edit(answer, from, to));
        assert!(is(&error, Mismatch::Control), "{error}");
        assert!(error.to_string().contains("'first'"), "{error}");
    }
}

/// Returns whether an error is that difference between text and description.
fn is(error: &AnswerError, difference: Mismatch) -> bool {
    matches!(error, AnswerError::Mismatch { mismatch, .. } if *mismatch == difference)
}

#[test]
fn parameters_blocks_and_forms_must_be_what_they_are_said_to_be() {
    for change in [
        (|answer: &mut Translated| answer.kernels[0].params_bytes = 8) as fn(&mut _),
        |answer| answer.kernels[0].params_bytes = u32::MAX,
        |answer| answer.kernels[0].params[1].offset = 0,
        |answer| answer.kernels[0].params[0].size_bytes = 4,
        |answer| answer.kernels[0].params[0].align = 1,
        |answer| answer.kernels[0].params[0].opaque = true,
        |answer| answer.kernels[0].params.truncate(1),
        |answer| edit(answer, ".param .u32 $p2", ".param .u64 $p2"),
    ] {
        let error = refusal(change);
        assert!(is(&error, Mismatch::Params), "{error}");
    }
    let error = refusal(|answer| answer.kernels[0].bounds.max_threads = Some([1; 3]));
    assert!(is(&error, Mismatch::Bounds), "{error}");
    for change in [
        (|answer: &mut Translated| answer.kernels[0].entries[0].shape = Shape::Worker)
            as fn(&mut _),
        |answer| answer.kernels[0].entries[0].fence = Some(FenceMode::Window),
    ] {
        let error = refusal(change);
        assert!(matches!(error, AnswerError::Form { .. }), "{error}");
    }
}

#[test]
fn a_text_that_is_no_ptx_or_worse_than_it_is_said_to_be_is_refused() {
    let error = refusal(|answer| answer.ptx = b"no PTX".to_vec());
    assert!(matches!(error, AnswerError::Text(_)), "{error}");
    let error = refusal(|answer| answer.ptx.clear());
    assert!(
        matches!(error, AnswerError::Text(_) | AnswerError::Kernels(_)),
        "{error}"
    );
    let error = refusal(|answer| answer.kernels[1].malformed = None);
    assert!(matches!(error, AnswerError::Kernels(_)), "{error}");
    let error = refusal(|answer| edit(answer, "ld.param.u32", "ld.param.u33"));
    assert!(matches!(error, AnswerError::Malformed { .. }), "{error}");
}

#[test]
fn a_kernel_is_known_by_its_tenants_text_whatever_the_answer_holds() {
    let own = compile(KERNELS.into()).unwrap().kernels[0].key;
    let mut answer = honest();
    edit(&mut answer, "%ctaid.x", "%ctaid.y");
    let hash = hash_of(&[KERNELS.into()]);
    assert_eq!(
        admit(answer, hash, Wanted::default()).unwrap().kernels[0].key,
        own
    );
    let other = compile(KERNELS.replace("first", "frist").into()).unwrap();
    assert_ne!(other.kernels[0].key, own);
}

#[test]
fn long_reasons_are_cut() {
    let mut answer = honest();
    let long = || "é".repeat(100_000);
    answer.kernels[1].refusals = vec![
        FormRefusal {
            form: Form::SLICE,
            refusal: Refusal {
                reason: Reason::InWords(long()),
                line: 1,
            },
        };
        1000
    ];
    answer.kernels[1].malformed = Some(long());
    let module = admit(answer, hash_of(&[KERNELS.into()]), Wanted::default()).unwrap();
    let kernel = &module.kernels[1].kernel;
    assert!(kernel.refusals.len() < 10, "{}", kernel.refusals.len());
    let refused = kernel.refusals.iter();
    let mut reasons: Vec<_> = refused.map(|r| r.refusal.reason.to_string()).collect();
    reasons.extend(kernel.malformed.clone());
    assert_eq!(reasons.len(), kernel.refusals.len() + 1);
    assert!(
        reasons
            .iter()
            .all(|reason| (1000..=1024).contains(&reason.len()))
    );
}
