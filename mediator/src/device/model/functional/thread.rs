//! The device thread without timing: obeys commands and gives turns.

use super::super::cpu_budget::{CpuBudget, processor_time};
use super::super::steps::Steps;
use super::super::transfer::Transfer;
use super::super::{CHUNK_BYTES, Shared, State, Wires, fault_status};
use super::clock::EstimatedClock;
use super::lanes::{FunctionalLanes, Job, Moving};
use super::running::Running;
use crate::device::{
    Command, DeviceReport, Direction, LaneId, LaunchCommand, Outcome, PARAM_BYTES, Tag,
};
use gridmux_channel::ring::CompletionStatus;
use gridmux_hw_model::config::GpuConfig;
use gridmux_hw_model::{CopyEngine, RunError};
use gridmux_policy::units::Nanos;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Processor time that a turn aims at. Between two turns the thread reads commands and offers the lock to others.
const TURN: Duration = Duration::from_micros(500);

/// A turn that took less than this by the wall clock is charged by that clock; longer ones by processor time.
const LEAST_MEASURED: Duration = Duration::from_micros(50);

/// How a turn ended.
enum Progress {
    /// There is more to do.
    More,
    /// The operation is over.
    Over(Outcome),
}

/// The thread's state.
pub(in crate::device::model) struct FunctionalThread {
    shared: Arc<Shared>,
    wires: Wires,
    lanes: FunctionalLanes,
    clock: EstimatedClock,
    budget: CpuBudget,
    /// Processor time of this thread at the end of the last turn that was measured.
    spent: Duration,
}

impl Steps for FunctionalThread {
    fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn wires(&mut self) -> &mut Wires {
        &mut self.wires
    }

    fn execute(&mut self, state: &mut State, command: &Command) {
        match command {
            Command::Launch(launch) => self.launch(state, launch),
            Command::Copy(copy) => self.transfer(Transfer::Copy(*copy)),
            Command::DeviceCopy(copy) => self.transfer(Transfer::DeviceCopy(*copy)),
            Command::Memset(memset) => self.transfer(Transfer::Memset(*memset)),
            Command::Kill(tag) => self.kill(state, *tag),
            // Time passes without permits.
            Command::PassTime { .. } | Command::Pause => {}
        }
    }

    fn work(&mut self, state: &mut State) -> bool {
        let lane = self.lanes.next();
        if let Some(lane) = lane {
            self.give_turn(state, lane);
        }
        if self.lanes.is_empty() {
            self.clock.pass(&self.shared.clock);
        }
        lane.is_some()
    }
}

impl FunctionalThread {
    /// Makes a thread's state.
    pub(in crate::device::model) fn new(
        shared: Arc<Shared>,
        wires: Wires,
        config: &GpuConfig,
        cpu_budget: Duration,
    ) -> Self {
        Self {
            lanes: FunctionalLanes::new(),
            clock: EstimatedClock::new(config),
            budget: CpuBudget::new(cpu_budget),
            shared,
            wires,
            spent: Duration::ZERO,
        }
    }

    /// Puts a copy or fill behind what its lane holds.
    fn transfer(&mut self, transfer: Transfer) {
        self.clock.stop(&self.shared.clock);
        self.lanes.push(Job::transfer(transfer));
    }

    fn launch(&mut self, state: &mut State, launch: &LaunchCommand) {
        let was_idle = self.clock.stop(&self.shared.clock);
        let mut params =
            Vec::with_capacity(PARAM_BYTES.min(launch.params_bytes as usize) + CHUNK_BYTES);
        self.wires.take_params(launch.params_bytes, &mut params);
        let Some(kernel) = state.kernels.get(&launch.kernel.0) else {
            let text = "the kernel's module was unloaded before the launch started";
            state.faults.keep(launch.tag.to_bits(), text.to_owned());
            let outcome = Outcome::Failed(CompletionStatus::BadShape);
            self.say_ended(launch.tag, self.clock.now(), outcome);
            return;
        };
        if was_idle {
            // A launch that comes while the device works is prepared meanwhile, and costs no time of its own.
            let latency = state.gpu.config().launch.kernel_cycles;
            self.clock.add(f64::from(latency), &self.shared.clock);
        }
        let kernel = Arc::clone(&kernel.kernel);
        let name = Arc::clone(&kernel.name);
        let domain = state.begin_launch(launch, &mut params);
        let running = Running::new(state, (launch, domain), kernel, params);
        self.budget
            .add(launch.tag.to_bits(), launch.launch, launch.is_last, &name);
        self.lanes.push(Job::Launch(Box::new(running)));
        self.place(state, launch.tag.lane);
    }

