//! A workload on the command line: `[NAME=]SOURCE[,KEY=VALUE…]`.
//!
//! Rules: a part without `=` belongs to the value before it, so that `grid=4,2` is one value; blanks around a key and
//! behind a value say nothing; a key that says nothing of its source is an error, as is one that does not exist.

use crate::commands::sim::When;
use crate::commands::sim::argument::Argument;
use crate::commands::sim::loading::{extent, grid};
use crate::commands::sim::ptx_file::PtxFile;
use clap::ValueEnum;
use gridmux_mediator::config::MAX_WEIGHT;
use gridmux_mix::Pace;
use gridmux_mix::event::{ErcKernel, ercbench};
use gridmux_policy::Class;
use gridmux_workloads::{Size, Workload, workloads};
use std::path::{Path, PathBuf};

/// Before the name of a kernel of ERCBench, some of which are called as ours are.
const ERCBENCH: &str = "ercbench:";

/// Before the mean time between arrivals of which each follows the one before after a random time.
const POISSON: &str = "poisson:";

/// Longest time that a workload may be given: a quarter of an hour of the device, in nanoseconds.
const MOST_NS: f64 = 1e12;

/// Longest offset, in percent of the first workload's time alone.
const MOST_PERCENT: f64 = 1e6;

/// Launches that a workload may have.
const MOST_LAUNCHES: u64 = 1_000_000;

/// A workload of a mix.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    /// As it was given.
    pub(super) given: String,
    pub(super) name: String,
    pub(super) source: Source,
    pub(super) launches: u64,
    pub(super) at: Offset,
    pub(super) pace: Pace,
    pub(super) weight: u32,
    pub(super) class: Class,
}

/// Where its launches come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// A kernel of ours.
    Own {
        workload: &'static Workload,
        size: Size,
    },
    /// A kernel of which only shape and durations are known.
    ErcBench(ErcKernel),
    /// A kernel of a PTX file.
    Ptx(UserKernel),
    /// A recorded program.
    Trace { file: PathBuf, arrivals: When },
}

/// A launch of a kernel of the user's.
#[derive(Debug, Clone)]
pub(super) struct UserKernel {
    pub(super) file: PathBuf,
    pub(super) entry: String,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared: u32,
    pub(super) args: Vec<Argument>,
}

/// When a workload begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Offset {
    /// At this time, in nanoseconds.
    Ns(u64),
    /// Percent of the first workload's time alone, after its begin.
    Percent(f64),
}

/// A key, and the sources that it goes with.
const KEYS: [(&str, &str); 13] = [
    ("launches", "a kernel"),
    ("at", "any workload"),
    ("every", "a kernel"),
    ("think", "a kernel"),
    ("weight", "any workload"),
    ("class", "any workload"),
    ("size", "a kernel of ours"),
    ("entry", "a PTX file"),
    ("grid", "a PTX file"),
    ("block", "a PTX file"),
    ("shared", "a PTX file"),
    ("arg", "a PTX file"),
    ("arrivals", "a trace"),
];

/// The keys of a workload that nobody has asked for yet.
struct Keys(Vec<(String, String)>);

/// Parses a workload.
pub(super) fn parse(text: &str) -> Result<Spec, String> {
    let mut parts = text.split(',');
    let head = parts.next().unwrap_or_default().trim();
    let mut keys = Keys(Vec::new());
    for part in parts {
        match (part.split_once('='), keys.0.last_mut()) {
            (Some((key, value)), _) => {
                let (key, value) = (key.trim(), value.trim_end());
                keys.0.push((key.to_owned(), value.to_owned()));
            }
            (None, Some((_, value))) => *value += &format!(",{part}"),
            (None, None) => return Err(format!("{part:?} is not KEY=VALUE")),
        }
    }
    let (name, origin) = match head.split_once('=') {
        Some((name, origin)) if !name.contains('/') => (Some(name), origin),
        _ => (None, head),
    };
    if name == Some("") || origin.is_empty() {
        return Err(format!("{head:?} is not [NAME=]SOURCE"));
    }
    let (source, stem) = source(origin, &mut keys)?;
    let is_trace = matches!(source, Source::Trace { .. });
    let spec = Spec {
        given: text.to_owned(),
        name: name.map_or(stem, ToOwned::to_owned),
        at: keys.one("at", offset)?.unwrap_or(Offset::Ns(0)),
        weight: keys.one("weight", weight)?.unwrap_or(1),
        class: keys.one("class", plain)?.unwrap_or_default(),
        launches: match is_trace {
            true => 1,
            false => keys.one("launches", launches)?.unwrap_or(1),
        },
        pace: match is_trace {
            true => Pace::Closed(0),
            false => pace(&mut keys)?,
        },
        source,
    };
    keys.nothing_left(origin)?;
    Ok(spec)
}

