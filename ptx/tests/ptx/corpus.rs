//! Every file of the corpus (`workloads/corpus`, what compilers and people write) prints back byte for byte, decodes,
//! is judged for each form, and is rewritten in each form into text that parses and assembles.
//!
//! `GRIDMUX_PTX_DIR` adds a folder, searched through, whose files count as made by compilers.

use crate::assemble::{self, Assembler};
use gridmux_ptx::check::{KernelReport, check};
use gridmux_ptx::forms::{Form, FormVerdicts, Options, Reason, rewrite};
use gridmux_ptx::{Kernel, Module};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One file of the corpus.
pub(crate) struct Sample {
    /// Its folder and name, for messages.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// Whether a compiler wrote it.
    pub(crate) compiled: bool,
}

pub(crate) fn samples() -> Vec<Sample> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/corpus");
    let mut found = Vec::new();
    add(&corpus.join("out"), true, &mut found);
    add(&corpus.join("ptx"), false, &mut found);
    if let Some(more) = std::env::var_os("GRIDMUX_PTX_DIR") {
        add(Path::new(&more), true, &mut found);
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

pub(crate) fn add(folder: &Path, compiled: bool, found: &mut Vec<Sample>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            add(&path, compiled, found);
        } else if path.extension().is_some_and(|e| e == "ptx") {
            found.push(Sample {
                name: shown(&path),
                bytes: std::fs::read(&path).expect("a listed file can be read"),
                compiled,
            });
        }
    }
}

/// Returns the last two parts of a path.
fn shown(path: &Path) -> String {
    let parts: Vec<_> = path.iter().rev().take(2).collect();
    let parts: PathBuf = parts.into_iter().rev().collect();
    parts.display().to_string()
}

