//! Which kernels are gangs: those whose blocks may wait for blocks that come later, whatever else keeps them from being
//! cut.

use gridmux_ptx::Module;
use gridmux_ptx::forms::{Form, Options, rewrite};

/// Returns whether a kernel that says something first and then waits at a barrier of its grid is a gang.
fn is_gang(form: Form, before: &str, wait: &str) -> bool {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k (.param .u64 word)\n{{\n.reg .b32 %r<4>; \
         .reg .b64 %rd<4>; .reg .pred %p<2>;\nld.param.u64 %rd1, [word];\n{before}\n{wait}\nret;\n}}\n"
    );
    let module = Module::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let program = module.decode().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let made = rewrite(&module, &program, &Options::default(), |_| form);
    made.kernels[0].is_gang
}

/// Returns a barrier whose count is read with the qualifiers.
fn barrier(read: &str) -> String {
    format!(
        "atom.global.add.u32 %r1, [%rd1], 1; mov.u32 %r2, %nctaid.x;\nW: ld.{read}.global.u32 %r3, [%rd1]; \
         setp.lt.u32 %p1, %r3, %r2; @%p1 bra W;"
    )
}

#[test]
fn a_wait_for_blocks_makes_a_gang_whatever_stands_before_it() {
    let waits = [
        barrier("acquire.gpu"),
        barrier("acquire.sys"),
        barrier("volatile"),
    ];
    let befores = [
        "",
        "mov.u64 %rd2, %gridid;",
        "mov.u32 %r3, %clusterid.x;",
        "mov.u32 %r3, %total_smem_size;",
    ];
    for form in [Form::WHOLE, Form::SLICE] {
        for before in befores {
            assert!(!is_gang(form, before, ""), "{before}: it waits for nobody");
            for wait in &waits {
                assert!(is_gang(form, before, wait), "{before} {wait}");
            }
            let registers = "mov.u32 %r1, %envreg2;";
            assert!(is_gang(form, before, registers), "{before} {registers}");
        }
    }
}
