//! What device code calls without defining it: `vprintf`, `malloc`, `free`, `__assertfail` (CUDA C++ Programming
//! Guide, sections "Formatted Output", "Dynamic Global Memory Allocation" and "Assertion").
//!
//! A call passes its arguments as to any function; the operation in the callee's place reads them from where its
//! frame would begin and leaves its result there.
//! The heap of a domain is one allocation that holds its own bookkeeping: a header with the end of what was ever
//! given out and one list of free pieces for each power of two. `malloc` and `free` are atomic operations on that
//! header, so that they take part in the model's order of atomic operations.
//!
//! Rules: bad pointers given to `free` are ignored; text that a kernel prints is bounded by who collects it.

use crate::exec::cx::{Cx, Direction, Space};
use crate::exec::isa::{handler, lane_fn};
use crate::exec::lanes::{active, commit, read};
use crate::exec::lower::{Class, Draft, Lower, without_lanes};
use crate::exec::memory::access::{AUX_GLOBAL, for_each_space, host, place};
use crate::exec::memory::log::Target;
use crate::exec::op::{Kind, NONE, Op};
use crate::exec::warp::{Step, StepContext, Warp};
use crate::exec::windows::{LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use crate::fault::FaultKind;
use crate::text::{self, Value};

/// Bytes of a domain's heap, as `cudaLimitMallocHeapSize` is by default.
pub(crate) const HEAP_BYTES: u64 = 8 << 20;

/// Longest string that is read from device memory.
const MAX_STRING_BYTES: u64 = 4096;
/// Bytes before each piece: its class, and a mark that tells whether it is given out.
const PIECE_HEADER_BYTES: u64 = 16;
/// Bytes of the heap's header: end, then the heads of the lists of free pieces.
const HEAP_HEADER_BYTES: u64 = 256;
/// Least class: pieces of 32 bytes.
const LEAST_CLASS: u64 = 5;
const GIVEN_OUT: u64 = 0x6769_7665_6e20_6f75;

/// What lanes of a warp printed in one step.
#[derive(Debug, Default)]
pub(crate) struct StepOutput {
    pub(crate) text: String,
    /// Bytes that were cut off.
    pub(crate) lost_bytes: u64,
    /// Bytes that were looked at or made.
    pub(crate) work: u64,
}

/// A function of the device runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runtime {
    Print,
    Assert,
    Malloc,
    Free,
}

impl Runtime {
    /// Returns the function of that name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        match name {
            "vprintf" => Some(Self::Print),
            "__assertfail" => Some(Self::Assert),
            "malloc" => Some(Self::Malloc),
            "free" => Some(Self::Free),
            _ => None,
        }
    }

    /// Returns whether it works on the heap.
    pub(crate) fn uses_heap(self) -> bool {
        matches!(self, Self::Malloc | Self::Free)
    }
}

/// Returns the operation of `vprintf` and `__assertfail`: arguments stand `aux` bytes behind `r[3]`, the result `imm`.
pub(crate) fn lower_print(l: &mut Lower<'_>, what: Runtime, returns_at: u32) -> Draft {
    let (base, bias) = l.outgoing();
    let kind = if what == Runtime::Print {
        Kind::Print
    } else {
        Kind::Assert
    };
    without_lanes(&[NONE, NONE, NONE, base])
        .kind(kind)
        .imm(i64::from(returns_at))
        .aux(bias)
}

/// Returns the operation of `malloc` and `free` on the heap at `heap`, from and to the pair of slots `scratch`.
pub(crate) fn lower_heap(what: Runtime, heap: u64, scratch: u16) -> Draft {
    let result = if what == Runtime::Malloc {
        scratch
    } else {
        NONE
    };
    let code = u32::from(what == Runtime::Free);
    Draft::alu(handler::<Heap>(), Class::Memory, &[result, scratch])
        .kind(Kind::Memory)
        .imm(heap.cast_signed())
        .aux(AUX_GLOBAL | code << 16)
}

lane_fn!(
    /// `r`: result or none, size or pointer; `imm`: the heap's address; `aux` above the space: 1 for `free`.
    Heap, |cx, op| heap(cx, op)
);