/// Panics with all that is wrong, not only the first.
pub(crate) fn report(wrong: &[String], what: &str) {
    assert!(
        wrong.is_empty(),
        "{} {what}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_corpus_is_large_and_varied() {
    let samples = samples();
    for (tool, least) in [
        ("nvcc", 120),
        ("nvrtc", 12),
        ("clang", 15),
        ("triton", 35),
        ("ptx", 9),
    ] {
        let prefix = format!("{tool}/");
        let count = samples
            .iter()
            .filter(|s| s.name.starts_with(&prefix))
            .count();
        assert!(count >= least, "only {count} files of {tool}");
    }
}

#[test]
fn every_file_prints_back_and_decodes() {
    let mut wrong = Vec::new();
    for sample in samples() {
        match Module::parse(sample.bytes.clone()) {
            Err(e) => wrong.push(format!("{}: {e}", sample.name)),
            Ok(module) => {
                if module.print() != sample.bytes {
                    wrong.push(format!("{}: prints back otherwise", sample.name));
                }
                if let Err(e) = module.decode() {
                    wrong.push(format!("{}: {e}", sample.name));
                }
            }
        }
    }
    report(&wrong, "files do not parse, decode or print back");
}

/// Returns the reports on every kernel that compilers made, with the file's name.
fn compiled_kernels() -> Vec<(String, KernelReport)> {
    let mut kernels = Vec::new();
    for sample in samples().into_iter().filter(|s| s.compiled) {
        let module = Module::parse(sample.bytes).unwrap_or_else(|e| panic!("{}: {e}", sample.name));
        let reports = check(&module).unwrap_or_else(|e| panic!("{}: {e}", sample.name));
        kernels.extend(
            reports
                .into_iter()
                .map(|report| (sample.name.clone(), report)),
        );
    }
    kernels
}

#[test]
fn shares_of_kernels_that_take_each_form() {
    let kernels = compiled_kernels();
    let takes = |report: &KernelReport, form: Form| report.forms.get(&form).is_some_and(|f| f.ok);
    let share = |keep: &dyn Fn(&KernelReport) -> bool| {
        let kept = kernels.iter().filter(|(_, report)| keep(report)).count();
        100.0 * kept as f64 / kernels.len() as f64
    };
    println!("{} kernels made by compilers", kernels.len());
    for form in Form::ALL {
        println!("{form:>14} {:6.1} %", share(&|r| takes(r, form)));
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for (name, report) in &kernels {
            let said = report.forms.get(&form);
            match said {
                Some(f) if f.ok => assert!(f.reason.is_none(), "{name} {}", report.name),
                Some(f) => {
                    let reason = f.reason.clone().unwrap_or_default();
                    assert!(
                        !reason.is_empty() && f.line.is_some(),
                        "{name} {}: {form}",
                        report.name
                    );
                    if std::env::var_os("GRIDMUX_VERBOSE").is_some() {
                        println!("    {name} {}: {reason}", report.name);
                    }
                    *reasons.entry(reason).or_default() += 1;
                }
                None => panic!("{name} {}: nothing is said of {form}", report.name),
            }
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        for (reason, n) in reasons {
            println!("    {n:4} {reason}");
        }
    }
    assert!(share(&|r| takes(r, Form::SLICE)) >= 97.0);
    assert!(share(&|r| takes(r, Form::WORKER)) >= 88.0);
}

/// Returns the module with every kernel that can take `form` in it; `None` when none can.
fn rewritten(sample: &Sample, form: Form) -> Option<(Vec<u8>, Vec<Kernel>)> {
    let module = Module::parse(sample.bytes.clone()).ok()?;
    let program = module.decode().ok()?;
    let done = rewrite(&module, &program, &Options::default(), |_| form);
    done.kernels
        .iter()
        .any(|k| k.has(form))
        .then_some((done.bytes, done.kernels))
}

#[test]
fn every_rewritten_file_parses_and_keeps_its_kernels() {
    let mut wrong = Vec::new();
    for sample in samples() {
        let names = |bytes: &[u8]| -> Result<Vec<String>, String> {
            let module = Module::parse(bytes).map_err(|e| e.to_string())?;
            let kernels = check(&module).map_err(|e| e.to_string())?;
            Ok(kernels.into_iter().map(|k| k.name).collect())
        };
        for form in Form::ALL {
            let Some((bytes, kernels)) = rewritten(&sample, form) else {
                continue;
            };
            let there = kernels.into_iter().filter(|k| !k.entries.is_empty());
            let before = Ok(there.map(|k| k.name).collect());
            if form == Form::WHOLE && bytes != sample.bytes {
                wrong.push(format!("{}: whole changes it", sample.name));
            }
            let after = names(&bytes);
            if after != before {
                wrong.push(format!("{} as {form}: {after:?}", sample.name));
            }
        }
    }
    report(&wrong, "rewritten files do not parse or lack kernels");
}

/// Every fifteenth file, and every file that people wrote, in every form; `cargo xtask bench ptx-cost` does all.
#[test]
fn rewritten_samples_assemble() {
    let Some(assembler) = Assembler::find() else {
        println!("SKIPPED: there is no ptxas here; `cargo xtask ptx` installs one");
        return;
    };
    let samples = samples();
    let chosen = samples
        .iter()
        .enumerate()
        .filter(|(n, sample)| n % 15 == 0 || !sample.compiled)
        .map(|(_, sample)| sample);
    let mut wrong = Vec::new();
    let mut assembled = 0;
    for sample in chosen {
        let Some(target) = assemble::targets(&sample.bytes).into_iter().next() else {
            continue;
        };
        for form in Form::ALL {
            if let Some((bytes, _)) = rewritten(sample, form) {
                assembled += 1;
                if let Err(e) = assembler.costs(&bytes, &target) {
                    wrong.push(format!("{} as {form} for {target}: {e}", sample.name));
                }
            }
        }
    }
    println!("{assembled} files assembled");
    report(&wrong, "rewritten files do not assemble");
}

/// Each loop of the corpus that polls is for the block itself, for earlier ones, or a lock; what waits for the grid
/// calls its barrier, which has a refusal of its own.
#[test]
fn no_kernel_of_the_corpus_is_refused_for_a_wait() {
    let mut samples = samples();
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/ptx");
    add(&workloads, true, &mut samples);
    let (mut kernels, mut refused, mut wrong) = (0, 0, Vec::new());
    for sample in samples {
        let module = Module::parse(sample.bytes).expect("the corpus parses");
        let program = module.decode().expect("the corpus decodes");
        let verdicts = FormVerdicts::new(&module, &program);
        for function in program.functions.iter().filter(|f| f.is_entry) {
            let Some((id, _)) = program.kernel(&function.name) else {
                continue;
            };
            kernels += 1;
            let Some(refusal) = verdicts.refusal(id, Form::SLICE) else {
                continue;
            };
            refused += 1;
            if let Reason::BlockWait(_) | Reason::SystemWait(_) | Reason::LoopsTooDeep =
                refusal.reason
            {
                wrong.push(format!("{}: {}: {refusal}", sample.name, function.name));
            }
        }
    }
    println!(
        "{kernels} kernels, {refused} are not cut, {} of them for a wait",
        wrong.len()
    );
    report(&wrong, "kernels are refused for a wait");
    assert!(kernels > 400, "{kernels} kernels");
}
