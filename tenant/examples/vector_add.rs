//! A tenant in one page: adds two vectors on the shared GPU.
//!
//! With a service running (`gridmux serve --run-dir /tmp/gridmux --tenant me`):
//!
//! ```text
//! cargo run -p gridmux-tenant --example vector_add -- /tmp/gridmux/gridmux.sock workloads/ptx/vecadd.ptx
//! ```

use gridmux_tenant::{Args, ClientError, Gpu};
use std::process::ExitCode;

const ELEMENTS: u32 = 10_000;
const BLOCK: u32 = 256;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, socket, ptx] = arguments.as_slice() else {
        return Err("usage: vector_add SOCKET vecadd.ptx".into());
    };
    let largest = add(socket, &std::fs::read(ptx)?)?;
    println!("{ELEMENTS} sums, the largest is {largest}");
    Ok(())
}

/// Adds `0, 1, 2, …` to itself on the device and returns the largest sum.
fn add(socket: &str, ptx: &[u8]) -> Result<f32, ClientError> {
    let gpu = Gpu::connect(socket)?;
    println!("{} as tenant {:?}", gpu.facts().name, gpu.welcome().tenant);
    let kernel = gpu.module(ptx)?.kernel("vecadd")?;
    let input: Vec<u8> = (0..ELEMENTS)
        .flat_map(|i| (i as f32).to_le_bytes())
        .collect();
    let bytes = input.len() as u64;
    let (a, b, sums) = (gpu.alloc(bytes)?, gpu.alloc(bytes)?, gpu.alloc(bytes)?);
    let stream = gpu.stream()?;
    stream.copy_to(&a, 0, &input)?;
    stream.copy_to(&b, 0, &input)?;
    let args = Args::new()
        .buffer(&a)
        .buffer(&b)
        .buffer(&sums)
        .u32(ELEMENTS);
    let timing = stream
        .launch(&kernel, ELEMENTS.div_ceil(BLOCK), BLOCK, 0, &args)?
        .wait()?;
    println!(
        "the kernel ran for {} ns of device time",
        timing.end_ns - timing.start_ns
    );
    let mut output = vec![0; input.len()];
    stream.copy_from(&sums, 0, &mut output)?;
    let values = output
        .chunks_exact(4)
        .map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    Ok(values.fold(0.0, f32::max))
}
