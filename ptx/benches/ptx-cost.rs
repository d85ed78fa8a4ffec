//! `cargo xtask bench ptx-cost`: what each form costs in the machine code that `ptxas` makes: registers, spills, size.
//!
//! Every kernel of the corpus and of the workloads is rewritten in every form and assembled for its own architecture and
//! the later ones; a kernel that cannot take the form is left out. A distribution and the worst kernels go to stderr.
//! The first run takes minutes; results are kept (see `assemble`). An argument picks the benchmarks that start with it.

#[path = "../tests/assemble/mod.rs"]
mod assemble;

use assemble::{Assembler, Cost};
use gridmux_ptx::Module;
use gridmux_ptx::forms::{Form, Options, rewrite};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many of the costliest kernels are named.
const WORST: usize = 6;

/// One kernel in one form on one architecture.
struct Row {
    kernel: String,
    before: Cost,
    after: Cost,
}

impl Row {
    fn registers(&self) -> i64 {
        i64::from(self.after.registers) - i64::from(self.before.registers)
    }

    fn spills(&self) -> bool {
        self.after.spill_bytes > self.before.spill_bytes
    }

    fn ratio(&self) -> f64 {
        f64::from(self.after.instructions) / f64::from(self.before.instructions.max(1))
    }
}

/// One run of the assembler: a module, the form whose kernels it holds, and the architecture.
struct Job {
    file: usize,
    form: Form,
    target: String,
    text: Vec<u8>,
    /// The kernels that took the form.
    kernels: Vec<String>,
}

/// What one run said.
type Outcome = (Job, Result<BTreeMap<String, Cost>, String>);

fn main() {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let Some(assembler) = Assembler::find() else {
        eprintln!("ptx-cost: SKIPPED: there is no ptxas here; `cargo xtask ptx` installs one");
        print("ptx-cost_assembled", 0.0, "files", "higher", None);
        return;
    };
    let files = files();
    let wanted = |form: Form| {
        let name = format!("ptx-cost/{form}_");
        (filter.as_deref()).is_none_or(|f| name.starts_with(f) || f.starts_with(&name))
    };
    let forms: Vec<Form> = Form::ALL.into_iter().filter(|f| wanted(*f)).collect();
    let jobs = jobs(&files, &forms);
    eprintln!(
        "ptx-cost: {} files, {} runs of ptxas",
        files.len(),
        jobs.len()
    );
    let outcomes = assemble_all(&assembler, jobs);
    let before: BTreeMap<(usize, &str), &BTreeMap<String, Cost>> = outcomes
        .iter()
        .filter(|(job, _)| job.form == Form::WHOLE)
        .filter_map(|(job, costs)| Some(((job.file, job.target.as_str()), costs.as_ref().ok()?)))
        .collect();
    let mut failed = 0;
    for (job, outcome) in &outcomes {
        if let Err(e) = outcome {
            failed += 1;
            let name = shown(&files[job.file].0);
            eprintln!("FAILED {name} as {} for {}: {e}", job.form, job.target);
        }
    }
    for form in forms.into_iter().filter(|f| *f != Form::WHOLE) {
        let rows: Vec<Row> = outcomes
            .iter()
            .filter(|(job, _)| job.form == form)
            .flat_map(|(job, costs)| rows(&files, &before, job, costs))
            .collect();
        tell(form, &rows);
    }
    print(
        "ptx-cost_failed",
        f64::from(failed),
        "files",
        "lower",
        Some(outcomes.len() as f64),
    );
}

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
    paths.into_iter().filter_map(read).collect()
}

fn jobs(files: &[(PathBuf, Vec<u8>)], forms: &[Form]) -> Vec<Job> {
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
        let others = forms.iter().copied().filter(|f| *f != Form::WHOLE);
        for form in std::iter::once(Form::WHOLE).chain(others) {
            let done = rewrite(&module, &program, &Options::default(), |_| form);
            let took = done.kernels.into_iter().filter(|k| k.form == form);
            let kernels: Vec<String> = took.map(|k| k.name).collect();
            if kernels.is_empty() {
                continue;
            }
            jobs.extend(assemble::targets(bytes).into_iter().map(|target| Job {
                file,
                form,
                target,
                text: done.bytes.clone(),
                kernels: kernels.clone(),
            }));
        }
    }
    jobs
}

