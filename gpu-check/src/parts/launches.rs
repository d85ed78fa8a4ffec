//! Launches: what one costs, how many get out from one thread, from two and as a graph, how many kernels run at once.

use super::Part;
use crate::cuda::{Api, CudaError, Function, Session, Shape};
use crate::kernels::{EMPTY, PROBE};
use crate::lab::Lab;
use crate::stamps::{Stamps, most_at_once};
use gridmux_workloads::portable;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

pub(super) const PART: Part = Part {
    name: "launches",
    about: "cost and rate of launches from one thread, from two and as a graph; kernels at once",
    usual_s: 1,
    limit_s: 40,
    run,
};

/// Unit of times by the host's clock.
const WALL: &str = "us (wall)";

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let module = lab.cuda.load(&portable(EMPTY))?;
    let empty = lab.cuda.function(&module, "empty")?;
    latency(lab, &empty)?;
    for streams in [1, 8, 32] {
        rate(lab, &empty, streams)?;
    }
    for marks in [&WITH_TIMES, &WITHOUT] {
        marked(lab, &empty, marks)?;
    }
    from_threads(lab, &empty)?;
    at_once(lab)?;
    as_graph(lab, &empty)
}

/// Makes streams.
fn streams(cuda: &Session, count: u32) -> anyhow::Result<Vec<u64>> {
    (0..count).map(|_| Ok(cuda.stream(0)?)).collect()
}

/// Tells the times from the call to the end of a kernel that does nothing, on a device that is idle.
fn latency(lab: &mut Lab<'_>, empty: &Function) -> anyhow::Result<()> {
    let stream = lab.cuda.stream(0)?;
    let mut called = Vec::new();
    let mut ended = Vec::new();
    for _ in 0..lab.scale.choose(5, 500) {
        let start = Instant::now();
        lab.cuda
            .launch_words(empty, Shape::row(1, 32), stream, &[])?;
        called.push(start.elapsed().as_secs_f64() * 1e6);
        lab.cuda.wait(stream)?;
        ended.push(start.elapsed().as_secs_f64() * 1e6);
    }
    lab.spread("a launch: the call", called, WALL);
    lab.spread("a launch: until it is seen to have ended", ended, WALL);
    Ok(())
}

/// Makes launches as fast as one thread can, dealt to streams.
fn rate(lab: &mut Lab<'_>, empty: &Function, count: u32) -> anyhow::Result<()> {
    let streams = streams(lab.cuda, count)?;
    let launches = lab.scale.choose(64, 4096);
    let start = Instant::now();
    for n in 0..launches {
        lab.cuda
            .launch_words(empty, Shape::row(1, 32), streams[n % streams.len()], &[])?;
    }
    let called = start.elapsed().as_secs_f64() * 1e6;
    lab.cuda.wait_for_all()?;
    let ended = start.elapsed().as_secs_f64() * 1e6;
    let each = launches as f64;
    lab.figure(
        format!("launches on {count} streams: the call"),
        called / each,
        WALL,
    );
    lab.figure(
        format!("launches on {count} streams: to the end"),
        ended / each,
        WALL,
    );
    Ok(())
}

/// Events that tell of a launch.
struct Marks {
    name: &'static str,
    timed: bool,
}

/// One in front and one behind, with their times.
const WITH_TIMES: Marks = Marks {
    name: "between two events with times",
    timed: true,
};
/// One behind.
const WITHOUT: Marks = Marks {
    name: "with an event behind, without times",
    timed: false,
};

/// Makes launches with events of their own, and asks the events when all has ended.
fn marked(lab: &mut Lab<'_>, empty: &Function, marks: &Marks) -> anyhow::Result<()> {
    const STREAMS: u32 = 4;
    let cuda = lab.cuda;
    let streams = streams(cuda, STREAMS)?;
    let launches = lab.scale.choose(16, 512);
    let event = |_| cuda.event(marks.timed);
    let starts: Vec<u64> = (0..launches).map(event).collect::<Result<_, _>>()?;
    let ends: Vec<u64> = (0..launches).map(event).collect::<Result<_, _>>()?;
    let start = Instant::now();
    for n in 0..launches {
        let stream = streams[n % streams.len()];
        if marks.timed {
            cuda.record(starts[n], stream)?;
        }
        cuda.launch_words(empty, Shape::row(1, 32), stream, &[])?;
        cuda.record(ends[n], stream)?;
    }
    let called = start.elapsed().as_secs_f64() * 1e6;
    cuda.wait_for_all()?;
    let start = Instant::now();
    for n in 0..launches {
        cuda.has_happened(ends[n])?;
        if marks.timed {
            cuda.has_happened(starts[n])?;
            cuda.elapsed_us(starts[n], ends[n])?;
        }
    }
    let asked = start.elapsed().as_secs_f64() * 1e6;
    for event in starts.into_iter().chain(ends) {
        cuda.end_event(event)?;
    }
    let each = launches as f64;
    let name = format!("a launch {}", marks.name);
    lab.figure(format!("{name}: the calls"), called / each, WALL);
    lab.figure(format!("{name}: asking"), asked / each, WALL);
    Ok(())
}

