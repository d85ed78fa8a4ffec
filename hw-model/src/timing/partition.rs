//! A memory partition: one DRAM channel and the L2 slices in front of it.
//!
//! Requests come in order of arrival at their slice. A slice looks tags up in its banks and moves data through one
//! port; what it misses goes to the channel, and whoever asks for sectors on their way waits for the same request.
//! A slice has a clock of its own, so that the times at which it is free carry [`FRACTION`] fraction bits.
//! Rules: partitions share nothing, so they run on several threads; a line with sectors on their way stays; stores
//! bring their bytes and fetch nothing, atomic operations fetch what is not there and are done in the slice; where L2
//! is divided, a read from the far half looks for the near half's copy first ([`halves`](super::halves)).

use super::cache::Cache;
use super::dram::{Channel, DramRequest};
use super::halves::{Halves, copy_of};
use super::memory_system::{LineNumbering, NO_REPLY, Reply, Request, RequestKind, Tally};
use super::pool::Pool;
use crate::config::{GpuConfig, LINE_BYTES, SECTOR_BYTES, WriteMiss};

/// Fraction bits of the times at which slices are free, in core cycles. Times of less than 2⁵⁶ cycles have room.
const FRACTION: u32 = 8;
/// End of a list of waiters.
const NOBODY: u32 = u32::MAX;
/// Tag of a write to DRAM.
const WRITE_BACK: u32 = u32::MAX;

/// Returns the length of a slice's cycle, in core cycles with [`FRACTION`] fraction bits.
#[allow(
    clippy::cast_possible_truncation,
    reason = "`validate` has seen to it; the cast saturates"
)]
fn slice_cycle(config: &GpuConfig) -> u64 {
    (config.l2.cycle * f64::from(1_u32 << FRACTION)).round() as u64
}

#[derive(Debug)]
struct Slice {
    cache: Cache,
    /// From when the port is free, in core cycles with [`FRACTION`] fraction bits.
    port_free_at: u64,
    /// From when each bank is free, in core cycles with [`FRACTION`] fraction bits.
    banks_free_at: Vec<u64>,
}

impl Slice {
    /// Returns the core cycle in which the port and all banks are free.
    fn free_at(&self) -> u64 {
        let banks = self.banks_free_at.iter().copied().max().unwrap_or(0);
        banks.max(self.port_free_at) >> FRACTION
    }
}

/// Sectors on their way from DRAM.
#[derive(Debug, Clone, Copy)]
struct Fetch {
    slice: u32,
    line: u64,
    key: u64,
    sectors: u8,
    first_waiter: u32,
    /// The line has a place in the slice.
    cached: bool,
}

/// A reply that waits for a fetch; it is complete when its last fetch is.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    reply: Reply,
    missing: u32,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    waiting: u32,
    next: u32,
}

/// One partition.
#[derive(Debug)]
pub(crate) struct Partition {
    slices: Vec<Slice>,
    channel: Channel,
    fetches: Pool<Fetch>,
    waiting: Pool<Waiting>,
    links: Pool<Link>,
    spread: LineNumbering,
    costs: Costs,
}

/// Cycles of the way through a partition.
#[derive(Debug, Clone, Copy)]
struct Costs {
    one_way: u64,
    slice: u64,
    /// From the end of DRAM's transfer to the slice, controller included.
    dram: u64,
    /// A slice's cycle, in core cycles with [`FRACTION`] fraction bits.
    cycle: u64,
    /// Bytes that a slice moves in one of its own cycles.
    bytes_per_cycle: u64,
    /// Cycles of the slice for which a turn of an atomic operation holds its bank.
    atomic_interval: u64,
    /// Writes that wait for DRAM before stores are held back.
    queue: usize,
    /// Core cycles of work that a slice is behind before stores are held back.
    behind: u64,
    halves: Halves,
    sectored: bool,
    write_miss: WriteMiss,
}

