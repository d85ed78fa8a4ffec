//! The device thread: obeys commands and lets virtual time pass under permits.

use super::cpu_budget::{CpuBudget, processor_time};
use super::{CHUNK_BYTES, Chunk, Shared, State};
use crate::backoff::Backoff;
use crate::device::{
    Command, CopyCommand, DeviceCopyCommand, Direction, LaunchCommand, MemsetCommand, Outcome,
    PARAM_BYTES, Report, Tag,
};
use crate::waker::Waker;
use gridmux_channel::ring::CompletionStatus;
use gridmux_hw_model::fault::FaultKind;
use gridmux_hw_model::launch::{Copy, CopyEngine, Launch, QueueId};
use gridmux_hw_model::memory::DomainId;
use gridmux_hw_model::report::{Advance, Report as ModelReport};
use gridmux_policy::units::{Cycles, Nanos};
use gridmux_sync::spsc::{Consumer, Producer};
use parking_lot::MutexGuard;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Virtual time that passes before the lock is offered to the control thread and commands are looked at.
const STEP_CYCLES: u64 = 1024;
/// How much faster device memory is filled than the copy engine copies: terabytes against tens of gigabytes a second.
const MEMSET_SPEEDUP: u64 = 64;
/// Bytes of one piece of a copy.
const PIECE_BYTES: usize = 1 << 20;

/// A copy whose time passes; its bytes move at the end.
enum Transfer {
    Copy(CopyCommand),
    DeviceCopy(DeviceCopyCommand),
    Memset(MemsetCommand),
}

/// The thread's state.
pub(super) struct DeviceThread {
    shared: Arc<Shared>,
    commands: Consumer<Command>,
    params: Consumer<Chunk>,
    reports: Producer<Report>,
    waker: Arc<Waker>,
    transfers: HashMap<u64, (Transfer, u64)>,
    permit: Option<Nanos>,
    /// The permit is to end after the step at hand: every permit lets some time pass, however often it is interrupted.
    pause: bool,
    budget: CpuBudget,
    /// Parameters of the launch at hand.
    launch_params: Vec<u8>,
    model_reports: Vec<ModelReport>,
    piece: Box<[u8]>,
}

impl DeviceThread {
    pub(super) fn new(
        shared: Arc<Shared>,
        (commands, params): (Consumer<Command>, Consumer<Chunk>),
        reports: Producer<Report>,
        waker: Arc<Waker>,
        cpu_budget: Duration,
    ) -> Self {
        Self {
            pause: false,
            budget: CpuBudget::new(cpu_budget),
            shared,
            commands,
            params,
            launch_params: Vec::with_capacity(PARAM_BYTES + CHUNK_BYTES),
            reports,
            waker,
            transfers: HashMap::new(),
            permit: None,
            model_reports: Vec::new(),
            piece: vec![0; PIECE_BYTES].into_boxed_slice(),
        }
    }

    /// Runs until the dispatcher's end is gone.
    pub(super) fn run(mut self) {
        let mut backoff = Backoff::default();
        while !self.is_closed() {
            if self.step() {
                backoff.reset();
            } else {
                // Spinning, then yielding, then parked until the dispatcher submits something.
                backoff.wait(std::thread::park);
            }
        }
    }

    fn is_closed(&self) -> bool {
        // Acquire: pairs with the Release in `ModelDevice::drop`.
        self.shared.closed.load(Ordering::Acquire)
    }

    fn step(&mut self) -> bool {
        let mut worked = false;
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.lock();
        while let Some(command) = self.commands.try_pop() {
            worked = true;
            self.obey(&mut state, &command);
        }
        if let Some(until) = self.permit {
            worked = true;
            self.pass_time(&mut state, until);
        }
        // Fair: a control operation that waits gets its turn before time passes on.
        MutexGuard::unlock_fair(state);
        if worked {
            self.waker.wake();
        }
        worked
    }

