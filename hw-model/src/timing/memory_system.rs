//! Everything behind the SMs: the interconnect's reply side, L2 slices, DRAM channels.
//!
//! Lines are spread over slices by a hash, slices evenly over channels. Requests are served in the order in which
//! they arrive, whichever SM they come from; each resource is a reservation.
//! Rules: a request that arrives after the epoch's last arrival waits for a later epoch, so that the order is the
//! same however time is cut into epochs; a read's reply comes no earlier than `l2.latency` after its departure.

use super::cache::Cache;
use super::dram::Channel;
use super::launches::Launches;
use crate::config::{GpuConfig, SECTOR_BYTES};

/// Who does not want a reply.
pub(crate) const NO_REPLY: u32 = u32::MAX;

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
    /// When it is at its slice.
    pub(crate) arrive: u64,
    pub(crate) line: u64,
    pub(crate) sectors: u8,
    /// Operations on one address, for atomics.
    pub(crate) turns: u8,
    pub(crate) kind: RequestKind,
    pub(crate) sm: u16,
    /// The SM's own number for it, or [`NO_REPLY`].
    pub(crate) miss: u32,
    /// Index of the launch that it is counted for.
    pub(crate) launch: u32,
}

/// An answer to an SM.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reply {
    pub(crate) sm: u16,
    pub(crate) miss: u32,
    pub(crate) at: u64,
}

#[derive(Debug)]
struct Slice {
    cache: Cache,
    free_at: u64,
}

/// L2, DRAM and the way back.
#[derive(Debug)]
pub(crate) struct MemorySystem {
    slices: Vec<Slice>,
    channels: Vec<Channel>,
    /// Per SM, when its reply port has taken everything so far, in order of arrival at L2.
    ports: Vec<u64>,
    waiting: Vec<Request>,
    replies: Vec<Reply>,
    one_way: u64,
    slice_latency: u64,
    dram_latency: u64,
    bytes_per_cycle: u64,
    reply_bytes_per_cycle: u64,
    atomic_interval: u64,
}

impl MemorySystem {
    pub(crate) fn new(config: &GpuConfig) -> Self {
        let per_slice = config.l2.bytes / u64::from(config.l2.slices);
        let one_way = u64::from(config.interconnect.latency);
        let sector_cycle = 1;
        Self {
            slices: (0..config.l2.slices)
                .map(|_| Slice {
                    cache: Cache::new(per_slice, config.l2.ways),
                    free_at: 0,
                })
                .collect(),
            channels: (0..config.dram.channels)
                .map(|_| Channel::new(config))
                .collect(),
            ports: vec![0; usize::from(config.sm.count)],
            waiting: Vec::with_capacity(4096),
            replies: Vec::with_capacity(4096),
            one_way,
            slice_latency: u64::from(config.l2.latency) - 2 * one_way,
            dram_latency: u64::from(
                config.dram.latency - config.l2.latency - config.dram.row_miss_cycles,
            )
            .saturating_sub(sector_cycle),
            bytes_per_cycle: u64::from(config.l2.bytes_per_cycle),
            reply_bytes_per_cycle: u64::from(config.interconnect.reply_bytes_per_cycle),
            atomic_interval: u64::from(config.l2.atomic_interval),
        }
    }

    /// Takes an SM's requests over.
    pub(crate) fn accept(&mut self, requests: &mut Vec<Request>) {
        self.waiting.append(requests);
    }

    /// First departure among the requests that wait.
    pub(crate) fn next_departure(&self) -> Option<u64> {
        let first = self.waiting.iter().map(|r| r.arrive).min()?;
        Some(first.saturating_sub(self.one_way))
    }

    /// Serves everything that left its SM before `end`, and returns the replies.
    pub(crate) fn serve(&mut self, end: u64, launches: &mut Launches) -> &[Reply] {
        self.replies.clear();
        let last = end + self.one_way;
        // An SM's port sends at most one request a cycle, so that the key is unique and the order defined.
        self.waiting.sort_unstable_by_key(|r| (r.arrive, r.sm));
        let due = self.waiting.partition_point(|r| r.arrive < last);
        let mut served = std::mem::take(&mut self.waiting);
        for request in &served[..due] {
            self.serve_one(request, launches);
        }
        served.drain(..due);
        self.waiting = served;
        &self.replies
    }

