//! What `gridmux sim mix` prints.

use super::On;
use super::gantt::{self, Track};
use super::member::Member;
use super::on_model::Verdict;
use crate::commands::sim::play::{Played, Run};
use crate::commands::workload::Percentiles;
use crate::table;
use crate::units::{counted, nanos};
use gridmux_policy::{Class, metrics};
use serde::Serialize;

/// Characters of a program's name that text shows.
const NAME_CHARS: usize = 16;

/// What ran the mix.
#[derive(Debug, Serialize)]
pub(super) struct Setting {
    pub(super) policy: String,
    pub(super) on: On,
    pub(super) gpu: String,
    pub(super) sms: u16,
}

/// A mix that ran. Times are in nanoseconds of the GPU.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    setting: Setting,
    metrics: Metrics,
    programs: Vec<Program>,
    /// From the first arrival to the last end, together.
    makespan_ns: u64,
    /// The programs one after the other, each alone.
    serial_ns: u64,
    timeline: Vec<Track>,
}

/// The papers' figures of merit, under their names in `policy/src/metrics.rs`.
#[derive(Debug, Serialize)]
struct Metrics {
    stp: f64,
    antt: f64,
    worst_antt: f64,
    fairness: f64,
    unfairness: f64,
    overlap: f64,
    throughput: f64,
    min_speedup: f64,
}

/// One program of it.
#[derive(Debug, Serialize)]
pub(super) struct Program {
    name: String,
    weight: u32,
    class: Class,
    launches: usize,
    /// Mean turnaround together over that alone.
    slowdown: f64,
    /// Mean time from a launch's arrival to its end, alone under `fifo`.
    alone_ns: f64,
    /// The same together.
    together_ns: f64,
    /// Percentiles of that time together.
    turnaround_ns: Percentiles,
    /// When its first launch arrived, its first block started and its last launch ended.
    arrival_ns: u64,
    start_ns: u64,
    end_ns: u64,
    /// Its part of what all programs held while it was busy.
    got: Option<f64>,
    /// The part that its weight entitled it to.
    asked: Option<f64>,
    /// Whether its results equal the host reference; `None` where there is none.
    verified: Option<bool>,
    /// What is wrong with them.
    mismatch: Option<String>,
    /// Launches of its trace that failed or have no times.
    left_out: u64,
    /// The last line of its trace ends in the middle.
    is_cut_off: bool,
}

impl Program {
    /// Puts a program's two runs side by side.
    pub(super) fn new(
        member: &Member,
        (together, alone): (&Played, &Played),
        verdict: Verdict,
    ) -> Self {
        let (together_ns, alone_ns) = (mean(together), mean(alone));
        let reading = &together.reading;
        let part = |integral: f64| (reading.total > 0.0).then(|| integral / reading.total);
        let recording = member.recording.as_ref();
        Self {
            name: member.spec.name.clone(),
            weight: member.spec.weight,
            class: member.spec.class,
            launches: together.launches.len(),
            slowdown: slowdown(together_ns, alone_ns),
            alone_ns,
            together_ns,
            turnaround_ns: Percentiles::of(together.turnaround_ns()),
            arrival_ns: together.span_ns().0,
            start_ns: together.start_ns(),
            end_ns: together.end_ns(),
            got: part(reading.held),
            asked: part(reading.entitled),
            verified: verdict.as_ref().map(Result::is_ok),
            mismatch: verdict.and_then(Result::err),
            left_out: recording.map_or(0, |recording| recording.left_out),
            is_cut_off: recording.is_some_and(|recording| recording.is_cut_off),
        }
    }

    /// Returns mean turnaround together over that alone.
    pub(super) fn slowdown(&self) -> f64 {
        self.slowdown
    }

    /// Returns the name, shortened to what a table has room for.
    fn short(&self) -> String {
        match self.name.chars().count() > NAME_CHARS {
            true => self
                .name
                .chars()
                .take(NAME_CHARS - 1)
                .chain(['~'])
                .collect(),
            false => self.name.clone(),
        }
    }

    fn row(&self) -> Vec<String> {
        let percent = |part: Option<f64>| {
            part.map_or_else(|| "-".to_owned(), |part| format!("{:.0}%", 100.0 * part))
        };
        vec![
            self.short(),
            self.weight.to_string(),
            self.launches.to_string(),
            whole(self.alone_ns),
            whole(self.together_ns),
            format!("{:.2}", self.slowdown),
            percent(self.got),
            percent(self.asked),
        ]
    }
}

/// Returns the time together over that alone; what takes no time either way is not slowed down.
fn slowdown(together_ns: f64, alone_ns: f64) -> f64 {
    together_ns.max(1.0) / alone_ns.max(1.0)
}

#[allow(clippy::cast_precision_loss, reason = "figures for display")]
fn mean(played: &Played) -> f64 {
    let turnarounds = played.turnaround_ns();
    turnarounds.iter().sum::<u64>() as f64 / turnarounds.len().max(1) as f64
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rounded figure for display"
)]
fn whole(ns: f64) -> String {
    nanos(Some(ns.round() as u64))
}

