//! What a compiler returns is read as hostile: what fits the text is taken from the text, what does not is refused.

use gridmux_mediator::compiler::{AnswerError, Translated, admit, compile, hash_of, translate};
use gridmux_ptx::Module;

const TWO: &str = include_str!("two.ptx");

fn honest() -> Translated {
    translate(vec![TWO.into()]).unwrap()
}

/// Returns why an answer is refused after `change`.
fn refusal(change: impl FnOnce(&mut Translated)) -> AnswerError {
    let mut answer = honest();
    change(&mut answer);
    let hash = hash_of(&[TWO.into()]);
    admit(answer, hash).map(drop).unwrap_err()
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
        for kernel in &module.kernels {
            let (_, function) = original.kernel(&kernel.name).unwrap();
            let params = function
                .params
                .iter()
                .map(|p| (p.offset, p.size_bytes, p.align));
            assert_eq!(kernel.params, params.collect::<Vec<_>>(), "{}", kernel.name);
            assert_eq!(
                kernel.params_bytes, function.params_bytes,
                "{}",
                kernel.name
            );
            assert_eq!(kernel.malformed, None, "{}", kernel.name);
        }
        let names = |program: &gridmux_ptx::decode::Program| {
            let all = program.variables.iter().filter(|v| v.owner.is_none());
            all.map(|v| (v.name.clone(), v.size_bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&module.program), names(&original), "nothing is added");
    }
    let module = compile(TWO.into()).unwrap();
    let [first, second] = &module.kernels[..] else {
        panic!("{:?}", module.kernels);
    };
    assert_eq!((first.params_bytes, &first.control), (12, &Ok(16)));
    assert_eq!(second.params, [(0, 48, 16)]);
    assert!(
        second.control.is_err() && second.malformed.is_some(),
        "{second:?}"
    );
    assert_eq!(module.globals[0].bytes, 4);
}

#[test]
fn kernels_that_are_not_there_or_there_twice_are_refused() {
    for change in [
        (|answer: &mut Translated| answer.verdicts[0].name = "third".into()) as fn(&mut _),
        |answer| drop(answer.verdicts.pop()),
        |answer| answer.verdicts.clear(),
        |answer| {
            let first = answer.verdicts[0].clone();
            answer.verdicts.push(first);
        },
        |answer| edit(answer, ".entry first", ".entry other"),
    ] {
        let error = refusal(change);
        assert!(matches!(error, AnswerError::Kernels(_)), "{error}");
    }
}

#[test]
fn a_control_struct_must_be_where_it_is_said_to_be() {
    for offset in [0, 8, 12, 20, 24, 4096, u32::MAX] {
        let error = refusal(|answer| answer.verdicts[0].control = Ok(offset));
        let text = error.to_string();
        assert!(matches!(error, AnswerError::Control { .. }), "{text}");
        assert!(
            text.contains("'first'") && text.contains(&offset.to_string()),
            "{text}"
        );
    }
    // A kernel without one, of which it is said that it has.
    let error = refusal(|answer| answer.verdicts[1].control = Ok(0));
    assert!(matches!(error, AnswerError::Control { .. }), "{error}");
    let error = refusal(|answer| edit(answer, "[64]", "[56]"));
    assert!(matches!(error, AnswerError::Control { .. }), "{error}");
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
    let error = refusal(|answer| answer.verdicts[1].malformed = None);
    assert!(matches!(error, AnswerError::Malformed { .. }), "{error}");
}

#[test]
fn a_kernel_is_known_by_its_tenants_text_whatever_the_answer_holds() {
    let own = compile(TWO.into()).unwrap().kernels[0].key;
    let mut answer = honest();
    edit(&mut answer, "%ctaid.x", "%ctaid.y");
    let hash = hash_of(&[TWO.into()]);
    assert_eq!(admit(answer, hash).unwrap().kernels[0].key, own);
    let other = compile(TWO.replace("first", "frist").into()).unwrap();
    assert_ne!(other.kernels[0].key, own);
}

#[test]
fn long_reasons_are_cut() {
    let mut answer = honest();
    answer.verdicts[0].control = Err("é".repeat(100_000));
    answer.verdicts[1].malformed = Some("é".repeat(100_000));
    // The text has a control struct that nobody speaks of: the kernel just has one parameter more.
    let module = admit(answer, hash_of(&[TWO.into()])).unwrap();
    let reasons = [
        module.kernels[0].control.clone().unwrap_err(),
        module.kernels[1].malformed.clone().unwrap(),
    ];
    assert!(
        reasons
            .iter()
            .all(|reason| (1000..=1024).contains(&reason.len()))
    );
}
