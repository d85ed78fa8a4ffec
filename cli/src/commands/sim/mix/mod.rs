//! `gridmux sim mix`: any mix of workloads together under a policy, beside each alone.
//!
//! Rule: a program alone runs under `fifo`, which is the bare device, whatever policy the mix runs under: so policies
//! are compared by one measure.

mod document;
mod gantt;
mod hints;
mod profiles;
mod report;
mod spec;
mod terms;
mod user;

use super::argument::Argument;
use super::loading::{BUDGET, Changes, check_block, check_targets, gpu, is_file, with_sms};
use super::notes::Notes;
use super::programs::{failure, hint_if_nobody_met, hint_if_quicker, hint_if_slower};
use crate::commands::policy::{name_parser, unheld};
use crate::failure::Failure;
use crate::files;
use crate::offer::gpus;
use crate::output::{Output, note};
use crate::waiting::Waiting;
use clap::{Args, ValueEnum, ValueHint};
use document::{Document, Given};
use gridmux_hw_model::Gpu;
use gridmux_hw_model::GpuConfig;
use gridmux_mix::play::{self, Choice, Run};
use gridmux_mix::report::{MixReport, ProgramReport, Setting};
use gridmux_mix::{Member, MixError, OnEvent, OnModel, Verdict};
use gridmux_policy::policies::gridmux::Settings;
use gridmux_policy::units::Cycles;
use gridmux_policy::{PolicyInfo, Profiles, all_policies};
use profiles::Known;
use spec::{Offset, Source, Spec};
use std::path::{Path, PathBuf};
use terms::Terms;

/// The policy under which programs run alone.
const ALONE: &str = "fifo";

/// How workloads are written, behind the options.
const NOTES: &str = "\
A workload is [NAME=]SOURCE[,KEY=VALUE...]. SOURCE is one of
  matmul            a kernel of `gridmux workload list`
  ercbench:sha1     a kernel of ERCBench as the SRTF paper's Tables 2 and 3
                    give it, on the event executor only: aes-d, aes-e, nlm2,
                    jpeg-d, jpeg-e, raytracing, sad, sha1
  FILE.ptx          a kernel of a PTX file
  FILE              a trace that `gridmux run --record` wrote

KEY=VALUE, for any workload:
  at=TIME|PERCENT%  when it begins: a time, as 150us, or a part of the time
                    that the first workload takes alone [0us]
  weight=N          its tenant's weight, 1 to 1000 [1]
  class=CLASS       latency, normal or batch [normal]; `gridmux policy show`
                    says to which policies it matters
for a kernel:
  launches=N        how often it is launched, 1 to 1000000 [1]
  think=TIME        closed loop: a launch arrives so long after the end of the
                    one before [0us]
  every=TIME        open loop: a launch arrives so long after the arrival of
                    the one before
  every=poisson:TIME
                    the same after a random time of that mean, exponentially
                    distributed (Poisson arrivals; see --seed)
for a kernel of ours:
  size=SIZE         tiny, small or large [large]
for a kernel of a PTX file, as `gridmux sim kernel` takes them:
  entry=NAME  grid=X[,Y[,Z]]  block=X[,Y[,Z]]  shared=BYTES
  arg=KIND=VALUE    may be repeated, in order
for a trace:
  arrivals=WHEN     recorded or closed, as `gridmux sim trace` takes it
                    [recorded]
Programs that begin together arrive in the order given.

Executors:
  event  simulates thread blocks by their durations: fast, no instruction is
         executed. A launch costs what it costs on the model. Durations of our
         kernels are drawn from the mean and the deviation that were measured
         on the modelled gtx980; on another GPU, or with --sms or --set, every
         block's own duration is measured first, alone on the model, as of
         kernels of PTX files always.
         Blocks slow each other down by one formula, from what their kernels
         use, and contexts move at one rate: see whether an order of policies
         holds on the model, too.
  model  executes every instruction and counts cycles. Results of our kernels
         are compared with a host reference; a wrong one makes the command
         fail. Buffers of `out=` and `inout=` are written to their files on
         the model only.