impl Report {
    /// Works out what concerns all programs, from the run together and each program's alone.
    #[allow(clippy::cast_precision_loss, reason = "times are far below 2^53 ns")]
    pub(super) fn new(
        setting: Setting,
        programs: Vec<Program>,
        (together, alone): (&Run, &[Played]),
    ) -> Self {
        let runs = programs
            .iter()
            .map(|program| (program.alone_ns.max(1.0), program.together_ns.max(1.0)));
        let runs: Vec<(f64, f64)> = runs.collect();
        let spans = programs
            .iter()
            .map(|program| (program.start_ns as f64, program.end_ns as f64));
        let spans: Vec<(f64, f64)> = spans.collect();
        let first = programs.iter().map(|program| program.arrival_ns).min();
        let last = programs.iter().map(|program| program.end_ns).max();
        let makespan_ns = last.unwrap_or(0) - first.unwrap_or(0);
        let serial = alone.iter().map(|played| {
            let (from, to) = played.span_ns();
            to - from
        });
        let serial_ns = serial.sum();
        let names = programs.iter().map(|program| program.name.as_str());
        Self {
            metrics: Metrics {
                stp: metrics::stp(&runs),
                antt: metrics::antt(&runs),
                worst_antt: metrics::worst_antt(&runs),
                fairness: metrics::strict_f(&runs),
                unfairness: metrics::unfairness(&runs),
                overlap: metrics::overlap(&spans),
                throughput: metrics::throughput(serial_ns as f64, makespan_ns as f64),
                min_speedup: metrics::min_speedup(&runs),
            },
            timeline: gantt::tracks(&together.meter, names),
            setting,
            programs,
            makespan_ns,
            serial_ns,
        }
    }

    /// Returns what is wrong with results, if anything is.
    pub(super) fn wrong(&self) -> Option<String> {
        let wrong = self.programs.iter().filter_map(|program| {
            let mismatch = program.mismatch.as_ref()?;
            Some(format!("{}: wrong results: {mismatch}", program.name))
        });
        let wrong: Vec<String> = wrong.collect();
        (!wrong.is_empty()).then(|| wrong.join("; "))
    }

    /// Returns it as tables for people.
    pub(super) fn text(&self) -> String {
        let headings = [
            "program", "weight", "launches", "alone", "together", "slowdown", "got", "asked",
        ];
        let Setting {
            policy,
            on,
            gpu,
            sms,
        } = &self.setting;
        let on = match on {
            On::Event => "event executor",
            On::Model => "model",
        };
        let sms = counted(u64::from(*sms), "SM");
        let mut text = format!(
            "{policy} on the {on}, {gpu} with {sms}\nmean times from arrival to end\n{}\n\n{}\n\n{}",
            table::of(&headings, self.programs.iter().map(Program::row)),
            self.metrics.text(self.programs.len()),
            gantt::text(
                &self.timeline,
                self.programs.iter().map(Program::short),
                (self.programs.iter().map(|program| program.end_ns).max()).unwrap_or(0),
            ),
        );
        let named = |verified| {
            let of = self.programs.iter();
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
        for program in &self.programs {
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
}

impl Metrics {
    /// Returns the figures, each with what it says.
    fn text(&self, programs: usize) -> String {
        let best = format!("sum of alone/together; {programs} is ideal");
        let rows = [
            ("stp", self.stp, best.as_str()),
            ("antt", self.antt, "mean slowdown; 1 is ideal"),
            (
                "worst_antt",
                self.worst_antt,
                "greatest slowdown; 1 is ideal",
            ),
            (
                "fairness",
                self.fairness,
                "least slowdown over greatest; 1 is even",
            ),
            (
                "unfairness",
                self.unfairness,
                "greatest slowdown over least; 1 is even",
            ),
            (
                "overlap",
                self.overlap,
                "from the last start to the first end, over the whole",
            ),
            (
                "throughput",
                self.throughput,
                "time one after the other, over that together",
            ),
            (
                "min_speedup",
                self.min_speedup,
                "least alone/together; 1 is ideal",
            ),
        ];
        let rows = rows.map(|(name, figure, meaning)| {
            vec![name.to_owned(), format!("{figure:.2}"), meaning.to_owned()]
        });
        table::of(&["metric", "value", "meaning"], rows)
    }
}

#[cfg(test)]
mod tests {
    use super::{Program, Report, Setting};
    use crate::commands::sim::meter::Meter;
    use crate::commands::sim::mix::On;
    use crate::commands::sim::mix::member::Member;
    use crate::commands::sim::mix::spec::parse;
    use crate::commands::sim::play::{Played, Run, Went};
    use gridmux_policy::shape::DeviceShape;

    #[test]
    fn wrong_results_are_told_of() {
        let played = Played {
            launches: vec![Went {
                arrival_ns: 0,
                start_ns: 10,
                end_ns: 110,
            }],
            ..Played::default()
        };
        let program = |workload: &str, verdict| {
            let member = Member::read(parse(workload).unwrap()).unwrap();
            Program::new(&member, (&played, &played), Some(verdict))
        };
        let programs = vec![
            program("vecadd", Ok(())),
            program("matmul", Err("3 of 4 values are wrong".to_owned())),
        ];
        let device = DeviceShape {
            sms: 1,
            threads: 1024,
            blocks: 8,
            registers: 65_536,
            shared_bytes: 65_536,
            submission_ns: 0,
        };
        let run = Run {
            played: Vec::new(),
            meter: Meter::new(device, 2),
        };
        let setting = Setting {
            policy: "fifo".to_owned(),
            on: On::Model,
            gpu: "v100".to_owned(),
            sms: 1,
        };
        let report = Report::new(setting, programs, (&run, std::slice::from_ref(&played)));
        assert_eq!(
            report.wrong().unwrap(),
            "matmul: wrong results: 3 of 4 values are wrong"
        );
        let text = report.text();
        assert!(
            text.contains("equal the host reference: vecadd\n"),
            "{text}"
        );
        assert!(
            text.contains("DIFFER FROM the host reference: matmul\n"),
            "{text}"
        );
        let json = serde_json::to_value(&report).unwrap();
        let verified = [0, 1].map(|place| &json["programs"][place]["verified"]);
        assert_eq!(verified, [true, false], "{json}");
    }
}
