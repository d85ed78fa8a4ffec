//! `cargo xtask bench ptx-cost`: what each form costs in the machine code that `ptxas` makes: registers, spills, size.
//!
//! Every kernel of the corpus and of the workloads is rewritten in every form and assembled for its own architecture
//! and the later ones; a kernel that cannot take the form is left out. The fence comes in each of its modes, and
//! composed with the other forms in the cheapest. Distributions, by architecture too, and the worst kernels go to
//! stderr; each figure that has a bar carries it as the peer `bar`.
//!
//! Code is counted in instructions, without the padding that ends every kernel. What a kernel takes in memory and in
//! the instruction cache is a multiple of 128 bytes, eight instructions, so a kernel of ten may grow by a fifth at no
//! cost or double. Hence two counts of kernels above 1.1 times: all of them, and those that also grew by more than one
//! such unit (`code_above_unit`).
//!
//! Beside each form, and for the originals, it says how far [`registers_estimate`] is from `ptxas`.
//!
//! The first run takes minutes; results are kept (see `assemble`). An argument picks the benchmarks that start with it.

#[path = "../tests/ptx/assemble/mod.rs"]
mod assemble;
#[path = "ptx-cost/tell.rs"]
mod tell;

use assemble::{Assembler, Cost};
use gridmux_ptx::Module;
use gridmux_ptx::analysis::registers_estimate;
use gridmux_ptx::forms::fence::{FenceMode, FenceOptions};
use gridmux_ptx::forms::{Form, Options, rewrite};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tell::{Row, number, print, tell, tell_estimates};

/// A form as it is made here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Variant {
    /// Its position in [`VARIANTS`], from 1.
    order: usize,
    name: &'static str,
    form: Form,
    mode: FenceMode,
    /// Most extra registers at the median and the 95th percentile.
    bar: Option<(u32, u32)>,
}

const fn variant(
    order: usize,
    name: &'static str,
    (form, mode): (Form, FenceMode),
    bar: Option<(u32, u32)>,
) -> Variant {
    Variant {
        order,
        name,
        form,
        mode,
        bar,
    }
}

/// What is measured, behind the original.
const VARIANTS: [Variant; 7] = {
    use FenceMode::{HighBits, Mask, Window};
    [
        variant(1, "slice", (Form::SLICE, Window), Some((0, 0))),
        variant(2, "worker", (Form::WORKER, Window), Some((3, 10))),
        variant(3, "fence", (Form::FENCE, Window), Some((0, 4))),
        variant(4, "fence_high_bits", (Form::FENCE, HighBits), Some((0, 4))),
        variant(5, "fence_mask", (Form::FENCE, Mask), Some((4, 10))),
        variant(6, "fence+slice", (Form::FENCE_SLICE, Window), None),
        variant(7, "fence+worker", (Form::FENCE_WORKER, Window), None),
    ]
};

/// The original.
const WHOLE: Variant = variant(0, "whole", (Form::WHOLE, FenceMode::Window), None);

/// One run of the assembler: a module, the form whose kernels it holds, and the architecture.
struct Job {
    file: usize,
    variant: Variant,
    target: String,
    text: Vec<u8>,
    /// The kernels that took the form, and the registers that [`registers_estimate`] gives them.
    kernels: Vec<(String, u32)>,
}

/// What one run said.
type Outcome = (Job, Result<BTreeMap<String, Cost>, String>);

fn main() {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let Some(assembler) = Assembler::find() else {
        eprintln!("ptx-cost: SKIPPED: there is no ptxas here; `cargo xtask ptx` installs one");
        print("ptx-cost_assembled", 0.0, ("files", "higher"), None, None);
        return;
    };
    let files = files();
    let wanted = |v: &Variant| {
        let name = format!("ptx-cost/{}_", v.name);
        (filter.as_deref()).is_none_or(|f| name.starts_with(f) || f.starts_with(&name))
    };
    let variants: Vec<Variant> = VARIANTS.into_iter().filter(wanted).collect();
    let jobs = jobs(&files, &variants);
    eprintln!(
        "ptx-cost: {} files, {} runs of ptxas",
        files.len(),
        jobs.len()
    );
    let outcomes = assemble_all(&assembler, jobs);
    let before: BTreeMap<(usize, &str), &BTreeMap<String, Cost>> = outcomes
        .iter()
        .filter(|(job, _)| job.variant == WHOLE)
        .filter_map(|(job, costs)| Some(((job.file, job.target.as_str()), costs.as_ref().ok()?)))
        .collect();
    let mut failed = 0;
    for (job, outcome) in &outcomes {
        if let Err(e) = outcome {
            failed += 1;
            let (name, form) = (shown(&files[job.file].0), job.variant.name);
            eprintln!("FAILED {name} as {form} for {}: {e}", job.target);
        }
    }
    for variant in std::iter::once(WHOLE).chain(variants) {
        let rows: Vec<Row> = outcomes
            .iter()
            .filter(|(job, _)| job.variant == variant)
            .flat_map(|(job, costs)| rows(&files, &before, job, costs))
            .collect();
        if variant != WHOLE {
            tell(variant.name, variant.bar, &rows);
        }
        tell_estimates(variant.name, &rows);
    }
    let runs = number(outcomes.len());
    print(
        "ptx-cost_failed",
        f64::from(failed),
        ("files", "lower"),
        Some(runs),
        Some(0.0),
    );
}

