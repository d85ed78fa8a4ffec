//! What became of a mix, as data.

use crate::member::Member;
use crate::on_model::Verdict;
use crate::play::{Counted, Played, Run, united};
use crate::timeline::{self, Track};
use gridmux_policy::metrics::Percentiles;
use gridmux_policy::policies::gridmux;
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

/// Least slowdown that is reported, as a multiple of the policy's bound.
const BEYOND: f64 = 1.1;

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
    /// The slowdown beyond which the policy has launches come first; none for policies without a bound.
    pub bound: Option<f64>,
}

impl Setting {
    /// Returns what runs a mix under a policy that nobody has set otherwise.
    #[must_use]
    pub fn new(policy: &str, on: On, (gpu, sms): (&str, u16)) -> Self {
        Self {
            policy: policy.to_owned(),
            on,
            gpu: gpu.to_owned(),
            sms,
            bound: bound(policy),
        }
    }
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
    /// The part of it in which programs were there: from the first arrival of one to its last end.
    pub busy_ns: u64,
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
    /// The time of the programs one after the other, over that in which programs were there together.
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
    /// That is beyond the policy's bound by more than a tenth.
    pub is_beyond_bound: bool,
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
    /// What it did, where its code was executed.
    #[serde(flatten)]
    pub counted: Option<Counted>,
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
            is_beyond_bound: false,
            alone_ns,
            together_ns,
            turnaround_ns: Percentiles::of(together.turnaround_ns()),
            arrival_ns: together.span_ns().0,
            start_ns: together.start_ns(),
            end_ns: together.end_ns(),
            share_got: reading.got(),
            share_entitled: reading.asked(),
            counted: together.counted,
            verified: verdict.as_ref().map(Result::is_ok),
            mismatch: verdict.and_then(Result::err),
            left_out: recording.map_or(0, |recording| recording.left_out),
            is_cut_off: recording.is_some_and(|recording| recording.is_cut_off),
        }
    }
}