/// Returns the source, and the name that its workload has if none is given.
fn source(text: &str, keys: &mut Keys) -> Result<(Source, String), String> {
    if let Some(workload) = gridmux_workloads::by_name(text) {
        let size = keys.one("size", plain)?.unwrap_or(Size::Large);
        return Ok((Source::Own { workload, size }, text.to_owned()));
    }
    if let Some(name) = text.strip_prefix(ERCBENCH) {
        let kernel = ercbench().into_iter().find(|kernel| kernel.name == name);
        let kernel = kernel.ok_or_else(|| unknown(text))?;
        return Ok((Source::ErcBench(kernel), name.to_owned()));
    }
    let file = PathBuf::from(text);
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let stem = stem.into_owned();
    if text.ends_with(".ptx") {
        return Ok((Source::Ptx(user_kernel(file, keys)?), stem));
    }
    if !text.contains('/') && !Path::new(text).exists() {
        return Err(unknown(text));
    }
    let arrivals = keys.one("arrivals", |text| When::from_str(text, false))?;
    let arrivals = arrivals.unwrap_or(When::Recorded);
    Ok((Source::Trace { file, arrivals }, stem))
}

fn unknown(text: &str) -> String {
    let own: Vec<&str> = workloads().iter().map(|workload| workload.name).collect();
    let theirs = ercbench().into_iter().map(|kernel| kernel.name);
    let theirs: Vec<String> = theirs.map(|name| format!("{ERCBENCH}{name}")).collect();
    format!(
        "there is no workload {text:?}, nor a file of that name; there are {}, {}, kernels of FILE.ptx, and traces, \
         which `gridmux run --record` writes",
        own.join(", "),
        theirs.join(", ")
    )
}

fn user_kernel(file: PathBuf, keys: &mut Keys) -> Result<UserKernel, String> {
    let needed = |key: &str| format!("{} needs `{key}=`", file.display());
    let needs_entry = || format!("{}{}", needed("entry"), kernels_of(&file));
    Ok(UserKernel {
        entry: keys.one("entry", plain)?.ok_or_else(needs_entry)?,
        grid: keys.one("grid", grid)?.ok_or_else(|| needed("grid"))?,
        block: keys.one("block", extent)?.ok_or_else(|| needed("block"))?,
        shared: keys.one("shared", shared)?.unwrap_or(0),
        args: keys.all("arg", plain)?,
        file,
    })
}

/// Returns what to choose from where a kernel's name is missing; nothing where the file cannot be read.
fn kernels_of(file: &Path) -> String {
    match PtxFile::read(file).map(|file| file.shown_kernels()) {
        Ok(kernels) if kernels.is_empty() => "; it has no kernel at all".to_owned(),
        Ok(kernels) => format!(", which names one of its kernels: {}", kernels.join("; ")),
        Err(_) => String::new(),
    }
}

fn pace(keys: &mut Keys) -> Result<Pace, String> {
    let (every, think) = (keys.one("every", every)?, keys.one("think", duration)?);
    match (every, think) {
        (Some(_), Some(_)) => Err(
            "`every` and `think` do not go together: an open loop has a period, a closed one a think time".to_owned(),
        ),
        (Some(Pace::Open(0) | Pace::Poisson { mean_ns: 0, .. }), None) => {
            Err("`every` is a period, which is more than nothing".to_owned())
        }
        (Some(pace), None) => Ok(pace),
        (None, think) => Ok(Pace::Closed(think.unwrap_or(0))),
    }
}

