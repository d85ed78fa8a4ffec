//! Contexts: the stack of each thread, the primary context, and the end of a context that is in use.

use crate::api::{ContextParameters, Cuda};
use crate::session::{PER_THREAD, Session, code, invalid, ok, refused};
use std::ffi::c_void;
use std::ptr::{from_ref, null};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

scenarios! {
    contexts: the_stack_is_the_threads_own the_primary_context_is_counted a_destroyed_context_says_so
        what_a_context_holds_goes_with_it what_a_hidden_context_holds_goes_with_it parameters_that_ask_for_nothing
        more_than_the_service_has_streams limits_that_the_device_has_not_room_for
        calls_at_the_end_of_a_thread_and_of_the_process;
}

/// The attribute of a pool that says how many bytes programs hold of it (`CU_MEMPOOL_ATTR_USED_MEM_CURRENT`).
pub(crate) const USED_MEM_CURRENT: u32 = 7;

fn current(cuda: &Cuda) -> u64 {
    let mut context = 7;
    ok(cuda.cuCtxGetCurrent(&mut context));
    context
}

fn the_stack_is_the_threads_own() {
    let session = Session::start();
    let first = session.context;
    let second = session.new_context();
    assert_eq!(current(&session), second, "a new context is current");
    let mut popped = 0;
    ok(session.cuCtxPopCurrent_v2(&mut popped));
    assert_eq!((popped, current(&session)), (second, first));
    ok(session.cuCtxPushCurrent_v2(second));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(current(&session), 0, "a new thread has none");
            let mut none = 0;
            refused(session.cuCtxPopCurrent_v2(&mut none), code::INVALID_CONTEXT);
            refused(session.cuCtxSynchronize(), code::INVALID_CONTEXT);
            ok(session.cuCtxSetCurrent(first));
            assert_eq!(current(&session), first);
            ok(session.cuCtxSynchronize());
        });
    });
    assert_eq!(current(&session), second);
    ok(session.cuCtxSetCurrent(first));
    ok(session.cuCtxPopCurrent_v2(&mut popped));
    assert_eq!(
        (popped, current(&session)),
        (first, first),
        "it took the place of the second"
    );
    ok(session.cuCtxSetCurrent(0));
    assert_eq!(current(&session), 0);
    for wrong in [3, u64::MAX, second + 16] {
        refused(session.cuCtxSetCurrent(wrong), code::INVALID_CONTEXT);
        refused(session.cuCtxPushCurrent_v2(wrong), code::INVALID_CONTEXT);
        refused(session.cuCtxDestroy_v2(wrong), code::INVALID_CONTEXT);
    }
    let mut context = 0;
    invalid(session.cuCtxCreate_v2(&mut context, 3, 0));
    refused(
        session.cuCtxCreate_v2(&mut context, 0, 1),
        code::INVALID_DEVICE,
    );
}

fn the_primary_context_is_counted() {
    let cuda = Cuda::open();
    ok(cuda.cuInit(0));
    let state = || {
        let (mut flags, mut active) = (9, 9);
        ok(cuda.cuDevicePrimaryCtxGetState(0, &mut flags, &mut active));
        active
    };
    assert_eq!(state(), 0);
    refused(cuda.cuDevicePrimaryCtxRelease_v2(0), code::INVALID_CONTEXT);
    let (mut one, mut two, mut device) = (0, 0, -1);
    ok(cuda.cuDevicePrimaryCtxRetain(&mut one, 0));
    ok(cuda.cuDevicePrimaryCtxRetain(&mut two, 0));
    assert!(one == two && one != 0 && state() == 1);
    refused(cuda.cuCtxGetDevice(&mut device), code::INVALID_CONTEXT);
    ok(cuda.cuCtxSetCurrent(one));
    ok(cuda.cuCtxGetDevice(&mut device));
    assert_eq!(device, 0);
    refused(cuda.cuCtxDestroy_v2(one), code::INVALID_CONTEXT);
    ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
    assert_eq!(state(), 1);
    let mut address = 0;
    ok(cuda.cuMemAlloc_v2(&mut address, 1 << 20));
    ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
    assert_eq!(state(), 0);
    refused(cuda.cuMemFree_v2(address), code::CONTEXT_IS_DESTROYED);
    ok(cuda.cuDevicePrimaryCtxRetain(&mut one, 0));
    ok(cuda.cuCtxSetCurrent(one));
    invalid(cuda.cuMemFree_v2(address));
    ok(cuda.cuDevicePrimaryCtxReset_v2(0));
    assert_eq!(state(), 0);
}

