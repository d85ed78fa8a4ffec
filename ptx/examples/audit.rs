//! `cargo xtask audit`: audits the machine code of fenced kernels and prints what is not proved, then counts.
//!
//! Every kernel that can be fenced is, alone and as a slice, in the fence's window mode, for `sm_80` and `sm_90` where
//! the file's target allows. `audit FILE…` fails where anything is not proved; with `--allow-unproved` it counts by
//! reason what is not, and fails only where a file cannot be audited. `--seeds N` adds N generated
//! kernels.

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

/// What was asked for.
#[derive(Default)]
struct Arguments {
    files: Vec<PathBuf>,
    seeds: u64,
    allow_unproved: bool,
}

fn main() -> ExitCode {
    let asked = arguments(std::env::args().skip(1)).and_then(|a| Ok((sources(&a)?, a)));
    let (sources, arguments) = match asked {
        Ok(asked) => asked,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let Some(assembler) = Assembler::find().filter(Assembler::disassembles) else {
        println!("SKIPPED: there is no ptxas with nvdisasm here; `cargo xtask ptx` installs them");
        return ExitCode::SUCCESS;
    };
    let total = audit_all(&assembler, &sources);
    total.print(arguments.allow_unproved);
    let is_proved = arguments.allow_unproved || total.unproved.is_empty();
    match is_proved && total.failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Reads the command line.
fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--allow-unproved" => arguments.allow_unproved = true,
            "--seeds" => {
                let count = words.next().ok_or("`--seeds` needs a number behind it")?;
                let wrong = |_| format!("`--seeds {count}` is not a number of kernels to generate");
                arguments.seeds = count.parse().map_err(wrong)?;
            }
            option if option.starts_with('-') => {
                return Err(format!(
                    "there is no option `{option}`: `--allow-unproved` or `--seeds N`"
                ));
            }
            file => arguments.files.push(PathBuf::from(file)),
        }
    }
    match arguments.files.is_empty() && arguments.seeds == 0 {
        true => Err("nothing to audit: name PTX files, or give `--seeds N`".to_owned()),
        false => Ok(arguments),
    }
}

/// Returns what is audited: the files, and generated kernels.
fn sources(arguments: &Arguments) -> Result<Vec<Source>, String> {
    let mut found = Vec::new();
    for path in &arguments.files {
        add(path, &mut found)?;
    }
    let one = |seed| {
        let text = generate(seed).ptx.into_bytes();
        (format!("generated kernel {seed}"), text)
    };
    found.extend((0..arguments.seeds).map(one));
    match found.is_empty() {
        true => Err("nothing to audit: there is no PTX in what is named".to_owned()),
        false => Ok(found),
    }
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
    all.failed.sort();
    all.unproved.sort();
    all
}

/// What came of everything.
#[derive(Default)]
struct Total {
    /// What could not be audited.
    failed: Vec<String>,
    /// What is not proved: why, and where.
    unproved: Vec<(String, String)>,
    kernels: usize,
    accesses: usize,
    proved: usize,
    refused: usize,
}

impl Total {
    fn take(&mut self, other: Self) {
        self.failed.extend(other.failed);
        self.unproved.extend(other.unproved);
        self.kernels += other.kernels;
        self.accesses += other.accesses;
        self.proved += other.proved;
        self.refused += other.refused;
    }

    fn print(&self, by_reason: bool) {
        for what in &self.failed {
            println!("failed: {what}");
        }
        if by_reason {
            for group in self.unproved.chunk_by(|a, b| a.0 == b.0) {
                println!("not proved {} times: {}", group.len(), group[0].0);
            }
        } else {
            for (reason, place) in &self.unproved {
                println!("not proved: {place}: {reason}");
            }
        }
        println!(
            "{} kernels, {} accesses: {} proved, {} not proved; {} kernels not fenced, {} files failed",
            self.kernels,
            self.accesses,
            self.proved,
            self.accesses - self.proved,
            self.refused,
            self.failed.len()
        );
    }

    /// Audits a file in one form, on each architecture.
    fn add(&mut self, assembler: &Assembler, (name, text): &Source, form: Form) {
        let Fenced {
            text,
            kernels,
            refused,
        } = match fenced(text, form) {
            Ok(fenced) => fenced,
            Err(error) => return self.failed.push(format!("{name}: {error}")),
        };
        self.refused += refused;
        if kernels.is_empty() {
            return;
        }
        let targets = audit::targets(&text);
        if targets.is_empty() {
            let reason = "it is for no architecture that is audited";
            let place = format!("{name} as {form}");
            self.unproved.push((reason.to_owned(), place));
        }
        for target in targets {
            match audit(assembler, &text, &kernels, &target) {
                Ok(proofs) => {
                    self.kernels += proofs.len();
                    proofs
                        .iter()
                        .for_each(|proof| self.count(proof, (name, form, &target)));
                }
                Err(error) => {
                    let what = format!("{name} as {form} for {target}: {error}");
                    self.failed.push(what);
                }
            }
        }
    }

    fn count(&mut self, proof: &Proof, (name, form, target): (&str, Form, &str)) {
        self.accesses += proof.accesses;
        self.proved += proof.proved();
        for u in &proof.unproved {
            let place = format!(
                "{name}: {} as {form} for {target}, {:#06x} `{}`",
                u.kernel, u.at, u.text
            );
            self.unproved.push((u.reason.clone(), place));
        }
    }
}