/// Returns the slowdown that a policy bounds, if it bounds one.
fn bound(policy: &str) -> Option<f64> {
    gridmux::Settings::default()
        .bound
        .filter(|_| policy == gridmux::NAME)
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
        mut programs: Vec<ProgramReport>,
        (together, alone): (&Run, &[Played]),
    ) -> Self {
        let bound = setting.bound;
        for program in &mut programs {
            program.is_beyond_bound = bound.is_some_and(|bound| program.slowdown > BEYOND * bound);
        }
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
        let there = programs.iter();
        let busy_ns = united(there.map(|program| (program.arrival_ns, program.end_ns)));
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
                throughput: metrics::throughput(serial_ns as f64, busy_ns as f64),
                min_speedup: metrics::min_speedup(&runs),
            },
            timeline: timeline::tracks(&together.meter, names),
            setting,
            programs,
            makespan_ns,
            busy_ns,
            serial_ns,
        }
    }

    /// Returns for each program that is slowed down beyond the policy's bound by more than a tenth a line that says so,
    /// and why, where that is known.
    #[must_use]
    pub fn beyond_bound(&self) -> Vec<String> {
        let beyond = self
            .programs
            .iter()
            .filter(|program| program.is_beyond_bound);
        let line = |program: &ProgramReport| {
            let better = |other: &&ProgramReport| other.class < program.class;
            let better = self.programs.iter().find(better);
            let why = match (better, program.share_got, program.share_entitled) {
                (Some(other), ..) => format!(
                    ": launches of a better class come before it, as those of {} ({})",
                    other.name, other.class
                ),
                (None, Some(got), Some(asked)) if got > asked => {
                    ": it held more than its weight's part, and such programs come last".to_owned()
                }
                _ => String::new(),
            };
            format!(
                "{}: slowed down {:.1} times, beyond the bound of {} that {} has{why}",
                program.name,
                program.slowdown,
                self.setting.bound.unwrap_or_default(),
                self.setting.policy
            )
        };
        beyond.map(line).collect()
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

    fn played(arrival_ns: u64, end_ns: u64) -> Played {
        Played {
            launches: vec![LaunchTimes {
                arrival_ns,
                start_ns: arrival_ns + 10,
                end_ns,
            }],
            ..Played::default()
        }
    }

    fn member(name: &str, class: Class) -> Member {
        Member {
            name: name.to_owned(),
            weight: 1,
            class,
            source: Source::Own {
                workload: by_name(name).unwrap(),
                size: Size::Tiny,
            },
            launches: 1,
            pace: Pace::Closed(0),
        }
    }

    fn report(policy: &str, programs: Vec<ProgramReport>, alone: &[Played]) -> MixReport {
        let device = DeviceShape {
            shared_bytes: 65_536,
            ..DeviceShape::small(1)
        };
        let run = Run {
            played: Vec::new(),
            meter: Meter::new(device, programs.len()),
        };
        let setting = Setting::new(policy, On::Model, ("v100", 1));
        MixReport::new(setting, programs, (&run, alone))
    }

    #[test]
    fn wrong_results_are_told_of() {
        let played = played(0, 110);
        let program = |name: &str, verdict| {
            ProgramReport::new(
                &member(name, Class::Normal),
                (&played, &played),
                Some(verdict),
            )
        };
        let programs = vec![
            program("vecadd", Ok(())),
            program("matmul", Err("3 of 4 values are wrong".to_owned())),
        ];
        let report = report("fifo", programs, std::slice::from_ref(&played));
        assert_eq!(
            report.wrong().unwrap(),
            "matmul: wrong results: 3 of 4 values are wrong"
        );
        let json = serde_json::to_value(&report).unwrap();
        let verified = [0, 1].map(|place| &json["programs"][place]["verified"]);
        assert_eq!(verified, [true, false], "{json}");
    }

    #[test]
    fn a_slowdown_beyond_the_policy_s_bound_is_told_of() {
        let alone = [played(0, 100), played(0, 100)];
        let of = |policy: &str, class: Class, end_ns: u64| {
            let [first, second] = [(Class::Latency, 100), (class, end_ns)];
            let program = |name: &str, (class, end_ns): (Class, u64)| {
                let member = member(name, class);
                ProgramReport::new(&member, (&played(0, end_ns), &alone[0]), None)
            };
            report(
                policy,
                vec![program("vecadd", first), program("sad", second)],
                &alone,
            )
        };
        let told = of("gridmux", Class::Batch, 900).beyond_bound();
        let due = "sad: slowed down 9.0 times, beyond the bound of 8 that gridmux has: launches of a better class \
                   come before it, as those of vecadd (latency)";
        assert_eq!(told, [due]);
        let told = of("gridmux", Class::Latency, 900).beyond_bound();
        assert_eq!(told.len(), 1);
        assert!(told[0].ends_with("that gridmux has"), "{told:?}");
        for (policy, end_ns) in [("gridmux", 870), ("fifo", 9_000)] {
            let report = of(policy, Class::Batch, end_ns);
            assert_eq!(report.beyond_bound(), [""; 0]);
            assert!(!report.programs[1].is_beyond_bound);
        }
    }

    #[test]
    fn time_in_which_no_program_is_there_is_no_throughput_lost() {
        let alone = [played(0, 100), played(0, 100)];
        let program = |name: &str, played: &Played| {
            ProgramReport::new(&member(name, Class::Normal), (played, &alone[0]), None)
        };
        let programs = vec![
            program("vecadd", &alone[0]),
            program("sad", &played(9_900, 10_000)),
        ];
        let report = report("fifo", programs, &alone);
        assert_eq!((report.makespan_ns, report.busy_ns), (10_000, 200));
        assert!((report.metrics.throughput - 1.0).abs() < 1e-9);
    }
}
