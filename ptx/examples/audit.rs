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
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

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
    let total = audit_all(&assembler, &sources);
    total.lines.iter().for_each(|line| println!("{line}"));
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

/// Returns what is audited: these files, or all that there are, and kernels generated from so many seeds.
fn sources(files: &[PathBuf], seeds: u64) -> Result<Vec<Source>, String> {
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("workloads");
    let all = [workloads.join("ptx"), workloads.join("corpus/out")];
    let mut found = Vec::new();
    let files = if files.is_empty() { &all[..] } else { files };
    for path in files {
        add(path, &mut found)?;
    }
    let one = |seed| {
        let text = generate(seed).ptx.into_bytes();
        (format!("generated kernel {seed}"), text)
    };
    found.extend((0..seeds).map(one));
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

/// Audits everything, on all processors.
fn audit_all(assembler: &Assembler, sources: &[Source]) -> Total {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut total = Total::default();
        // Relaxed: only the number matters, not its order against anything else.
        while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
            for form in [Form::FENCE, Form::FENCE_SLICE] {
                total.add(assembler, source, form);
            }
        }
        total
    };
    let mut all = Total::default();
    thread::scope(|scope| {
        let count = thread::available_parallelism().map_or(1, Into::into);
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            all.take(worker.join().expect("an audit ends"));
        }
    });
    all.lines.sort();
    all
}

/// What came of everything.
#[derive(Default)]
struct Total {
    /// What is to be said.
    lines: Vec<String>,
    kernels: usize,
    accesses: usize,
    unproved: usize,
    refused: usize,
    failed: usize,
}

impl Total {
    fn take(&mut self, other: Self) {
        self.lines.extend(other.lines);
        self.kernels += other.kernels;
        self.accesses += other.accesses;
        self.unproved += other.unproved;
        self.refused += other.refused;
        self.failed += other.failed;
    }

    fn fail(&mut self, what: String) {
        self.lines.push(format!("failed: {what}"));
        self.failed += 1;
    }

    /// Audits a file in one form, on each architecture.
    fn add(&mut self, assembler: &Assembler, (name, text): &Source, form: Form) {
        let Fenced {
            text,
            kernels,
            refused,
        } = match fenced(text, form) {
            Ok(fenced) => fenced,
            Err(error) => {
                return self.fail(format!("{name}: {error}"));
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
                Err(error) => self.fail(format!("{name} as {form} for {target}: {error}")),
            }
        }
    }

    fn count(&mut self, proof: &Proof, (name, form, target): (&str, Form, &str)) {
        self.accesses += proof.accesses;
        self.unproved += proof.unproved.len();
        for u in &proof.unproved {
            self.lines.push(format!(
                "not proved: {name}: {} as {form} for {target}, {:#06x} `{}`: {}",
                u.kernel, u.at, u.text, u.reason
            ));
        }
    }
}
