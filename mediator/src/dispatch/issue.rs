//! The issue pass: which operations go to the device now, and in what pieces ([`super::window`]).
//!
//! Rules: copies and fills go first ([`super::issue_transfers`]); launches go in the order of the queue, and in rounds
//! while the device is slow to take them ([`super::submission`]); under a strict head of line nothing overtakes a
//! launch; no tenant takes more lanes than its equal part, with a part for a tenant that may yet come; a tenant whose
//! launches keep ending at their budget waits until no other has one open. Several launches of a stream may be on the
//! device at once, in one lane, which keeps their order.

use super::client::ClientSlot;
use super::dispatcher::Dispatcher;
use super::ids::OperationId;
use super::ids::Slot;
use super::lanes::Flight;
use super::levels::Grade;
use super::operation::{LaunchWork, Operation, Work};
use super::port::TenantPort;
use super::queue::Active;
use super::rows::Row;
use super::window::{
    Behind, Piece, Situation, WINDOW_NS, ahead_percent, between_turns_percent, slice_ns,
    two_slices_percent,
};
use crate::device::{Command, Device, LaneId, LaunchCommand, Level, Tag};
use crate::wall_clock::wall_ns;
use gridmux_bpf::probes::{self, ProbeArgs};
use gridmux_channel::ring::CompletionStatus;
use gridmux_launch::Control;
use gridmux_launch::boxes::{Grid, SubBox, next_box};
use gridmux_policy::event::Event;
use gridmux_policy::ids::RowId;
use gridmux_policy::plan::Stop;
use gridmux_policy::units::Nanos;

/// Result of one attempt to issue an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    /// Something was issued.
    Issued,
    /// Cap, limit, budget or stream order hold it up: under a strict head of line nothing overtakes it.
    Blocked,
    /// Its tenant holds its part of the lanes, has no turn left in this round, or has to wait for others; these may go
    /// on.
    NotItsTurn,
    /// The device takes nothing more at present.
    DeviceFull,
}

