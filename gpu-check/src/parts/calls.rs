//! Which calls of the driver wait for kernels that run: gridmux makes none of those while tenants' kernels do.

use super::Part;
use crate::cuda::{CudaError, Session, Shape};
use crate::kernels::{EMPTY, PROBE, portable};
use crate::lab::Lab;
use std::time::Instant;

pub(super) const PART: Part = Part {
    name: "calls",
    about: "which calls of the driver wait for a running kernel",
    limit_s: 40,
    run,
};

/// Bytes of memory that calls are about.
const BYTES: usize = 1 << 20;

/// What the calls are made with.
struct Room<'a> {
    cuda: &'a Session,
    stream: u64,
    device: u64,
    host: Vec<u8>,
    pinned: *mut std::ffi::c_void,
}

/// A call.
type Call = fn(&mut Room<'_>) -> Result<(), CudaError>;

const CALLS: &[(&str, Call)] = &[
    ("stream query", |room| {
        // SAFETY: a handle is a number that the driver looks up.
        match unsafe { room.cuda.api.cuStreamQuery(room.stream) } {
            Err(error) if error.is_not_ready() => Ok(()),
            other => other,
        }
    }),
    ("fill", |room| {
        // SAFETY: the memory is the device's.
        unsafe {
            room.cuda
                .api
                .cuMemsetD8Async(room.device, 0, BYTES, room.stream)
        }
    }),
    ("event creation", |room| room.cuda.event(false).map(drop)),
    ("stream creation", |room| room.cuda.stream(0).map(drop)),
    ("allocation", |room| {
        room.device = room.cuda.alloc(BYTES as u64)?;
        Ok(())
    }),
    ("freeing", |room| room.cuda.free(room.device)),
    ("allocation in a stream", |room| {
        // SAFETY: the place lives across the call.
        unsafe {
            room.cuda
                .api
                .cuMemAllocAsync(&mut room.device, BYTES, room.stream)
        }
    }),
    ("freeing in a stream", |room| {
        // SAFETY: the driver looks the address up.
        unsafe { room.cuda.api.cuMemFreeAsync(room.device, room.stream) }
    }),
    ("pinned allocation", |room| {
        // SAFETY: the place lives across the call.
        unsafe { room.cuda.api.cuMemHostAlloc(&mut room.pinned, BYTES, 0) }
    }),
    ("pinned freeing", |room| {
        // SAFETY: nobody uses the memory.
        unsafe { room.cuda.api.cuMemFreeHost(room.pinned) }
    }),
    ("registration of host memory", |room| {
        // SAFETY: the memory lives until it is unregistered.
        unsafe {
            room.cuda
                .api
                .cuMemHostRegister_v2(room.host.as_mut_ptr().cast(), BYTES, 0)
        }
    }),
    ("its end", |room| {
        // SAFETY: it was registered by the call before.
        unsafe {
            room.cuda
                .api
                .cuMemHostUnregister(room.host.as_mut_ptr().cast())
        }
    }),
];

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let cuda = lab.cuda;
    let module = cuda.load(&portable(PROBE))?;
    let spin = cuda.function(module, "spin")?;
    let out = cuda.zeroed(256)?;
    let kernels = cuda.stream(0)?;
    let ended = cuda.event(false)?;
    // What the slowest call takes that does not wait is far below.
    let ns = lab.scale.choose(200_000, 50_000_000);
    let mut room = Room {
        cuda,
        stream: cuda.stream(0)?,
        device: cuda.alloc(BYTES as u64)?,
        host: vec![0; BYTES],
        pinned: std::ptr::null_mut(),
    };
    let first = room.device;
    let ask = |lab: &mut Lab<'_>, name: &str, call: &mut dyn FnMut() -> anyhow::Result<bool>| {
        cuda.launch_words(spin, Shape::row(1, 32), kernels, &[out, ns, ns])?;
        cuda.record(ended, kernels)?;
        let start = Instant::now();
        let is_offered = call()?;
        let took = start.elapsed().as_secs_f64() * 1e6;
        if is_offered {
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
        let mut told: Result<(), CudaError> = Ok(());
        ask(lab, name, &mut || {
            told = call(&mut room);
            Ok(told.is_ok())
        })?;
        lab.offered(name, told)?;
    }
    ask(lab, "loading of a module", &mut || {
        cuda.load(&portable(EMPTY)).map(|_| true)
    })?;
    cuda.free(first)?;
    Ok(())
}
