//! Occupancy: the library's answers against the formula of NVIDIA's occupancy calculator, from the device's attributes.

use crate::session::{Session, invalid, ok};

scenarios! {
    occupancy: answers_agree_with_the_formula;
}

/// Units in which SMs of compute capability 8.0 and 9.0 give out registers of a warp and shared memory, in bytes.
const REGISTER_UNIT: u64 = 256;
const SHARED_UNIT: u64 = 128;

/// Returns blocks of a kernel on an SM at once: the least of what threads, places, registers and shared memory allow.
fn formula(session: &Session, function: u64, threads: u64, dynamic: u64) -> u64 {
    let device = |attribute| u64::try_from(session.attribute(attribute)).unwrap();
    let kernel = |attribute| {
        let mut value = 0;
        ok(session.cuFuncGetAttribute(&mut value, attribute, function));
        u64::try_from(value).unwrap()
    };
    let (most_threads, own_shared, registers) = (kernel(0), kernel(1), kernel(4));
    let most_dynamic = kernel(8);
    let warps = threads.div_ceil(32);
    let of_block = warps * (registers * 32).next_multiple_of(REGISTER_UNIT);
    let shared = (own_shared + dynamic + device(111)).next_multiple_of(SHARED_UNIT);
    if threads > most_threads || of_block > device(12) || dynamic > most_dynamic {
        return 0;
    }
    let limits = [
        device(106),
        device(39) / (warps * 32),
        device(82) / of_block.max(1),
        device(81) / shared.max(1),
    ];
    limits.into_iter().min().unwrap()
}

unsafe extern "C" fn four_bytes_a_thread(threads: i32) -> usize {
    usize::try_from(threads).unwrap() * 4
}

fn answers_agree_with_the_formula() {
    let session = Session::start();
    for name in [c"add", c"small", c"mixed"] {
        let function = session.function(name);
        for threads in [1u16, 31, 32, 33, 96, 128, 129, 256, 1000, 1024, 1025] {
            for shared in [0, 1, 1000, 10_000, 40_000, 100_000, 240_000] {
                let mut blocks = -1;
                let call = session.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &mut blocks,
                    function,
                    threads.into(),
                    shared,
                );
                ok(call);
                let due = formula(&session, function, threads.into(), shared as u64);
                assert_eq!(
                    u64::try_from(blocks),
                    Ok(due),
                    "{name:?}: {threads} threads, {shared} bytes"
                );
            }
        }
        let (mut grid, mut threads) = (0, 0);
        let most = |grid: *mut i32, threads: *mut i32, shared_of, limit| {
            session.cuOccupancyMaxPotentialBlockSize(grid, threads, function, shared_of, 0, limit)
        };
        for limit in [0, 64, 100] {
            ok(most(&mut grid, &mut threads, None, limit));
            assert!(threads > 0 && (limit == 0 || threads <= limit), "{threads}");
            let blocks = formula(&session, function, u64::try_from(threads).unwrap(), 0);
            assert_eq!(u64::try_from(grid), Ok(blocks * 4), "4 SMs");
        }
        ok(most(&mut grid, &mut threads, Some(four_bytes_a_thread), 0));
        assert!(grid > 0 && threads > 0);
        let (mut room, mut none) = (0, 7);
        ok(session.cuOccupancyAvailableDynamicSMemPerBlock(&mut room, function, 2, 128));
        assert!(formula(&session, function, 128, room as u64) >= 2);
        invalid(session.cuOccupancyAvailableDynamicSMemPerBlock(&mut none, function, 0, 128));
    }
    let add = session.function(c"add");
    for wrong in [0, -1, i32::MIN] {
        let mut blocks = 0;
        let call = session.cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, add, wrong, 0);
        invalid(call);
    }
}
