//! One admitted submission: what is left to issue, what is in flight, and its status.
//!
//! An operation lives in its client's [`OperationTable`], which is allocated once, when the client joins; so a client
//! can hold at most its own table, and admitting allocates nothing. Parameters of launches are kept apart
//! ([`super::params`]), so that an operation is small.

use super::params::ParamSlot;
use crate::device::{BufferId, DeviceKernelId, Direction};
use crate::dispatch::ids::{OPERATIONS_PER_CLIENT, OperationId};
use crate::dispatch::issuer::transfers::Engine;
use gridmux_bpf::probes::ProbeArgs;
use gridmux_channel::ring::{CompletionStatus, Width};
use gridmux_policy::ids::{DeviceId, KernelKey, RowId, TenantId};
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Nanos;
use gridmux_ptx::forms::Shape;

/// A kernel launch as the client asked for it.
#[derive(Debug, Clone, Copy)]
pub struct LaunchWork {
    /// The row that it runs under.
    pub row: RowId,
    /// The client's kernel handle, for traces.
    pub handle: u32,
    /// Names the kernel by its text, for traces.
    pub key: KernelKey,
    /// Device kernel.
    pub kernel: DeviceKernelId,
    /// The whole grid.
    pub grid: [u32; 3],
    /// Threads per block.
    pub block: [u32; 3],
    /// Dynamic shared memory.
    pub dynamic_shared_bytes: u32,
    /// Blocks in the grid.
    pub blocks: u64,
    /// Blocks handed to the device so far.
    pub issued: u64,
    /// Resources that one block takes of an SM, judged once so that placed and retired blocks cancel.
    pub shape: BlockShape,
    /// What the grid of one piece holds.
    pub covers: Shape,
    /// Its entry has the control block in front of the client's parameters.
    pub has_control: bool,
    /// The client asks for all of its blocks at once.
    pub is_cooperative: bool,
    /// It is a gang, by that or by its kernel ([`Kernel::is_gang`](gridmux_ptx::Kernel::is_gang)), of several blocks.
    pub is_gang: bool,
    /// The client's parameters, copied once.
    pub params: ParamSlot,
    /// What policy and meter know of the launch.
    pub told: Told,
    /// It has begun, and has given way to others since then.
    pub preempted: Option<Nanos>,
    /// Blocks that have started.
    pub started: u64,
    /// Blocks that the device holds at once when it holds nothing else.
    pub wave: u32,
    /// The operation before it in its stream, which was still on the device when this one became active.
    pub after: Option<(OperationId, u64)>,
    /// Lanes that hold slices of it, as bits.
    pub lanes: u32,
    /// Blocks that had started when it was taken back from the policy.
    pub told_before: u64,
    /// Changes of its blocks that were not reported to the policy yet.
    pub unreported: UnreportedBlocks,
}

impl LaunchWork {
    /// Returns how many of its blocks the policy has not been told of before it was taken back; all where it was not.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.blocks - self.told_before
    }

    /// Returns whether it may go to the device in pieces.
    #[must_use]
    pub fn may_be_cut(&self) -> bool {
        self.covers == Shape::Slice && !self.is_cooperative
    }
}

/// What the policy and the meter of shares know of a launch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Told {
    /// Nothing.
    #[default]
    Nothing,
    /// The policy knows of it; the operation before it in its stream has not ended.
    Behind,
    /// Both know of it, and nothing holds up its blocks.
    Ready,
}

/// Changes of a launch's blocks since the policy was last told of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnreportedBlocks {
    /// Blocks that started.
    pub started: u32,
    /// Blocks that ended.
    pub ended: u32,
    /// Sum of the residences of those that ended, in nanoseconds.
    pub ran_ns: u64,
    /// The launch is on the dispatcher's list of those with something to report.
    pub listed: bool,
}

/// A copy between a tenant's buffer and device memory.
#[derive(Debug, Clone, Copy)]
pub struct CopyWork {
    /// Direction.
    pub direction: Direction,
    /// Registered buffer.
    pub buffer: BufferId,
    /// Offset in it.
    pub buffer_offset: u64,
    /// Device address.
    pub address: u64,
    /// Length.
    pub bytes: u64,
    /// Bytes handed to the device so far.
    pub issued: u64,
}

/// A copy from device memory to device memory.
#[derive(Debug, Clone, Copy)]
pub struct DeviceCopyWork {
    /// Device address of the first byte to read.
    pub from: u64,
    /// Device address of the first byte to write.
    pub to: u64,
    /// Length.
    pub bytes: u64,
    /// Bytes handed to the device so far.
    pub issued: u64,
}