impl Partition {
    pub(crate) fn new(config: &GpuConfig) -> Self {
        let per_slice = config.l2.bytes / u64::from(config.l2.slices);
        let one_way = u64::from(config.interconnect.latency);
        let l2 = u64::from(config.l2.latency);
        let bytes_per_cycle = u64::from(config.l2.bytes_per_cycle);
        let cycle = slice_cycle(config);
        Self {
            slices: (0..config.l2.slices / config.dram.channels)
                .map(|_| Slice {
                    cache: Cache::new(per_slice, config.l2.ways),
                    port_free_at: 0,
                    banks_free_at: vec![0; config.l2.banks as usize],
                })
                .collect(),
            channel: Channel::new(config),
            fetches: Pool::new(),
            waiting: Pool::new(),
            links: Pool::new(),
            spread: LineNumbering::new(config),
            costs: Costs {
                one_way,
                slice: l2 - 2 * one_way,
                dram: Channel::controller_cycles(config),
                cycle,
                bytes_per_cycle,
                atomic_interval: u64::from(config.l2.atomic_interval),
                queue: config.l2.queue as usize,
                behind: (u64::from(config.l2.queue) * LINE_BYTES.div_ceil(bytes_per_cycle) * cycle)
                    >> FRACTION,
                halves: Halves {
                    far_cycles: u64::from(config.l2.far_cycles),
                },
                sectored: config.l2.sectored,
                write_miss: config.l2.write_miss,
            },
        }
    }

    /// Returns when DRAM decides next.
    pub(crate) fn next_event(&self) -> Option<u64> {
        self.channel.next_event()
    }

    /// Returns until which cycle no further stores should come: for good ([`u64::MAX`]) while too many writes wait for
    /// DRAM, else until every slice has caught up as far as its queue allows.
    pub(crate) fn holds_stores_until(&self) -> u64 {
        if self.channel.waiting_writes() >= self.costs.queue {
            return u64::MAX;
        }
        let free_at = self.slices.iter().map(Slice::free_at).max().unwrap_or(0);
        free_at.saturating_sub(self.costs.behind)
    }

    /// Serves a request; requests come in order of arrival.
    pub(crate) fn accept(
        &mut self,
        request: &Request,
        tally: &mut Tally,
        mut reply: impl FnMut(Reply),
    ) {
        let costs = self.costs;
        let slice = &mut self.slices[usize::from(request.slice)];
        let sectors = request.sectors.count_ones();
        let busy = match request.kind {
            RequestKind::Atomic => u64::from(request.turns) * costs.atomic_interval,
            _ => 1,
        };
        let data = (u64::from(sectors) * SECTOR_BYTES).div_ceil(costs.bytes_per_cycle);
        let banks = slice.banks_free_at.len() as u64;
        let bank = &mut slice.banks_free_at[usize::try_from(request.key % banks).unwrap_or(0)];
        let free_at = slice.port_free_at.max(*bank);
        let begin = free_at.max(request.arrive << FRACTION);
        slice.port_free_at = begin + data * costs.cycle;
        *bank = begin + busy * costs.cycle;
        let start = begin.div_ceil(1 << FRACTION);
        let last_turn = (begin + (busy - 1) * costs.cycle).div_ceil(1 << FRACTION);
        // What is there is on its way back after the slice's latency, from an atomic's last turn.
        let mut answer = Reply {
            sm: request.sm,
            miss: request.miss,
            number: request.number,
            sectors: request.sectors,
            at: last_turn + costs.slice + costs.one_way,
        };
        let far = costs.halves.apart(&slice.cache, request.key, request.sm);
        let reads = request.kind == RequestKind::Read;
        if far && reads && self.has_copy(request, start, tally) {
            if request.miss != NO_REPLY {
                reply(answer);
            }
            return;
        }
        if far {
            answer.at += costs.halves.far_cycles;
        }
        let there = self.look_up(request, start, answer, tally);
        if costs.halves.divided() {
            self.update_copy(request, far && there);
        }
        if there && request.miss != NO_REPLY {
            reply(answer);
        }
    }

    /// Returns whether the half that is near the SM has a copy of all sectors, and makes room for one.
    fn has_copy(&mut self, request: &Request, start: u64, tally: &mut Tally) -> bool {
        let slice = &mut self.slices[usize::from(request.slice)];
        let tag = copy_of(request.line);
        // The home is in use, too, and does not make room for its own copy.
        slice.cache.find(request.line, request.key);
        let Some((copy, evicted)) = slice.cache.find_or_insert(tag, request.key) else {
            return false;
        };
        let there = request.sectors & !copy.valid == 0;
        if let Some(evicted) = evicted {
            let local = self.local_of(request, evicted.line);
            self.write_back(request, local, evicted.dirty, start);
        }
        if there {
            let counters = tally.of(request.launch, request.sm);
            counters.l2_hit_sectors += u64::from(request.sectors.count_ones());
        }
        there
    }

    /// Keeps a copy of what was `read` from the far half and was there, and forgets that of what changes.
    fn update_copy(&mut self, request: &Request, read: bool) {
        let cache = &mut self.slices[usize::from(request.slice)].cache;
        let tag = copy_of(request.line);
        if request.kind != RequestKind::Read {
            cache.remove(tag, request.key);
        } else if read && let Some(copy) = cache.find(tag, request.key) {
            copy.valid |= request.sectors;
        }
    }

