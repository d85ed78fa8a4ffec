//! Every symbol of the API, called with null everywhere and with unaligned pointers everywhere.
//!
//! The argument names a file with a symbol on each line, behind it "covered" or "missing".

use crate::api::Cuda;
use crate::session::{PER_THREAD, Session, code, ok};

scenarios! {
    nulls: every_symbol_returns;
}

/// What needs no `cuInit`.
const ALWAYS: [&str; 9] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuGetExportTable",
    "cuCoredumpGetAttributeGlobal",
    "cuCoredumpSetAttributeGlobal",
];

/// Functions for which zeros make sense: they return 0 once there is a context.
fn takes_zeros(symbol: &str) -> bool {
    const NAMES: [&str; 25] = [
        "cuInit",
        // The device is 0.
        "cuDevicePrimaryCtxSetFlags",
        "cuDevicePrimaryCtxReset",
        "cuDeviceGraphMemTrim",
        // Null is no context, the current one, or the default stream.
        "cuCtxSetCurrent",
        "cuCtxPopCurrent",
        "cuCtxSynchronize",
        "cuCtxSetFlags",
        "cuCtxSetLimit",
        "cuCtxSetCacheConfig",
        "cuCtxSetSharedMemConfig",
        "cuCtxGetStreamPriorityRange",
        "cuCtxResetPersistingL2Cache",
        "cuStreamQuery",
        "cuStreamSynchronize",
        "cuStreamGetCtx",
        "cuStreamCopyAttributes",
        "cuStreamBeginCapture",
        "cuProfilerStart",
        "cuProfilerStop",
        // Nothing is asked for, or given back.
        "cuMemGetInfo",
        "cuMemFree",
        "cuMemFreeHost",
        "cuMemFreeAsync",
        "cuMemcpy",
    ];
    let plain = symbol.split('_').next().unwrap_or_default();
    // A copy or a fill of nothing.
    NAMES.contains(&plain) || plain.starts_with("cuMemset") || plain.starts_with("cuMemcpy")
}

/// Ends the capture that zeros begin on the thread's own stream.
fn end_capture(session: &Session) {
    let mut graph = 0;
    ok(session.cuStreamEndCapture(PER_THREAD, &mut graph));
    ok(session.cuGraphDestroy(graph));
}

fn every_symbol_returns() {
    let cuda = Cuda::open();
    let list = std::fs::read_to_string(crate::argument()).expect("the list of symbols");
    let symbols: Vec<(&str, bool)> = list
        .lines()
        .map(|line| line.split_once(' ').expect("a symbol and a word"))
        .map(|(symbol, word)| (symbol, word == "covered"))
        .collect();
    assert!(symbols.len() > 500, "{}", symbols.len());
    for (symbol, is_covered) in &symbols {
        assert!(cuda.exports(symbol), "{symbol}");
        if *symbol == "cuInit" {
            continue;
        }
        let due = match (is_covered, ALWAYS.contains(symbol)) {
            (false, _) => code::NOT_SUPPORTED,
            (true, false) => code::NOT_INITIALIZED,
            (true, true) => code::INVALID_VALUE,
        };
        let code = cuda.call(symbol, 0);
        assert!(
            code == due || *symbol == "cuGetExportTable",
            "{symbol} before cuInit: {code}, not {due}"
        );
    }
    ok(cuda.cuInit(0));
    for (symbol, _) in &symbols {
        let code = cuda.call(symbol, 0);
        assert!(
            code != 0 || takes_zeros(symbol),
            "{symbol} without a context: {code}"
        );
        assert_ne!(code, 999, "{symbol} does not know what went wrong");
    }
    let session = Session::start();
    for (symbol, is_covered) in &symbols {
        ok(session.cuCtxSetCurrent(session.context));
        let code = session.call(symbol, 0);
        assert!(
            code != 0 || takes_zeros(symbol),
            "{symbol} of zeros: {code}"
        );
        if code == 0 && symbol.starts_with("cuStreamBeginCapture") {
            end_capture(&session);
        }
        assert!(
            *is_covered || code == code::NOT_SUPPORTED,
            "{symbol}: {code}"
        );
        assert_ne!(code, 999, "{symbol} does not know what went wrong");
    }
    // An odd address, with readable zeros behind it: whoever follows it unaligned finds nothing, and sizes are huge.
    let room = vec![0u64; 4096];
    let odd = room.as_ptr().addr() + 1;
    for (symbol, _) in &symbols {
        // Copies between places of the host of as many bytes as an address counts are the program's own doing.
        if symbol.starts_with("cuMemcpy") {
            continue;
        }
        ok(session.cuCtxSetCurrent(session.context));
        let code = session.call(symbol, odd);
        let never_fails = [
            "cuProfilerStart",
            "cuProfilerStop",
            "cuCtxSynchronize",
            "cuCtxResetPersistingL2Cache",
        ];
        assert!(
            code != 0 || never_fails.contains(symbol),
            "{symbol} of odd numbers"
        );
        assert_ne!(code, 999, "{symbol} does not know what went wrong");
    }
    assert!(room.iter().all(|word| *word == 0), "nothing is written");
    // The library still works.
    let data = session.words(&[1]);
    ok(session.launch(session.function(c"add"), (1, 1), 0, &[data, 1]));
    assert_eq!(session.read(data, 1), [6]);
}
