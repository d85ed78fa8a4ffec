//! The report on a module, as the JSON that scripts read.

use gridmux_ptx::Module;
use gridmux_ptx::check::check_file;
use gridmux_ptx::forms::{Form, Options, rewrite};
use gridmux_ptx::kernel::Entry;
use serde_json::{Value, json};

fn report(text: &str) -> Value {
    serde_json::to_value(check_file("a.ptx", text)).expect("reports serialise")
}

#[test]
fn a_refusal_has_reason_and_line() {
    let text = include_str!("../golden/slice/refusals.ptx");
    let report = report(text);
    assert_eq!(report["error"], Value::Null);
    let kernels = report["kernels"].as_array().expect("kernels");
    let kernel = |name: &str| {
        kernels
            .iter()
            .find(|k| k["name"] == name)
            .expect("it is listed")
    };
    let refused = &kernel("grid_sync")["forms"]["slice"];
    assert_eq!(refused["ok"], false);
    assert!(
        refused["reason"]
            .as_str()
            .is_some_and(|r| r.contains("%envreg2"))
    );
    let line = text
        .lines()
        .position(|l| l.contains("%envreg2"))
        .expect("it is there")
        + 1;
    assert_eq!(refused["line"], json!(line));
    assert_eq!(
        kernel("prints")["forms"]["slice"],
        json!({"ok": true, "reason": null, "line": null})
    );
    assert_eq!(kernel("grid_sync")["forms"]["whole"]["ok"], true);
    assert!(
        kernels.iter().all(|k| k["name"] != "block_number"),
        "functions are not kernels"
    );
}

/// Kernels take a form as far as the module has room for its text; one for which it has none stays whole and says so.
#[test]
fn a_module_has_room_for_so_much_added_text() {
    let kernel = |name: &str, accesses: usize| {
        let body = "ld.u32 %r, [%d];\n".repeat(accesses);
        format!(
            ".entry {name} () {{ .reg .b32 %r; .reg .b64 %d;\n{body}ret; }} // {:110}\n",
            ""
        )
    };
    let kernels = [("first", 1), ("large", 50_000), ("last", 1)];
    let kernels: String = kernels
        .map(|(name, accesses)| kernel(name, accesses))
        .concat();
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.shared .align 4 .b8 s[512];\n{kernels}"
    );
    let module = Module::parse(text).expect("it parses");
    let program = module.decode().expect("it decodes");
    let made = rewrite(&module, &program, &Options::default(), |_| Form::FENCE);
    let [first, large, last] = &made.kernels[..] else {
        panic!("three kernels");
    };
    assert!(first.has(Form::FENCE) && last.has(Form::FENCE));
    assert!(large.has(Form::WHOLE) && !large.has(Form::FENCE));
    let refusal = large.refusal(Form::FENCE).expect("a reason").to_string();
    assert!(
        refusal.starts_with("line 8:") && refusal.contains("8-fold growth"),
        "{refusal}"
    );
    assert!(made.bytes.len() < 9 * module.source().len() + (1 << 20));
}

/// Text of nothing but the shortest instructions, or functions, is refused where it begins to be out of proportion.
#[test]
fn a_module_is_as_long_as_what_it_holds() {
    let error = |text: &str| report(text)["error"].clone();
    let head = ".version 8.0\n.target sm_80\n.entry k () {\n";
    assert_eq!(
        error(&format!("{head}{}}}", "ret;".repeat(2000))),
        Value::Null
    );
    let refused = error(&format!("{head}{}}}", "ret;".repeat(4000)));
    assert_eq!(refused["line"], 4);
    let column = refused["column"].as_u64().expect("a column");
    assert!((2000 * 4..4000 * 4).contains(&column), "{refused}");
    assert_eq!(
        error(&format!("{head}{}}}", "ret;            ".repeat(4000))),
        Value::Null
    );
    let functions: String = (0..400).map(|n| format!(".func f{n};")).collect();
    let refused = error(&format!(".version 8.0\n.target sm_80\n{functions}"));
    let message = refused["message"].as_str().expect("a message");
    assert!(message.contains("more functions"), "{message}");
}

#[test]
fn resources_and_mix() {
    let report = report(
        ".version 8.0\n.target sm_80\n.extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 outer[6];\n\
         .entry k (.param .u64 a, .param .u32 n)\n.maxntid 32, 4\n\
         {\n.reg .b64 %rd<3>;\n.reg .f32 %f<5>;\n.reg .b32 %r<3>;\n\
         .shared .align 8 .b8 tile[100];\nld.param.u64 %rd1, [a];\nld.global.f32 %f1, [%rd1];\nsqrt.rn.f32 %f2, %f1;\n\
         fma.rn.f32 %f3, %f2, %f1, %f1;\nst.shared.f32 [tile], %f3;\nst.shared.f32 [outer], %f3;\n\
         mov.u32 %r1, dynamic;\nbar.sync 0;\n\
         atom.global.add.f32 %f4, [%rd1], %f3;\nret;\n}\n",
    );
    let k = &report["kernels"][0];
    let resources = &k["resources"];
    assert_eq!(resources["static_shared_bytes"], 106);
    assert_eq!(resources["dynamic_shared"], true);
    assert_eq!(resources["params_bytes"], 12);
    assert_eq!(resources["max_threads"], 128);
    assert!(
        resources["registers_estimate"]
            .as_u64()
            .is_some_and(|n| (8..=32).contains(&n))
    );
    assert_eq!(
        k["mix"],
        json!({
            "compute": 3, "memory": 3, "coalesced": 2, "uncoalesced": 0, "special": 1, "tensor": 0, "barrier": 1,
            "atomic": 1, "control": 1, "unknown": 0, "total": 10,
        })
    );
}