    fn obey(&mut self, state: &mut State, command: &Command) {
        match command {
            Command::Launch(launch) => self.launch(state, launch),
            Command::Copy(copy) => {
                // A copy that cannot end well takes none of the engine's time from others.
                let range = check_range(state, copy.domain, copy.address, copy.bytes);
                if let Err(text) = range {
                    self.fail(state, copy.tag, CompletionStatus::BadAddress, text);
                    return;
                }
                let engine = match copy.direction {
                    Direction::ToDevice => CopyEngine::H2D,
                    Direction::FromDevice => CopyEngine::D2H,
                };
                self.transfer(state, copy.tag, engine, copy.bytes, Transfer::Copy(*copy));
            }
            Command::DeviceCopy(copy) => self.start_device_copy(state, copy),
            // The model has no memset engine: a memset goes through the copy engine as the part of its bytes that makes
            // it about as fast as device memory.
            Command::Memset(memset) => {
                let range = check_range(state, memset.domain, memset.address, memset.bytes);
                if let Err(text) = range {
                    self.fail(state, memset.tag, CompletionStatus::BadAddress, text);
                    return;
                }
                self.transfer(
                    state,
                    memset.tag,
                    CopyEngine::H2D,
                    memset.bytes / MEMSET_SPEEDUP,
                    Transfer::Memset(*memset),
                );
            }
            Command::Kill(tag) => {
                let cost = state.gpu.launch_cost(tag.to_bits());
                let known = state.gpu.kill(tag.to_bits());
                self.budget.end(tag.to_bits(), cost, false);
                self.transfers.remove(&tag.to_bits());
                if known {
                    let now = state.gpu.now_ns();
                    self.report(Report::Ended {
                        tag: *tag,
                        start: now,
                        end: now,
                        outcome: Outcome::Killed,
                    });
                }
            }
            Command::Permit { until } => self.permit = Some(*until),
            Command::Pause => self.pause = self.permit.is_some(),
        }
    }

    /// As a memset, but each byte goes through device memory twice.
    fn start_device_copy(&mut self, state: &mut State, copy: &DeviceCopyCommand) {
        if let Err(text) = check_device_copy(state, copy) {
            self.fail(state, copy.tag, CompletionStatus::BadAddress, text);
            return;
        }
        let bytes = copy.bytes.saturating_mul(2) / MEMSET_SPEEDUP;
        let transfer = Transfer::DeviceCopy(*copy);
        self.transfer(state, copy.tag, CopyEngine::H2D, bytes, transfer);
    }

    /// Takes the parameters of a launch, which were queued before it.
    fn take_params(&mut self, bytes: u32) {
        self.launch_params.clear();
        let bytes = bytes as usize;
        while self.launch_params.len() < bytes {
            let Some(chunk) = self.params.try_pop() else {
                break;
            };
            let chunk: [u8; CHUNK_BYTES] = zerocopy::transmute!(chunk);
            self.launch_params.extend_from_slice(&chunk);
        }
        self.launch_params.truncate(bytes);
    }

    fn launch(&mut self, state: &mut State, launch: &LaunchCommand) {
        self.take_params(launch.params_bytes);
        let bits = launch.tag.to_bits();
        let refused = match state.kernels.get(&launch.kernel.0) {
            None => Some("the kernel's module was unloaded before the launch started".to_owned()),
            Some((_, kernel)) => state
                .gpu
                .launch(Launch {
                    queue: QueueId(launch.tag.lane.0),
                    tag: bits,
                    domain: DomainId(launch.domain.0),
                    kernel: Arc::clone(kernel),
                    grid: launch.grid,
                    block: launch.block,
                    dynamic_shared_bytes: launch.dynamic_shared_bytes,
                    params: &self.launch_params,
                    budget: Some(Cycles(launch.budget_cycles)),
                })
                .err()
                .map(|error| error.to_string()),
        };
        match refused {
            Some(text) => self.fail(state, launch.tag, CompletionStatus::BadShape, text),
            None => self.budget.add(bits, launch.launch, launch.is_last),
        }
    }

    fn transfer(
        &mut self,
        state: &mut State,
        tag: Tag,
        engine: CopyEngine,
        bytes: u64,
        transfer: Transfer,
    ) {
        let start = state.gpu.now().0;
        match state.gpu.copy(Copy {
            engine,
            bytes,
            tag: tag.to_bits(),
        }) {
            Ok(()) => {
                self.transfers.insert(tag.to_bits(), (transfer, start));
            }
            Err(error) => self.fail(state, tag, CompletionStatus::Internal, error.to_string()),
        }
    }

    fn fail(&mut self, state: &mut State, tag: Tag, status: CompletionStatus, text: String) {
        state.faults.keep(tag.to_bits(), text);
        let now = state.gpu.now_ns();
        self.report(Report::Ended {
            tag,
            start: now,
            end: now,
            outcome: Outcome::Failed(status),
        });
    }

    /// Lets time pass for one step; the permit ends when there is something to react to.
    fn pass_time(&mut self, state: &mut State, until: Nanos) {
        let last = state.gpu.config().ns_to_cycles(until.0);
        let target = Cycles(last.min(state.gpu.now().0.saturating_add(STEP_CYCLES)));
        let mut reports = std::mem::take(&mut self.model_reports);
        let advance = state.gpu.advance(target, &mut reports);
        // Clients cannot ask for what kernels print; kept, it would grow with every launch.
        drop(state.gpu.take_printed());
        let mut over = state.gpu.now().0 >= last || (advance == Advance::Idle && state.gpu.idle());
        for report in reports.drain(..) {
            over |= self.translate(state, report);
        }
        self.model_reports = reports;
        over |= self.end_what_costs_too_much(state) || self.pause;
        self.publish_now(state);
        if over {
            self.pause = false;
            self.permit = None;
            let at = state.gpu.now_ns();
            self.report(Report::Paused { at });
        }
    }

