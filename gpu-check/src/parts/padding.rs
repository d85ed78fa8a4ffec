//! Caps of what is resident on an SM by padding: dynamic shared memory that a kernel does not use. How many blocks an
//! SM holds by it, as the driver computes and as stamps show, and what it costs a kernel that lives on the L1 cache,
//! which is of the same memory.
//!
//! Rules: a cap that holds more blocks than the driver says fails the run, because gridmux would rely on it; how much
//! the L1 suffers is a figure. The same number of blocks on an SM without padding is what a padded kernel is held
//! against, where an SM held as many, so that only the cache differs.
//!
//! It takes about 3 s on an H200.

use super::Part;
use crate::cuda::session::{SHARED_PER_SM, SHARED_RESERVED};
use crate::cuda::{Session, Shape};
use crate::kernels::Successor;
use crate::lab::Lab;
use crate::stamps::{Blocks, Stamp, Stamper, Stamps, float, most_on_an_sm};

pub(super) const PART: Part = Part {
    name: "padding",
    about: "caps of resident blocks by dynamic shared memory, and what they cost in L1",
    usual_s: 3,
    limit_s: 30,
    run,
};

/// Caps that are asked about, in blocks of an SM.
const CAPS: [u32; 7] = [1, 2, 3, 4, 8, 12, 16];

/// Threads of a block, of which an SM holds more than the greatest cap.
const THREADS: u32 = 64;

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    lab.ask("caps", caps);
    lab.ask("cost in L1", cost);
    Ok(())
}

/// Returns the most dynamic shared memory with which an SM holds `cap` blocks of a kernel without other shared
/// memory.
fn padding(cuda: &Session, cap: u32) -> anyhow::Result<u32> {
    // Shared memory is given in units of this (CUDA C++ Programming Guide, compute capabilities 8.x and 9.0).
    const UNIT: u32 = 128;
    let of_sm = cuda.attribute(SHARED_PER_SM)?.unsigned_abs();
    // Each block has some for the system.
    let reserved = cuda.attribute(SHARED_RESERVED).map_or(0, i32::unsigned_abs);
    let bytes = (of_sm / cap / UNIT * UNIT).saturating_sub(reserved);
    Ok(bytes.min(cuda.most_shared()?))
}

/// Tells how many blocks an SM holds by padding.
fn caps(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let cuda = lab.cuda;
    let stamper = Stamper::new(cuda, 0, Successor::AtEnd)?;
    let stream = cuda.stream(0)?;
    let us = lab.scale.choose(5, 50);
    let plain = Blocks::scattered(1, THREADS, us);
    let full = stamper.per_sm(plain)?;
    for cap in CAPS.into_iter().filter(|cap| *cap < full) {
        let padded = plain.with_shared(padding(cuda, cap)?);
        let due = stamper.per_sm(padded)?;
        let count = cuda.sms()? * due * lab.scale.choose(3, 8);
        let stamps = Stamps::new(cuda, count.into())?;
        stamper.launch(padded.times(count), stream, stamps.address)?;
        cuda.wait(stream)?;
        let seen = most_on_an_sm(&stamps.read()?);
        let bytes = padded.shared_bytes;
        let name = format!("a cap of {cap} blocks by {bytes} bytes");
        lab.figure(
            format!("{name}: as the driver computes"),
            f64::from(due),
            "blocks/SM",
        );
        lab.figure(
            format!("{name}: as stamps show"),
            f64::from(seen),
            "blocks/SM",
        );
        lab.check(
            format!("{name}: an SM holds no more"),
            due == cap && seen <= due,
            format!("{seen}, by the driver {due}"),
        );
    }
    Ok(cuda.end_stream(stream)?)
}

/// Tells what padding costs blocks that read the same data again and again, by the data of an SM's blocks.
fn cost(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let cuda = lab.cuda;
    let stamper = Stamper::rereading(cuda)?;
    let stream = cuda.stream(0)?;
    for total_kb in lab.scale.choose(&[16][..], &[16, 32, 64, 128, 192]) {
        for cap in lab.scale.choose(&[2][..], &[1, 2, 4, 8, 16]) {
            let data = total_kb * 1024 / cap;
            let name = format!("{cap} blocks on an SM read {total_kb} KB");
            let (plain, resident) = time(lab, &stamper, stream, (*cap, data, 0))?;
            let bytes = padding(cuda, *cap)?;
            let (padded, capped) = time(lab, &stamper, stream, (*cap, data, bytes))?;
            lab.figure(format!("{name}: a block's time"), plain, "us");
            for (what, most) in [("without padding", resident), ("padded", capped)] {
                let name = format!("{name}, {what}: as stamps show");
                lab.figure(name, f64::from(most), "blocks/SM");
            }
            // Otherwise the two would differ by more than the cache.
            match resident == capped {
                true => lab.figure(format!("{name}: padded"), padded / plain, "of that"),
                false => lab.skipped(
                    format!("{name}: padded"),
                    "an SM did not hold as many blocks without padding as with it",
                ),
            }
        }
    }
    Ok(cuda.end_stream(stream)?)
}

/// Returns the median time of a block in microseconds and the most blocks that an SM held at once, of a launch that
/// gives each SM a number of blocks, each of which reads a number of bytes of its own again and again.
fn time(
    lab: &Lab<'_>,
    stamper: &Stamper<'_>,
    stream: u64,
    (per_sm, data, shared_bytes): (u32, u32, u32),
) -> anyhow::Result<(f64, u32)> {
    let cuda = lab.cuda;
    let blocks = cuda.sms()? * per_sm;
    let memory = cuda.zeroed(u64::from(data) * u64::from(blocks))?;
    let stamps = Stamps::new(cuda, blocks.into())?;
    let shape = Shape {
        shared_bytes,
        ..Shape::row(blocks, THREADS)
    };
    let turns = lab.scale.choose(4, 200);
    let words = [stamps.address, memory, u64::from(data) / 8, turns];
    let (mut times, mut most) = (Vec::new(), 0);
    for _ in 0..lab.scale.choose(1, 5) {
        cuda.launch_words(&stamper.function, shape, stream, &words)?;
        cuda.wait(stream)?;
        let us = |stamp: &Stamp| float(stamp.end.saturating_sub(stamp.start)) / 1e3;
        let stamps = stamps.read()?;
        times.extend(stamps.iter().map(us));
        most = most.max(most_on_an_sm(&stamps));
    }
    cuda.free(memory)?;
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied().unwrap_or(f64::NAN);
    Ok((median, most))
}
