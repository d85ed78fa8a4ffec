//! The distribution of what one form costs: figures as lines of JSON, architectures and the worst kernels on stderr.

use crate::assemble::Cost;
use serde_json::json;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// How many of the costliest kernels are named.
const WORST: usize = 6;
/// How many kernels whose code grew most are named.
const GREW: usize = 12;
/// Code is within this many times the original's, or is named.
const CODE_BAR: f64 = 1.1;
/// Machine instructions that the padding of a kernel is a multiple of: 128 bytes.
const UNIT: u32 = 8;

/// One kernel in one form on one architecture.
pub(crate) struct Row {
    pub(crate) kernel: String,
    pub(crate) target: String,
    /// The registers that the analysis gives it in this form.
    pub(crate) estimate: u32,
    pub(crate) before: Cost,
    pub(crate) after: Cost,
}

impl Row {
    fn registers(&self) -> i64 {
        i64::from(self.after.registers) - i64::from(self.before.registers)
    }

    fn estimate_error(&self) -> i64 {
        i64::from(self.estimate) - i64::from(self.after.registers)
    }

    fn spills(&self) -> bool {
        self.after.spill_bytes > self.before.spill_bytes
    }

    fn ratio(&self) -> f64 {
        f64::from(self.after.instructions) / f64::from(self.before.instructions.max(1))
    }

    fn is_above(&self) -> bool {
        self.ratio() > CODE_BAR
    }

    /// Above, and by more than the padding may hide.
    fn is_above_unit(&self) -> bool {
        self.is_above() && self.after.instructions > self.before.instructions + UNIT
    }
}

/// What a distribution comes down to.
struct Figures {
    registers: [i64; 3],
    least: i64,
    spills: usize,
    code: [f64; 3],
    /// All kernels together.
    all: f64,
    above: usize,
    above_unit: usize,
}

impl Figures {
    /// Of at least one row.
    fn of(rows: &[&Row]) -> Self {
        let mut registers: Vec<i64> = rows.iter().map(|r| r.registers()).collect();
        registers.sort_unstable();
        let mut ratios: Vec<f64> = rows.iter().map(|r| r.ratio()).collect();
        ratios.sort_by(f64::total_cmp);
        let sum = |of: fn(&Row) -> u32| rows.iter().map(|r| f64::from(of(r))).sum::<f64>();
        Self {
            registers: [0.5, 0.95, 1.0].map(|q| quantile(&registers, q)),
            least: registers[0],
            spills: rows.iter().filter(|r| r.spills()).count(),
            code: [0.5, 0.95, 1.0].map(|q| quantile(&ratios, q)),
            all: sum(|r| r.after.instructions) / sum(|r| r.before.instructions),
            above: rows.iter().filter(|r| r.is_above()).count(),
            above_unit: rows.iter().filter(|r| r.is_above_unit()).count(),
        }
    }

    fn tell(&self, what: &str, kernels: usize) {
        let [median, p95, max] = self.registers;
        let [code_median, code_p95, code_max] = self.code;
        eprintln!(
            "  {what:7} {kernels:4} kernels; registers {median:+} {p95:+} {max:+} (least {:+}); new spills {}; \
             code {code_median:.3} {code_p95:.3} {code_max:.3}, all {:.3}; above {CODE_BAR}: {}, by more \
             than a unit {}",
            self.least, self.spills, self.all, self.above, self.above_unit
        );
    }
}

/// Prints one form's distribution, then names the worst kernels. `bar` is for registers, median and 95th percentile.
pub(crate) fn tell(form: &str, bar: Option<(u32, u32)>, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    eprintln!("{form}: median, 95th percentile, most");
    let every: Vec<&Row> = rows.iter().collect();
    let all = Figures::of(&every);
    all.tell("all", rows.len());
    let targets: BTreeSet<(usize, &str)> = rows
        .iter()
        .map(|r| (r.target.len(), r.target.as_str()))
        .collect();
    for (_, target) in targets {
        let some: Vec<&Row> = rows.iter().filter(|r| r.target == target).collect();
        let figures = Figures::of(&some);
        figures.tell(target, some.len());
        print_registers(&format!("{form}_{target}"), &figures, bar);
    }
    tell_worst(rows);
    print_registers(form, &all, bar);
    let is_slice = form == "slice";
    let counts = |what: &str, count: usize, bar: Option<f64>| {
        let name = format!("ptx-cost/{form}_{what}");
        print(
            &name,
            number(count),
            ("kernels", "lower"),
            Some(number(rows.len())),
            bar,
        );
    };
    counts("new_spills", all.spills, is_slice.then_some(0.0));
    counts("code_above", all.above, None);
    counts("code_above_unit", all.above_unit, is_slice.then_some(0.0));
    let [median, p95, max] = all.code;
    for (what, value) in [
        ("median", median),
        ("p95", p95),
        ("max", max),
        ("all", all.all),
    ] {
        let bar = (is_slice && what != "max").then_some(CODE_BAR);
        print(
            &format!("ptx-cost/{form}_code_{what}"),
            value,
            ("times", "lower"),
            Some(1.0),
            bar,
        );
    }
}

