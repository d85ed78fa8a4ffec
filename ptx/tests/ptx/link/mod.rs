//! Several modules linked into one: which definition each name gets, what is renamed, and what is refused with which
//! words.

mod programs;
mod refusals;

use gridmux_ptx::Module;
use gridmux_ptx::decode::Program;
use gridmux_ptx::link::{LinkError, Part, link};

const HEADER: &str = ".version 7.8\n.target sm_80\n.address_size 64\n";

/// Links texts, which are called a, b, c and so on; one without a header gets one of three lines.
fn linked(texts: &[&str]) -> Result<Module, LinkError> {
    let part = |(n, text): (u8, &&str)| {
        let text = match text.starts_with(".version") {
            true => (*text).to_owned(),
            false => format!("{HEADER}{text}"),
        };
        Part {
            name: char::from(b'a' + n).to_string(),
            module: Module::parse(text).unwrap_or_else(|error| panic!("{error}")),
        }
    };
    link((0..).zip(texts).map(part).collect())
}

/// Returns the linked text without its header, and its typed view.
fn text_of(texts: &[&str]) -> (String, Program) {
    let module = linked(texts).unwrap_or_else(|error| panic!("{error}"));
    let program = module.decode().unwrap_or_else(|error| panic!("{error}"));
    let text = String::from_utf8(module.print()).expect("the texts are ASCII");
    let lines: Vec<&str> = text
        .lines()
        .skip(3)
        .filter(|line| !line.is_empty())
        .collect();
    (lines.join("\n"), program)
}

