//! `cuda`: what the driver library costs, against the Rust client and against the host's memory.
//!
//! `cuda/launch`: wall time of a launch call through the library, in nanoseconds; the floor is the same launch through
//! the Rust client. `cuda/copy_pinned` and `cuda/copy_pageable`: a copy to the device from memory of either kind; the
//! floor is a `memcpy` of as many bytes. Each is the least of several rounds, and the two sides of a ratio take turns.
//! The service is a functional one of its own.

use cuda::context::CUcontext;
use cuda::module::{CUfunction, CUmodule};
use cuda::stream::CUstream;
use gridmux_tenant::{ConnectOptions, Gpu};
use gridmux_testkit::bench::{Chosen, Figure};
use gridmux_tests::ServiceBuilder;
use std::ffi::c_void;
use std::path::PathBuf;
use std::process::Command;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

/// Rounds of which the fastest counts.
const ROUNDS: u32 = 15;
/// Launches of a round; they fit the ring.
const LAUNCHES: u32 = 64;
/// Length of a copy.
const COPY_BYTES: usize = 64 << 20;
/// The socket, for the process that measures.
const SOCKET: &str = "GRIDMUX_SOCKET";

const PTX: &std::ffi::CStr = c"
.version 8.0
.target sm_80
.address_size 64
.visible .entry nothing(.param .u64 a, .param .u32 b) { ret; }
";

/// Calls a function of the API that must succeed.
macro_rules! cu {
    ($function:expr, $($argument:expr),* $(,)?) => {{
        // SAFETY: the arguments are what the function's C declaration asks for.
        let code = unsafe { $function($($argument),*) };
        assert_eq!(code, 0, "{}", stringify!($function));
    }};
}

fn main() {
    if let Some(socket) = std::env::var_os(SOCKET) {
        return measure(&PathBuf::from(socket));
    }
    // The library finds its service through the environment, so a process of its own measures.
    let service = ServiceBuilder::new(&[("a", 1)])
        .functional()
        .memory(1 << 30)
        .start();
    let this = std::env::current_exe().expect("this program has a path");
    let status = Command::new(this)
        .args(std::env::args_os().skip(1))
        .env(SOCKET, service.socket())
        .env("GRIDMUX_TENANT", "a")
        .status();
    assert!(status.expect("it starts").success(), "measuring failed");
}

fn measure(socket: &std::path::Path) {
    let chosen = Chosen::by_arguments();
    let mut context = CUcontext::NULL;
    cu!(cuda::init::cuInit, 0);
    cu!(cuda::context::cuCtxCreate_v2, &raw mut context, 0, 0);
    if chosen.has("cuda/launch") {
        launch(socket);
    }
    if chosen.has("cuda/copy_pinned") {
        let mut memory = null_mut();
        cu!(
            cuda::memory::host::cuMemHostAlloc,
            &raw mut memory,
            COPY_BYTES,
            0
        );
        copy("cuda/copy_pinned", memory);
    }
    if chosen.has("cuda/copy_pageable") {
        let mut memory = vec![1u8; COPY_BYTES];
        copy("cuda/copy_pageable", memory.as_mut_ptr().cast());
    }
}

/// Returns the time that something takes.
fn time(act: impl FnOnce()) -> Duration {
    let start = Instant::now();
    act();
    start.elapsed()
}

fn launch(socket: &std::path::Path) {
    let options = ConnectOptions {
        name: String::new(),
        tenant: Some("a".to_owned()),
    };
    let gpu = Gpu::connect_to(socket, options).expect("the service is there");
    let module = gpu.module(PTX.to_bytes()).expect("it loads");
    let kernel = module.kernel("nothing").expect("it is there");
    let stream = gpu.stream().expect("there is a stream");
    let (mut a, mut b) = (1u64, 2u32);
    let mut packed = vec![0; kernel.info().params_bytes as usize];
    packed[0] = 1;
    packed[8] = 2;

    let (mut loaded, mut function, mut made) = (CUmodule::NULL, CUfunction::NULL, CUstream::NULL);
    cu!(
        cuda::module::cuModuleLoadData,
        &raw mut loaded,
        PTX.as_ptr().cast::<c_void>()
    );
    cu!(
        cuda::module::cuModuleGetFunction,
        &raw mut function,
        loaded,
        c"nothing".as_ptr()
    );
    cu!(cuda::stream::cuStreamCreate, &raw mut made, 1);
    let mut params: [*mut c_void; 2] = [(&raw mut a).cast(), (&raw mut b).cast()];

    let (mut took, mut floor) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        floor = floor.min(time(|| {
            for _ in 0..LAUNCHES {
                let launched = stream.launch_packed(&kernel, [1, 1, 1], [32, 1, 1], 0, &packed);
                launched.expect("it is submitted");
            }
        }));
        stream.synchronize().expect("it runs");
        gpu.think();
        took = took.min(time(|| {
            for _ in 0..LAUNCHES {
                cu!(
                    cuda::launch::cuLaunchKernel,
                    function,
                    1,
                    1,
                    1,
                    32,
                    1,
                    1,
                    0,
                    made,
                    params.as_mut_ptr(),
                    null_mut()
                );
            }
        }));
        cu!(cuda::stream::cuStreamSynchronize, made);
    }
    let each = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(LAUNCHES);
    Figure::lower("cuda/launch", each(took), "ns")
        .floor(each(floor))
        .print();
}

fn copy(name: &str, memory: *mut c_void) {
    let mut address = 0;
    cu!(
        cuda::memory::allocate::cuMemAlloc_v2,
        &raw mut address,
        COPY_BYTES
    );
    let mut other = vec![2u8; COPY_BYTES];
    let from: *const c_void = memory;
    assert_ne!(from, null(), "there is memory");
    let (mut took, mut floor) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        floor = floor.min(time(|| {
            // SAFETY: both have that many bytes and lie apart.
            unsafe { std::ptr::copy_nonoverlapping(from.cast(), other.as_mut_ptr(), COPY_BYTES) };
            std::hint::black_box(&other);
        }));
        took = took.min(time(|| {
            cu!(
                cuda::memory::copy::cuMemcpyHtoD_v2,
                address,
                from,
                COPY_BYTES
            );
        }));
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Figure::lower(name, ms(took), "ms").floor(ms(floor)).print();
}