fn heap(cx: &mut Cx<'_>, op: &Op) {
    let start = op.imm.cast_unsigned();
    let code = op.aux >> 16;
    for_each_space(cx, op, 8, Direction::Atomic, |cx, checked| {
        let b = read::<u64>(cx, op.r[1]);
        let (mask, base) = (cx.mask, checked.base);
        if cx.access.space == Space::Global
            && let Some(log) = cx.log.as_mut()
        {
            let target = (op.r[0] != NONE).then_some(Target {
                slot: op.r[0],
                wide: true,
            });
            log.lanes(mask, 8, on_heap, code, target, false, |lane| {
                (host(base, start), b[lane], start)
            });
            return;
        }
        let mut out = [0_u64; 32];
        for lane in active(mask) {
            let at = place(cx, checked, lane, 0);
            // SAFETY: the heap is one live allocation that begins at the checked address.
            out[lane] = unsafe { on_heap(at, b[lane], start, code) };
        }
        if op.r[0] != NONE {
            commit(cx, op.r[0], &out);
        }
    });
}

/// Returns a [`crate::exec::memory::log::LaneFn`]: `malloc` of `b` bytes, or with code 1 `free` of pointer `b`; `start`
/// is the heap's device address.
unsafe fn on_heap(at: *mut u8, b: u64, start: u64, code: u32) -> u64 {
    let word = |offset: u64| {
        at.wrapping_add(usize::try_from(offset).unwrap_or(0))
            .cast::<u64>()
    };
    // SAFETY: every offset used below is a multiple of 8 and less than `HEAP_BYTES`, the length of the allocation
    // that begins at `at`: lists and ends are reduced modulo that before use, because the kernel may overwrite them.
    let load = |offset: u64| unsafe { word(offset).read_unaligned() };
    // SAFETY: as above.
    let store = |offset: u64, value: u64| unsafe { word(offset).write_unaligned(value) };
    let sane = |offset: u64| {
        let inside = (HEAP_HEADER_BYTES..=HEAP_BYTES - PIECE_HEADER_BYTES).contains(&offset);
        inside && offset.is_multiple_of(16)
    };
    if code == 1 {
        let piece = b.wrapping_sub(start).wrapping_sub(PIECE_HEADER_BYTES);
        if sane(piece) && load(piece + 8) == GIVEN_OUT {
            let class = load(piece).clamp(LEAST_CLASS, 23);
            store(piece + 8, load(8 * class));
            store(8 * class, piece);
        }
        return 0;
    }
    let Some(bytes) = b
        .checked_add(PIECE_HEADER_BYTES)
        .filter(|n| *n <= HEAP_BYTES / 2)
    else {
        return 0;
    };
    let class = u64::from(bytes.next_power_of_two().trailing_zeros()).max(LEAST_CLASS);
    let mut piece = load(8 * class);
    if sane(piece) {
        store(8 * class, load(piece + 8));
    } else {
        piece = load(0).max(HEAP_HEADER_BYTES);
        let end = piece.saturating_add(1 << class);
        if !sane(piece) || end > HEAP_BYTES {
            return 0;
        }
        store(0, end);
    }
    store(piece, class);
    store(piece + 8, GIVEN_OUT);
    start + piece + PIECE_HEADER_BYTES
}

/// One lane's view of memory, for strings and argument lists.
struct Reader<'a> {
    around: &'a StepContext<'a>,
    thread: usize,
}