/// Parses a period, or `poisson:` and the mean of one; the seed is for the mix to say.
fn every(text: &str) -> Result<Pace, String> {
    match text.strip_prefix(POISSON) {
        Some(mean) => duration(mean).map(|mean_ns| Pace::Poisson { mean_ns, seed: 0 }),
        None => duration(text).map(Pace::Open),
    }
}

impl Keys {
    /// Takes the values of a key that may be repeated.
    fn all<T>(
        &mut self,
        key: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let (own, others) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(name, _)| name == key);
        self.0 = others;
        let own: Vec<(String, String)> = own;
        own.iter()
            .map(|(_, value)| read(value).map_err(|error| format!("`{key}={value}`: {error}")))
            .collect()
    }

    /// Takes the value of a key.
    fn one<T>(
        &mut self,
        key: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let mut values = self.all(key, read)?;
        if values.len() > 1 {
            return Err(format!("`{key}` is given twice"));
        }
        Ok(values.pop())
    }

    fn nothing_left(&self, source: &str) -> Result<(), String> {
        let Some((key, _)) = self.0.first() else {
            return Ok(());
        };
        let known = KEYS.iter().find(|(name, _)| name == key);
        Err(known.map_or_else(
            || {
                let names = KEYS.map(|(name, _)| name).join(", ");
                format!("there is no key `{key}`; keys are {names}")
            },
            |(_, goes_with)| {
                format!("`{key}` says nothing of {source:?}; it goes with {goes_with}")
            },
        ))
    }
}

/// Parses what has a parser of its own.
fn plain<T: std::str::FromStr<Err: ToString>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn shared(text: &str) -> Result<u32, String> {
    let number = text.parse().ok();
    number.ok_or_else(|| "give a number of bytes, 0 or more".to_owned())
}

fn weight(text: &str) -> Result<u32, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=MAX_WEIGHT).contains(number));
    number.ok_or_else(|| format!("give a whole number from 1 to {MAX_WEIGHT}"))
}

fn launches(text: &str) -> Result<u64, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=MOST_LAUNCHES).contains(number));
    number.ok_or_else(|| format!("give a whole number from 1 to {MOST_LAUNCHES}"))
}

/// Parses `50%` or a duration.
fn offset(text: &str) -> Result<Offset, String> {
    let Some(number) = text.strip_suffix('%') else {
        return duration(text).map(Offset::Ns);
    };
    match number.parse() {
        Ok(percent) if (0.0..=MOST_PERCENT).contains(&percent) => Ok(Offset::Percent(percent)),
        _ => Err(format!(
            "give a time, as 150us, or a percentage of the first workload's time alone, as 50%, at most {MOST_PERCENT}%"
        )),
    }
}

