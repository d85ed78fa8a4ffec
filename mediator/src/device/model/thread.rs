//! The device thread: obeys commands and lets virtual time pass under permits.

use super::cpu_budget::{CpuBudget, processor_time};
use super::steps::Steps;
use super::transfer::Transfer;
use super::{CHUNK_BYTES, Shared, State, Wires, fault_status};
use crate::device::{Command, DeviceReport, Direction, LaunchCommand, Outcome, PARAM_BYTES, Tag};
use gridmux_bpf::Probe;
use gridmux_channel::ring::CompletionStatus;
use gridmux_hw_model::BlockChange;
use gridmux_hw_model::launch::{Copy, CopyEngine, Launch, Level, QueueId, Workspace};
use gridmux_hw_model::report::{Advance, Report as ModelReport};
use gridmux_policy::units::{Cycles, Nanos};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Virtual time that passes before the lock is offered to the control thread and commands are looked at.
const STEP_CYCLES: u64 = 1024;
/// How much faster device memory is filled than the copy engine copies: terabytes against tens of gigabytes a second.
const MEMSET_SPEEDUP: u64 = 64;

/// The thread's state.
pub(super) struct DeviceThread {
    shared: Arc<Shared>,
    wires: Wires,
    /// Copies and fills whose time passes, and since when; their bytes move at the end.
    transfers: HashMap<u64, (Transfer, u64)>,
    permit: Option<Nanos>,
    /// The permit is to end after the step at hand: every permit lets some time pass, however often it is interrupted.
    pause: bool,
    budget: CpuBudget,
    /// First blocks of the slices that are not their grid's first, by tag.
    first_blocks: HashMap<u64, [u32; 3]>,
    /// Parameters of the launch at hand.
    launch_params: Vec<u8>,
    model_reports: Vec<ModelReport>,
}

impl Steps for DeviceThread {
    fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn wires(&mut self) -> &mut Wires {
        &mut self.wires
    }

    fn execute(&mut self, state: &mut State, command: &Command) {
        match command {
            Command::Launch(launch) => self.launch(state, launch),
            Command::Copy(copy) => {
                let engine = match copy.direction {
                    Direction::ToDevice => CopyEngine::H2D,
                    Direction::FromDevice => CopyEngine::D2H,
                };
                self.transfer(state, engine, copy.bytes, Transfer::Copy(*copy));
            }
            // The model has no engine for fills and copies on the device: they go through the copy engine as the part
            // of their bytes that makes them about as fast as device memory, through which a copied byte goes twice.
            Command::DeviceCopy(copy) => {
                let bytes = copy.bytes.saturating_mul(2) / MEMSET_SPEEDUP;
                self.transfer(state, CopyEngine::H2D, bytes, Transfer::DeviceCopy(*copy));
            }
            Command::Memset(memset) => {
                let bytes = memset.bytes / MEMSET_SPEEDUP;
                self.transfer(state, CopyEngine::H2D, bytes, Transfer::Memset(*memset));
            }
            Command::Kill(tag) => {
                let cost = state.gpu.launch_cost(tag.to_bits());
                let known = state.gpu.kill(tag.to_bits());
                state.end_launch(tag.to_bits(), Outcome::Killed);
                self.budget.end(tag.to_bits(), cost, false);
                self.first_blocks.remove(&tag.to_bits());
                self.transfers.remove(&tag.to_bits());
                if known {
                    let now = state.gpu.now_ns();
                    self.report(DeviceReport::Ended {
                        tag: *tag,
                        start: now,
                        end: now,
                        outcome: Outcome::Killed,
                    });
                }
            }
            Command::PassTime { until } => self.permit = Some(*until),
            Command::Pause => self.pause = self.permit.is_some(),
        }
    }

    fn work(&mut self, state: &mut State) -> bool {
        let Some(until) = self.permit else {
            return false;
        };
        self.pass_time(state, until);
        true
    }
}

impl DeviceThread {
    pub(super) fn new(shared: Arc<Shared>, wires: Wires, cpu_budget: Duration) -> Self {
        Self {
            pause: false,
            budget: CpuBudget::new(cpu_budget),
            first_blocks: HashMap::new(),
            shared,
            wires,
            launch_params: Vec::with_capacity(PARAM_BYTES + CHUNK_BYTES),
            transfers: HashMap::new(),
            permit: None,
            model_reports: Vec::new(),
        }
    }