/// A fill of device memory with one value.
#[derive(Debug, Clone, Copy)]
pub struct MemsetWork {
    /// Device address.
    pub address: u64,
    /// Length.
    pub bytes: u64,
    /// The value of each element.
    pub value: u32,
    /// The size of an element.
    pub width: Width,
    /// Bytes handed to the device so far.
    pub issued: u64,
}

/// The work of an operation.
#[derive(Debug, Clone, Copy)]
#[allow(
    clippy::large_enum_variant,
    reason = "operations live in a preallocated table"
)]
pub enum Work {
    /// Launch.
    Launch(LaunchWork),
    /// Copy.
    Copy(CopyWork),
    /// Copy on the device.
    DeviceCopy(DeviceCopyWork),
    /// Fill.
    Memset(MemsetWork),
    /// Completes when all before it in its stream has.
    Marker,
    /// Completes when another operation of the same client has, and all before it in its stream.
    Wait {
        /// The other operation, by its sequence number; 0 once it has completed.
        sequence: u64,
    },
    /// Completes when its client has released it, and all before it in its stream has completed.
    Hold {
        /// How many holds of its stream are released when it is; 0 once it is released.
        count: u64,
    },
}

impl Work {
    /// Returns the client's handle of the kernel for traces; [`u32::MAX`] for what is no launch.
    #[must_use]
    pub fn handle(&self) -> u32 {
        match self {
            Self::Launch(launch) => launch.handle,
            _ => u32::MAX,
        }
    }

    /// Returns what moves the bytes of a copy or fill.
    #[must_use]
    pub fn engine(&self) -> Option<Engine> {
        match self {
            Self::Copy(copy) => Some(match copy.direction {
                Direction::ToDevice => Engine::ToDevice,
                Direction::FromDevice => Engine::FromDevice,
            }),
            Self::DeviceCopy(_) | Self::Memset(_) => Some(Engine::OnDevice),
            Self::Launch(_) | Self::Marker | Self::Wait { .. } | Self::Hold { .. } => None,
        }
    }
}

/// How far an operation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Nothing of it has started.
    Waiting,
    /// Its first block, or the first piece of a copy, started at `start`; what has ended of it ended by `end`.
    Begun {
        /// Device time.
        start: Nanos,
        /// Device time.
        end: Nanos,
    },
    /// Nothing of it is left. It completes when its virtual time has come and its client has room for the completion.
    Over {
        /// Device time at which it started, if anything of it was on the device.
        start: Option<Nanos>,
        /// Device time.
        end: Nanos,
    },
}

/// One admitted submission.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// The client's stream.
    pub stream: u16,
    /// Order of admission over all clients, from 1.
    pub sequence: u64,
    /// The client's own name for it.
    pub cookie: u64,
    /// Number of its client, for traces.
    pub client: u32,
    /// Wall time at which the client says it submitted (`CLOCK_MONOTONIC`), clamped.
    pub submitted_wall_ns: u64,
    /// Wall time at which its first slice was handed to the device; 0 before.
    pub issued_wall_ns: u64,
    /// Device time of admission.
    pub admitted: Nanos,
    /// How far it has come.
    pub stage: Stage,
    /// Slices (or copies) in flight.
    pub in_flight: u16,
    /// Its status; `Ok` until a piece of it fails.
    pub status: CompletionStatus,
    /// Its work.
    pub work: Work,
}

impl Operation {
    /// Returns what probes say of it at a time, which is of the device but where a probe says otherwise.
    #[must_use]
    pub fn probe_args(&self, tenant: TenantId, device: DeviceId, time_ns: u64) -> ProbeArgs {
        let key = match &self.work {
            Work::Launch(launch) => launch.key.0,
            _ => 0,
        };
        ProbeArgs {
            tenant: tenant.0,
            device: device.0,
            kernel: self.work.handle(),
            seq: self.sequence,
            time_ns,
            client: self.client,
            key,
        }
    }

    /// Returns whether nothing of it is left to hand to the device.
    #[must_use]
    pub fn is_issued(&self) -> bool {
        if self.status != CompletionStatus::Ok {
            return true;
        }
        match &self.work {
            Work::Launch(launch) => launch.issued >= launch.blocks,
            Work::Copy(copy) => copy.issued >= copy.bytes,
            Work::DeviceCopy(copy) => copy.issued >= copy.bytes,
            Work::Memset(memset) => memset.issued >= memset.bytes,
            Work::Marker => true,
            Work::Wait { sequence } => *sequence == 0,
            Work::Hold { count } => *count == 0,
        }
    }

