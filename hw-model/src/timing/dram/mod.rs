//! A DRAM channel: banks with one open row each, a command queue, and a data bus.
//!
//! The controller serves first ready, first come first served (Rixner et al., ISCA 2000): among the oldest
//! `dram.queue` requests, one whose row is open goes first, and of those the oldest; meanwhile banks that nobody
//! with an open row wants are precharged and opened for their oldest request. Timing is JEDEC's: tRCD, tRP, tRAS,
//! tRC, tRRD, tCCD, tCCDL, CL, WL, tCDLR, tWR, and a rest of the bus between read and written data.
//! The bus moves whole bursts: sectors of one request that lie in one burst come together, a lone one pays for all of
//! it. Bursts of one bank group keep a longer distance, in whose gaps those of another group fit. Where the
//! controller's buffers are few, a request waits in front of it until one that came before has left.
//! Rules: a decision at time `t` sees the requests that arrived by `t`, and is made only when all of those are
//! known; times carry [`FRACTION`] fraction bits, because a command clock is no whole number of core cycles.

mod buffers;
mod layout;
#[cfg(test)]
mod tests;

use crate::config::GpuConfig;
use buffers::Buffers;
use layout::Layout;
use std::collections::VecDeque;

/// Fraction bits of DRAM times.
const FRACTION: u32 = 8;
const NO_ROW: u64 = u64::MAX;

/// A read or write of sectors of one line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DramRequest {
    /// When it is at the controller, in core cycles.
    pub(crate) arrive: u64,
    /// The channel's own number of the line.
    pub(crate) local: u64,
    pub(crate) sectors: u8,
    pub(crate) write: bool,
    /// The owner's number for the request, which is given back with it.
    pub(crate) tag: u32,
    /// Index of the launch that it is counted for.
    pub(crate) launch: u32,
    /// SM that it is counted for.
    pub(crate) sm: u16,
}

/// A request that was served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served {
    pub(crate) request: DramRequest,
    /// When its last byte is on the bus, in core cycles.
    pub(crate) at: u64,
    pub(crate) row_hit: bool,
}

#[derive(Debug, Clone, Copy)]
struct Queued {
    request: DramRequest,
    arrive: u64,
    bank: u16,
    row: u64,
    bursts: u8,
    /// Its row was opened for it.
    opened: bool,
}

#[derive(Debug, Clone, Copy)]
struct Bank {
    row: u64,
    opened_at: u64,
    /// From when on columns can be read and written.
    ready_at: u64,
    /// From when on it can be precharged, as far as data transfers say.
    precharge_at: u64,
}

/// The requests that the controller chooses among.
#[derive(Debug)]
struct Seen {
    /// Requests that have arrived, of those it looks at.
    known: usize,
    /// Banks whose open row someone wants, one bit each.
    busy: [u64; 2],
    /// Someone wants a row that is not open.
    closed: bool,
    /// The request to transfer next, and when its column command can be given.
    best: Option<(usize, u64)>,
}

/// Returns a bank's place in a mask of banks: the number of the word, and the bit in it.
#[inline]
fn bank_bit(bank: u16) -> (usize, u64) {
    (usize::from(bank >> 6 & 1), 1 << (bank & 63))
}

/// Timing in core cycles with fraction bits.
#[derive(Debug, Clone, Copy)]
struct Timing {
    ccd: u64,
    rrd: u64,
    rcd: u64,
    ras: u64,
    rp: u64,
    rc: u64,
    cl: u64,
    wl: u64,
    cdlr: u64,
    wr: u64,
    /// Column command to column command in one bank group; 0 where groups make no difference.
    ccdl: u64,
    /// Rest of the bus between read data and written data.
    turn: u64,
    /// From one refresh to the next, 0 where none are made, and from a refresh to a row's opening.
    refi: u64,
    rfc: u64,
    burst: u64,
}

impl Timing {
    fn new(config: &GpuConfig) -> Self {
        let dram = &config.dram;
        let per_channel = dram.gigabytes_per_second / f64::from(dram.channels);
        let burst = config.transfer_cycles(dram.burst_bytes << FRACTION, per_channel);
        let time = |clocks| config.dram_time(clocks, FRACTION);
        let t = &dram.timing;
        Self {
            ccd: time(t.ccd),
            rrd: time(t.rrd),
            rcd: time(t.rcd),
            ras: time(t.ras),
            rp: time(t.rp),
            rc: time(t.rc),
            cl: time(t.cl),
            wl: time(t.wl),
            cdlr: time(t.cdlr),
            wr: time(t.wr),
            ccdl: time(t.ccdl),
            turn: time(t.turn),
            refi: time(t.refi),
            rfc: time(t.rfc),
            burst: burst.max(1),
        }
    }
}