/// The next piece of a launch, as [`Dispatcher::cut`] finds it.
struct Cut {
    row: RowId,
    /// Level of a piece that goes to an empty lane.
    level: Level,
    /// None where nothing can go now.
    piece: Option<Piece>,
    /// It has begun, and that is because the plan has it give room up or wait for some.
    is_preempted: bool,
}

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    pub(super) fn issue(&mut self) -> bool {
        let mut worked = self.issue_transfers();
        self.begin_rounds_after_rest();
        loop {
            worked |= self.issue_queued();
            if self.is_submitting() || !self.begin_round() {
                return worked;
            }
        }
    }

    /// Issues what is in the queue, as far as it can go in this round.
    fn issue_queued(&mut self) -> bool {
        let mut worked = false;
        while let Some(active) = self.queue.first() {
            match self.is_issued(active) {
                None => {
                    self.dequeue(active);
                    continue;
                }
                Some(true) => {
                    worked = true;
                    self.dequeue(active);
                    self.activate_more(active.slot, active.stream);
                    self.finish_if_over(active.slot, active.id);
                    continue;
                }
                Some(false) => {}
            }
            match self.try_issue(active) {
                Attempt::Issued => worked = true,
                Attempt::DeviceFull => break,
                Attempt::Blocked if self.policy.is_head_of_line() && active.rank > 0 => break,
                Attempt::Blocked | Attempt::NotItsTurn => self.park(active),
            }
        }
        worked
    }

    /// Returns whether nothing of an operation is left to issue; `None` when it is gone.
    pub(super) fn is_issued(&self, active: Active) -> Option<bool> {
        let client = self.clients.get(active.slot).filter(|c| !c.leaving)?;
        let operation = client.operations.get(active.id)?;
        (operation.sequence == active.sequence).then(|| operation.is_issued())
    }

    pub(super) fn finish_if_over(&mut self, slot: Slot, id: OperationId) {
        let client = self.clients.get(slot);
        let operation = client.and_then(|client| client.operations.get(id));
        if operation.is_some_and(Operation::is_over) {
            self.finish(slot, id);
        }
    }

    pub(super) fn try_issue(&mut self, active: Active) -> Attempt {
        let Some(account) = self.accounts.get(active.tenant) else {
            return Attempt::NotItsTurn;
        };
        let Some(client) = self.clients.get(active.slot) else {
            return Attempt::NotItsTurn;
        };
        let Some(operation) = client.operations.get(active.id) else {
            return Attempt::NotItsTurn;
        };
        let no_lane = self.lanes.free() == 0;
        let over_quota = account.lanes >= self.lanes_each();
        if operation.work.engine().is_some() {
            return match (no_lane, over_quota) {
                (true, _) => Attempt::DeviceFull,
                (_, true) => Attempt::NotItsTurn,
                _ => self.issue_transfer(active),
            };
        }
        let Work::Launch(launch) = &operation.work else {
            return Attempt::NotItsTurn;
        };
        let row = launch.row;
        if self.is_submitting() {
            return Attempt::DeviceFull;
        }
        let others = self.accounts.busy.len() - usize::from(account.open > 0);
        let is_behind = account.is_behind() && others > 0;
        if self.had_its_turn(active.tenant, row) || is_behind {
            return Attempt::NotItsTurn;
        }
        self.announce(active.slot, active.id);
        let grades = self.grades(row, active.tenant);
        if self.has_enough_ahead(grades.0.level) {
            return Attempt::DeviceFull;
        }
        self.issue_launch(active, grades, (no_lane, over_quota))
    }

    /// Returns the lanes that each tenant may hold: equal parts, with one for a tenant that may yet come, which would
    /// otherwise wait for what never ends.
    fn lanes_each(&self) -> u32 {
        (self.lanes.count() / (self.accounts.wanting + 1)).max(1)
    }

    fn issue_launch(
        &mut self,
        active: Active,
        grades: (Grade, Option<Grade>),
        (no_lane, over_quota): (bool, bool),
    ) -> Attempt {
        let Some(Cut {
            row,
            level,
            piece,
            is_preempted,
        }) = self.cut(active, grades)
        else {
            return Attempt::Blocked;
        };
        let Some(piece) = piece else {
            self.note_cap_reached(row);
            if is_preempted {
                self.note_preempted(active.slot, active.id, Nanos::ZERO, self.now);
            }
            return Attempt::Blocked;
        };
        match piece.behind {
            None if no_lane => return Attempt::DeviceFull,
            None if over_quota => return Attempt::NotItsTurn,
            Some(lane) if !self.lanes.has_room(lane) => return Attempt::Blocked,
            _ => {}
        }
        self.issue_piece(active, piece, level)
    }

    /// Cuts the next piece of a launch.
    fn cut(&self, active: Active, (grade, beyond): (Grade, Option<Grade>)) -> Option<Cut> {
        let client = self.clients.get(active.slot)?;
        let operation = client.operations.get(active.id)?;
        let Work::Launch(launch) = &operation.work else {
            return None;
        };
        let row = self.rows.get(launch.row)?;
        let account = self.accounts.get(active.tenant)?;
        let view = self.policy.row(launch.row, active.tenant);
        let after = match before(client, launch) {
            None => None,
            // It is behind several lanes, or behind something that is no launch: it waits.
            Some(before) => Some(self.behind(one_lane(before)?, launch)),
        };
        // Where nothing binds, nothing is handed over beyond it; where something does, that bounds the backlog too.
        let lends = self.lends();
        let is_alone = self.accounts.busy.len() < 2;
        let stops = view.stop == Stop::Checked || view.binds(launch.wave);
        let is_free = grade.is_lent || !stops;
        let slice_ns = slice_ns(self.device.submission().each, self.launch_ns);
        let ahead = match is_free {
            true => 0,
            false => self.ahead(launch, row, (lends, slice_ns)),
        };
        let is_asked = is_free || beyond.is_some() || row.is_unproven();
        let backlog = is_asked.then(|| self.lanes.backlog(active.tenant));
        let limit = view.limit.percent(100 + ahead);
        let lanes_each = self.lanes_each();
        let situation = Situation {
            launch,
            row,
            view,
            is_free,
            lends,
            limit_room: account
                .charged
                .room_within(&self.shape, limit, &launch.shape),
            over_limit: account.charged.dominant(&self.shape) > limit,
            ahead,
            in_flight: operation.in_flight,
            lanes: lanes_each.min((lanes_each / account.queued.max(1)).max(2)),
            round: self.round(),
            window_ns: match lends && !is_alone {
                true => slice_ns.min(WINDOW_NS),
                false => WINDOW_NS,
            },
            backlog: backlog.unwrap_or_default(),
            device: &self.shape,
            after,
            own: self.own_lane(active.slot, active.id, launch),
        };
        // A stream that is to go at another level goes there when its lane is empty.
        let may_follow = |level: Level| {
            after.is_none_or(|after| is_alone || self.lanes.level(after.lane) == level)
        };
        let within = may_follow(grade.level).then_some((grade.level, situation));
        let beyond = beyond.filter(|beyond| !self.is_enough(beyond.level));
        let beyond = beyond
            .filter(|beyond| may_follow(beyond.level))
            .map(|beyond| {
                let is_free = true;
                (
                    beyond.level,
                    Situation {
                        is_free,
                        ..situation
                    },
                )
            });
        let mut ways = within.into_iter().chain(beyond);
        let found = ways.find_map(|(level, way)| Some((level, way.next_piece()?)));
        let (level, piece) = found.unzip();
        Some(Cut {
            row: launch.row,
            level: level.unwrap_or(grade.level),
            piece,
            is_preempted: piece.is_none() && situation.is_preempted(),
        })
    }

    /// Returns what of a row that cap or limit binds may be on the device beyond these, as a part of them in percent.
    fn ahead(&self, launch: &LaunchWork, row: &Row, (lends, slice_ns): (bool, u64)) -> u64 {
        let cuts = launch.control_offset.is_some();
        match (cuts, lends) {
            // It goes whole.
            (false, _) => ahead_percent(self.launch_ns, row),
            (true, true) => two_slices_percent(slice_ns, row),
            (true, false) => {
                let between = between_turns_percent(self.round(), row);
                ahead_percent(self.launch_ns, row).max(between)
            }
        }
    }

    fn behind(&self, lane: LaneId, launch: &LaunchWork) -> Behind {
        let last = self.lanes.last(lane);
        let blocks = last.map_or(0, |last| match last.row == Some(launch.row) {
            true => last.blocks,
            false => 0,
        });
        Behind {
            lane,
            depth: self.lanes.len(lane),
            blocks,
        }
    }

    /// Returns the lane with the fewest flights among those whose newest flight is a slice of this launch.
    fn own_lane(&self, slot: Slot, id: OperationId, launch: &LaunchWork) -> Option<Behind> {
        lanes_of(launch.lanes)
            .filter(|lane| self.lanes.has_room(*lane))
            .filter(|lane| {
                let last = self.lanes.last(*lane);
                last.is_some_and(|last| (last.slot, last.operation) == (slot, id))
            })
            .map(|lane| self.behind(lane, launch))
            .min_by_key(|behind| behind.depth)
    }

    fn issue_piece(&mut self, active: Active, piece: Piece, level: Level) -> Attempt {
        let Active {
            slot, id, tenant, ..
        } = active;
        let (now, budget_cycles) = (self.now, self.budget_cycles);
        let preempts = piece.behind.is_none() && self.preempts(level, tenant);
        let Some(client) = self.clients.get_mut(slot) else {
            return Attempt::NotItsTurn;
        };
        let domain = client.domain;
        let Some(Operation {
            work: Work::Launch(launch),
            sequence,
            ..
        }) = client.operations.get(id)
        else {
            return Attempt::NotItsTurn;
        };
        let slice = box_of(launch, &piece);
        // A box may hold fewer blocks than asked for.
        let blocks = u32::try_from(slice.blocks()).unwrap_or(u32::MAX);
        let block_ns = self.rows.get(launch.row).map_or(0, Row::lasts_ns);
        let flight = Flight {
            row: Some(launch.row),
            shape: launch.shape,
            first_block: launch.issued,
            blocks,
            charge: piece.charge.min(blocks),
            block_ns,
            work_ns: block_ns.saturating_mul(blocks.into()) / u64::from(launch.wave.max(1)),
            is_fresh: piece.behind.is_none(),
            preempts,
            ..Flight::new((slot, id), tenant, now)
        };
        let control = Control::slice(slice.offset, launch.grid).to_bytes();
        let control = launch.control_offset.map(|offset| (offset, &control[..]));
        let (launch, sequence) = (*launch, *sequence);
        let Some(params) = client.params.with_control(launch.params, control) else {
            return self.refuse_params(slot, id);
        };
        let tag = match piece.behind {
            Some(lane) => self.lanes.append(lane, flight),
            None => self.lanes.take(flight, level),
        };
        let Some(tag) = tag else {
            return Attempt::DeviceFull;
        };
        let command = Command::Launch(LaunchCommand {
            tag,
            level: self.lanes.level(tag.lane),
            launch: sequence,
            is_last: launch.issued + u64::from(blocks) == launch.blocks,
            domain,
            kernel: launch.kernel,
            grid: slice.dims,
            first_block: slice.offset,
            block: launch.block,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            budget_cycles,
            params_bytes: u32::try_from(params.len()).unwrap_or(u32::MAX),
        });
        if self.device.submit(&command, params).is_err() {
            self.lanes.release(tag, now);
            return Attempt::DeviceFull;
        }
        self.count_issued(active, tag, &flight);
        Attempt::Issued
    }

    /// Ends a launch whose control struct does not fit behind its parameters. The offset is the rewriter's, so this is
    /// an error of the service.
    fn refuse_params(&mut self, slot: Slot, id: OperationId) -> Attempt {
        if let Some((_, operation)) = self.operation_mut(slot, id) {
            operation.status = CompletionStatus::Internal;
        }
        Attempt::Issued
    }

    fn count_issued(&mut self, active: Active, tag: Tag, flight: &Flight) {
        let (now, wall_ns, device) = (self.now, self.issue_wall_ns(), self.device_id.0);
        let blocks = flight.blocks;
        self.take_turn(flight.tenant, flight.row);
        if let Some(account) = self.accounts.get_mut(active.tenant) {
            account.counters.slice();
            account.charged.add(&flight.shape, flight.charge);
        }
        self.accounts
            .change(active.tenant, 0, i32::from(flight.is_fresh));
        if let Some(row) = flight.row.and_then(|row| self.rows.get_mut(row)) {
            row.charged += flight.charge;
            row.starts += u64::from(blocks);
        }
        let Some((tenant, operation)) = self.operation_mut(active.slot, active.id) else {
            return;
        };
        operation.in_flight += 1;
        if operation.issued_wall_ns == 0 {
            operation.issued_wall_ns = wall_ns;
        }
        let sequence = operation.sequence;
        if let Work::Launch(launch) = &mut operation.work {
            launch.issued += u64::from(blocks);
            launch.lanes |= 1 << tag.lane.0;
            let args = ProbeArgs {
                tenant: tenant.0,
                device,
                kernel: launch.handle,
                seq: sequence,
                time_ns: now.0,
            };
            probes::slice_start(args, flight.first_block, u64::from(blocks));
        }
    }

    /// Wall time of handing something over, read once per turn.
    pub(super) fn issue_wall_ns(&mut self) -> u64 {
        *self.issue_wall_ns.get_or_insert_with(wall_ns)
    }

    /// Tells the policy once that a row has reached its cap.
    fn note_cap_reached(&mut self, id: RowId) {
        let at = self.now;
        let Some(row) = self.rows.get_mut(id) else {
            return;
        };
        let cap = self.policy.row(id, row.tenant).cap_total;
        let held_up = row.charged > 0 && row.charged >= cap;
        if held_up && !std::mem::replace(&mut row.cap_reached, true) {
            self.policy.tell(Event::CapReached { row: id, at });
        }
    }

    /// Lets virtual time pass once nobody has anything to add at this instant.
    pub(super) fn give_permit(&mut self) -> bool {
        if !self.device.has_virtual_clock() || self.permit_out || self.more_to_admit {
            return false;
        }
        // A kill takes effect at the instant at which it was decided, unless time passes already, however late the
        // device's queue has room for it.
        if self.lanes.has_kills_due() {
            return false;
        }
        // A launch that came behind one that was issued just now arrives at this instant.
        if !self.arrivals.is_empty() {
            return false;
        }
        // What was issued just now may have told the policy something: its answer belongs to this instant too, and so
        // does the answer of a client to what completed.
        let is_open = self.policy.is_instant_open() || !self.policy.catch_up();
        if is_open || !self.undelivered.is_empty() {
            return false;
        }
        let due = self.deferred.peek().map(|entry| entry.0.due);
        let awaited = [due, self.clock.ready(), self.submits_next()];
        let awaited = awaited.into_iter().flatten().min();
        let wake = self.policy.wake_at().filter(|wake| *wake > self.now);
        // With nothing on the device, a launch that the plan gives no room waits for the policy.
        let waits_for_plan = !self.accounts.busy.is_empty() && wake.is_some();
        if !self.lanes.any_busy() && awaited.is_none() && !waits_for_plan {
            return false;
        }
        let until = [awaited, wake].into_iter().flatten().min();
        let until = until.unwrap_or(Nanos(u64::MAX));
        self.permit_out = self
            .device
            .submit(&Command::PassTime { until }, &[])
            .is_ok();
        self.pause_asked = false;
        self.permit_out
    }
}