    /// Takes note that a block or piece of it started; returns whether that was the first.
    pub fn begin(&mut self, at: Nanos) -> bool {
        let is_first = self.stage == Stage::Waiting;
        if is_first {
            let end = self.admitted;
            self.stage = Stage::Begun { start: at, end };
        }
        is_first
    }

    /// Takes note of a piece that was handed to the device, at a wall time.
    pub fn note_issued_piece(&mut self, wall_ns: u64) {
        self.in_flight += 1;
        if self.issued_wall_ns == 0 {
            self.issued_wall_ns = wall_ns;
        }
    }

    /// Takes note of a piece that ran from `from` to `to`.
    pub fn end_piece(&mut self, from: Nanos, to: Nanos) {
        self.begin(from);
        if let Stage::Begun { start, end } = &mut self.stage {
            (*start, *end) = ((*start).min(from), (*end).max(to));
        }
    }

    /// Takes note that nothing of it is left; returns whether that is new.
    pub fn end(&mut self) -> bool {
        let (start, end) = match self.stage {
            Stage::Waiting => (None, self.admitted),
            Stage::Begun { start, end } => (Some(start), end),
            Stage::Over { .. } => return false,
        };
        self.stage = Stage::Over { start, end };
        true
    }

    /// Returns when it started and ended, as far as it has come; what never started did so at its end.
    #[must_use]
    pub fn span(&self) -> (Nanos, Nanos) {
        match self.stage {
            Stage::Waiting => (self.admitted, self.admitted),
            Stage::Begun { start, end } => (start, end),
            Stage::Over { start, end } => (start.unwrap_or(end), end),
        }
    }

    /// Returns whether it can be completed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.in_flight == 0 && self.is_issued()
    }
}

/// A client's operations: fixed slots and a stack of free ones.
pub struct OperationTable {
    slots: Box<[Option<Operation>]>,
    free: Vec<OperationId>,
}

impl Default for OperationTable {
    fn default() -> Self {
        let ids = (0..OPERATIONS_PER_CLIENT)
            .rev()
            .map(|i| OperationId(u16::try_from(i).unwrap_or(u16::MAX)));
        Self {
            slots: vec![None; OPERATIONS_PER_CLIENT].into_boxed_slice(),
            free: ids.collect(),
        }
    }
}

impl OperationTable {
    /// Returns whether another operation fits.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Returns how many operations are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an operation; `None` when the table is full.
    pub fn insert(&mut self, operation: &Operation) -> Option<OperationId> {
        let id = self.free.pop()?;
        self.slots[usize::from(id.0)] = Some(*operation);
        Some(id)
    }

    /// Returns the operation, if it is still held.
    #[must_use]
    pub fn get(&self, id: OperationId) -> Option<&Operation> {
        self.slots.get(usize::from(id.0))?.as_ref()
    }

    /// Returns the operation, if it is still held, to be changed.
    pub fn get_mut(&mut self, id: OperationId) -> Option<&mut Operation> {
        self.slots.get_mut(usize::from(id.0))?.as_mut()
    }

    /// Drops an operation.
    pub fn remove(&mut self, id: OperationId) {
        if self.slots[usize::from(id.0)].take().is_some() {
            // The stack was made with room for every slot, so this never allocates.
            self.free.push(id);
        }
    }

    /// Returns the sequence number of the operation that was admitted under a cookie, of the newest if the client uses
    /// one twice.
    #[must_use]
    pub fn by_cookie(&self, cookie: u64) -> Option<u64> {
        let held = self.slots.iter().flatten();
        held.filter(|operation| operation.cookie == cookie)
            .map(|operation| operation.sequence)
            .max()
    }

    /// Returns whether the operation with that sequence number is still held.
    #[must_use]
    pub fn holds(&self, sequence: u64) -> bool {
        let mut held = self.slots.iter().flatten();
        held.any(|operation| operation.sequence == sequence)
    }

    /// Returns the ids of all held operations.
    pub fn ids(&self) -> impl Iterator<Item = OperationId> + '_ {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.is_some())
            .filter_map(|(i, _)| Some(OperationId(u16::try_from(i).ok()?)))
    }
}