    /// Begins the first launch of a lane if the device has room for it; if not, the launch begins with its first turn.
    fn place(&mut self, state: &mut State, lane: LaneId) {
        let (now, shared) = (self.clock.now(), &self.shared);
        if let Some(running) = self.lanes.placeable(lane)
            // One that cannot begin says why at its turn.
            && running.begin(state, now).is_ok()
        {
            running.report(now, |report| self.wires.report(shared, report));
        }
    }

    fn kill(&mut self, state: &mut State, tag: Tag) {
        self.clock.stop(&self.shared.clock);
        let Some(job) = self.lanes.remove(tag) else {
            return;
        };
        let start = self.end(state, job, false);
        state.end_launch(tag.to_bits(), Outcome::Killed);
        self.say_ended(tag, start, Outcome::Killed);
        self.place(state, tag.lane);
    }

    /// Releases what an operation held that was removed from its lane, and returns when it began.
    fn end(&mut self, state: &mut State, job: Job, is_done: bool) -> Nanos {
        match job {
            Job::Launch(mut running) => {
                running.end(state);
                self.budget.end_charged(running.tag().to_bits(), is_done);
                running.start()
            }
            Job::Transfer(moving) => moving.start.unwrap_or(self.clock.now()),
        }
    }

    /// Gives the first operation of a lane its turn.
    fn give_turn(&mut self, state: &mut State, lane: LaneId) {
        let resident_warps = self.lanes.resident_warps();
        let began = self.clock.now();
        let turn = Instant::now();
        let Some(job) = self.lanes.first(lane) else {
            return;
        };
        let tag = job.tag();
        let shared = &*Arc::clone(&self.shared);
        let (progress, moved_cycles) = match job {
            Job::Launch(running) => {
                let wires = (&mut self.wires, shared);
                (launch_turn(running, state, began, wires), 0.0)
            }
            Job::Transfer(moving) => {
                moving.start.get_or_insert(began);
                transfer_turn(moving, state, turn)
            }
        };
        let printed = state.gpu.take_printed();
        if !printed.is_empty() {
            state.printed.keep(printed);
        }
        let took = self.cost_of(turn.elapsed());
        self.lanes.charge(lane, took);
        let cycles = match self.lanes.first(lane) {
            Some(Job::Launch(running)) => running.take_cycles(state, resident_warps, took),
            _ => moved_cycles,
        };
        self.clock.add(cycles, &shared.clock);
        let now = self.clock.now();
        let mut progress = progress;
        if let Some(Job::Launch(running)) = self.lanes.first(lane) {
            running.fit_part(took, TURN);
            running.report(now, |report| self.wires.report(shared, report));
            if matches!(progress, Progress::More) {
                progress = self.judge(state, lane, took);
            }
        }
        if let Progress::Over(outcome) = progress
            && let Some(job) = self.lanes.remove(tag)
        {
            let start = self.end(state, job, outcome == Outcome::Done);
            let outcome = state.end_launch(tag.to_bits(), outcome);
            self.say_ended(tag, start, outcome);
            self.place(state, lane);
        }
    }

    /// Returns the processor time of a turn that took this long by the wall clock, in which the host may have run
    /// something else.
    fn cost_of(&mut self, took: Duration) -> Duration {
        // Asking the kernel costs as much as a short turn does.
        if took < LEAST_MEASURED {
            return took;
        }
        let now = processor_time();
        let spent = now.saturating_sub(self.spent);
        self.spent = now;
        took.min(spent)
    }