A program's time alone is that under fifo, the bare device (what the demo calls
native). GOT is a program's part of what all programs held while it was busy,
ASKED the part that its weight entitles it to. IPC, on the model, is that of the
whole GPU while the program has launches under way, ENERGY leaves leakage out.
sjf, ljf and srtf-zero stand for policies that know every runtime: without
--profiles they know those of the programs alone, of launches that differ in
their arguments only the mean. Of a file of profiles, what blocks contradict is
dropped. Times are the GPU's own (virtual). Equal commands print equal figures,
if the file of profiles is equal, too.

Examples:
  gridmux sim mix matmul spmv,at=50% --policy srtf
  gridmux sim mix ercbench:sha1 ercbench:jpeg-d --policy srtf --gpu gtx480
  gridmux sim mix a=sad,launches=20,think=50us b=lbm,every=1ms,launches=5 \\
    --policy smk-p --on model
  gridmux sim mix sad,launches=50,every=poisson:200us lbm,launches=5 \\
    --policy gridmux --without guard --bound 4 --seed 2
  gridmux sim mix vecadd \\
    my.ptx,entry=k,grid=64,block=256,arg=out=65536:out.bin \\
    --policy gridmux --on model
  gridmux sim mix one.trace two.trace,at=2ms --policy accelos --gpu h200 --sms 8";

/// Runs workloads together.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Mix {
    /// A workload for each tenant; see below
    #[arg(value_name = "[NAME=]SOURCE[,KEY=VALUE…]", required = true, value_parser = spec::parse,
          value_hint = ValueHint::FilePath)]
    workloads: Vec<Spec>,
    /// Scheduling policy (`gridmux policy list`)
    #[arg(long, value_name = "NAME", value_parser = name_parser())]
    policy: String,
    #[command(flatten)]
    terms: Terms,
    /// What executes the mix
    #[arg(long, value_enum, default_value = "event")]
    on: On,
    /// GPU by name, or a description in TOML
    #[arg(
        long,
        visible_alias = "device",
        value_name = "NAME|FILE.toml",
        default_value = gridmux_mix::event::MEASURED_ON,
        value_parser = gpus(),
        hide_possible_values = true
    )]
    gpu: String,
    #[command(flatten)]
    changes: Changes,
    /// Its streaming multiprocessors, caches and bandwidth in proportion [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    sms: Option<u16>,
    /// File of profiles that the policy begins with, and that what runs together is added to [default: nothing is
    /// known]
    #[arg(long, value_name = "FILE")]
    profiles: Option<PathBuf>,
    /// What random times between arrivals are drawn from; equal seeds give equal times
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads that run the model; times are the same for any number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Cycles after which a launch of a kernel of a PTX file is given up
    #[arg(long, value_name = "N", default_value_t = BUDGET, value_parser = clap::value_parser!(u64).range(1..))]
    budget: u64,
}

/// An executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    /// Thread blocks by their durations
    Event,
    /// Every instruction, cycle by cycle
    Model,
}

/// The executor of a command, ready to run members.
enum Bench<'a> {
    Event(OnEvent<'a>),
    Model(OnModel<'a>),
}

/// A run, what came of each program's results, and the GPU as it is then, if it is one.
type Ran = (Run, Vec<Verdict>, Option<Gpu>);

impl Bench<'_> {
    /// Runs some members, each from its offset in nanoseconds on.
    fn run(&self, policy: Choice<'_>, take: &[(usize, u64)]) -> Result<Ran, MixError> {
        match self {
            Self::Event(event) => {
                let run = event.run(policy, take)?;
                Ok((run, take.iter().map(|_| None).collect(), None))
            }
            Self::Model(model) => {
                let (run, verdicts, gpu) = model.run(policy, take)?;
                Ok((run, verdicts, Some(gpu)))
            }
        }
    }
}

impl From<On> for gridmux_mix::On {
    fn from(on: On) -> Self {
        match on {
            On::Event => Self::Event,
            On::Model => Self::Model,
        }
    }
}

