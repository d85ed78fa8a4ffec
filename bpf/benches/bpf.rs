//! What watching costs: one JSON line per benchmark on standard output.
//!
//! An argument selects the benchmarks whose names hold it. Each figure is the least of several batches, because
//! these machines are shared; each floor is measured in the same run.

#[cfg(not(loom))]
fn main() {
    let filter = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'))
        .unwrap_or_default();
    for (name, run) in benches::ALL {
        if name.contains(filter.as_str()) {
            match run() {
                Ok(figure) => println!("{}", figure.json(name)),
                Err(reason) => eprintln!("{name}: SKIPPED: {reason}"),
            }
        }
    }
}

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
mod benches {
    //! One function per benchmark.

    use std::hint::black_box;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    use gridmux_bpf::ring::Record;
    use gridmux_bpf::{
        EventTrace, Histogram, Kind, LatencyOptions, LatencyProgram, Probe, ProbeArgs, Recorder,
        Sample, TraceProgram, probes,
    };

    /// Nanoseconds for one operation, and for the least that any implementation must do.
    pub(crate) struct Figure {
        value: f64,
        floor: f64,
    }

    impl Figure {
        pub(crate) fn json(&self, name: &str) -> serde_json::Value {
            serde_json::json!({
                "name": name, "value": round(self.value), "unit": "ns", "better": "lower",
                "floor": round(self.floor), "ratio": round(self.value / self.floor), "peer": null,
            })
        }
    }

    type Bench = fn() -> Result<Figure, String>;

    pub(crate) const ALL: [(&str, Bench); 7] = [
        ("usdt_untraced", usdt_untraced),
        ("usdt_traced", usdt_traced),
        ("event_read", event_read),
        ("event_lost", event_lost),
        ("sample_record", sample_record),
        ("sample_drain", sample_drain),
        ("histogram_read", histogram_read),
    ];

    fn round(value: f64) -> f64 {
        (value * 1000.0).round() / 1000.0
    }

    /// Least nanoseconds per operation over `batches` runs of `body`, which does `operations`.
    fn least(batches: u32, operations: u32, mut body: impl FnMut()) -> f64 {
        (0..batches)
            .map(|_| timed(&mut body))
            .fold(f64::INFINITY, f64::min)
            / f64::from(operations)
    }

    // Batches last far less than 2^53 ns.
    fn timed(body: &mut impl FnMut()) -> f64 {
        let start = Instant::now();
        body();
        start.elapsed().as_nanos() as f64
    }

    fn args(seq: u32) -> ProbeArgs {
        ProbeArgs {
            tenant: 1,
            device: 0,
            kernel: 2,
            seq: u64::from(seq),
            time_ns: u64::from(seq) * 7,
            client: 3,
            key: 4,
        }
    }

    fn sample(seq: u32) -> Sample {
        Sample {
            tenant: 1 + seq % 4,
            submit_to_start_ns: Some(u64::from(seq) * 3),
            submit_to_complete_ns: Some(u64::from(seq) * 50),
            ..Sample::default()
        }
    }

    /// Returns a probe that nobody traces; floor: the same loop without it.
    fn usdt_untraced() -> Result<Figure, String> {
        const N: u32 = 1_000_000;
        let value = least(20, N, || {
            (0..N).for_each(|seq| probes::submit(black_box(args(seq))))
        });
        let floor = least(20, N, || {
            (0..N).for_each(|seq| {
                black_box(args(seq));
            })
        });
        Ok(Figure { value, floor })
    }

    /// Returns a probe whose hits are counted per tenant; floor: an empty system call, because a hit enters the kernel.
    fn usdt_traced() -> Result<Figure, String> {
        const N: u32 = 20_000;
        let trace =
            TraceProgram::attach(std::process::id()).map_err(|reason| reason.to_string())?;
        let value = least(10, N, || {
            (0..N).for_each(|seq| probes::submit(black_box(args(seq))))
        });
        drop(trace);
        let floor = empty_calls();
        Ok(Figure { value, floor })
    }

    /// Returns what an empty system call costs.
    fn empty_calls() -> f64 {
        const N: u32 = 20_000;
        least(10, N, || {
            (0..N).for_each(|_| {
                // SAFETY: getppid reads one number and cannot fail.
                black_box(unsafe { libc::getppid() });
            })
        })
    }

    /// Returns a probe whose hits a reader gets one by one; floor: an empty system call.
    fn event_read() -> Result<Figure, String> {
        event(true)
    }

    /// Returns a probe whose hits nobody reads, once the ring is full; floor: an empty system call.
    fn event_lost() -> Result<Figure, String> {
        event(false)
    }

