//! `cargo xtask coverage opcodes`: which combinations of opcode, type and modifiers the SM model executes, and which of
//! them a test compares with values computed independently.
//!
//! What is implemented is asked of the model's loader (`hw-model/examples/opcodes/main.rs`); what is tested is what the
//! model's tests report while they run. Rule: what is implemented or tested is never listed by hand here, so that the
//! table cannot be wrong about the code. Listed by hand is only what is expected of it: the opcodes that kernels of a
//! large corpus use ([`COMMON`]), none of which may be missing.

use crate::{process, repo};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Coverage of a room by its tests.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to look at.
    #[arg(value_enum)]
    what: What,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Name every combination.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum What {
    /// Opcodes, types and modifiers of the SM model.
    Opcodes,
}

/// Modules of the model's tests that report what they compared: values, and control flow through its effects.
const REPORTING: [&str; 7] = [
    "numeric",
    "asynchronous",
    "barriers",
    "branches",
    "calls",
    "progress",
    "runtime",
];

/// State of one combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// A test compares its result.
    Tested,
    /// The model loads it.
    Implemented,
    /// The model refuses it.
    Refused,
}

#[derive(Debug, Serialize)]
struct Combination {
    mnemonic: String,
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The opcodes that occur in 99 % of the kernels of a large corpus; none may be missing.
const COMMON: &str = "add and bra bar.sync bfi cvt cvta div fma ld mad min mov mul or ret selp setp shl shr st sub tex \
    barrier.sync call abs neg not xor atom max rcp sqrt ex2 rsqrt shfl rem sust cp.async wmma.load wmma.mma \
    wmma.store copysign vote bar.warp.sync lg2 clz trap redux popc membar bfind brev cos sin activemask \
    match nanosleep suld vabsdiff4 mbarrier.init mbarrier.arrive mbarrier.test_wait";

/// Runs the task.
///
/// # Errors
/// A build or a test fails, or one of the common opcodes is refused in every form.
pub fn run(args: &Args) -> Result<()> {
    let What::Opcodes = args.what;
    let tested = tested()?;
    let combinations = combinations(&tested)?;
    let missing = missing(&combinations, &tested);
    if args.json {
        let value = serde_json::json!({
            "combinations": combinations,
            "tested_elsewhere": tested.len(),
            "missing": missing,
        });
        println!("{value}");
    } else {
        print(&combinations, tested.len(), args.all);
    }
    if !missing.is_empty() {
        bail!(
            "of the 63 common opcodes the model executes no form of: {}",
            missing.join(", ")
        );
    }
    Ok(())
}

/// Mnemonics that the model's tests compared.
fn tested() -> Result<BTreeSet<String>> {
    let report = repo::target().join("opcodes-tested.txt");
    if report.exists() {
        std::fs::remove_file(&report).context("the report of the last run cannot be removed")?;
    }
    let mut tests = repo::cargo("test");
    tests.args(["--package", "gridmux-hw-model", "--test", "hw_model", "--"]);
    tests.args(REPORTING);
    tests.env("GRIDMUX_OPCODE_REPORT", &report);
    process::aloud(&mut tests)?;
    let text = std::fs::read_to_string(&report).context("the tests reported nothing")?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Returns what the loader says about every combination.
fn combinations(tested: &BTreeSet<String>) -> Result<Vec<Combination>> {
    let mut example = repo::cargo("run");
    example.args([
        "--quiet",
        "--package",
        "gridmux-hw-model",
        "--example",
        "opcodes",
    ]);
    let output = example.output().context("cargo does not start")?;
    if !output.status.success() {
        bail!(
            "`{}` failed:\n{}",
            process::shown(&example),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |line: &str| {
        let (mnemonic, verdict) = line.split_once('\t').unwrap_or((line, ""));
        let (state, reason) = match (verdict, tested.contains(mnemonic)) {
            ("implemented", true) => (State::Tested, None),
            ("implemented", false) => (State::Implemented, None),
            (reason, _) => (State::Refused, Some(reason.to_owned())),
        };
        Combination {
            mnemonic: mnemonic.to_owned(),
            state,
            reason,
        }
    };
    Ok(text.lines().map(line).collect())
}

/// Returns the common opcodes without any form that is executed.
fn missing(combinations: &[Combination], tested: &BTreeSet<String>) -> Vec<&'static str> {
    let is_form = |mnemonic: &str, opcode: &str| {
        mnemonic
            .strip_prefix(opcode)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let executed = |opcode: &str| {
        let loads = |c: &Combination| c.state != State::Refused && is_form(&c.mnemonic, opcode);
        combinations.iter().any(loads) || tested.iter().any(|m| is_form(m, opcode))
    };
    COMMON
        .split_ascii_whitespace()
        .filter(|opcode| !executed(opcode))
        .collect()
}

fn print(combinations: &[Combination], tested: usize, all: bool) {
    let mut families: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for c in combinations {
        let opcode = c.mnemonic.split('.').next().unwrap_or(&c.mnemonic);
        families.entry(opcode).or_default()[c.state as usize] += 1;
    }
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::NOTHING);
    table.set_header(["opcode", "tested", "implemented", "refused"]);
    let mut sums = [0; 3];
    for (opcode, counts) in &families {
        let cells: Vec<String> = counts.iter().map(ToString::to_string).collect();
        table.add_row([
            (*opcode).to_owned(),
            cells[0].clone(),
            cells[1].clone(),
            cells[2].clone(),
        ]);
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    println!("{table}");
    let listed: Vec<&Combination> = combinations
        .iter()
        .filter(|c| all || c.state == State::Refused)
        .collect();
    for c in listed {
        let state = format!("{:?}", c.state).to_lowercase();
        println!(
            "{state}\t{}\t{}",
            c.mnemonic,
            c.reason.as_deref().unwrap_or("")
        );
    }
    println!(
        "{} combinations: {} tested, {} implemented, {} refused; the tests compared {tested} mnemonics",
        combinations.len(),
        sums[0],
        sums[1],
        sums[2]
    );
}