    /// Kills a launch whose modelling has cost more processor time than its budget; says whether there was one.
    fn end_what_costs_too_much(&mut self, state: &mut State) -> bool {
        let gpu = &mut state.gpu;
        let over = self
            .budget
            .check(processor_time(), |tag| gpu.launch_cost(tag));
        let Some((bits, spent)) = over else {
            return false;
        };
        self.budget.end(bits, gpu.launch_cost(bits), false);
        gpu.kill(bits);
        let text = format!(
            "the launch was ended: modelling it took {:.1} s of processor time (limits.kernel_budget_cpu_seconds)",
            spent.as_secs_f64()
        );
        self.fail(state, Tag::from_bits(bits), CompletionStatus::Budget, text);
        true
    }

    fn publish_now(&self, state: &State) {
        // Release: pairs with the Acquire in `ModelDevice::now`.
        self.shared
            .now_ns
            .store(state.gpu.now_ns().0, Ordering::Release);
    }

    /// Passes a report on; says whether the dispatcher may want to react to it.
    fn translate(&mut self, state: &mut State, report: ModelReport) -> bool {
        let ns = |cycles: Cycles, state: &State| Nanos(state.gpu.config().cycles_to_ns(cycles.0));
        match report {
            ModelReport::Placed { tag, blocks, at } => {
                let at = ns(at, state);
                self.report(Report::Placed {
                    tag: Tag::from_bits(tag),
                    blocks,
                    at,
                });
                false
            }
            ModelReport::Retired {
                tag,
                blocks,
                ran,
                at,
            } => {
                let (ran, at) = (ns(ran, state), ns(at, state));
                self.report(Report::Retired {
                    tag: Tag::from_bits(tag),
                    blocks,
                    ran,
                    at,
                });
                false
            }
            ModelReport::Ended {
                tag,
                first_start,
                end,
                counters,
            } => {
                self.budget.end(tag, counters.warp_instructions, true);
                let (start, end) = (ns(first_start, state), ns(end, state));
                self.report(Report::Ended {
                    tag: Tag::from_bits(tag),
                    start,
                    end,
                    outcome: Outcome::Done,
                });
                true
            }
            ModelReport::Faulted {
                tag,
                fault,
                at,
                warp_instructions,
            } => {
                self.budget.end(tag, warp_instructions, false);
                let status = match fault.kind {
                    FaultKind::BudgetExceeded { .. } => CompletionStatus::Budget,
                    FaultKind::OutOfBounds { .. } | FaultKind::Misaligned { .. } => {
                        CompletionStatus::MemoryFault
                    }
                    _ => CompletionStatus::Trap,
                };
                state.faults.keep(tag, fault.to_string());
                let at = ns(at, state);
                let outcome = Outcome::Failed(status);
                self.report(Report::Ended {
                    tag: Tag::from_bits(tag),
                    start: at,
                    end: at,
                    outcome,
                });
                true
            }
            ModelReport::Copied { tag, at } => {
                self.end_transfer(state, tag, ns(at, state));
                true
            }
        }
    }

    fn end_transfer(&mut self, state: &mut State, bits: u64, end: Nanos) {
        let Some((transfer, start)) = self.transfers.remove(&bits) else {
            return;
        };
        let moved = match &transfer {
            Transfer::Copy(copy) => self.move_bytes(state, copy),
            Transfer::DeviceCopy(copy) => self.move_on_device(state, copy),
            Transfer::Memset(memset) => self.fill(state, memset),
        };
        let outcome = match moved {
            Ok(()) => Outcome::Done,
            Err(text) => {
                state.faults.keep(bits, text);
                Outcome::Failed(CompletionStatus::BadAddress)
            }
        };
        let start = Nanos(state.gpu.config().cycles_to_ns(start));
        self.report(Report::Ended {
            tag: Tag::from_bits(bits),
            start,
            end,
            outcome,
        });
    }