impl Reader<'_> {
    /// Returns the host address of a generic address and the bytes that follow it in its memory.
    fn find(&self, address: u64) -> Option<(*const u8, u64)> {
        let block = self.around.block;
        let own = |base: *mut u8, start: u64, size: u32| {
            let offset = address - start;
            let left = u64::from(size).checked_sub(offset)?;
            let at = base.wrapping_add(usize::try_from(offset).ok()?);
            Some((at.cast_const(), left))
        };
        if address.wrapping_sub(SHARED_WINDOW) < WINDOW_BYTES {
            return own(block.shared, SHARED_WINDOW, block.shared_bytes);
        }
        if address.wrapping_sub(LOCAL_WINDOW) < WINDOW_BYTES {
            let thread = self.thread * block.local_bytes as usize;
            return own(
                block.local.wrapping_add(thread),
                LOCAL_WINDOW,
                block.local_bytes,
            );
        }
        let allocation = self.around.domain.find(address)?;
        let bias = self.around.domain.host_bias();
        let at = bias.wrapping_add(usize::try_from(address).ok()?);
        Some((at.cast_const(), allocation.end() - address))
    }

    fn number(&self, address: u64, bytes: usize) -> Option<u64> {
        let (at, left) = self.find(address)?;
        if left < bytes as u64 {
            return None;
        }
        let mut word = [0; 8];
        // SAFETY: `find` gave an address with `left` bytes behind it, which are enough.
        unsafe { std::ptr::copy_nonoverlapping(at, word.as_mut_ptr(), bytes) };
        Some(u64::from_le_bytes(word))
    }

    /// Returns the string at an address, cut behind its first `characters` characters or later.
    fn string(&self, address: u64, characters: usize) -> String {
        let Some((at, left)) = self.find(address) else {
            return format!("<no string at {address:#x}>");
        };
        let mut bytes = Vec::new();
        let most = (characters.saturating_mul(4) as u64).min(MAX_STRING_BYTES);
        for n in 0..usize::try_from(left.min(most)).unwrap_or(0) {
            // SAFETY: `n` is less than the bytes that `find` saw behind the address.
            match unsafe { *at.add(n) } {
                0 => break,
                byte => bytes.push(byte),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Warp {
    /// Executes `vprintf`: each lane's text in ascending order; the number of arguments is the result.
    #[cold]
    pub(crate) fn print(&mut self, op: &Op, lanes: u32, mut around: StepContext<'_>) -> Step {
        let bases = read::<u32>(&self.cx(lanes, around.again()), op.r[3]);
        let mut said = StepOutput::default();
        for lane in active(lanes) {
            let thread = self.index as usize * 32 + lane;
            let reader = Reader {
                around: &around,
                thread,
            };
            let frame = LOCAL_WINDOW + u64::from(bases[lane]) + u64::from(op.aux);
            let format = reader.number(frame, 8).unwrap_or(0);
            let mut next = reader.number(frame + 8, 8).unwrap_or(0);
            let mut count = 0_u64;
            let template = reader.string(format, usize::MAX);
            let cost = text::format(&template, &mut said.text, |value| {
                let bytes = value.bytes();
                next = next.next_multiple_of(bytes as u64);
                let word = reader.number(next, bytes)?;
                next += bytes as u64;
                count += 1;
                Some(match value {
                    Value::Text(most) => text::Argument::Text(reader.string(word, most)),
                    _ => text::Argument::Word(word),
                })
            });
            said.lost_bytes += cost.lost_bytes;
            said.work += cost.work;
            let result = frame + op.imm.cast_unsigned();
            if let Some((at, left)) = reader.find(result)
                && left >= 4
            {
                // SAFETY: `find` saw at least four bytes of the thread's own local memory there.
                unsafe {
                    at.cast_mut()
                        .cast::<u64>()
                        .cast::<u32>()
                        .write_unaligned(low(count))
                };
            }
        }
        self.said = Some(said);
        self.pc += 1;
        Step::Printed
    }

    /// Executes `__assertfail`: the fault of the first lane.
    #[cold]
    pub(crate) fn assert(&mut self, op: &Op, lanes: u32, mut around: StepContext<'_>) -> Step {
        let bases = read::<u32>(&self.cx(lanes, around.again()), op.r[3]);
        let lane = lanes.trailing_zeros() as usize & 31;
        let reader = Reader {
            around: &around,
            thread: self.index as usize * 32 + lane,
        };
        // void __assertfail(const char *message, const char *file, unsigned line, const char *function, size_t).
        let frame = LOCAL_WINDOW + u64::from(bases[lane]) + u64::from(op.aux);
        let string = |at: u64| reader.string(reader.number(frame + at, 8).unwrap_or(0), usize::MAX);
        let line = reader.number(frame + 16, 4).unwrap_or(0);
        let (message, file, function) = (string(0), string(8), string(24));
        self.said = Some(StepOutput {
            text: format!("`{message}` in {function}, {file}:{line}"),
            ..StepOutput::default()
        });
        self.fault(FaultKind::Assertion, lanes)
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a count of arguments is small"
)]
fn low(count: u64) -> u32 {
    count as u32
}
