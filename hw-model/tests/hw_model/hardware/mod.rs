//! The model against published measurements of real cards, and validation files that are refused.
//!
//! Rule: cycles are deterministic, so a class's mean error is a number that a test can hold. The bounds stand in
//! `hw-model/validation/bounds.toml`; they may fall and never rise.

mod validation;

use gridmux_workloads::microbench::ops::Op;
use serde::Deserialize;
use std::collections::BTreeMap;
use validation::judge::{run, summaries};
use validation::read::{parse, read_all};
use validation::schema::{Class, Run, WholeKernel};

/// Elements of a launch, KiB of a chain of pointers and KiB of a sweep from which a figure takes seconds.
const LONG: (u64, u64, u64) = (1 << 22, 60_000, 6_000);

/// Whole kernels that take seconds.
const LONG_KERNELS: [WholeKernel; 5] = [
    WholeKernel::Picture,
    WholeKernel::PictureTiled,
    WholeKernel::ProductWide,
    WholeKernel::Reduce1,
    WholeKernel::Reduce2,
];

/// How far below its bound, in percent points, an error may fall before the bound must follow.
const SLACK: f64 = 2.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bounds {
    mean_error_percent: BTreeMap<String, f64>,
}

#[test]
fn no_class_is_further_from_the_cards_than_it_was() {
    let folder = validation::folder();
    let files = read_all(&folder).unwrap_or_else(|error| panic!("{error}"));
    let text = std::fs::read_to_string(folder.join("bounds.toml")).expect("it is committed");
    let bounds: Bounds = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
    let judged = run(&files, &|figure| is_quick(&figure.run), &|_, _, _| {});
    let summaries = summaries(&files, &judged);
    let named: Vec<&str> = summaries.iter().map(|s| s.class.name()).collect();
    let mut wrong = Vec::new();
    for name in bounds.mean_error_percent.keys() {
        if !named.contains(&name.as_str()) {
            wrong.push(format!("{name} has a bound and no figure"));
        }
    }
    for summary in &summaries {
        let name = summary.class.name();
        let bound = bounds.mean_error_percent.get(name);
        wrong.extend(complaint(name, summary.mean * 100.0, bound.copied()));
    }
    assert!(wrong.is_empty(), "bounds.toml: {}", wrong.join("; "));
}

/// Returns whether this test runs a figure; the others, most of them one kernel in several sizes, are left to the bench
/// `hardware`.
fn is_quick(run: &Run) -> bool {
    match *run {
        Run::Launches {
            elements, block, ..
        } => elements < LONG.0 || matches!(block, 32 | 1024),
        Run::Chase { footprint_kb } => footprint_kb < LONG.1,
        Run::Sweep { footprint_kb } => footprint_kb < LONG.2,
        Run::Whole { entry, .. } => !LONG_KERNELS.contains(&entry),
        _ => true,
    }
}

/// Says what is wrong with the mean error of a class, in percent, beside its bound.
fn complaint(name: &str, error: f64, bound: Option<f64>) -> Option<String> {
    let said = format!("{name}: the mean error is {error:.1} %");
    match bound {
        None => Some(format!("{said}, and there is no bound")),
        Some(_) if !error.is_finite() => Some(format!("{said}, which is no number")),
        Some(bound) if error > bound => Some(format!("{said}, the bound {bound} %")),
        Some(bound) if error < bound - SLACK => {
            Some(format!("{said}, so lower the bound of {bound} %"))
        }
        Some(_) => None,
    }
}

#[test]
fn an_error_is_at_its_bound_or_a_little_below_it() {
    assert_eq!(complaint("c", 9.0, Some(10.0)), None);
    for (error, bound, due) in [
        (10.1, Some(10.0), "the bound 10 %"),
        (7.9, Some(10.0), "lower the bound"),
        (9.0, None, "no bound"),
        (f64::NAN, Some(10.0), "no number"),
        (f64::INFINITY, Some(10.0), "no number"),
    ] {
        let said = complaint("c", error, bound).unwrap_or_default();
        assert!(said.contains(due), "{error}: {said}");
    }
}

/// Returns the text of a file with one figure.
fn file(card: &str, figure: &str) -> String {
    format!(
        "[source]\ntitle = \"t\"\nurl = \"https://example.org\"\n[card]\nname = \"c\"\nbase = \"v100\"\n{card}\n\
         [[figure]]\nname = \"f\"\nat = \"Table 1\"\n{figure}\n"
    )
}

const CHASE: &str = "class = \"latency\"\nunit = \"cycles\"\nvalue = 28.0\n\
                     run = { kernel = \"chase\", footprint_kb = 16 }";

#[test]
fn a_good_file_is_read() {
    let text = file(
        "set = { \"clock.core_mhz\" = 1380, \"dram.channels\" = 16 }\nestimates = [\"dram.channels\"]",
        CHASE,
    );
    let read = parse("good", &text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read.card.config.clock.core_mhz, 1380);
    assert_eq!(read.card.estimates, ["dram.channels"]);
    assert_eq!(read.figures[0].class, Class::Latency);
    assert_eq!(read.figures[0].run, Run::Chase { footprint_kb: 16 });
}

