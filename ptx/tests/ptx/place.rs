//! Variables that leave a fenced module's text: what the description says of them, what stays, and that the text still
//! assembles.

use crate::assemble::{self, Assembler};
use gridmux_ptx::Module;
use gridmux_ptx::forms::{Form, Options, Rewritten, Variables, rewrite};

fn placed(text: &str, form: Form) -> Rewritten {
    let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let program = module.decode().unwrap_or_else(|error| panic!("{error}"));
    let options = Options {
        variables: Variables::Placed,
        ..Options::default()
    };
    let made = rewrite(&module, &program, &options, |_| form);
    let again = Module::parse(made.bytes.clone()).expect("what is printed parses");
    again.decode().expect("and decodes");
    made
}

fn text_of(made: &Rewritten) -> String {
    String::from_utf8(made.bytes.clone()).expect("text")
}

/// Returns a module with these declarations and a kernel `k` of these instructions.
fn module(declared: &str, body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n{declared}\n\
         .visible .entry k(.param .u64 p)\n{{\n.reg .b64 %a, %b;\n.reg .b32 %r, %s;\n.reg .pred %q;\n{body}\nret;\n}}\n"
    )
}

const ALL_KINDS: &str = ".global .align 4 .u32 count = 7;\n\
    .global .align 16 .b8 big[20000000];\n\
    .visible .global .align 8 .u64 table[3] = {count, generic(big)+16, 5};\n\
    .global .align 4 .f32 values[2] = {1.0, 0.0};\n\
    .const .align 4 .u32 stays[2] = {3, 4};";

const USES: &str = "ld.global.u32 %r, [count];\nst.global.u32 [big+12000000], %r;\nld.const.u32 %s, [stays+4];\n\
    setp.eq.u32 %q, %r, %s;\n@%q red.global.add.u32 [count], %s;\nmov.u64 %a, table;\nadd.s64 %a, %a, 8;\n\
    ld.global.u64 %b, [%a];\ncvta.global.u64 %b, values;\nst.f32 [%b], 0f3f800000;\nst.global.u32 [big+19999998], %r;\n\
    ld.global.u32 %r, [values+4];\nmov.b32 %r, count;";

#[test]
fn the_description_has_places_bytes_and_addresses() {
    let made = placed(&module(ALL_KINDS, USES), Form::FENCE_SLICE);
    let text = text_of(&made);
    let block = made.placed.expect("variables are placed");
    assert!(!text.contains(".global .align"), "{text}");
    assert!(
        !text.contains("count") && text.contains(".const .align 4 .u8 stays"),
        "{text}"
    );
    assert!(
        text.contains(&format!(".visible .const .u64 {};", block.pointer)),
        "{text}"
    );
    assert_eq!(block.check(), Ok(()));
    let [count, big, table, values] = &block.variables[..] else {
        panic!("{block:?}");
    };
    assert_eq!(
        (&*count.name, count.offset, &count.init[..]),
        ("count", 0, &[7][..])
    );
    assert_eq!(
        (big.offset, big.size_bytes, big.init.len()),
        (16, 20_000_000, 0)
    );
    assert_eq!(
        (&*table.name, table.offset, table.size_bytes),
        ("table", 20_000_016, 24)
    );
    let held = table.relocations.iter();
    let held: Vec<_> = held.map(|of| (of.at, of.width, of.target)).collect();
    assert_eq!(held, [(0, 8, 0), (8, 8, 32)]);
    assert_eq!(table.init.len(), 17);
    assert_eq!(
        (values.offset, &values.init[..]),
        (20_000_040, &[0, 0, 0x80, 0x3f][..])
    );
    assert_eq!((block.bytes, block.align), (20_000_048, 256));
}

#[test]
fn the_text_assembles_in_every_form() {
    let Some(assembler) = Assembler::find() else {
        println!("SKIPPED: there is no ptxas");
        return;
    };
    for form in [Form::FENCE, Form::FENCE_SLICE, Form::FENCE_WORKER] {
        let made = placed(&module(ALL_KINDS, USES), form);
        for target in assemble::targets(&made.bytes) {
            let assembled = assembler.costs(&made.bytes, &target);
            assembled
                .unwrap_or_else(|error| panic!("{form}, {target}: {error}\n{}", text_of(&made)));
        }
    }
}

#[test]
fn kernels_that_are_not_fenced_find_the_variables_too() {
    let two = module(
        ".global .u32 count;",
        "ld.global.u32 %r, [count];\nst.global.u32 [%a], %r;",
    );
    let other = two.replace("entry k", "entry other");
    let other = other.split_once(".visible").expect("a kernel").1;
    let text = format!("{two}.visible{other}");
    let module = Module::parse(&*text).expect("it parses");
    let program = module.decode().expect("it decodes");
    let options = Options {
        variables: Variables::Placed,
        ..Options::default()
    };
    let fenced = program.kernel("k").expect("it is there").0;
    let made = rewrite(&module, &program, &options, |id| match id == fenced {
        true => Form::FENCE,
        false => Form::WHOLE,
    });
    let printed = text_of(&made);
    assert_eq!(printed.matches("ld.const.u64").count(), 2, "{printed}");
    assert!(!printed.contains("count"), "{printed}");
    // Where none is fenced, the text is the original.
    let whole = rewrite(&module, &program, &options, |_| Form::WHOLE);
    assert_eq!((text_of(&whole), whole.placed), (text, None));
}

#[test]
fn what_cannot_be_placed_is_refused_by_name() {
    let load = "mov.u64 %a, x;\nld.global.u64 %b, [%a];";
    let cases = [
        (
            ".visible .global .attribute(.managed) .u64 x;",
            load,
            "managed",
        ),
        (".extern .global .u64 x;", load, "defined elsewhere"),
        (
            ".func f() { ret; }\n.global .u64 x = f;",
            load,
            "address of a function",
        ),
        (".const .u32 c = 1;\n.global .u64 x = c;", load, "constant"),
        (
            ".shared .u32 s;\n.global .u64 x = s;",
            load,
            "not in global memory",
        ),
        (".global .u64 x;\n.const .u64 c = x;", load, "constant"),
        (
            ".global .u64 x;\n.const .u64 c = x;",
            "ld.const.u64 %a, [c];\nld.global.u64 %b, [%a];",
            "constant",
        ),
        (
            ".func f() { ret; }\n.global .u64 y = f;\n.global .u64 x = y;",
            load,
            "cannot be placed, or one such",
        ),
        (
            ".const .b8 c[65536];\n.global .u64 x;",
            load,
            "leave no room",
        ),
    ];
    for (declared, body, why) in cases {
        let declared = format!("{declared}\n.global .u32 fine;");
        let made = placed(&module(&declared, body), Form::FENCE);
        let kernel = &made.kernels[0];
        assert!(!kernel.has(Form::FENCE), "{declared}");
        let refusal = kernel.refusal(Form::FENCE).expect("a reason").to_string();
        assert!(refusal.contains(why), "{declared}: {refusal}");
        assert!(refusal.starts_with("line "), "{refusal}");
    }
    // One that names none of these is fenced, and the others stay where they were.
    let beside = ".func f() { ret; }\n.global .u64 x = f;\n.global .u32 fine;";
    let made = placed(&module(beside, "ld.global.u32 %r, [fine];"), Form::FENCE);
    assert!(made.kernels[0].has(Form::FENCE));
    let block = made.placed.as_ref().expect("one is placed");
    assert_eq!(block.variables.len(), 1);
    assert!(text_of(&made).contains(" x["), "{}", text_of(&made));
}