    /// Looks a request up in the slice; returns whether the answer can go at once.
    fn look_up(&mut self, request: &Request, start: u64, answer: Reply, tally: &mut Tally) -> bool {
        let slice = &mut self.slices[usize::from(request.slice)];
        let found = slice.cache.find_or_insert(request.line, request.key);
        let counters = tally.of(request.launch, request.sm);
        let Some((line, evicted)) = found else {
            // Every line of the set waits for DRAM, so this one is fetched or written past the slice.
            counters.l2_miss_sectors += u64::from(request.sectors.count_ones());
            if request.kind == RequestKind::Write {
                self.write_back(request, request.local, request.sectors, start);
                return true;
            }
            self.fetch(request, request.sectors, start, answer, false);
            return false;
        };
        let hit = request.sectors & line.valid;
        let coming = request.sectors & line.pending & !line.valid;
        let mut missing = request.sectors & !line.valid & !line.pending;
        counters.l2_hit_sectors += u64::from((hit | coming).count_ones());
        counters.l2_miss_sectors += u64::from(missing.count_ones());
        let waits = line.waiting;
        let fetches = self.costs.write_miss == WriteMiss::Fetch;
        if request.kind == RequestKind::Write && missing != 0 && fetches {
            let absent = !line.valid & !line.pending & 0xf;
            if let Some(evicted) = evicted {
                let local = self.local_of(request, evicted.line);
                self.write_back(request, local, evicted.dirty, start);
            }
            self.write_back(request, request.local, request.sectors, start);
            self.ask(request, absent, start, true);
            return true;
        }
        if request.kind == RequestKind::Write {
            // The bytes are in the slice now; sectors on their way are merged when they come.
            line.valid |= missing;
            line.dirty |= request.sectors;
            missing = 0;
        } else if request.kind == RequestKind::Atomic {
            line.dirty |= request.sectors;
        }
        if missing != 0 && !self.costs.sectored {
            missing = !line.valid & !line.pending & 0xf;
        }
        if let Some(evicted) = evicted {
            let local = self.local_of(request, evicted.line);
            self.write_back(request, local, evicted.dirty, start);
        }
        if request.kind == RequestKind::Write || coming | missing == 0 {
            return true;
        }
        let waiting = (request.miss != NO_REPLY).then(|| {
            self.waiting.take(Waiting {
                reply: answer,
                missing: 0,
            })
        });
        let mut last = NOBODY;
        for (sector, fetch) in waits.into_iter().enumerate() {
            if coming >> sector & 1 != 0 && fetch != last {
                self.join(fetch, waiting);
                last = fetch;
            }
        }
        if missing != 0 {
            let fetch = self.ask(request, missing, start, true);
            self.join(fetch, waiting);
        }
        false
    }

    /// Returns the channel's own number of an evicted line, which lies in the same slice.
    fn local_of(&self, request: &Request, line: u64) -> u64 {
        let slices = self.slices.len() as u64;
        self.spread.split(line).0 * slices + u64::from(request.slice)
    }

    fn write_back(&mut self, request: &Request, local: u64, sectors: u8, at: u64) {
        self.channel.push(DramRequest {
            arrive: at,
            local,
            sectors,
            write: true,
            tag: WRITE_BACK,
            launch: request.launch,
            sm: request.sm,
        });
    }

    fn fetch(&mut self, request: &Request, sectors: u8, at: u64, answer: Reply, cached: bool) {
        let waiting = (request.miss != NO_REPLY).then(|| {
            self.waiting.take(Waiting {
                reply: answer,
                missing: 0,
            })
        });
        let fetch = self.ask(request, sectors, at, cached);
        self.join(fetch, waiting);
    }

    /// Asks DRAM for sectors; returns the fetch's number.
    fn ask(&mut self, request: &Request, sectors: u8, at: u64, cached: bool) -> u32 {
        let fetch = self.fetches.take(Fetch {
            slice: u32::from(request.slice),
            line: request.line,
            key: request.key,
            sectors,
            first_waiter: NOBODY,
            cached,
        });
        if cached
            && let Some(line) = self.slices[usize::from(request.slice)]
                .cache
                .find(request.line, request.key)
        {
            line.pending |= sectors;
            for sector in (0..4).filter(|sector| sectors >> sector & 1 != 0) {
                line.waiting[sector] = fetch;
            }
        }
        self.channel.push(DramRequest {
            arrive: at,
            local: request.local,
            sectors,
            write: false,
            tag: fetch,
            launch: request.launch,
            sm: request.sm,
        });
        fetch
    }

