//! Green contexts beside priorities: into which parts the driver splits the SMs, what a green context costs to make,
//! whether its kernels keep to its SMs and others keep off them, and whether a stream of high priority gets in from
//! outside.
//!
//! Rules: SMs are identified by `%smid` in stamps; what the driver promises is a fact and no check, because nothing in
//! gridmux relies on it yet. A driver without green contexts is said to have none.
//!
//! It takes about 2 s on an H200.

use super::Part;
use crate::cuda::{GreenContext, Resource, Session, split_sms};
use crate::kernels::Successor;
use crate::lab::Lab;
use crate::stamps::{Blocks, Stamp, Stamper, Stamps, first_start, place_in_starts};
use std::collections::BTreeSet;
use std::time::Instant;

pub(super) const PART: Part = Part {
    name: "green",
    about: "green contexts beside priorities: whose SMs kernels run on, who gets in, what one costs",
    usual_s: 2,
    limit_s: 30,
    run,
};

/// What the questions share: two green contexts of different SMs, each with a stream of the lowest and one of the
/// highest priority, and such streams of the primary context.
struct GreenBench<'a> {
    cuda: &'a Session,
    stamper: Stamper<'a>,
    /// Streams of the primary context, of the first green one and of the second: of the lowest priority and the
    /// highest.
    streams: [[u64; 2]; 3],
    /// SMs of the first green context.
    sms: u32,
    /// Held for their streams.
    _contexts: [GreenContext<'a>; 2],
}

/// Names of the places of [`GreenBench::streams`].
const CONTEXTS: [&str; 3] = [
    "the primary context",
    "the first green one",
    "the second green one",
];
const LEVELS: [&str; 2] = ["the lowest priority", "the highest priority"];

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let cuda = lab.cuda;
    let asked = Resource::of_device(cuda);
    let Some(whole) = lab.offered("green contexts", asked)? else {
        return Ok(());
    };
    for (name, value) in [
        ("SMs to be split", whole.sms),
        (
            "fewest SMs of a part; 0 where the driver does not say",
            whole.least,
        ),
        (
            "SMs of a part are a multiple; 0 where the driver does not say",
            whole.multiple,
        ),
    ] {
        lab.fact(name, value);
    }
    lab.ask("splits", |lab| splits(lab, &whole));
    lab.ask("cost of a green context", |lab| cost(lab, &whole));
    lab.ask("SMs of green contexts", |lab| {
        let bench = GreenBench::new(lab, &whole)?;
        kept(lab, &bench)?;
        beside(lab, &bench)?;
        let mut streams = bench.streams.into_iter().flatten();
        Ok(streams.try_for_each(|stream| cuda.end_stream(stream))?)
    });
    Ok(())
}

/// Tells into which groups SMs are split, by what is asked for.
fn splits(lab: &mut Lab<'_>, whole: &Resource) -> anyhow::Result<()> {
    for least in [1, 8, 16, 32, 50, 66] {
        let name = format!("groups of at least {least} SMs");
        // As many as there may be.
        let split = split_sms(lab.cuda, whole, (whole.sms as usize, least));
        match split {
            Ok((groups, rest)) => {
                let mut sizes: Vec<u32> = groups.iter().map(|group| group.sms).collect();
                sizes.push(rest.sms);
                lab.fact(format!("{name}, and what is left"), sizes);
            }
            Err(error) => lab.skipped(name, error),
        }
    }
    Ok(())
}