/// One channel.
#[derive(Debug)]
pub(crate) struct Channel {
    banks: Vec<Bank>,
    /// In order of arrival; requests leave near its front, so a ring moves few of them.
    queue: VecDeque<Queued>,
    /// Requests at the front of the queue that have buffers.
    entered: usize,
    /// Writes in the queue.
    writes: usize,
    buffers: Option<Buffers>,
    window: usize,
    timing: Timing,
    layout: Layout,
    /// By bank group, when its next column command may come.
    groups: Vec<u64>,
    /// Time of the next decision.
    now: u64,
    bus_free_at: u64,
    last_column_at: u64,
    last_opened_at: u64,
    /// End of the last written data, which a read must keep away from, and of the last read data.
    written_at: u64,
    read_at: u64,
    /// When the next refresh is due, and when rows can be opened after the last one.
    refresh_at: u64,
    refreshed_at: u64,
}

impl Channel {
    pub(crate) fn new(config: &GpuConfig) -> Self {
        let dram = &config.dram;
        Self {
            banks: vec![
                Bank {
                    row: NO_ROW,
                    opened_at: 0,
                    ready_at: 0,
                    precharge_at: 0,
                };
                dram.banks as usize
            ],
            queue: VecDeque::with_capacity(1024),
            entered: 0,
            writes: 0,
            buffers: (dram.buffers != 0)
                .then(|| Buffers::new(dram.buffers, Self::controller_cycles(config) << FRACTION)),
            window: dram.queue as usize,
            timing: Timing::new(config),
            layout: Layout::new(config),
            groups: vec![0; dram.bank_groups as usize],
            now: 0,
            bus_free_at: 0,
            last_column_at: 0,
            last_opened_at: 0,
            written_at: 0,
            read_at: 0,
            refresh_at: match config.dram_time(dram.timing.refi, FRACTION) {
                0 => u64::MAX,
                refi => refi,
            },
            refreshed_at: 0,
        }
    }

    /// Returns the core cycles from the arrival of a lone read of one burst, at a bank with another row open, to the
    /// end of its data.
    pub(crate) fn lone_read_cycles(config: &GpuConfig) -> u64 {
        let t = Timing::new(config);
        (t.rp + t.rcd + t.cl + t.burst) >> FRACTION
    }

    /// Returns the core cycles that a lone read spends in the controller besides what its row, column and data take.
    pub(crate) fn controller_cycles(config: &GpuConfig) -> u64 {
        let row = Self::lone_read_cycles(config);
        u64::from(config.dram.latency).saturating_sub(u64::from(config.l2.latency) + row)
    }

    /// Puts a request into the queue by its arrival; within an epoch, requests may be given in any order.
    #[inline]
    pub(crate) fn push(&mut self, request: DramRequest) {
        let (bank, row) = self.layout.place(request.local);
        self.writes += usize::from(request.write);
        let queued = Queued {
            request,
            arrive: request.arrive << FRACTION,
            bank,
            row,
            bursts: self.layout.bursts(request.sectors),
            opened: false,
        };
        // Arrivals are almost sorted, so the place is near the end.
        let mut at = self.queue.len();
        while at > 0 && self.queue[at - 1].arrive > queued.arrive {
            at -= 1;
        }
        self.queue.insert(at, queued);
    }

    /// Returns the core cycle of the controller's next decision; `None` while the queue is empty.
    pub(crate) fn next_event(&self) -> Option<u64> {
        let first = self.queue.front()?;
        Some(first.arrive.max(self.now) >> FRACTION)
    }

    /// Returns the number of writes that wait for their transfer.
    pub(crate) fn waiting_writes(&self) -> usize {
        self.writes
    }

    /// Makes all decisions before core cycle `end` and calls `served` with each request that was served.
    pub(crate) fn run(&mut self, end: u64, mut served: impl FnMut(Served)) {
        let end = end << FRACTION;
        while let Some(first) = self.queue.front() {
            self.now = self.now.max(first.arrive);
            if self.now >= end {
                return;
            }
            if self.now >= self.refresh_at {
                self.refresh();
            }
            let mut wanted = self.enter();
            let mut seen = self.look();
            if seen.closed {
                let (next, opened) = self.open_rows(&seen);
                wanted = wanted.min(next);
                if opened {
                    seen = self.look();
                }
            }
            match seen.best {
                Some((at, start)) if start <= self.now => served(self.transfer(at)),
                // Until then a request may come, or a bank that waits may be precharged.
                best => {
                    let start = best.map_or(u64::MAX, |(_, start)| start);
                    self.now = start.min(wanted).max(self.now + 1);
                }
            }
        }
    }

    /// Closes all rows and refreshes all banks; no row can be opened until that is done.
    fn refresh(&mut self) {
        let t = self.timing;
        // Those that came due while nobody asked for anything are over, but for the last.
        let due = self.refresh_at + (self.now - self.refresh_at) / t.refi * t.refi;
        self.refresh_at = due + t.refi;
        let mut closed = due;
        for bank in self.banks.iter_mut().filter(|bank| bank.row != NO_ROW) {
            let precharge = due.max(bank.precharge_at).max(bank.opened_at + t.ras);
            closed = closed.max(precharge + t.rp);
            bank.row = NO_ROW;
        }
        self.refreshed_at = closed + t.rfc;
    }

