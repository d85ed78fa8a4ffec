//! Any bytes: no panic, an error with a position or an unchanged print, within the named limits.

use gridmux_ptx::check::check;
use gridmux_ptx::forms::{Form, Options, rewrite};
use gridmux_ptx::{MAX_BYTES, Module};
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_oneof, proptest,
};

const SAMPLES: &[&str] = &[
    include_str!("../golden/slice/forms_of_syntax.ptx"),
    include_str!("../golden/slice/one_dimension.ptx"),
    include_str!("../golden/slice/refusals.ptx"),
    include_str!("../golden/slice/three_dimensions.ptx"),
];

/// Runs everything that a tenant's bytes reach, and holds it to its promises.
fn digest(bytes: &[u8]) {
    let module = match Module::parse(bytes) {
        Ok(module) => module,
        Err(e) => {
            let lines = bytes.iter().filter(|&&b| b == b'\n').count() + 1;
            assert!(
                e.line >= 1 && e.line as usize <= lines && e.column >= 1,
                "{e}"
            );
            assert!(
                !e.message.is_empty() && e.excerpt.len() <= 120 && e.caret <= 120,
                "{e}"
            );
            return;
        }
    };
    assert!(module.print() == bytes);
    let end = module.token_spans().fold(0, |at, span| {
        assert_eq!(span.start, at);
        span.end
    });
    assert_eq!(end as usize, bytes.len());
    let Ok(program) = module.decode() else { return };
    for form in Form::ALL {
        let rewritten = rewrite(&module, &program, &Options::default(), |_| form);
        let again = Module::parse(rewritten.bytes)
            .unwrap_or_else(|e| panic!("a rewrite into {form} made {e}"));
        again
            .decode()
            .unwrap_or_else(|e| panic!("a rewrite into {form} made {e}"));
    }
    check(&module).unwrap_or_else(|e| panic!("it decoded before: {e}"));
}

/// Returns the bytes that mean something to the lexer, and a few that do not.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just(&b".version 8.0\n.target sm_80\n"[..]),
        Just(&b".entry k ("[..]),
        Just(&b".param .u64 p"[..]),
        Just(&b") {\n"[..]),
        Just(&b".reg .b32 %r<5>;"[..]),
        Just(&b"mov.u32 %r1, %ctaid.x;"[..]),
        Just(&b"@!%p bra L;"[..]),
        Just(&b"L:"[..]),
        Just(&b"{"[..]),
        Just(&b"}"[..]),
        Just(&b"[%r1+"[..]),
        Just(&b"]"[..]),
        Just(&b"0x"[..]),
        Just(&b"0f3F800000"[..]),
        Just(&b"1e"[..]),
        Just(&b"/*"[..]),
        Just(&b"*/"[..]),
        Just(&b"//"[..]),
        Just(&b"\""[..]),
        Just(&b"\\"[..]),
        Just(&b"\n#"[..]),
        Just(&b"::"[..]),
        Just(&b".global .u32 g[3] = {1, {2}, g};"[..]),
        Just(&b"call (%r1), k, ("[..]),
        Just(&b"\xff\x00"[..]),
    ];
    prop::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        digest(&bytes);
    }

    #[test]
    fn token_soup(bytes in soup()) {
        digest(&bytes);
    }

    #[test]
    fn a_corrupted_sample(
        which in 0..SAMPLES.len(), at in any::<prop::sample::Index>(), len in 0_usize..12, with in soup(),
        flip in any::<u8>()
    ) {
        let mut bytes = SAMPLES[which].as_bytes().to_vec();
        let at = at.index(bytes.len());
        let end = (at + len).min(bytes.len());
        match flip % 4 {
            0 => bytes[at] = flip,
            1 => { bytes.drain(at..end); }
            2 => { let copy = bytes[at..end].to_vec(); bytes.splice(at..at, copy); }
            _ => { bytes.splice(at..end, with.into_iter().take(20)); }
        }
        digest(&bytes);
    }
}

