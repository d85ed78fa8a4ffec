//! Timing of launches: the fastest of some runs, and the clock of an SM.

use crate::cuda::{Function, Module, Session, Shape};
use crate::kernels::PROBE;
use crate::lab::{Lab, Scale};
use gridmux_workloads::microbench::Loop;
use gridmux_workloads::portable;

/// The template of loops.
const LOOP: &str = include_str!("../../../../hw-model/validation/kernels/loop.ptx");
/// Threads of a block that fill an SM together.
const FULL_BLOCK: u32 = 256;

/// What figures are measured with.
pub(super) struct ValidationBench<'a> {
    pub(super) cuda: &'a Session,
    pub(super) scale: Scale,
    pub(super) stream: u64,
    /// SMs of the device.
    pub(super) sms: u32,
    events: [u64; 2],
    clock: Function,
    out: u64,
}

/// A loop that is loaded.
pub(super) struct LoadedKernel {
    pub(super) module: Module,
    pub(super) function: Function,
}

impl<'a> ValidationBench<'a> {
    /// Returns what a part measures with.
    pub(super) fn new(lab: &Lab<'a>) -> anyhow::Result<Self> {
        let cuda = lab.cuda;
        let module = cuda.load(&portable(PROBE))?;
        Ok(Self {
            cuda,
            scale: lab.scale,
            stream: cuda.stream(0)?,
            sms: cuda.sms()?,
            events: [cuda.event(true)?, cuda.event(true)?],
            clock: cuda.function(&module, "clock")?,
            out: cuda.zeroed(256)?,
        })
    }

    /// Returns the device time in microseconds of what `submit` puts on the stream, the fastest of some runs.
    pub(super) fn fastest_us(
        &self,
        submit: &mut dyn FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<f64> {
        let [start, end] = self.events;
        let mut fastest = f64::INFINITY;
        for _ in 0..self.scale.choose(1, 5) {
            self.cuda.record(start, self.stream)?;
            submit()?;
            self.cuda.record(end, self.stream)?;
            self.cuda.wait(self.stream)?;
            fastest = fastest.min(self.cuda.elapsed_us(start, end)?);
        }
        Ok(fastest)
    }

    /// Returns the device time of a launch whose parameters are words.
    pub(super) fn launch_us(
        &self,
        function: &Function,
        shape: Shape,
        words: &[u64],
    ) -> anyhow::Result<f64> {
        self.fastest_us(&mut || {
            Ok(self
                .cuda
                .launch_words(function, shape, self.stream, words)?)
        })
    }

    /// Returns the clock in MHz of one SM, which a block of one thread keeps busy meanwhile.
    pub(super) fn mhz(&self) -> anyhow::Result<f64> {
        let cycles = self.scale.choose(20_000, 2_000_000);
        self.cuda.launch_words(
            &self.clock,
            Shape::row(1, 1),
            self.stream,
            &[self.out, cycles],
        )?;
        self.cuda.wait(self.stream)?;
        let words = self.cuda.words(self.out, 2)?;
        let (cycles, ns) = (words[0] as f64, words[1] as f64);
        Ok(cycles / ns * 1e3)
    }

    /// Loads a loop.
    pub(super) fn load(&self, body: &Loop) -> anyhow::Result<LoadedKernel> {
        let module = self.cuda.load(&portable(&body.text(LOOP)))?;
        let function = self.cuda.function(&module, "bench")?;
        Ok(LoadedKernel { module, function })
    }

    /// Returns a shape that fills every SM, as a device that spreads blocks evenly does.
    pub(super) fn full(&self, function: &Function) -> anyhow::Result<Shape> {
        let fits = self.cuda.blocks_per_sm(function, FULL_BLOCK, 0)?;
        Ok(Shape::row(fits * self.sms, FULL_BLOCK))
    }

    /// Returns the cycles that one more turn takes, once data and code are in their caches: the device time by the
    /// clock that one SM has right after the timed runs. On a GPU turns are many times the given ones,
    /// because its clock of events has steps of half a microsecond.
    pub(super) fn cycles_per_turn(
        &self,
        function: &Function,
        shape: Shape,
        data_bytes: u64,
        (short, long): (u64, u64),
    ) -> anyhow::Result<f64> {
        let times = self.scale.choose(1, 500);
        let (short, long) = (short * times, long * times);
        let data = self.cuda.zeroed(data_bytes.max(256))?;
        let run = |turns: u64| self.launch_us(function, shape, &[data, turns, self.out]);
        run(short)?;
        let (first, second) = (run(short)?, run(long)?);
        self.cuda.free(data)?;
        let turns = (long - short) as f64;
        Ok((second - first) / turns * self.mhz()?)
    }

    /// Returns dynamic shared memory with which an SM holds at most `blocks` blocks, at most 256 bytes more than the
    /// least.
    pub(super) fn spoiler(
        &self,
        function: &Function,
        threads: u32,
        blocks: u32,
    ) -> anyhow::Result<u32> {
        let most = self.cuda.most_shared()?;
        self.cuda.allow_shared(function, most)?;
        let (mut too_few, mut enough) = (0, most);
        if self.cuda.blocks_per_sm(function, threads, 0)? <= blocks {
            return Ok(0);
        }
        while enough - too_few > 256 {
            let middle = too_few.midpoint(enough) / 256 * 256;
            let middle = middle.max(too_few + 1);
            match self.cuda.blocks_per_sm(function, threads, middle)? <= blocks {
                true => enough = middle,
                false => too_few = middle,
            }
        }
        Ok(enough)
    }
}

/// Returns a count as a figure.
pub(super) fn float(count: u64) -> f64 {
    count as f64
}