/// Returns the files, one of each text.
fn files() -> Vec<(PathBuf, Vec<u8>)> {
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads");
    let mut paths = Vec::new();
    let mut folders = vec![workloads.join("ptx"), workloads.join("corpus")];
    folders.extend(std::env::var_os("GRIDMUX_PTX_DIR").map(PathBuf::from));
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = path.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "ptx") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).ok()?;
        Some((path, bytes))
    };
    let mut seen = BTreeSet::new();
    (paths.into_iter().filter_map(read))
        .filter(|(_, bytes)| seen.insert(bytes.clone()))
        .collect()
}

fn jobs(files: &[(PathBuf, Vec<u8>)], variants: &[Variant]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (file, (path, bytes)) in files.iter().enumerate() {
        let module = match Module::parse(bytes.clone()) {
            Ok(module) => module,
            Err(e) => {
                eprintln!("FAILED {}: {e}", shown(path));
                continue;
            }
        };
        let Ok(program) = module.decode() else {
            continue;
        };
        for variant in std::iter::once(WHOLE).chain(variants.iter().copied()) {
            let options = Options {
                fence: FenceOptions {
                    mode: variant.mode,
                    zero_shared: false,
                },
                ..Options::default()
            };
            let done = rewrite(&module, &program, &options, |_| variant.form);
            let took = done.kernels.into_iter().filter(|k| k.has(variant.form));
            let names: BTreeSet<String> = took.map(|k| k.name).collect();
            let kernels = estimates(&done.bytes, &names);
            if kernels.is_empty() {
                continue;
            }
            jobs.extend(assemble::targets(bytes).into_iter().map(|target| Job {
                file,
                variant,
                target,
                text: done.bytes.clone(),
                kernels: kernels.clone(),
            }));
        }
    }
    jobs
}

/// Returns the kernels of those names in a rewritten text, each with its estimate.
fn estimates(text: &[u8], names: &BTreeSet<String>) -> Vec<(String, u32)> {
    let module = Module::parse(text).expect("what a form makes");
    let program = module.decode().expect("what a form makes");
    let kernels = program.functions.iter();
    let kernels = kernels.filter(|f| f.is_entry && f.is_defined && names.contains(&f.name));
    kernels
        .map(|f| (f.name.clone(), registers_estimate(f)))
        .collect()
}

/// Assembles on every core, and tells now and then how far it is.
fn assemble_all(assembler: &Assembler, jobs: Vec<Job>) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut costs = Vec::new();
        loop {
            // relaxed: only the number matters, not its order against anything else.
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(n) else { return costs };
            costs.push((n, assembler.costs(&job.text, &job.target)));
            if n > 0 && n.is_multiple_of(500) {
                eprintln!("ptx-cost: {n} of {}", jobs.len());
            }
        }
    };
    let mut costs: Vec<_> = thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, Into::into);
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .flat_map(|costs| costs.expect("no worker panics"))
            .collect()
    });
    costs.sort_by_key(|(n, _)| *n);
    let mut outcomes: Vec<Outcome> = jobs
        .into_iter()
        .zip(costs.into_iter().map(|(_, c)| c))
        .collect();
    outcomes.sort_by(|(a, _), (b, _)| {
        (a.file, a.variant.order, &a.target).cmp(&(b.file, b.variant.order, &b.target))
    });
    outcomes
}

/// The kernels of one run that took its form, beside what they cost before.
fn rows(
    files: &[(PathBuf, Vec<u8>)],
    before: &BTreeMap<(usize, &str), &BTreeMap<String, Cost>>,
    job: &Job,
    after: &Result<BTreeMap<String, Cost>, String>,
) -> Vec<Row> {
    let (Some(before), Ok(after)) = (before.get(&(job.file, job.target.as_str())), after) else {
        return Vec::new();
    };
    let row = |(kernel, estimate): &(String, u32)| {
        Some(Row {
            kernel: format!("{} {kernel}", shown(&files[job.file].0)),
            target: job.target.clone(),
            estimate: *estimate,
            before: *before.get(kernel)?,
            after: *after.get(kernel)?,
        })
    };
    job.kernels.iter().filter_map(row).collect()
}

/// Returns the last two parts of a path.
fn shown(path: &Path) -> String {
    let parts: Vec<_> = path.iter().rev().take(2).collect();
    let parts: PathBuf = parts.into_iter().rev().collect();
    parts.display().to_string()
}