/// Tells what it costs to make a green context with a stream, and to end it.
fn cost(lab: &mut Lab<'_>, whole: &Resource) -> anyhow::Result<()> {
    let (mut made, mut streamed, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    let us = |start: Instant| start.elapsed().as_secs_f64() * 1e6;
    for _ in 0..lab.scale.choose(2, 15) {
        let group = group(lab.cuda, whole)?;
        let start = Instant::now();
        let context = GreenContext::new(lab.cuda, group)?;
        made.push(us(start));
        let start = Instant::now();
        let stream = context.stream(0)?;
        streamed.push(us(start));
        let start = Instant::now();
        lab.cuda.end_stream(stream)?;
        drop(context);
        ended.push(us(start));
    }
    for (what, times) in [
        ("making it", made),
        ("a stream of it", streamed),
        ("its end", ended),
    ] {
        lab.spread(&format!("a green context: {what}"), times, "us (wall)");
    }
    Ok(())
}

/// Returns a group of about a quarter of the SMs.
fn group(cuda: &Session, whole: &Resource) -> anyhow::Result<Resource> {
    let (groups, _) = split_sms(cuda, whole, (1, whole.sms / 4))?;
    let first = groups.first().copied();
    first.ok_or_else(|| anyhow::anyhow!("the driver has made no group"))
}

impl<'a> GreenBench<'a> {
    fn new(lab: &Lab<'a>, whole: &Resource) -> anyhow::Result<Self> {
        let cuda = lab.cuda;
        let (groups, _) = split_sms(cuda, whole, (2, whole.sms / 4))?;
        let [first, second] = groups[..] else {
            anyhow::bail!("the driver has made {} groups of two", groups.len());
        };
        let contexts = [
            GreenContext::new(cuda, first)?,
            GreenContext::new(cuda, second)?,
        ];
        let highest = cuda.highest_priority()?;
        let streams = [
            [cuda.stream(0)?, cuda.stream(highest)?],
            [contexts[0].stream(0)?, contexts[0].stream(highest)?],
            [contexts[1].stream(0)?, contexts[1].stream(highest)?],
        ];
        Ok(Self {
            cuda,
            stamper: Stamper::new(cuda, 0, Successor::AtEnd)?,
            streams,
            sms: first.sms,
            _contexts: contexts,
        })
    }

    /// Returns blocks that fill the whole device so often.
    fn waves(&self, waves: u32) -> anyhow::Result<Blocks> {
        let block = Blocks::scattered(1, 256, 50);
        let slots = self.cuda.sms()? * self.stamper.per_sm(block)?;
        Ok(block.times(slots * waves))
    }
}

/// Returns the SMs of blocks.
fn sms_of(stamps: &[Stamp]) -> BTreeSet<u64> {
    stamps.iter().map(|stamp| stamp.sm).collect()
}

/// Tells on how many SMs a kernel of each context runs alone, and how many of them are another one's.
fn kept(lab: &mut Lab<'_>, bench: &GreenBench<'_>) -> anyhow::Result<()> {
    let blocks = bench.waves(2)?;
    let stamps = Stamps::new(bench.cuda, blocks.count.into())?;
    let mut seen = Vec::new();
    for (name, [low, _]) in CONTEXTS.iter().zip(bench.streams) {
        stamps.clear()?;
        bench.stamper.launch(blocks, low, stamps.address)?;
        bench.cuda.wait(low)?;
        let sms = sms_of(&stamps.read()?);
        lab.fact(format!("SMs that kernels of {name} run on"), sms.len());
        seen.push(sms);
    }
    lab.fact("SMs of the first green context by its split", bench.sms);
    let shared = seen[1].intersection(&seen[2]).count();
    lab.fact("SMs that both green contexts run on", shared);
    Ok(())
}

/// Tells, of kernels of one context over a filler of another one's, when their first block starts and on how many of
/// the filler's SMs they run.
fn beside(lab: &mut Lab<'_>, bench: &GreenBench<'_>) -> anyhow::Result<()> {
    let new = bench.waves(1)?;
    let fillers = [
        bench.waves(lab.scale.choose(4, 20))?,
        bench.waves(lab.scale.choose(2, 6))?,
    ];
    for old in [1, 0] {
        // On a quarter of the SMs a filler takes longer.
        let filler = fillers[old];
        let (below, above) = (
            Stamps::new(bench.cuda, filler.count.into())?,
            Stamps::new(bench.cuda, new.count.into())?,
        );
        for (context, streams) in CONTEXTS.iter().zip(bench.streams) {
            for (level, stream) in LEVELS.iter().zip(streams) {
                // A second stream of a context is that of the highest priority.
                if stream == bench.streams[old][0] {
                    continue;
                }
                let (mut places, mut shared) = (Vec::new(), Vec::new());
                for _ in 0..lab.scale.choose(1, 7) {
                    bench
                        .stamper
                        .launch(filler, bench.streams[old][0], below.address)?;
                    filler.pause_until_some_end();
                    bench.stamper.launch(new, stream, above.address)?;
                    bench.cuda.wait_for_all()?;
                    let (below, above) = (below.read()?, above.read()?);
                    let first = first_start(&above);
                    places.extend(first.and_then(|first| place_in_starts(&below, first)));
                    let both = sms_of(&above).intersection(&sms_of(&below)).count();
                    shared.push(f64::from(u32::try_from(both)?));
                }
                let name = format!(
                    "over a filler of {}, a kernel of {context}, {level}",
                    CONTEXTS[old]
                );
                lab.median(
                    &format!("{name}: the first start"),
                    places,
                    "of the filler's starts",
                );
                lab.median(&format!("{name}: SMs that both run on"), shared, "SMs");
            }
        }
    }
    Ok(())
}
