//! A DRAM channel: banks with one open row each, a command queue, and a data bus.
//!
//! The controller serves first ready, first come first served (Rixner et al., ISCA 2000): among the oldest
//! `dram.queue` requests, one whose row is open goes first, and of those the oldest; meanwhile banks that nobody
//! with an open row wants are precharged and opened for their oldest request. Timing is JEDEC's: tRCD, tRP, tRAS,
//! tRC, tRRD, tCCD, CL, WL, tCDLR, tWR.
//! Rules: a decision at time `t` sees the requests that arrived by `t`, and is made only when all of those are
//! known; times carry [`FRACTION`] fraction bits, because a command clock is no whole number of core cycles.

use crate::config::{GpuConfig, LINE_BYTES};
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
    /// One burst, which brings one sector.
    sector: u64,
}

/// One channel.
#[derive(Debug)]
pub(crate) struct Channel {
    banks: Vec<Bank>,
    /// In order of arrival; requests leave near its front, so a ring moves few of them.
    queue: VecDeque<Queued>,
    window: usize,
    timing: Timing,
    row_lines: u64,
    /// Time of the next decision.
    now: u64,
    bus_free_at: u64,
    last_column_at: u64,
    last_opened_at: u64,
    /// End of the last written data, which a read must keep away from.
    written_at: u64,
}

impl Channel {
    pub(crate) fn new(config: &GpuConfig) -> Self {
        let dram = &config.dram;
        let per_channel = dram.gigabytes_per_second / f64::from(dram.channels);
        let time = |clocks| config.dram_time(clocks, FRACTION);
        let t = &dram.timing;
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
            window: dram.queue as usize,
            timing: Timing {
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
                sector: config
                    .transfer_cycles(dram.burst_bytes << FRACTION, per_channel)
                    .max(1),
            },
            row_lines: dram.row_bytes / LINE_BYTES,
            now: 0,
            bus_free_at: 0,
            last_column_at: 0,
            last_opened_at: 0,
            written_at: 0,
        }
    }

    /// Core cycles from the arrival of a lone read at a bank with another row open to its data's end, of one sector.
    pub(crate) fn lone_read_cycles(config: &GpuConfig) -> u64 {
        let channel = Self::new(config);
        let t = &channel.timing;
        (t.rp + t.rcd + t.cl + t.sector) >> FRACTION
    }

    /// Takes a request; arrivals of one channel come in any order within an epoch.
    #[inline]
    pub(crate) fn push(&mut self, request: DramRequest) {
        let row = request.local / self.row_lines;
        let banks = self.banks.len() as u64;
        // Neighbouring rows lie in different banks; the hash keeps strides from meeting in one.
        let mixed = row ^ (row / banks).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        let queued = Queued {
            request,
            arrive: request.arrive << FRACTION,
            bank: u16::try_from(mixed % banks).unwrap_or(0),
            row,
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
            let mut seen = self.look();
            let mut wanted = u64::MAX;
            if seen.closed {
                let (next, opened) = self.open_rows(&seen);
                wanted = next;
                if opened {
                    seen = self.look();
                }
            }
            match seen.best {
                Some((at, start)) if start <= self.now => served(self.transfer(at)),
                // Until then a request may come, or a bank that waits may be precharged.
                best => {
                    let start = best.map_or(u64::MAX, |(_, start)| start);
                    let later = self.queue.get(seen.known).filter(|q| q.arrive > self.now);
                    let next = later.map_or(u64::MAX, |q| q.arrive);
                    self.now = start.min(next).min(wanted).max(self.now + 1);
                }
            }
        }
    }

    /// Looks at the requests that are known by now, oldest first.
    fn look(&self) -> Seen {
        let (t, now) = (&self.timing, self.now);
        // What a column command waits for besides its bank.
        let turn = self.last_column_at + t.ccd;
        let read_at = turn
            .max(self.bus_free_at.saturating_sub(t.cl))
            .max(self.written_at + t.cdlr);
        let write_at = turn.max(self.bus_free_at.saturating_sub(t.wl));
        let mut seen = Seen {
            known: 0,
            busy: [0; 2],
            closed: false,
            best: None,
        };
        let mut earliest = u64::MAX;
        for queued in self.queue.iter().take(self.window) {
            if queued.arrive > now {
                break;
            }
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
            let start = bank.ready_at.max(free_at);
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
            let open_at = open_at.max(self.last_opened_at + t.rrd);
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

    fn transfer(&mut self, at: usize) -> Served {
        let queued = self.queue.remove(at).expect("`look` found it");
        let t = &self.timing;
        let to_data = if queued.request.write { t.wl } else { t.cl };
        let column = self.now;
        let begin = (column + to_data).max(self.bus_free_at);
        let length = t.sector * u64::from(queued.request.sectors.count_ones());
        let end = begin + length;
        self.bus_free_at = end;
        self.last_column_at = column;
        let bank = &mut self.banks[usize::from(queued.bank)];
        bank.precharge_at = if queued.request.write {
            self.written_at = end;
            end + t.wr
        } else {
            end.saturating_sub(t.cl).max(column)
        };
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