fn refusal(texts: &[&str]) -> String {
    match linked(texts) {
        Ok(module) => panic!("linked:\n{}", String::from_utf8_lossy(module.source())),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_extern_declaration_gives_way_to_the_definition_in_front_of_it() {
    let (text, program) = text_of(&[
        ".visible .global .align 4 .u32 count = 7;
.visible .func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %r; ld.param.b32 %r,[x]; add.s32 %r,%r,%r; st.param.b32 [r],%r; ret; }",
        ".extern .global .align 4 .u32 count;
.extern .func (.param .b32 q) twice(.param .u32 y);
.visible .entry k() { .reg .b32 %r; .param .b32 p; .param .b32 o; ld.global.u32 %r,[count]; st.param.b32 [p],%r; call (o),twice,(p); ret; }",
    ]);
    assert!(!text.contains(".extern"), "{text}");
    assert_eq!(program.functions.len(), 2);
    assert!(program.functions.iter().all(|f| f.is_defined), "{text}");
    assert_eq!(
        program.variables[0].init.as_deref(),
        Some(&[7, 0, 0, 0][..])
    );
}

#[test]
fn a_definition_further_down_is_declared_in_its_place() {
    let (text, program) = text_of(&[
        ".extern .global .align 4 .b8 table[];
.extern .func twice(.param .b32 y);
.visible .entry k() { .reg .b64 %d; .param .b32 p; mov.u64 %d,table; call twice,(p); ret; }",
        ".visible .global .align 8 .b8 table[] = {1, 2, 3};
.visible .func twice(.param .b32 x) { ret; }",
    ]);
    assert_eq!(
        text,
        ".extern .global .align 8 .b8 table[3];
.visible .func twice(.param .b32 x);
.visible .entry k() { .reg .b64 %d; .param .b32 p; mov.u64 %d,table; call twice,(p); ret; }
.visible .global .align 8 .b8 table[] = {1, 2, 3};
.visible .func twice(.param .b32 x) { ret; }"
    );
    assert!(program.functions.iter().all(|f| f.is_defined));
    assert_eq!(program.variables[0].size_bytes, 3);
    assert!(!program.variables[0].is_extern);
}

#[test]
fn what_only_its_own_module_sees_is_renamed_wherever_it_is_meant() {
    let first = ".global .align 4 .u32 state;\n.func helper() { ret; }\n.func other() { ret; }";
    let second = ".global .align 4 .u32 state = 5;
.func helper();
.global .align 8 .u64 at[2] = {generic(state)+4, helper};
.func helper() { ret; }
.func second();
.alias second, helper;
.visible .entry k(.param .u64 other) { .reg .b32 %r; .reg .b64 state; T: .calltargets helper; P: .callprototype _ (.param .b32 helper);
 { .reg .b64 helper; mov.u64 helper, 5; }
 mov.u64 state, helper; ld.param.u64 state, [other]; call helper; call state, (), T; helper: bra helper; }
.visible .entry l() { .reg .b32 %r; ld.global.u32 %r, [state+4]; ret; }";
    let (text, program) = text_of(&[first, second]);
    assert_eq!(
        text,
        ".global .align 4 .u32 state;
.func helper() { ret; }
.func other() { ret; }
.global .align 4 .u32 linked2_state = 5;
.func linked2_helper();
.global .align 8 .u64 at[2] = {generic(linked2_state)+4, linked2_helper};
.func linked2_helper() { ret; }
.func second();
.alias second, linked2_helper;
.visible .entry k(.param .u64 other) { .reg .b32 %r; .reg .b64 state; T: .calltargets linked2_helper; P: .callprototype _ (.param .b32 helper);
 { .reg .b64 helper; mov.u64 helper, 5; }
 mov.u64 state, linked2_helper; ld.param.u64 state, [other]; call linked2_helper; call state, (), T; helper: bra helper; }
.visible .entry l() { .reg .b32 %r; ld.global.u32 %r, [linked2_state+4]; ret; }"
    );
    assert_eq!(program.aliases.len(), 1);
}

#[test]
fn new_names_are_those_of_no_module() {
    let (text, _) = text_of(&[
        ".global .u32 x; .global .u32 linked2_x;",
        ".global .u32 x; .global .u32 linked1x;",
        ".global .u32 x;",
    ]);
    assert!(text.contains(".u32 linked2x2_x;"), "{text}");
    assert!(text.contains(".u32 linked2x3_x;"), "{text}");
}

#[test]
fn one_of_several_weak_definitions_stays() {
    let weak = |n: u32| {
        format!(
            ".weak .global .align 4 .u32 once = {n};\n.weak .func f(.param .b32 a) {{ // {n}\n ret; }}
.visible .entry k{n}() {{ .reg .b32 %r; .param .b32 p; ld.global.u32 %r,[once]; call f,(p); ret; }}"
        )
    };
    let (text, program) = text_of(&[&weak(1), &weak(2)]);
    assert_eq!(text.matches(" once =").count(), 1);
    assert_eq!(text.matches(".func f").count(), 1);
    assert_eq!(
        program.variables[0].init.as_deref(),
        Some(&[1, 0, 0, 0][..])
    );
    let strong = weak(3).replace(".weak", ".visible");
    let (text, program) = text_of(&[&weak(1), &weak(2), &strong]);
    let once: Vec<_> = program
        .variables
        .iter()
        .filter(|v| v.name == "once")
        .collect();
    assert_eq!(once.len(), 1);
    assert_eq!(once[0].init.as_deref(), Some(&[3, 0, 0, 0][..]), "{text}");
    assert!(
        text.contains(".extern .global .align 4 .u32 once;"),
        "{text}"
    );
    assert!(text.contains("// 3") && !text.contains("// 1"), "{text}");
}

#[test]
fn the_largest_common_variable_stays() {
    let (text, program) = text_of(&[
        ".common .global .align 4 .u32 c;",
        ".common .global .align 8 .b8 c[24];",
        ".common .global .align 4 .u32 c;",
    ]);
    assert_eq!(program.variables.len(), 1, "{text}");
    assert_eq!(program.variables[0].size_bytes, 24);
    let error = refusal(&[".common .global .u32 c = 1;", ".common .global .u64 c;"]);
    assert!(error.contains("`c` is larger than where"), "{error}");
    let error = refusal(&[".common .global .u32 c = 1;", ".common .global .u32 c = 1;"]);
    assert!(
        error.contains("`c` is defined twice: a, line 4; and b, line 4"),
        "{error}"
    );
}

#[test]
fn single_names_of_a_declaration_go() {
    let (text, _) = text_of(&[
        ".visible .global .u32 b = 2, d = 4;",
        ".weak .global .u32 a = 1, b = 7, c[2] = {3, 3}, d, e;\n.weak .global .u32 d2, b2;",
    ]);
    assert_eq!(
        text,
        ".visible .global .u32 b = 2, d = 4;\n.weak .global .u32 a = 1, c[2] = {3, 3}, e;\n.weak .global .u32 d2, b2;"
    );
    let (text, _) = text_of(&[
        ".weak .global .u32 a = 1, b = 7, c;",
        ".visible .global .u32 a = 2, b = 4;",
    ]);
    assert_eq!(
        text,
        ".extern .global .align 4 .u32 a;.extern .global .align 4 .u32 b;.weak .global .u32 c;\n\
         .visible .global .u32 a = 2, b = 4;"
    );
}

#[test]
fn what_the_runtime_provides_and_dynamic_memory_stay_undefined() {
    let user = |ty: &str, k: &str| {
        format!(
            ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);
.extern .func nobody();
.extern .shared .align 16 .{ty} buffer[];
.visible .entry {k}() {{ .reg .b64 %d; .param .b32 r; .param .b64 f; mov.u64 %d, buffer; call (r), vprintf, (f, f); ret; }}"
        )
    };
    let (text, program) = text_of(&[&user("b8", "k"), &user("f64", "l")]);
    assert_eq!(text.matches(".extern .func").count(), 1, "{text}");
    assert!(!text.contains("nobody"), "{text}");
    let dynamic: Vec<&str> = program
        .variables
        .iter()
        .filter(|v| v.is_extern)
        .map(|v| v.name.as_str())
        .collect();
    assert_eq!(dynamic, ["buffer", "linked2_buffer"]);
}

#[test]
fn aliases_define_what_they_name() {
    let (_, program) = text_of(&[
        ".extern .func f(.param .b32 a);\n.visible .entry k() { .param .b32 p; call f, (p); ret; }",
        ".visible .func f(.param .b32 a);\n.visible .func g(.param .b32 a) { ret; }\n.alias f, g;",
    ]);
    let name = |id: gridmux_ptx::decode::FuncId| program.functions[id.0 as usize].name.as_str();
    let pairs: Vec<_> = program
        .aliases
        .iter()
        .map(|&(a, b)| (name(a), name(b)))
        .collect();
    assert_eq!(pairs, [("f", "g")]);
}
