//! Everything behind the SMs: which partition serves a line, and the groups of partitions that run side by side.
//!
//! Lines are spread over slices by a hash, slices evenly over channels; a channel with its slices is a
//! [`Partition`], and partitions are divided into groups, the unit of work of a thread.
//! Rules: a request that arrives after the epoch's last arrival waits for a later epoch, so that the order is the same
//! however time is cut into epochs; requests are served in order of arrival, SM and sequence; nothing here depends on
//! the number of threads, because the groups are fixed; a partition whose queue is full reports that at the end of an
//! epoch, and each SM then sends it at most one more access. So at most the queue, the stores of one epoch and one
//! access of each SM wait for DRAM.

use super::exchange::Exchange;
use super::partition::Partition;
use crate::config::{GpuConfig, LINE_BYTES};
use crate::counters::Counters;

/// Number of the waiting miss in a [`Request`] that wants no reply.
pub(crate) const NO_REPLY: u32 = u32::MAX;
/// Most groups of partitions.
const MAX_GROUPS: usize = 8;

/// What a request does at L2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Write,
    Atomic,
}

/// One line's sectors, on the way to L2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// Cycle in which it arrives at its slice.
    pub(crate) arrive: u64,
    pub(crate) line: u64,
    /// Number by which the slice chooses set and bank.
    pub(crate) key: u64,
    /// The channel's own number of the line.
    pub(crate) local: u64,
    /// The SM's own number of the request, in order of sending.
    pub(crate) number: u32,
    /// The SM's own number of what waits for it, or [`NO_REPLY`].
    pub(crate) miss: u32,
    /// Index of the launch that it is counted for.
    pub(crate) launch: u32,
    pub(crate) sm: u16,
    /// Partition in its group.
    pub(crate) partition: u16,
    /// Slice in its partition.
    pub(crate) slice: u16,
    pub(crate) sectors: u8,
    /// Operations on one address, for atomics.
    pub(crate) turns: u8,
    pub(crate) kind: RequestKind,
}

/// An answer to an SM.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reply {
    /// Cycle in which it arrives at the SM's port.
    pub(crate) at: u64,
    /// Number of the request.
    pub(crate) number: u32,
    pub(crate) miss: u32,
    pub(crate) sm: u16,
    pub(crate) sectors: u8,
}

/// Counters of one group of partitions, by SM that asked and by launch. An SM holds few launches at a time, so that a
/// search finds one at once.
#[derive(Debug)]
pub(crate) struct Tally(Vec<Vec<(u32, Counters)>>);

impl Tally {
    pub(super) fn new(sms: u16) -> Self {
        Self(vec![Vec::new(); usize::from(sms)])
    }

    /// Returns the counters of a launch's requests from an SM; adds them where there are none yet.
    #[inline]
    pub(crate) fn of(&mut self, launch: u32, sm: u16) -> &mut Counters {
        let of_sm = &mut self.0[usize::from(sm)];
        let found = of_sm.iter().position(|(other, _)| *other == launch);
        let at = found.unwrap_or_else(|| {
            of_sm.push((launch, Counters::default()));
            of_sm.len() - 1
        });
        &mut of_sm[at].1
    }

    /// Returns what was counted of each launch's requests from an SM.
    pub(crate) fn of_sm(&self, sm: u16) -> impl Iterator<Item = &(u32, Counters)> {
        self.0[usize::from(sm)].iter()
    }

    /// Returns a launch's counters, each with its SM's number, and removes them as the iterator comes to them.
    pub(crate) fn take(&mut self, launch: u32) -> impl Iterator<Item = (usize, Counters)> {
        let numbered = self.0.iter_mut().enumerate();
        numbered.filter_map(move |(sm, of_sm)| {
            let at = of_sm.iter().position(|(other, _)| *other == launch)?;
            Some((sm, of_sm.swap_remove(at).1))
        })
    }
}

/// The slice that serves a line, and the line's numbers there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Home {
    pub(crate) group: u16,
    pub(crate) partition: u16,
    pub(crate) slice: u16,
    pub(crate) key: u64,
    pub(crate) local: u64,
}

/// How lines are numbered within their slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineNumbering {
    slices: u64,
    /// Neighbouring lines in one slice, as a power of two.
    together: u32,
}

impl LineNumbering {
    pub(crate) fn new(config: &GpuConfig) -> Self {
        Self {
            slices: u64::from(config.l2.slices),
            together: (config.l2.interleave_bytes / LINE_BYTES).trailing_zeros(),
        }
    }

    /// Returns the slice's own number of a line, and the slice before hashing.
    #[inline]
    pub(crate) fn split(self, line: u64) -> (u64, u64) {
        let chunk = line >> self.together;
        let round = chunk / self.slices;
        let within = line & ((1 << self.together) - 1);
        (round << self.together | within, chunk - round * self.slices)
    }
}

/// How lines are spread; the same for everybody.
#[derive(Debug)]
pub(crate) struct Topology {
    spread: LineNumbering,
    hashed: bool,
    per_channel: u64,
    /// Group and partition in the group, by channel.
    channels: Vec<(u16, u16)>,
    groups: usize,
}

