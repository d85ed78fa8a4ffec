//! Threads that race on every kind of handle: what one uses another destroys.
//!
//! Nothing is asserted of single calls but that their codes are those of the API; afterwards everything works, and
//! nothing is held that nobody has a handle to.

use crate::api::{Cuda, PoolProperties};
use crate::contexts::USED_MEM_CURRENT;
use crate::session::{PER_THREAD, Session, code, ok};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

scenarios! {
    races: on_every_kind_of_handle on_contexts;
}

const THREADS: u64 = 8;
/// How many calls, or pairs of calls, each thread makes.
const ROUNDS: u32 = 6_000;

/// Handles that all threads see and replace.
#[derive(Debug, Default)]
struct Shared {
    streams: [AtomicU64; 4],
    events: [AtomicU64; 4],
    modules: [AtomicU64; 2],
    functions: [AtomicU64; 2],
    libraries: [AtomicU64; 2],
    /// Kernels of libraries.
    kernels: [AtomicU64; 2],
    links: [AtomicU64; 2],
    /// How many texts were added to links.
    texts: AtomicU64,
    memory: [AtomicU64; 4],
    pooled: [AtomicU64; 4],
    pools: [AtomicU64; 2],
    pinned: [AtomicU64; 2],
    contexts: [AtomicU64; 3],
    /// Host functions that streams took on, and those that were called.
    submitted: AtomicU64,
    called: AtomicU64,
}

/// A generator of numbers that look random (xorshift).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end).unwrap()
    }

    fn of(&mut self, handles: &[AtomicU64]) -> u64 {
        // Relaxed: any handle will do, also one that is destroyed.
        handles[self.below(handles.len() as u64)].load(Ordering::Relaxed)
    }

    /// Puts a handle in a place and returns what stood there.
    fn put(&mut self, handles: &[AtomicU64], handle: u64) -> u64 {
        // Relaxed: as above.
        handles[self.below(handles.len() as u64)].swap(handle, Ordering::Relaxed)
    }
}

/// Codes with which calls may be refused when another thread destroyed what they name.
const MEANT: [u32; 8] = [
    0,
    code::INVALID_VALUE,
    code::OUT_OF_MEMORY,
    code::INVALID_CONTEXT,
    code::INVALID_HANDLE,
    code::NOT_READY,
    code::CONTEXT_IS_DESTROYED,
    code::NOT_FOUND,
];

#[track_caller]
fn meant(code: u32) {
    assert!(MEANT.contains(&code), "code {code} was not meant");
}

/// Makes something, puts it in a place, and destroys what stood there.
fn replace(
    random: &mut Random,
    handles: &[AtomicU64],
    make: impl FnOnce(*mut u64) -> u32,
    destroy: impl FnOnce(u64) -> u32,
) {
    let mut made = 0;
    let code = make(&mut made);
    meant(code);
    if code == 0 {
        let before = random.put(handles, made);
        if before != 0 {
            meant(destroy(before));
        }
    }
}

fn replace_one(cuda: &Cuda, random: &mut Random, shared: &Shared, image: &CStr) {
    const POOL: PoolProperties = PoolProperties {
        alloc_type: 1,
        handle_types: 0,
        location_type: 1,
        location_id: 0,
        reserved: [0; 9],
    };
    match random.below(20) {
        0..3 => {
            let flags = u32::try_from(random.below(2)).unwrap();
            let make = |made: *mut u64| cuda.cuStreamCreate(made, flags);
            replace(random, &shared.streams, make, |old| {
                cuda.cuStreamDestroy_v2(old)
            });
        }
        3..6 => {
            let make = |made: *mut u64| cuda.cuEventCreate(made, 0);
            replace(random, &shared.events, make, |old| {
                cuda.cuEventDestroy_v2(old)
            });
        }
        6..9 => {
            let make = |made: *mut u64| cuda.cuMemAlloc_v2(made, 4096);
            replace(random, &shared.memory, make, |old| cuda.cuMemFree_v2(old));
        }
        9..12 => {
            let stream = random.of(&shared.streams);
            let pool = random.of(&shared.pools);
            let make = |made: *mut u64| match pool % 32 {
                0 => cuda.cuMemAllocAsync(made, 4096, stream),
                _ => cuda.cuMemAllocFromPoolAsync(made, 4096, pool, stream),
            };
            replace(random, &shared.pooled, make, |old| {
                match cuda.cuMemFreeAsync(old, stream) {
                    0 => 0,
                    _ => cuda.cuMemFree_v2(old),
                }
            });
        }
        12 => {
            let make = |made: *mut u64| cuda.cuMemPoolCreate(made, &POOL);
            replace(random, &shared.pools, make, |old| {
                cuda.cuMemPoolDestroy(old)
            });
        }
        13 => {
            let make = |made: *mut u64| cuda.cuMemHostAlloc(made.cast(), 8192, 0);
            let free = |old: u64| {
                cuda.cuMemFreeHost(std::ptr::without_provenance_mut(
                    usize::try_from(old).unwrap(),
                ))
            };
            replace(random, &shared.pinned, make, free);
        }
        _ => replace_code(cuda, random, shared, image),
    }
}

