//! The fence's reservation: 4 GiB of addresses, aligned to their size, whose holes all map one sink, so that no
//! address inside faults, whatever a kernel computes.

use super::Part;
use crate::cuda::{Api, CudaError, Shape};
use crate::kernels::PROBE;
use crate::lab::Lab;
use gridmux_workloads::Prng;
use gridmux_workloads::portable;
use std::time::Instant;

pub(super) const PART: Part = Part {
    name: "reservation",
    about: "a reservation of 4 GiB of which one piece of memory is mapped everywhere",
    usual_s: 1,
    limit_s: 40,
    run,
};

/// Size of the reservation, and its alignment.
const RESERVATION: usize = 4 << 30;
/// Memory that is mapped again and again.
const SINK: usize = 64 << 20;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`, and `CU_MEM_LOCATION_TYPE_DEVICE`.
const OF_DEVICE: i32 = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
const READ_WRITE: i32 = 3;

/// `CUmemAllocationProp`.
#[repr(C)]
struct Properties {
    kind: i32,
    handle_types: i32,
    location_kind: i32,
    location: i32,
    metadata: u64,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
struct Access {
    location_kind: i32,
    location: i32,
    flags: i32,
}

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let start = Instant::now();
    let made = make(&lab.cuda.api, lab.cuda.device);
    let base = match made {
        Ok(base) => base,
        Err(error) if error.is_not_offered() => {
            lab.skipped("reservation", error);
            return Ok(());
        }
        Err(error) => {
            lab.check("it can be made", false, error);
            return Ok(());
        }
    };
    lab.figure(
        "making it",
        start.elapsed().as_secs_f64() * 1e6,
        "us (wall)",
    );
    let is_aligned = base % (RESERVATION as u64) == 0;
    lab.check(
        "it is aligned to its size",
        is_aligned,
        format!("{base:#x}"),
    );
    let cuda = lab.cuda;
    let module = cuda.load(&portable(PROBE))?;
    let poke = cuda.function(&module, "poke")?;
    let stream = cuda.stream(0)?;
    let mut random = Prng::new(4);
    for n in 0..lab.scale.choose(64, 1000) {
        // As the fence makes of any address: the lower half, aligned to the access, under the reservation's upper.
        let address = base + (random.next_u64() & 0xffff_fffc);
        cuda.launch_words(&poke, Shape::row(1, 1), stream, &[address, n])?;
    }
    let ended = cuda.wait(stream);
    let said = ended
        .as_ref()
        .err()
        .map(CudaError::to_string)
        .unwrap_or_default();
    lab.check("no address inside faults", ended.is_ok(), said);
    Ok(())
}

/// Makes the reservation, and returns its first address.
fn make(api: &Api, device: i32) -> Result<u64, CudaError> {
    let properties = Properties {
        kind: OF_DEVICE,
        handle_types: 0,
        location_kind: OF_DEVICE,
        location: device,
        metadata: 0,
        flags: [0; 8],
    };
    let access = Access {
        location_kind: OF_DEVICE,
        location: device,
        flags: READ_WRITE,
    };
    let (mut base, mut sink) = (0, 0);
    // SAFETY: places and descriptors live across the calls, and are laid out as the API declares them.
    unsafe {
        api.cuMemAddressReserve(&mut base, RESERVATION, RESERVATION, 0, 0)?;
        api.cuMemCreate(&mut sink, SINK, std::ptr::from_ref(&properties).cast(), 0)?;
        for at in (0..RESERVATION).step_by(SINK) {
            api.cuMemMap(base + at as u64, SINK, 0, sink, 0)?;
        }
        api.cuMemSetAccess(base, RESERVATION, std::ptr::from_ref(&access).cast(), 1)?;
    }
    Ok(base)
}