#[test]
fn a_curve_becomes_a_figure_for_each_point() {
    let curve = "[[curve]]\nname = \"latency\"\nclass = \"latency\"\nunit = \"cycles\"\nat = \"here\"\n\
                 run = { kernel = \"chase\" }\nx = \"footprint_kb\"\npoints = [[16, 28.0], [1024, 212]]";
    let read = parse("curve", &(file("", CHASE) + curve)).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<&str> = read.figures.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(
        names,
        ["f", "latency footprint_kb=16", "latency footprint_kb=1024"]
    );
    assert!((read.figures[2].value - 212.0).abs() < 1e-9);
    assert_eq!(read.figures[2].run, Run::Chase { footprint_kb: 1024 });
}

#[test]
fn bad_figures_are_refused_with_the_names_that_exist() {
    let of_figure = |from: &str, to: &str| file("", &CHASE.replace(from, to));
    let cases = [
        (
            of_figure("\"chase\"", "\"chases\""),
            ["'f'", "chases", "`chain`"],
        ),
        (
            of_figure("\"cycles\"", "\"furlongs\""),
            ["furlongs", "`B/clk/SM`", "`cycles`"],
        ),
        (
            of_figure("\"cycles\"", "\"GB/s\""),
            ["'chase'", "GB/s", "it has: cycles"],
        ),
        (
            of_figure("\"latency\"", "\"latencies\""),
            ["latencies", "`block-turnover`", "bad"],
        ),
        (
            of_figure("footprint_kb", "footprint"),
            ["'f'", "`footprint`", "`footprint_kb`"],
        ),
        (
            of_figure(
                "\"chase\", footprint_kb = 16",
                "\"chain\", op = \"fused.f32\"",
            ),
            ["'f'", "fused.f32", "`fma.rn.f32`"],
        ),
        (of_figure("28.0", "-1.0"), ["'f'", "-1", "positive"]),
        (
            of_figure(
                "\"cycles\"\nvalue = 28.0\nrun = { kernel = \"chase\", footprint_kb = 16 }",
                "\"TFLOP/s\"\nvalue = 28.0\nrun = { kernel = \"throughput\", op = \"add.u32\" }",
            ),
            ["'f'", "add.u32", "TFLOP/s"],
        ),
        (
            of_figure(
                "\"chase\", footprint_kb = 16",
                "\"l1-stride\", element = \"f32\", stride = 0",
            ),
            ["'f'", "stride = 0", "between 1 and 4096"],
        ),
        (
            of_figure("= 16", "= 0"),
            ["'f'", "footprint_kb = 0", "at least 1"],
        ),
        (of_figure("unit", "units"), ["units", "`unit`", "bad"]),
    ];
    assert_refused(&cases);
}

#[test]
fn bad_cards_are_refused_with_the_names_that_exist() {
    let of_card = |card: &str| file(card, CHASE);
    let cases = [
        (
            of_card("set = { \"clocks.core_mhz\" = 1 }"),
            ["clocks", "clock", "'c'"],
        ),
        (
            of_card("set = { \"clock.mhz\" = 1 }"),
            ["mhz", "core_mhz", "'c'"],
        ),
        (
            of_card("set = { \"clock.core_mhz\" = 0 }"),
            ["'c'", "clock.core_mhz", "between 1 and 100000"],
        ),
        (
            of_card("set = { \"clock.core_mhz\" = 1380 }\nestimates = [\"sm.count\"]"),
            ["'c'", "'sm.count'", "it sets: clock.core_mhz"],
        ),
        (
            of_card("set = { \"sm.count\" = 80 }\nestimates = [\"sm.count\", \"sm.count\"]"),
            ["'c'", "'sm.count'", "twice"],
        ),
        (
            file("", CHASE).replace("v100", "v1000"),
            ["v1000", "gtx980", "'c'"],
        ),
    ];
    assert_refused(&cases);
}

/// Asserts that each text is refused with an error that has these parts.
fn assert_refused(cases: &[(String, [&str; 3])]) {
    for (text, parts) in cases {
        let error = parse("bad", text).expect_err(text).to_string();
        for part in parts {
            assert!(error.contains(part), "{part} is not in: {error}");
        }
    }
}

#[test]
fn a_title_is_text_in_the_picture() {
    assert_eq!(
        validation::draw::escaped("R&D <8 SMs>"),
        "R&amp;D &lt;8 SMs&gt;"
    );
}

#[test]
fn the_guide_names_everything_that_exists() {
    let path = validation::folder().join("README.md");
    let guide = std::fs::read_to_string(path).expect("it is committed");
    let runs = read_all(&validation::folder()).unwrap_or_else(|error| panic!("{error}"));
    let used = runs.iter().flat_map(|file| &file.figures);
    for figure in used {
        let (kernel, units) = figure.run.kernel();
        assert!(
            guide.contains(&format!("`{kernel}`")),
            "README.md lacks {kernel}"
        );
        for unit in units {
            assert!(
                guide.contains(&format!("`{unit}`")),
                "README.md lacks {unit}"
            );
        }
    }
    let classes = Class::ALL.iter().map(|class| class.name());
    let kernels = WholeKernel::ALL.iter().map(|kernel| kernel.name());
    let names = classes.chain(kernels);
    for name in names.chain(Op::ALL.iter().map(|op| op.name())) {
        assert!(
            guide.contains(&format!("`{name}`")),
            "README.md lacks {name}"
        );
    }
}