/// Makes launches as fast as two threads can, each on eight streams of its own. Time counts from when both have made a
/// launch, and calls take until the later one has made its last.
fn from_threads(lab: &mut Lab<'_>, empty: &Function) -> anyhow::Result<()> {
    const THREADS: u32 = 2;
    const EACH: u32 = 8;
    let streams = streams(lab.cuda, THREADS * EACH)?;
    let launches = lab.scale.choose(64, 4096);
    let (ready, start) = (Barrier::new(THREADS as usize), OnceLock::new());
    let made_ns = AtomicU64::new(0);
    lab.cuda.in_threads(
        streams.chunks(EACH as usize),
        |api, is_current, own: &[u64]| {
            let first = is_current.and_then(|()| launch_empty(api, empty, own[0]));
            // Whatever came of it, because the other thread waits.
            ready.wait();
            first?;
            let start = *start.get_or_init(Instant::now);
            (0..launches).try_for_each(|n| launch_empty(api, empty, own[n % own.len()]))?;
            let took = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            // Relaxed: it is read when the threads have been joined.
            made_ns.fetch_max(took, Ordering::Relaxed);
            Ok(())
        },
    )?;
    lab.cuda.wait_for_all()?;
    let ended = start.get().map_or(Duration::ZERO, Instant::elapsed);
    let made = Duration::from_nanos(made_ns.into_inner());
    let all = launches as f64 * f64::from(THREADS);
    let each = |time: Duration| time.as_secs_f64() * 1e6 / all;
    lab.figure("launches from 2 threads: the call", each(made), WALL);
    lab.figure("launches from 2 threads: to the end", each(ended), WALL);
    Ok(())
}

/// Launches [`EMPTY`]'s kernel, one block of a warp.
fn launch_empty(api: &Api, empty: &Function, stream: u64) -> Result<(), CudaError> {
    empty.launch_words(api, Shape::row(1, 32), stream, &[])
}

/// Makes launches that were captured as a graph, one behind the other.
fn as_graph(lab: &mut Lab<'_>, empty: &Function) -> anyhow::Result<()> {
    let stream = lab.cuda.stream(0)?;
    let nodes = lab.scale.choose(64_u32, 1000);
    let captured = captured(&lab.cuda.api, (empty, stream), nodes);
    let Some(graph) = lab.offered("launches as a graph", captured)? else {
        return Ok(());
    };
    // The first time it is carried to the device.
    for name in ["the first time", "once more"] {
        let start = Instant::now();
        // SAFETY: `captured` made the graph and the session the stream; neither is destroyed.
        unsafe { lab.cuda.api.cuGraphLaunch(graph, stream)? };
        let called = start.elapsed().as_secs_f64() * 1e6;
        lab.cuda.wait(stream)?;
        let ended = start.elapsed().as_secs_f64() * 1e6;
        let each = f64::from(nodes);
        let node = format!("a node of a graph of {nodes}, launched {name}");
        lab.figure(format!("{node}: its part of the call"), called / each, WALL);
        lab.figure(format!("{node}: to the end"), ended / each, WALL);
    }
    Ok(())
}

/// Captures `nodes` launches on a stream as a graph, and instantiates it.
fn captured(api: &Api, (empty, stream): (&Function, u64), nodes: u32) -> Result<u64, CudaError> {
    /// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`.
    const THREAD_LOCAL: u32 = 1;
    let (mut graph, mut executable) = (0, 0);
    // SAFETY: the caller made the stream, and does not end it meanwhile.
    unsafe { api.cuStreamBeginCapture_v2(stream, THREAD_LOCAL)? };
    for _ in 0..nodes {
        launch_empty(api, empty, stream)?;
    }
    // SAFETY: the places live across the calls.
    unsafe {
        api.cuStreamEndCapture(stream, &mut graph)?;
        api.cuGraphInstantiateWithFlags(&mut executable, graph, 0)?;
    }
    Ok(executable)
}

/// Tells how many kernels of one block overlap, on as many streams as nobody has queues for.
fn at_once(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    const STREAMS: u32 = 160;
    let cuda = lab.cuda;
    let module = cuda.load(&portable(PROBE))?;
    let spin = cuda.function(&module, "spin")?;
    let count = lab.scale.choose(8, STREAMS);
    // Longer than all of these launches take.
    let ns = lab.scale.choose(20_000, 20_000_000);
    let stamps = Stamps::new(cuda, count.into())?;
    let streams = streams(cuda, count)?;
    for (n, stream) in (0..).zip(&streams) {
        let words = [stamps.at(n), ns, ns];
        cuda.launch_words(&spin, Shape::row(1, 32), *stream, &words)?;
    }
    cuda.wait_for_all()?;
    let most = most_at_once(&stamps.read()?);
    lab.figure(
        format!("kernels at once, of {count} on as many streams"),
        f64::from(most),
        "kernels",
    );
    Ok(())
}
