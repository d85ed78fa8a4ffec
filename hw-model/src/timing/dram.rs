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

use crate::config::{GpuConfig, LINE_BYTES, SECTOR_BYTES, Stripe};
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
    /// What the owner wants to know again.
    pub(crate) tag: u32,
    /// Whose counters it moves.
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

/// What the controller sees at a time.
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

/// A bank's place in a mask of banks.
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

/// Which bank and row a line lies in.
#[derive(Debug, Clone, Copy)]
struct Layout {
    banks: u64,
    /// Banks that take turns along neighbouring addresses, and the lines of a turn.
    stripe: (u64, u64),
    /// Lines of a row in all banks of a stripe.
    rows: u64,
    /// Sectors of a line that share a burst with its first one.
    burst: u32,
}

impl Layout {
    fn new(config: &GpuConfig) -> Self {
        let dram = &config.dram;
        let stripe = dram.stripe.unwrap_or(Stripe {
            banks: 1,
            bytes: dram.row_bytes,
        });
        let width = u64::from(stripe.banks);
        Self {
            banks: u64::from(dram.banks),
            stripe: (width, stripe.bytes / LINE_BYTES),
            rows: dram.row_bytes / LINE_BYTES * width,
            burst: u32::try_from(dram.burst_bytes / SECTOR_BYTES).unwrap_or(1),
        }
    }

    /// Bank, and a number of the row that no other row of the bank has.
    #[inline]
    fn place(&self, local: u64) -> (u16, u64) {
        let (width, lines) = self.stripe;
        let row = local / self.rows;
        let sets = self.banks / width;
        // Neighbouring rows lie in different banks; the hash keeps strides from meeting in one.
        let mixed = row ^ (row / sets).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        let bank = mixed % sets * width + local / lines % width;
        (u16::try_from(bank).unwrap_or(0), row)
    }

    /// Bursts that bring these sectors.
    #[inline]
    fn bursts(&self, sectors: u8) -> u8 {
        let sectors = match self.burst {
            1 => sectors,
            2 => (sectors | sectors >> 1) & 0b0101,
            _ => u8::from(sectors != 0),
        };
        u8::try_from(sectors.count_ones()).unwrap_or(0)
    }
}

/// Buffers of the controller: those of its queue and those of data on their way back.
#[derive(Debug)]
struct Buffers {
    /// Sectors that they hold.
    limit: u32,
    held: u32,
    /// When those of served requests are free, and how many.
    freed: VecDeque<(u64, u32)>,
    /// From the end of a transfer until its buffers are free.
    hold: u64,
}

