//! Kernels that fault: the code, that it stays, and that it stays in its context.

use crate::session::{Session, code, invalid, ok, refused};
use std::ffi::CStr;

scenarios! {
    faults: each_has_its_code_and_stays an_endless_kernel_ends_at_its_budget every_thread_hears_of_it
        foreign_pointers;
}

/// Lets a kernel fault in a context of its own, and looks at everything that must say so.
fn fault(session: &Session, name: &CStr, params: &[u64], due: u32) {
    let add = session.function(c"add");
    let context = session.new_context();
    let module = session.load();
    let (event, stream) = (session.event(), session.stream(0));
    ok(session.launch(session.function_of(module, name), (1, 1), stream, params));
    ok(session.cuEventRecord(event, stream));
    refused(session.cuStreamSynchronize(stream), due);
    // It stays.
    let mut address = 0;
    for _ in 0..2 {
        refused(session.cuCtxSynchronize(), due);
        refused(session.cuStreamSynchronize(stream), due);
        refused(session.cuStreamQuery(stream), due);
        refused(session.cuEventQuery(event), due);
        refused(session.cuEventSynchronize(event), due);
        refused(session.cuMemAlloc_v2(&mut address, 4), due);
        refused(session.cuMemsetD32Async(session.context, 0, 1, 0), due);
        refused(session.launch(add, (1, 1), 0, &[0, 0]), due);
    }
    // What only tells something works, and so does the way out.
    let (mut current, mut flags) = (0, 0);
    ok(session.cuCtxGetCurrent(&mut current));
    ok(session.cuStreamGetFlags(stream, &mut flags));
    ok(session.cuEventDestroy_v2(event));
    ok(session.cuCtxDestroy_v2(context));
    // The first context never heard of it.
    ok(session.cuCtxSynchronize());
    let data = session.words(&[1, 2]);
    ok(session.launch(add, (1, 2), 0, &[data, 2]));
    assert_eq!(session.read(data, 2), [6, 7]);
    ok(session.cuMemFree_v2(data));
}

fn each_has_its_code_and_stays() {
    let session = Session::start();
    let word = session.words(&[0; 4]);
    fault(&session, c"poke", &[0x10], code::ILLEGAL_ADDRESS);
    fault(&session, c"poke", &[0], code::ILLEGAL_ADDRESS);
    fault(&session, c"poke", &[u64::MAX - 3], code::ILLEGAL_ADDRESS);
    fault(&session, c"poke", &[word + 1], code::MISALIGNED_ADDRESS);
    fault(&session, c"trap", &[], code::LAUNCH_FAILED);
    fault(&session, c"fail", &[], code::ASSERT);
    // The primary context is usable again once it was reset.
    let mut primary = 0;
    ok(session.cuDevicePrimaryCtxRetain(&mut primary, 0));
    ok(session.cuCtxSetCurrent(primary));
    let module = session.load();
    ok(session.launch(session.function_of(module, c"trap"), (1, 1), 0, &[]));
    refused(session.cuCtxSynchronize(), code::LAUNCH_FAILED);
    ok(session.cuDevicePrimaryCtxReset_v2(0));
    ok(session.cuDevicePrimaryCtxRetain(&mut primary, 0));
    ok(session.cuCtxSetCurrent(primary));
    ok(session.cuCtxSynchronize());
    let data = session.words(&[1]);
    assert_eq!(session.read(data, 1), [1]);
}

/// The service allows a second of processor time.
fn an_endless_kernel_ends_at_its_budget() {
    let session = Session::start();
    fault(&session, c"endless", &[], code::LAUNCH_TIMEOUT);
}

/// Whoever synchronises behind a kernel that faulted hears of it, however many threads ask at once.
fn every_thread_hears_of_it() {
    const THREADS: usize = 8;
    let session = Session::start();
    for _ in 0..20 {
        let context = session.new_context();
        let module = session.load();
        let poke = session.function_of(module, c"poke");
        let at_once = std::sync::Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    ok(session.cuCtxSetCurrent(context));
                    let stream = session.stream(0);
                    at_once.wait();
                    let launched = session.launch(poke, (1, 1), stream, &[0x10]);
                    assert!([0, code::ILLEGAL_ADDRESS].contains(&launched));
                    refused(session.cuStreamSynchronize(stream), code::ILLEGAL_ADDRESS);
                });
            }
        });
        ok(session.cuCtxDestroy_v2(context));
    }
}

/// Another process gave the addresses of its memory and its handles on the command line.
fn foreign_pointers() {
    let session = Session::start();
    let given = crate::argument();
    let numbers: Vec<u64> = given
        .split(',')
        .map(|number| number.parse().unwrap())
        .collect();
    let [memory, bytes] = numbers[..] else {
        panic!("an address and a size are due: {given:?}");
    };
    let bytes = usize::try_from(bytes).unwrap();
    let own = session.alloc(bytes);
    assert_ne!(memory, own, "what another process holds is nobody else's");
    let mut word = [0u32];
    let at = word.as_mut_ptr().cast();
    invalid(session.cuMemcpyHtoD_v2(memory, at, 4));
    invalid(session.cuMemcpyDtoH_v2(at, memory, 4));
    invalid(session.cuMemcpyDtoD_v2(own, memory, 4));
    // These take addresses of either kind: what is nowhere is refused before it is touched.
    invalid(session.cuMemcpy(own, memory, 4));
    invalid(session.cuMemcpy(memory, own, 4));
    invalid(session.cuMemsetD32_v2(memory, 3, 1));
    invalid(session.cuMemFree_v2(memory));
    invalid(session.cuMemFreeAsync(memory, 0));
    fault(&session, c"poke", &[memory], code::ILLEGAL_ADDRESS);
}
