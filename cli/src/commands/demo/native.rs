//! A role's *native* time: the same program alone on the bare modelled device, without mediator.
//!
//! Rule: same workload, inputs, streams and launches as in the phases, and its results are checked alike.

use super::phase::style;
use super::roles::Role;
use crate::failure::Failure;
use anyhow::{Context, anyhow};
use gridmux_mediator::device::model::bare::{BareDevice, BareStream};
use gridmux_workloads::{Arg, Case, Role as BufferRole, Size, by_name};
use indicatif::{MultiProgress, ProgressBar};

/// Memory of the program, several times what its buffers take.
const MEMORY_BYTES: u64 = 1 << 30;
/// Seed of the inputs, as `gridmux workload run` has it by default.
const SEED: u64 = 1;

/// Result of a native run.
pub(super) struct Native {
    /// Role.
    pub(super) name: &'static str,
    /// Every result was right.
    pub(super) verified: bool,
    /// From its start to its last launch's end, device clock.
    pub(super) duration_ns: u64,
}

/// A stream's buffers that the kernel writes: address and length.
type Outputs = Vec<(u64, usize)>;

/// Runs a role on the bare device; `None` where the device is no model.
pub(super) fn run(
    role: &Role,
    device: &str,
    sms: Option<u16>,
    bars: &MultiProgress,
) -> Result<Option<Native>, Failure> {
    let Some(name) = device.strip_prefix("model:") else {
        return Ok(None);
    };
    let workload = by_name(role.workload);
    let workload = workload.ok_or_else(|| anyhow!("there is no workload {}", role.workload))?;
    let mut params = workload.params(Size::Small, SEED);
    params.elements = role.elements;
    let case = workload.case_with(params)?;
    let mut bare = BareDevice::open(name, sms, MEMORY_BYTES).context("the bare device")?;
    let mut streams = Vec::new();
    let mut outputs = Vec::new();
    let kernel = bare.load(case.ptx.as_bytes(), case.entry)?;
    for _ in 0..role.streams {
        let (buffers, written, restored) = place(&mut bare, &case)?;
        outputs.push(written);
        streams.push(BareStream {
            kernel: kernel.clone(),
            grid: case.grid,
            block: case.block,
            dynamic_shared_bytes: case.dynamic_shared_bytes,
            params: case.pack_params(&buffers),
            restored,
            ahead: 1,
            most: role.launches,
        });
    }
    let bar = bars.add(ProgressBar::new(role.launches).with_style(style()?));
    bar.set_prefix(format!("{} native", role.name));
    bar.set_message(role.name);
    let done = bare.run(&streams, role.launches, |ended| bar.set_position(ended))?;
    bar.finish();
    Ok(Some(Native {
        name: role.name,
        verified: is_right(&bare, &case, &outputs)?,
        duration_ns: done.duration_ns(),
    }))
}

/// Places a stream's buffers: the addresses of all, those that the kernel writes, and those that it reads and writes
/// with what they hold before each launch.
#[allow(clippy::type_complexity, reason = "three lists of one loop")]
fn place(
    bare: &mut BareDevice,
    case: &Case,
) -> Result<(Vec<u64>, Outputs, Vec<(u64, Vec<u8>)>), Failure> {
    let (mut addresses, mut written, mut restored) = (Vec::new(), Vec::new(), Vec::new());
    for arg in &case.args {
        let Arg::Buffer { bytes, role } = arg else {
            continue;
        };
        let address = bare.place(bytes)?;
        addresses.push(address);
        if *role != BufferRole::In {
            written.push((address, bytes.len()));
        }
        if *role == BufferRole::InOut {
            restored.push((address, bytes.clone()));
        }
    }
    Ok((addresses, written, restored))
}

/// Returns whether the outputs of every stream are what the host reference expects.
fn is_right(bare: &BareDevice, case: &Case, outputs: &[Outputs]) -> Result<bool, Failure> {
    for buffers in outputs {
        let mut read = Vec::new();
        for (address, length) in buffers {
            let mut bytes = vec![0; *length];
            bare.read(*address, &mut bytes)?;
            read.push(bytes);
        }
        if case.verify(&read).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}