fn a_destroyed_context_says_so() {
    let session = Session::start();
    let second = session.new_context();
    let stream = session.stream(0);
    let out = session.words(&[0]);
    let slow = session.function_of(session.load(), c"slow");
    std::thread::scope(|scope| {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (destroyed, is_destroyed) = std::sync::mpsc::channel::<()>();
        let session = &session;
        scope.spawn(move || {
            ok(session.cuCtxSetCurrent(second));
            ok(session.launch(slow, (1, 32), stream, &[out, 10_000, 1]));
            ready.send(()).unwrap();
            is_destroyed.recv().unwrap();
            // It is on this thread's stack still, and no use.
            refused(session.cuCtxSynchronize(), code::CONTEXT_IS_DESTROYED);
            let mut address = 0;
            refused(
                session.cuMemAlloc_v2(&mut address, 4),
                code::CONTEXT_IS_DESTROYED,
            );
            let mut popped = 0;
            ok(session.cuCtxPopCurrent_v2(&mut popped));
            assert_eq!(popped, second);
            refused(session.cuCtxSetCurrent(second), code::INVALID_CONTEXT);
        });
        is_ready.recv().unwrap();
        ok(session.cuCtxDestroy_v2(second));
        destroyed.send(()).unwrap();
    });
    // Here it was current, so it was popped.
    assert_eq!(current(&session), session.context);
    refused(session.cuStreamSynchronize(stream), code::INVALID_HANDLE);
    refused(session.cuStreamDestroy_v2(stream), code::INVALID_HANDLE);
    refused(
        session.launch(slow, (1, 32), 0, &[out, 1, 1]),
        code::INVALID_HANDLE,
    );
    ok(session.cuCtxSynchronize());
}

/// A program that makes contexts over and over runs out of nothing, and gets its memory back.
fn what_a_context_holds_goes_with_it() {
    let session = Session::start();
    let before = session.free_bytes();
    for _ in 0..50 {
        let context = session.new_context();
        let address = session.alloc(8 << 20);
        let mut pooled = 0;
        ok(session.cuMemAllocAsync(&mut pooled, 1 << 20, PER_THREAD));
        for stream in [0, PER_THREAD, session.stream(0)] {
            ok(session.cuMemsetD32Async(address, 1, 64, stream));
        }
        let mut event = 0;
        ok(session.cuEventCreate(&mut event, 0));
        ok(session.cuEventRecord(event, PER_THREAD));
        ok(session.cuCtxDestroy_v2(context));
        refused(session.cuEventSynchronize(event), code::INVALID_HANDLE);
    }
    ok(session.cuCtxSynchronize());
    let mut pool = 0;
    ok(session.cuDeviceGetDefaultMemPool(&mut pool, 0));
    // What the program never gave back is not in use any more, and nothing was counted twice.
    let mut used = u64::MAX;
    ok(session.cuMemPoolGetAttribute(pool, USED_MEM_CURRENT, (&raw mut used).cast()));
    assert_eq!(used, 0);
    ok(session.cuMemPoolTrimTo(pool, 0));
    session.await_free(before);
}

/// A context that another one hides on the thread's stack stays there when it is destroyed, and holds nothing.
fn what_a_hidden_context_holds_goes_with_it() {
    let session = Session::start();
    let mut hidden = session.new_context();
    for _ in 0..50 {
        let address = session.alloc(64);
        ok(session.cuMemsetD32Async(address, 1, 16, 0));
        let next = session.new_context();
        ok(session.cuCtxDestroy_v2(hidden));
        hidden = next;
    }
}