/// Each token of each sample left out, doubled, or swapped with the next one.
#[test]
fn every_one_token_corruption() {
    for sample in SAMPLES {
        let text = sample.split("// ====").next().unwrap_or(sample).as_bytes();
        let module = Module::parse(text).expect("samples parse");
        let spans: Vec<_> = module
            .token_spans()
            .map(|s| s.start as usize..s.end as usize)
            .collect();
        for pair in spans.windows(2) {
            let (a, b) = (&text[pair[0].clone()], &text[pair[1].clone()]);
            let (before, after) = (&text[..pair[0].start], &text[pair[1].end..]);
            digest(&[before, b, after].concat());
            digest(&[before, a, a, b, after].concat());
            digest(&[before, b, b" ", a, after].concat());
        }
    }
}

/// Every prefix of a sample is an error or a module; only one that ends between two functions can be a module.
#[test]
fn every_truncation() {
    let text = SAMPLES[1].as_bytes();
    let whole = text
        .windows(2)
        .position(|w| w == b"}\n")
        .expect("the kernel ends")
        + 1;
    for n in 0..whole {
        digest(&text[..n]);
        let inside = n > text
            .windows(6)
            .position(|w| w == b".entry")
            .expect("it has a kernel");
        assert!(!inside || Module::parse(&text[..n]).is_err(), "{n}");
    }
}

fn error(bytes: impl Into<Vec<u8>>) -> String {
    Module::parse(bytes).expect_err("it is refused").message
}

#[test]
fn limits_have_names() {
    assert!(error(vec![b' '; MAX_BYTES + 1]).contains("64 MiB"));
    let head = ".version 8.0\n.target sm_80\n";
    let deep = format!("{head}.entry k () {}{} ", "{".repeat(300), "}".repeat(300));
    assert!(error(deep).contains("256 levels"));
    let deep = format!("{head}.entry k () {{ mov.u32 {}", "[".repeat(300));
    assert!(error(deep).contains("256 levels"));
    let kernels: String = (0..100_001)
        .map(|n| format!(".entry k{n}(){{}}{:128}", ""))
        .collect();
    assert!(error(format!("{head}{kernels}")).contains("100000"));
    let huge = format!("{head}.global .u8 x[99999999999999];");
    let module = Module::parse(huge).expect("the lossless layer does not care");
    assert!(
        module
            .decode()
            .expect_err("it is refused")
            .message
            .contains("2^40")
    );
    let huge = format!("{head}.global .u8 x[1000000000] = {{1}};");
    let module = Module::parse(huge).expect("the lossless layer does not care");
    assert!(
        module
            .decode()
            .expect_err("it is refused")
            .message
            .contains("256 MiB")
    );
}

#[test]
fn instructions_are_limited() {
    let body = "ret;            ".repeat((1 << 21) + 1);
    let text = format!(".version 8.0\n.target sm_80\n.entry k () {{{body}}}");
    let module = Module::parse(text).expect("the lossless layer does not care");
    let error = module.decode().expect_err("it is refused");
    assert!(error.message.contains("2097152 instructions"), "{error}");
}

#[test]
fn a_huge_register_range_costs_nothing() {
    let text = ".version 8.0\n.target sm_80\n.entry k () { .reg .b32 %r<4294967295>; mov.u32 %r4294967, 1; }";
    let program = Module::parse(text)
        .expect("it parses")
        .decode()
        .expect("it decodes");
    assert_eq!(program.functions[0].registers.len(), 1);
}

#[test]
fn bytes_above_ascii_pass_in_comments_and_strings_only() {
    let good = b".version 8.0\n.target sm_80 // caf\xe9\n/* \xff\xfe */ .file 1 \"\xc3\x28\"\n";
    assert_eq!(Module::parse(&good[..]).expect("it parses").print(), good);
    let bad = Module::parse(&b".version 8.0\n.target sm_\xe9\n"[..]).expect_err("it is refused");
    assert_eq!((bad.line, bad.column), (2, 12));
    proptest!(|(bytes in prop::collection::vec(0x80_u8..=0xff, 1..20))| {
        let text = [&b".version 8.0\n//"[..], &bytes, b"\n.target sm_80\n"].concat();
        prop_assert!(Module::parse(text).is_ok());
    });
}
