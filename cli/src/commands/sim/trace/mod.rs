//! `gridmux sim trace`: recorded launches again, as tenants that share a modelled GPU under a policy.
//!
//! Rule: what is compared is compared under one policy: the time alone is that of the same replay with one tenant.

mod report;

use super::loading::{Changes, gpu, with_sms};
use super::notes::Notes;
use super::programs::{failure, hint_if_nobody_met};
use super::{When, recording};
use crate::commands::policy::name_parser;
use crate::commands::serve::{TenantOption, tenant};
use crate::failure::Failure;
use crate::offer::gpus;
use crate::output::Output;
use clap::{Args, ValueHint};
use gridmux_hw_model::GpuConfig;
use gridmux_mediator::config::MAX_WEIGHT;
use gridmux_mix::play::Run;
use gridmux_mix::{Member, OnModel, Pace};
use gridmux_policy::Profiles;
use report::{Report, Tenant};
use std::path::PathBuf;

/// What a replay is and is not, behind the options.
const NOTES: &str = "\
A trace holds no code. Each kernel is replaced by one whose blocks take the recorded registers and shared memory and \
stay on their SM for the launch's duration divided by how often its blocks filled the recorded device. So a trace is \
best recorded alone and with --timed, and a replay shows who waits for room, not who slows whom down by memory traffic.

Copies, events and waits between streams are not in a trace: with --arrivals recorded they show in the times of \
submission, with --arrivals closed each stream keeps its pauses.

Columns, in virtual time of the modelled GPU:
  MEAN, P99       time from a launch's arrival to its end, with all tenants
                  together
  ALONE           mean of the same time with the GPU to itself, under the same
                  policy
  SLOWDOWN        MEAN over ALONE
  GOT             part that the tenant held of what all tenants held while it
                  was busy; - before any work
  ASKED           part of that which it was entitled to: by its weight, up to
                  what it could use; - before any work
STP is the sum of ALONE over MEAN of all tenants, ANTT the mean of their slowdowns, fairness the least slowdown over \
the greatest.";

/// Replays traces.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Trace {
    /// A trace for each tenant, written by `gridmux run --record`; its name is the file's unless it is given
    #[arg(value_name = "[NAME=]FILE", required = true, value_parser = source, value_hint = ValueHint::FilePath)]
    sources: Vec<Source>,
    /// Weight [default: 1] and class (latency, normal or batch [default: normal]) of one of the tenants; may be
    /// repeated
    #[arg(long = "tenant", value_name = "NAME[:WEIGHT[:CLASS]]", value_parser = tenant)]
    tenants: Vec<TenantOption>,
    /// Scheduling policy (`gridmux policy list`)
    #[arg(long, value_name = "NAME", default_value = "smk-p", value_parser = name_parser())]
    policy: String,
    /// GPU by name, or a description in TOML
    #[arg(
        long,
        visible_alias = "device",
        value_name = "NAME|FILE.toml",
        default_value = "h200",
        value_parser = gpus(),
        hide_possible_values = true
    )]
    gpu: String,
    #[command(flatten)]
    changes: Changes,
    /// Its streaming multiprocessors, caches and bandwidth in proportion [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    sms: Option<u16>,
    /// When launches arrive; never before the one before them in their stream has ended
    #[arg(long, value_enum, default_value = "recorded")]
    arrivals: When,
    /// Threads that run the model; times are the same for any number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
}

/// A trace and whose it is.
#[derive(Debug, Clone)]
struct Source {
    name: String,
    file: PathBuf,
}

impl Trace {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        self.check()?;
        let config = with_sms(gpu(&self.gpu, &self.changes)?, self.sms)?;
        let members = self.sources.iter().map(|source| self.member(source));
        let members = members.collect::<Result<Vec<Member>, Failure>>()?;
        let all: Vec<usize> = (0..members.len()).collect();
        let together = self.play(&config, &members, &all)?;
        let mut tenants = Vec::new();
        for (place, (member, together)) in members.iter().zip(&together.played).enumerate() {
            // The only tenant was alone already.
            let alone = match members.len() {
                1 => None,
                _ => Some(self.play(&config, &members, &[place])?),
            };
            let alone = alone.as_ref().map_or(together, |run| &run.played[0]);
            tenants.push(Tenant::new(member, together, alone));
        }
        let slowdowns = tenants.iter().filter_map(Tenant::slowdown);
        hint_if_nobody_met(&Notes::default(), &together, slowdowns);
        let report = Report::new(
            (&config.name, config.sm.count),
            &self.policy,
            self.arrivals,
            tenants,
        );
        out.show(&report, || report.text())
    }

    /// Runs some members together.
    fn play(&self, config: &GpuConfig, members: &[Member], take: &[usize]) -> Result<Run, Failure> {
        let model = OnModel {
            config,
            threads: self.threads,
            members,
        };
        let take: Vec<(usize, u64)> = take.iter().map(|member| (*member, 0)).collect();
        let ran = model.run((self.policy.as_str(), &Profiles::default()), &take);
        Ok(ran.map_err(failure)?.0)
    }

    /// Checks the names that belong together.
    fn check(&self) -> Result<(), Failure> {
        let is_source = |name: &str| {
            self.sources
                .iter()
                .filter(|source| source.name == name)
                .count()
        };
        for source in &self.sources {
            if is_source(&source.name) > 1 {
                let name = &source.name;
                return Err(Failure::usage(format!(
                    "two traces are of {name:?}; give one of them another name, as NAME=FILE"
                )));
            }
        }
        for (place, option) in self.tenants.iter().enumerate() {
            let name = &option.name;
            if is_source(name) == 0 {
                return Err(Failure::usage(format!(
                    "--tenant names {name:?}, of whom there is no trace"
                )));
            }
            if self.tenants[..place]
                .iter()
                .any(|other| other.name == *name)
            {
                return Err(Failure::usage(format!("--tenant names {name:?} twice")));
            }
            if let Some(weight) = option.weight
                && !(1..=MAX_WEIGHT).contains(&weight)
            {
                return Err(Failure::usage(format!(
                    "the weight of {name:?} is {weight}; it is 1 to {MAX_WEIGHT}"
                )));
            }
        }
        Ok(())
    }

    /// Reads a trace, whose tenant takes part.
    fn member(&self, source: &Source) -> Result<Member, Failure> {
        let mut options = self.tenants.iter();
        let option = options.find(|option| option.name == source.name);
        Ok(Member {
            name: source.name.clone(),
            weight: option.and_then(|option| option.weight).unwrap_or(1),
            class: option.and_then(|option| option.class).unwrap_or_default(),
            source: gridmux_mix::Source::Recorded {
                recording: recording(&source.file)?,
                arrivals: self.arrivals.into(),
            },
            launches: 1,
            pace: Pace::Closed(0),
        })
    }
}

/// Parses `[NAME=]FILE`; without a name it is the file's, without its ending.
fn source(text: &str) -> Result<Source, String> {
    if let Some((name, file)) = text.split_once('=')
        && !name.contains('/')
    {
        if name.is_empty() || file.is_empty() {
            return Err(format!("{text:?} is not [NAME=]FILE"));
        }
        return Ok(Source {
            name: name.to_owned(),
            file: file.into(),
        });
    }
    let file = PathBuf::from(text);
    let name = file
        .file_stem()
        .ok_or_else(|| format!("{text:?} names no file"))?;
    Ok(Source {
        name: name.to_string_lossy().into_owned(),
        file,
    })
}
