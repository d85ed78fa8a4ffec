//! `cargo xtask audit`: audits the machine code of fenced kernels and prints what is not proved, then counts.
//!
//! Every kernel that can be fenced is, alone and as a slice, in the fence's window mode, for `sm_80` and `sm_90` where
//! the file's target allows.

#[allow(dead_code, reason = "the benchmark of costs uses all of it")]
#[path = "../tests/ptx/assemble/mod.rs"]
mod assemble;
#[path = "../tests/ptx/audit/mod.rs"]
mod audit;

use assemble::Assembler;
use audit::{Fenced, Proof, audit, fenced};
use gridmux_ptx::forms::Form;
use gridmux_testkit::generate::generate;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is audited: a name for messages, and the text.
type Source = (String, Vec<u8>);

fn main() -> ExitCode {
    let Some(assembler) = Assembler::find().filter(Assembler::disassembles) else {
        println!("SKIPPED: there is no ptxas with nvdisasm here; `cargo xtask ptx` installs them");
        return ExitCode::SUCCESS;
    };
    let mut seeds = 0;
    let mut files = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seeds" => seeds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(0),
            file => files.push(PathBuf::from(file)),
        }
    }
    let sources = match sources(&files, seeds) {
        Ok(sources) => sources,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut total = Total::default();
    for source in &sources {
        for form in [Form::FENCE, Form::FENCE_SLICE] {
            total.add(&assembler, source, form);
        }
    }
    println!(
        "{} kernels, {} accesses: {} proved, {} not proved; {} kernels not fenced, {} files failed",
        total.kernels,
        total.accesses,
        total.accesses - total.unproved,
        total.unproved,
        total.refused,
        total.failed
    );
    match total.failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Returns what is audited: these files, or all that there is.
fn sources(files: &[PathBuf], seeds: u64) -> Result<Vec<Source>, String> {
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads");
    let all = [workloads.join("ptx"), workloads.join("corpus/out")];
    let mut found = Vec::new();
    for path in if files.is_empty() { &all[..] } else { files } {
        add(path, &mut found)?;
    }
    if files.is_empty() {
        let one = |seed| {
            (
                format!("generated kernel {seed}"),
                generate(seed).ptx.into_bytes(),
            )
        };
        found.extend((0..seeds).map(one));
    }
    Ok(found)
}

/// Adds a file, or the PTX of a folder and the folders in it.
fn add(path: &Path, found: &mut Vec<Source>) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("cannot read {}: {e}", path.display());
    if !path.is_dir() {
        let text = std::fs::read(path).map_err(failed)?;
        found.push((path.display().to_string(), text));
        return Ok(());
    }
    let entries = path.read_dir().map_err(failed)?.flatten();
    let mut inside: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    inside.sort();
    inside.retain(|p| p.is_dir() || p.extension().is_some_and(|e| e == "ptx"));
    inside.iter().try_for_each(|p| add(p, found))
}

/// What came of everything.
#[derive(Default)]
struct Total {
    kernels: usize,
    accesses: usize,
    unproved: usize,
    refused: usize,
    failed: usize,
}

impl Total {
    /// Audits a file in one form, on each architecture.
    fn add(&mut self, assembler: &Assembler, (name, text): &Source, form: Form) {
        let Fenced {
            text,
            kernels,
            refused,
        } = match fenced(text, form) {
            Ok(fenced) => fenced,
            Err(error) => {
                println!("failed: {name}: {error}");
                self.failed += 1;
                return;
            }
        };
        self.refused += refused;
        if kernels.is_empty() {
            return;
        }
        for target in audit::targets(&text) {
            match audit(assembler, &text, &kernels, &target) {
                Ok(proofs) => {
                    self.kernels += proofs.len();
                    proofs
                        .iter()
                        .for_each(|proof| self.count(proof, (name, form, &target)));
                }
                Err(error) => {
                    println!("failed: {name} as {form} for {target}: {error}");
                    self.failed += 1;
                }
            }
        }
    }

    fn count(&mut self, proof: &Proof, (name, form, target): (&str, Form, &str)) {
        self.accesses += proof.accesses;
        self.unproved += proof.unproved.len();
        for u in &proof.unproved {
            println!(
                "not proved: {name}: {} as {form} for {target}, {:#06x} `{}`: {}",
                u.kernel, u.at, u.text, u.reason
            );
        }
    }
}
