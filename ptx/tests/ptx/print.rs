//! The canonical print: of every file of the corpus and every kernel of ours it decodes to the same tree and, where an
//! assembler is at hand, assembles to the same machine code.

use crate::assemble::{Assembler, Cost, targets};
use crate::corpus::{add, report, samples};
use gridmux_ptx::Module;
use gridmux_ptx::decode::{Function, Instruction, Operand, Program};
use gridmux_ptx::forms::{Form, Options, rewrite};
use gridmux_ptx::print::{Printed, print};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn program(bytes: &[u8], name: &str) -> Program {
    let module = Module::parse(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
    module.decode().unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Returns the files of the corpus and our workloads: name and text.
fn texts() -> Vec<(String, Vec<u8>)> {
    let mut samples = samples();
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/ptx");
    add(&workloads, true, &mut samples);
    samples
        .into_iter()
        .map(|sample| (sample.name, sample.bytes))
        .collect()
}

/// Returns an operand without the numbers that the tree gives to registers, symbols and labels.
fn shape(operand: &Operand) -> String {
    let list = |all: &[Operand]| all.iter().map(shape).collect::<Vec<_>>().join(",");
    match operand {
        Operand::Reg(_) => "r".into(),
        Operand::NotReg(_) => "!r".into(),
        Operand::NegReg(_) => "-r".into(),
        Operand::RegOffset(_, offset) => format!("r+{offset}"),
        Operand::Resident(vector, _) => format!("{}|p", shape(vector)),
        Operand::RegPair(a, b) => format!("{}|{}", a.is_some(), b.is_some()),
        Operand::Address { offset, .. } => format!("[{offset}]"),
        Operand::Symbol { offset, .. } => format!("s+{offset}"),
        Operand::Vector(all) => format!("{{{}}}", list(all)),
        Operand::Arguments(all) => format!("({})", list(all)),
        Operand::TexAddress(of) => {
            format!("tex {} {}", of.sampler.is_some(), list(&of.coordinates))
        }
        Operand::Selected(_, part) => format!("r.{part}"),
        Operand::Target(target) => format!("L{target}"),
        other => format!("{other:?}"),
    }
}

fn shapes(function: &Function) -> Vec<String> {
    let one = |i: &Instruction| {
        let guard = i
            .guard
            .map_or(String::new(), |guard| format!("@{} ", guard.negated));
        let operands: Vec<String> = i.operands.iter().map(shape).collect();
        format!("{guard}{} {:?} {}", i.mnemonic, i.mods, operands.join(", "))
    };
    function.body.iter().map(one).collect()
}

/// Returns what of a printed module is not what it was.
fn differences(name: &str, before: &Program, printed: &Printed) -> Vec<String> {
    let mut wrong = Vec::new();
    let after = program(printed.text.as_bytes(), name);
    for kernel in &printed.kernels {
        let (_, was) = before.kernel(kernel).expect("it is printed");
        let (_, is) = after.kernel(kernel).expect("it is printed");
        let memory = |f: &Function| -> Vec<(u32, u32)> {
            f.params.iter().map(|p| (p.offset, p.size_bytes)).collect()
        };
        if shapes(was) != shapes(is) || memory(was) != memory(is) || was.bounds != is.bounds {
            wrong.push(format!("{name} {kernel}: it decodes to another tree"));
        }
    }
    if printed.refused.is_empty() {
        let again = print(&after);
        let mut lines = printed.text.lines().zip(again.text.lines());
        if let Some((first, second)) = lines.find(|(first, second)| first != second) {
            wrong.push(format!(
                "{name}: `{first}` is `{second}` when printed again"
            ));
        }
    }
    wrong
}

#[test]
fn the_print_of_every_file_decodes_to_the_same_tree() {
    let (mut wrong, mut kernels, mut refused) = (Vec::new(), 0, Vec::new());
    for (name, bytes) in texts() {
        let before = program(&bytes, &name);
        let printed = print(&before);
        kernels += printed.kernels.len();
        wrong.extend(differences(&name, &before, &printed));
        let said = printed
            .refused
            .iter()
            .map(|of| format!("{name} {}: {}", of.kernel, of.what));
        refused.extend(said);
    }
    println!(
        "{kernels} kernels printed, {} refused:\n{}",
        refused.len(),
        refused.join("\n")
    );
    report(&wrong, "prints differ");
    assert!(refused.len() * 50 < kernels, "too much is refused");
}

/// A line of the text, and file and line of the source, where that is known.
type Place = (u32, Option<(u32, u32)>);

/// Returns where the instructions of each kernel stand.
fn places(bytes: &[u8], name: &str) -> BTreeMap<String, BTreeSet<Place>> {
    let lines = Module::parse(bytes).expect("it parses").lines();
    let kernels = program(bytes, name)
        .functions
        .into_iter()
        .filter(|f| f.is_entry);
    let place = |i: &Instruction| (lines.line(i.span.start), i.source_line);
    let places = kernels.map(|f| (f.name, f.body.iter().map(place).collect()));
    places.collect()
}

#[test]
fn instructions_of_a_rewritten_kernel_stand_where_the_originals_do() {
    let (mut wrong, mut kernels) = (Vec::new(), 0);
    for (name, bytes) in texts() {
        let module = Module::parse(&bytes[..]).expect("it parses");
        let original = places(&bytes, &name);
        let made = rewrite(
            &module,
            &program(&bytes, &name),
            &Options::default(),
            |_| Form::FENCE_SLICE,
        );
        let rewritten = places(&made.bytes, &name);
        for (kernel, places) in &rewritten {
            // What a form adds in front of the body stands there, and what it adds at the end on the last line.
            let own = &original[kernel];
            let (first, last) = (own.first(), places.last());
            let differ = |place: &&Place| {
                !own.contains(*place)
                    && first.is_some_and(|first| first.0 <= place.0)
                    && Some(*place) != last
            };
            kernels += 1;
            if let Some(place) = places.iter().find(differ) {
                wrong.push(format!("{name} {kernel}: nothing stood at {place:?}"));
            }
        }
    }
    report(&wrong, "kernels stand elsewhere");
    assert!(kernels > 100, "{kernels} kernels");
}

/// Returns the costs of kernels on the text's own architecture.
fn costs(assembler: &Assembler, text: &[u8]) -> Result<BTreeMap<String, Cost>, String> {
    let targets = targets(text);
    assembler.costs(text, targets.first().map_or("sm_80", String::as_str))
}

/// Returns whether a module is compiled for a debugger, without optimisation; a print is not.
fn is_debug_build(program: &Program) -> bool {
    program
        .target
        .split(',')
        .any(|option| option.trim() == "debug")
}

/// Every tenth file; all where `GRIDMUX_ALL` is set.
#[test]
fn the_print_assembles_to_the_same_machine_code() {
    let Some(assembler) = Assembler::find() else {
        println!("SKIPPED: no ptxas; `cargo xtask ptx` installs it");
        return;
    };
    let all = std::env::var_os("GRIDMUX_ALL").is_some();
    let (mut wrong, mut same, mut ordered, mut other) = (Vec::new(), 0, 0, Vec::new());
    for (name, bytes) in texts().into_iter().step_by(if all { 1 } else { 10 }) {
        let program = program(&bytes, &name);
        // What does not assemble as it is cannot be compared.
        let Ok(before) = costs(&assembler, &bytes) else {
            continue;
        };
        let printed = print(&program);
        if is_debug_build(&program) {
            continue;
        }
        let after = match costs(&assembler, printed.text.as_bytes()) {
            Ok(after) => after,
            Err(said) => {
                wrong.push(format!("{name}: {said}"));
                continue;
            }
        };
        for kernel in &printed.kernels {
            match (before.get(kernel), after.get(kernel)) {
                (Some(was), Some(is)) if was.code == is.code => same += 1,
                (Some(was), Some(is)) if was.unordered == is.unordered => ordered += 1,
                (Some(was), Some(is)) => other.push(format!("{name} {kernel}: {was:?} and {is:?}")),
                _ => wrong.push(format!("{name} {kernel}: it is gone")),
            }
        }
    }
    println!(
        "{same} kernels have the same machine code, {ordered} but for the order of their functions, {} another:\n{}",
        other.len(),
        other.join("\n")
    );
    report(&wrong, "prints do not assemble");
    assert!(
        other.len() * 100 <= same,
        "too many are assembled otherwise"
    );
}
