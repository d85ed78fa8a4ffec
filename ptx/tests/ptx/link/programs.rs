//! Programs that compilers made, and long ones.

use super::linked;
use crate::assemble::Assembler;
use gridmux_ptx::decode::{Opcode, Operand, Program, Symbol};
use gridmux_ptx::link::{LinkError, Part, link};
use gridmux_ptx::{Module, StatementKind};
use std::path::Path;

#[test]
fn linked_alone_a_module_of_the_corpus_is_itself_without_its_debug_sections() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/corpus/out");
    let mut files = 0;
    for tool in ["nvcc", "clang", "nvrtc", "triton"] {
        for entry in std::fs::read_dir(folder.join(tool)).expect("the corpus is there") {
            let path = entry.expect("the folder can be listed").path();
            let text = std::fs::read(&path).expect("the file can be read");
            let before = Module::parse(text).expect("it parses");
            let expected = before.decode().expect("it decodes");
            let name = path.display().to_string();
            let part = Part {
                name: name.clone(),
                module: before,
            };
            let module = match link(vec![part]) {
                Ok(module) => module,
                // One that wants another module's definitions says so.
                Err(LinkError::Unresolved { .. }) if name.contains("separate_library") => continue,
                Err(error) => panic!("{error}"),
            };
            let debug = |kind| {
                matches!(
                    kind,
                    StatementKind::File | StatementKind::Loc | StatementKind::Section
                )
            };
            assert!(module.statements().all(|(kind, _)| !debug(kind)), "{name}");
            let program = module
                .decode()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let shape = |p: &Program| -> Vec<(String, u32, usize)> {
                let defined = p.functions.iter().filter(|f| f.is_defined);
                defined
                    .map(|f| (f.name.clone(), f.params_bytes, f.body.len()))
                    .collect()
            };
            assert_eq!(shape(&program), shape(&expected), "{name}");
            files += 1;
        }
    }
    assert!(files > 100, "{files} files");
}

/// Returns a program of the corpus and its library, by two compilers, as one module each.
fn with_library(library: &str) -> Vec<Module> {
    let user = include_str!("../../../../workloads/corpus/out/nvcc/separate_library.sm80.ptx");
    let part = |name: &str, text: &str| Part {
        name: name.to_owned(),
        module: Module::parse(text).expect("it parses"),
    };
    let orders = [false, true].map(|library_first| {
        let mut parts = vec![part("user", user), part("library", library)];
        if library_first {
            parts.reverse();
        }
        link(parts).unwrap_or_else(|error| panic!("{error}"))
    });
    orders.into()
}

const LIBRARIES: [&str; 2] = [
    include_str!("library.clang.ptx"),
    include_str!("library.nvcc.ptx"),
];

#[test]
fn separately_compiled_modules_of_nvcc_and_clang_link() {
    for library in LIBRARIES {
        for module in with_library(library) {
            let program = module.decode().expect("it decodes");
            assert!(program.functions.iter().all(|f| f.is_defined));
            assert!(program.variables.iter().all(|v| !v.is_extern));
            let (_, kernel) = program.kernel("uses_library").expect("the kernel stays");
            let called = kernel.body.iter().filter(|i| i.opcode == Opcode::Call);
            let called: Vec<_> = called
                .filter_map(|i| match &i.operands[1] {
                    Operand::Symbol {
                        symbol: Symbol::Function(f),
                        ..
                    } => Some(&program.functions[f.0 as usize]),
                    _ => None,
                })
                .collect();
            assert_eq!(called.len(), 1);
            assert!(called[0].is_defined && called[0].name.contains("library_scale"));
        }
    }
}

#[test]
fn linked_modules_assemble() {
    let Some(assembler) = Assembler::find() else {
        println!("skipped: no ptxas; `cargo xtask ptx` installs it");
        return;
    };
    let mut modules: Vec<Module> = LIBRARIES.iter().flat_map(|l| with_library(l)).collect();
    let weak = ".weak .global .align 4 .u32 once = 1, two[2] = {1, 2};\n.weak .func f(.param .b32 a) { ret; }
.common .global .align 4 .u32 c;\n.global .align 4 .u32 own;
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n.extern .shared .align 8 .b8 dynamic[];
.visible .entry NAME() { .reg .b64 %d; .reg .b32 %r; .param .b32 p; .param .b64 q; ld.global.u32 %r,[once+4]; st.param.b32 [p],%r; call f,(p);
 mov.u64 %d, own; st.param.b64 [q], %d; call (p), vprintf, (q, q); mov.u64 %d, dynamic; st.shared.u32 [dynamic], %r; st.global.u32 [c], %r; ret; }";
    let texts: Vec<String> = ["k", "l", "m"]
        .map(|name| weak.replace("NAME", name))
        .into();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    modules.push(linked(&texts).expect("it links"));
    let strong = texts[2].replace(".weak", ".visible").replace(
        ".common .global .align 4 .u32 c",
        ".common .global .align 16 .b8 c[64]",
    );
    modules.push(linked(&[texts[0], texts[1], &strong]).expect("it links"));
    for module in modules {
        if let Err(error) = assembler.costs(module.source(), "sm_80") {
            panic!("{error}\n{}", String::from_utf8_lossy(module.source()));
        }
    }
}
