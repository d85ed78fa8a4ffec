//! Instructions that `ptxas` (13.5, `sm_90a`) accepts decode, those that it refuses do not, and no known one is
//! `Other`.
//!
//! `accepted.txt` and `refused.txt` hold one statement a line, the files with `modules` in their names
//! one module. The verdicts were taken from `ptxas` once, because the compiler is not at hand everywhere. With
//! `GRIDMUX_PTXAS` naming it they are asked again.

use gridmux_ptx::Module;
use gridmux_ptx::decode::Opcode;
use std::process::Command;

const ACCEPTED: &str = include_str!("accepted.txt");
const REFUSED: &str = include_str!("refused.txt");
/// A whole module a line.
const ACCEPTED_MODULES: &str = include_str!("accepted_modules.txt");
const REFUSED_MODULES: &str = include_str!("refused_modules.txt");

fn module(statement: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 16 .b8 dyn[];\n\
         .global .align 16 .b8 g[256];\n\
         .global .u32 ga[16];\n.const .align 16 .b8 cc[64];\n.global .texref tex0;\n.global .surfref surf0;\n\
         .func (.param .b32 rr) fn(.param .b32 aa) {{ ret; }}\n.entry k(.param .u64 p, .param .u32 n) {{\n\
         .reg .pred %p<9>; .reg .b16 %rs<20>; .reg .b32 %r<99>; .reg .b64 %rd<20>; .reg .f32 %f<20>; \
         .reg .f64 %fd<20>;\n\
         .reg .b128 %q<9>; .reg .u32 %u<9>; .reg .s32 %i<9>; .reg .f16 %h<9>; .reg .v4 .b32 %v<4>; .reg .b8 %b<5>;\n\
         .reg .u16 %us<5>; .reg .u64 %ud<5>; .reg .f16x2 %hh<5>; .shared .align 16 .b8 sh[256];\nL0:\n{statement}\n\
         ret;\n}}\n"
    )
}

fn statements(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|l| !l.is_empty())
}

#[test]
fn what_ptxas_accepts_decodes() {
    for statement in statements(ACCEPTED) {
        let decoded = Module::parse(module(statement)).and_then(|m| m.decode());
        let program = decoded.unwrap_or_else(|e| panic!("{statement}\n{e}"));
        for i in program.functions.iter().flat_map(|f| &f.body) {
            assert_ne!(i.opcode, Opcode::Other, "{statement}");
        }
    }
}

#[test]
fn what_ptxas_refuses_is_refused() {
    for statement in statements(REFUSED) {
        let decoded = Module::parse(module(statement)).and_then(|m| m.decode());
        let Err(e) = decoded else {
            panic!("{statement} decodes")
        };
        let shown: usize = module("").lines().count() - 3;
        assert!(e.line as usize >= shown, "{statement}\n{e}");
    }
}

#[test]
fn modules_that_ptxas_accepts_decode() {
    for text in statements(ACCEPTED_MODULES) {
        let decoded = Module::parse(text).and_then(|m| m.decode());
        assert!(decoded.is_ok(), "{text}: {:?}", decoded.err());
    }
}

#[test]
fn modules_that_ptxas_refuses_are_refused() {
    for text in statements(REFUSED_MODULES) {
        let decoded = Module::parse(text).and_then(|m| m.decode());
        assert!(decoded.is_err(), "{text} decodes");
    }
}

/// The recorded verdicts are still those of the compiler.
#[test]
fn the_verdicts_are_current() {
    let Some(ptxas) = std::env::var_os("GRIDMUX_PTXAS") else {
        println!("SKIPPED: GRIDMUX_PTXAS does not name the ptxas to ask");
        return;
    };
    let dir = std::env::temp_dir().join(format!("gridmux-conform-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary directory can be made");
    let (input, output) = (dir.join("in.ptx"), dir.join("out.cubin"));
    let assembles = |text: &str| {
        std::fs::write(&input, text).expect("it can be written");
        let mut command = Command::new(&ptxas);
        command.args(["-arch", "sm_90a", "-c", "-O0"]);
        let run = command.arg(&input).arg("-o").arg(&output).output();
        run.expect("ptxas runs").status.success()
    };
    for statement in statements(ACCEPTED) {
        assert!(assembles(&module(statement)), "{statement}");
    }
    for statement in statements(REFUSED) {
        assert!(!assembles(&module(statement)), "{statement}");
    }
    for text in statements(ACCEPTED_MODULES) {
        assert!(assembles(text), "{text}");
    }
    for text in statements(REFUSED_MODULES) {
        assert!(!assembles(text), "{text}");
    }
    std::fs::remove_dir_all(&dir).expect("it is ours");
}