    fn serve_one(&mut self, request: &Request, launches: &mut Launches) {
        let slices = self.slices.len() as u64;
        let group = request.line / slices;
        let spread = (group.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % slices;
        let index = usize::try_from((request.line + spread) % slices).unwrap_or(0);
        let sectors = request.sectors.count_ones();
        let busy = match request.kind {
            RequestKind::Atomic => u64::from(request.turns) * self.atomic_interval,
            _ => (u64::from(sectors) * SECTOR_BYTES).div_ceil(self.bytes_per_cycle),
        };
        let slice = &mut self.slices[index];
        let start = slice.free_at.max(request.arrive);
        slice.free_at = start + busy;
        let ready = self.look_up(index, group, start, request, launches);
        if request.miss == NO_REPLY {
            return;
        }
        // The reply port is reserved in order of arrival at L2 and its delay added, so that a reply from DRAM
        // does not hold up hits behind it.
        let port = &mut self.ports[usize::from(request.sm)];
        let turn = (*port).max(start);
        *port = turn + (u64::from(sectors) * SECTOR_BYTES).div_ceil(self.reply_bytes_per_cycle);
        let serial = if request.kind == RequestKind::Atomic {
            busy - 1
        } else {
            0
        };
        self.replies.push(Reply {
            sm: request.sm,
            miss: request.miss,
            at: ready + self.one_way + (turn - start) + serial,
        });
    }

    /// When the sectors are there, the slice's latency included.
    fn look_up(
        &mut self,
        slice: usize,
        local: u64,
        start: u64,
        request: &Request,
        launches: &mut Launches,
    ) -> u64 {
        let counters = launches.counters(request.launch);
        let done = start + self.slice_latency;
        let channels = self.channels.len();
        let channel = &mut self.channels[slice * channels / self.slices.len()];
        let slices = self.slices.len() as u64;
        // The channel's lines are those of its slices, side by side.
        let place = |line: u64| {
            line / slices * slices.div_ceil(channels as u64)
                + slice as u64 % slices.div_ceil(channels as u64)
        };
        let Some((line, evicted)) = self.slices[slice].cache.find_or_insert(request.line, local)
        else {
            return done;
        };
        if let Some(evicted) = evicted {
            let served = channel.serve(start, place(evicted.line), evicted.dirty.count_ones());
            counters.dram_write_bytes += u64::from(evicted.dirty.count_ones()) * SECTOR_BYTES;
            count_row(served.row_hit, counters);
        }
        let hit = request.sectors & line.valid;
        let mut missing = request.sectors & !line.valid;
        counters.l2_hit_sectors += u64::from(hit.count_ones());
        if request.kind == RequestKind::Write {
            // A store brings whole sectors' worth of bytes or leaves the rest to byte masks: nothing is fetched.
            counters.l2_miss_sectors += u64::from(missing.count_ones());
            missing = 0;
        }
        let mut ready = if hit == 0 {
            done
        } else {
            done.max(line.ready_at)
        };
        if missing != 0 {
            let served = channel.serve(start, place(request.line), missing.count_ones());
            counters.l2_miss_sectors += u64::from(missing.count_ones());
            counters.dram_read_bytes += u64::from(missing.count_ones()) * SECTOR_BYTES;
            count_row(served.row_hit, counters);
            let filled = served.at + self.slice_latency + self.dram_latency;
            line.ready_at = line.ready_at.max(filled);
            ready = ready.max(filled);
        }
        line.valid |= request.sectors;
        if request.kind != RequestKind::Read {
            line.dirty |= request.sectors;
        }
        ready
    }
}

fn count_row(hit: bool, counters: &mut crate::counters::Counters) {
    counters.dram_row_hits += u64::from(hit);
    counters.dram_row_misses += u64::from(!hit);
}
