//! What the driver says of itself and of the device.

use super::Part;
use crate::cuda::session::{
    COMPUTE_MAJOR, MOST_SHARED, MULTIPROCESSORS, SHARED_PER_SM, SHARED_RESERVED, WARP_SIZE,
};
use crate::cuda::{Session, Shape};
use crate::kernels::PROBE;
use crate::lab::Lab;
use chrono::{DateTime, Utc};
use gridmux_workloads::portable;
use std::time::SystemTime;

pub(super) const PART: Part = Part {
    name: "device",
    about: "what the driver says of itself and of the device, and whether special registers agree",
    usual_s: 1,
    limit_s: 30,
    run,
};

/// Attributes of a device (`CUdevice_attribute`), by the names that documents give them.
const ATTRIBUTES: &[(&str, i32)] = &[
    ("sms", MULTIPROCESSORS),
    ("compute_major", COMPUTE_MAJOR),
    ("compute_minor", 76),
    ("clock_khz", 13),
    ("memory_clock_khz", 36),
    ("memory_bus_bits", 37),
    ("l2_bytes", 38),
    ("threads_per_sm", 39),
    ("blocks_per_sm", 106),
    ("registers_per_sm", 82),
    ("shared_bytes_per_sm", SHARED_PER_SM),
    ("shared_bytes_per_block", MOST_SHARED),
    ("shared_bytes_reserved", SHARED_RESERVED),
    ("copy_engines", 40),
    ("concurrent_kernels", 31),
    ("unified_addressing", 41),
    ("can_map_host_memory", 19),
    ("stream_priorities", 78),
    ("compute_preemption", 90),
    ("virtual_memory_management", 102),
    ("cooperative_launch", 95),
    ("ecc", 32),
    ("kernel_time_limit", 17),
];

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let cuda = lab.cuda;
    let mut version = 0;
    let (mut name, mut bytes, mut free) = ([0; 256], 0, 0);
    // SAFETY: the places live across the calls, and the name has room for 256 bytes.
    unsafe {
        cuda.api.cuDriverGetVersion(&mut version)?;
        cuda.api
            .cuDeviceGetName(name.as_mut_ptr(), 255, cuda.device)?;
        cuda.api.cuMemGetInfo_v2(&mut free, &mut bytes)?;
    }
    let name: Vec<u8> = name
        .iter()
        .take_while(|c| **c != 0)
        .map(|c| c.to_ne_bytes()[0])
        .collect();
    lab.fact("name", String::from_utf8_lossy(&name).into_owned());
    lab.fact("driver_version", version);
    if let Some(version) = kernel_driver() {
        lab.fact("kernel_driver", version);
    }
    let now = DateTime::<Utc>::from(SystemTime::now());
    lab.fact("date", now.format("%Y-%m-%d").to_string());
    lab.fact("memory_bytes", bytes);
    lab.fact("memory_free_bytes", free);
    for (name, attribute) in ATTRIBUTES {
        let value = cuda.attribute(*attribute);
        match value {
            Ok(value) => lab.fact(*name, value),
            Err(error) => lab.skipped(*name, error),
        }
    }
    let highest = cuda.highest_priority()?;
    lab.fact("highest_stream_priority", highest);
    lab.fact("functions_missing", cuda.api.missing());
    specials(lab, cuda)
}

/// Returns the version of NVIDIA's kernel module; `None` where there is none, as over gridmux's own library.
fn kernel_driver() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let is_version =
        |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let version = text.lines().next()?.split_whitespace().find(is_version);
    version.map(str::to_owned)
}

/// Holds special registers against what the driver says.
fn specials(lab: &mut Lab<'_>, cuda: &Session) -> anyhow::Result<()> {
    const ASKED: u32 = 1000;
    let module = cuda.load(&portable(PROBE))?;
    let function = cuda.function(&module, "specials")?;
    let out = cuda.zeroed(256)?;
    let stream = cuda.stream(0)?;
    let shape = Shape {
        shared_bytes: ASKED,
        ..Shape::row(1, 1)
    };
    cuda.launch_words(&function, shape, stream, &[out])?;
    cuda.wait(stream)?;
    let words = cuda.words(out, 4)?;
    let sms = u64::from(cuda.sms()?);
    lab.fact("nsmid", words[0]);
    // Places of workers are found by %smid, so there must be one for each SM.
    lab.check(
        "%nsmid is at least the number of SMs",
        words[0] >= sms,
        format!("{} for {sms}", words[0]),
    );
    let (warp, compiled) = (cuda.attribute(WARP_SIZE)?, words[1]);
    lab.check(
        "a warp has 32 lanes",
        warp == 32 && compiled == 32,
        format!("{warp}, and WARP_SZ is {compiled}"),
    );
    let dynamic = words[2];
    lab.check(
        "%dynamic_smem_size is what the launch asked for",
        dynamic == u64::from(ASKED),
        format!("{dynamic} for {ASKED}"),
    );
    lab.fact("total_smem_size", words[3]);
    Ok(())
}