    fn launch(&mut self, state: &mut State, launch: &LaunchCommand) {
        self.wires
            .take_params(launch.params_bytes, &mut self.launch_params);
        let bits = launch.tag.to_bits();
        let Some(kernel) = state.kernels.get(&launch.kernel.0) else {
            let text = "the kernel's module was unloaded before the launch started".to_owned();
            self.fail(state, launch.tag, CompletionStatus::BadKernel, text);
            return;
        };
        let kernel = Arc::clone(&kernel.kernel);
        let name = Arc::clone(&kernel.name);
        let domain = state.begin_launch(launch, &mut self.launch_params);
        let request = Launch {
            queue: QueueId(launch.tag.lane.0),
            level: Level(launch.level.0),
            tag: bits,
            domain,
            kernel,
            grid: launch.grid,
            block: launch.block,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            params: &self.launch_params,
            budget: Some(Cycles(launch.budget_cycles)),
        };
        let launched = match launch.is_cooperative {
            true => state.gpu.launch_cooperative(request, Workspace::OfLaunch),
            false => state.gpu.launch(request),
        };
        match launched {
            Ok(()) => {
                if launch.first_block != [0; 3] {
                    self.first_blocks.insert(bits, launch.first_block);
                }
                self.budget.add(bits, launch.launch, launch.is_last, &name);
            }
            Err(error) => {
                state.end_launch(bits, Outcome::Killed);
                let text = error.to_string();
                self.fail(state, launch.tag, CompletionStatus::BadShape, text);
            }
        }
    }

    /// Begins a copy or fill that takes as long as the engine takes for `bytes` bytes.
    fn transfer(&mut self, state: &mut State, engine: CopyEngine, bytes: u64, transfer: Transfer) {
        let tag = transfer.tag();
        // One that cannot end well takes none of the engine's time from others.
        if let Err(text) = transfer.check(state) {
            self.fail(state, tag, CompletionStatus::BadAddress, text);
            return;
        }
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
        self.report(DeviceReport::Ended {
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
        state.gpu.record_block_events(Probe::Block.is_traced());
        let advance = state.gpu.advance(target, &mut reports);
        self.report_blocks(state);
        // Before the ends of launches are reported, so that who asks after that finds all of their text.
        state.printed.keep(state.gpu.take_printed());
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
            self.report(DeviceReport::Paused { at });
        }
    }

    /// Reports the blocks that ended, for those who trace them; before the ends of their launches are.
    fn report_blocks(&mut self, state: &mut State) {
        for event in state.gpu.take_block_events() {
            let BlockChange::Retired { ran } = event.change else {
                continue;
            };
            let ns = |cycles: u64| Nanos(state.gpu.config().cycles_to_ns(cycles));
            let (start, end) = (ns(event.at.0.saturating_sub(ran.0)), ns(event.at.0));
            self.report(DeviceReport::BlockEnded {
                tag: Tag::from_bits(event.tag),
                block: event.block,
                sm: u32::from(event.sm.0),
                start,
                end,
            });
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
        let text = self.budget.refusal(bits, spent);
        self.first_blocks.remove(&bits);
        self.budget.end(bits, gpu.launch_cost(bits), false);
        gpu.kill(bits);
        state.end_launch(bits, Outcome::Killed);
        self.fail(state, Tag::from_bits(bits), CompletionStatus::Budget, text);
        true
    }

    fn publish_now(&self, state: &State) {
        self.shared.clock.set(state.gpu.now_ns());
    }

    /// Passes a report on; says whether the dispatcher may want to react to it.
    fn translate(&mut self, state: &mut State, report: ModelReport) -> bool {
        let ns = |cycles: Cycles, state: &State| Nanos(state.gpu.config().cycles_to_ns(cycles.0));
        match report {
            ModelReport::Placed { tag, blocks, at } => {
                let at = ns(at, state);
                self.report(DeviceReport::Placed {
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
                self.report(DeviceReport::Retired {
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
                self.first_blocks.remove(&tag);
                self.budget.end(tag, counters.warp_instructions, true);
                let (start, end) = (ns(first_start, state), ns(end, state));
                let outcome = state.end_launch(tag, Outcome::Done);
                self.report(DeviceReport::Ended {
                    tag: Tag::from_bits(tag),
                    start,
                    end,
                    outcome,
                });
                true
            }
            ModelReport::Faulted {
                tag,
                mut fault,
                at,
                warp_instructions,
            } => {
                self.budget.end(tag, warp_instructions, false);
                let status = fault_status(&fault.kind);
                fault.move_block(self.first_blocks.remove(&tag).unwrap_or_default());
                state.faults.keep(tag, fault.to_string());
                let at = ns(at, state);
                let outcome = state.end_launch(tag, Outcome::Failed(status));
                self.report(DeviceReport::Ended {
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
        // The allocation may have been freed since the copy was accepted.
        let outcome = match transfer.move_all(state) {
            Ok(()) => Outcome::Done,
            Err(text) => {
                state.faults.keep(bits, text);
                Outcome::Failed(CompletionStatus::BadAddress)
            }
        };
        let start = Nanos(state.gpu.config().cycles_to_ns(start));
        self.report(DeviceReport::Ended {
            tag: Tag::from_bits(bits),
            start,
            end,
            outcome,
        });
    }

    fn report(&mut self, report: DeviceReport) {
        self.wires.report(&self.shared, report);
    }
}