    /// Returns whether the launch that is first in a lane goes on after a turn, or is over one of its budgets.
    fn judge(&mut self, state: &mut State, lane: LaneId, took: Duration) -> Progress {
        let Some(Job::Launch(running)) = self.lanes.first(lane) else {
            return Progress::More;
        };
        let bits = running.tag().to_bits();
        let text = if running.is_over_budget() {
            format!(
                "the launch was ended: it took more than {} core cycles by the estimate (limits.kernel_budget_cycles)",
                running.command().budget_cycles
            )
        } else if let Some(spent) = self.budget.charge(bits, took) {
            self.budget.refusal(bits, spent)
        } else {
            return Progress::More;
        };
        state.faults.keep(bits, text);
        Progress::Over(Outcome::Failed(CompletionStatus::Budget))
    }

    /// Reports the end of an operation.
    fn say_ended(&mut self, tag: Tag, start: Nanos, outcome: Outcome) {
        let end = self.clock.now();
        let report = DeviceReport::Ended {
            tag,
            start,
            end,
            outcome,
        };
        self.wires.report(&self.shared, report);
    }
}

/// Runs a launch for a turn.
fn launch_turn(
    running: &mut Running,
    state: &mut State,
    now: Nanos,
    (wires, shared): (&mut Wires, &Shared),
) -> Progress {
    let tag = running.tag().to_bits();
    match running.begin(state, now) {
        Err(error) => {
            state.faults.keep(tag, error.to_string());
            Progress::Over(Outcome::Failed(CompletionStatus::BadShape))
        }
        Ok(()) => {
            running.report(now, |report| wires.report(shared, report));
            match running.go_on(state) {
                Ok(false) => Progress::More,
                Ok(true) => Progress::Over(Outcome::Done),
                Err(mut error) => {
                    let status = match &mut error {
                        RunError::Launch(_) => CompletionStatus::BadShape,
                        RunError::Fault(fault) => {
                            fault.move_block(running.command().first_block);
                            fault_status(&fault.kind)
                        }
                    };
                    state.faults.keep(tag, error.to_string());
                    Progress::Over(Outcome::Failed(status))
                }
            }
        }
    }
}

/// Moves pieces of a copy or fill for a turn; returns the core cycles that it took by the estimate.
fn transfer_turn(moving: &mut Moving, state: &mut State, turn: Instant) -> (Progress, f64) {
    let Moving { transfer, done, .. } = moving;
    let before = *done;
    let mut result = match before {
        0 => transfer.check(state),
        _ => Ok(()),
    };
    let mut is_over = false;
    while result.is_ok() && !is_over && turn.elapsed() < TURN {
        match transfer.move_piece(state, *done) {
            Ok(moved) => {
                *done += moved;
                is_over = *done >= transfer.bytes();
            }
            Err(text) => result = Err(text),
        }
    }
    let cycles = transfer_cycles(transfer, state, before, *done - before);
    match result {
        Ok(()) if is_over => (Progress::Over(Outcome::Done), cycles),
        Ok(()) => (Progress::More, cycles),
        Err(text) => {
            state.faults.keep(transfer.tag().to_bits(), text);
            let outcome = Outcome::Failed(CompletionStatus::BadAddress);
            (Progress::Over(outcome), cycles)
        }
    }
}

/// Returns the core cycles for moving bytes, with the engine's latency in front of the first of them.
fn transfer_cycles(transfer: &Transfer, state: &State, before: u64, moved: u64) -> f64 {
    let config = state.gpu.config();
    match transfer {
        Transfer::Copy(copy) => {
            let engine = match copy.direction {
                Direction::ToDevice => CopyEngine::H2D,
                Direction::FromDevice => CopyEngine::D2H,
            };
            let latency_ns = match before {
                0 => f64::from(config.copy.latency_ns),
                _ => 0.0,
            };
            let latency = latency_ns * f64::from(config.clock.core_mhz) / 1000.0;
            config.copy_cycles(engine, moved) + latency
        }
        Transfer::DeviceCopy(_) => config.memory_cycles(moved.saturating_mul(2)),
        Transfer::Memset(_) => config.memory_cycles(moved),
    }
}
