//! How many blocks of a kernel fit an SM.

use crate::api::driver_api;
use crate::border::{NotNull, Out};
use crate::context::current::usable;
use crate::module::{CUfunction, Function};
use crate::status::{CudaResult, Status};
use gridmux_tenant::{DeviceFacts, KernelInfo};
use std::ffi::{c_int, c_uint};
use std::sync::atomic::Ordering;

driver_api! {
    needs Init;
    6050 cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: CUfunction, block_threads: c_int, shared_bytes: usize,
    ) => max_active_blocks;
    7000 cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int, function: CUfunction, block_threads: c_int, shared_bytes: usize, flags: c_uint,
    ) => max_active_blocks_with_flags;
    6050 cuOccupancyMaxPotentialBlockSize(
        min_grid: *mut c_int, block_threads: *mut c_int, function: CUfunction, shared_of: Option<SharedOf>,
        shared_bytes: usize, most_threads: c_int,
    ) => max_potential_block;
    7000 cuOccupancyMaxPotentialBlockSizeWithFlags(
        min_grid: *mut c_int, block_threads: *mut c_int, function: CUfunction, shared_of: Option<SharedOf>,
        shared_bytes: usize, most_threads: c_int, flags: c_uint,
    ) => max_potential_block_with_flags;
    10020 cuOccupancyAvailableDynamicSMemPerBlock(
        shared_bytes: *mut usize, function: CUfunction, blocks: c_int, block_threads: c_int,
    ) => available_shared;
}

/// Tells the dynamic shared memory of a block of that many threads (`CUoccupancyB2DSize`).
pub type SharedOf = unsafe extern "C" fn(c_int) -> usize;

/// Returns how many blocks of `threads` threads and `shared_bytes` of dynamic shared memory, of which a launch may ask
/// for `shared_most`, reside on an SM at once: the least of what its threads, block places, registers and shared memory
/// allow, each given in the device's units. Of blocks that cannot be launched, that is none.
#[must_use]
pub fn resident_blocks(
    facts: &DeviceFacts,
    info: &KernelInfo,
    threads: u32,
    shared_bytes: u64,
    shared_most: u32,
) -> u64 {
    // What is too much stops here, so that no sum below overflows.
    let shared_most = shared_most.min(info.max_dynamic_shared_bytes);
    if threads > info.max_threads || shared_bytes > shared_most.into() {
        return 0;
    }
    let sm = facts.sm;
    let warp = u64::from(facts.warp_size.max(1));
    let warps = u64::from(threads).div_ceil(warp);
    let in_units = |amount: u64, unit: u32| amount.next_multiple_of(u64::from(unit.max(1)));
    let registers = warps * in_units(u64::from(info.registers) * warp, sm.register_unit);
    let shared = u64::from(info.static_shared_bytes)
        + shared_bytes
        + u64::from(facts.reserved_shared_bytes_per_block);
    let shared = in_units(shared, sm.shared_unit_bytes);
    let within = |has: u32, needs: u64| u64::from(has).checked_div(needs).unwrap_or(u64::MAX);
    let limits = [
        u64::from(sm.blocks),
        within(sm.threads, warps * warp),
        within(sm.registers, registers),
        within(sm.shared_bytes, shared),
    ];
    match registers <= facts.registers_per_block.into() {
        true => limits.into_iter().min().unwrap_or(0),
        false => 0,
    }
}

fn number(value: u64) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

/// Returns how much dynamic shared memory a launch of a function may ask for.
fn most_shared(function: &Function) -> u32 {
    // Relaxed: a number of its own.
    function.dynamic_shared_bytes.load(Ordering::Relaxed)
}

fn positive(value: c_int) -> CudaResult<u32> {
    let value = u32::try_from(value).ok().filter(|value| *value > 0);
    value.ok_or(Status::INVALID_VALUE)
}

fn max_active_blocks(
    blocks: Out<c_int>,
    NotNull(function): NotNull<Function>,
    block_threads: c_int,
    shared_bytes: usize,
) -> CudaResult {
    max_active_blocks_with_flags(blocks, NotNull(function), block_threads, shared_bytes, 0)
}

fn max_active_blocks_with_flags(
    blocks: Out<c_int>,
    NotNull(function): NotNull<Function>,
    block_threads: c_int,
    shared_bytes: usize,
    flags: c_uint,
) -> CudaResult {
    let (driver, _) = usable()?;
    let threads = positive(block_threads)?;
    // The one flag asks not to count on caching of global memory, which changes nothing here.
    if flags > 1 {
        return Err(Status::INVALID_VALUE);
    }
    let facts = &driver.description.facts;
    blocks.set(number(resident_blocks(
        facts,
        function.info(),
        threads,
        shared_bytes as u64,
        most_shared(&function),
    )));
    Ok(())
}