    fn event(is_read: bool) -> Result<Figure, String> {
        const N: u32 = 20_000;
        let pid = std::process::id();
        let trace = EventTrace::attach(pid, &[Probe::SliceEnd], None);
        let mut trace = trace.map_err(|reason| reason.to_string())?;
        let mut events = Vec::new();
        let mut value = f64::INFINITY;
        for _ in 0..13 {
            let batch = timed(&mut || {
                (0..N).for_each(|seq| probes::slice_end(black_box(args(seq)), 1, 2, 3, 4));
            });
            // The first batches fill the ring that is not read.
            value = value.min(batch / f64::from(N));
            if is_read {
                events.clear();
                let taken = trace.take(N as usize, &mut events);
                taken.map_err(|error| error.to_string())?;
            } else if trace.lost().map_err(|error| error.to_string())? < 2 * u64::from(N) {
                value = f64::INFINITY;
            }
        }
        drop(trace);
        let floor = empty_calls();
        Ok(Figure { value, floor })
    }

    /// Returns one sample into the ring; floor: a record and a position stored in this process's own memory.
    fn sample_record() -> Result<Figure, String> {
        const N: u32 = 16_000;
        let (program, mut recorder) = load("record")?;
        let mut value = f64::INFINITY;
        for _ in 0..50 {
            program.drain().map_err(|error| error.to_string())?;
            value = value.min(least(1, N, || {
                (0..N).for_each(|seq| {
                    black_box(recorder.record(black_box(&sample(seq))));
                })
            }));
        }
        let position = AtomicU64::new(0);
        let mut records: Vec<Record> = Vec::with_capacity(N as usize);
        let floor = least(50, N, || {
            records.clear();
            (0..N).for_each(|seq| {
                let sample = black_box(sample(seq));
                let (start, complete) = (sample.submit_to_start_ns, sample.submit_to_complete_ns);
                let latency_ns = [start.unwrap_or(0), complete.unwrap_or(0), 0];
                let raw = gridmux_bpf::layout::RawSample {
                    tenant: sample.tenant,
                    latency_ns,
                    ..Default::default()
                };
                records.push(Record {
                    length: 48,
                    zero: 0,
                    sample: raw,
                });
                // Release: as the ring's, which pairs with a load of the kernel's; here nobody is at the other end.
                position.store(u64::from(seq), Ordering::Release);
            });
            black_box(&records);
        });
        if recorder.dropped() > 0 {
            return Err("the ring was full: the figure would be that of dropping".into());
        }
        Ok(Figure { value, floor })
    }

    /// Aggregating one sample of two latencies in the kernel; floor: the same in this process.
    fn sample_drain() -> Result<Figure, String> {
        const N: u32 = 8_000;
        let (program, mut recorder) = load("drain")?;
        let mut value = f64::INFINITY;
        for _ in 0..50 {
            let filled = (0..N).all(|seq| recorder.record(&sample(seq)));
            if !filled {
                return Err("the ring was full".into());
            }
            value = value.min(least(1, N, || drop(black_box(program.drain()))));
        }
        let mut histograms: Vec<[Histogram; 2]> = (0..5).map(|_| Default::default()).collect();
        let floor = least(50, N, || {
            (0..N).for_each(|seq| {
                let sample = black_box(sample(seq));
                let [start, complete] = &mut histograms[sample.tenant as usize];
                start.add(sample.submit_to_start_ns.unwrap_or(0));
                complete.add(sample.submit_to_complete_ns.unwrap_or(0));
            })
        });
        black_box(&histograms);
        Ok(Figure { value, floor })
    }

    /// Reading 4 tenants' 8 histograms through their pins, and one percentile of each; floor: the percentiles.
    fn histogram_read() -> Result<Figure, String> {
        let (program, mut recorder) = load("read")?;
        if !(0..4000).all(|seq| recorder.record(&sample(seq))) {
            return Err("the ring was full".into());
        }
        program.pinned().map_err(ToString::to_string)?;
        let name = instance("read");
        let entries = gridmux_bpf::read_histograms(&name).map_err(|error| error.to_string())?;
        let percentiles = |entries: &[gridmux_bpf::TenantHistogram]| {
            entries
                .iter()
                .filter(|entry| entry.kind == Kind::SubmitToStart)
                .for_each(|entry| {
                    black_box(entry.histogram.percentile(0.99));
                });
        };
        let value = least(50, 1, || {
            if let Ok(entries) = gridmux_bpf::read_histograms(&name) {
                percentiles(&entries);
            }
        });
        let floor = least(50, 1, || percentiles(black_box(&entries)));
        Ok(Figure { value, floor })
    }

    fn instance(bench: &str) -> String {
        format!("bench-{bench}-{}", std::process::id())
    }

    /// The timer is slow here, so that it does not drain in the middle of a measured batch.
    fn load(bench: &str) -> Result<(LatencyProgram, Recorder), String> {
        let options = LatencyOptions {
            drain_period_ns: 1_000_000_000,
            ..LatencyOptions::default()
        };
        let program = LatencyProgram::load_with(&instance(bench), options)
            .map_err(|reason| reason.to_string())?;
        let fd = program
            .producer_fd()
            .try_clone_to_owned()
            .map_err(|error| error.to_string())?;
        let recorder = Recorder::from_fd(fd).map_err(|error| error.to_string())?;
        Ok((program, recorder))
    }
}