    fn join(&mut self, fetch: u32, waiting: Option<u32>) {
        let Some(waiting) = waiting else { return };
        self.waiting.get(waiting).missing += 1;
        let next = self.fetches.get(fetch).first_waiter;
        let link = self.links.take(Link { waiting, next });
        self.fetches.get(fetch).first_waiter = link;
    }

    /// Lets DRAM work until `end`.
    pub(crate) fn run(&mut self, end: u64, tally: &mut Tally, mut reply: impl FnMut(Reply)) {
        let Self {
            slices,
            channel,
            fetches,
            waiting,
            links,
            costs,
            ..
        } = self;
        channel.run(end, |served| {
            let counters = tally.of(served.request.launch, served.request.sm);
            let bytes = u64::from(served.request.sectors.count_ones()) * SECTOR_BYTES;
            counters.dram_row_hits += u64::from(served.row_hit);
            counters.dram_row_misses += u64::from(!served.row_hit);
            if served.request.write {
                counters.dram_write_bytes += bytes;
                return;
            }
            counters.dram_read_bytes += bytes;
            let number = served.request.tag;
            let fetch = *fetches.get(number);
            fetches.give_back(number);
            let filled = served.at + costs.slice + costs.dram + costs.one_way;
            if fetch.cached
                && let Some(line) = slices[fetch.slice as usize]
                    .cache
                    .find(fetch.line, fetch.key)
            {
                line.pending &= !fetch.sectors;
                line.valid |= fetch.sectors;
            }
            let mut next = fetch.first_waiter;
            while next != NOBODY {
                let link = *links.get(next);
                links.give_back(next);
                next = link.next;
                let entry = waiting.get(link.waiting);
                let cache = &mut slices[fetch.slice as usize].cache;
                let far = costs.halves.apart(cache, fetch.key, entry.reply.sm);
                entry.reply.at = entry.reply.at.max(costs.halves.filled(filled, far));
                entry.missing -= 1;
                if entry.missing == 0 {
                    let answer = entry.reply;
                    if far && let Some(copy) = cache.find(copy_of(fetch.line), fetch.key) {
                        copy.valid |= answer.sectors;
                    }
                    waiting.give_back(link.waiting);
                    reply(answer);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory_system::{NO_REPLY, Request, RequestKind, Tally};
    use super::Partition;
    use crate::config::GpuConfig;

    const ARRIVE: u64 = 1000;

    /// Returns a request for the first sector of line 0.
    fn request(kind: RequestKind, number: u32, arrive: u64) -> Request {
        Request {
            arrive,
            line: 0,
            key: 0,
            local: 0,
            number: 0,
            miss: number,
            launch: 0,
            sm: 0,
            partition: 0,
            slice: 0,
            sectors: 1,
            turns: 4,
            kind,
        }
    }

    /// Returns when requests of a kind that come at once are answered, in core cycles since the answer to a lone read.
    fn answers(cycle: f64, kind: RequestKind, count: u32) -> Vec<u64> {
        let mut config = GpuConfig::builtin("h200").expect("built in");
        config.l2.cycle = cycle;
        config.l2.atomic_interval = 3;
        config.l2.far_cycles = 0;
        let mut partition = Partition::new(&config);
        let mut tally = Tally::new(1);
        let mut answers = Vec::new();
        // The line is there from now on.
        let write = request(RequestKind::Write, NO_REPLY, 0);
        partition.accept(&write, &mut tally, |_| {});
        for number in 0..count {
            let request = request(kind, number, ARRIVE);
            partition.accept(&request, &mut tally, |reply| answers.push(reply.at));
        }
        let lone = ARRIVE + u64::from(config.l2.latency - config.interconnect.latency);
        answers.into_iter().map(|at| at - lone).collect()
    }

    #[test]
    fn a_slice_reads_a_sector_in_each_of_its_own_cycles() {
        assert_eq!(answers(1.0, RequestKind::Read, 4), [0, 1, 2, 3]);
        assert_eq!(answers(1.5, RequestKind::Read, 4), [0, 2, 3, 5]);
        assert_eq!(answers(0.5, RequestKind::Read, 4), [0, 1, 1, 2]);
    }

    #[test]
    fn an_atomic_operation_is_answered_from_its_last_turn() {
        // Four turns of three cycles: the last begins eleven cycles after the first, and the next operation twelve.
        assert_eq!(answers(1.0, RequestKind::Atomic, 2), [11, 23]);
        assert_eq!(answers(1.5, RequestKind::Atomic, 2), [17, 35]);
    }
}