impl Mix {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        self.check()?;
        let notes = Notes::default();
        self.note_without_meaning(&notes);
        let _waiting = Waiting::begin("simulating".to_owned());
        let report = self.simulate(&notes)?;
        let terms = self.terms.on(&self.policy);
        let given = Given::of(&self);
        let document = Document::new(&report, terms, (&given, notes.lines()));
        out.show(&document, || report::text(&report, &self.terms.text()))?;
        match report.wrong() {
            None => Ok(()),
            Some(_) if out.is_json() => Err(Failure::reported()),
            Some(wrong) => Err(Failure::new(wrong)),
        }
    }

    /// Says what of the command means nothing to the executor or the policy.
    fn note_without_meaning(&self, notes: &Notes) {
        let unheld = match self.on {
            On::Event => unheld(&self.policy, "on event", gridmux_mix::event::enforces),
            On::Model => Vec::new(),
        };
        let ignored = hints::ignored(self.policy_info(), &self.workloads);
        let loops = hints::loops_of_one(&self.workloads);
        for line in unheld.into_iter().chain(ignored).chain(loops) {
            notes.say(line);
        }
    }

    fn simulate(&self, notes: &Notes) -> Result<MixReport, Failure> {
        let config = with_sms(gpu(&self.gpu, &self.changes)?, self.sms)?;
        for spec in &self.workloads {
            if let Source::Ptx(kernel) = &spec.source {
                check_block(&config, kernel.block, kernel.shared)
                    .map_err(|failure| failure.of(&spec.name))?;
            }
        }
        let budget = Cycles(self.budget);
        let member = |spec| user::member(spec, budget, self.seed);
        let (members, from_files): (Vec<Member>, Vec<_>) = (self.workloads.iter().map(member))
            .collect::<Result<Vec<_>, Failure>>()?
            .into_iter()
            .unzip();
        let known = Known::read(self.profiles.clone(), &config, self.on)?;
        let undivided = hints::undivided(&self.policy, members.len(), config.sm.count);
        undivided.into_iter().for_each(|line| notes.say(line));
        let bench = self.bench(&config, &members)?;
        if let Bench::Event(event) = &bench {
            let line = hints::unsampled(self.policy_info(), members.len(), event.unsampled());
            line.into_iter().for_each(|line| notes.say(line));
        }
        let nothing = Profiles::default();
        let mut alone = Vec::with_capacity(members.len());
        for member in 0..members.len() {
            let run = bench.run(Choice::Named(ALONE, &nothing), &[(member, 0)]);
            alone.extend(run.map_err(failure)?.0.played);
        }
        let (from, to) = alone[0].span_ns();
        let take: Vec<(usize, u64)> = self.offsets(to - from).into_iter().enumerate().collect();
        let oracle = self.is_told_runtimes().then(|| play::oracle(&alone));
        let profiles = oracle.as_ref().unwrap_or(&known.profiles);
        let settings = self.terms.settings();
        let choice = self.choice(settings.as_ref(), profiles);
        let together = bench.run(choice, &take);
        let (together, verdicts, gpu) = together.map_err(|error| match error {
            MixError::Endless { .. } => failure(error).of(&format!("under {}", self.policy)),
            error => failure(error),
        })?;
        if let Some(gpu) = &gpu {
            for kernel in from_files.iter().flatten() {
                kernel.fetch(gpu)?;
            }
        }
        let names = members.iter().map(|member| member.name.as_str());
        known.note_dropped(notes, names.zip(&together.played));
        known.keep()?;
        let programs = members.iter().zip(together.played.iter().zip(&alone));
        let programs = programs.zip(verdicts);
        let programs =
            programs.map(|((member, played), verdict)| ProgramReport::new(member, played, verdict));
        let mut setting = Setting::new(
            &self.policy,
            self.on.into(),
            (&config.name, config.sm.count),
        );
        if let Some(settings) = settings {
            setting.bound = settings.bound;
        }
        let report = MixReport::new(setting, programs.collect(), (&together, &alone));
        note_figures(notes, &report, &together);
        Ok(report)
    }

    /// Returns the policy with what it knows of kernels.
    fn choice<'a>(&'a self, settings: Option<&'a Settings>, profiles: &'a Profiles) -> Choice<'a> {
        match settings {
            Some(settings) => Choice::Gridmux(settings, profiles),
            None => Choice::Named(&self.policy, profiles),
        }
    }

    /// Returns what is known of the policy.
    fn policy_info(&self) -> &'static PolicyInfo {
        let found = all_policies().iter().find(|info| info.name == self.policy);
        found.expect("the parser takes no other name")
    }

    /// Returns whether the policy learns how long the programs take alone, before they run together.
    fn is_told_runtimes(&self) -> bool {
        self.policy_info().is_oracle && self.profiles.is_none()
    }

    /// Checks what belongs together.
    fn check(&self) -> Result<(), Failure> {
        self.terms.check(&self.policy)?;
        self.check_files()?;
        for (place, spec) in self.workloads.iter().enumerate() {
            let name = &spec.name;
            if self.workloads[..place]
                .iter()
                .any(|other| other.name == *name)
            {
                return Err(Failure::usage(format!(
                    "two workloads are named {name:?}; give one of them another name, as NAME=WORKLOAD"
                )));
            }
            if self.on == On::Model && matches!(spec.source, Source::ErcBench(_)) {
                let program = name.clone();
                return Err(failure(MixError::NoCode { program }));
            }
            if let (On::Model, Source::Ptx(kernel)) = (self.on, &spec.source) {
                check_targets(&kernel.args)?;
            }
        }
        let first = &self.workloads[0];
        if matches!(first.at, Offset::Percent(_)) {
            return Err(Failure::usage(format!(
                "{:?} is the first workload, whose time alone other offsets are percentages of; give it a time",
                first.name
            )));
        }
        Ok(())
    }

    /// Checks that no file is written which the command reads or writes for another purpose.
    fn check_files(&self) -> Result<(), Failure> {
        let profiles = self
            .profiles
            .iter()
            .map(|file| (file, "the profiles".to_owned()));
        let read = self.workloads.iter().filter_map(|spec| match &spec.source {
            Source::Ptx(kernel) => Some((&kernel.file, format!("the kernel of {:?}", spec.name))),
            Source::Trace { file, .. } => Some((file, format!("the trace of {:?}", spec.name))),
            _ => None,
        });
        let written = self.workloads.iter().flat_map(|spec| {
            let args = match &spec.source {
                Source::Ptx(kernel) => &kernel.args[..],
                _ => &[],
            };
            let outputs = args.iter().filter_map(Argument::target);
            outputs.map(|file| (file, format!("an output of {:?}", spec.name)))
        });
        let description = Some(&self.gpu).filter(|name| is_file(name));
        let description =
            description.map(|name| (Path::new(name), "the GPU's description".to_owned()));
        let read = profiles
            .chain(read)
            .map(|(file, purpose)| (file.as_path(), purpose));
        files::check_apart(read.chain(description), written).map_err(Failure::usage)
    }

    fn bench<'a>(
        &self,
        config: &'a GpuConfig,
        members: &'a [Member],
    ) -> Result<Bench<'a>, Failure> {
        Ok(match self.on {
            On::Event => {
                let progress = |name: &str| note(&format!("measuring {name} alone on the model"));
                let event = OnEvent::new(config, members, progress);
                Bench::Event(event.map_err(failure)?)
            }
            On::Model => Bench::Model(OnModel {
                config,
                threads: self.threads,
                members,
            }),
        })
    }

    /// Returns when each workload begins; the first one takes so long alone.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "times are far below 2^53 ns, and the conversion saturates"
    )]
    fn offsets(&self, first_alone_ns: u64) -> Vec<u64> {
        let begin = match self.workloads[0].at {
            Offset::Ns(at) => at,
            Offset::Percent(_) => 0,
        };
        let offset = |spec: &Spec| match spec.at {
            Offset::Ns(at) => at,
            Offset::Percent(percent) => {
                begin + (first_alone_ns as f64 * percent / 100.0).round() as u64
            }
        };
        self.workloads.iter().map(offset).collect()
    }
}

/// Says what explains figures, or casts doubt on them.
fn note_figures(notes: &Notes, report: &MixReport, together: &Run) {
    let programs = &report.programs;
    let slowdowns = || programs.iter().map(|program| program.slowdown);
    hint_if_nobody_met(notes, together, slowdowns());
    let names = programs.iter().map(|program| program.name.as_str());
    hint_if_quicker(notes, names.zip(slowdowns()));
    hint_if_slower(notes, programs.len(), report.metrics.throughput);
    for line in report.beyond_bound() {
        notes.say(format!("note: {line}"));
    }
}