impl Topology {
    pub(crate) fn new(config: &GpuConfig) -> Self {
        let channels = config.dram.channels as usize;
        let groups = channels.min(MAX_GROUPS);
        let mut sizes = vec![0_u16; groups];
        let home = (0..channels).map(|channel| {
            let group = channel * groups / channels;
            sizes[group] += 1;
            (u16::try_from(group).unwrap_or(0), sizes[group] - 1)
        });
        Self {
            channels: home.collect(),
            groups,
            spread: LineNumbering::new(config),
            hashed: config.l2.hashed,
            per_channel: u64::from(config.l2.slices / config.dram.channels),
        }
    }

    pub(crate) fn groups(&self) -> usize {
        self.groups
    }

    /// Returns where a line is served.
    #[inline]
    pub(crate) fn home(&self, line: u64) -> Home {
        let (key, mut slice) = self.spread.split(line);
        if self.hashed {
            let round = key >> self.spread.together;
            slice += (round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % self.spread.slices;
            slice %= self.spread.slices;
        }
        let channel = slice / self.per_channel;
        let within = slice % self.per_channel;
        let (group, partition) = self.channels[usize::try_from(channel).unwrap_or(0)];
        Home {
            group,
            partition,
            slice: u16::try_from(within).unwrap_or(0),
            key,
            local: key * self.per_channel + within,
        }
    }
}

/// Partitions that one thread at a time runs.
#[derive(Debug)]
pub(crate) struct Group {
    partitions: Vec<Partition>,
    waiting: Vec<Request>,
    pub(crate) tally: Tally,
    /// SMs that got replies in the last run, one bit each, and the earliest of these replies.
    pub(crate) answered: Vec<u64>,
    pub(crate) first_reply: u64,
    /// By partition, until which cycle SMs hold stores back: [`Partition::holds_stores_until`] at the end of the last
    /// run.
    holds_stores_until: Vec<u64>,
    one_way: u64,
}

impl Group {
    fn new(config: &GpuConfig, partitions: usize) -> Self {
        Self {
            partitions: (0..partitions).map(|_| Partition::new(config)).collect(),
            waiting: Vec::with_capacity(1024),
            tally: Tally::new(config.sm.count),
            answered: vec![0; usize::from(config.sm.count).div_ceil(64)],
            first_reply: u64::MAX,
            holds_stores_until: vec![0; partitions],
            one_way: u64::from(config.interconnect.latency),
        }
    }

    /// Returns the core cycle until which SMs hold back stores to a partition.
    #[inline]
    pub(crate) fn holds_stores_until(&self, partition: u16) -> u64 {
        self.holds_stores_until[usize::from(partition)]
    }

    /// Returns the first core cycle in which something is to be done here without new requests, less the way from an
    /// SM; `None` if there is nothing.
    pub(crate) fn next_event(&self) -> Option<u64> {
        let request = self.waiting.first().map(|r| r.arrive);
        let dram = self.partitions.iter().filter_map(Partition::next_event);
        let first = dram.chain(request).min()?;
        Some(first.saturating_sub(self.one_way))
    }

    /// Takes over what the SMs in `senders` sent to this group.
    fn collect(&mut self, number: usize, senders: &[u16], requests: &Exchange<Request>) {
        for sm in senders {
            // SAFETY: in this half of the epoch the boxes to group `number` are this call's own.
            let from = unsafe { requests.of(usize::from(*sm), number) };
            self.waiting.append(from);
        }
    }

    /// Serves all requests that left their SMs before core cycle `end`, and sends the replies.
    pub(crate) fn serve(
        &mut self,
        number: usize,
        end: u64,
        senders: &[u16],
        requests: &Exchange<Request>,
        replies: &Exchange<Reply>,
    ) {
        self.first_reply = u64::MAX;
        self.answered.fill(0);
        let last = end + self.one_way;
        self.collect(number, senders, requests);
        self.waiting
            .sort_unstable_by_key(|r| (r.arrive, r.sm, r.number));
        let due = self.waiting.partition_point(|r| r.arrive < last);
        let Self {
            partitions,
            waiting,
            tally,
            answered,
            first_reply,
            holds_stores_until,
            ..
        } = self;
        let mut send = |reply: Reply| {
            *first_reply = (*first_reply).min(reply.at);
            answered[usize::from(reply.sm) / 64] |= 1 << (reply.sm % 64);
            // SAFETY: in this half of the epoch the boxes from group `number` are this call's own.
            unsafe { replies.of(number, usize::from(reply.sm)) }.push(reply);
        };
        for request in &waiting[..due] {
            partitions[usize::from(request.partition)].accept(request, tally, &mut send);
        }
        for (partition, until) in partitions.iter_mut().zip(holds_stores_until) {
            partition.run(last, tally, &mut send);
            *until = partition.holds_stores_until();
        }
        waiting.drain(..due);
    }
}

/// Returns all groups of partitions.
pub(crate) fn groups(config: &GpuConfig, topology: &Topology) -> Vec<Group> {
    let size = |group| {
        let of_group = topology
            .channels
            .iter()
            .filter(|(g, _)| usize::from(*g) == group);
        of_group.count()
    };
    (0..topology.groups)
        .map(|group| Group::new(config, size(group)))
        .collect()
}