impl Buffers {
    /// Frees what is due by `now`.
    fn free(&mut self, now: u64) {
        while let Some((_, sectors)) = self.freed.pop_front_if(|(at, _)| *at <= now) {
            self.held -= sectors;
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
            buffers: (dram.buffers != 0).then(|| Buffers {
                limit: dram.buffers,
                held: 0,
                freed: VecDeque::new(),
                hold: config.dram_controller_cycles() << FRACTION,
            }),
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

    /// Core cycles from the arrival of a lone read at a bank with another row open to its data's end, of one burst.
    pub(crate) fn lone_read_cycles(config: &GpuConfig) -> u64 {
        let t = Timing::new(config);
        (t.rp + t.rcd + t.cl + t.burst) >> FRACTION
    }

    /// Takes a request; arrivals of one channel come in any order within an epoch.
    #[inline]
    pub(crate) fn push(&mut self, request: DramRequest) {
        let (bank, row) = self.layout.place(request.local);
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

    /// When the controller decides next, in core cycles.
    pub(crate) fn next_event(&self) -> Option<u64> {
        let first = self.queue.front()?;
        Some(first.arrive.max(self.now) >> FRACTION)
    }

    /// Makes all decisions before `end` and tells what was served.
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

    /// Closes all rows and refreshes all banks, which no row can be opened in meanwhile.
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

    /// Lets requests that have arrived enter as far as there are buffers. Gives the time at which the next may.
    fn enter(&mut self) -> u64 {
        if let Some(buffers) = &mut self.buffers {
            buffers.free(self.now);
        }
        while let Some(next) = self.queue.get(self.entered) {
            if next.arrive > self.now {
                return next.arrive;
            }
            if let Some(buffers) = &mut self.buffers {
                let sectors = next.request.sectors.count_ones();
                if buffers.held != 0 && buffers.held + sectors > buffers.limit {
                    return buffers.freed.front().map_or(u64::MAX, |(at, _)| *at);
                }
                buffers.held += sectors;
            }
            self.entered += 1;
        }
        u64::MAX
    }

    /// Looks at the requests that have entered, oldest first.
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

    /// Opens rows for the oldest requests of banks whose open row nobody wants. Gives the time at which the next
    /// row can be opened, and whether one was.
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
            let sectors = queued.request.sectors.count_ones();
            buffers.freed.push_back((end + buffers.hold, sectors));
        }
        Served {
            request: queued.request,
            at: end.div_ceil(1 << FRACTION),
            row_hit: !queued.opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Channel, DramRequest, Served};
    use crate::config::GpuConfig;

    fn read(arrive: u64, local: u64) -> DramRequest {
        DramRequest {
            arrive,
            local,
            sectors: 15,
            write: false,
            tag: 0,
            launch: 0,
            sm: 0,
        }
    }

    fn serve(channel: &mut Channel, requests: &[DramRequest]) -> Vec<Served> {
        requests.iter().for_each(|r| channel.push(*r));
        let mut all = Vec::new();
        channel.run(1 << 20, |served| all.push(served));
        all
    }

    #[test]
    fn an_open_row_goes_first_and_cutting_time_changes_nothing() {
        let config = GpuConfig::builtin("gtx480").expect("valid");
        let lines = config.dram.row_bytes / 128;
        // Two rows of one bank, interleaved: the controller serves row by row.
        let banks = u64::from(config.dram.banks);
        let mut channel = Channel::new(&config);
        let bank_of = |channel: &mut Channel, row: u64| {
            channel.push(read(0, row * lines));
            channel.queue.pop_back().expect("just pushed").bank
        };
        let home = bank_of(&mut channel, 0);
        let other = (1..16 * banks)
            .find(|row| bank_of(&mut channel, *row) == home)
            .expect("rows share banks");
        let requests: Vec<_> = (0..8)
            .map(|n| read(n, n % 2 * other * lines + n / 2))
            .collect();
        let served = serve(&mut channel, &requests);
        let rows: Vec<u64> = served.iter().map(|s| s.request.local / lines).collect();
        assert!(rows[..4].iter().all(|row| *row == 0), "{rows:?}");
        assert_eq!(served.iter().filter(|s| s.row_hit).count(), 6);
        let mut cut = Channel::new(&config);
        requests.iter().for_each(|r| cut.push(*r));
        let mut again = Vec::new();
        for end in (0..4000).step_by(7) {
            cut.run(end, |served| again.push(served.at));
        }
        let times: Vec<u64> = served.iter().map(|s| s.at).collect();
        assert_eq!(again, times);
    }

    #[test]
    fn the_bus_is_never_faster_than_its_bandwidth() {
        let config = GpuConfig::builtin("v100").expect("valid");
        let mut channel = Channel::new(&config);
        let requests: Vec<_> = (0..2000).map(|n| read(n / 8, n)).collect();
        let served = serve(&mut channel, &requests);
        let last = served.iter().map(|s| s.at).max().expect("served");
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        let rate = 2000.0 * 128.0 * f64::from(config.clock.core_mhz) / 1000.0 / last as f64;
        let peak = config.dram.gigabytes_per_second / f64::from(config.dram.channels);
        assert!(rate <= peak && rate > 0.9 * peak, "{rate} of {peak}");
    }
}