    fn move_bytes(&mut self, state: &mut State, copy: &CopyCommand) -> Result<(), String> {
        let buffer = state.buffers.get(&copy.buffer.0).cloned();
        let buffer = buffer.ok_or("the buffer was unmapped before the copy started")?;
        let domain = DomainId(copy.domain.0);
        // The allocation may have been freed since the copy was accepted; one that fails moves nothing.
        check_range(state, copy.domain, copy.address, copy.bytes)?;
        let mut done = 0;
        while done < copy.bytes {
            let length = usize::try_from(copy.bytes - done)
                .unwrap_or(PIECE_BYTES)
                .min(PIECE_BYTES);
            let piece = &mut self.piece[..length];
            let (address, offset) = (copy.address + done, copy.buffer_offset + done);
            let moved = match copy.direction {
                Direction::ToDevice => buffer
                    .read_at(offset, piece)
                    .map_err(|error| error.to_string())
                    .and_then(|()| {
                        state
                            .gpu
                            .memory_mut()
                            .write(domain, address, piece)
                            .map_err(|e| e.to_string())
                    }),
                Direction::FromDevice => state
                    .gpu
                    .memory()
                    .read(domain, address, piece)
                    .map_err(|error| error.to_string())
                    .and_then(|()| buffer.write_at(offset, piece).map_err(|e| e.to_string())),
            };
            moved?;
            done += length as u64;
        }
        Ok(())
    }

    fn move_on_device(
        &mut self,
        state: &mut State,
        copy: &DeviceCopyCommand,
    ) -> Result<(), String> {
        // As in `move_bytes`.
        check_device_copy(state, copy)?;
        let domain = DomainId(copy.domain.0);
        let mut done = 0;
        while done < copy.bytes {
            let piece = self.piece_of(copy.bytes - done);
            let memory = state.gpu.memory_mut();
            memory
                .read(domain, copy.from + done, piece)
                .and_then(|()| memory.write(domain, copy.to + done, piece))
                .map_err(|error| error.to_string())?;
            done += piece.len() as u64;
        }
        Ok(())
    }

    fn fill(&mut self, state: &mut State, memset: &MemsetCommand) -> Result<(), String> {
        check_range(state, memset.domain, memset.address, memset.bytes)?;
        let domain = DomainId(memset.domain.0);
        let pattern = memset.value.to_le_bytes();
        let width = memset.width.bytes() as usize;
        let piece = self.piece_of(memset.bytes);
        for element in piece.chunks_exact_mut(width) {
            element.copy_from_slice(&pattern[..width]);
        }
        let mut done = 0;
        while done < memset.bytes {
            // A whole number of elements, because both lengths are.
            let length = usize::try_from(memset.bytes - done).unwrap_or(PIECE_BYTES);
            let part = &piece[..length.min(piece.len())];
            let memory = state.gpu.memory_mut();
            memory
                .write(domain, memset.address + done, part)
                .map_err(|error| error.to_string())?;
            done += part.len() as u64;
        }
        Ok(())
    }

    /// Room for the next piece of so many bytes.
    fn piece_of(&mut self, bytes: u64) -> &mut [u8] {
        let length = usize::try_from(bytes).unwrap_or(PIECE_BYTES);
        &mut self.piece[..length.min(PIECE_BYTES)]
    }

    /// Hands a report over; waits while the dispatcher has no room, which it makes without waiting for us.
    fn report(&mut self, report: Report) {
        let mut report = report;
        let mut backoff = Backoff::default();
        while let Err(back) = self.reports.try_push(report) {
            if self.is_closed() {
                return;
            }
            report = back;
            self.waker.wake();
            backoff.wait(|| std::thread::sleep(std::time::Duration::from_micros(50)));
        }
    }
}

/// Whether both ends of a copy on the device lie inside allocations of the tenant.
fn check_device_copy(state: &State, copy: &DeviceCopyCommand) -> Result<(), String> {
    check_range(state, copy.domain, copy.from, copy.bytes)?;
    check_range(state, copy.domain, copy.to, copy.bytes)
}

/// Whether the device's end of a copy or memset lies inside one allocation of the tenant.
fn check_range(
    state: &State,
    domain: crate::device::DomainId,
    address: u64,
    bytes: u64,
) -> Result<(), String> {
    let domain = DomainId(domain.0);
    let found = state.gpu.memory().allocation_at(domain, address);
    let inside = found.is_some_and(|allocation| {
        let end = address.checked_add(bytes);
        end.is_some_and(|end| end <= allocation.end())
    });
    if inside || bytes == 0 {
        return Ok(());
    }
    let why = match found {
        Some(_) => "it leaves its allocation".to_owned(),
        None => match state.gpu.memory().read(domain, address, &mut [0]) {
            Err(error) => error.to_string(),
            Ok(()) => "it is not allocated".to_owned(),
        },
    };
    Err(format!(
        "{bytes} bytes at device address {address:#x}: {why}"
    ))
}
