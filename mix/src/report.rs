//! What became of a mix, as data.

use crate::member::Member;
use crate::on_model::Verdict;
use crate::play::{Played, Run};
use crate::timeline::{self, Track};
use gridmux_policy::metrics::Percentiles;
use gridmux_policy::{Class, metrics};
use serde::Serialize;

/// An executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// Thread blocks by their durations.
    Event,
    /// Every instruction, cycle by cycle.
    Model,
}

/// What ran the mix.
#[derive(Debug, Serialize)]
pub struct Setting {
    /// The policy.
    pub policy: String,
    /// What executed it.
    pub on: On,
    /// The GPU.
    pub gpu: String,
    /// Its SMs.
    pub sms: u16,
}

/// A mix that ran. Times are in nanoseconds of the GPU.
#[derive(Debug, Serialize)]
pub struct MixReport {
    /// What ran it.
    #[serde(flatten)]
    pub setting: Setting,
    /// Figures of merit.
    pub metrics: Metrics,
    /// Its programs.
    pub programs: Vec<ProgramReport>,
    /// From the first arrival to the last end, together.
    pub makespan_ns: u64,
    /// The programs one after the other, each alone.
    pub serial_ns: u64,
    /// What each program held over time.
    pub timeline: Vec<Track>,
}

/// The papers' figures of merit, under their names in `policy/src/metrics.rs`.
#[derive(Debug, Serialize)]
pub struct Metrics {
    /// System throughput.
    pub stp: f64,
    /// Average normalised turnaround time.
    pub antt: f64,
    /// The greatest slowdown.
    pub worst_antt: f64,
    /// The least slowdown over the greatest.
    pub fairness: f64,
    /// The greatest slowdown over the least.
    pub unfairness: f64,
    /// The part of the whole from the last start to the first end.
    pub overlap: f64,
    /// The time of the programs one after the other, over that together.
    pub throughput: f64,
    /// The least speedup.
    pub min_speedup: f64,
}

/// One program of it.
#[derive(Debug, Serialize)]
pub struct ProgramReport {
    /// Its name.
    pub name: String,
    /// Its tenant's weight.
    pub weight: u32,
    /// Its tenant's class.
    pub class: Class,
    /// Its launches that ended.
    pub launches: usize,
    /// Mean turnaround together over that alone.
    pub slowdown: f64,
    /// Mean time from a launch's arrival to its end, alone under `fifo`.
    pub alone_ns: f64,
    /// The same together.
    pub together_ns: f64,
    /// Percentiles of that time together.
    pub turnaround_ns: Percentiles,
    /// When its first launch arrived.
    pub arrival_ns: u64,
    /// When its first block started.
    pub start_ns: u64,
    /// When its last launch ended.
    pub end_ns: u64,
    /// Its part of what all programs held while it was busy.
    pub share_got: Option<f64>,
    /// The part that it was entitled to by its weight, up to what it could use.
    pub share_entitled: Option<f64>,
    /// Whether its results equal the host reference; `None` where there is none.
    pub verified: Option<bool>,
    /// What is wrong with them.
    pub mismatch: Option<String>,
    /// Launches of its trace that failed or have no times.
    pub left_out: u64,
    /// The last line of its trace ends in the middle.
    pub is_cut_off: bool,
}

impl ProgramReport {
    /// Puts a program's two runs side by side.
    #[must_use]
    pub fn new(member: &Member, (together, alone): (&Played, &Played), verdict: Verdict) -> Self {
        let (together_ns, alone_ns) = (mean(together), mean(alone));
        let reading = &together.reading;
        let recording = member.recording();
        Self {
            name: member.name.clone(),
            weight: member.weight,
            class: member.class,
            launches: together.launches.len(),
            slowdown: slowdown(together_ns, alone_ns),
            alone_ns,
            together_ns,
            turnaround_ns: Percentiles::of(together.turnaround_ns()),
            arrival_ns: together.span_ns().0,
            start_ns: together.start_ns(),
            end_ns: together.end_ns(),
            share_got: reading.got(),
            share_entitled: reading.asked(),
            verified: verdict.as_ref().map(Result::is_ok),
            mismatch: verdict.and_then(Result::err),
            left_out: recording.map_or(0, |recording| recording.left_out),
            is_cut_off: recording.is_some_and(|recording| recording.is_cut_off),
        }
    }
}

/// Returns the time together over that alone; what takes no time either way is not slowed down.
fn slowdown(together_ns: f64, alone_ns: f64) -> f64 {
    together_ns.max(1.0) / alone_ns.max(1.0)
}

fn mean(played: &Played) -> f64 {
    let turnarounds = played.turnaround_ns();
    turnarounds.iter().sum::<u64>() as f64 / turnarounds.len().max(1) as f64
}

impl MixReport {
    /// Works out what concerns all programs, from the run together and each program's alone.
    #[must_use]
    pub fn new(
        setting: Setting,
        programs: Vec<ProgramReport>,
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
            timeline: timeline::tracks(&together.meter, names),
            setting,
            programs,
            makespan_ns,
            serial_ns,
        }
    }

    /// Returns what is wrong with results, if anything is.
    #[must_use]
    pub fn wrong(&self) -> Option<String> {
        let wrong = self.programs.iter().filter_map(|program| {
            let mismatch = program.mismatch.as_ref()?;
            Some(format!("{}: wrong results: {mismatch}", program.name))
        });
        let wrong: Vec<String> = wrong.collect();
        (!wrong.is_empty()).then(|| wrong.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::{MixReport, On, ProgramReport, Setting};
    use crate::member::{Member, Pace, Source};
    use crate::meter::Meter;
    use crate::play::{LaunchTimes, Played, Run};
    use gridmux_policy::{Class, DeviceShape};
    use gridmux_workloads::{Size, by_name};

    #[test]
    fn wrong_results_are_told_of() {
        let played = Played {
            launches: vec![LaunchTimes {
                arrival_ns: 0,
                start_ns: 10,
                end_ns: 110,
            }],
            ..Played::default()
        };
        let program = |name: &str, verdict| {
            let member = Member {
                name: name.to_owned(),
                weight: 1,
                class: Class::Normal,
                source: Source::Own {
                    workload: by_name(name).unwrap(),
                    size: Size::Tiny,
                },
                launches: 1,
                pace: Pace::Closed(0),
            };
            ProgramReport::new(&member, (&played, &played), Some(verdict))
        };
        let programs = vec![
            program("vecadd", Ok(())),
            program("matmul", Err("3 of 4 values are wrong".to_owned())),
        ];
        let device = DeviceShape {
            shared_bytes: 65_536,
            ..DeviceShape::small(1)
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
        let report = MixReport::new(setting, programs, (&run, std::slice::from_ref(&played)));
        assert_eq!(
            report.wrong().unwrap(),
            "matmul: wrong results: 3 of 4 values are wrong"
        );
        let json = serde_json::to_value(&report).unwrap();
        let verified = [0, 1].map(|place| &json["programs"][place]["verified"]);
        assert_eq!(verified, [true, false], "{json}");
    }
}
