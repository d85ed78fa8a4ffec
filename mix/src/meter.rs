//! What programs held of a device over time, in a bounded number of equal spans.
//!
//! Rules: a block holds its room from its start until it has ended or left; a program is open while a launch of it has
//! arrived and not ended; spans grow by doubling when time passes their end, so that nothing is lost but resolution.

use crate::driver::BlockChange;
use gridmux_policy::shape::{BlockShape, DeviceShape, Held};

/// Spans that are kept at most.
const MOST_SPANS: usize = 256;

/// What one program did in one span. Integrals over its time, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Span {
    /// Of the part of the device that its blocks held: the dominant share, 0 to 1.
    pub held_ns: f64,
    /// Of its having blocks on the device.
    pub running_ns: f64,
    /// Of its having a launch that had arrived and not ended; streams that are open at once count once each.
    pub open_ns: f64,
}

/// One program's track.
#[derive(Debug, Default)]
struct Holding {
    held: Held,
    /// The same as a part of the device.
    share: f64,
    /// The greatest part that it held.
    peak: f64,
    /// Until when its spans are filled.
    at_ns: u64,
    spans: Vec<Span>,
}

/// The tracks of all programs on one device.
#[derive(Debug)]
pub struct Meter {
    device: DeviceShape,
    width_ns: u64,
    tracks: Vec<Holding>,
    /// Programs that have blocks on the device.
    running: usize,
    /// Since when at least two have.
    together_since: Option<u64>,
    /// For how long at least two had.
    together_ns: u64,
}

impl Meter {
    /// Returns a meter for a number of programs.
    pub fn new(device: DeviceShape, programs: usize) -> Self {
        Self {
            device,
            width_ns: 1,
            tracks: (0..programs).map(|_| Holding::default()).collect(),
            running: 0,
            together_since: None,
            together_ns: 0,
        }
    }

    /// Returns whether two programs ever had blocks on the device at the same time.
    pub fn met(&self) -> bool {
        self.together_ns > 0
    }

    /// Returns for how long two programs had blocks on the device at the same time, in nanoseconds.
    pub fn together_ns(&self) -> u64 {
        self.together_ns
    }

    /// Returns for how long a program had blocks on the device, in nanoseconds.
    pub fn running_ns(&self, program: usize) -> f64 {
        let spans = self.tracks[program].spans.iter();
        spans.map(|span| span.running_ns).sum()
    }

    /// Returns the sum over programs of the greatest part of the device that each held: at most 1 where the device has
    /// room for all of them at once.
    pub fn peaks(&self) -> f64 {
        self.tracks.iter().map(|track| track.peak).sum()
    }

    /// Returns the length of a span in nanoseconds.
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// Returns a program's spans from time 0 on; what is missing at the end is empty.
    pub fn spans(&self, program: usize) -> &[Span] {
        &self.tracks[program].spans
    }

    /// Takes note of what happened to a block of a program. Times of a program do not decrease.
    pub fn block(&mut self, program: usize, shape: &BlockShape, change: BlockChange, at_ns: u64) {
        let track = &self.tracks[program];
        let (from, share) = (track.at_ns, track.share);
        if share > 0.0 {
            let rates = Span {
                held_ns: share,
                running_ns: 1.0,
                open_ns: 0.0,
            };
            self.add(program, (from, at_ns), rates);
        }
        let was_running = self.tracks[program].held.blocks() > 0;
        let track = &mut self.tracks[program];
        track.at_ns = at_ns.max(from);
        match change {
            BlockChange::Placed | BlockChange::SwitchedIn { .. } => track.held.add(shape, 1),
            BlockChange::Retired { .. } | BlockChange::SwitchedOut { .. } => {
                track.held.remove(shape, 1);
            }
        }
        let sms = f64::from(self.device.sms.max(1));
        track.share = track.held.dominant(&self.device).as_sms() / sms;
        track.peak = track.peak.max(track.share);
        let runs = track.held.blocks() > 0;
        if runs != was_running {
            self.running = match runs {
                true => self.running + 1,
                false => self.running - 1,
            };
            self.meet(at_ns);
        }
    }

    /// Takes note of a launch of a program, once it has ended.
    pub fn launch(&mut self, program: usize, (arrival_ns, end_ns): (u64, u64)) {
        let rates = Span {
            open_ns: 1.0,
            ..Span::default()
        };
        self.add(program, (arrival_ns, end_ns), rates);
    }

