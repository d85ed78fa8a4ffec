//! What cannot be linked, and with which words it is refused.

use super::{HEADER, linked, refusal, text_of};
use gridmux_ptx::Module;
use gridmux_ptx::link::{LinkError, Part, check_alone, link};

/// Two modules that contradict each other, the first on its line 5, and what is said.
const CONTRADICTIONS: &[(&str, &str, &str)] = &[
    (
        "\n.extern .global .u64 x;\n.entry k() { .reg .b64 %d; mov.u64 %d, x; ret; }",
        ".visible .global .u32 x;",
        "`x` has 8 bytes and 4 bytes",
    ),
    (
        "\n.extern .global .f32 x;\n.entry k() { .reg .b64 %d; mov.u64 %d, x; ret; }",
        ".visible .global .u32 x;",
        "`x` is of type .f32 and of type .u32",
    ),
    (
        "\n.extern .const .u32 x;\n.entry k() { .reg .b64 %d; mov.u64 %d, x; ret; }",
        ".visible .global .u32 x;",
        "`x` is in .const and in .global",
    ),
    (
        "\n.extern .global .align 16 .u32 x;\n.entry k() { .reg .b64 %d; mov.u64 %d, x; ret; }",
        ".visible .global .u32 x;",
        "an alignment of 16 bytes and defined with one of 4",
    ),
    (
        "\n.extern .global .texref x;\n.entry k() { .reg .b64 %d; mov.u64 %d, x; ret; }",
        ".visible .global .surfref x;",
        "`x` is of type .texref and of type .surfref",
    ),
    (
        "\n.extern .global .u32 x;\n.entry k() { .reg .b64 %d; mov.u64 %d, x; ret; }",
        ".visible .func x() { ret; }",
        "`x` is a variable and a function",
    ),
    (
        "\n.extern .func x();",
        ".visible .entry x() { ret; }",
        "`x` is a function and a kernel",
    ),
    (
        "\n.extern .func x(.param .b32 a);",
        ".visible .func x() { ret; }",
        "`x` takes 1 and 0 parameters",
    ),
    (
        "\n.extern .func (.param .b32 r) x();",
        ".visible .func x() { ret; }",
        "`x` returns 1 and 0 return values",
    ),
    (
        "\n.extern .func x(.param .b32 a, .param .b64 b);",
        ".visible .func x(.param .b32 a, .param .b32 b) { ret; }",
        "`x` has another parameter 2, of 8 bytes and of 4 bytes",
    ),
    (
        "\n.extern .func x(.param .u32 a);",
        ".visible .func x(.param .f32 a) { ret; }",
        "`x` has another parameter 1, once of type .u32 and of type .f32",
    ),
    (
        "\n.extern .func x(.param .b32 a);",
        ".visible .func x(.reg .b32 a) { ret; }",
        "`x` has another parameter 1, once in .reg and once in .param",
    ),
    (
        "\n.weak .global .u64 x;",
        ".weak .global .u32 x;",
        "`x` has 4 bytes and 8 bytes",
    ),
    (
        "\n.visible .global .u32 x;",
        ".visible .global .u32 x;",
        "`x` is defined twice",
    ),
    (
        "\n.entry x() { ret; }",
        ".entry x() { ret; }",
        "`x` is defined twice",
    ),
];

#[test]
fn contradictions_name_the_symbol_and_both_lines() {
    for (first, second, words) in CONTRADICTIONS {
        let error = refusal(&[first, second]);
        assert!(error.contains(words), "{words}: {error}");
        assert!(
            error.contains("a, line 5") && error.contains("b, line 4"),
            "{error}"
        );
    }
    let indexed =
        ".extern .global .b8 x[8];\n.entry k() { .reg .u32 %r; ld.global.u32 %r, x[4]; ret; }";
    let error = refusal(&[indexed, ".visible .global .u32 x[2];"]);
    assert!(
        error.contains("`x` is indexed in elements of another size"),
        "{error}"
    );
}

