//! What became of a mix, as text.

use super::gantt;
use crate::table;
use crate::units::{counted, nanos};
use gridmux_mix::On;
use gridmux_mix::report::{Metrics, MixReport, ProgramReport, Setting};

/// Characters of a program's name that text shows.
const NAME_CHARS: usize = 16;

/// Returns a report as tables for people; `changes` is a line on what of the policy was changed, or nothing.
pub(super) fn text(report: &MixReport, changes: &str) -> String {
    let headings = [
        "program", "weight", "launches", "alone", "together", "slowdown", "got", "asked",
    ];
    let Setting {
        policy,
        on,
        gpu,
        sms,
        bound: _,
    } = &report.setting;
    let on = match on {
        On::Event => "event executor",
        On::Model => "model",
    };
    let sms = counted(u64::from(*sms), "SM");
    let mut text = format!(
        "{policy} on the {on}, {gpu} with {sms}\n{changes}mean times from arrival to end\n{}\n\n{}\n\n{}",
        table::of(&headings, report.programs.iter().map(row)),
        metrics(&report.metrics, report.programs.len()),
        gantt::text(
            &report.timeline,
            report.programs.iter().map(short),
            (report.programs.iter().map(|program| program.end_ns).max()).unwrap_or(0),
        ),
    );
    text += &counted_text(&report.programs);
    let named = |verified| {
        let of = report.programs.iter();
        let of = of.filter(|program| program.verified == Some(verified));
        of.map(|program| program.name.as_str()).collect::<Vec<_>>()
    };
    for (verified, what) in [(true, "equal"), (false, "DIFFER FROM")] {
        let names = named(verified);
        if !names.is_empty() {
            text += &format!(
                "results that {what} the host reference: {}\n",
                names.join(", ")
            );
        }
    }
    for program in &report.programs {
        if program.left_out > 0 {
            let left_out = counted(program.left_out, "launch");
            text += &format!(
                "{}: left out {left_out} that failed or had not ended\n",
                program.name
            );
        }
        if program.is_cut_off {
            text += &format!("{}: the last line of the trace is cut off\n", program.name);
        }
    }
    text
}

/// Returns what programs did as a table; nothing where no code was executed.
fn counted_text(programs: &[ProgramReport]) -> String {
    let row = |program: &ProgramReport| {
        let counted = program.counted?;
        Some(vec![
            short(program),
            format!("{:.3}", counted.ipc),
            format!("{:.1}uJ", counted.energy_microjoules),
        ])
    };
    let rows: Vec<_> = programs.iter().filter_map(row).collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("\n{}\n", table::of(&["program", "ipc", "energy"], rows)),
    }
}

/// Returns a program's name, shortened to what a table has room for.
fn short(program: &ProgramReport) -> String {
    match program.name.chars().count() > NAME_CHARS {
        true => program
            .name
            .chars()
            .take(NAME_CHARS - 1)
            .chain(['~'])
            .collect(),
        false => program.name.clone(),
    }
}

/// Returns a program's row of the table.
fn row(program: &ProgramReport) -> Vec<String> {
    let percent = |part: Option<f64>| {
        part.map_or_else(|| "-".to_owned(), |part| format!("{:.0}%", 100.0 * part))
    };
    vec![
        short(program),
        program.weight.to_string(),
        program.launches.to_string(),
        whole(program.alone_ns),
        whole(program.together_ns),
        format!("{:.2}", program.slowdown),
        percent(program.share_got),
        percent(program.share_entitled),
    ]
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a rounded figure for display"
)]
fn whole(ns: f64) -> String {
    nanos(Some(ns.round() as u64))
}

/// Returns the figures, each with what it says.
fn metrics(metrics: &Metrics, programs: usize) -> String {
    let best = format!("sum of alone/together; {programs} is ideal");
    let rows = [
        ("stp", metrics.stp, best.as_str()),
        ("antt", metrics.antt, "mean slowdown; 1 is ideal"),
        (
            "worst_antt",
            metrics.worst_antt,
            "greatest slowdown; 1 is ideal",
        ),
        (
            "fairness",
            metrics.fairness,
            "least slowdown over greatest; 1 is even",
        ),
        (
            "unfairness",
            metrics.unfairness,
            "greatest slowdown over least; 1 is even",
        ),
        (
            "overlap",
            metrics.overlap,
            "from the last start to the first end, over the whole",
        ),
        (
            "throughput",
            metrics.throughput,
            "time one after the other, over that together",
        ),
        (
            "min_speedup",
            metrics.min_speedup,
            "least alone/together; 1 is ideal",
        ),
    ];
    let rows = rows.map(|(name, figure, meaning)| {
        vec![name.to_owned(), format!("{figure:.2}"), meaning.to_owned()]
    });
    table::of(&["metric", "value", "meaning"], rows)
}
