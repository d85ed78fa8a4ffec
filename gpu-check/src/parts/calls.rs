//! Which calls of the driver wait for kernels that run: gridmux makes none of those while tenants' kernels do.

use super::Part;
use crate::cuda::{CudaError, Session, Shape};
use crate::kernels::{EMPTY, PROBE};
use crate::lab::Lab;
use gridmux_workloads::portable;
use std::ffi::c_void;
use std::time::Instant;

pub(super) const PART: Part = Part {
    name: "calls",
    about: "which calls of the driver wait for a running kernel",
    usual_s: 2,
    limit_s: 40,
    run,
};

/// Bytes of memory that calls are about.
const BYTES: usize = 1 << 20;

/// What the calls are made with. Each pair of calls that makes something and gives it back has a place of its own,
/// which is empty where the first was not offered.
struct CallBench<'a> {
    cuda: &'a Session,
    stream: u64,
    /// Memory of the device that no call frees.
    device: u64,
    allocated: Option<u64>,
    in_stream: Option<u64>,
    pinned: Option<*mut c_void>,
    host: Vec<u8>,
    is_registered: bool,
}

/// A call; `None` where what it is to give back was never there.
type Call = fn(&mut CallBench<'_>) -> Result<Option<()>, CudaError>;

const CALLS: &[(&str, Call)] = &[
    ("stream query", |bench| {
        // SAFETY: the session made the stream, which is not ended before the calls are over.
        match unsafe { bench.cuda.api.cuStreamQuery(bench.stream) } {
            Err(error) if error.is_not_ready() => Ok(Some(())),
            other => other.map(Some),
        }
    }),
    ("fill", |bench| {
        // SAFETY: the memory is the device's.
        let filled = unsafe {
            bench
                .cuda
                .api
                .cuMemsetD8Async(bench.device, 0, BYTES, bench.stream)
        };
        filled.map(Some)
    }),
    ("event creation", |bench| {
        bench.cuda.event(false).map(|_| Some(()))
    }),
    ("stream creation", |bench| {
        bench.cuda.stream(0).map(|_| Some(()))
    }),
    ("allocation", |bench| {
        bench.allocated = Some(bench.cuda.alloc(BYTES as u64)?);
        Ok(Some(()))
    }),
    ("freeing", |bench| {
        let memory = bench.allocated.take();
        memory.map(|memory| bench.cuda.free(memory)).transpose()
    }),
    ("allocation in a stream", |bench| {
        let mut memory = 0;
        // SAFETY: the place lives across the call.
        unsafe {
            bench
                .cuda
                .api
                .cuMemAllocAsync(&mut memory, BYTES, bench.stream)?
        };
        bench.in_stream = Some(memory);
        Ok(Some(()))
    }),
    ("freeing in a stream", |bench| {
        let memory = bench.in_stream.take();
        // SAFETY: the memory was allocated in this stream, and nobody uses it.
        let free = |memory| unsafe { bench.cuda.api.cuMemFreeAsync(memory, bench.stream) };
        memory.map(free).transpose()
    }),
    ("pinned allocation", |bench| {
        let mut memory = std::ptr::null_mut();
        // SAFETY: the place lives across the call.
        unsafe { bench.cuda.api.cuMemHostAlloc(&mut memory, BYTES, 0)? };
        bench.pinned = Some(memory);
        Ok(Some(()))
    }),
    ("pinned freeing", |bench| {
        let memory = bench.pinned.take();
        // SAFETY: the memory was allocated so, and nobody uses it.
        let free = |memory| unsafe { bench.cuda.api.cuMemFreeHost(memory) };
        memory.map(free).transpose()
    }),
    ("registration of host memory", |bench| {
        let memory = bench.host.as_mut_ptr().cast();
        // SAFETY: the memory is as long as that, and lives until it is unregistered.
        unsafe { bench.cuda.api.cuMemHostRegister_v2(memory, BYTES, 0)? };
        bench.is_registered = true;
        Ok(Some(()))
    }),
    ("its end", |bench| {
        if !std::mem::take(&mut bench.is_registered) {
            return Ok(None);
        }
        let memory = bench.host.as_mut_ptr().cast();
        // SAFETY: it is registered.
        let ended = unsafe { bench.cuda.api.cuMemHostUnregister(memory) };
        ended.map(Some)
    }),
];

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let cuda = lab.cuda;
    let module = cuda.load(&portable(PROBE))?;
    let spin = cuda.function(&module, "spin")?;
    let out = cuda.zeroed(256)?;
    let kernels = cuda.stream(0)?;
    let ended = cuda.event(false)?;
    // What the slowest call takes that does not wait is far below.
    let ns = lab.scale.choose(200_000, 50_000_000);
    let mut bench = CallBench {
        cuda,
        stream: cuda.stream(0)?,
        device: cuda.alloc(BYTES as u64)?,
        allocated: None,
        in_stream: None,
        pinned: None,
        host: vec![0; BYTES],
        is_registered: false,
    };
    let ask = |lab: &mut Lab<'_>, name: &str, call: &mut dyn FnMut() -> anyhow::Result<bool>| {
        cuda.launch_words(&spin, Shape::row(1, 32), kernels, &[out, ns, ns])?;
        cuda.record(ended, kernels)?;
        let start = Instant::now();
        let is_made = call()?;
        let took = start.elapsed().as_secs_f64() * 1e6;
        if is_made {
            lab.fact(
                format!("{name}: the kernel had ended behind the call"),
                cuda.has_happened(ended)?,
            );
            lab.figure(format!("{name}: the call"), took, "us (wall)");
        }
        cuda.wait_for_all()?;
        anyhow::Ok(())
    };
    for (name, call) in CALLS {
        let mut answer = Ok(None);
        ask(lab, name, &mut || {
            answer = call(&mut bench);
            Ok(matches!(answer, Ok(Some(()))))
        })?;
        if lab.offered(name, answer)? == Some(None) {
            lab.skipped(*name, "there is nothing to give back");
        }
    }
    ask(lab, "loading of a module", &mut || {
        cuda.load(&portable(EMPTY)).map(|_| true)
    })?;
    Ok(cuda.free(bench.device)?)
}