fn max_potential_block(
    min_grid: Out<c_int>,
    block_threads: Out<c_int>,
    NotNull(function): NotNull<Function>,
    shared_of: Option<SharedOf>,
    shared_bytes: usize,
    most_threads: c_int,
) -> CudaResult {
    max_potential_block_with_flags(
        min_grid,
        block_threads,
        NotNull(function),
        shared_of,
        shared_bytes,
        most_threads,
        0,
    )
}

/// Tries every number of whole warps, from the most on, and takes the first that keeps most threads resident.
fn max_potential_block_with_flags(
    min_grid: Out<c_int>,
    block_threads: Out<c_int>,
    NotNull(function): NotNull<Function>,
    shared_of: Option<SharedOf>,
    shared_bytes: usize,
    most_threads: c_int,
    flags: c_uint,
) -> CudaResult {
    let (driver, _) = usable()?;
    if flags > 1 {
        return Err(Status::INVALID_VALUE);
    }
    let (facts, info) = (&driver.description.facts, function.info());
    let shared_most = most_shared(&function);
    let warp = facts.warp_size.max(1);
    let asked = u32::try_from(most_threads).ok().filter(|most| *most > 0);
    let most = asked.unwrap_or(u32::MAX).min(info.max_threads);
    let (mut best_threads, mut best_blocks, mut best_resident) = (0, 0, 0);
    for threads in (1..=most.div_ceil(warp))
        .rev()
        .map(|warps| (warps * warp).min(most))
    {
        let shared = match shared_of {
            // SAFETY: the program passes a function of this type.
            Some(shared_of) => unsafe { shared_of(number(threads.into())) },
            None => shared_bytes,
        };
        let blocks = resident_blocks(facts, info, threads, shared as u64, shared_most);
        let resident = blocks * u64::from(threads);
        if resident > best_resident {
            (best_threads, best_blocks, best_resident) = (threads, blocks, resident);
        }
    }
    block_threads.set(number(best_threads.into()));
    min_grid.set(number(best_blocks * u64::from(facts.sms)));
    Ok(())
}

fn available_shared(
    shared_bytes: Out<usize>,
    NotNull(function): NotNull<Function>,
    blocks: c_int,
    block_threads: c_int,
) -> CudaResult {
    let (driver, _) = usable()?;
    let (blocks, threads) = (positive(blocks)?, positive(block_threads)?);
    let (facts, info) = (&driver.description.facts, function.info());
    let shared_most = most_shared(&function);
    if resident_blocks(facts, info, threads, 0, shared_most) < blocks.into() {
        return Err(Status::INVALID_VALUE);
    }
    let taken = info.static_shared_bytes + facts.reserved_shared_bytes_per_block;
    let unit = facts.sm.shared_unit_bytes.max(1);
    let share = (facts.sm.shared_bytes / blocks) / unit * unit;
    let room = share.saturating_sub(taken);
    shared_bytes.set(room.min(shared_most) as usize);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::resident_blocks;
    use gridmux_tenant::{DeviceFacts, KernelInfo, SmFacts};

    /// Returns an SM of compute capability 8.0 in the figures that matter here.
    fn facts() -> DeviceFacts {
        DeviceFacts {
            warp_size: 32,
            registers_per_block: 65536,
            reserved_shared_bytes_per_block: 1024,
            sm: SmFacts {
                threads: 2048,
                blocks: 32,
                registers: 65536,
                register_unit: 256,
                shared_bytes: 167_936,
                shared_unit_bytes: 128,
            },
            ..DeviceFacts::default()
        }
    }

    fn kernel(registers: u32, shared: u32) -> KernelInfo {
        KernelInfo {
            max_threads: 1024,
            registers,
            static_shared_bytes: shared,
            max_dynamic_shared_bytes: 166_912 - shared,
            ..KernelInfo::default()
        }
    }

    #[test]
    fn the_scarcest_resource_decides() {
        let blocks = |registers, shared, threads, dynamic| {
            resident_blocks(
                &facts(),
                &kernel(registers, shared),
                threads,
                dynamic,
                u32::MAX,
            )
        };
        assert_eq!(blocks(16, 0, 32, 0), 32, "places for blocks");
        assert_eq!(blocks(16, 0, 256, 0), 8, "threads");
        // 64 registers * 32 threads * 8 warps = 16,384 of 65,536.
        assert_eq!(blocks(64, 0, 256, 0), 4, "registers");
        // 40,960 + 1,024 = 41,984, four of which are 167,936.
        assert_eq!(blocks(16, 40_960, 256, 0), 4, "shared memory");
        assert_eq!(blocks(16, 40_960, 256, 1), 3, "one byte more");
        assert_eq!(blocks(16, 0, 2048, 0), 0, "a block that is too large");
        assert_eq!(blocks(255, 0, 1024, 0), 0, "registers of one block");
    }
}