fn parameters_that_ask_for_nothing() {
    let session = Session::start();
    let mut context = 0;
    let mut create = |parameters| session.cuCtxCreate_v4(&mut context, parameters, 0, 0);
    ok(create(null()));
    let nothing = ContextParameters {
        affinity: null(),
        affinities: 0,
        graphics: null(),
    };
    ok(create(&raw const nothing));
    // What the library must not follow.
    let somewhere = null::<c_void>().wrapping_add(64);
    let affinity = ContextParameters {
        affinity: somewhere,
        affinities: 1,
        ..nothing
    };
    let graphics = ContextParameters {
        graphics: somewhere,
        ..nothing
    };
    let both = ContextParameters {
        graphics: somewhere,
        ..affinity
    };
    refused(create(&raw const affinity), code::UNSUPPORTED_EXEC_AFFINITY);
    refused(create(&raw const graphics), code::NOT_SUPPORTED);
    invalid(create(&raw const both));
    assert_eq!(current(&session), context, "the last that was made");
}

/// Each context at work has a stream of the service's. Where there is none left the code says so, and the library says
/// on stderr what there are too many of.
fn more_than_the_service_has_streams() {
    let session = Session::start();
    let fill = || session.cuMemsetD8_v2(session.alloc(4), 1, 4);
    let mut contexts = Vec::new();
    let code = loop {
        assert!(contexts.len() < 1000, "a limit was due");
        contexts.push(session.new_context());
        let code = fill();
        if code != 0 {
            break code;
        }
    };
    assert_eq!(code, code::OUT_OF_MEMORY);
    assert!(contexts.len() > 16, "{} contexts", contexts.len());
}

fn limits_that_the_device_has_not_room_for() {
    let session = Session::start();
    let (stack, printf_buffer, heap) = (0, 1, 2);
    ok(session.cuCtxSetLimit(stack, 512 << 10));
    invalid(session.cuCtxSetLimit(stack, (512 << 10) + 1));
    for limit in [printf_buffer, heap] {
        ok(session.cuCtxSetLimit(limit, 32 << 20));
        refused(
            session.cuCtxSetLimit(limit, usize::MAX),
            code::OUT_OF_MEMORY,
        );
        let mut value = 0;
        ok(session.cuCtxGetLimit(&mut value, limit));
        assert_eq!(value, 32 << 20, "what was refused changes nothing");
    }
}

static AT_END: OnceLock<Session> = OnceLock::new();
static CALLS_AT_END: AtomicU32 = AtomicU32::new(0);

/// Works in the calling thread's context, on its default stream.
fn work_at_end() {
    let session = AT_END.get().expect("the scenario made it");
    let out = session.words(&[1; 32]);
    let add = session.function(c"add");
    ok(session.launch(add, (1, 32), PER_THREAD, &[out, 5]));
    ok(session.cuStreamSynchronize(PER_THREAD));
    assert_eq!(session.read(out, 1), [6]);
    ok(session.cuMemFree_v2(out));
}

extern "C" fn at_thread_end(_: *mut c_void) {
    work_at_end();
    // Relaxed: nothing else is told by it.
    CALLS_AT_END.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn at_process_end() {
    // A panic aborts the process here.
    work_at_end();
}

/// Destructors of a thread's keys and handlers of `atexit` come after the thread's own data are gone.
fn calls_at_the_end_of_a_thread_and_of_the_process() {
    let session = AT_END.get_or_init(Session::start);
    work_at_end();
    let mut key = 0;
    // SAFETY: the place is written to only, and the function is there as long as the process.
    let made = unsafe { libc::pthread_key_create(&raw mut key, Some(at_thread_end)) };
    assert_eq!(made, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the key exists, and its destructor does not look at the value.
            let set = unsafe { libc::pthread_setspecific(key, from_ref(session).cast()) };
            assert_eq!(set, 0);
            ok(session.cuCtxSetCurrent(session.context));
            work_at_end();
        });
    });
    // Relaxed: as above.
    while CALLS_AT_END.load(Ordering::Relaxed) == 0 {
        // `scope` waits for the closure, not for the destructors of keys.
        std::thread::yield_now();
    }
    // SAFETY: the function is there as long as the process.
    let registered = unsafe { libc::atexit(at_process_end) };
    assert_eq!(registered, 0);
}