/// Returns the operation before a launch in its stream, if it was on the device when the launch became active and still
/// is.
fn before<'a, P>(client: &'a ClientSlot<P>, launch: &LaunchWork) -> Option<&'a Operation> {
    let (id, sequence) = launch.after?;
    let before = client.operations.get(id)?;
    (before.sequence == sequence && before.in_flight > 0).then_some(before)
}

/// Returns the blocks of a piece, as a box of the grid.
fn box_of(launch: &LaunchWork, piece: &Piece) -> SubBox {
    match u64::from(piece.blocks) == launch.blocks {
        true => SubBox {
            offset: [0; 3],
            dims: launch.grid,
        },
        false => next_box(Grid(launch.grid), launch.issued, piece.blocks),
    }
}

/// Returns the lane of a launch that is in one lane only.
pub(super) fn one_lane(operation: &Operation) -> Option<LaneId> {
    let Work::Launch(launch) = &operation.work else {
        return None;
    };
    let lane = u8::try_from(launch.lanes.trailing_zeros()).ok()?;
    (launch.lanes.count_ones() == 1).then_some(LaneId(lane))
}

/// Returns the lanes that are set in a mask.
fn lanes_of(mut mask: u32) -> impl Iterator<Item = LaneId> {
    std::iter::from_fn(move || {
        let lane = u8::try_from(mask.trailing_zeros()).ok()?;
        let left = mask.checked_sub(1)?;
        mask &= left;
        Some(LaneId(lane))
    })
}
