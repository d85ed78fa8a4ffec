//! What tenants with endless work hold of the device: by the stamps of every single block, beside what the service
//! says.

use super::bench::{Round, Seat, Told};
use super::job::{Stamped, Work};
use super::stamped::stamp;
use super::{Desk, PER_SM, ServicePart};
use crate::stamps::{Stamp, float};
use anyhow::Context;

pub(super) const PART: ServicePart = ServicePart {
    name: "shares",
    about: "what tenants of weights 30:70, 10:90 and 1:2:4 hold, by the stamps of all blocks and as the service says",
    limit_s: 120,
    run,
};

/// The tenants' weights.
const CASES: [(&str, &[u32]); 3] = [
    ("30:70", &[30, 70]),
    ("10:90", &[10, 90]),
    ("1:2:4", &[1, 2, 4]),
];
/// By which part of it what the service says may differ from the stamps.
const MOST_ERROR: f64 = 0.03;
/// Waves of blocks of a launch.
const WAVES: u32 = 2;
/// Part of a round in which shares settle, which the figures of the steady time leave out.
const SETTLING: f64 = 0.25;

fn run(desk: &mut Desk<'_>) -> anyhow::Result<()> {
    let policies: &[&str] = desk.scale.choose(&["smk-p"], &["smk-p", "gridmux"]);
    for policy in policies {
        for (case, weights) in CASES {
            let seats = seats(desk, weights);
            let round = desk.bench.round(policy, &seats)?;
            let name = format!("{policy}, {case}");
            desk.check_clock(&name, round.holds_expired);
            tell(desk, &name, weights, &round)?;
        }
    }
    Ok(())
}

/// Returns tenants of these weights, whose blocks last differently long.
fn seats(desk: &Desk<'_>, weights: &[u32]) -> Vec<Seat> {
    let (time_ns, block_ns): (u64, u64) = desk
        .scale
        .choose((3_000_000, 20_000), (150_000_000, 100_000));
    let seat = |(at, weight): (usize, &u32)| {
        let block_ns = block_ns + block_ns / 2 * at as u64;
        let least_ns = u64::from(WAVES) * block_ns;
        let most = u32::try_from(time_ns / least_ns).unwrap_or(u32::MAX);
        let work = Work::Endless {
            kernel: Stamped::scattered(WAVES * PER_SM * desk.sms, block_ns),
            streams: 4,
            // No stream is ever faster than one that has the device to itself.
            most: most + most / 2 + 10,
            ns: Some(time_ns),
        };
        Seat {
            weight: *weight,
            ..Seat::new(format!("tenant{}", at + 1), work)
        }
    };
    weights.iter().enumerate().map(seat).collect()
}

/// A tenant's blocks.
#[derive(Debug)]
struct Blocks {
    stamps: Vec<Stamp>,
    /// The part of an SM that each holds.
    dominant: f64,
}

impl Blocks {
    /// Reads what a client has left.
    fn read(told: &Told) -> anyhow::Result<Self> {
        let bytes = std::fs::read(&told.stamps).context("reading a client's stamps")?;
        let (words, _) = bytes.as_chunks();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        Ok(Self {
            stamps: words.chunks_exact(3).map(stamp).collect(),
            dominant: told.report.dominant,
        })
    }

    /// Returns the time from the first block's start to the last one's end.
    fn busy(&self) -> (u64, u64) {
        let first = self.stamps.iter().map(|stamp| stamp.start).min();
        let last = self.stamps.iter().map(|stamp| stamp.end).max();
        (first.unwrap_or(0), last.unwrap_or(0))
    }

    /// Returns what they held in a time, in SM · ns.
    fn held(&self, (from, to): (u64, u64)) -> f64 {
        let within = |stamp: &Stamp| stamp.end.min(to).saturating_sub(stamp.start.max(from));
        self.dominant * float(self.stamps.iter().map(within).sum())
    }
}

/// Returns which part of what all held in a time each of them held.
fn parts(all: &[Blocks], time: (u64, u64)) -> Vec<f64> {
    let held: Vec<f64> = all.iter().map(|blocks| blocks.held(time)).collect();
    let total: f64 = held.iter().sum();
    held.iter().map(|held| held / total).collect()
}

/// Returns the time in which all of them were busy and shares had settled.
fn steady(all: &[Blocks]) -> (u64, u64) {
    let busy = all.iter().map(Blocks::busy);
    let (first, last) = busy.fold((0, u64::MAX), |(first, last), (from, to)| {
        (from.max(first), to.min(last))
    });
    let span = last.saturating_sub(first);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a number that is not negative"
    )]
    let settling = (float(span) * SETTLING) as u64;
    (first + settling, last)
}

/// Reports what each tenant held, and holds what the service says against it.
fn tell(desk: &mut Desk<'_>, name: &str, weights: &[u32], round: &Round) -> anyhow::Result<()> {
    let all: anyhow::Result<Vec<_>> = round.told.iter().map(Blocks::read).collect();
    let all = all?;
    let steady = steady(&all);
    let total = f64::from(weights.iter().sum::<u32>());
    let span = float(steady.1.saturating_sub(steady.0)) * f64::from(desk.sms);
    let used = all.iter().map(|blocks| blocks.held(steady)).sum::<f64>() / span;
    desk.figure(format!("{name}: of the device in use"), used, "ratio");
    let in_steady = parts(&all, steady);
    for (at, told) in round.told.iter().enumerate() {
        let name = format!("{name}, tenant {}", at + 1);
        // While it was busy, as the service counts.
        let truth = parts(&all, all[at].busy())[at];
        desk.figure(
            format!("{name}: weight"),
            f64::from(weights[at]) / total,
            "ratio",
        );
        desk.figure(
            format!("{name}: held, steady, by stamps"),
            in_steady[at],
            "ratio",
        );
        desk.figure(
            format!("{name}: held while busy, by stamps"),
            truth,
            "ratio",
        );
        let said = told.tenant["share_got"].as_f64();
        if let Some(entitled) = told.tenant["share_entitled"].as_f64() {
            desk.figure(
                format!("{name}: entitled, says the service"),
                entitled,
                "ratio",
            );
        }
        let Some(got) = said else {
            desk.check(
                format!("{name}: the service says what it got"),
                false,
                &told.tenant,
            );
            continue;
        };
        let error = (got / truth - 1.0).abs();
        desk.figure(format!("{name}: got, says the service"), got, "ratio");
        desk.figure(format!("{name}: error of got"), error, "ratio");
        if desk.bench.is_model() {
            desk.check(
                format!("{name}: the service counts what it holds as its blocks do"),
                error <= MOST_ERROR,
                format!("got {got:.4}, and {truth:.4} by stamps"),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Blocks, parts, steady};
    use crate::stamps::Stamp;

    fn blocks(dominant: f64, stamps: &[(u64, u64)]) -> Blocks {
        let stamp = |(start, end): &(u64, u64)| Stamp {
            start: *start,
            end: *end,
            sm: 0,
        };
        Blocks {
            stamps: stamps.iter().map(stamp).collect(),
            dominant,
        }
    }

    #[test]
    fn a_share_is_a_part_of_what_all_held_in_the_same_time() {
        let all = [
            blocks(0.5, &[(0, 100), (100, 200)]),
            blocks(0.25, &[(50, 150)]),
        ];
        // 100 × 0.5 of these and of 100 × 0.25.
        assert_eq!(parts(&all, (50, 150)), [2.0 / 3.0, 1.0 / 3.0]);
        assert_eq!(parts(&all, all[0].busy()), [0.8, 0.2]);
        assert_eq!(steady(&all), (75, 150));
    }
}