/// Parses a time with its unit, in nanoseconds.
#[allow(
    clippy::cast_possible_truncation,
    reason = "it is checked to be in range"
)]
fn duration(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let unit = UNITS
        .iter()
        .find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, ns)));
    let ns = unit.and_then(|(number, ns)| Some(number.parse::<f64>().ok()? * ns));
    match ns {
        Some(ns) if (0.0..=MOST_NS).contains(&ns) => Ok(ns.round() as u64),
        Some(_) => Err(format!("give a time from 0 to {}s", MOST_NS / 1e9)),
        None => Err("give a time with its unit (ns, us, ms or s), as 150us".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Offset, Pace, Source, parse};
    use gridmux_policy::Class;
    use gridmux_workloads::Size;

    #[test]
    fn a_source_alone_has_the_usual_values() {
        let spec = parse("matmul").unwrap();
        assert_eq!((&*spec.name, spec.launches, spec.weight), ("matmul", 1, 1));
        assert_eq!((spec.at, spec.pace), (Offset::Ns(0), Pace::Closed(0)));
        let size = Size::Large;
        assert!(matches!(spec.source, Source::Own { size: s, .. } if s == size));
        assert_eq!(parse("ercbench:sad").unwrap().name, "sad");
    }

    #[test]
    fn keys_are_taken_and_parts_without_a_key_go_on() {
        let spec = parse(
            "a=k.ptx,entry=k,grid=4,2,block=32,arg=u32=5,arg=out=16:f,weight=3,class=batch,at=50%",
        )
        .unwrap();
        let Source::Ptx(kernel) = &spec.source else {
            panic!("{spec:?}");
        };
        assert_eq!((kernel.grid, kernel.block), ([4, 2, 1], [32, 1, 1]));
        assert_eq!((kernel.args.len(), spec.weight), (2, 3));
        assert_eq!(
            (&*spec.name, spec.class, spec.at),
            ("a", Class::Batch, Offset::Percent(50.0))
        );
        let spec = parse("vecadd,launches=4,every=1.5ms,at=20us").unwrap();
        assert_eq!(
            (spec.launches, spec.pace, spec.at),
            (4, Pace::Open(1_500_000), Offset::Ns(20_000))
        );
    }

    #[test]
    fn arrivals_may_be_random_and_blanks_say_nothing() {
        let spec = parse(" tea=vecadd , weight=2, every=poisson:1.5ms ,launches=3").unwrap();
        let mean_ns = 1_500_000;
        assert_eq!((&*spec.name, spec.weight, spec.launches), ("tea", 2, 3));
        assert_eq!(spec.pace, Pace::Poisson { mean_ns, seed: 0 });
        let spec = parse("k.ptx,entry=k,grid=4, 2,block=32").unwrap();
        let Source::Ptx(kernel) = &spec.source else {
            panic!("{spec:?}");
        };
        assert_eq!(kernel.grid, [4, 2, 1]);
    }

    #[test]
    fn what_cannot_be_meant_is_named() {
        for (text, due) in [
            ("", "is not [NAME=]SOURCE"),
            ("=matmul", "is not [NAME=]SOURCE"),
            ("matmul,large", "\"large\" is not KEY=VALUE"),
            ("matmul,wieght=2", "no key `wieght`; keys are launches, at"),
            (
                "matmul,grid=4",
                "`grid` says nothing of \"matmul\"; it goes with a PTX file",
            ),
            ("ercbench:sad,size=tiny", "it goes with a kernel of ours"),
            ("/some/trace,launches=2", "it goes with a kernel"),
            (
                "matmul,weight=0",
                "`weight=0`: give a whole number from 1 to 1000",
            ),
            ("matmul,weight=heavy", "`weight=heavy`"),
            (
                "k.ptx,entry=k,grid=1,block=32,shared=-1",
                "`shared=-1`: give a number of bytes",
            ),
            ("matmul,weight=1001", "from 1 to 1000"),
            ("matmul,at=2000000%", "at most 1000000%"),
            ("matmul,at=1001s", "from 0 to 1000s"),
            (
                "k.ptx,entry=k,block=32,grid=4097,4096",
                "at most 16777216 blocks",
            ),
            ("matmul,weight=1,weight=2", "`weight` is given twice"),
            (
                "matmul,launches=0",
                "`launches=0`: give a whole number from 1",
            ),
            ("matmul,launches=2000000", "to 1000000"),
            ("matmul,class=fast", "known are latency, normal, batch"),
            ("matmul,size=huge", "choose tiny, small or large"),
            ("matmul,at=5", "`at=5`: give a time with its unit"),
            (
                "matmul,at=%",
                "a percentage of the first workload's time alone",
            ),
            ("matmul,at=-5us", "`at=-5us`: give a time from 0"),
            ("matmul,every=0us", "a period"),
            ("matmul,every=poisson:0us", "a period"),
            ("matmul,every=poisson:5", "give a time with its unit"),
            ("matmul,every=1us,think=1us", "do not go together"),
            ("matmull", "there is no workload \"matmull\""),
            ("ercbench:matmul", "ercbench:aes-d, ercbench:aes-e"),
            ("k.ptx,entry=k,block=32", "k.ptx needs `grid=`"),
            ("k.ptx,entry=k,block=32,grid=0", "`grid=0`"),
            ("k.ptx,entry=k,block=32,grid=1,arg=5", "`arg=5`"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(due), "{text:?}: {error:?}");
        }
    }
}