/// Modules, libraries and links, and the functions and kernels of them.
fn replace_code(cuda: &Cuda, random: &mut Random, shared: &Shared, image: &CStr) {
    match random.below(6) {
        0 => {
            let load = |made: *mut u64| cuda.cuModuleLoadData(made, image.as_ptr().cast());
            replace(random, &shared.modules, load, |old| {
                cuda.cuModuleUnload(old)
            });
        }
        1 => {
            let load = |made: *mut u64| {
                let (image, none) = (image.as_ptr().cast(), null_mut());
                cuda.cuLibraryLoadData(made, image, null_mut(), none, 0, null_mut(), none, 0)
            };
            replace(random, &shared.libraries, load, |old| {
                cuda.cuLibraryUnload(old)
            });
        }
        2 => {
            let make = |made: *mut u64| cuda.cuLinkCreate_v2(0, null_mut(), null_mut(), made);
            replace(random, &shared.links, make, |old| cuda.cuLinkDestroy(old));
        }
        3 => {
            let library = random.of(&shared.libraries);
            let mut kernel = 0;
            meant(cuda.cuLibraryGetKernel(&mut kernel, library, c"add".as_ptr()));
            random.put(&shared.kernels, kernel);
        }
        4 => {
            let mut function = 0;
            meant(cuda.cuKernelGetFunction(&mut function, random.of(&shared.kernels)));
            random.put(&shared.functions, function);
        }
        _ => {
            let module = random.of(&shared.modules);
            let mut function = 0;
            let code = cuda.cuModuleGetFunction(&mut function, module, c"add".as_ptr());
            meant(code);
            random.put(&shared.functions, function);
        }
    }
}

/// Counts a call by a stream in the place that it is given.
extern "C" fn count_call(data: *mut c_void) {
    // SAFETY: the place is the scenario's, which ends after the last call.
    let called = unsafe { &*data.cast::<AtomicU64>() };
    // relaxed: read when all has ended.
    called.fetch_add(1, Ordering::Relaxed);
}

/// Checks that every host function that was submitted was called once.
fn all_were_called(shared: &Shared) {
    // Relaxed: the threads have ended, and so has all that they submitted.
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    assert!(count(&shared.submitted) > 0);
    assert_eq!(count(&shared.called), count(&shared.submitted));
}

/// Adds a kernel of its own name, so that all that threads add fits together.
fn add_to_link(session: &Session, shared: &Shared, link: u64) -> u32 {
    const PTX: u32 = 1;
    // Relaxed: the number is all that counts.
    let number = shared.texts.fetch_add(1, Ordering::Relaxed);
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry kernel{number}() {{ ret; }}\n"
    );
    let (data, len) = (text.as_ptr().cast_mut().cast(), text.len());
    let name = c"text".as_ptr();
    session.cuLinkAddData_v2(link, PTX, data, len, name, 0, null_mut(), null_mut())
}

/// The image is not looked at: another thread may destroy the link that it belongs to.
fn complete_link(session: &Session, link: u64) -> u32 {
    let (mut image, mut bytes) = (null_mut(), 0);
    session.cuLinkComplete(link, &mut image, &mut bytes)
}

/// Calls a function at random; with `copies`, it copies from pinned memory of its own, for which a context has to stay.
fn use_one(session: &Session, random: &mut Random, shared: &Shared, copies: bool) {
    let (stream, event) = (random.of(&shared.streams), random.of(&shared.events));
    let (memory, pooled) = (random.of(&shared.memory), random.of(&shared.pooled));
    let pinned = random.of(&shared.pinned);
    let mut word = 0u64;
    meant(match random.below(18) {
        0 => session.cuStreamQuery(stream),
        1 => session.cuStreamSynchronize(stream),
        2 => session.cuEventRecord(event, stream),
        3 => session.cuEventQuery(event),
        4 => session.cuEventSynchronize(event),
        5 => session.cuStreamWaitEvent(stream, event, 0),
        6 => {
            let mut time = 0.0;
            session.cuEventElapsedTime(&mut time, event, random.of(&shared.events))
        }
        // No kernel works on memory that another thread gives back: that would be a fault of this program.
        7 => session.launch(random.of(&shared.functions), (1, 1), stream, &[0, 0]),
        8 => session.cuMemsetD32Async(memory, 7, 1024, stream),
        9 => session.cuMemcpyDtoDAsync_v2(memory, pooled, 4096, stream),
        // A copy may be under way when its memory is given back; memory that another thread gave back may not be read.
        10 if copies => {
            let own = session.pinned(4096);
            meant(session.cuMemcpyHtoDAsync_v2(memory, own.cast(), 4096, stream));
            session.cuMemFreeHost(own.cast())
        }
        11 => session.cuMemcpyDtoH_v2(std::ptr::from_mut(&mut word).cast(), pooled, 8),
        12 => {
            let address = if random.below(2) == 0 { memory } else { pinned };
            session.cuPointerGetAttribute(std::ptr::from_mut(&mut word).cast(), 7, address)
        }
        // The handle of a library's kernel is taken for a function.
        13 => session.launch(random.of(&shared.kernels), (1, 1), stream, &[0, 0]),
        14 => add_to_link(session, shared, random.of(&shared.links)),
        15 => complete_link(session, random.of(&shared.links)),
        16 => {
            let data = std::ptr::from_ref(&shared.called).cast_mut().cast();
            let code = session.cuLaunchHostFunc(stream, Some(count_call), data);
            let succeeded = u64::from(code == 0);
            // relaxed: read when all has ended.
            shared.submitted.fetch_add(succeeded, Ordering::Relaxed);
            code
        }
        _ => session.cuStreamQuery(PER_THREAD),
    });
}