#[test]
fn what_nobody_defines_is_named() {
    let error = refusal(&[
        ".visible .func f() { ret; }",
        "\n.extern .func missing();\n.extern .func unused();\n.entry k() { call missing; ret; }",
    ]);
    assert_eq!(
        error,
        "`missing` is used and no module defines it: b, line 5 (add a module that defines it as `.visible`)"
    );
    // A definition that only its own module sees does not count.
    let error = refusal(&[
        ".func hidden() { ret; }",
        ".extern .func hidden();\n.entry k() { call hidden; ret; }",
    ]);
    assert_eq!(
        error,
        "`hidden` is used and no module defines it: b, line 4 (add a module that defines it as `.visible`)"
    );
    let long = "n".repeat(5000);
    let error = refusal(&[&format!(
        ".extern .func {long}();\n.entry k() {{ call {long}; ret; }}"
    )]);
    assert!(
        error.len() < 400 && error.contains("(5000 bytes)"),
        "{error}"
    );
}

#[test]
fn names_with_other_meanings_are_refused() {
    let error = refusal(&[
        ".global .u32 %clock;",
        ".entry k() { .reg .u32 %r; mov.u32 %r, %clock; ret; }",
    ]);
    assert_eq!(
        error,
        "`%clock` is a predefined name and cannot be linked: a, line 4 (rename it)"
    );
    let jump = ".entry k() { .reg .u32 %r; later.u32 %r, T; T: ret; }";
    let error = refusal(&[".visible .global .u32 T;", jump]);
    assert!(
        error.contains("`T` is a label in b, used above its place, and a symbol in a, line 4"),
        "{error}"
    );
    let (text, program) = text_of(&[".global .u32 T;", jump]);
    assert!(text.contains(".u32 linked1_T;"), "{text}");
    let kernel = &program.functions[0];
    assert_eq!(kernel.body.len(), 2);
}

#[test]
fn headers_are_merged_or_refused() {
    let header = |version: &str, target: &str, bits: u8| {
        format!(".version {version}\n.target {target}\n.address_size {bits}\n")
    };
    let module = linked(&[
        &header("7.8", "sm_70, debug", 64),
        &header("6.0", "sm_90a", 64),
    ])
    .expect("they fit");
    let program = module.decode().expect("it decodes");
    assert_eq!(
        (program.version, program.target.as_str()),
        ((7, 8), "sm_90a")
    );
    for (one, other, words) in [
        (
            header("7.8", "sm_80", 64),
            header("7.8", "sm_80", 32),
            "addresses have 64 bits and 32 bits",
        ),
        (
            header("7.8", "sm_90a", 64),
            header("8.6", "sm_100", 64),
            "no device runs code for sm_90a and for sm_100",
        ),
        (
            header("7.8", "sm_80, texmode_independent", 64),
            header("7.8", "sm_80", 64),
            "only one has `texmode_independent`",
        ),
    ] {
        let error = refusal(&[&one, &other]);
        assert!(
            error.starts_with("a and b cannot be linked: ") && error.contains(words),
            "{error}"
        );
    }
    assert_eq!(link(Vec::new()).map(drop), Err(LinkError::Nothing));
}

#[test]
fn an_error_of_one_module_names_it() {
    let error = refusal(&[".global .u32 x;", ".global .u32 y = 1, z[];"]);
    assert!(
        error.starts_with("b: 4:") && error.contains("`z` has no size"),
        "{error}"
    );
}

/// What a module alone may use without defining it: dynamic shared memory, what the device's runtime provides, and what
/// nothing names.
#[test]
fn a_module_alone_names_what_it_lacks() {
    let kernel = |declared: &str, body: &str| {
        format!("{HEADER}{declared}\n.entry k() {{ .reg .b64 %d; {body} ret; }}")
    };
    let function = ".extern .func x();";
    let name = "mov.u64 %d, x;";
    for (declared, body, lacks) in [
        (function, "call x;", true),
        (function, "", false),
        (
            ".extern .func free(.param .b64 a);",
            "call free, (%d);",
            false,
        ),
        (".extern .global .u32 x;", name, true),
        (".extern .const .u32 x;", name, true),
        (".extern .shared .b8 x[];", name, false),
        (".global .u32 x;", name, false),
        (".extern .func x();\n.func x() { ret; }", "call x;", false),
    ] {
        let part = Part {
            name: "one".to_owned(),
            module: Module::parse(kernel(declared, body)).unwrap_or_else(|e| panic!("{e}")),
        };
        let program = part
            .module
            .decode()
            .unwrap_or_else(|e| panic!("{declared}: {e}"));
        let said = check_alone(&part, &program).map_err(|error| error.to_string());
        let due = "`x` is used and no module defines it: one, line 4";
        match said {
            Ok(()) => assert!(!lacks, "{declared} {body}"),
            Err(said) => assert!(lacks && said.contains(due), "{declared}: {said}"),
        }
    }
}