#[test]
fn callees_strides_and_effects() {
    let report = report(
        ".version 8.0\n.target sm_80\n.address_size 64\n.shared .align 4 .b8 outer[8];\n\
         .func f () { .reg .b32 %r<2>; .local .b8 here[12]; st.shared.u32 [outer], %r1; st.local.b8 [here], 0; \
         bar.sync 3; ret; }\n\
         .entry k (.param .u64 a, .param .u64 b) { .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;\n\
         ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; \
         add.s64 %rd4, %rd1, %rd3;\n\
         ld.global.f32 %f1, [%rd4]; shl.b32 %r2, %r1, 10; mul.wide.u32 %rd5, %r2, 4; add.s64 %rd6, %rd2, %rd5; \
         st.global.f32 [%rd6], %f1;\n\
         ld.global.f32 %f2, [%rd1+64]; ret; }\n\
         .entry m (.param .u64 a) { .reg .b64 %rd<9>; .reg .f32 %f<9>; ld.param.u64 %rd1, [a]; \
         ld.global.f32 %f1, [%rd1];\n\
         st.global.f32 [%rd1+4], %f1; red.global.add.f32 [%rd1], %f1; call f; ret; }\n",
    );
    let (k, m) = (&report["kernels"][0], &report["kernels"][1]);
    assert_eq!(
        (&k["mix"]["coalesced"], &k["mix"]["uncoalesced"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(
        (&k["idempotent"], &k["order_dependent"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(
        (&m["idempotent"], &m["order_dependent"]),
        (&json!(false), &json!(true))
    );
    let resources = &m["resources"];
    assert_eq!(
        (&resources["static_shared_bytes"], &resources["local_bytes"]),
        (&json!(8), &json!(12))
    );
    assert_eq!(resources["barriers"], json!([3]));
    assert_eq!(
        resources["address_spaces"],
        json!(["global", "shared", "local", "param"])
    );
}

#[test]
fn an_error_has_line_and_column() {
    let report = report(".version 8.0\n.target sm_80\n.entry k () { ret }\n");
    assert_eq!(report["kernels"], json!([]));
    assert_eq!(
        (&report["error"]["line"], &report["error"]["column"]),
        (&json!(3), &json!(19))
    );
}

/// A call by an alias is one of the function that it stands for.
#[test]
fn aliases_are_the_functions_that_they_stand_for() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
         .func f (.param .u64 a) { .reg .b32 %r; .reg .b64 %a; ld.param.u64 %a, [a]; mov.u32 %r, %ctaid.x; \
         st.global.u32 [%a], %r; ret; }\n.func g (.param .u64 a);\n.alias g, f;\n\
         .entry k (.param .u64 a) { .reg .b64 %a; ld.param.u64 %a, [a]; { .param .u64 x; st.param.u64 [x], %a; \
         call f, (x); } { .param .u64 x; st.param.u64 [x], %a; call g, (x); } ret; }\n";
    let module = Module::parse(text).expect("it parses");
    let program = module.decode().expect("it decodes");
    for form in Form::ALL {
        let made = rewrite(&module, &program, &Options::default(), |_| form);
        assert!(made.kernels[0].has(form), "{form}: {:?}", made.kernels[0]);
        let text = String::from_utf8(made.bytes).expect("text");
        assert!(form == Form::WHOLE || !text.contains(".alias"), "{text}");
        let calls = text.matches("call").count();
        assert_eq!(calls, 2, "{text}");
    }
}

/// Stamps of very many kernels stay within twice the room that forms have.
#[test]
fn very_many_tiny_kernels_are_stamped() {
    let line = |n: usize| format!(".entry k{n} () {{ ret; }} // {:110}\n", "");
    let kernels: String = (0..2500).map(line).collect();
    let text = format!(".version 8.0\n.target sm_80\n.address_size 64\n{kernels}");
    let source_bytes = text.len();
    let module = Module::parse(text).expect("it parses");
    let program = module.decode().expect("it decodes");
    let options = Options {
        stamps: true,
        ..Options::default()
    };
    let made = rewrite(&module, &program, &options, |_| Form::SLICE);
    assert!(made.bytes.len() <= 17 * source_bytes + (1 << 20));
    let stamped = |entry: &Entry| entry.stamps && entry.form() == Form::SLICE;
    assert!(made.kernels.iter().all(|k| k.entries.iter().all(stamped)));
}
