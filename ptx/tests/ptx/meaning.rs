//! What once changed its meaning on the way from a text over the typed tree to the printed text, or reached it.

use gridmux_ptx::Module;
use gridmux_ptx::forms::{Form, Options, Rewritten, rewrite};
use gridmux_ptx::print::print;

const HEAD: &str = ".version 8.3\n.target sm_90\n.address_size 64\n";

fn printed(text: &str) -> String {
    let module = Module::parse(text).unwrap_or_else(|e| panic!("{e}"));
    print(&module.decode().unwrap_or_else(|e| panic!("{e}"))).text
}

fn made(text: &str, form: Form, stamps: bool) -> Rewritten {
    let module = Module::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let program = module.decode().unwrap_or_else(|e| panic!("{e}"));
    let options = Options {
        stamps,
        ..Options::default()
    };
    rewrite(&module, &program, &options, |_| form)
}

fn text(made: Rewritten) -> String {
    String::from_utf8(made.bytes).expect("text")
}

#[test]
fn comments_of_the_target_are_not_printed() {
    let text = ".version 8.3\n.target sm_90, debug /* , texmode_unified .address_size 64 .func f(){ ret; } , */\n\
                .address_size 64\n.entry k(){ ret; }\n";
    let printed = printed(text);
    assert!(
        printed.contains(".target sm_90\n") && !printed.contains("func"),
        "{printed}"
    );
    let hidden = ".version 8.3\n.target sm_13, map_f64_to_f32\n.target sm_13\n.address_size 64\n.entry k(){ ret; }\n";
    let module = Module::parse(hidden).expect("it parses");
    let refused = print(&module.decode().expect("it decodes")).refused;
    assert_eq!(refused.len(), 1, "it changes what instructions mean");
}

#[test]
fn what_is_no_label_is_no_target() {
    for body in [
        "T0: .branchtargets T4; T1: .branchtargets E; T4: .branchtargets E; mov.u32 r,0; brx.idx r,T0; E: ret;",
        "T: .branchtargets E; bra T; E: ret;",
        "P: .callprototype _ (); bra P; ret;",
    ] {
        let text = format!("{HEAD}.entry k(){{ .reg .b32 r; {body} }}\n");
        let module = Module::parse(text).and_then(|module| module.decode());
        let error = module.expect_err("it is refused").to_string();
        assert!(error.contains("cannot stand here"), "{body}: {error}");
    }
}

#[test]
fn a_jump_to_the_end_leaves_the_kernel() {
    let body = ".reg .pred p; setp.eq.u32 p, 1, 1; @p bra E; ret; E:";
    let text = text(made(
        &format!("{HEAD}.entry k(){{ {body} }}\n"),
        Form::SLICE,
        true,
    ));
    let end = text.find("@%pred").and_then(|at| text[at..].find("bra $L"));
    assert!(end.is_some(), "{text}");
    // What stands behind the label leaves: where the block is stamped by its record, else by `ret`.
    let exits = text.matches(" ret;").count() + text.matches(" exit;").count();
    assert!(exits >= 3, "{text}");
}

#[test]
fn names_inside_of_operands_follow_their_functions_and_parameters() {
    let text = format!(
        "{HEAD}.func f(.reg .b64 a) {{ ret; }}\n.func g(.reg .b64 a);\n.alias g, f;\n\
         .entry k(.param .u64 a){{ .reg .b64 d; mov.u64 d, g; call f, (d); ret; }}\n"
    );
    let printed = printed(&text);
    assert!(printed.contains("mov.u64 %b64_0, $f0;"), "{printed}");
}

#[test]
fn literals_are_rounded_where_they_are_used() {
    let text = format!(
        "{HEAD}.entry k(){{ .reg .f32 f; .reg .f64 d; set.lt.f32.f64 f, d, 0d3FB999999999999A; ret; }}\n"
    );
    let printed = printed(&text);
    assert!(printed.contains("0d3FB999999999999A"), "{printed}");
}

#[test]
fn special_registers_keep_their_names() {
    let text = format!(
        "{HEAD}.entry k(){{ .reg .b32 r; .reg .b64 d; mov.u32 r, %aggr_smem_size; mov.u64 d, %pm0_64; \
         mov.b64 d, {{%tid.x, %tid.y}}; ret; }}\n"
    );
    let printed = printed(&text);
    for name in ["%aggr_smem_size", "%pm0_64", "{%tid.x, %tid.y}"] {
        assert!(printed.contains(name), "{name}: {printed}");
    }
}

#[test]
fn both_registers_that_a_worker_changes_are_changed() {
    let text_of = format!(
        "{HEAD}.entry k(){{ .reg .b64 d; mov.b64 d, {{%dynamic_smem_size, %ctaid.x}}; ret; }}\n"
    );
    let text = text(made(&text_of, Form::WORKER, false));
    assert!(
        !text.contains("{%dynamic_smem_size") && !text.contains("%ctaid"),
        "{text}"
    );
}

#[test]
fn a_sparse_value_and_a_vector_parameter_are_refused() {
    for (text, word) in [
        (
            ".global .u8 a[2][1000000]={{0},{1}};\n.entry k(){ .reg .b64 d; mov.u64 d, a; ret; }\n",
            "longer than its text",
        ),
        (
            ".func f(.reg .v4 .f32 v) { ret; }\n.entry k(){ .reg .v4 .f32 v; call f, (v); ret; }\n",
            "vector",
        ),
    ] {
        let Ok(module) = Module::parse(format!("{HEAD}{text}")) else {
            continue;
        };
        let Ok(program) = module.decode() else {
            continue;
        };
        let refused = print(&program).refused;
        let what = refused.first().map(|refused| refused.what.to_string());
        assert!(
            what.as_ref().is_some_and(|what| what.contains(word)),
            "{text}: {what:?}"
        );
    }
}

/// Facts on registers may be other ones when roots are rounded; what cannot be bounded then is not left as it is.
#[test]
fn what_cannot_be_bounded_after_all_is_refused() {
    let chain = |name: &str| -> String {
        (2..16)
            .rev()
            .map(|n| format!("mov.u64 {name}{n},{name}{}; ", n - 1))
            .collect()
    };
    let zero: String = (1..16)
        .map(|n| format!("mov.u64 s{n},0; mov.u64 t{n},0; "))
        .collect();
    let text_of = format!(
        "{HEAD}.entry k(.param .u64 p){{ .local .align 4 .b8 a[16]; .local .align 4 .b8 b[16]; \
         .reg .b64 x,y,u,w,ev,s<16>,t<16>; .reg .b32 r; .reg .pred q;\n\
         ld.param.u64 x,[p]; ld.param.u64 y,[p]; ld.param.u64 ev,[p]; xor.b64 u,y,1; mov.u64 w,a; cvta.local.u64 w,w; \
         {zero} setp.eq.u64 q,u,0;\n\
         L: {} mov.u64 t1,x; min.s64 t1,s15,s15; {} mov.u64 s1,u; ld.global.u32 r,[x]; ld.global.u32 r,[x+4]; \
         ld.global.u32 r,[t15]; @q bra L;\nst.u32 [ev],r; ret; }}\n",
        chain("t"),
        chain("s")
    );
    let made = made(&text_of, Form::FENCE, false);
    let is_fenced = made.kernels[0].has(Form::FENCE);
    let text = text(made);
    let store = text.split("st.u32 [").nth(1).expect("it stores");
    let address = &store[..store.find(']').expect("it ends")];
    let is_made = text.contains(&format!("bfi.b64 {address}"))
        || text.contains(&format!("selp.b64 {address}"));
    assert!(!is_fenced || is_made, "{address}: {text}");
}
