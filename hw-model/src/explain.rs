//! What a fault's message names: the instruction, the thread, what lies nearest, and who waits for whom.
//!
//! Rule: nothing here runs unless a kernel went wrong.

use crate::config::WARP_LANES;
use crate::exec::{Block, RawFault, Warp};
use crate::fault::{Fault, FaultKind, FaultSpace};
use crate::kernel::{Kernel, Origin};
use crate::memory::{Domain, DomainId, Memory, Nearest};
use std::fmt::Write;
use std::sync::Arc;

/// Places that a deadlock's note lists.
const MOST_PLACES: usize = 12;

/// Returns a fault with everything that its message names.
#[cold]
pub(crate) fn dress(
    raw: RawFault,
    kernel: &Kernel,
    block: &Block,
    warp: &Warp,
    domain: &Domain,
) -> Box<Fault> {
    // A fault of an operation names its lane; what concerns the whole warp names where it waits.
    let waits = matches!(
        raw.kind,
        FaultKind::BarrierDeadlock
            | FaultKind::BudgetExceeded { .. }
            | FaultKind::InstructionBudgetExceeded { .. }
    );
    let (pc, lane) = if waits {
        warp.place()
    } else {
        (warp.pc, raw.lane)
    };
    let origin = origin(kernel, pc);
    let [x, y, _] = block.env.ntid.map(|n| n.max(1));
    let thread = warp.index * WARP_LANES + lane;
    let space = match raw.kind {
        FaultKind::OutOfBounds { space, .. } | FaultKind::Misaligned { space, .. } => Some(space),
        _ => None,
    };
    let is_global = matches!(space, Some(FaultSpace::Global | FaultSpace::Constant));
    let address = raw.address.filter(|_| is_global);
    let nearest = address.map(|address| domain.nearest(address));
    let own_memory = match space {
        Some(FaultSpace::Shared) => Some(format!(
            "the block has {} bytes of shared memory",
            block.env.shared_bytes
        )),
        Some(FaultSpace::Local) => Some(format!(
            "the thread has {} bytes of local memory",
            block.env.local_bytes
        )),
        _ => None,
    };
    Box::new(Fault {
        kernel: kernel.name.clone(),
        block: block.env.ctaid,
        thread: [thread % x, thread / x % y, thread / (x * y)],
        function: origin.function.clone(),
        ptx_line: origin.line,
        source_line: origin.source_line,
        source_file: origin
            .source_line
            .and_then(|(file, _)| source_file(kernel, file)),
        mnemonic: origin.mnemonic.clone(),
        address: raw.address,
        owner: nearest.and_then(|n| owner(kernel, n)),
        nearest,
        lies_in: None,
        partition: None,
        note: warp.said().map(Into::into).or(own_memory.map(Into::into)),
        kind: raw.kind,
    })
}

fn origin(kernel: &Kernel, pc: u32) -> &Origin {
    &kernel.origins[(pc as usize).min(kernel.origins.len() - 1)]
}

/// Returns the name that a `.file` directive gives to a number.
pub(crate) fn source_file(kernel: &Kernel, number: u32) -> Option<Arc<str>> {
    let known = kernel.files.iter().find(|(n, _)| *n == number)?;
    Some(known.1.clone())
}

/// Says whose a bad global address is: in whose domain it lies, when it is another one than the launch's own, and in
/// which partition.
#[cold]
pub(crate) fn attribute(fault: &mut Fault, memory: &Memory, own: DomainId) {
    use FaultSpace::{Constant, Global};
    let global = matches!(
        fault.kind,
        FaultKind::OutOfBounds {
            space: Global | Constant,
            ..
        } | FaultKind::Misaligned {
            space: Global | Constant,
            ..
        }
    );
    let Some(address) = fault.address.filter(|_| global) else {
        return;
    };
    let domain = memory.domain_at(address);
    fault.lies_in = domain.filter(|domain| *domain != own);
    fault.partition = domain.and_then(|domain| memory.partition_at(domain, address));
}

/// Returns the name of the module's variable that the nearest allocation is, if it is one.
fn owner(kernel: &Kernel, nearest: Nearest) -> Option<Box<str>> {
    let start = nearest.0?.start;
    let variable = kernel.variables.iter().find(|v| v.address == start)?;
    Some(variable.name.as_str().into())
}

/// Returns which barriers are incomplete, and who waits where.
#[cold]
pub(crate) fn deadlock_note<'a>(
    block: &Block,
    kernel: &Kernel,
    warps: impl Iterator<Item = &'a Warp>,
) -> Box<str> {
    let mut note = String::new();
    for (id, arrived, expected) in block.incomplete() {
        let separator = if note.is_empty() { "" } else { ", " };
        let _ = match expected {
            Some(expected) => write!(
                note,
                "{separator}barrier {id} has {arrived} of {expected} threads"
            ),
            None => write!(
                note,
                "{separator}barrier {id} has {arrived} threads and waits for every thread left"
            ),
        };
    }
    // Warps that wait at the same places are named together.
    let mut places: Vec<(u32, Option<u8>, u32, u32)> = Vec::new();
    for warp in warps {
        warp.waiting(|pc, barrier, lanes| {
            let threads = lanes.count_ones();
            match places.iter_mut().find(|p| p.0 == pc && p.1 == barrier) {
                Some(place) => place.2 += threads,
                None => places.push((pc, barrier, threads, warp.index)),
            }
        });
    }
    for (pc, barrier, threads, warp) in places.iter().take(MOST_PLACES) {
        let origin = origin(kernel, *pc);
        let _ = match barrier {
            Some(id) => write!(note, "; {threads} threads wait at barrier {id}"),
            None => write!(note, "; {threads} threads wait for lanes of their warp"),
        };
        let (line, mnemonic) = (origin.line, &origin.mnemonic);
        let _ = write!(note, " at line {line} ({mnemonic}, first in warp {warp})");
    }
    if places.len() > MOST_PLACES {
        let _ = write!(note, "; and at {} more places", places.len() - MOST_PLACES);
    }
    note.into()
}