/// Destroys what is left of pools, libraries and links.
fn end_what_no_context_holds(session: &Session, shared: &Shared) {
    // Relaxed: the threads have ended.
    let of = |left: &AtomicU64| left.load(Ordering::Relaxed);
    for pool in &shared.pools {
        meant(session.cuMemPoolDestroy(of(pool)));
    }
    for library in &shared.libraries {
        meant(session.cuLibraryUnload(of(library)));
    }
    for link in &shared.links {
        meant(session.cuLinkDestroy(of(link)));
    }
}

fn on_every_kind_of_handle() {
    let session = Session::start();
    let free = session.free_bytes();
    let outer = session.new_context();
    let shared = Shared::default();
    let image = crate::session::text(crate::kernels::PTX);
    std::thread::scope(|scope| {
        for seed in 1..=THREADS {
            let (session, shared, image) = (&session, &shared, &image);
            scope.spawn(move || {
                ok(session.cuCtxSetCurrent(outer));
                let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
                for _ in 0..ROUNDS {
                    if random.below(3) == 0 {
                        replace_one(session, &mut random, shared, image);
                    } else {
                        use_one(session, &mut random, shared, true);
                    }
                }
            });
        }
    });
    ok(session.cuCtxSynchronize());
    ok(session.cuCtxDestroy_v2(outer));
    all_were_called(&shared);
    let mut pool = 0;
    end_what_no_context_holds(&session, &shared);
    ok(session.cuDeviceGetDefaultMemPool(&mut pool, 0));
    ok(session.cuCtxSynchronize());
    ok(session.cuMemPoolTrimTo(pool, 0));
    session.await_free(free);
    let data = session.words(&[1]);
    ok(session.launch(session.function(c"add"), (1, 1), 0, &[data, 1]));
    assert_eq!(session.read(data, 1), [6]);
}

/// Contexts are made and destroyed while others work in them.
fn on_contexts() {
    let session = Session::start();
    let free = session.free_bytes();
    let shared = Shared::default();
    let image = crate::session::text(crate::kernels::PTX);
    std::thread::scope(|scope| {
        for seed in 1..=THREADS {
            let (session, shared, image) = (&session, &shared, &image);
            scope.spawn(move || {
                let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
                for _ in 0..ROUNDS {
                    match random.below(24) {
                        0 => {
                            let make = |made: *mut u64| session.cuCtxCreate_v2(made, 0, 0);
                            let destroy = |old| session.cuCtxDestroy_v2(old);
                            replace(&mut random, &shared.contexts, make, destroy);
                        }
                        1..4 => meant(session.cuCtxSetCurrent(random.of(&shared.contexts))),
                        4 => {
                            let mut primary = 0;
                            meant(session.cuDevicePrimaryCtxRetain(&mut primary, 0));
                            meant(session.cuDevicePrimaryCtxRelease_v2(0));
                        }
                        5..12 => replace_one(session, &mut random, shared, image),
                        _ => use_one(session, &mut random, shared, false),
                    }
                }
            });
        }
    });
    for context in &shared.contexts {
        // Relaxed: the threads have ended.
        meant(session.cuCtxDestroy_v2(context.load(Ordering::Relaxed)));
    }
    let mut left = 0;
    while session.cuCtxPopCurrent_v2(&mut left) == 0 {}
    ok(session.cuCtxSetCurrent(session.context));
    all_were_called(&shared);
    end_what_no_context_holds(&session, &shared);
    let mut pool = 0;
    ok(session.cuDeviceGetDefaultMemPool(&mut pool, 0));
    ok(session.cuCtxSynchronize());
    // What destroyed contexts held was given back once, and what they no longer took was never counted.
    let mut used = u64::MAX;
    ok(session.cuMemPoolGetAttribute(pool, USED_MEM_CURRENT, (&raw mut used).cast()));
    assert_eq!(used, 0);
    ok(session.cuMemPoolTrimTo(pool, 0));
    session.await_free(free);
}
