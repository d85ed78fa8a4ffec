//! Repeats a figure's run on the model.
//!
//! Rules: rates and latencies come from the difference of two runs of different lengths, so that launch and first touch
//! cancel, as they do in the long runs of the published measurements. A kernel of one SM runs on one; one that streams
//! runs on the card's slice, a part of the chip with its share of L2 and DRAM, and is scaled up.

mod body;
mod chase;
mod compute;
mod launches;
mod level_1;
mod sgemm;
mod stream;
mod synchronisation;
mod whole;

use super::schema::{Bound, Card, Figure, Run, Unit};

/// What a run did in how many cycles.
#[derive(Debug, Clone, Copy, Default)]
struct Amount {
    cycles: f64,
    /// Accesses, instructions or launches.
    events: f64,
    bytes: f64,
    lanes: f64,
    flops: f64,
    /// SMs that did it.
    sms: f64,
    /// SMs of the whole chip, to which a rate is scaled.
    chip_sms: f64,
    mhz: f64,
}

impl Amount {
    fn value(&self, unit: Unit) -> f64 {
        let per_sm = |amount: f64| amount / self.cycles / self.sms;
        let per_chip = |amount: f64| per_sm(amount) * self.chip_sms;
        match unit {
            Unit::Cycles => self.cycles / self.events,
            Unit::Microseconds => self.cycles / self.events / self.mhz,
            Unit::Ratio => self.cycles,
            Unit::BytesPerCycleAndSm => per_sm(self.bytes),
            Unit::BytesPerCycle => per_chip(self.bytes),
            Unit::GigabytesPerSecond => per_chip(self.bytes) * self.mhz / 1e3,
            Unit::LanesPerCycleAndSm => per_sm(self.lanes),
            Unit::FlopsPerCycleAndSm => per_sm(self.flops),
            Unit::FmasPerCycleAndSm => per_sm(self.flops) / 2.0,
            Unit::GigaflopsPerSecond => per_chip(self.flops) * self.mhz / 1e3,
            Unit::TeraflopsPerSecond => per_chip(self.flops) * self.mhz / 1e6,
        }
    }
}

/// A figure beside what the model makes of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The model's value.
    pub model: f64,
    /// The model's over the card's.
    pub ratio: f64,
    /// |ratio − 1|, or 0 where the card's value is a bound and the model keeps it.
    pub error: f64,
}

/// Runs a figure on its card.
pub fn judge(card: &Card, figure: &Figure) -> Judged {
    let model = measure(card, figure.run).value(figure.unit);
    let ratio = model / figure.value;
    let kept = match figure.bound {
        Bound::Exact => false,
        Bound::AtLeast => ratio >= 1.0,
        Bound::AtMost => ratio <= 1.0,
    };
    Judged {
        model,
        ratio,
        error: if kept { 0.0 } else { (ratio - 1.0).abs() },
    }
}

fn measure(card: &Card, run: Run) -> Amount {
    let whole = &card.config;
    let one_sm = whole.clone().scaled_to_sms(1);
    // One SM before the whole L2 and DRAM, for a lone warp.
    let mut lone = whole.clone();
    lone.sm.count = 1;
    let slice = whole.clone().scaled_to_sms(card.slice_sms);
    let mut amount = match run {
        Run::Chase { footprint_kb } => chase::chase(&lone, footprint_kb * 1024),
        Run::SharedChase { indexed } => compute::shared_chase(&one_sm, indexed),
        Run::Chain { op } => compute::chain(&one_sm, op),
        Run::Throughput { op } => compute::throughput(&one_sm, op),
        Run::Stream {
            op,
            block,
            blocks_per_sm,
        } => stream::stream(&slice, op, block, blocks_per_sm),
        Run::Sweep { footprint_kb } => {
            let share = f64::from(slice.sm.count) / f64::from(whole.sm.count);
            stream::sweep(&slice, float(footprint_kb * 1024) * share)
        }
        Run::L1Read { footprint_kb } => level_1::l1_read(&one_sm, footprint_kb),
        Run::L1Stride { element, stride } => level_1::l1_stride(&one_sm, element, stride),
        Run::SharedRead {} => compute::shared_read(&one_sm),
        Run::AtomicChase {} => synchronisation::atomic_chase(&lone),
        Run::Atomics { space, lanes } => synchronisation::atomics(&lone, space, lanes),
        Run::Barrier { warps } => synchronisation::barrier(&one_sm, warps),
        Run::Launches {
            elements,
            block,
            queues,
            submit,
        } => launches::launches(whole, (elements, block), (queues, submit)),
        Run::Newcomer { highest } => launches::newcomer(&slice, highest),
        Run::EmptyLaunch {} => launches::empty_launch(whole),
        Run::Sgemm { step } => sgemm::sgemm(&slice, step),
        Run::Whole { entry, size } => whole::whole(whole, &slice, entry, size),
        Run::ReadAfterWrite { write_mb, read_mb } => {
            let share =
                |mb: u64| mb * 1_000_000 * u64::from(slice.sm.count) / u64::from(whole.sm.count);
            launches::read_after_write(&slice, share(write_mb), share(read_mb))
        }
    };
    amount.chip_sms = f64::from(whole.sm.count);
    amount.mhz = f64::from(whole.clock.core_mhz);
    amount
}

fn float(count: u64) -> f64 {
    count as f64
}

/// Returns the kernel file `name`.
fn kernel_text(name: &str) -> String {
    let path = super::folder().join("kernels").join(format!("{name}.ptx"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
