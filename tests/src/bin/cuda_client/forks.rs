//! A child made by `fork`: every call in it returns the documented error, none waits, and the parent goes on.

use crate::mapped::{DEVICE_MAP, Pages, address_of, read, write};
use crate::session::{Session, code, ok};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use std::sync::atomic::{AtomicBool, Ordering};

scenarios! {
    forks: children_are_refused_and_parents_go_on a_child_made_before_init_is_its_own
        registered_memory_is_a_childs_own;
}

/// Runs `act` in a child, whose exit status is what it returns. With threads beside the calling one, `act` may do
/// nothing but call the driver library, end what was registered with the runtime library, and use memory.
pub(crate) fn in_child(act: impl FnOnce() -> i32) -> i32 {
    // SAFETY: in the child there is this thread alone. What others held when it was made are locks of the C library's
    // allocator and of its streams, which glibc's `fork` makes usable in the child, and locks of the driver library, of
    // which a call in a child takes none: each looks first whether the process is the one that initialised the library,
    // and so does what it does at exit and the end of a binary in the runtime library. Where there are no other
    // threads, nobody held anything.
    match unsafe { fork() }.expect("a child") {
        ForkResult::Child => std::process::exit(act()),
        ForkResult::Parent { child } => match waitpid(child, None).expect("its end") {
            WaitStatus::Exited(_, status) => status,
            other => panic!("{other:?}"),
        },
    }
}

/// Returns the number of the first call that does not say "not initialised"; 0 if all do.
fn first_that_works(session: &Session, stream: u64, event: u64, data: u64, add: u64) -> i32 {
    let (mut wide, mut number, mut word) = (0, 0, [0u32]);
    let at = word.as_mut_ptr().cast();
    let codes = [
        session.cuInit(0),
        session.cuDeviceGetCount(&mut number),
        session.cuCtxGetCurrent(&mut wide),
        session.cuCtxSynchronize(),
        session.cuCtxCreate_v2(&mut wide, 0, 0),
        session.cuCtxDestroy_v2(session.context),
        session.cuMemAlloc_v2(&mut wide, 4),
        session.cuMemFree_v2(data),
        session.cuMemcpyDtoH_v2(at, data, 4),
        session.cuMemsetD32Async(data, 1, 1, stream),
        session.cuStreamCreate(&mut wide, 0),
        session.cuStreamSynchronize(stream),
        session.cuStreamDestroy_v2(stream),
        session.cuEventRecord(event, stream),
        session.cuEventSynchronize(event),
        session.cuEventDestroy_v2(event),
        session.launch(add, (1, 1), 0, &[data, 1]),
        session.cuModuleUnload(session.module),
        session.cuDevicePrimaryCtxReset_v2(0),
    ];
    let works = codes.iter().position(|code| *code != code::NOT_INITIALIZED);
    works.map_or(0, |index| i32::try_from(index).unwrap_or(0) + 1)
}

/// Children are made while other threads hold whatever locks there are.
fn children_are_refused_and_parents_go_on() {
    const CHILDREN: usize = 60;
    let session = Session::start();
    let (stream, event) = (session.stream(0), session.event());
    let (data, add) = (session.words(&[0]), session.function(c"add"));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                ok(session.cuCtxSetCurrent(session.context));
                let own = session.words(&[0]);
                let mut launched = 0;
                // Relaxed: the thread ends a round earlier or later.
                while !is_over.load(Ordering::Relaxed) {
                    let stream = session.stream(0);
                    let event = session.event();
                    ok(session.launch(add, (1, 1), stream, &[own, 1]));
                    launched += 1;
                    ok(session.cuEventRecord(event, stream));
                    ok(session.cuEventSynchronize(event));
                    ok(session.cuMemFree_v2(session.alloc(64)));
                    ok(session.cuEventDestroy_v2(event));
                    ok(session.cuStreamDestroy_v2(stream));
                }
                assert_eq!(session.read(own, 1), [launched * 5]);
            });
        }
        for _ in 0..CHILDREN {
            let child = in_child(|| first_that_works(&session, stream, event, data, add));
            // Relaxed: see above; in front of the assertion, so that the threads end.
            is_over.store(child != 0, Ordering::Relaxed);
            assert_eq!(child, 0, "this call of the child works");
        }
        // Relaxed: see above.
        is_over.store(true, Ordering::Relaxed);
    });
    // What the children tried to destroy is there.
    ok(session.launch(add, (1, 1), stream, &[data, 1]));
    ok(session.cuEventRecord(event, stream));
    ok(session.cuEventSynchronize(event));
    assert_eq!(session.read(data, 1), [5]);
}

/// Fork first, then initialise: both processes are clients.
fn a_child_made_before_init_is_its_own() {
    let work = || {
        let session = Session::start();
        let data = session.words(&[1]);
        ok(session.launch(session.function(c"add"), (1, 1), 0, &[data, 1]));
        assert_eq!(session.read(data, 1), [6]);
    };
    let child = in_child(|| {
        work();
        0
    });
    assert_eq!(child, 0);
    work();
}

/// What kernels reach of the program's own memory stays the parent's: a child has a copy, as of all else.
fn registered_memory_is_a_childs_own() {
    const BYTES: usize = 1 << 16;
    let session = Session::start();
    let (pages, gone) = (Pages::new(BYTES), Pages::new(BYTES));
    ok(session.cuMemHostRegister_v2(gone.start(), BYTES, DEVICE_MAP));
    ok(session.cuMemHostUnregister(gone.start()));
    write(pages.start().cast(), 100, 1);
    ok(session.cuMemHostRegister_v2(pages.start(), BYTES, DEVICE_MAP));
    let address = address_of(&session, pages.start().cast());
    let add = session.function(c"add");
    for round in 0..3 {
        let due = 1 + 5 * round;
        let child = in_child(|| {
            let seen = read(pages.start().cast(), 100);
            write(pages.start().cast(), 100, 77);
            // The child's own children as well.
            let grandchild = in_child(|| {
                let seen = read(pages.start().cast(), 100);
                write(pages.start().cast(), 100, 78);
                i32::from(seen != 77)
            });
            let still = read(pages.start().cast(), 100);
            grandchild + i32::from(seen != due) + i32::from(still != 77)
        });
        assert_eq!(child, 0);
        assert_eq!(read(pages.start().cast(), 100), due, "a child wrote to it");
        ok(session.launch(add, (1, 128), 0, &[address, 128]));
        ok(session.cuCtxSynchronize());
        assert_eq!(read(pages.start().cast(), 100), due + 5);
    }
    ok(session.cuMemHostUnregister(pages.start()));
    let child = in_child(|| i32::from(read(pages.start().cast(), 100) != 16));
    assert_eq!(child, 0);
}