    /// Lets requests that have arrived enter as far as there are buffers. Returns the time at which the next may enter,
    /// in core cycles with [`FRACTION`] fraction bits; [`u64::MAX`] while none is known.
    fn enter(&mut self) -> u64 {
        if let Some(buffers) = &mut self.buffers {
            buffers.free(self.now);
        }
        while let Some(next) = self.queue.get_mut(self.entered) {
            if next.arrive > self.now {
                return next.arrive;
            }
            if let Some(buffers) = &mut self.buffers {
                if !buffers.take(next.request.sectors.count_ones()) {
                    return buffers.next_free();
                }
                // Before that nobody could open a row for it.
                next.arrive = self.now;
            }
            self.entered += 1;
        }
        u64::MAX
    }

    /// Looks at the requests that have entered, oldest first, for the one to transfer next and for rows to open.
    fn look(&self) -> Seen {
        let (t, now) = (&self.timing, self.now);
        // What a column command waits for besides its bank.
        let turn = self.last_column_at + t.ccd;
        let read_at = turn
            .max(self.bus_free_at.saturating_sub(t.cl))
            .max(self.written_at + t.cdlr);
        let write_at = turn
            .max(self.bus_free_at.saturating_sub(t.wl))
            .max((self.read_at + t.turn).saturating_sub(t.wl));
        let mut seen = Seen {
            known: 0,
            busy: [0; 2],
            closed: false,
            best: None,
        };
        let mut earliest = u64::MAX;
        for queued in self.queue.iter().take(self.window.min(self.entered)) {
            let at = seen.known;
            seen.known += 1;
            let bank = &self.banks[usize::from(queued.bank)];
            if bank.row != queued.row {
                seen.closed = true;
                continue;
            }
            let (word, bit) = bank_bit(queued.bank);
            seen.busy[word] |= bit;
            let free_at = if queued.request.write {
                write_at
            } else {
                read_at
            };
            let group = self.groups[self.group(queued.bank)];
            let start = bank.ready_at.max(free_at).max(group);
            // The oldest of those that can go by now, else the first to be able to.
            if earliest > now && start < earliest {
                earliest = start;
                seen.best = Some((at, start));
            }
        }
        seen
    }

    /// Opens rows for the oldest requests of banks whose open row nobody wants. Returns the time at which the next such
    /// bank is to be precharged, in core cycles with [`FRACTION`] fraction bits ([`u64::MAX`] if there is none), and
    /// whether a row was opened.
    fn open_rows(&mut self, seen: &Seen) -> (u64, bool) {
        let now = self.now;
        // Banks that have an open row which someone wants, or were looked at before.
        let mut busy = seen.busy;
        let (mut next, mut opened) = (u64::MAX, false);
        for queued in self.queue.iter_mut().take(seen.known) {
            let (word, bit) = bank_bit(queued.bank);
            if busy[word] & bit != 0 {
                continue;
            }
            busy[word] |= bit;
            let t = self.timing;
            let bank = &mut self.banks[usize::from(queued.bank)];
            let open_at = if bank.row == NO_ROW {
                queued.arrive
            } else {
                let precharge = bank
                    .precharge_at
                    .max(bank.opened_at + t.ras)
                    .max(queued.arrive);
                (precharge + t.rp).max(bank.opened_at + t.rc)
            };
            let open_at = open_at
                .max(self.last_opened_at + t.rrd)
                .max(self.refreshed_at);
            // The decision is made once no request for the old row can come before the precharge.
            if bank.row != NO_ROW && open_at.saturating_sub(t.rp) > now {
                next = next.min(open_at - t.rp);
                continue;
            }
            bank.row = queued.row;
            bank.opened_at = open_at;
            bank.ready_at = open_at + t.rcd;
            self.last_opened_at = open_at;
            queued.opened = true;
            opened = true;
        }
        (next, opened)
    }

    #[inline]
    fn group(&self, bank: u16) -> usize {
        // Neighbouring banks lie in different groups.
        usize::from(bank) & (self.groups.len() - 1)
    }

    fn transfer(&mut self, at: usize) -> Served {
        let queued = self.queue.remove(at).expect("`look` found it");
        self.entered -= 1;
        self.writes -= usize::from(queued.request.write);
        let t = self.timing;
        let to_data = if queued.request.write { t.wl } else { t.cl };
        let column = self.now;
        let begin = (column + to_data).max(self.bus_free_at);
        let bursts = u64::from(queued.bursts);
        // The bus is taken for the bursts; the gaps that the bank group leaves between them are for other groups.
        self.bus_free_at = begin + t.burst * bursts;
        let end = begin + t.burst.max(t.ccdl) * (bursts - 1) + t.burst;
        self.last_column_at = column;
        let group = self.group(queued.bank);
        self.groups[group] = begin - to_data + t.ccdl * bursts;
        let bank = &mut self.banks[usize::from(queued.bank)];
        bank.precharge_at = if queued.request.write {
            self.written_at = self.written_at.max(end);
            end + t.wr
        } else {
            self.read_at = self.read_at.max(end);
            end.saturating_sub(t.cl).max(column)
        };
        if let Some(buffers) = &mut self.buffers {
            buffers.served(queued.request.sectors.count_ones(), end);
        }
        Served {
            request: queued.request,
            at: end.div_ceil(1 << FRACTION),
            row_hit: !queued.opened,
        }
    }
}
