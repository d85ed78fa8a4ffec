//! The figures of each kernel of a recording.
//!
//! Rule: sums do not overflow, whatever times the file says.

use crate::commands::trace::timeline::{END, LAUNCH, PREEMPT};
use crate::perfetto::packet::{Event, Mark, Packet};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// What a recording says.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    /// Events that were lost while it was recorded; none where the recording has no end.
    pub(super) lost: Option<u64>,
    /// The kernels, those that took most first.
    pub(super) kernels: Vec<Kernel>,
}

/// What a kernel of a tenant took.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Kernel {
    pub(super) tenant: String,
    /// Its name in its module.
    pub(super) name: String,
    /// Its part of the run time of all.
    pub(super) time_part: f64,
    pub(super) total_ns: u64,
    pub(super) instances: u64,
    pub(super) failed: u64,
    pub(super) avg_ns: f64,
    pub(super) med_ns: f64,
    pub(super) min_ns: u64,
    pub(super) max_ns: u64,
    /// Of a sample; none of a single launch.
    pub(super) stddev_ns: Option<f64>,
    pub(super) queue_avg_ns: f64,
    pub(super) queue_max_ns: u64,
    pub(super) preempted: u64,
}

/// Most bytes of a kernel's or a tenant's name.
const MOST_NAME: usize = 4096;

/// What was counted of a kernel so far.
#[derive(Debug, Default)]
struct Counted {
    runs_ns: Vec<u64>,
    queues_ns: Vec<u64>,
    failed: u64,
    preempted: u64,
}

impl Summary {
    /// Sums packets up.
    pub(super) fn of(packets: impl Iterator<Item = Packet>) -> Self {
        let mut lost = None;
        let mut kernels: BTreeMap<(String, String), Counted> = BTreeMap::new();
        // The launch that stands on a track and has not ended.
        let mut open: HashMap<u64, Event> = HashMap::new();
        for packet in packets {
            let Packet::Event(event) = packet else {
                continue;
            };
            let of = |event: &Event| (cut(event.text("tenant")), cut(&event.name));
            match (event.mark, &*event.category) {
                (Mark::Begin, LAUNCH) => {
                    open.insert(event.track, event);
                }
                (Mark::End, _) => {
                    let Some(launch) = open.remove(&event.track) else {
                        continue;
                    };
                    let counted = kernels.entry(of(&launch)).or_default();
                    let run_ns = event.time_ns.saturating_sub(launch.time_ns);
                    counted.runs_ns.push(run_ns);
                    counted.queues_ns.push(launch.number("queue_ns"));
                    counted.failed += u64::from(!launch.text("failure").is_empty());
                }
                (Mark::Instant, PREEMPT) => kernels.entry(of(&event)).or_default().preempted += 1,
                (Mark::Instant, END) => lost = Some(event.number("lost")),
                _ => {}
            }
        }
        let all = kernels.values().map(|counted| sum(&counted.runs_ns));
        let all: f64 = all.map(|ns| ns as f64).sum();
        let kernels = kernels.into_iter();
        let kernels = kernels.map(|(of, counted)| Kernel::of(of, counted, all));
        let mut kernels: Vec<Kernel> = kernels.collect();
        kernels.sort_by_key(|kernel| Reverse(kernel.total_ns));
        Self { lost, kernels }
    }
}

impl Kernel {
    fn of((tenant, name): (String, String), mut counted: Counted, all_ns: f64) -> Self {
        let runs = &mut counted.runs_ns;
        runs.sort_unstable();
        let total_ns = sum(runs);
        let avg_ns = mean(runs);
        Self {
            tenant,
            name,
            time_part: match all_ns > 0.0 {
                true => total_ns as f64 / all_ns,
                false => 0.0,
            },
            total_ns,
            instances: runs.len() as u64,
            failed: counted.failed,
            avg_ns,
            med_ns: median(runs),
            min_ns: runs.first().copied().unwrap_or(0),
            max_ns: runs.last().copied().unwrap_or(0),
            stddev_ns: deviation(runs, avg_ns),
            queue_avg_ns: mean(&counted.queues_ns),
            queue_max_ns: counted.queues_ns.iter().copied().max().unwrap_or(0),
            preempted: counted.preempted,
        }
    }
}