/// Assembles on every core, and tells now and then how far it is.
fn assemble_all(assembler: &Assembler, jobs: Vec<Job>) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut costs = Vec::new();
        loop {
            // Only the number matters, not its order against anything else.
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
    outcomes
        .sort_by(|(a, _), (b, _)| (a.file, a.form, &a.target).cmp(&(b.file, b.form, &b.target)));
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
    let row = |kernel: &String| {
        Some(Row {
            kernel: format!("{} {kernel} {}", shown(&files[job.file].0), job.target),
            before: *before.get(kernel)?,
            after: *after.get(kernel)?,
        })
    };
    job.kernels.iter().filter_map(row).collect()
}

/// Prints one form's distribution, then names the worst kernels.
fn tell(form: Form, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let mut registers: Vec<i64> = rows.iter().map(Row::registers).collect();
    registers.sort_unstable();
    let mut ratios: Vec<f64> = rows.iter().map(Row::ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let spilling = rows.iter().filter(|row| row.spills()).count();
    let all = all_code(rows);
    let [median, p90, p95, p99, max] = [0.5, 0.9, 0.95, 0.99, 1.0].map(|q| quantile(&registers, q));
    let [code_median, code_p95] = [0.5, 0.95].map(|q| quantile(&ratios, q));
    eprintln!("{form}: {} kernels", rows.len());
    eprintln!(
        "  registers: min {:+}, median {median:+}, p90 {p90:+}, p95 {p95:+}, p99 {p99:+}, max {max:+}",
        registers[0],
    );
    eprintln!(
        "  code: median {code_median:.2}x, p95 {code_p95:.2}x, all {all:.3}x; new spills {spilling}"
    );
    tell_worst(rows);
    #[allow(
        clippy::cast_precision_loss,
        reason = "registers below 256, thousands of kernels"
    )]
    for (what, value, unit, floor) in [
        ("registers_median", median as f64, "registers", None),
        ("registers_p95", p95 as f64, "registers", None),
        ("registers_max", max as f64, "registers", None),
        ("new_spills", spilling as f64, "kernels", None),
        ("code_median", code_median, "times", Some(1.0)),
        ("code_p95", code_p95, "times", Some(1.0)),
        ("code_all", all, "times", Some(1.0)),
    ] {
        print(
            &format!("ptx-cost/{form}_{what}"),
            value,
            unit,
            "lower",
            floor,
        );
    }
}

/// The size of all kernels together, as a multiple of what it was.
fn all_code(rows: &[Row]) -> f64 {
    let sum = |of: fn(&Row) -> u32| rows.iter().map(|row| f64::from(of(row))).sum::<f64>();
    sum(|row| row.after.instructions) / sum(|row| row.before.instructions)
}

/// Names the kernels with most extra registers, and some that spill.
fn tell_worst(rows: &[Row]) {
    let mut worst: Vec<&Row> = rows.iter().collect();
    worst.sort_by_key(|row| std::cmp::Reverse(row.registers()));
    for row in worst.iter().take(WORST) {
        let before = row.before.registers;
        eprintln!(
            "  {:+} registers ({before} before)  {}",
            row.registers(),
            row.kernel
        );
    }
    for row in rows.iter().filter(|row| row.spills()).take(WORST) {
        let (before, after) = (row.before.spill_bytes, row.after.spill_bytes);
        eprintln!("  {after} bytes spilled ({before} before)  {}", row.kernel);
    }
}

/// The least value that at least the share `q` of the sorted values does not exceed.
fn quantile<T: Copy>(sorted: &[T], q: f64) -> T {
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "thousands of values, and q is from 0 to 1"
    )]
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

fn print(name: &str, value: f64, unit: &str, better: &str, floor: Option<f64>) {
    let ratio = floor.filter(|f| *f > 0.0).map(|f| value / f);
    println!(
        "{}",
        json!({"name": name, "value": value, "unit": unit, "better": better, "floor": floor, "ratio": ratio})
    );
}

/// The last two parts of a path.
fn shown(path: &Path) -> String {
    let parts: Vec<_> = path.iter().rev().take(2).collect();
    let parts: PathBuf = parts.into_iter().rev().collect();
    parts.display().to_string()
}