fn print_registers(name: &str, figures: &Figures, bar: Option<(u32, u32)>) {
    let [median, p95, max] = figures.registers;
    for (what, value, bar) in [
        ("median", median, bar.map(|b| b.0)),
        ("p95", p95, bar.map(|b| b.1)),
        ("max", max, None),
    ] {
        let value = value as f64;
        let name = format!("ptx-cost/{name}_registers_{what}");
        print(
            &name,
            value,
            ("registers", "lower"),
            None,
            bar.map(f64::from),
        );
    }
}

/// Prints how far the analysis' estimate of registers is from what the assembler took.
pub(crate) fn tell_estimates(form: &str, rows: &[Row]) {
    let mut errors: Vec<i64> = rows.iter().map(Row::estimate_error).collect();
    if errors.is_empty() {
        return;
    }
    errors.sort_unstable();
    let [p5, median, p95] = [0.05, 0.5, 0.95].map(|q| quantile(&errors, q));
    let mean = errors.iter().map(|e| e.abs()).sum::<i64>() as f64 / errors.len() as f64;
    eprintln!(
        "{form}: estimate − ptxas {p5:+} {median:+} {p95:+} (5th percentile, median, 95th), {mean:.2} off on average"
    );
    let name = format!("ptx-cost/{form}_estimate_off");
    print(&name, mean, ("registers", "lower"), None, None);
}

/// Names the kernels with most extra registers, those whose code grew most, and some that spill.
fn tell_worst(rows: &[Row]) {
    let mut worst: Vec<&Row> = rows.iter().collect();
    worst.sort_by_key(|row| Reverse(row.registers()));
    for row in worst.iter().take(WORST).filter(|row| row.registers() > 0) {
        let (more, before) = (row.registers(), row.before.registers);
        eprintln!(
            "  {more:+} registers ({before} before)  {} {}",
            row.kernel, row.target
        );
    }
    let above: BTreeSet<&str> = rows
        .iter()
        .filter(|r| r.is_above())
        .map(|r| r.kernel.as_str())
        .collect();
    let unit: BTreeSet<&str> = rows
        .iter()
        .filter(|r| r.is_above_unit())
        .map(|r| r.kernel.as_str())
        .collect();
    eprintln!(
        "  {} different kernels above {CODE_BAR} times, {} of them by more than a unit",
        above.len(),
        unit.len()
    );
    let mut grew: Vec<&Row> = rows.iter().filter(|r| r.is_above()).collect();
    grew.sort_by(|a, b| {
        (b.is_above_unit(), b.ratio())
            .partial_cmp(&(a.is_above_unit(), a.ratio()))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    for row in grew.iter().take(GREW) {
        let (before, after) = (row.before.instructions, row.after.instructions);
        eprintln!(
            "  {after} instructions ({before} before)  {} {}",
            row.kernel, row.target
        );
    }
    for row in rows.iter().filter(|row| row.spills()).take(WORST) {
        let (before, after) = (row.before.spill_bytes, row.after.spill_bytes);
        eprintln!(
            "  {after} bytes spilled ({before} before)  {} {}",
            row.kernel, row.target
        );
    }
}

/// Returns the least value that at least the share `q` of the sorted values does not exceed.
fn quantile<T: Copy>(sorted: &[T], q: f64) -> T {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "thousands of values, and q is from 0 to 1"
    )]
    let rank = (number(sorted.len()) * q).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Returns a count as a figure.
pub(crate) fn number(count: usize) -> f64 {
    count as f64
}

/// One figure: its unit and which way is better, what it is a part or a multiple of, and its bar.
pub(crate) fn print(
    name: &str,
    value: f64,
    (unit, better): (&str, &str),
    floor: Option<f64>,
    bar: Option<f64>,
) {
    let ratio = floor.filter(|f| *f > 0.0).map(|f| value / f);
    let peer = bar.map(|bar| json!({ "bar": bar }));
    println!(
        "{}",
        json!({
            "name": name, "value": value, "unit": unit, "better": better,
            "floor": floor, "ratio": ratio, "peer": peer,
        })
    );
}