/// Returns a name of a file that anybody may have made, no longer than names are.
fn cut(name: &str) -> String {
    let end = name.floor_char_boundary(MOST_NAME);
    name[..end].to_owned()
}

fn sum(values: &[u64]) -> u64 {
    values
        .iter()
        .fold(0, |sum, value| sum.saturating_add(*value))
}

fn mean(values: &[u64]) -> f64 {
    let sum: f64 = values.iter().map(|value| *value as f64).sum();
    sum / values.len().max(1) as f64
}

/// Returns the median of values in order; 0 of none.
fn median(sorted: &[u64]) -> f64 {
    let middle = sorted.len() / 2;
    let at = |place: usize| sorted.get(place).map_or(0.0, |value| *value as f64);
    match sorted.len() % 2 {
        0 if middle > 0 => f64::midpoint(at(middle - 1), at(middle)),
        _ => at(middle),
    }
}

/// Returns the standard deviation of a sample.
fn deviation(values: &[u64], mean: f64) -> Option<f64> {
    let squares = values.iter().map(|value| (*value as f64 - mean).powi(2));
    let squares: f64 = squares.sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::Summary;
    use crate::commands::trace::timeline::{END, LAUNCH, PREEMPT};
    use crate::perfetto::packet::{Event, Mark, Packet};

    fn launch(track: u64, tenant: &str, [queue, start, end]: [u64; 3]) -> [Packet; 2] {
        let begin = Event::new(start, Mark::Begin, track, LAUNCH, "k")
            .note("queue_ns", queue)
            .note_text("tenant", tenant);
        let end = Event::new(end, Mark::End, track, "", "");
        [begin, end].map(Packet::Event)
    }

    #[test]
    fn the_figures_are_those_of_the_launches() {
        let mut packets = vec![];
        // Run times 10, 20, 30 and 40: mean 25, median 25, squares 225 + 25 + 25 + 225.
        for [queue, start, end] in [[1, 0, 10], [2, 10, 30], [3, 30, 60], [6, 60, 100]] {
            packets.extend(launch(2, "first", [queue, start, end]));
        }
        packets.extend(launch(3, "second", [0, 0, 300]));
        let preempted = Event::new(5, Mark::Instant, 4, PREEMPT, "k").note_text("tenant", "second");
        packets.push(Packet::Event(preempted));
        // An end without its beginning, and a beginning without its end.
        packets.extend(launch(9, "second", [0, 0, 0]).into_iter().rev());
        let summary = Summary::of(packets.clone().into_iter());
        assert_eq!(summary.lost, None);
        let end = Event::new(300, Mark::Instant, 1, END, "end").note("lost", 7);
        packets.push(Packet::Event(end));
        let summary = Summary::of(packets.into_iter());
        assert_eq!(summary.lost, Some(7));
        let [second, first] = &summary.kernels[..] else {
            panic!("{summary:?}");
        };
        assert_eq!((&*second.tenant, second.instances), ("second", 1));
        assert_eq!((second.time_part, second.preempted), (0.75, 1));
        assert_eq!(second.stddev_ns, None);
        assert_eq!((&*first.tenant, first.instances), ("first", 4));
        assert_eq!((first.total_ns, first.min_ns, first.max_ns), (100, 10, 40));
        assert_eq!((first.avg_ns, first.med_ns), (25.0, 25.0));
        let deviation = first.stddev_ns.unwrap();
        assert!((deviation - (500.0_f64 / 3.0).sqrt()).abs() < 1e-9);
        assert_eq!((first.queue_avg_ns, first.queue_max_ns), (3.0, 6));
    }

    #[test]
    fn nothing_makes_no_figures() {
        let summary = Summary::of(std::iter::empty());
        assert!(summary.kernels.is_empty());
        let late = [
            launch(1, "", [u64::MAX, 0, u64::MAX]),
            launch(1, "", [u64::MAX, 9, 3]),
        ];
        let summary = Summary::of(late.into_iter().flatten());
        assert_eq!(summary.kernels[0].total_ns, u64::MAX);
        assert_eq!(summary.kernels[0].min_ns, 0);
    }
}