    /// Looks at how many programs run from now on.
    fn meet(&mut self, at_ns: u64) {
        match (self.running >= 2, self.together_since) {
            (true, None) => self.together_since = Some(at_ns),
            (false, Some(since)) => {
                self.together_ns += at_ns.saturating_sub(since);
                self.together_since = None;
            }
            _ => {}
        }
    }

    /// Adds rates over a time.
    fn add(&mut self, program: usize, (from, to): (u64, u64), rates: Span) {
        while to > self.width_ns.saturating_mul(MOST_SPANS as u64) {
            self.width_ns *= 2;
            self.tracks.iter_mut().for_each(Holding::halve);
        }
        let (mut from, width) = (from, self.width_ns);
        let spans = &mut self.tracks[program].spans;
        while from < to {
            let at = usize::try_from(from / width).unwrap_or(usize::MAX);
            let until = to.min((from / width + 1) * width);
            if spans.len() <= at {
                spans.resize(at + 1, Span::default());
            }
            let time = (until - from) as f64;
            let span = &mut spans[at];
            span.held_ns += rates.held_ns * time;
            span.running_ns += rates.running_ns * time;
            span.open_ns += rates.open_ns * time;
            from = until;
        }
    }
}

impl Holding {
    /// Makes one span of each two.
    fn halve(&mut self) {
        let both = |pair: &[Span]| {
            pair.iter().fold(Span::default(), |sum, span| Span {
                held_ns: sum.held_ns + span.held_ns,
                running_ns: sum.running_ns + span.running_ns,
                open_ns: sum.open_ns + span.open_ns,
            })
        };
        self.spans = self.spans.chunks(2).map(both).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::Meter;
    use crate::driver::BlockChange;
    use gridmux_policy::shape::{BlockShape, DeviceShape};
    use gridmux_policy::units::Cycles;

    const DEVICE: DeviceShape = DeviceShape {
        shared_bytes: 65_536,
        ..DeviceShape::small(2)
    };
    /// Half of an SM, which is a quarter of the device.
    const BLOCK: BlockShape = BlockShape {
        threads: 512,
        registers: 0,
        shared_bytes: 0,
    };
    const ENDS: BlockChange = BlockChange::Retired { ran: Cycles(0) };

    fn sum(meter: &Meter, program: usize) -> [f64; 3] {
        let spans = meter.spans(program).iter();
        spans.fold([0.0; 3], |sum, span| {
            [
                sum[0] + span.held_ns,
                sum[1] + span.running_ns,
                sum[2] + span.open_ns,
            ]
        })
    }

    #[test]
    fn spans_double_and_lose_nothing() {
        let mut meter = Meter::new(DEVICE, 1);
        meter.block(0, &BLOCK, BlockChange::Placed, 100);
        meter.block(0, &BLOCK, BlockChange::Placed, 200);
        meter.block(0, &BLOCK, ENDS, 1_000_000);
        meter.block(0, &BLOCK, ENDS, 3_000_000);
        meter.launch(0, (50, 3_000_000));
        // A quarter for 100 ns, a half until 1 ms, a quarter for two more.
        let due = [
            25.0 + 999_800.0 / 2.0 + 2_000_000.0 / 4.0,
            2_999_900.0,
            2_999_950.0,
        ];
        for (got, due) in sum(&meter, 0).into_iter().zip(due) {
            assert!((got - due).abs() < 1e-3, "{got} instead of {due}");
        }
        assert!(meter.spans(0).len() <= super::MOST_SPANS);
        assert!(meter.width_ns() * super::MOST_SPANS as u64 >= 3_000_000);
        assert!(!meter.met());
    }

    #[test]
    fn programs_meet_only_if_they_are_there_for_some_time() {
        let mut meter = Meter::new(DEVICE, 2);
        meter.block(0, &BLOCK, BlockChange::Placed, 0);
        // The other one starts at the instant at which the first ends.
        meter.block(1, &BLOCK, BlockChange::Placed, 10);
        meter.block(0, &BLOCK, ENDS, 10);
        meter.block(1, &BLOCK, ENDS, 20);
        assert!(!meter.met());
        meter.block(0, &BLOCK, BlockChange::Placed, 30);
        meter.block(1, &BLOCK, BlockChange::Placed, 40);
        meter.block(0, &BLOCK, ENDS, 41);
        meter.block(1, &BLOCK, ENDS, 50);
        assert!(meter.met());
        assert_eq!((meter.together_ns(), meter.peaks()), (1, 0.5));
        assert_eq!(
            [0, 1].map(|program| meter.running_ns(program)),
            [21.0, 20.0]
        );
    }
}
